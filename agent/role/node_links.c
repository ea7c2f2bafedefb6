// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Which interfaces are limited, and whether they are. The configuration names interfaces and patterns of names; each interface that
 * fits has a place here, those with an entry of their own also while they are not there. The news of the kernel only say what is due:
 * attaching takes milliseconds, and hundreds of interfaces may come at once, so it is done in slices between which leases go on.
 *
 * News can be lost, and what is attached can be taken away by others, who tell nobody. So each second what is not attached is tried
 * again, and what is attached is looked at in turn.
 */
#include "role/node.h"

#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "net/service.h"

#define TICK_NS	      (1 * LG_NS_PER_S)
#define SLICE_NS      (50 * LG_NS_PER_MS) /* of work before the loop has its turn, and of rest */
#define LOOKED_AT_MAX 256		  /* interfaces in one tick: all of them within four */

/* ---- what is wanted ---- */

static bool wants(const struct lg_interface *config, enum lg_hook hook)
{
	switch (hook) {
	case LG_HOOK_XDP: return config->xdp != LG_XDP_OFF;
	case LG_HOOK_TC_INGRESS: return config->tc;
	case LG_HOOK_TC_EGRESS: return config->tc_egress;
	case _LG_HOOK_N: break;
	}
	return false;
}

bool lg_node_links_wants(const struct lg_node_interface *i, enum lg_hook hook)
{
	return wants(i->config, hook);
}

static struct lg_node_interface *find(struct lg_node *n, const char *ifname)
{
	for (size_t i = 0; i < n->n_interfaces; i++)
		if (strcmp(n->interfaces[i].name, ifname) == 0)
			return &n->interfaces[i];
	return NULL;
}

/* A place for an interface, or NULL when all are taken. */
static struct lg_node_interface *add(struct lg_node *n, const char *ifname, const struct lg_interface *config)
{
	struct lg_node_interface *i = &n->interfaces[n->n_interfaces];

	if (n->n_interfaces == LG_ATTACH_MAX) {
		if (!n->n_without_place++)
			lg_error("%s: not attached: %d interfaces are limited already, which is all that one node can", ifname,
				 LG_ATTACH_MAX);
		return NULL;
	}
	memset(i, 0, sizeof(*i));
	snprintf(i->name, sizeof(i->name), "%s", ifname);
	i->config = config;
	n->n_interfaces++;
	return i;
}

/* Those of patterns stand behind those of names, so that filling the gap with the last one moves none of the latter. */
static void drop(struct lg_node *n, struct lg_node_interface *i)
{
	*i = n->interfaces[--n->n_interfaces];
}

/* ---- attaching ---- */

static int attach_as(struct lg_node *n, struct lg_node_interface *i, enum lg_hook hook, enum lg_attach_mode mode,
		     enum lg_kern_fail *ret_fail, struct lg_complaint *c)
{
	struct lg_attachment a;
	int r;

	r = lg_kern_attach(n->kern, i->name, hook, mode, &a, ret_fail, c);
	if (r < 0)
		return r;
	if (!a.adopted)
		i->fresh |= 1u << hook;
	if (i->mode[hook] == a.mode)
		return 0;
	i->mode[hook] = a.mode;
	n->stack_changed = true;
	lg_info("%s: %s at %s in mode %s (link %u, program %u)", i->name, a.adopted ? "adopted" : "attached", lg_hook_name(a.hook),
		lg_attach_mode_name(a.mode), a.link_id, a.prog_id);
	return 0;
}

/* Native, or generic where the driver refuses and the configuration allows it. What is attached as generic already stays so: to try
 * again would leave packets unlimited for a moment, at every start. */
static int attach_auto(struct lg_node *n, struct lg_node_interface *i, enum lg_kern_fail *ret_fail, struct lg_complaint *c)
{
	enum lg_attach_mode generic = i->config->shared ? LG_MODE_SHARED_GENERIC : LG_MODE_XDP_GENERIC;
	struct lg_attachment a;
	char why[sizeof(c->text)];
	int r;

	if (lg_kern_attached(n->kern, i->name, LG_HOOK_XDP, &a) == 1 && a.mode == generic)
		return attach_as(n, i, LG_HOOK_XDP, generic, ret_fail, c);
	r = attach_as(n, i, LG_HOOK_XDP, i->config->shared ? LG_MODE_SHARED_NATIVE : LG_MODE_XDP_NATIVE, ret_fail, c);
	if (r >= 0 || *ret_fail != LG_KERN_FEATURE)
		return r;
	memcpy(why, c->text, sizeof(why));
	r = attach_as(n, i, LG_HOOK_XDP, generic, ret_fail, c);
	if (r < 0)
		return r;
	lg_warn("%s: in generic XDP, slower than native and after the adapter's own work: %s", i->name, why);
	return 0;
}

static int attach_xdp(struct lg_node *n, struct lg_node_interface *i, enum lg_kern_fail *ret_fail, struct lg_complaint *c)
{
	const struct lg_interface *config = i->config;
	bool generic = config->xdp == LG_XDP_GENERIC;
	enum lg_attach_mode mode;

	if (config->xdp == LG_XDP_AUTO && !config->require_native)
		return attach_auto(n, i, ret_fail, c);
	if (config->shared)
		mode = generic ? LG_MODE_SHARED_GENERIC : LG_MODE_SHARED_NATIVE;
	else
		mode = generic ? LG_MODE_XDP_GENERIC : LG_MODE_XDP_NATIVE;
	return attach_as(n, i, LG_HOOK_XDP, mode, ret_fail, c);
}

struct search {
	struct lg_node *n;
	enum lg_hook hook;
	char found[LG_IFNAME_LEN];
};

/* Is it limited in the direction of the hook, or about to be? */
static bool is_limited(void *arg, const char *ifname)
{
	struct search *s = arg;
	const struct lg_node_interface *i = find(s->n, ifname);

	for (enum lg_hook hook = 0; i && hook < _LG_HOOK_N; hook++) {
		if (!wants(i->config, hook) || (hook == LG_HOOK_TC_EGRESS) != (s->hook == LG_HOOK_TC_EGRESS))
			continue;
		if (i->mode[hook] != LG_MODE_NONE || i->is_new) {
			snprintf(s->found, sizeof(s->found), "%s", ifname);
			return true;
		}
	}
	return false;
}

/* One packet is charged once: what an interface gets from another one that is limited is charged there. */
static bool is_charged_below(struct lg_node *n, const struct lg_node_interface *i, enum lg_hook hook, struct lg_complaint *c)
{
	struct search s = { .n = n, .hook = hook };

	if (!lg_links_below(n->links, i->ifindex, is_limited, &s))
		return false;
	lg_complain(c, "%s: not at %s: its packets pass %s, where they are charged already; to limit them here, leave out %s", i->name,
		    lg_hook_name(hook), s.found, s.found);
	return true;
}

static int attach_at(struct lg_node *n, struct lg_node_interface *i, enum lg_hook hook, enum lg_kern_fail *ret_fail, struct lg_complaint *c)
{
	if (hook == LG_HOOK_XDP)
		return attach_xdp(n, i, ret_fail, c);
	return attach_as(n, i, hook, LG_MODE_NONE, ret_fail, c);
}

/* Those at which an interface stays out because its packets are charged below. Of a pattern that is as it should be. */
static int settle(struct lg_node_interface *i, unsigned charged_below, const struct lg_complaint *c)
{
	bool said = strcmp(i->why, c->text) == 0;

	i->attached = !charged_below || i->config->is_pattern;
	i->charged_below = charged_below;
	if (!i->attached)
		return 1;
	if (charged_below && !said)
		lg_info("%s", c->text);
	snprintf(i->why, sizeof(i->why), "%s", charged_below ? c->text : "");
	return 0;
}

/* Returns 0, 1 when it stays out of a hook that the configuration asks for by name, with *c saying why, or negative errno. */
static int attach_all(struct lg_node *n, struct lg_node_interface *i, enum lg_kern_fail *ret_fail, struct lg_complaint *c)
{
	unsigned charged_below = 0;
	int r = 0;

	i->due = i->is_new = false;
	/* Without it rules that name the interface do not match there; everything else holds. */
	if (lg_kern_interface_learn(n->kern, i->name) < 0)
		lg_warn("%s: rules that name this interface do not match on it", i->name);
	for (enum lg_hook hook = 0; r >= 0 && hook < _LG_HOOK_N; hook++) {
		bool below = wants(i->config, hook) && is_charged_below(n, i, hook, c);

		if (below)
			charged_below |= 1u << hook;
		if (below || !wants(i->config, hook)) {
			lg_kern_detach(n->kern, i->name, hook);
			i->mode[hook] = LG_MODE_NONE;
		} else if (i->mode[hook] == LG_MODE_NONE) {
			r = attach_at(n, i, hook, ret_fail, c);
		}
	}
	if (r == 0)
		r = settle(i, charged_below, c);
	if (r == 0)
		lg_node_advise(n, i);
	return r;
}

/* Attaches after the start: a failure is said once per cause and tried again. */
static void retry(struct lg_node *n, struct lg_node_interface *i)
{
	struct lg_complaint c = { 0 };
	enum lg_kern_fail fail;

	if (attach_all(n, i, &fail, &c) == 0)
		return;
	/* It went while it was its turn, of which news are on their way. */
	if (!if_nametoindex(i->name))
		return;
	if (strcmp(i->why, c.text) != 0)
		lg_error("%s: not attached, tried again each second: %s", i->name, c.text);
	snprintf(i->why, sizeof(i->why), "%s", c.text);
}

/* Who gets packets from whom has changed: what is attached above something that is attached has to go, what stayed out may come. */
static void stack_check(struct lg_node *n)
{
	struct lg_complaint c;

	if (n->seen_changes == lg_links_changes(n->links) && !n->stack_changed)
		return;
	n->seen_changes = lg_links_changes(n->links);
	n->stack_changed = false;
	for (size_t i = 0; i < n->n_interfaces; i++) {
		struct lg_node_interface *in = &n->interfaces[i];

		for (enum lg_hook hook = 0; hook < _LG_HOOK_N; hook++)
			in->due |= (in->charged_below & (1u << hook)) ||
				   (in->mode[hook] != LG_MODE_NONE && is_charged_below(n, in, hook, &c));
	}
}

/* What is due, for a slice of time; the rest after a rest. */
static void work(void *arg)
{
	uint64_t until_ns = lg_clock_now_ns() + SLICE_NS;
	struct lg_node *n = arg;

	stack_check(n);
	for (size_t i = 0; i < n->n_interfaces; i++) {
		struct lg_node_interface *in = &n->interfaces[i];

		if (!in->due || !in->ifindex)
			continue;
		if (lg_clock_now_ns() >= until_ns) {
			lg_source_arm(n->links_timer, SLICE_NS);
			return;
		}
		retry(n, in);
	}
	lg_node_links_say(n);
}

/* ---- news ---- */

static void lost(struct lg_node_interface *i, const char *why)
{
	i->attached = false;
	i->charged_below = 0;
	memset(i->mode, 0, sizeof(i->mode));
	snprintf(i->why, sizeof(i->why), "%s", why);
}

static void came(struct lg_node *n, const char *ifname, uint32_t ifindex)
{
	const struct lg_interface *config = lg_config_interface(&n->config, ifname);
	struct lg_node_interface *i = find(n, ifname);

	if (!i && config)
		i = add(n, ifname, config);
	if (!i)
		return;
	/* Deleted and made again, and the former news were lost. */
	if (i->ifindex != ifindex)
		lost(i, "not attached yet");
	i->is_new |= i->ifindex != ifindex;
	i->ifindex = ifindex;
	i->due = !i->attached;
}

static void went(struct lg_node *n, const char *ifname, uint32_t ifindex)
{
	struct lg_node_interface *i = find(n, ifname);

	/* Another of this name has come already. */
	if (!i || i->ifindex != ifindex)
		return;
	/* Pins never outlive their interface. */
	for (enum lg_hook hook = 0; n->kern && hook < _LG_HOOK_N; hook++)
		lg_kern_detach(n->kern, ifname, hook);
	if (i->config->is_pattern) {
		if (i->attached)
			lg_info("%s: the interface is gone", ifname);
		drop(n, i);
		return;
	}
	if (i->attached)
		lg_warn("%s: the interface is gone; attached again when it is back", ifname);
	i->ifindex = 0;
	lost(i, "the interface is gone");
}

static void news(void *arg, const char *ifname, uint32_t ifindex, bool up)
{
	if (up)
		came(arg, ifname, ifindex);
	else
		went(arg, ifname, ifindex);
}

void lg_node_links_news(void *arg)
{
	struct lg_node *n = arg;
	int r = lg_links_read(n->links);

	if (r < 0)
		lg_error("cannot read the news of interfaces, tried again: %s", strerror(-r));
	work(n);
}

/* ---- looking after them ---- */

static bool is_complete(struct lg_node *n, struct lg_node_interface *i)
{
	struct lg_attachment a;

	for (enum lg_hook hook = 0; hook < _LG_HOOK_N; hook++) {
		int r = i->mode[hook] != LG_MODE_NONE ? lg_kern_attached(n->kern, i->name, hook, &a) : -EAGAIN;

		/* What cannot be told is left as it was. */
		if (r == 0 || (r == 1 && a.ifindex != i->ifindex))
			return false;
		if (r == 1)
			i->mode[hook] = a.mode;
	}
	return true;
}

/* One tick passes before it is attached again, so that the gap is seen in /readyz and in the metrics. */
static void look_at(struct lg_node *n, struct lg_node_interface *i)
{
	if (is_complete(n, i))
		return;
	lg_warn("%s: somebody detached our program; it is attached again", i->name);
	lost(i, "somebody detached our program");
}

static void take_in(void *arg, const char *ifname, uint32_t ifindex)
{
	if (!find(arg, ifname))
		came(arg, ifname, ifindex);
}

/* Being ready is said, and not being so, each time it changes. */
void lg_node_links_say(struct lg_node *n)
{
	char why[sizeof(n->interfaces[0].why) + 64];
	bool ready = lg_node_links_are_ready(n, why, sizeof(why));

	if (n->said && n->said_ready == ready)
		return;
	if (ready)
		lg_info("ready");
	else
		lg_warn("running, but not ready: %s", why);
	lg_service_status(ready ? "all interfaces are limited" : why);
	n->said = true;
	n->said_ready = ready;
}

void lg_node_links_tick(void *arg)
{
	size_t n_looks = 0;
	struct lg_node *n = arg;

	lg_node_links_news(n);
	/* There may be room by now. */
	if (n->n_without_place) {
		n->n_without_place = 0;
		lg_links_each(n->links, take_in, n);
	}
	for (size_t i = 0; i < n->n_interfaces; i++)
		n->interfaces[i].due |= !n->interfaces[i].attached || n->interfaces[i].charged_below;
	/* What is said of an interface changes seldom, and to look costs a millisecond: one of them each time. */
	if (n->n_interfaces && n->interfaces[n->next_advice++ % n->n_interfaces].attached)
		lg_node_advise(n, &n->interfaces[(n->next_advice - 1) % n->n_interfaces]);
	for (; n_looks < n->n_interfaces && n_looks < LOOKED_AT_MAX; n_looks++) {
		struct lg_node_interface *i = &n->interfaces[n->next_look++ % n->n_interfaces];

		look_at(n, i);
	}
	work(n);
}

/* ---- start and stop ---- */

int lg_node_links_check(struct lg_node *n, struct lg_complaint *c)
{
	for (size_t i = 0; i < n->config.n_interfaces; i++) {
		const struct lg_interface *config = &n->config.interfaces[i];
		struct lg_node_interface *in;

		if (config->is_pattern)
			continue;
		if (!config->wait && !if_nametoindex(config->name)) {
			lg_complain(c,
				    "interface %s: there is no such interface; compare `ip link` with the configuration's interfaces, or let "
				    "the node start without it (`wait: true`)",
				    config->name);
			return -ENODEV;
		}
		in = add(n, config->name, config);
		lost(in, "there is no such interface yet");
	}
	return 0;
}

/* What must be attached, or the node does not start: but for what is charged elsewhere. Of the rest only that we may do nothing at all. */
static bool is_fatal(const struct lg_node_interface *i, int r, enum lg_kern_fail fail)
{
	return r < 0 && (!i->config->wait || fail == LG_KERN_PRIVILEGE);
}

static int attach_first(struct lg_node *n, struct lg_node_interface *i, enum lg_kern_fail *ret_fail, struct lg_complaint *c)
{
	int r;

	r = attach_all(n, i, ret_fail, c);
	if (r == 0 || is_fatal(i, r, *ret_fail))
		return r;
	lg_error("%s: not attached, tried again each second: %s", i->name, c->text);
	snprintf(i->why, sizeof(i->why), "%s", c->text);
	c->text[0] = '\0';
	return 0;
}

static int it_went(const struct lg_node_interface *i, enum lg_kern_fail *ret_fail, struct lg_complaint *c)
{
	*ret_fail = LG_KERN_REFUSED;
	return lg_complain(c, "interface %s: it went while the node started", i->name);
}

static bool keep(void *arg, const char *ifname, enum lg_hook hook)
{
	const struct lg_node_interface *i = find(arg, ifname);

	return i && wants(i->config, hook);
}

int lg_node_links_start(struct lg_node *n, enum lg_kern_fail *ret_fail, struct lg_complaint *c)
{
	int r;

	r = lg_links_new(news, n, &n->links);
	if (r == 0)
		r = lg_links_read(n->links);
	if (r < 0)
		return lg_complain(c, "cannot watch the interfaces: %s", strerror(-r));
	r = 0;
	for (size_t i = 0; r == 0 && i < n->n_interfaces; i++) {
		struct lg_node_interface *in = &n->interfaces[i];

		if (in->ifindex)
			r = attach_first(n, in, ret_fail, c);
		else if (in->config->wait)
			lg_warn("%s: not attached: there is no such interface yet", in->name);
		else
			r = it_went(in, ret_fail, c);
	}
	if (r < 0)
		return r;
	*ret_fail = LG_KERN_REFUSED;
	r = lg_kern_detach_others(n->kern, keep, n);
	if (r < 0)
		return lg_complain(c, "cannot detach what the configuration no longer names: %s", strerror(-r));
	if (r > 0)
		lg_info("detached %d program%s that the configuration no longer asks for", r, r == 1 ? "" : "s");
	return 0;
}

int lg_node_links_sources(struct lg_node *n)
{
	int r;

	r = lg_loop_add_reader(n->loop, lg_links_fd(n->links), lg_node_links_news, n, &n->links_reader);
	if (r == 0)
		r = lg_loop_add_ticker(n->loop, TICK_NS, lg_node_links_tick, n, &n->links_ticker);
	return r < 0 ? r : lg_loop_add_timer(n->loop, work, n, &n->links_timer);
}

void lg_node_links_stop(struct lg_node *n, bool undo)
{
	lg_source_free(n->links_reader);
	lg_source_free(n->links_ticker);
	lg_source_free(n->links_timer);
	lg_links_free(n->links);
	/* Links that this process attached, in an instance that was there before. */
	for (size_t i = 0; n->kern && undo && i < n->n_interfaces; i++)
		for (enum lg_hook hook = 0; hook < _LG_HOOK_N; hook++)
			if (n->interfaces[i].fresh & (1u << hook))
				lg_kern_detach(n->kern, n->interfaces[i].name, hook);
}

/* ---- what they are ---- */

bool lg_node_links_are_ready(const struct lg_node *n, char *why, size_t len)
{
	for (size_t i = 0; i < n->n_interfaces; i++) {
		if (!n->interfaces[i].attached) {
			snprintf(why, len, "%s is not attached: %s", n->interfaces[i].name, n->interfaces[i].why);
			return false;
		}
	}
	if (n->n_without_place) {
		snprintf(why, len, "%zu interfaces that fit the configuration are not attached: %d are all that one node can",
			 n->n_without_place, LG_ATTACH_MAX);
		return false;
	}
	return true;
}
