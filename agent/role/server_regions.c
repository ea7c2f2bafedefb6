// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 *   regions/current      the newest version: YAML, as under `regions` in a configuration, behind a line that says who made it and why
 *   regions/history/N    the same, of each version that was ever written here, and of the one of a file before the first
 *
 * A version that is not in the store is in use nowhere in the region, but for one of its configuration's file, if that is higher.
 */
#include "role/server_regions.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "role/last_rules.h"
#include "role/role.h"
#include "role/server.h"

#define PREFIX "regions/"
#define CURRENT PREFIX "current"

static void history_key(uint64_t version, char ret[64])
{
	snprintf(ret, 64, PREFIX "history/%020" PRIu64, version);
}

/* ---- what is in the store, is in use ---- */

static void outdated(struct lg_server *s, uint64_t version, const char *why)
{
	if (version <= s->newest_list)
		return;
	s->newest_list = version;
	lg_error("regions: version %" PRIu64 " of the list cannot be used here, so this region lends nothing as a home: %s", version, why);
}

static void life_end(struct lg_server *s, uint64_t version)
{
	s->list.is_leaving = true;
	s->stop_code = LG_LIFE_OVER;
	lg_info("regions: version %" PRIu64 " of the list takes the place of version %" PRIu64, version, s->config.regions_version);
	if (s->running)
		lg_server_escrow_finish(s, lg_slots_leave);
	else
		lg_loop_stop(s->loop, LG_LIFE_OVER);
}

static void follow(struct lg_server *s, const char *text, size_t len)
{
	_cleanup_free_ struct lg_config *list = calloc(1, sizeof(*list)), *mine = malloc(sizeof(*mine));
	struct lg_rules_text kept = { .text = (char *)(uintptr_t)text, .len = len };
	struct lg_complaint c = { 0 };
	int r;

	if (!list || !mine || lg_config_regions_parse(text, len, CURRENT, list, &c) < 0) {
		lg_error("store: the list of regions cannot be read: %s", c.text[0] ? c.text : strerror(ENOMEM));
		return;
	}
	if (list->regions_version == s->config.regions_version && !s->list.text.len)
		lg_text_add(&s->list.text, text, len);
	if (list->regions_version <= s->config.regions_version || s->list.is_leaving)
		return;
	*mine = s->config;
	r = lg_config_regions_take(mine, list, &c);
	if (r == 0)
		r = lg_rules_text_store(s->config.state_dir, LG_REGIONS_KEPT(LG_CONFIG_REGION), &kept);
	if (r == 0) {
		life_end(s, list->regions_version);
		return;
	}
	if (!c.text[0])
		lg_complain(&c, "%s cannot be written to %s: %s", LG_REGIONS_KEPT(LG_CONFIG_REGION), s->config.state_dir, strerror(-r));
	outdated(s, list->regions_version, c.text);
}

static void on_seen(void *arg, const char *key, const void *value, size_t len, uint64_t revision)
{
	struct lg_server *s = arg;

	if (strcmp(key, CURRENT) != 0)
		return;
	s->list.revision = revision;
	if (value)
		follow(s, value, len);
}

/* ---- writing ---- */

static void on_written(void *arg, int result)
{
	struct lg_server *s = arg;

	s->list.is_writing = false;
	if (s->list.is_offer)
		return;	/* the store shows what became of it; the sweep tries again */
	s->list.why[0] = '\0';
	if (result)
		snprintf(s->list.why, sizeof(s->list.why), "%s", result < 0 ? strerror(-result) : "another version came between");
}

/* The version that is in use goes on record with the first one that follows it. */
static int version_write(struct lg_server *s, const struct lg_text *text, uint64_t version, bool is_offer)
{
	_cleanup_text_ struct lg_text before = { 0 };
	struct lg_store_write writes[3] = { { .key = CURRENT, .value = text->s, .len = text->len, .if_revision = s->list.revision } };
	char keys[2][64];
	uint64_t revision;
	size_t len, n = 1;
	char one;

	history_key(version, keys[0]);
	writes[n++] = (struct lg_store_write){ .key = keys[0], .value = text->s, .len = text->len, .if_revision = LG_STORE_REVISION_ANY };
	history_key(s->config.regions_version, keys[1]);
	if (lg_store_get(s->store, keys[1], &one, 1, &len, &revision) == 1) {
		lg_text_addf(&before, "# of the configuration's file\n");
		lg_config_regions_format(&s->config, &before);
		writes[n++] = (struct lg_store_write){ .key = keys[1], .value = before.s, .len = before.len,
						       .if_revision = LG_STORE_REVISION_ANY };
	}
	if (!lg_text_ok(text) || !lg_text_ok(&before))
		return -ENOMEM;
	s->list.is_writing = true;
	s->list.is_offer = is_offer;
	if (lg_store_commit(s->store, writes, n, on_written, s) < 0)
		s->list.is_writing = false;
	return s->list.is_writing ? 0 : -EIO;
}

/* ---- other regions, and hosts ---- */

bool lg_server_regions_list(const struct lg_server *s, struct lg_region_list *ret_list)
{
	*ret_list = (struct lg_region_list){ .version = s->config.regions_version, .text = s->list.text.s, .len = s->list.text.len };
	return s->list.text.len && s->list.text.len <= LG_REGION_LIST_BYTES_MAX;
}

static void on_push(void *arg)
{
	struct lg_server *s = arg;
	struct lg_server_stream *stream;
	struct lg_region_list list;

	if (!s->running || !lg_server_regions_list(s, &list))
		return;
	for (size_t i = 0; i < s->hosts.n; i++) {
		LIST_FOREACH(stream, &s->hosts.v[i]->streams, link) {
			if (stream->is_waiting || stream->hello.regions_version >= list.version)
				continue;
			lg_lease_peer_regions(stream->peer, &list);
			stream->hello.regions_version = list.version;
		}
	}
}

void lg_server_regions_here(struct lg_server_stream *stream)
{
	struct lg_server *s = stream->holder->server;

	if (!stream->holder->is_region && stream->hello.regions_version < s->config.regions_version)
		lg_source_arm(s->list.pusher, 0);
}

void lg_server_regions_sweep(struct lg_server *s)
{
	struct lg_server_regions *m = &s->list;

	if (m->offer_version > s->config.regions_version && !m->is_writing && !m->is_leaving)
		version_write(s, &m->offer, m->offer_version, true);
}

void lg_server_regions_told(void *arg, struct lg_lease_peer *peer, const struct lg_region_list *list)
{
	_cleanup_free_ struct lg_config *got = calloc(1, sizeof(*got));
	const struct lg_server_stream *stream = lg_lease_peer_user(peer);
	struct lg_server *s = arg;
	struct lg_server_regions *m = &s->list;
	struct lg_complaint c = { 0 };

	if (!got || !stream || !stream->holder->is_region || list->version <= s->config.regions_version || list->version <= m->offer_version)
		return;
	if (lg_config_regions_parse(list->text, list->len, "a list of regions", got, &c) < 0 || got->regions_version != list->version) {
		lg_error("regions: what region %s says is version %" PRIu64 " of the list is none: %s", stream->holder->name, list->version,
			 c.text[0] ? c.text : "it says it is another one");
		return;
	}
	lg_info("regions: region %s has version %" PRIu64 " of the list", stream->holder->name, list->version);
	lg_text_fini(&m->offer);
	lg_text_add(&m->offer, list->text, list->len);
	m->offer_version = list->version;
	lg_server_regions_sweep(s);
}

/* ---- what was ---- */

size_t lg_server_regions_before(struct lg_server *s, uint64_t version, uint64_t names, char ret_names[LG_REGIONS_MAX][LG_NAME_LEN])
{
	_cleanup_free_ struct lg_config *was = calloc(1, sizeof(*was));
	_cleanup_free_ char *text = malloc(LG_STORE_VALUE_MAX);
	struct lg_complaint c = { 0 };
	uint64_t revision;
	char key[64];
	size_t len;

	history_key(version, key);
	if (!was || !text || lg_store_get(s->store, key, text, LG_STORE_VALUE_MAX, &len, &revision) != 0 ||
	    lg_config_regions_parse(text, len, key, was, &c) < 0 || was->regions_version != version || lg_list_of(was).names != names)
		return 0;
	for (size_t i = 0; i < was->n_regions; i++)
		memcpy(ret_names[i], was->regions[i].name, LG_NAME_LEN);
	return was->n_regions;
}

/* ---- the operator ---- */

struct asked {
	struct lg_server *s;
	const json_t *request;
	struct lg_config *list;		/* the next version; what else is in it is of no use */
	char what[LG_NAME_LEN + 32];
	json_int_t moved_permille;	/* of all keys, to another home */
	struct lg_complaint c;
};

static const char *word(const struct asked *a, const char *key)
{
	const char *value = json_string_value(json_object_get(a->request, key));

	return value ? value : "";
}

static bool flag(const struct asked *a, const char *key)
{
	return json_is_true(json_object_get(a->request, key));
}

static size_t homes_count(const struct lg_config *list)
{
	size_t n = 0;

	for (size_t i = 0; i < list->n_regions; i++)
		n += !list->regions[i].is_draining;
	return n;
}

static const struct lg_server_holder *holder_find(const struct lg_server *s, const char *name)
{
	for (size_t i = 0; i < s->regions.n; i++)
		if (strcmp(s->regions.v[i]->name, name) == 0)
			return s->regions.v[i];
	return NULL;
}

static bool is_here(const struct lg_server *s, const char *name)
{
	const struct lg_server_holder *h = holder_find(s, name);

	return strcmp(name, s->config.region) == 0 || (h && !LIST_EMPTY(&h->streams));
}

static struct lg_region_def *named(struct asked *a)
{
	const char *name = word(a, "name");
	char all[256] = "";

	for (size_t i = 0; i < a->list->n_regions; i++) {
		size_t used = strlen(all);

		if (strcmp(a->list->regions[i].name, name) == 0)
			return &a->list->regions[i];
		snprintf(all + used, sizeof(all) - used, "%s%s", used ? ", " : "", a->list->regions[i].name);
	}
	lg_complain(&a->c, "there is no region \"%.63s\": there are %s", name, all);
	return NULL;
}

static int op_add(struct asked *a)
{
	struct lg_region_def *region = &a->list->regions[a->list->n_regions];
	json_int_t hosts = json_integer_value(json_object_get(a->request, "hosts"));

	if (a->list->n_regions == LG_REGIONS_MAX)
		return lg_complain(&a->c, "there are %d regions, and no more can be", LG_REGIONS_MAX);
	*region = (struct lg_region_def){ .hosts = hosts > 0 && hosts <= LG_HOLDERS_MAX ? (uint32_t)hosts : 1 };
	snprintf(region->name, sizeof(region->name), "%s", word(a, "name"));
	snprintf(region->address, sizeof(region->address), "%s", word(a, "address"));
	a->list->n_regions++;
	a->moved_permille = 1000 / (json_int_t)homes_count(a->list);
	snprintf(a->what, sizeof(a->what), "region %s is added", region->name);
	return 0;
}

static int op_drain(struct asked *a, bool is_draining)
{
	struct lg_region_def *region = named(a);

	if (!region)
		return -EINVAL;
	if (region->is_draining == is_draining)
		return lg_complain(&a->c, "region %s is %sdraining already", region->name, is_draining ? "" : "not ");
	if (is_draining && homes_count(a->list) == 1)
		return lg_complain(&a->c, "region %s is the last home of keys: add another region first", region->name);
	if (is_draining && !is_here(a->s, region->name) && !flag(a, "lost"))
		return lg_complain(&a->c, "region %s is not connected, and would go on lending its keys to its own hosts until it hears of "
					  "this: bring it back, or, if it is gone for good, repeat with --lost",
				   region->name);
	a->moved_permille = 1000 / (json_int_t)(is_draining ? homes_count(a->list) : homes_count(a->list) + 1);
	region->is_draining = is_draining;
	snprintf(a->what, sizeof(a->what), "region %s %s", region->name, is_draining ? "drains" : "is a home again");
	return 0;
}

static int op_remove(struct asked *a)
{
	struct lg_region_def *region = named(a);

	if (!region)
		return -EINVAL;
	if (strcmp(region->name, a->s->config.region) == 0)
		return lg_complain(&a->c, "this is a server of region %s: ask one of another region to remove it", region->name);
	if (!region->is_draining && !flag(a, "lost"))
		return lg_complain(&a->c, "region %s is the home of keys: `leasegate regions drain %s` first; or, if it is gone for good, "
				   "repeat with --lost", region->name, region->name);
	if (!region->is_draining && homes_count(a->list) == 1)
		return lg_complain(&a->c, "region %s is the last home of keys: add another region first", region->name);
	if (!region->is_draining)
		a->moved_permille = 1000 / (json_int_t)homes_count(a->list);
	snprintf(a->what, sizeof(a->what), "region %s is removed", region->name);
	memmove(region, region + 1, (size_t)(&a->list->regions[a->list->n_regions] - region - 1) * sizeof(*region));
	a->list->n_regions--;
	return 0;
}

/*
 * A home that is cut off goes on lending by the list it has, to its own hosts, for as long as it does not hear of another one. A key that it
 * lends may be among those that move, to a home that waits for no longer than the longest lease.
 */
static int homes_check(struct asked *a)
{
	const struct lg_config *now = &a->s->config;

	for (size_t i = 0; i < now->n_regions; i++) {
		const char *name = now->regions[i].name;

		if (now->regions[i].is_draining || strcmp(name, word(a, "name")) == 0 || is_here(a->s, name))
			continue;
		return lg_complain(&a->c,
				   "region %s is not connected, and would go on lending to its own hosts keys that move by this: bring it "
				   "back; or, if it is gone for good, `leasegate regions remove %s --lost` first",
				   name, name);
	}
	return 0;
}

static int op_do(struct asked *a, const char *op)
{
	if (strcmp(op, "add") == 0)
		return op_add(a);
	if (strcmp(op, "drain") == 0)
		return op_drain(a, true);
	if (strcmp(op, "undrain") == 0)
		return op_drain(a, false);
	return strcmp(op, "remove") == 0 ? op_remove(a) : lg_complain(&a->c, "unknown command");
}

/* Of two that are lost one must be the first to be removed. */
static int op_run(struct asked *a, const char *op)
{
	int r = op_do(a, op);

	return r < 0 || !a->moved_permille || flag(a, "lost") ? r : homes_check(a);
}

/* The next version as a text, which is read again: what is refused is refused as in a file. */
static int next_text(struct asked *a, struct lg_text *text)
{
	_cleanup_free_ struct lg_config *again = calloc(1, sizeof(*again));
	time_t now = (time_t)(lg_clock_unix_ns() / LG_NS_PER_S);
	char by[LG_NAME_LEN], when[32];
	struct tm tm;

	if (!again)
		return -ENOMEM;
	snprintf(by, sizeof(by), "%.60s", *word(a, "by") ? word(a, "by") : "?");
	for (char *p = by; *p; p++)
		if ((unsigned char)*p < 32 || (unsigned char)*p > 126)
			*p = '?';
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
	lg_text_addf(text, "# %s, by %s: %s\n", when, by, a->what);
	lg_config_regions_format(a->list, text);
	if (!lg_text_ok(text))
		return -ENOMEM;
	if (text->len > LG_REGION_LIST_BYTES_MAX)
		return lg_complain(&a->c, "the list would have %zu bytes, of at most %d", text->len, LG_REGION_LIST_BYTES_MAX);
	return lg_config_regions_parse(text->s, text->len, "", again, &a->c);
}

static int change(struct asked *a, const char *op, struct lg_text *text)
{
	struct lg_server *s = a->s;
	int r;

	if (s->list.is_writing || s->list.is_leaving || s->list.offer_version > s->config.regions_version)
		return lg_complain(&a->c, "another version is on its way: again in a moment");
	if (lg_list_is_outdated(s))
		return lg_complain(&a->c, "this region has version %" PRIu64 " of the list, and another one version %" PRIu64,
				   s->config.regions_version, s->newest_list);
	a->list = malloc(sizeof(*a->list));
	if (!a->list)
		return -ENOMEM;
	*a->list = s->config;
	r = op_run(a, op);
	if (r < 0)
		return r;
	a->list->regions_version++;
	r = next_text(a, text);
	if (r < 0 || flag(a, "dry"))
		return r;
	lg_info("regions: version %" PRIu64 " of the list: %s", a->list->regions_version, a->what);
	return version_write(s, text, a->list->regions_version, false);
}

static json_t *change_json(struct lg_server *s, const json_t *request, const char *op)
{
	_cleanup_text_ struct lg_text text = { 0 };
	struct asked a = { .s = s, .request = request };
	int r = change(&a, op, &text);
	json_t *reply;

	if (r < 0)
		reply = json_pack("{s:b, s:s}", "ok", 0, "error", a.c.text[0] ? a.c.text : strerror(-r));
	else
		reply = json_pack("{s:b, s:I, s:s, s:I, s:s}", "ok", 1, "version", (json_int_t)a.list->regions_version, "what", a.what,
				  "moved_permille", a.moved_permille, "list", text.s);
	free(a.list);
	return reply;
}

static json_t *region_json(const struct lg_server *s, size_t i)
{
	const struct lg_region_def *def = &s->config.regions[i];
	const struct lg_server_holder *h = holder_find(s, def->name);
	const struct lg_server_stream *stream = h ? LIST_FIRST(&h->streams) : NULL;
	bool is_self = i == s->self;

	return json_pack("{s:s, s:s, s:i, s:s, s:b, s:b, s:I}", "name", def->name, "address", def->address, "hosts", (int)def->hosts, "state",
			 def->is_draining ? "draining" : "active", "self", is_self, "connected", is_self || stream, "version",
			 is_self ? (json_int_t)s->config.regions_version : stream ? (json_int_t)stream->hello.regions_version : 0);
}

static json_t *show_json(const struct lg_server *s)
{
	json_t *list = json_array();

	for (size_t i = 0; i < s->config.n_regions; i++)
		json_array_append_new(list, region_json(s, i));
	return json_pack("{s:b, s:I, s:I, s:s, s:b, s:s, s:b, s:o}", "ok", 1, "version", (json_int_t)s->config.regions_version, "newest",
			 (json_int_t)(s->newest_list > s->config.regions_version ? s->newest_list : s->config.regions_version), "from",
			 s->list.text.len ? "store" : "file", "busy", s->list.is_writing || s->list.is_leaving, "error", s->list.why, "settled",
			 s->slots.n_owned && lg_slots_are_settled(s), "regions", list);
}

static int history_one(void *arg, const char *key, const void *value, size_t len, uint64_t revision)
{
	const char *end = memchr(value, '\n', len), *text = value;
	json_int_t version = (json_int_t)strtoull(strrchr(key, '/') + 1, NULL, 10);

	(void)revision;
	if (end && text[0] == '#')
		json_array_append_new(arg, json_pack("{s:I, s:s%, s:s%}", "version", version, "what",
						     text + 2, (size_t)(end - text) - 2, "list", end + 1, len - (size_t)(end + 1 - text)));
	return 0;
}

static json_t *history_json(struct lg_server *s)
{
	json_t *list = json_array();
	int r = lg_store_each(s->store, PREFIX "history/", history_one, list);

	if (r == 0)
		return json_pack("{s:b, s:o}", "ok", 1, "history", list);
	json_decref(list);
	return json_pack("{s:b, s:s+}", "ok", 0, "error", "the history cannot be read: ", strerror(-r));
}

json_t *lg_server_regions_admin(struct lg_server *s, const json_t *request)
{
	const char *op = json_string_value(json_object_get(request, "op"));

	if (!op || strcmp(op, "show") == 0)
		return show_json(s);
	return strcmp(op, "history") == 0 ? history_json(s) : change_json(s, request, op);
}

/* ---- start and stop ---- */

int lg_server_regions_watch(struct lg_server *s)
{
	int r = lg_loop_add_timer(s->loop, on_push, s, &s->list.pusher);

	return r < 0 ? r : lg_store_watch(s->store, PREFIX, on_seen, s);
}

void lg_server_regions_stop(struct lg_server *s)
{
	lg_source_free(s->list.pusher);
	lg_text_fini(&s->list.text);
	lg_text_fini(&s->list.offer);
}
