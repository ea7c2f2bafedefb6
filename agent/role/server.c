// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The region role. Order at start: files, lock, store (the epoch of this life is durable before anybody hears it), then ports, then the
 * streams to the other regions.
 */
#include "role/server.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/log.h"
#include "lease/age.h"
#include "net/service.h"
#include "role/drop.h"
#include "rules/yaml.h"

#define SWEEP_PERIOD_NS (1 * LG_NS_PER_S)
#define PRUNE_PERIOD_NS (60 * LG_NS_PER_S)

/* ---- rules ---- */

static struct lg_server_rule *rule_slot(struct lg_server *s, const char *name)
{
	struct lg_server_rule *free_slot = NULL;

	for (size_t i = 0; i < LG_RULES_MAX; i++) {
		if (strcmp(s->rules[i].def.name, name) == 0)
			return &s->rules[i];
		if (!free_slot && !s->rules[i].def.name[0])
			free_slot = &s->rules[i];
	}
	return free_slot;
}

/* A rule that became another one has keys whose past nobody knows under the new one: every region may hold tokens. */
static int rule_replace(struct lg_server *s, struct lg_server_rule *rule)
{
	int r = 0;

	for (uint32_t slot = 0; r == 0 && slot < LG_KEY_SLOTS; slot++) {
		struct lg_server_lessors *l = s->slots.v[slot].owned ? lg_slots_lessors(s, slot, (size_t)(rule - s->rules)) : NULL;

		if (s->slots.v[slot].owned && !l)
			return -ENOMEM;
		if (!l)
			continue;
		l->next_succession = lg_succession_free(l->next_succession);
		r = lg_holders_succession(&s->regions, &l->next_succession);
	}
	return r;
}

uint64_t lg_server_origin_ns(const struct lg_server *s, uint64_t per_ns)
{
	return (s->started_ns % per_ns + per_ns - s->started_unix_ns % per_ns) % per_ns;
}

static void rule_set(struct lg_server *s, struct lg_server_rule *rule, const struct lg_rule_def *def)
{
	struct lg_fleet fleet;

	if (!rule->def.name[0])
		lg_meter_init(&rule->meter, lg_clock_now_ns());
	rule->live = true;
	rule->def = *def;
	memset(&rule->def.match, 0, sizeof(rule->def.match)); /* its prefixes go with the file, and nothing here matches packets */
	rule->fingerprint = lg_rule_fingerprint(def);
	rule->identity = lg_rule_identity(def);
	lg_fleet_init(&s->config, &fleet);
	rule->next_terms = &rule->terms_of[rule->terms == &rule->terms_of[0]];
	lg_terms_init(def, &fleet, &rule->terms_of[rule->next_terms - rule->terms_of]);
}

/* The keys have changed: what is in force now is what they share. */
static void rule_enforce(struct lg_server *s, struct lg_server_rule *rule)
{
	if (!rule->next_terms)
		return;
	lg_server_escrow_rule(s, rule);
	rule->terms = TAKE(rule->next_terms);
	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++) {
		struct lg_server_lessors *l = s->slots.v[slot].lessors[rule - s->rules];

		if (!l)
			continue;
		if (l->next_succession) {
			lg_succession_free(l->succession);
			l->succession = TAKE(l->next_succession);
			l->home.succession = l->succession;
		}
		l->home.reserves = rule->reserves;
		l->home.terms = l->region.terms = rule->terms;
		l->home.origin_ns = l->region.origin_ns = lg_server_origin_ns(s, rule->terms->per_ns);
	}
}

static int ticker_set(struct lg_server *s);

int lg_server_enforce(struct lg_server *s, struct lg_rules *rules, struct lg_complaint *c)
{
	bool changed[LG_RULES_MAX] = { 0 }, replaced[LG_RULES_MAX] = { 0 }, seen[LG_RULES_MAX] = { 0 };
	const struct lg_rule_def *def;
	struct lg_server_rule *rule;
	size_t n_global = 0;
	int r = 0;

	for (size_t i = 0; i < rules->n; i++)
		n_global += rules->v[i].scope == LG_SCOPE_GLOBAL && !rule_slot(s, rules->v[i].name);
	r = lg_secret_apply(&s->secret_keys, rules, c);
	if (r < 0)
		return r;
	if (n_global)
		return lg_complain(c, "more than %d global rules, counting those that left the file since the start: restart the region",
				   LG_RULES_MAX);
	for (size_t i = 0; r == 0 && i < rules->n; i++) {
		def = &rules->v[i];
		if (def->scope != LG_SCOPE_GLOBAL)
			continue;
		rule = rule_slot(s, def->name);
		if (!rule)
			return lg_complain(c, "rule %s: more than %d global rules", def->name, LG_RULES_MAX);
		seen[rule - s->rules] = true;
		if (rule->def.name[0] && rule->identity != lg_rule_identity(def)) {
			replaced[rule - s->rules] = true;
			r = rule_replace(s, rule);
		}
		rule_set(s, rule, def);
		changed[rule - s->rules] = rule->terms && memcmp(rule->terms, rule->next_terms, sizeof(*rule->terms)) != 0;
	}
	for (size_t i = 0; i < LG_RULES_MAX; i++)
		if (!seen[i])
			s->rules[i].live = false;
	if (r < 0)
		return lg_complain(c, "cannot put the rules into force: %s", strerror(-r));
	lg_server_rules_changed(s, changed, replaced);
	for (size_t i = 0; i < LG_RULES_MAX; i++)
		rule_enforce(s, &s->rules[i]);
	lg_server_rules_enforced(s);
	lg_server_flush(s);
	return ticker_set(s);
}

int lg_server_reload(struct lg_server *s, struct lg_complaint *c)
{
	_cleanup_(lg_rules_free) struct lg_rules *rules = NULL;
	int r;

	if (lg_server_rules_are_made(s))
		return lg_role_no_reload(&s->config, s->rules_now.doc, c);
	r = lg_rules_read(s->config.rules, &rules, c);
	if (r == 0 && s->running) {
		r = lg_server_enforce(s, rules, c);
	} else if (r == 0) {
		lg_rules_free(s->first_rules);
		s->first_rules = TAKE(rules);
	}
	if (r < 0) {
		s->n_reloads_failed++;
		return r;
	}
	s->n_reloads_ok++;
	s->rules_now.file_why[0] = '\0';
	lg_info("rules loaded from %s", s->config.rules);
	return 0;
}

/* ---- what holders say ---- */

static void on_ask(void *arg, struct lg_lease_peer *peer, const struct lg_wire_key *key, const struct lg_ask *ask)
{
	if (lg_slots_are_ours(arg))
		lg_server_ask(arg, lg_lease_peer_user(peer), key, ask);
}

static void synced(struct lg_succession *succession, const struct lg_server_holder *h, uint64_t forgot_ns)
{
	if (!succession)
		return;
	lg_succession_forgot(succession, forgot_ns);
	lg_succession_synced(succession, h->index);
}

static void slot_synced(struct lg_server_slot *slot, const struct lg_server_holder *h, uint64_t forgot_ns)
{
	synced(h->is_region ? slot->regions : slot->hosts, h, forgot_ns);
	for (size_t i = 0; h->is_region && i < LG_RULES_MAX; i++)
		if (slot->lessors[i])
			synced(slot->lessors[i]->succession, h, forgot_ns);
}

/* epoch 0: whatever life it is in. */
static void slots_synced(struct lg_server *s, const struct lg_server_stream *from, const struct lg_slot_set *slots, uint64_t epoch,
			 uint64_t forgot_age_ms)
{
	struct lg_server_holders *kind = from->holder->is_region ? &s->regions : &s->hosts;
	uint64_t forgot_ns = forgot_age_ms == LG_LEASE_REMEMBERS ? 0 : lg_age_end_ns(forgot_age_ms, lg_clock_now_ns());

	if (forgot_ns > kind->forgot_ns)
		kind->forgot_ns = forgot_ns;
	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++) {
		struct lg_server_slot *v = &s->slots.v[slot];

		if (lg_slot_set_has(slots, slot) && v->owned && (!epoch || v->epoch == epoch) && lg_streams_of(from->holder, slot) == from)
			slot_synced(v, from->holder, forgot_ns);
	}
}

static void on_synced(void *arg, struct lg_lease_peer *peer, uint64_t forgot_age_ms)
{
	struct lg_slot_set all;

	lg_slot_set_fill(&all);
	slots_synced(arg, lg_lease_peer_user(peer), &all, 0, forgot_age_ms);
}

static void on_synced_slots(void *arg, struct lg_lease_peer *peer, const struct lg_slot_part *part, uint64_t forgot_age_ms)
{
	slots_synced(arg, lg_lease_peer_user(peer), &part->slots, part->number, forgot_age_ms);
}

static void on_batch_end(void *arg, struct lg_lease_peer *peer)
{
	const struct lg_server_stream *stream = lg_lease_peer_user(peer);

	if (lg_slots_are_ours(arg))
		lg_server_heard(arg, stream->holder);
}

static void on_rules(void *arg, struct lg_lease_peer *peer, const struct lg_rules_state *state)
{
	(void)arg;
	lg_server_rules_heard(lg_lease_peer_user(peer), state);
}

/* ---- the loop's callbacks ---- */

static void on_tick(void *arg)
{
	if (lg_slots_are_ours(arg))
		lg_server_tick(arg);
}

static void on_sweep(void *arg)
{
	lg_server_sweep(arg);
	lg_server_escrow_sweep(arg);
	lg_server_journal_watch(arg);
	lg_server_regions_sweep(arg);
	lg_slots_settle(arg);
}

static void on_prune(void *arg)
{
	lg_holders_prune(arg);
}

static void on_hup(void *arg)
{
	struct lg_complaint c = { 0 };
	struct lg_server *s = arg;
	char text[1024];
	int r;

	lg_secure_look(&s->secure);
	lg_service_reloading();
	r = lg_server_reload(s, &c);
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
	((struct lg_server *)arg)->stop_code = LG_EXIT_OK;
	lg_service_stopping();
	lg_server_escrow_finish(arg, lg_slots_leave);
}

/* The ticker beats at the shortest tick of the rules in force. */
static int ticker_set(struct lg_server *s)
{
	uint64_t tick_ns = 20 * LG_NS_PER_MS;

	for (size_t i = 0; i < LG_RULES_MAX; i++)
		if (s->rules[i].live && s->rules[i].terms->region_tick_ns < tick_ns)
			tick_ns = s->rules[i].terms->region_tick_ns;
	s->ticker = lg_source_free(s->ticker);
	return lg_loop_add_ticker(s->loop, tick_ns, on_tick, s, &s->ticker);
}

static int signals_start(struct lg_server *s)
{
	const struct {
		int signo;
		void (*fn)(void *arg);
	} all[] = { { SIGHUP, on_hup }, { SIGTERM, on_stop }, { SIGINT, on_stop } };
	int r = 0;

	for (size_t i = 0; r == 0 && i < N_ELEMS(all); i++)
		r = lg_loop_add_signal(s->loop, all[i].signo, all[i].fn, s, &s->sources[s->n_sources++]);
	return r < 0 ? r : lg_service_watch(s->loop, &s->sources[s->n_sources++]);
}

static int tickers_start(struct lg_server *s)
{
	int r;

	r = lg_loop_add_ticker(s->loop, SWEEP_PERIOD_NS, on_sweep, s, &s->sources[s->n_sources++]);
	return r < 0 ? r : lg_loop_add_ticker(s->loop, PRUNE_PERIOD_NS, on_prune, s, &s->sources[s->n_sources++]);
}

/* ---- start and stop ---- */

static int self_find(struct lg_server *s)
{
	for (size_t i = 0; i < s->config.n_regions; i++) {
		s->names[i] = s->config.regions[i].name;
		s->homes[i].server = s;
		s->homes[i].region = i;
		for (size_t slot = 0; slot < LG_KEY_SLOTS; slot++)
			s->homes[i].upstreams[slot].rand = lg_clock_now_ns() + LG_KEY_SLOTS * i + slot;
		if (strcmp(s->names[i], s->config.region) == 0)
			s->self = i;
		if (s->config.regions[i].is_draining)
			continue;
		s->home_index[s->n_homes] = i;
		s->home_names[s->n_homes++] = s->names[i];
	}
	return 0;
}

static int outside_start(struct lg_server *s, struct lg_complaint *c)
{
	static const struct lg_http_handlers http = { lg_server_http, lg_role_http_trouble };
	char path[512];
	int r;

	r = lg_secure_start(&s->secure, &s->config, "", s->loop, c);
	if (r == 0 && s->keeper)
		r = lg_http_start(s->loop, s->keeper, s->config.metrics, &http, s, &s->http, c);
	snprintf(path, sizeof(path), "%s/region.sock", s->config.run_dir);
	return r < 0 ? r : lg_admin_start(s->loop, path, lg_server_admin, s, &s->admin, c);
}

/* The door opens when all else is there: whoever comes in is served. */
static int service_start(struct lg_server *s, struct lg_complaint *c)
{
	static const struct lg_lease_server_handlers handlers = { lg_streams_hello, on_ask, on_synced, on_batch_end, lg_streams_gone,
								  on_synced_slots, lg_streams_lives, on_rules, lg_server_operator,
								  lg_server_regions_told };
	int r;

	r = lg_lease_server_new(s->loop, s->config.listen, &handlers, s, &s->service, c);
	if (r == 0 && s->secure.tls) {
		lg_lease_server_secure(s->service, s->secure.tls);
		lg_lease_server_operators(s->service, s->config.region);
	}
	return r;
}

static int start_failed(int r, struct lg_complaint *c)
{
	char text[1024];

	if (!c->text[0])
		lg_complain(c, "cannot start: %s", strerror(-r));
	lg_complaint_format(c, text, sizeof(text));
	lg_error("%s", text);
	return lg_role_exit(r);
}

/* Something to say as our epoch as long as no slot is ours. */
static int epoch_read(struct lg_server *s, struct lg_complaint *c)
{
	uint64_t stored = 1, revision;
	size_t len;
	int r = lg_store_get(s->store, "epoch", &stored, sizeof(stored), &len, &revision);

	if (r < 0)
		return lg_complain(c, "store: the epoch cannot be read: %s", strerror(-r));
	s->epoch = stored < 1 || stored > UINT32_MAX ? 1 : (uint32_t)stored;
	return 0;
}

/* Who owns what and who may hold leases is read; what must be durable before anything is lent begins to be written. */
static void life_begin(struct lg_server *s)
{
	struct lg_complaint c = { 0 };
	int r;

	s->has_begun = true;
	s->started_ns = lg_clock_now_ns();
	s->started_unix_ns = lg_clock_unix_ns();
	r = lg_holders_start(s, &c);
	if (r == 0)
		r = epoch_read(s, &c);
	if (r == 0)
		lg_past_start(s);
	if (r == 0)
		r = lg_server_escrow_start(s, &c);
	if (r < 0)
		lg_loop_stop(s->loop, start_failed(r, &c));
	else if (!s->n_unsaved)
		lg_server_saved(s);
}

void lg_server_saved(struct lg_server *s)
{
	_cleanup_(lg_rules_free) struct lg_rules *rules = NULL;
	struct lg_complaint c = { 0 };
	int r;

	if (s->is_spoiled) {
		lg_loop_stop(s->loop, lg_store_is_shared(s->store) ? LG_LIFE_OVER : LG_EXIT_REFUSED);
		return;
	}
	r = lg_server_journal_start(s, &c);
	if (r == 0)
		r = lg_server_rules_first(s, &rules, &c);
	if (r == 0)
		r = lg_server_enforce(s, rules, &c);
	if (r == 0)
		r = tickers_start(s);
	if (r == 0)
		r = service_start(s, &c);
	if (r == 0)
		r = lg_homes_start(s, &c);
	s->running = r == 0;
	if (r == 0)
		r = lg_slots_start(s, &c);
	if (r < 0)
		lg_loop_stop(s->loop, start_failed(r, &c));
}

static void on_store(void *arg)
{
	struct lg_server *s = arg;

	if (!s->has_begun && lg_store_is_ready(s->store, NULL))
		life_begin(s);
	else if (s->running)
		lg_slots_look(s);
}

/* The first line of a file. */
static int password_read(const char *path, char *buf, size_t len, struct lg_complaint *c)
{
	FILE *f = fopen(path, "re");
	bool is_read = f && fgets(buf, (int)len, f);

	if (f)
		fclose(f);
	if (!is_read) {
		snprintf(c->file, sizeof(c->file), "%s", path);
		lg_complain(c, "no password can be read from this file: %s", f ? "it is empty" : strerror(errno));
		return -EINVAL;
	}
	buf[strcspn(buf, "\r\n")] = '\0';
	return 0;
}

static int store_start(struct lg_server *s, struct lg_complaint *c)
{
	char path[640], witness[640];
	struct lg_store_options options = { .driver = s->config.store, .path = path, .witness = witness };
	char password[256] = "";
	int r;

	snprintf(path, sizeof(path), "%s/region.db", s->config.state_dir);
	snprintf(witness, sizeof(witness), "%s/region.store", s->config.run_dir);
	if (strcmp(s->config.store, "etcd") == 0)
		snprintf(path, sizeof(path), "%s/%s/", s->config.etcd.prefix, s->config.region);
	for (; options.n_endpoints < s->config.etcd.n_endpoints; options.n_endpoints++)
		options.endpoints[options.n_endpoints] = s->config.etcd.endpoints[options.n_endpoints];
	options.tls = s->config.etcd.tls ? s->secure.tls : NULL;
	options.user = s->config.etcd.user[0] ? s->config.etcd.user : NULL;
	options.password = password;
	r = options.user ? password_read(s->config.etcd.password_file, password, sizeof(password), c) : 0;
	if (r == 0)
		r = lg_store_open(s->loop, &options, on_store, s, &s->store, c);
	explicit_bzero(password, sizeof(password));
	if (r < 0)
		return r;
	if (strcmp(s->config.store, "memory") == 0)
		lg_warn("store: memory forgets at a restart who holds leases: a restart may then admit a budget twice; use sqlite");
	r = lg_server_regions_watch(s);
	return r < 0 ? r : lg_server_rules_watch(s);
}

/* A descriptor for each holder: as many as the process may have. */
static void descriptors_raise(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		lg_warn("cannot raise the limit of open files: %s", strerror(errno));
}

/* All that needs privileges is done. */
static int server_drop(const struct lg_server *s, struct lg_complaint *c)
{
	const struct lg_config *config = &s->config;
	const struct lg_drop_paths paths = {
		{ config->rules, config->tls.ca, config->tls.certificate, config->tls.key, config->etcd.password_file },
		{ config->state_dir, config->run_dir },
	};

	return lg_drop(config, LG_CONFIG_REGION, &paths, c);
}

/* One for all lives: a later one has a process that read the key of its certificate, and may not change a child's user. */
static int keeper_get(struct lg_server *s, struct lg_http_keeper **keeper, bool is_first, struct lg_complaint *c)
{
	int r = is_first ? lg_role_keeper_start(&s->config, keeper, c) : 0;

	if (r == 0 && !*keeper && strcmp(s->config.metrics, "off") != 0)
		lg_warn("metrics: they were off when this process started: restart it to have them");
	s->keeper = strcmp(s->config.metrics, "off") == 0 ? NULL : *keeper;
	return r;
}

/* Up to where a life begins once the store says so. */
static int server_start(struct lg_server *s, const struct lg_role_args *args, struct lg_http_keeper **keeper, bool is_first)
{
	struct lg_complaint c = { 0 };
	int r;

	if (!lg_role_read(args, LG_CONFIG_REGION, &s->config, &s->first_rules))
		return LG_EXIT_REFUSED;
	descriptors_raise();
	r = keeper_get(s, keeper, is_first, &c);
	if (r == 0)
		r = lg_role_secret_read(&s->config, &s->secret_keys, &c);
	lg_slots_name(s->slots.name);
	if (r == 0)
		r = self_find(s);
	if (r == 0)
		r = lg_role_lock(&s->config, "region", &s->lock_fd, &c);
	if (r == 0)
		r = lg_table_new(sizeof(struct lg_key), LG_LEASE_KEYS_MAX, &s->region_keys);
	if (r == 0)
		r = lg_table_new(sizeof(struct lg_key), LG_LEASE_KEYS_MAX, &s->home_keys);
	if (r == 0)
		r = lg_loop_new(&s->loop);
	if (r == 0)
		r = signals_start(s);
	if (r == 0)
		r = outside_start(s, &c);
	if (r == 0)
		r = store_start(s, &c);
	/* Of the whole process: a later life finds it done. */
	if (r == 0 && is_first)
		r = server_drop(s, &c);
	return r < 0 ? start_failed(r, &c) : LG_EXIT_OK;
}

static void server_stop(struct lg_server *s)
{
	s->running = false;
	lg_homes_stop(s);
	lg_lease_server_free(s->service);
	lg_secure_stop(&s->secure);
	lg_server_keys_close(s);
	lg_slots_stop(s);
	lg_admin_free(s->admin);
	lg_http_free(s->http);
	lg_source_free(s->ticker);
	for (size_t i = 0; i < s->n_sources; i++)
		lg_source_free(s->sources[i]);
	lg_server_journal_stop(s);
	lg_server_rules_stop(s);
	lg_server_regions_stop(s);
	lg_store_free(s->store);
	lg_holders_stop(s);
	lg_rules_free(s->first_rules);
	lg_loop_free(s->loop);
	if (s->lock_fd >= 0)
		close(s->lock_fd);
}

/* One life of a server, from its start until it ends or begins anew. */
static int life_run(const struct lg_role_args *args, struct lg_http_keeper **keeper, bool is_first)
{
	struct lg_server *s;
	int code;

	s = calloc(1, sizeof(*s));
	if (!s) {
		lg_error("out of memory");
		return LG_EXIT_REFUSED;
	}
	s->lock_fd = -1;
	code = server_start(s, args, keeper, is_first);
	if (code == LG_EXIT_OK) {
		lg_service_ready();
		lg_service_status("started; leases once it owns keys");
		code = lg_loop_run(s->loop);
	}
	if (code < 0) {
		lg_error("the event loop failed: %s", strerror(-code));
		code = LG_EXIT_REFUSED;
	}
	server_stop(s);
	free(s);
	return code;
}

int lg_server_run(const struct lg_role_args *args)
{
	_cleanup_(lg_http_keeper_free) struct lg_http_keeper *keeper = NULL;
	int code = life_run(args, &keeper, true);

	while (code == LG_LIFE_OVER)
		code = life_run(args, &keeper, false);
	return code;
}
