// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The node role: brings up one host and keeps it up. Order at start: what can be refused without touching the kernel comes first
 * (files, lock, ports), then maps and programs, then rules, then interfaces, then the upstream; so that a refusal leaves nothing half
 * done, and no packet is judged before its rules are there.
 */
#include "role/node.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "net/service.h"
#include "role/drop.h"
#include "rules/action.h"
#include "rules/lines.h"

#define SWEEP_PERIOD_NS (5 * LG_NS_PER_S)
#define CONNS_PERIOD_NS (1 * LG_NS_PER_S)
#define RETIRED_MIN_NS (60 * LG_NS_PER_S)	/* rules that left are remembered at least this long */
#define SHARE_GRACE_NS (1 * LG_NS_PER_S)

static void complain_log(const struct lg_complaint *c)
{
	char text[1024];

	lg_complaint_format(c, text, sizeof(text));
	lg_error("%s", text);
}

/* ---- rules ---- */

static const struct lg_rule_def *def_by_name(const struct lg_rules *rules, const char *name)
{
	for (size_t i = 0; i < rules->n; i++)
		if (strcmp(rules->v[i].name, name) == 0)
			return &rules->v[i];
	return NULL;
}

static void rules_index(struct lg_node *n)
{
	const struct lg_rule_def *def;
	struct lg_fleet fleet;
	uint64_t tick_ns = 100 * LG_NS_PER_MS;
	uint32_t id;

	lg_fleet_init(&n->config, &fleet);
	memset(n->by_id, 0, sizeof(n->by_id));
	n->n_global = 0;
	for (uint32_t i = 0; i < n->set.n_rules; i++) {
		id = n->set.rules[i].rule_id;
		def = def_by_name(n->rules, n->names[id].name);
		if (!def)
			continue;
		n->by_id[id].def = def;
		n->by_id[id].fingerprint = lg_rule_fingerprint(def);
		if (def->scope != LG_SCOPE_GLOBAL)
			continue;
		n->n_global++;
		lg_terms_init(def, &fleet, &n->by_id[id].terms);
		if (n->by_id[id].terms.host_tick_ns < tick_ns)
			tick_ns = n->by_id[id].terms.host_tick_ns;
	}
	n->tick_ns = tick_ns;
}

/* What keys may start with, of the rules of a set. Returns whether any of it has changed. */
static bool cold_starts_set(const struct lg_node *n, const struct lg_rules *rules, const struct lg_rule_name *names, struct lg_ruleset *set)
{
	uint64_t now_ns = lg_clock_now_ns(), tok;
	const struct lg_rule_def *def;
	struct lg_fleet fleet;
	struct lg_terms terms;
	bool changed = false;

	lg_fleet_init(&n->config, &fleet);
	for (uint32_t i = 0; i < set->n_rules; i++) {
		def = def_by_name(rules, names[set->rules[i].rule_id].name);
		if (!def || def->scope != LG_SCOPE_GLOBAL)
			continue;
		lg_terms_init(def, &fleet, &terms);
		tok = lg_terms_cold_now_tok(&terms, n->forgot_until_ns, now_ns);
		changed |= set->rules[i].cold_start_tok != tok;
		set->rules[i].cold_start_tok = tok;
	}
	return changed;
}

/* Hosts whose maps were made anew let keys start with nothing until what an earlier life spent has been minted again. */
static void cold_starts_renew(struct lg_node *n)
{
	struct lg_ruleset set = n->set;
	int r;

	if (!cold_starts_set(n, n->rules, n->names, &set))
		return;
	set.version++;
	r = lg_kern_rules_load(n->kern, &set, NULL, n->names);
	if (r == 0)
		n->set = set;
	else
		lg_error("cannot load the rules' cold_start into the kernel: %s", strerror(-r));
}

/* A rule keeps the lines it has: a new size would make other buckets of them, all full. */
static void lines_warn(const struct lg_node *n)
{
	for (uint32_t i = 0; i < n->set.n_rules; i++) {
		const struct lg_rule *rule = &n->set.rules[i];
		const struct lg_rule_def *def = n->by_id[rule->rule_id].def;

		if (def && rule->n_lines && lg_lines_wanted(def) && lg_lines_wanted(def) != rule->n_lines)
			lg_warn("rule \"%s\": has room for %u keys and not for %u as written: that cannot change while it is in force; "
				"under another name it would start anew",
				def->name, rule->n_lines * LG_LINE_SLOTS, lg_lines_wanted(def) * LG_LINE_SLOTS);
	}
}

static bool is_configured(const struct lg_config *config, const struct lg_match *match)
{
	for (size_t i = 0; i < match->n_interfaces; i++)
		if (lg_config_interface(config, match->interfaces[i]))
			return true;
	return match->n_interfaces == 0;
}

/* Rules that no packet can match where this host enforces. */
static void hooks_warn(const struct lg_node *n)
{
	bool in = false, out = false;

	for (size_t i = 0; i < n->config.n_interfaces; i++) {
		in = in || n->config.interfaces[i].xdp != LG_XDP_OFF || n->config.interfaces[i].tc;
		out = out || n->config.interfaces[i].tc_egress;
	}
	for (size_t i = 0; i < n->rules->n; i++) {
		const struct lg_rule_def *def = &n->rules->v[i];

		if ((def->match.directions == 2 && !out) || (def->match.directions == 1 && !in))
			lg_warn("rule \"%s\" (line %u): matches nothing here: no interface of the configuration has %s", def->name, def->line,
				out ? "xdp or tc on" : "tc_egress: on");
		else if (!is_configured(&n->config, &def->match))
			lg_warn("rule \"%s\" (line %u): matches nothing here: its interfaces are not in the configuration", def->name,
				def->line);
	}
}

static int ticker_set(struct lg_node *n);

/* The rules are not in force, so their lists must not be either. */
static int lists_go_back(struct lg_node *n, struct lg_complaint *c)
{
	struct lg_complaint why = { 0 };

	if (n->rules && lg_node_lists_load(n, n->rules, &why) < 0)
		lg_complain(c, "neither could the rules of the file be loaded, nor the lists be put back to what they were: %s", why.text);
	return -EIO;
}

int lg_node_rules_compile(struct lg_node *n, struct lg_rules *rules, struct lg_ruleset *ret_set, struct lg_classifier *classifier,
			  struct lg_rule_name *ret_names, struct lg_complaint *c)
{
	struct lg_compile_env env = { .now_ns = lg_clock_now_ns(), .n_regions = (uint32_t)n->config.n_regions,
				      .hosts_in_region = lg_config_own_hosts(&n->config), .grace_ns = SHARE_GRACE_NS,
				      .max_rules = lg_kern_max_rules(n->kern) };
	static struct lg_ruleset old_set;
	static struct lg_rule_name old_names[LG_RULES_MAX + 1];
	const struct lg_gate_node self = { .name = n->config.name, .labels = n->config.labels, .n_labels = n->config.n_labels };
	static struct lg_own_exemptions own;
	int r;

	lg_rules_keep(rules, &self);
	r = lg_secret_apply(&n->secret_keys, rules, c);
	if (r == 0)
		r = lg_actions_check(rules, &n->config, c);
	if (r < 0)
		return r;
	r = lg_kern_rules_read(n->kern, &old_set, old_names);
	if (r < 0)
		return lg_complain(c, "cannot read the rules in the kernel: %s", strerror(-r));
	r = lg_kern_lines_max(n->kern, &env.n_lines);
	if (r < 0)
		return lg_complain(c, "cannot read the size of the table of lines in the kernel: %s", strerror(-r));
	env.old_set = &old_set;
	env.old_names = old_names;
	lg_node_exemptions(n, rules, &own);
	env.exemptions = own.v;
	env.n_exemptions = own.n;
	return lg_rules_compile(rules, &env, ret_set, classifier, ret_names, c);
}

int lg_node_rules_apply(struct lg_node *n, struct lg_rules *rules, const struct lg_node_reload *how, struct lg_complaint *c)
{
	_cleanup_free_ struct lg_classifier *classifier = NULL;
	static struct lg_ruleset new_set;
	static struct lg_rule_name new_names[LG_RULES_MAX + 1];
	bool is_again;
	int r;

	classifier = malloc(sizeof(*classifier));
	if (!classifier)
		return lg_complain(c, "not enough memory to compile the rules");
	r = lg_node_rules_compile(n, rules, &new_set, classifier, new_names, c);
	if (r == 0)
		r = lg_node_lockout_check(n, rules, &new_set, classifier, new_names, how, c);
	if (r == 0)
		r = lg_node_lists_load(n, rules, c);
	if (r < 0)
		return r;
	cold_starts_set(n, rules, new_names, &new_set);
	r = lg_kern_rules_load(n->kern, &new_set, classifier, new_names);
	if (r < 0) {
		lg_complain(c, "cannot load the rules into the kernel: %s", strerror(-r));
		return lists_go_back(n, c);
	}
	/* Leases of rules that left go back now; their buckets stay for a while, should the rule return (rules_forget). */
	for (uint32_t id = 1; id <= LG_RULES_MAX; id++)
		if (new_names[id].retired_ns && n->by_id[id].def)
			lg_node_rule_gone(n, id);
	is_again = rules == n->rules;
	if (!is_again)
		lg_rules_free(n->rules);
	n->rules = rules;
	n->set = new_set;
	memcpy(n->names, new_names, sizeof(n->names));
	/* Bans of rules that left, or ban no more, are over. */
	lg_node_lists_sweep(n);
	lg_node_exemptions(n, n->rules, &n->own);
	rules_index(n);
	if (!is_again) {
		lines_warn(n);
		hooks_warn(n);
		lg_node_conns_warn(n);
	}
	for (uint32_t id = 1; id <= LG_RULES_MAX; id++)
		if (n->by_id[id].def && n->by_id[id].def->scope == LG_SCOPE_GLOBAL)
			lg_node_rule_changed(n, id);
	return ticker_set(n);
}

/* Until its buckets are full again by time a rule that returns must find them as they were. */
static bool may_forget(const struct lg_node *n, uint32_t id, uint64_t now_ns)
{
	uint64_t linger_ns = RETIRED_MIN_NS;

	if (!n->names[id].retired_ns)
		return false;
	for (uint32_t i = n->set.n_rules; i < LG_RULES_MAX; i++) {
		const struct lg_rule *rule = &n->set.rules[i];
		double full_ns = rule->rate_tok ? (double)rule->burst_tok * (double)rule->per_ns / (double)rule->rate_tok : 0;

		/* For a clock that is fast, and packets that still saw the rule, as of what keys start with (lg_terms_cold_rest_ns()). */
		full_ns += full_ns / 500 + (double)LG_NS_PER_S;
		if (rule->rule_id == id && full_ns > (double)linger_ns)
			linger_ns = full_ns < (double)LG_PER_MAX_NS ? (uint64_t)full_ns : LG_PER_MAX_NS;
	}
	return now_ns >= n->names[id].retired_ns + linger_ns;
}

static void rules_forget(struct lg_node *n)
{
	uint64_t now_ns = lg_clock_now_ns();
	bool any = false;
	int r = 0;

	for (uint32_t id = 1; id <= LG_RULES_MAX && r >= 0; id++) {
		if (!may_forget(n, id, now_ns))
			continue;
		r = lg_kern_rule_forget(n->kern, id);
		if (r >= 0)
			memset(&n->names[id], 0, sizeof(n->names[id]));
		any = true;
	}
	if (any && r >= 0) {
		n->set.version++;
		r = lg_kern_rules_load(n->kern, &n->set, NULL, n->names);
	}
	if (r < 0)
		lg_error("cannot forget rules that left: %s", strerror(-r));
}

/* The rules of the file are in force, and for good: another start may need them. */
static void rules_keep(struct lg_node *n)
{
	struct lg_complaint c = { 0 };

	n->rules_why[0] = '\0';
	n->rules_kept = lg_last_rules_store(&n->config, &n->rules_text, &c) == 0;
	if (!n->rules_kept)
		lg_warn("%s: should the rules file be unusable at the next start, there is nothing to go on with", c.text);
	lg_node_trial_end(n);
}

/* At the start the rules last in force stand in for a file that cannot be used. Fails, and leaves *c, when there are none. */
static int rules_fall_back(struct lg_node *n, struct lg_rules **rules, struct lg_complaint *c)
{
	struct lg_complaint unused = { 0 };
	struct lg_rules *last = NULL;
	int r;

	r = n->rules_why[0] ? -ENOENT : lg_last_rules_read(&n->config, &last, &unused);
	if (r < 0)
		return r;
	lg_complaint_format(c, n->rules_why, sizeof(n->rules_why));
	lg_error("%s; the rules last in force go on until that is mended and reloaded", n->rules_why);
	*c = (struct lg_complaint){ 0 };
	lg_rules_free(*rules);
	*rules = last;
	n->rules_kept = true;
	return 0;
}

/* A daemon that ended while its rules were on trial comes back with those before them. */
static int rules_first(struct lg_node *n, struct lg_rules **rules, struct lg_complaint *c)
{
	struct lg_complaint of_file = { 0 };
	int r;

	if (n->config.rules_from_region)
		return lg_node_rules_first(n, rules, c);
	r = lg_rules_text_read(n->config.rules, &n->rules_text, rules, &of_file);
	if (r < 0 && rules_fall_back(n, rules, &of_file) < 0) {
		*c = of_file;
		return r;
	}
	if (r == 0 && lg_node_is_unconfirmed(n)) {
		lg_complain(&of_file, "nobody has confirmed these rules (`leasegate reload --confirm-timeout`)");
		if (rules_fall_back(n, rules, &of_file) < 0)
			lg_warn("%s, but there are no others", of_file.text);
	}
	lg_role_warn(*rules, &n->config);
	return 0;
}

/* Takes *rules on success. */
static int rules_first_apply(struct lg_node *n, struct lg_rules **rules, struct lg_complaint *c)
{
	int r;

	r = lg_node_rules_apply(n, *rules, NULL, c);
	if (r < 0 && !n->config.rules_from_region && rules_fall_back(n, rules, c) == 0)
		r = lg_node_rules_apply(n, *rules, NULL, c);
	if (r < 0)
		return r;
	*rules = NULL;
	if (!n->rules_why[0] && !n->config.rules_from_region)
		rules_keep(n);
	lg_rules_text_fini(&n->rules_text);
	return 0;
}

/* With the file's text in n->rules_text. Takes the rules on success. */
static int rules_load(struct lg_node *n, struct lg_rules *rules, const struct lg_node_reload *how, struct lg_complaint *c)
{
	bool was_on_trial = lg_node_is_unconfirmed(n);
	int r = 0;

	if (how && how->confirm_ns)
		r = lg_node_trial_begin(n, c);
	if (r == 0)
		r = lg_node_rules_apply(n, rules, how, c);
	if (r < 0) {
		if (how && how->confirm_ns && !was_on_trial)
			lg_node_trial_end(n);
		return r;
	}
	n->rules_why[0] = '\0';
	if (how && how->confirm_ns)
		lg_node_trial_run(n, how->confirm_ns);
	else
		rules_keep(n);
	return 0;
}

int lg_node_reload(struct lg_node *n, const struct lg_node_reload *how, struct lg_complaint *c)
{
	struct lg_rules *rules = NULL;
	int r;

	if (n->config.rules_from_region && how && how->confirm_ns)
		return lg_complain(c, "rules of the region are on trial by `leasegate rules apply --canary`");
	if (n->config.rules_from_region && (n->region_rules.doc || !n->config.rules[0]))
		return lg_role_no_reload(&n->config, n->region_rules.doc, c);
	r = lg_rules_text_read(n->config.rules, &n->rules_text, &rules, c);
	if (r == 0) {
		r = rules_load(n, rules, how, c);
		if (r < 0)
			lg_rules_free(rules);
		lg_rules_text_fini(&n->rules_text);
	}
	if (r < 0) {
		n->n_reloads_failed++;
		return r;
	}
	n->n_reloads_ok++;
	n->region_rules.file_why[0] = '\0';
	lg_role_warn(n->rules, &n->config);
	lg_node_pace_look(n);
	lg_info("rules loaded from %s: %u in force", n->config.rules, n->set.n_rules);
	return 0;
}

/* ---- the loop's callbacks ---- */

static void on_events(void *arg)
{
	struct lg_node *n = arg;

	if (lg_kern_events_read(n->kern, lg_node_event, n) > 0)
		lg_node_tick(n);
}

static void on_tick(void *arg)
{
	lg_node_tick(arg);
}

static void on_sweep(void *arg)
{
	lg_node_sweep(arg);
	lg_node_lists_sweep(arg);
	rules_forget(arg);
	cold_starts_renew(arg);
	lg_node_pace_look(arg);
}

static void on_hup(void *arg)
{
	struct lg_complaint c = { 0 };
	struct lg_node *n = arg;
	char text[1024];
	int r;

	lg_secure_look(&n->secure);
	lg_service_reloading();
	r = lg_node_reload(n, NULL, &c);
	lg_service_ready();
	if (r == 0)
		return;
	lg_complaint_format(&c, text, sizeof(text));
	if (r > 0)
		lg_info("reload: %s", text);
	else
		lg_error("reload: %s; nothing was changed", text);
}

static void on_stop(void *arg)
{
	struct lg_node *n = arg;

	lg_loop_stop(n->loop, LG_EXIT_OK);
}

static int ticker_set(struct lg_node *n)
{
	n->ticker = lg_source_free(n->ticker);
	return lg_loop_add_ticker(n->loop, n->tick_ns, on_tick, n, &n->ticker);
}

static int sources_start(struct lg_node *n)
{
	const struct {
		int signo;
		void (*fn)(void *arg);
	} signals[] = { { SIGHUP, on_hup }, { SIGTERM, on_stop }, { SIGINT, on_stop } };
	int r;

	for (size_t i = 0; i < N_ELEMS(signals); i++) {
		r = lg_loop_add_signal(n->loop, signals[i].signo, signals[i].fn, n, &n->sources[n->n_sources]);
		if (r < 0)
			return r;
		n->n_sources++;
	}
	r = lg_loop_add_reader(n->loop, lg_kern_events_fd(n->kern), on_events, n, &n->sources[n->n_sources]);
	if (r < 0)
		return r;
	n->n_sources++;
	r = lg_loop_add_ticker(n->loop, SWEEP_PERIOD_NS, on_sweep, n, &n->sources[n->n_sources]);
	if (r < 0)
		return r;
	n->n_sources++;
	r = lg_loop_add_ticker(n->loop, CONNS_PERIOD_NS, lg_node_conns_tick, n, &n->sources[n->n_sources]);
	if (r < 0)
		return r;
	n->n_sources++;
	r = lg_service_watch(n->loop, &n->sources[n->n_sources]);
	if (r < 0)
		return r;
	n->n_sources++;
	r = lg_node_links_sources(n);
	if (r == 0)
		r = lg_node_rules_start(n);
	if (r < 0)
		return r;
	return lg_loop_add_timer(n->loop, on_stop, n, &n->stopper);
}

/* ---- start and stop ---- */

/* Opens the kernel's part, and says what this host has forgotten: what was spent under maps of an earlier life. */
static int kern_start(struct lg_node *n, const struct lg_role_args *args, enum lg_kern_fail *ret_fail, struct lg_complaint *c)
{
	struct lg_kern_options o = lg_kern_options_of(&n->config);
	struct lg_life old = { 0 }, life = { .made_ns = lg_clock_now_ns(), .incarnation = lg_clock_unix_s() };
	struct lg_control control;
	char path[512];
	int r;

	snprintf(path, sizeof(path), "%s/life", n->config.state_dir);
	life.had_earlier = lg_life_read(path, &old);
	if (old.incarnation >= life.incarnation)
		life.incarnation = old.incarnation + 1;
	o.incarnation = life.incarnation;
	o.test_clock = args->test_clock;
	o.misfit = args->discard_state ? LG_MISFIT_DISCARD : args->migrate ? LG_MISFIT_MIGRATE : LG_MISFIT_REFUSE;
	r = lg_kern_open(&o, &n->kern, ret_fail, c);
	if (r < 0)
		return r;
	*ret_fail = LG_KERN_REFUSED;
	n->made_alone = r == 0;
	n->lists_noted = UINT64_MAX; /* whatever the state folder has may be old */
	if (r == 0 || r == 2) {
		lg_node_lists_restore(n);
		n->forgot_until_ns = life.had_earlier ? life.made_ns : 0;
		return lg_life_store(path, &life, c);
	}
	lg_info("instance %s: adopted the maps and links of an earlier agent%s%s", n->config.instance, c->text[0] ? ": " : "",
		c->text);
	c->text[0] = '\0';
	r = lg_kern_control_read(n->kern, &control);
	if (r < 0)
		return lg_complain(c, "cannot read the control words in the kernel: %s", strerror(-r));
	if (old.incarnation == control.incarnation && old.had_earlier)
		n->forgot_until_ns = old.made_ns;
	return 0;
}

static int outside_start(struct lg_node *n, struct lg_complaint *c)
{
	static const struct lg_http_handlers http = { lg_node_http, lg_role_http_trouble };
	char path[512];
	int r;

	if (n->keeper) {
		r = lg_http_start(n->loop, n->keeper, n->config.metrics, &http, n, &n->http, c);
		if (r < 0)
			return r;
	}
	snprintf(path, sizeof(path), "%s/node.sock", n->config.run_dir);
	return lg_admin_start(n->loop, path, lg_node_admin, n, &n->admin, c);
}

static int kernel_start(struct lg_node *n, const struct lg_role_args *args, struct lg_rules **rules,
			enum lg_kern_fail *ret_fail, struct lg_complaint *c)
{
	int r;

	r = kern_start(n, args, ret_fail, c);
	if (r < 0)
		return r;
	lg_node_reachable_set(n, false);
	r = lg_node_conns_start(n);
	if (r < 0)
		return lg_complain(c, "cannot write the timeouts of connections into the kernel: %s", strerror(-r));
	lg_node_exempt_start(n);
	r = rules_first_apply(n, rules, c);
	if (r < 0)
		return r;
	r = lg_kern_settle(n->kern);
	if (r < 0)
		return lg_complain(c, "cannot put this build's programs in the place of those before: %s; start again", strerror(-r));
	r = lg_node_links_start(n, ret_fail, c);
	if (r < 0)
		return r;
	*ret_fail = LG_KERN_REFUSED;
	r = lg_node_keys_adopt(n);
	if (r < 0)
		return lg_complain(c, "cannot take over the leases in the kernel: %s", strerror(-r));
	return 0;
}

/* All that needs privileges is done; what is needed from now on is kept. */
static int node_drop(const struct lg_node *n, struct lg_complaint *c)
{
	const struct lg_config *config = &n->config;
	const struct lg_drop_paths paths = { { config->rules, config->tls.ca, config->tls.certificate, config->tls.key },
					     { config->state_dir, config->run_dir, lg_kern_dir(n->kern) } };

	return lg_drop(config, LG_CONFIG_NODE, &paths, c);
}

/* Everything, in order. Returns an enum lg_exit; what was begun is undone by node_stop(). */
static int node_start(struct lg_node *n, const struct lg_role_args *args)
{
	_cleanup_(lg_rules_free) struct lg_rules *rules = NULL;
	enum lg_kern_fail fail = LG_KERN_REFUSED;
	struct lg_complaint c = { 0 };
	int r;

	if (!lg_role_read(args, LG_CONFIG_NODE, &n->config, NULL))
		return LG_EXIT_REFUSED;
	r = lg_role_keeper_start(&n->config, &n->keeper, &c);
	if (r == 0)
		r = lg_role_secret_read(&n->config, &n->secret_keys, &c);
	if (r == 0)
		r = rules_first(n, &rules, &c);
	if (r == 0)
		r = lg_node_links_check(n, &c);
	if (r == 0)
		r = lg_role_lock(&n->config, "node", &n->lock_fd, &c);
	if (r == 0)
		r = lg_table_new(sizeof(struct lg_key), LG_LEASE_KEYS_MAX, &n->keys);
	if (r == 0)
		r = lg_loop_new(&n->loop);
	if (r == 0)
		r = outside_start(n, &c);
	if (r == 0)
		r = kernel_start(n, args, &rules, &fail, &c);
	if (r == 0)
		r = sources_start(n);
	if (r == 0)
		r = lg_node_upstream_start(n, &c);
	if (r == 0)
		r = node_drop(n, &c);
	if (r < 0) {
		if (!c.text[0])
			lg_complain(&c, "cannot start: %s", strerror(-r));
		complain_log(&c);
		return fail == LG_KERN_REFUSED ? (int)lg_role_exit(r) : (int)fail;
	}
	lg_node_pace_look(n);
	n->running = true;
	return LG_EXIT_OK;
}

static void node_stop(struct lg_node *n, bool undo)
{
	enum lg_kern_fail fail;
	struct lg_complaint c = { 0 };

	n->running = false;
	lg_node_exempt_stop();
	if (!undo)
		lg_node_keys_close(n);
	else
		n->keys = lg_table_free(n->keys);
	lg_replicas_free(n->replicas);
	lg_secure_stop(&n->secure);
	lg_admin_free(n->admin);
	lg_http_free(n->http);
	lg_http_keeper_free(n->keeper);
	lg_source_free(n->ticker);
	lg_source_free(n->stopper);
	lg_source_free(n->trial_timer);
	n->region_rules.ender = lg_source_free(n->region_rules.ender);
	for (size_t i = 0; i < n->n_sources; i++)
		lg_source_free(n->sources[i]);
	lg_node_links_stop(n, undo);
	if (n->kern && !undo)
		lg_node_reachable_set(n, false);
	lg_node_recount_stop(n);
	lg_kern_free(n->kern);
	if (n->kern && undo && n->made_alone && lg_kern_detach_all(n->config.instance, NULL, &fail, &c) < 0)
		complain_log(&c);
	lg_loop_free(n->loop);
	lg_rules_free(n->rules);
	lg_node_rules_stop(n);
	lg_rules_text_fini(&n->rules_text);
	lg_rules_text_fini(&n->trial_text);
	if (n->lock_fd >= 0)
		close(n->lock_fd);
}

int lg_node_run(const struct lg_role_args *args)
{
	struct lg_node *n;
	int code;

	n = calloc(1, sizeof(*n));
	if (!n) {
		lg_error("out of memory");
		return LG_EXIT_REFUSED;
	}
	n->lock_fd = -1;
	n->started_ns = lg_clock_now_ns();
	code = node_start(n, args);
	if (code != LG_EXIT_OK) {
		node_stop(n, true);
		free(n);
		return code;
	}
	lg_node_links_say(n);
	lg_service_ready();
	code = lg_loop_run(n->loop);
	lg_service_stopping();
	if (code < 0) {
		lg_error("the event loop failed: %s", strerror(-code));
		code = LG_EXIT_REFUSED;
	}
	node_stop(n, false);
	free(n);
	return code;
}
