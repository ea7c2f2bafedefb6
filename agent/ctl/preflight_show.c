// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ctl/preflight.h"

#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>

#define COLUMNS 110

/* ---- text ---- */

/* The text behind what was printed up to a column, broken between words. */
static void wrapped_print(size_t indent, const char *text)
{
	size_t column = indent;

	while (*text) {
		size_t len = strcspn(text, " ");

		if (column > indent && column + 1 + len > COLUMNS) {
			printf("\n%*s", (int)indent, "");
			column = indent;
		}
		column += (size_t)printf("%s%.*s", column > indent ? " " : "", (int)len, text);
		text += len + (text[len] == ' ');
	}
	putchar('\n');
}

static void finding_print(const struct lg_finding *finding)
{
	const struct lg_finding_kind *kind = &lg_finding_kinds[finding->id];
	char action[LG_ACTION_LEN];

	printf("  %-8s %-22s ", lg_severity_name(finding->severity), kind->name);
	wrapped_print(34, finding->text);
	if (finding->severity == LG_SEVERITY_OK)
		return;
	printf("           why: ");
	wrapped_print(16, kind->why);
	lg_finding_action(finding, action, sizeof(action));
	if (strcmp(action, "nothing") == 0)
		return;
	printf("           do:  ");
	wrapped_print(16, action);
}

/* All findings of one object, under its name. */
static void group_print(const struct lg_findings *f, enum lg_finding_scope scope, const char *object)
{
	bool begun = false;

	for (size_t i = 0; i < f->n; i++) {
		if (lg_finding_kinds[f->v[i].id].scope != scope || (object && strcmp(f->v[i].object, object) != 0))
			continue;
		if (!begun)
			printf("%s%s\n", scope == LG_ABOUT_INTERFACE ? "interface " : "", object ? object : "machine");
		begun = true;
		finding_print(&f->v[i]);
	}
}

/* Files one after the other, each once. */
static void files_print(const struct lg_findings *f)
{
	for (size_t i = 0; i < f->n; i++) {
		bool first = lg_finding_kinds[f->v[i].id].scope == LG_ABOUT_FILES;

		for (size_t k = 0; first && k < i; k++)
			first = strcmp(f->v[k].object, f->v[i].object) != 0;
		if (first)
			group_print(f, LG_ABOUT_FILES, f->v[i].object);
	}
}

static void text_print(const struct lg_preflight *p)
{
	static const char *const verdicts[] = {
		[LG_KERN_OK] = "leasegate can run here",
		[LG_KERN_REFUSED] = "what was asked for is refused",
		[LG_KERN_PRIVILEGE] = "a privilege is missing",
		[LG_KERN_FEATURE] = "the kernel lacks a feature",
		[LG_KERN_NO_BPFFS] = "there is no bpf file system",
	};
	size_t n[LG_SEVERITY_BLOCKER + 1] = { 0 };

	group_print(&p->findings, LG_ABOUT_MACHINE, NULL);
	files_print(&p->findings);
	for (size_t i = 0; i < p->n_interfaces; i++)
		group_print(&p->findings, LG_ABOUT_INTERFACE, p->interfaces[i].name);
	for (size_t i = 0; i < p->findings.n; i++)
		n[p->findings.v[i].severity]++;
	printf("%zu in the way, %zu warning%s, %zu note%s: %s\n", n[LG_SEVERITY_BLOCKER], n[LG_SEVERITY_WARNING],
	       n[LG_SEVERITY_WARNING] == 1 ? "" : "s", n[LG_SEVERITY_NOTE], n[LG_SEVERITY_NOTE] == 1 ? "" : "s",
	       verdicts[lg_findings_fail(&p->findings)]);
}

/* ---- JSON ---- */

static json_t *known_json(enum lg_known known)
{
	return known == LG_NOT_KNOWN ? json_null() : json_boolean(known == LG_YES);
}

static json_t *bytes_json(uint64_t bytes)
{
	return bytes == LG_NO_BOUND ? json_null() : json_integer((json_int_t)bytes);
}

static json_t *sysctl_json(int value)
{
	return value == LG_SYSCTL_NONE ? json_null() : json_integer(value);
}

static json_t *finding_json(const struct lg_finding *finding)
{
	const struct lg_finding_kind *kind = &lg_finding_kinds[finding->id];
	char action[LG_ACTION_LEN];

	lg_finding_action(finding, action, sizeof(action));
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:i}", "id", kind->name, "severity", lg_severity_name(finding->severity), "object",
			 finding->object, "found", finding->text, "why", kind->why, "do", action, "exit", (int)finding->fail);
}

static json_t *maps_json(const struct lg_machine_facts *m)
{
	json_t *list = json_array();

	for (size_t i = 0; i < m->n_maps; i++)
		json_array_append_new(list, json_pack("{s:s, s:I, s:b, s:I}", "name", m->maps[i].name, "entries",
						      (json_int_t)m->maps[i].max_entries, "grows",
						      (m->maps[i].flags & BPF_F_NO_PREALLOC) != 0, "bytes",
						      (json_int_t)lg_map_bytes(&m->maps[i], m->n_cpus)));
	return list;
}

static json_t *features_json(const struct lg_machine_facts *m)
{
	json_t *object = json_object();

	for (int i = 0; i < _LG_FEATURE_N; i++)
		json_object_set_new(object, lg_finding_kinds[i].name + strlen("feature-"), known_json(m->feature[i]));
	return object;
}

static json_t *machine_json(const struct lg_machine_facts *m)
{
	return json_pack("{s:s, s:I, s:{s:b, s:b, s:b, s:b}, s:b, s:b, s:o, s:o, s:b, s:b, s:o, s:o, s:o, s:s, s:{s:s, s:s, s:b}, s:o, s:o, "
			 "s:o, s:I, s:o}",
			 "release", m->release, "cpus", (json_int_t)m->n_cpus, "capabilities", "bpf", (m->caps & LG_CAP_BPF) != 0, "net_admin",
			 (m->caps & LG_CAP_NET_ADMIN) != 0, "perfmon", (m->caps & LG_CAP_PERFMON) != 0, "sys_admin",
			 (m->caps & LG_CAP_SYS_ADMIN) != 0, "user_namespace", m->in_user_namespace, "seccomp_filter", m->has_seccomp_filter,
			 "features", features_json(m), "programs_load", known_json(m->loads), "btf", m->has_btf, "libxdp", m->has_libxdp, "jit",
			 known_json(m->jits), "bpf_jit_harden", sysctl_json(m->jit_harden), "bpf_stats_enabled", sysctl_json(m->bpf_stats),
			 "lockdown", m->lockdown, "pins", "at", m->pins_at, "file_system", m->pins_on, "read_only", m->pins_read_only,
			 "memlock_bytes", bytes_json(m->memlock_bytes), "available_bytes", bytes_json(m->available_bytes), "cgroup_bytes",
			 bytes_json(m->cgroup_bytes), "maps_bytes", (json_int_t)lg_maps_bytes(m, true), "maps", maps_json(m));
}

static json_t *instance_json(const struct lg_instance_facts *i)
{
	static const char *const pinned[] = { [LG_PINNED_NOT_KNOWN] = NULL, [LG_PINNED_NOTHING] = "nothing", [LG_PINNED_OURS] = "ours",
					      [LG_PINNED_MISFIT] = "misfit", [LG_PINNED_OTHERS] = "others" };

	return json_pack("{s:s, s:s?, s:I, s:I}", "name", i->name, "pinned", pinned[i->pinned], "other_abi", (json_int_t)i->other_abi,
			 "attached", (json_int_t)i->n_links);
}

static json_t *programs_json(const struct lg_interface_facts *i)
{
	json_t *list = json_array();

	for (size_t k = 0; k < i->n_programs; k++) {
		const struct lg_program_facts *p = &i->programs[k];

		json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:s, s:b, s:I, s:I, s:s}", "hook", lg_hook_name(p->hook), "mode",
						      lg_attach_mode_name(p->mode), "id", (json_int_t)p->id, "name", p->name, "ours",
						      p->is_ours, "priority", (json_int_t)p->priority, "pid", (json_int_t)p->pid,
						      "process", p->process));
	}
	return list;
}

static json_t *interface_json(const struct lg_interface_facts *i)
{
	return json_pack("{s:s, s:I, s:s, s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:I, s:s, s:o, s:{s:o, s:o, s:o, s:o, s:o}, s:o}",
			 "name", i->name, "ifindex", (json_int_t)i->ifindex, "kind", i->kind, "driver", i->driver, "up", i->is_up, "mtu",
			 (json_int_t)i->mtu, "rx_queues", (json_int_t)i->rx_queues, "tx_queues", (json_int_t)i->tx_queues, "channels",
			 (json_int_t)i->channels, "channels_max", (json_int_t)i->channels_max, "master", i->master, "lower", i->lower,
			 "children", (json_int_t)i->n_children, "queueing", i->queueing, "xdp_features",
			 i->xdp_known == LG_YES ? json_integer((json_int_t)i->xdp_features) : json_null(), "offloads", "lro",
			 known_json(i->lro), "gro", known_json(i->gro), "rx_gro_hw", known_json(i->gro_hw), "rx_udp_gro_forwarding",
			 known_json(i->udp_gro), "rx_vlan_offload", known_json(i->rx_vlan), "programs", programs_json(i));
}

static int json_show(const struct lg_preflight *p)
{
	json_t *findings = json_array(), *interfaces = json_array();

	for (size_t i = 0; i < p->findings.n; i++)
		json_array_append_new(findings, finding_json(&p->findings.v[i]));
	for (size_t i = 0; i < p->n_interfaces; i++)
		json_array_append_new(interfaces, interface_json(&p->interfaces[i]));
	return lg_ctl_print(json_pack("{s:i, s:o, s:o, s:o, s:o}", "exit", (int)lg_findings_fail(&p->findings), "findings", findings,
				      "machine", machine_json(&p->machine), "instance", instance_json(&p->instance), "interfaces",
				      interfaces));
}

int lg_preflight_show(const struct lg_ctl *ctl, const struct lg_preflight *p)
{
	if (!ctl->json)
		text_print(p);
	else if (json_show(p) != LG_CTL_OK)
		return LG_CTL_REFUSED;
	return (int)lg_findings_fail(&p->findings);
}
