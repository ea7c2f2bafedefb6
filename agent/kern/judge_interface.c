// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * One interface, and what is to be done there. What is wanted by a configuration and cannot be is in the way; where it is only asked
 * what would be, the same is a note.
 *
 * Kernels from 6.3 say what a driver's XDP can do. For older ones, and for what no kernel says (whether the link is reset), there is a
 * table of drivers. It is general knowledge, not tried on each device and version: hence warnings, not refusals.
 */
#include "kern/judge.h"

#include <stdio.h>
#include <string.h>

#define ONE_BUFFER_MTU 3498 /* of a page of 4 KiB: less headroom, what the kernel keeps behind a frame, and the Ethernet header */

enum reset { RESET_NONE, RESET_QUEUES, RESET_LINK };
enum queues { QUEUES_ANY, QUEUES_CPUS, QUEUES_HALF, QUEUES_64 };

struct driver {
	const char *name;
	uint32_t major, minor;	/* kernel with native XDP */
	enum reset reset;	/* what attaching XDP does */
	enum queues queues;	/* what it needs */
	uint32_t mtu;		/* most with frames in one buffer */
};

static const struct driver drivers[] = {
#define LG_DRIVER(name, major, minor, reset, queues, mtu) { name, major, minor, RESET_##reset, QUEUES_##queues, mtu },
#include "kern/drivers.def"
};

/* Drivers that do it in no kernel. */
static const char *const without_xdp[] = { "bridge", "dummy", "e1000", "e1000e", "ipvlan", "macvlan", "r8169", "vxlan", "wireguard",
					   "802.1Q VLAN Support" };

struct judge {
	const struct lg_machine_facts *m;
	const struct lg_interface_facts *i;
	const struct lg_interface_wants *w;
	const struct driver *driver; /* NULL: not in the table */
	struct lg_findings *f;
};

#define ADD(id, severity, ...) lg_finding_add(j->f, LG_FINDING_##id, LG_SEVERITY_##severity, j->i->name, __VA_ARGS__)
/* What is in the way of XDP: as severe as said where XDP is wanted. */
#define ADD_XDP(id, severity, ...) lg_finding_add(j->f, LG_FINDING_##id, severity_xdp(j, LG_SEVERITY_##severity), j->i->name, __VA_ARGS__)

static bool wants_xdp(const struct judge *j)
{
	return j->w->xdp_native || j->w->xdp_generic;
}

static enum lg_severity severity_xdp(const struct judge *j, enum lg_severity severity)
{
	if (!wants_xdp(j))
		return LG_SEVERITY_NOTE;
	return severity == LG_SEVERITY_BLOCKER && j->w->may_wait ? LG_SEVERITY_WARNING : severity;
}

/* Native XDP is wanted, or it is asked what would be. */
static bool may_be_native(const struct judge *j)
{
	return j->w->xdp_native || (!j->w->is_configured && !j->w->xdp_generic);
}

static const char *driver_name(const struct lg_interface_facts *i)
{
	return i->driver[0] ? i->driver : i->kind;
}

static const struct driver *driver_find(const char *name)
{
	for (size_t i = 0; i < N_ELEMS(drivers); i++)
		if (strcmp(drivers[i].name, name) == 0)
			return &drivers[i];
	return NULL;
}

/* ---- what it is ---- */

static void judge_is(const struct judge *j)
{
	const struct lg_interface_facts *i = j->i;

	ADD(INTERFACE, OK, "%s%sdriver %s, MTU %u, %u receiving and %u sending queue%s", i->kind, i->kind[0] ? ", " : "",
	    driver_name(i)[0] ? driver_name(i) : "unknown", i->mtu, i->rx_queues, i->tx_queues, i->tx_queues == 1 ? "" : "s");
	if (!i->is_up)
		ADD(INTERFACE_DOWN, NOTE, "it is down");
}

/* ---- native XDP ---- */

/* Whether the driver does it: as the kernel says, else as is known. */
static enum lg_known does_native(const struct judge *j)
{
	const struct lg_machine_facts *m = j->m;

	if (j->i->xdp_known == LG_YES)
		return j->i->xdp_features & LG_XDP_BASIC ? LG_YES : LG_NO;
	if (j->driver)
		return m->major > j->driver->major || (m->major == j->driver->major && m->minor >= j->driver->minor) ? LG_YES : LG_NO;
	if (j->i->is_loopback)
		return LG_NO;
	for (size_t k = 0; k < N_ELEMS(without_xdp); k++)
		if (strcmp(without_xdp[k], driver_name(j->i)) == 0)
			return LG_NO;
	return LG_NOT_KNOWN;
}

static void judge_native(const struct judge *j)
{
	const char *name = driver_name(j->i)[0] ? driver_name(j->i) : "unknown";

	switch (does_native(j)) {
	case LG_YES: ADD(XDP_NATIVE, OK, "driver %s has it", name); break;
	case LG_NO:
		if (j->w->may_fall_back)
			ADD_XDP(XDP_NATIVE, WARNING, "driver %s has it not on this kernel: generic XDP takes its place", name);
		else
			ADD_XDP(XDP_NATIVE, BLOCKER, "driver %s has it not on this kernel", name);
		break;
	case LG_NOT_KNOWN: ADD_XDP(XDP_NATIVE, WARNING, "driver %s: not known", name); break;
	}
}

static bool does_several_buffers(const struct judge *j)
{
	return j->i->xdp_known == LG_YES && (j->i->xdp_features & LG_XDP_RX_SG);
}

static void judge_mtu(const struct judge *j)
{
	uint32_t most = j->driver ? j->driver->mtu : ONE_BUFFER_MTU;

	if (j->i->mtu <= most)
		ADD(XDP_MTU, OK, "%u: a frame fits into one buffer", j->i->mtu);
	else if (does_several_buffers(j))
		ADD(XDP_MTU, OK, "%u: the driver hands on frames of several buffers", j->i->mtu);
	else if (j->i->xdp_known == LG_YES && !j->w->may_fall_back)
		ADD_XDP(XDP_MTU, BLOCKER, "%u, and the driver does no frames of several buffers: more than some %u is refused", j->i->mtu,
			most);
	else
		ADD_XDP(XDP_MTU, WARNING, "%u: more than some %u is refused unless this driver does frames of several buffers%s", j->i->mtu,
			most, j->w->may_fall_back ? "; then generic XDP takes its place" : "");
}

static void judge_reset(const struct judge *j)
{
	if (!j->driver)
		return;
	switch (j->driver->reset) {
	case RESET_NONE: ADD(XDP_RESET, OK, "attaching XDP does not touch the link"); break;
	case RESET_QUEUES: ADD_XDP(XDP_RESET, NOTE, "attaching XDP to driver %s stops its queues for a moment", j->driver->name); break;
	case RESET_LINK: ADD_XDP(XDP_RESET, WARNING, "attaching XDP to driver %s resets it", j->driver->name); break;
	}
}

static void judge_queues(const struct judge *j)
{
	const struct lg_interface_facts *i = j->i;

	switch (j->driver ? j->driver->queues : QUEUES_ANY) {
	case QUEUES_ANY: return;
	case QUEUES_CPUS:
		if (i->channels_max && i->channels + j->m->n_cpus > i->channels_max) {
			ADD_XDP(XDP_QUEUES, WARNING, "%u in use and one more for each of %u CPUs are more than the %u there are", i->channels,
				j->m->n_cpus, i->channels_max);
			return;
		}
		break;
	case QUEUES_HALF:
		if (i->channels_max && 2 * i->channels > i->channels_max) {
			ADD_XDP(XDP_QUEUES, WARNING, "%u of %u are in use: driver %s wants half of them free", i->channels, i->channels_max,
				j->driver->name);
			return;
		}
		break;
	case QUEUES_64:
		if (j->m->n_cpus > 64) {
			ADD_XDP(XDP_QUEUES, WARNING, "driver %s has 64 for %u CPUs", j->driver->name, j->m->n_cpus);
			return;
		}
		break;
	}
	if (i->channels_max)
		ADD(XDP_QUEUES, OK, "%u of %u are in use", i->channels, i->channels_max);
}

static void judge_xdp_native(const struct judge *j)
{
	judge_native(j);
	if (does_native(j) == LG_NO)
		return;
	judge_mtu(j);
	judge_reset(j);
	judge_queues(j);
	if (j->i->lro == LG_YES || j->i->gro_hw == LG_YES)
		ADD_XDP(XDP_LRO, WARNING, "%s is on", j->i->lro == LG_YES ? "lro" : "rx-gro-hw");
	if (strcmp(j->i->kind, "veth") == 0)
		ADD(XDP_VETH, NOTE, "it is a veth");
}

/* ---- offloads ---- */

static void judge_offloads(const struct judge *j)
{
	const struct lg_interface_facts *i = j->i;
	bool tc = j->w->tc || j->w->tc_egress;

	if (j->w->xdp_generic && (i->gro == LG_YES || i->lro == LG_YES || i->gro_hw == LG_YES))
		ADD(XDP_SUPERFRAMES, WARNING, "generic XDP, and %s is on", i->lro == LG_YES ? "lro" : i->gro == LG_YES ? "gro" : "rx-gro-hw");
	if (i->rx_vlan == LG_YES && wants_xdp(j) && j->w->looks_at_vlan)
		ADD(VLAN_OFFLOAD, WARNING, "rx-vlan-offload is on, and rules look at VLAN tags");
	else if (i->rx_vlan == LG_YES && may_be_native(j))
		ADD(VLAN_OFFLOAD, NOTE, "rx-vlan-offload is on");
	if (j->w->paces && i->queueing[0] && !i->paces)
		ADD(PACING, WARNING, "rules pace, and its queueing discipline is %s", i->queueing);
	if (i->udp_gro == LG_YES)
		ADD(UDP_GRO, WARNING, "rx-udp-gro-forwarding is on");
	if (tc && i->lro == LG_YES)
		ADD(LRO, NOTE, "lro is on");
}

/* ---- programs ---- */

/* "program 12 (name, native, loaded by uid 0, held by x (pid 7))" */
static const char *program_text(const struct lg_program_facts *p, char *buf, size_t len)
{
	char owner[64] = "", holder[64] = "";

	if (!p->id) {
		snprintf(buf, len, "a filter of kind %s, priority %u", p->name[0] ? p->name : "unknown", p->priority);
		return buf;
	}
	if (p->name[0] && p->mode != LG_MODE_CLSACT)
		snprintf(owner, sizeof(owner), ", loaded by user %u", p->uid);
	if (p->pid)
		snprintf(holder, sizeof(holder), ", held by %s (pid %u)", p->process[0] ? p->process : "a process", p->pid);
	snprintf(buf, len, "program %u (%s, %s%s%s)", p->id, p->name[0] ? p->name : "name not known",
		 p->mode == LG_MODE_NONE ? "offloaded" : lg_attach_mode_name(p->mode), owner, holder);
	return buf;
}

static bool is_used(const struct judge *j, enum lg_hook hook)
{
	switch (hook) {
	case LG_HOOK_XDP: return wants_xdp(j);
	case LG_HOOK_TC_INGRESS: return j->w->tc;
	case LG_HOOK_TC_EGRESS: return j->w->tc_egress;
	case _LG_HOOK_N: break;
	}
	return false;
}

static void judge_foreign(const struct judge *j, const struct lg_program_facts *p)
{
	bool before_tcx = j->m->feature[LG_FEATURE_TCX] == LG_NO;
	char text[300];

	program_text(p, text, sizeof(text));
	if (p->hook == LG_HOOK_XDP && j->w->shared && strcmp(p->name, "xdp_dispatcher") == 0)
		ADD(FOREIGN_XDP, OK, "%s is libxdp's: leasegate joins those in it", text);
	else if (p->hook == LG_HOOK_XDP)
		ADD_XDP(FOREIGN_XDP, BLOCKER, "%s is attached", text);
	else if (p->mode == LG_MODE_TCX)
		ADD(FOREIGN_TCX, NOTE, "%s: %s", lg_hook_name(p->hook), text);
	else if (before_tcx && is_used(j, p->hook))
		ADD(FOREIGN_FILTER, WARNING, "%s: %s", lg_hook_name(p->hook), text);
	else
		ADD(FOREIGN_FILTER, NOTE, "%s: %s", lg_hook_name(p->hook), text);
}

static const struct lg_program_facts *own_find(const struct lg_interface_facts *i, enum lg_hook hook)
{
	for (size_t k = 0; k < i->n_programs; k++)
		if (i->programs[k].is_ours && i->programs[k].hook == hook)
			return &i->programs[k];
	return NULL;
}

static void judge_attach(const struct judge *j, enum lg_hook hook, const char *mode)
{
	const struct lg_program_facts *own = own_find(j->i, hook);

	if (own)
		ADD(ATTACH, OK, "%s is attached already (program %u, %s): it is replaced in place, nothing is detached", lg_hook_name(hook),
		    own->id, lg_attach_mode_name(own->mode));
	else
		ADD(ATTACH, OK, "%s will be attached, %s", lg_hook_name(hook), mode);
}

static void judge_shared(const struct judge *j)
{
	if (!j->m->has_libxdp) {
		ADD_XDP(SHARED, BLOCKER, "attach: shared, and libxdp is not installed");
	} else if (j->m->feature[LG_FEATURE_FREPLACE] == LG_NO) {
		ADD_XDP(SHARED, BLOCKER, "attach: shared, and this kernel lets no function of a program be replaced");
	} else {
		ADD(SHARED, OK, "libxdp is installed");
		judge_attach(j, LG_HOOK_XDP, "in libxdp's dispatcher");
	}
}

static void judge_programs(const struct judge *j)
{
	const char *tc = j->m->feature[LG_FEATURE_TCX] == LG_YES ? "by tcx, first of all there; the link is not touched"
			 : j->m->feature[LG_FEATURE_TCX] == LG_NO ? "as a filter of clsact, priority 10; the link is not touched"
								  : "at TC; the link is not touched";

	if (j->w->shared)
		judge_shared(j);
	else if (j->w->xdp_native)
		judge_attach(j, LG_HOOK_XDP, j->w->may_fall_back ? "native, or generic where the driver refuses" : "native");
	else if (j->w->xdp_generic)
		judge_attach(j, LG_HOOK_XDP, "generic: the link is not touched");
	if (j->w->tc)
		judge_attach(j, LG_HOOK_TC_INGRESS, tc);
	if (j->w->tc_egress)
		judge_attach(j, LG_HOOK_TC_EGRESS, tc);
	for (size_t k = 0; k < j->i->n_programs; k++)
		if (!j->i->programs[k].is_ours)
			judge_foreign(j, &j->i->programs[k]);
	if (!j->i->programs_known)
		ADD(HOOKS_UNKNOWN, NOTE, "programs at its hooks could not be listed");
}

/* ---- what stands on what ---- */

static void judge_stacked(const struct judge *j)
{
	const struct lg_interface_facts *i = j->i;

	if (i->master[0] && strcmp(i->port_kind, "bond") == 0)
		ADD(STACKED, NOTE, "a port of bond %s: XDP belongs here, and at each of its ports; TC sees all packets of the bond at %s",
		    i->master, i->master);
	else if (i->master[0])
		ADD(STACKED, NOTE, "a port of %s %s: only packets through this port are seen here", i->port_kind, i->master);
	if (strcmp(i->kind, "bond") == 0)
		ADD(STACKED, NOTE, "a bond of %u ports: native XDP here needs it of each of them", i->n_ports);
	if (i->lower[0])
		ADD(STACKED, NOTE, "stands on %s: packets pass there, too", i->lower);
	if (i->n_children)
		ADD(STACKED, NOTE, "%s%s stand%s on it: their packets pass here first, with their tags on", i->children[0],
		    i->n_children > 1 ? " and others" : "", i->n_children > 1 ? "" : "s");
}

void lg_judge_interface(const struct lg_machine_facts *m, const struct lg_interface_facts *i, const struct lg_interface_wants *w,
			struct lg_findings *f)
{
	struct judge judge = { m, i, w, driver_find(driver_name(i)), f }, *j = &judge;

	if (!i->ifindex) {
		if (w->may_wait)
			ADD(INTERFACE, NOTE, "there is no such interface yet: the node starts and waits for it");
		else
			ADD(INTERFACE, BLOCKER, "there is no such interface");
		return;
	}
	judge_is(j);
	judge_programs(j);
	if (may_be_native(j))
		judge_xdp_native(j);
	judge_offloads(j);
	judge_stacked(j);
}

/* ---- two interfaces ---- */

static bool comes_in(const struct lg_interface_wants *w)
{
	return w->tc || w->xdp_native || w->xdp_generic;
}

void lg_judge_above(const char *upper, const struct lg_interface_wants *w, const char *lower, const struct lg_interface_wants *lower_w,
		    struct lg_findings *f)
{
	enum lg_severity severity = w->is_pattern ? LG_SEVERITY_NOTE : LG_SEVERITY_WARNING;

	if (comes_in(w) && comes_in(lower_w))
		lg_finding_add(f, LG_FINDING_GIVES_WAY, severity, upper, "what comes in passes %s, where it is limited already", lower);
	if (w->tc_egress && lower_w->tc_egress)
		lg_finding_add(f, LG_FINDING_GIVES_WAY, severity, upper, "what goes out passes %s, where it is limited already", lower);
}
