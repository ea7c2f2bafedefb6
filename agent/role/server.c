// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The region role. Order at start: files, lock, store (the epoch of this life is durable before anybody hears it), then ports, then the
 * streams to the other regions.
 */
#include "role/server.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/log.h"
#include "lease/age.h"
#include "role/drop.h"
#include "rules/yaml.h"

#define SWEEP_PERIOD_NS (1 * LG_NS_PER_S)
#define PRUNE_PERIOD_NS (60 * LG_NS_PER_S)
#define LIFE_OVER 64	/* beside the exit codes: another life follows */

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
	int r;

	rule->next_succession = lg_succession_free(rule->next_succession);
	r = lg_succession_new(lg_clock_now_ns(), &rule->next_succession);
	for (size_t i = 0; r == 0 && i < s->regions.n; i++)
		if (s->regions.v[i]->listed)
			r = lg_succession_list(rule->next_succession, (uint32_t)i);
	return r;
}

/* A time at which a fixed window began: windows of all lives and machines begin at multiples of their length since 1970. */
static uint64_t origin_ns(const struct lg_server *s, uint64_t per_ns)
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
	if (rule->next_succession) {
		lg_succession_free(rule->succession);
		rule->succession = TAKE(rule->next_succession);
	}
	lg_server_escrow_rule(s, rule);
	rule->terms = TAKE(rule->next_terms);
	rule->home.terms = rule->region.terms = rule->terms;
	for (size_t i = 0; i < s->config.n_regions; i++)
		s->homes[i].holdings[rule - s->rules].terms = rule->terms;
	rule->home.origin_ns = rule->region.origin_ns = origin_ns(s, rule->terms->per_ns);
	rule->home.succession = rule->succession ? rule->succession : s->regions.succession;
	rule->region.succession = s->hosts.succession;
	rule->home.epoch = rule->region.epoch = s->epoch;
	rule->home.rand = rule->fingerprint ^ s->started_ns;
	rule->region.rand = ~rule->home.rand;
}

static void rule_free(struct lg_server_rule *rule)
{
	lg_succession_free(rule->succession);
	lg_succession_free(rule->next_succession);
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

/* ---- holders ---- */

__attribute__((format(printf, 2, 3))) static int refuse_hello(char *why, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, 128, fmt, ap);
	va_end(ap);
	return -EACCES;
}

static int hello_check(struct lg_server *s, const struct lg_lease_hello *hello, char *why)
{
	if (!hello->is_region)
		return strcmp(hello->region, s->config.region) == 0 ?
			       0 :
			       refuse_hello(why, "this is region %.60s: a host leases from its own", s->config.region);
	if (strcmp(hello->holder, s->config.region) == 0)
		return refuse_hello(why, "this is region %.60s itself: see the addresses in the list", s->config.region);
	if (lg_list_hello(s, hello))
		return refuse_hello(why, "version %llu of the region list is old: here it is %llu", (unsigned long long)hello->regions_version,
				    (unsigned long long)s->config.regions_version);
	for (size_t i = 0; i < s->config.n_regions; i++)
		if (strcmp(s->names[i], hello->holder) == 0)
			return 0;
	return refuse_hello(why, "region %.60s is not in the list here", hello->holder);
}

/* With TLS a holder may speak for itself alone. */
static int identity_check(struct lg_server *s, const struct lg_lease_peer *peer, const struct lg_lease_hello *hello, char *why)
{
	struct lg_tls_name name;

	if (!s->secure.tls)
		return 0;
	lg_lease_peer_identity(peer, &name);
	if (lg_secure_speaks_for(&name, hello->is_region ? hello->holder : hello->region, hello->is_region ? "" : hello->holder, why))
		return 0;
	s->n_impostors++;
	lg_warn("%s says it is %s %s, and %s: refused", lg_lease_peer_address(peer), hello->is_region ? "region" : "host", hello->holder, why);
	return -EACCES;
}

/* It is on the durable list: this is its stream from now on. */
static void holder_welcome(struct lg_server *s, struct lg_server_holder *h, struct lg_lease_peer *peer, const struct lg_lease_hello *hello,
			   struct lg_lease_welcome *welcome)
{
	if (h->peer)
		lg_lease_peer_close(h->peer, "replaced by a newer connection of the same name");
	h->peer = peer;
	h->n_lives += hello->incarnation > h->incarnation;
	h->incarnation = hello->incarnation;
	snprintf(welcome->lessor, sizeof(welcome->lessor), "%s", s->config.region);
	welcome->epoch = s->epoch;
	welcome->regions_version = s->config.regions_version;
	lg_server_rules_here(h, hello->wants_rules, &hello->rules);
	lg_info("%s %s is here (%s)", h->is_region ? "region" : "host", h->name, lg_lease_peer_address(peer));
}

static int on_hello(void *arg, struct lg_lease_peer *peer, const struct lg_lease_hello *hello,
		    struct lg_lease_welcome *welcome, char *why)
{
	struct lg_server *s = arg;
	struct lg_server_holder *h;
	int r;

	r = identity_check(s, peer, hello, why);
	if (r == 0)
		r = hello_check(s, hello, why);
	if (r < 0)
		return r;
	r = lg_holders_get(s, hello->is_region ? &s->regions : &s->hosts, hello->holder, &h);
	if (r < 0)
		return refuse_hello(why, "cannot note a new holder: %.60s", strerror(-r));
	if (hello->incarnation < h->incarnation)
		return refuse_hello(why, "a newer life of %.60s was here already", h->name);
	if (h->waiting)
		lg_lease_peer_close(h->waiting, "replaced by a newer connection of the same name");
	h->waiting = NULL;
	lg_lease_peer_set_user(peer, h);
	if (!h->listed) {
		h->waiting = peer;
		h->hello = *hello;
		return 1;
	}
	holder_welcome(s, h, peer, hello, welcome);
	return 0;
}

void lg_server_listed(struct lg_server *s, struct lg_server_holder *h, int result)
{
	struct lg_lease_peer *peer = h->waiting;
	struct lg_lease_welcome welcome = { 0 };

	h->waiting = NULL;
	if (!peer)
		return;
	if (result) {
		lg_lease_peer_answer(peer, NULL, "a new holder could not be noted: come again");
		return;
	}
	holder_welcome(s, h, peer, &h->hello, &welcome);
	lg_lease_peer_answer(peer, &welcome, NULL);
}

static void on_ask(void *arg, struct lg_lease_peer *peer, const struct lg_wire_key *key, const struct lg_ask *ask)
{
	if (lg_server_leads(arg))
		lg_server_ask(arg, lg_lease_peer_user(peer), key, ask);
}

static void synced(struct lg_succession *succession, const struct lg_server_holder *h, uint64_t forgot_ns)
{
	if (!succession)
		return;
	lg_succession_forgot(succession, forgot_ns);
	lg_succession_synced(succession, h->index);
}

static void on_synced(void *arg, struct lg_lease_peer *peer, uint64_t forgot_age_ms)
{
	struct lg_server_holder *h = lg_lease_peer_user(peer);
	struct lg_server *s = arg;
	struct lg_server_holders *kind = h->is_region ? &s->regions : &s->hosts;
	uint64_t forgot_ns = forgot_age_ms == LG_LEASE_REMEMBERS ? 0 : lg_age_end_ns(forgot_age_ms, lg_clock_now_ns());

	if (forgot_ns > kind->forgot_ns)
		kind->forgot_ns = forgot_ns;
	synced(kind->succession, h, forgot_ns);
	for (size_t i = 0; h->is_region && i < LG_RULES_MAX; i++)
		synced(s->rules[i].succession, h, forgot_ns);
}

static void on_batch_end(void *arg, struct lg_lease_peer *peer)
{
	if (lg_server_leads(arg))
		lg_server_heard(arg, lg_lease_peer_user(peer));
}

static void on_rules(void *arg, struct lg_lease_peer *peer, const struct lg_rules_state *state)
{
	(void)arg;
	lg_server_rules_heard(lg_lease_peer_user(peer), state);
}

static void on_gone(void *arg, struct lg_lease_peer *peer, const char *why)
{
	struct lg_server_holder *h = lg_lease_peer_user(peer);
	struct lg_server *s = arg;

	if (h && h->waiting == peer)
		h->waiting = NULL;
	if (!h || h->peer != peer)
		return;
	h->peer = NULL;
	h->gone_ns = lg_clock_now_ns();
	if (s->running)
		lg_info("%s %s is gone: %s", h->is_region ? "region" : "host", h->name, why);
}

/* ---- homes ---- */

static void home_up(void *arg, const struct lg_lease_welcome *welcome)
{
	struct lg_server_home *home = arg;
	const char *name = home->server->names[home->region];

	/* Its epochs are not those of the home we meant. */
	if (strcmp(welcome->lessor, name) != 0) {
		snprintf(home->why, sizeof(home->why), "its address leads to region %s: see the addresses in the list", welcome->lessor);
		lg_error("home %s: %s", name, home->why);
		return;
	}
	lg_info("home %s is up, epoch %u", welcome->lessor, welcome->epoch);
	lg_server_home_up(home, welcome->epoch);
	lg_server_flush(home->server);
}

static void home_down(void *arg, const char *why)
{
	struct lg_server_home *home = arg;
	struct lg_server *s = home->server;

	if (home->upstream.up || strcmp(home->why, why) != 0)
		lg_warn("home %s: %s; its keys drain what is leased", s->names[home->region], why);
	snprintf(home->why, sizeof(home->why), "%s", why);
	if (home->upstream.up)
		lg_server_home_down(home);
}

static void home_grant(void *arg, const struct lg_wire_key *key, const struct lg_grant *grant)
{
	lg_server_grant(arg, key, grant);
}

static void home_batch_end(void *arg)
{
	struct lg_server_home *home = arg;

	lg_server_flush(home->server);
}

static int homes_start(struct lg_server *s, struct lg_complaint *c)
{
	static const struct lg_lease_client_handlers handlers = { home_up, home_down, home_grant, home_batch_end, lg_server_rules_part };
	struct lg_lease_hello hello = { .is_region = true, .incarnation = s->epoch,
					.regions_version = s->config.regions_version };
	int r;

	snprintf(hello.holder, sizeof(hello.holder), "%s", s->config.region);
	snprintf(hello.region, sizeof(hello.region), "%s", s->config.region);
	for (size_t i = 0; i < s->config.n_regions; i++) {
		if (i == s->self)
			continue;
		r = lg_lease_client_new(s->loop, lg_config_dial(&s->config, s->names[i]), &hello, &handlers, &s->homes[i],
					&s->homes[i].client, c);
		if (r < 0)
			return r;
		if (s->secure.tls)
			lg_lease_client_secure(s->homes[i].client, s->secure.tls, s->names[i]);
	}
	lg_server_rules_say(s);
	lg_server_home_up(&s->homes[s->self], s->epoch);
	lg_holders_settle(s);
	return 0;
}

/* ---- the loop's callbacks ---- */

static void on_tick(void *arg)
{
	if (lg_server_leads(arg))
		lg_server_tick(arg);
}

static void on_sweep(void *arg)
{
	lg_server_sweep(arg);
	lg_server_escrow_sweep(arg);
	lg_server_journal_watch(arg);
	lg_holders_settle(arg);
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
	r = lg_server_reload(s, &c);
	if (r == 0)
		return;
	lg_complaint_format(&c, text, sizeof(text));
	if (r > 0)
		lg_info("reload: %s", text);
	else
		lg_error("reload: %s; nothing was changed", text);
}

static void stop(struct lg_server *s)
{
	lg_loop_stop(s->loop, LG_EXIT_OK);
}

static void on_stop(void *arg)
{
	lg_server_escrow_finish(arg, stop);
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
	return r;
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
		s->homes[i].upstream.rand = lg_clock_now_ns() + i;
		for (size_t slot = 0; slot < LG_RULES_MAX; slot++)
			s->homes[i].holdings[slot].upstream = &s->homes[i].upstream;
		if (strcmp(s->names[i], s->config.region) == 0)
			s->self = i;
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
	static const struct lg_lease_server_handlers handlers = { on_hello, on_ask, on_synced, on_batch_end, on_gone, on_rules };
	int r;

	r = lg_lease_server_new(s->loop, s->config.listen, &handlers, s, &s->service, c);
	if (r == 0 && s->secure.tls)
		lg_lease_server_secure(s->service, s->secure.tls);
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

/* This process leads: who may hold leases is read, and what this life is begins to be written. */
static void life_begin(struct lg_server *s)
{
	struct lg_complaint c = { 0 };
	int r;

	s->has_begun = true;
	s->started_ns = lg_clock_now_ns();
	s->started_unix_ns = lg_clock_unix_ns();
	r = lg_holders_start(s, &c);
	if (r < 0)
		lg_loop_stop(s->loop, start_failed(r, &c));
}

void lg_server_saved(struct lg_server *s)
{
	_cleanup_(lg_rules_free) struct lg_rules *rules = NULL;
	struct lg_complaint c = { 0 };
	int r;

	if (s->is_spoiled) {
		lg_loop_stop(s->loop, lg_store_leads_until_ns(s->store) ? LG_EXIT_REFUSED : LIFE_OVER);
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
	s->running = r == 0;
	if (r == 0)
		r = homes_start(s, &c);
	if (r < 0) {
		lg_loop_stop(s->loop, start_failed(r, &c));
		return;
	}
	lg_info("region %s: leasing at %s, epoch %u", s->config.region, s->config.listen, s->epoch);
	lg_info("ready");
}

bool lg_server_leads(struct lg_server *s)
{
	if (lg_clock_now_ns() < lg_store_leads_until_ns(s->store))
		return true;
	if (s->has_begun) {
		lg_error("store: this server leads no longer: it lends nothing from now on, and waits until it leads again");
		s->has_begun = s->running = false;
		lg_loop_stop(s->loop, LIFE_OVER);
	}
	return false;
}

static void on_store(void *arg)
{
	struct lg_server *s = arg;

	if (!s->has_begun && lg_server_leads(s))
		life_begin(s);
	else if (s->has_begun)
		lg_server_leads(s);
	else if (lg_store_is_ready(s->store, NULL) && lg_store_leader(s->store)[0])
		lg_info("store: %s leads region %s; this server takes over when it is gone", lg_store_leader(s->store), s->config.region);
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
	char path[640], who[128], host[64] = "";
	struct lg_store_options options = { .driver = s->config.store, .path = path, .who = who };
	char password[256] = "";
	int r;

	snprintf(path, sizeof(path), "%s/region.db", s->config.state_dir);
	if (strcmp(s->config.store, "etcd") == 0)
		snprintf(path, sizeof(path), "%s/%s/", s->config.etcd.prefix, s->config.region);
	if (gethostname(host, sizeof(host) - 1) < 0)
		snprintf(host, sizeof(host), "?");
	snprintf(who, sizeof(who), "%s, process %d", host, (int)getpid());
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
	r = lg_server_rules_watch(s);
	return r < 0 ? r : lg_store_lead(s->store);
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
	if (r == 0)
		r = server_drop(s, &c);
	return r < 0 ? start_failed(r, &c) : LG_EXIT_OK;
}

static void server_stop(struct lg_server *s)
{
	s->running = false;
	for (size_t i = 0; i < s->config.n_regions; i++)
		lg_lease_client_free(s->homes[i].client);
	lg_lease_server_free(s->service);
	lg_secure_stop(&s->secure);
	lg_server_keys_close(s);
	lg_admin_free(s->admin);
	lg_http_free(s->http);
	lg_source_free(s->ticker);
	for (size_t i = 0; i < s->n_sources; i++)
		lg_source_free(s->sources[i]);
	for (size_t i = 0; i < LG_RULES_MAX; i++)
		rule_free(&s->rules[i]);
	lg_server_journal_stop(s);
	lg_server_rules_stop(s);
	lg_store_free(s->store);
	lg_holders_stop(s);
	lg_rules_free(s->first_rules);
	lg_loop_free(s->loop);
	if (s->lock_fd >= 0)
		close(s->lock_fd);
}

/* One life of a server, from its start until it ends or leads no longer. */
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
	if (code == LG_EXIT_OK)
		code = lg_loop_run(s->loop);
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

	while (code == LIFE_OVER)
		code = life_run(args, &keeper, false);
	return code;
}
