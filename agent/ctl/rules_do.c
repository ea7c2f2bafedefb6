// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ctl/rules_do.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/num.h"
#include "ctl/peers.h"
#include "rules/document.h"
#include "rules/tree.h"
#include "rules/yaml.h"

#define DURABLE_S 15	/* for a version to be in the store: a cluster that has no leader may take so long */
#define NODES_S 3	/* for all nodes to have said what became of it */
#define POLL_MS 10
#define TOO_LATE (-1)

struct doing {
	const struct lg_ctl *ctl;
	const char *op;
	const char *target;	/* the file, rule or version */
	json_t *request;	/* owned */
};

/* ---- arguments ---- */

static int for_read(struct doing *d, const char *text)
{
	struct lg_complaint c = { 0 };
	uint64_t ns;

	if (lg_duration_parse(text, LG_NS_PER_S, LG_RULES_OVERRIDE_MAX_MS * LG_NS_PER_MS, &ns, &c) < 0)
		return lg_ctl_fail(d->ctl, LG_CTL_USAGE, "rules %s --for %s: %s", d->op, text, c.text);
	json_object_set_new(d->request, "for_ms", json_integer((json_int_t)(ns / LG_NS_PER_MS)));
	return 0;
}

/* --canary 10% and --to tier=canary */
static int gate_read(struct doing *d, const char *option, const char *text)
{
	bool is_label = strcmp(option, "--to") == 0;
	struct lg_complaint c = { 0 };
	struct lg_gate gate;

	if (json_object_get(d->request, "gate"))
		return lg_ctl_usage(d->ctl, "rules", "--canary with --to");
	if (lg_gate_parse(text, &gate, &c) < 0)
		return lg_ctl_fail(d->ctl, LG_CTL_USAGE, "rules %s %s: %s", d->op, option, c.text);
	if (is_label != (gate.label[0] != '\0'))
		return lg_ctl_fail(d->ctl, LG_CTL_USAGE, "rules %s %s %s: --canary takes a percentage such as 10%%, --to a label and its value "
							 "such as tier=canary", d->op, option, text);
	json_object_set_new(d->request, "gate", json_string(text));
	return 0;
}

static int number_read(struct doing *d, const char *text)
{
	struct lg_complaint c = { 0 };
	uint64_t version;

	if (lg_num_parse(text, 1, INT64_MAX, &version, &c) < 0)
		return lg_ctl_fail(d->ctl, LG_CTL_USAGE, "rules %s %s: expected the number of a version: %s", d->op, text, c.text);
	json_object_set_new(d->request, "version", json_integer((json_int_t)version));
	return 0;
}

/* limit=500/1s and burst=100 */
static bool setting_read(struct doing *d, const char *text)
{
	static const char *const keys[] = { "limit", "burst" };

	for (size_t i = 0; i < N_ELEMS(keys); i++) {
		size_t len = strlen(keys[i]);

		if (strncmp(text, keys[i], len) == 0 && text[len] == '=') {
			json_object_set_new(d->request, keys[i], json_string(text + len + 1));
			return true;
		}
	}
	return false;
}

/* Which of them go with which op. */
static bool takes(const struct doing *d, const char *ops)
{
	size_t len = strlen(d->op);

	for (const char *at = strstr(ops, d->op); at; at = strstr(at + len, d->op))
		if ((at == ops || at[-1] == ' ') && (at[len] == ' ' || !at[len]))
			return true;
	return false;
}

/* 0, or an exit code. */
static int argument(struct doing *d, int argc, char **argv, int *i)
{
	const char *text = argv[*i], *value = *i + 1 < argc ? argv[*i + 1] : NULL;

	if (strcmp(text, "--yes") == 0 && takes(d, "apply set reset rollback promote")) {
		json_object_set_new(d->request, "peers", json_array());
		json_object_set_new(d->request, "forced", json_true());
		return 0;
	}
	if (strcmp(text, "--for") == 0 && value && takes(d, "set disable shadow"))
		return for_read(d, argv[++*i]);
	if ((strcmp(text, "--canary") == 0 || strcmp(text, "--to") == 0) && value && takes(d, "apply set disable shadow"))
		return gate_read(d, text, argv[++*i]);
	if (text[0] != '-' && !d->target && takes(d, "apply set disable shadow reset rollback show")) {
		d->target = text;
		return 0;
	}
	if (d->target && takes(d, "set") && setting_read(d, text))
		return 0;
	return lg_ctl_usage(d->ctl, "rules", text);
}

static int target_check(struct doing *d)
{
	if (takes(d, "apply set disable shadow reset") && !d->target)
		return lg_ctl_fail(d->ctl, LG_CTL_USAGE, "rules %s: of which %s? (try leasegate rules --help)", d->op,
				   takes(d, "apply") ? "file" : "rule");
	if (takes(d, "set disable shadow reset"))
		json_object_set_new(d->request, "rule", json_string(d->target));
	return takes(d, "rollback show") && d->target ? number_read(d, d->target) : 0;
}

/* The file with those its lists name: the server sees none of them. */
static int file_read(struct doing *d)
{
	_cleanup_(lg_rules_free) struct lg_rules *rules = NULL;
	_cleanup_free_ char *text = NULL;
	struct lg_complaint c = { 0 };
	char shown[1024];
	size_t len = 0;
	int r;

	r = lg_tree_file_read(d->target, LG_RULES_BYTES_MAX, &text, &len, &c);
	if (r == 0)
		r = lg_rules_parse(text, len, d->target, &rules, &c);
	if (r == 0 && lg_rules_pack(rules, &text, &len) < 0)
		r = lg_complain(&c, "not enough memory to read it");
	if (r < 0) {
		lg_complaint_format(&c, shown, sizeof(shown));
		return lg_ctl_fail(d->ctl, LG_CTL_REFUSED, "%s; nothing was changed", shown);
	}
	if (len > LG_RULES_TEXT_MAX)
		return lg_ctl_fail(d->ctl, LG_CTL_REFUSED, "%s: with its lists it has %zu KiB, and %u are the most; nothing was changed",
				   d->target, len >> 10, LG_RULES_TEXT_MAX >> 10);
	json_object_set_new(d->request, "text", json_stringn(text, len));
	json_object_set_new(d->request, "name", json_string(d->target));
	return json_object_get(d->request, "text") ? 0 : lg_ctl_fail(d->ctl, LG_CTL_REFUSED, "%s: this is no UTF-8", d->target);
}

/* ---- asking ---- */

static int ask(const struct doing *d, const json_t *request, json_t **ret_reply)
{
	char what[64];

	snprintf(what, sizeof(what), "rules %s is for one", d->op);
	return lg_ctl_ask_server(d->ctl, request, what, !takes(d, "status history show"), ret_reply);
}

static int ask_op(const struct doing *d, const char *op, json_t **ret_reply)
{
	json_t *request = json_pack("{s:s, s:s}", "cmd", "rules", "op", op);
	int r = ask(d, request, ret_reply);

	json_decref(request);
	return r;
}

/* What became of the version that was asked for. */
static int not_written(const struct doing *d, json_int_t version, const json_t *reply)
{
	const char *why = lg_ctl_int(reply, "version") == version ? lg_ctl_text(reply, "error") : "another one came between";

	return lg_ctl_fail(d->ctl, LG_CTL_REFUSED, "version %lld was not written: %s; nothing was changed", (long long)version, why);
}

/* Until the store has it. 0; TOO_LATE: another version came first, and it may be tried again; else an exit code. */
static int durable_wait(const struct doing *d, json_int_t version, bool may_be_late)
{
	uint64_t until_ns = lg_clock_now_ns() + DURABLE_S * LG_NS_PER_S;
	bool is_busy = true;
	json_t *reply = NULL;
	int r;

	while (is_busy) {
		r = ask_op(d, "done", &reply);
		if (r)
			return r;
		is_busy = json_is_true(json_object_get(reply, "busy"));
		if (!is_busy && (lg_ctl_int(reply, "version") != version || *lg_ctl_text(reply, "error")))
			r = may_be_late && json_is_true(json_object_get(reply, "late")) ? TOO_LATE : not_written(d, version, reply);
		json_decref(reply);
		if (r)
			return r;
		if (is_busy && lg_clock_now_ns() > until_ns)
			return lg_ctl_fail(d->ctl, LG_CTL_REFUSED, "the store takes longer than %d s: see `leasegate rules status`",
					   DURABLE_S);
		if (is_busy)
			poll(NULL, 0, POLL_MS);
	}
	return 0;
}

/*
 * What is done to one rule is done to whatever version is the newest, so whoever was overtaken asks again. A file, or the way back, is meant
 * for the version that its writer saw.
 */
static int written(const struct doing *d, json_t **ret_reply)
{
	uint64_t until_ns = lg_clock_now_ns() + NODES_S * LG_NS_PER_S;
	int r;

	for (;;) {
		r = ask(d, d->request, ret_reply);
		if (r)
			return r;
		r = durable_wait(d, lg_ctl_int(*ret_reply, "version"), takes(d, "set disable shadow reset") && lg_clock_now_ns() < until_ns);
		if (r == 0)
			return 0;
		json_decref(*ret_reply);
		*ret_reply = NULL;
		if (r != TOO_LATE)
			return r;
		poll(NULL, 0, 5 * POLL_MS);
	}
}

struct tally {
	size_t n_nodes, n_have, n_refuse, n_own, n_away, n_chosen;
};

static void tally_take(const json_t *status, const char *kind, json_int_t version, struct tally *t)
{
	const json_t *h;
	size_t i;

	*t = (struct tally){ 0 };
	json_array_foreach(json_object_get(status, "holders"), i, h) {
		if (strcmp(lg_ctl_text(h, "kind"), kind) != 0)
			continue;
		t->n_own += json_is_true(json_object_get(h, "own_file"));
		t->n_away += !json_is_true(json_object_get(h, "connected"));
		if (json_is_true(json_object_get(h, "own_file")) || !json_is_true(json_object_get(h, "connected")))
			continue;
		t->n_nodes++;
		t->n_have += lg_ctl_int(h, "version") >= version;
		t->n_refuse += lg_ctl_int(h, "refused") >= version;
		t->n_chosen += lg_ctl_int(h, "version") >= version && json_is_true(json_object_get(h, "chosen"));
	}
}

static void refusals_print(const json_t *status, FILE *f)
{
	const json_t *h;
	size_t i;

	json_array_foreach(json_object_get(status, "holders"), i, h)
		if (lg_ctl_int(h, "refused"))
			fprintf(f, "  %s %s refuses version %lld: %s\n", lg_ctl_text(h, "kind"), lg_ctl_text(h, "name"),
				(long long)lg_ctl_int(h, "refused"), lg_ctl_text(h, "why"));
	if (lg_ctl_int(status, "refused"))
		fprintf(f, "  this server refuses version %lld: %s\n", (long long)lg_ctl_int(status, "refused"), lg_ctl_text(status, "why"));
}

/* Until every node that is there has said what became of it. */
static int nodes_wait(const struct doing *d, json_int_t version, struct tally *t, json_t **ret_status)
{
	uint64_t until_ns = lg_clock_now_ns() + NODES_S * LG_NS_PER_S;

	for (;;) {
		int r = ask_op(d, "status", ret_status);
		bool is_here;

		if (r)
			return r;
		tally_take(*ret_status, "node", version, t);
		is_here = lg_ctl_int(json_object_get(*ret_status, "current"), "version") >= version ||
			  lg_ctl_int(*ret_status, "refused") >= version;
		if ((is_here && t->n_have + t->n_refuse >= t->n_nodes) || lg_clock_now_ns() > until_ns)
			return 0;
		json_decref(*ret_status);
		poll(NULL, 0, POLL_MS);
	}
}

static int change(struct doing *d)
{
	json_t *reply = NULL, *status = NULL;
	json_int_t version;
	struct tally t;
	int r;

	r = written(d, &reply);
	if (r)
		return r;
	version = lg_ctl_int(reply, "version");
	r = nodes_wait(d, version, &t, &status);
	if (r) {
		json_decref(reply);
		return r;
	}
	r = t.n_refuse || lg_ctl_int(status, "refused") >= version ? LG_CTL_REFUSED : LG_CTL_OK;
	if (d->ctl->json) {
		lg_ctl_print(json_pack("{s:I, s:s, s:s, s:I, s:I, s:I, s:I}", "version", version, "what", lg_ctl_text(reply, "what"), "note",
				       lg_ctl_text(reply, "note"), "nodes", (json_int_t)t.n_nodes, "in_force", (json_int_t)t.n_have, "chosen",
				       (json_int_t)t.n_chosen, "refused", (json_int_t)t.n_refuse));
	} else {
		printf("version %lld: %s\n", (long long)version, lg_ctl_text(reply, "what"));
		if (*lg_ctl_text(reply, "note"))
			printf("%s\n", lg_ctl_text(reply, "note"));
		printf("%zu of %zu nodes have it", t.n_have, t.n_nodes);
		if (!json_is_true(json_object_get(json_object_get(status, "current"), "for_all")))
			printf(", and %zu are those it is for", t.n_chosen);
		printf("%s\n", t.n_have + t.n_refuse < t.n_nodes ? "; the others have not answered yet: `leasegate rules status`" : "");
	}
	refusals_print(status, stderr);
	json_decref(reply);
	json_decref(status);
	return r;
}

/* ---- showing ---- */

static void when_print(json_int_t unix_ms)
{
	time_t at = (time_t)(unix_ms / 1000);
	char text[32] = "?";
	struct tm tm;

	if (gmtime_r(&at, &tm))
		strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%SZ", &tm);
	printf("%s", text);
}

static void overrides_print(const json_t *version, const char *before)
{
	char left[LG_NUM_TEXT_LEN];
	const json_t *o;
	size_t i;

	json_array_foreach(json_object_get(version, "overrides"), i, o) {
		printf("%s  %s: %s", before, lg_ctl_text(o, "rule"), lg_ctl_text(o, "is"));
		lg_duration_format((uint64_t)(lg_ctl_int(o, "left_ms") / 1000) * LG_NS_PER_S, left, sizeof(left));
		if (json_is_integer(json_object_get(o, "left_ms")))
			printf(", for %s more\n", left);
		else
			printf(", until the next apply, or reset\n");
	}
}

static void version_print(const json_t *v)
{
	printf("%6lld  ", (long long)lg_ctl_int(v, "version"));
	when_print(lg_ctl_int(v, "unix_ms"));
	printf("  %-12s %-10s %s", lg_ctl_text(v, "region"), lg_ctl_text(v, "by"), lg_ctl_text(v, "what"));
	printf(json_is_true(json_object_get(v, "for_all")) ? "\n" : " (for %s)\n", lg_ctl_text(v, "for"));
}

static int history(const struct doing *d)
{
	json_t *reply = NULL;
	const json_t *v;
	size_t i;
	int r = ask(d, d->request, &reply);

	if (r)
		return r;
	if (d->ctl->json) {
		r = lg_ctl_print(json_incref(json_object_get(reply, "history")));
	} else {
		json_array_foreach(json_object_get(reply, "history"), i, v)
			version_print(v);
		if (!json_array_size(json_object_get(reply, "history")))
			printf("no version yet\n");
	}
	json_decref(reply);
	return r;
}

static int show(const struct doing *d)
{
	json_t *reply = NULL;
	const json_t *v;
	int r = ask(d, d->request, &reply);

	if (r)
		return r;
	v = json_object_get(reply, "current");
	if (d->ctl->json) {
		json_object_del(reply, "ok");
		return lg_ctl_print(reply);
	}
	printf("# version %lld of region %s, ", (long long)lg_ctl_int(v, "version"), lg_ctl_text(v, "region"));
	when_print(lg_ctl_int(v, "unix_ms"));
	printf(", by %s: %s\n", lg_ctl_text(v, "by"), lg_ctl_text(v, "what"));
	if (!json_is_true(json_object_get(v, "for_all")))
		printf("# for %s\n", lg_ctl_text(v, "for"));
	if (json_array_size(json_object_get(v, "overrides")))
		printf("# beside what the text says:\n");
	overrides_print(v, "#");
	fputs(lg_ctl_text(reply, "text"), stdout);
	json_decref(reply);
	return LG_CTL_OK;
}

static void status_print(const json_t *reply)
{
	const json_t *v = json_object_get(reply, "current"), *h;
	json_int_t newest = lg_ctl_int(v, "version");
	struct tally nodes, regions;
	size_t i;

	if (!json_is_object(v)) {
		printf("no version yet: `leasegate rules apply FILE` makes the first one\n");
		if (*lg_ctl_text(reply, "file_why"))
			printf("until then the file of `rules` would count, but it cannot be used: %s\n", lg_ctl_text(reply, "file_why"));
		return;
	}
	tally_take(reply, "node", newest, &nodes);
	tally_take(reply, "region", newest, &regions);
	version_print(v);
	overrides_print(v, "");
	printf("%zu of %zu nodes have it, %zu refuse it", nodes.n_have, nodes.n_nodes, nodes.n_refuse);
	if (!json_is_true(json_object_get(v, "for_all")))
		printf("; %zu of them are those it is for (%s)", nodes.n_chosen, lg_ctl_text(v, "for"));
	if (nodes.n_own)
		printf("; %zu have rules of their own file", nodes.n_own);
	if (nodes.n_away)
		printf("; %zu are not connected", nodes.n_away);
	printf("\n");
	if (regions.n_nodes + regions.n_away)
		printf("%zu of %zu other regions have it\n", regions.n_have, regions.n_nodes);
	json_array_foreach(json_object_get(reply, "holders"), i, h)
		if (lg_ctl_int(h, "version") < newest && !json_is_true(json_object_get(h, "own_file")))
			printf("  %s %s%s: version %lld\n", lg_ctl_text(h, "kind"), lg_ctl_text(h, "name"),
			       json_is_true(json_object_get(h, "connected")) ? "" : " (not connected)", (long long)lg_ctl_int(h, "version"));
	refusals_print(reply, stdout);
}

static int status(const struct doing *d)
{
	json_t *reply = NULL;
	int r = ask(d, d->request, &reply);

	if (r)
		return r;
	json_object_del(reply, "ok");
	if (d->ctl->json)
		return lg_ctl_print(reply);
	status_print(reply);
	json_decref(reply);
	return LG_CTL_OK;
}

/* Of the node of this machine. */
static int diff(const struct doing *d)
{
	const json_t *version, *item;
	struct lg_complaint c = { 0 };
	json_t *reply = NULL;
	size_t i, n;
	int r;

	r = lg_ctl_ask(d->ctl, "node", "diff", &reply, &c);
	if (r)
		return lg_ctl_fail(d->ctl, LG_CTL_REFUSED, "%s", r == 1 ? "no node runs here: only it knows what was asked for" : c.text);
	if (!json_is_true(json_object_get(reply, "ok"))) {
		r = lg_ctl_fail(d->ctl, LG_CTL_REFUSED, "%s", lg_ctl_text(reply, "error"));
		json_decref(reply);
		return r;
	}
	version = json_object_get(reply, "version");
	n = json_array_size(json_object_get(reply, "apart")) + (*lg_ctl_text(reply, "unusable") != 0) + (lg_ctl_int(version, "refused") != 0);
	json_object_del(reply, "ok");
	if (d->ctl->json) {
		lg_ctl_print(reply);
		return n ? LG_CTL_REFUSED : LG_CTL_OK;
	}
	if (*lg_ctl_text(reply, "unusable"))
		printf("what was asked for cannot be put into force: %s\n", lg_ctl_text(reply, "unusable"));
	if (lg_ctl_int(version, "refused"))
		printf("version %lld was refused, and version %lld is in force: %s\n", (long long)lg_ctl_int(version, "refused"),
		       (long long)lg_ctl_int(version, "version"), lg_ctl_text(version, "why"));
	json_array_foreach(json_object_get(reply, "apart"), i, item)
		printf("%s: asked for: %s; the kernel has: %s\n", lg_ctl_text(item, "rule"), lg_ctl_text(item, "asked"),
		       lg_ctl_text(item, "kernel"));
	if (!n)
		printf("the kernel has what was asked for\n");
	json_decref(reply);
	return n ? LG_CTL_REFUSED : LG_CTL_OK;
}

/* ---- which ---- */

static int run(struct doing *d)
{
	int r;

	if (takes(d, "history"))
		return history(d);
	if (takes(d, "show"))
		return show(d);
	if (takes(d, "status"))
		return status(d);
	if (takes(d, "diff"))
		return diff(d);
	/* Sessions at this machine say nothing about those at the server's. */
	if (!json_object_get(d->request, "peers") && !d->ctl->remote)
		json_object_set_new(d->request, "peers", lg_ctl_peers_json());
	json_object_set_new(d->request, "by", json_string(lg_ctl_who()));
	r = takes(d, "apply") ? file_read(d) : 0;
	return r ? r : change(d);
}

int lg_ctl_rules_do(const struct lg_ctl *ctl, int argc, char **argv)
{
	static const char *const ops[] = { "apply", "set", "disable", "shadow", "reset", "promote",
					   "rollback", "history", "show", "status", "diff" };
	struct doing d = { .ctl = ctl };
	int r = 0;

	for (size_t i = 0; i < N_ELEMS(ops); i++)
		if (strcmp(argv[0], ops[i]) == 0)
			d.op = ops[i];
	if (!d.op)
		return lg_ctl_usage(ctl, "rules", argv[0]);
	d.request = json_pack("{s:s, s:s}", "cmd", "rules", "op", d.op);
	for (int i = 1; r == 0 && i < argc; i++)
		r = argument(&d, argc, argv, &i);
	if (r == 0)
		r = target_check(&d);
	if (r == 0)
		r = run(&d);
	json_decref(d.request);
	return r;
}
