// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* `leasegate regions`: the list of regions, and changes of it, by a region's server on this machine. */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/num.h"
#include "ctl/ctl.h"

#define IN_USE_S 20	/* for the servers here to work with the new list */
#define OTHERS_S 5	/* and from then on for those of the other regions */
#define POLL_MS 50

struct regions {
	const struct lg_ctl *ctl;
	const char *op;
	json_t *request;	/* owned */
	bool yes;
};

static bool is(const struct regions *g, const char *op)
{
	return strcmp(g->op, op) == 0;
}

static bool changes(const struct regions *g)
{
	return !is(g, "show") && !is(g, "history");
}

/* ---- arguments ---- */

static int hosts_read(struct regions *g, const char *text)
{
	struct lg_complaint c = { 0 };
	uint64_t hosts;

	if (lg_num_parse(text, 1, LG_HOLDERS_MAX, &hosts, &c) < 0)
		return lg_ctl_fail(g->ctl, LG_CTL_USAGE, "regions add --hosts %s: %s", text, c.text);
	json_object_set_new(g->request, "hosts", json_integer((json_int_t)hosts));
	return 0;
}

static int argument(struct regions *g, int argc, char **argv, int *i)
{
	const char *arg = argv[*i], *value = *i + 1 < argc ? argv[*i + 1] : NULL;

	if (changes(g) && strcmp(arg, "--dry-run") == 0)
		return json_object_set_new(g->request, "dry", json_true());
	if (changes(g) && strcmp(arg, "--yes") == 0) {
		g->yes = true;
		return 0;
	}
	if ((is(g, "drain") || is(g, "remove")) && strcmp(arg, "--lost") == 0)
		return json_object_set_new(g->request, "lost", json_true());
	if (is(g, "add") && value && strcmp(arg, "--address") == 0) {
		++*i;
		return json_object_set_new(g->request, "address", json_string(value));
	}
	if (is(g, "add") && value && strcmp(arg, "--hosts") == 0) {
		++*i;
		return hosts_read(g, value);
	}
	if (changes(g) && arg[0] != '-' && !json_object_get(g->request, "name"))
		return json_object_set_new(g->request, "name", json_string(arg));
	return lg_ctl_usage(g->ctl, "regions", arg);
}

static int complete_check(const struct regions *g)
{
	if (changes(g) && !json_object_get(g->request, "name"))
		return lg_ctl_fail(g->ctl, LG_CTL_USAGE, "regions %s: which region? `leasegate regions` lists them", g->op);
	if (is(g, "add") && !json_object_get(g->request, "address"))
		return lg_ctl_fail(g->ctl, LG_CTL_USAGE, "regions add: --address HOST:PORT of its lease service is missing");
	if (json_object_get(g->request, "lost") && !g->yes)
		return lg_ctl_fail(g->ctl, LG_CTL_REFUSED,
				   "regions %s --lost: if region %s is cut off and not gone, it goes on lending its keys to its own hosts: up "
				   "to a limit more for each key until it hears of this. Repeat with --yes if it is gone for good",
				   g->op, lg_ctl_text(g->request, "name"));
	return 0;
}

/* ---- asking ---- */

static int ask(const struct regions *g, const json_t *request, json_t **ret_reply)
{
	return lg_ctl_ask_server(g->ctl, request, "the list of regions is changed at one", changes(g), ret_reply);
}

static void show_print(const json_t *show)
{
	const json_t *region;
	size_t i;

	printf("version %lld, %s%s\n", (long long)lg_ctl_int(show, "version"),
	       strcmp(lg_ctl_text(show, "from"), "store") == 0 ? "made at run time" : "of the configuration",
	       json_is_true(json_object_get(show, "settled")) ? "" : "; keys whose home is new here are not lent in full yet");
	if (lg_ctl_int(show, "newest") > lg_ctl_int(show, "version"))
		printf("version %lld is known of and not in use here: this region lends nothing as a home\n",
		       (long long)lg_ctl_int(show, "newest"));
	printf("%-24s %-28s %6s %-9s %s\n", "REGION", "ADDRESS", "HOSTS", "STATE", "HERE");
	json_array_foreach(json_object_get(show, "regions"), i, region) {
		printf("%-24s %-28s %6lld %-9s ", lg_ctl_text(region, "name"), lg_ctl_text(region, "address"),
		       (long long)lg_ctl_int(region, "hosts"), lg_ctl_text(region, "state"));
		if (json_is_true(json_object_get(region, "self")))
			printf("this one\n");
		else if (json_is_true(json_object_get(region, "connected")))
			printf("connected, version %lld\n", (long long)lg_ctl_int(region, "version"));
		else
			printf("not connected\n");
	}
}

static void history_print(const json_t *reply)
{
	const json_t *one;
	size_t i;

	json_array_foreach(json_object_get(reply, "history"), i, one)
		printf("%6lld  %s\n", (long long)lg_ctl_int(one, "version"), lg_ctl_text(one, "what"));
	if (!json_array_size(json_object_get(reply, "history")))
		printf("no version was made at run time yet\n");
}

/* Regions that are connected and have it; *ret_away those that are not. */
static size_t having(const json_t *show, json_int_t version, size_t *ret_away)
{
	const json_t *region;
	size_t i, n = 0;

	*ret_away = 0;
	json_array_foreach(json_object_get(show, "regions"), i, region) {
		bool is_connected = json_is_true(json_object_get(region, "connected"));

		n += is_connected && lg_ctl_int(region, "version") >= version;
		*ret_away += !is_connected;
	}
	return n;
}

/* Regions that are there, but for the one that the change is about, are waited for. */
static size_t connected(const struct regions *g, const json_t *show)
{
	const json_t *region;
	size_t i, n = 0;

	json_array_foreach(json_object_get(show, "regions"), i, region)
		n += json_is_true(json_object_get(region, "connected")) &&
		     (!is(g, "remove") || strcmp(lg_ctl_text(region, "name"), lg_ctl_text(g->request, "name")) != 0);
	return n;
}

/* The servers here begin a new life with it, so for a moment nobody answers. *ret_show is what was last heard; NULL: nothing. */
static int in_use_wait(const struct regions *g, json_int_t version, size_t n_wanted, json_t **ret_show)
{
	uint64_t until_ns = lg_clock_now_ns() + IN_USE_S * LG_NS_PER_S;
	json_t *request = json_pack("{s:s, s:s}", "cmd", "regions", "op", "show");
	bool is_here = false, done = false;
	int r = 0;

	while (!done && r == 0 && lg_clock_now_ns() < until_ns) {
		struct lg_complaint c = { 0 };
		json_t *reply = NULL;
		size_t n_away;

		if (lg_ctl_ask_for(g->ctl, "region", request, &reply, &c) == 0 && json_is_true(json_object_get(reply, "ok"))) {
			json_decref(*ret_show);
			*ret_show = json_incref(reply);
			if (lg_ctl_int(reply, "version") < version && !json_is_true(json_object_get(reply, "busy")) &&
			    *lg_ctl_text(reply, "error"))
				r = lg_ctl_fail(g->ctl, LG_CTL_REFUSED, "version %lld was not written: %s; nothing was changed",
						(long long)version, lg_ctl_text(reply, "error"));
			done = having(reply, version, &n_away) >= n_wanted;
			if (!is_here && lg_ctl_int(reply, "version") >= version)
				until_ns = lg_clock_now_ns() + OTHERS_S * LG_NS_PER_S;
			is_here |= lg_ctl_int(reply, "version") >= version;
		}
		json_decref(reply);
		if (!done && r == 0)
			poll(NULL, 0, POLL_MS);
	}
	json_decref(request);
	return r;
}

static void change_print(const json_t *reply, const json_t *show, bool is_dry)
{
	json_int_t version = lg_ctl_int(reply, "version"), permille = lg_ctl_int(reply, "moved_permille");
	size_t n_away = 0, n = having(show, version, &n_away);

	printf("version %lld: %s%s\n", (long long)version, lg_ctl_text(reply, "what"), is_dry ? " (not done: --dry-run)" : "");
	if (permille)
		printf("about %lld.%lld %% of all keys get another home: they begin empty there, and are lent in full again when a window has "
		       "passed\n", (long long)permille / 10, (long long)permille % 10);
	if (!is_dry && show)
		printf("in use by %zu regions%s\n", n, n_away ? ", and not by all: see `leasegate regions`" : "");
	if (is_dry)
		fputs(lg_ctl_text(reply, "list"), stdout);
}

static int change(struct regions *g)
{
	bool is_dry = json_is_true(json_object_get(g->request, "dry"));
	json_t *reply = NULL, *show = NULL, *look = json_pack("{s:s, s:s}", "cmd", "regions", "op", "show");
	size_t n_away = 0, n_wanted = 0;
	int r;

	r = ask(g, look, &show);
	json_decref(look);
	if (r)
		return r;
	n_wanted = connected(g, show);
	json_decref(show);
	show = NULL;
	json_object_set_new(g->request, "by", json_string(lg_ctl_who()));
	r = ask(g, g->request, &reply);
	if (r)
		return r;
	r = is_dry ? 0 : in_use_wait(g, lg_ctl_int(reply, "version"), n_wanted, &show);
	if (r == 0 && !is_dry && lg_ctl_int(show, "version") < lg_ctl_int(reply, "version"))
		r = lg_ctl_fail(g->ctl, LG_CTL_REFUSED, "version %lld is not in use here after %d s: see `leasegate regions` and its log",
				(long long)lg_ctl_int(reply, "version"), IN_USE_S);
	if (r == 0 && g->ctl->json)
		lg_ctl_print(json_pack("{s:I, s:s, s:I, s:b, s:I}", "version", lg_ctl_int(reply, "version"), "what", lg_ctl_text(reply, "what"),
				       "moved_permille", lg_ctl_int(reply, "moved_permille"), "dry_run", is_dry, "regions_in_use",
				       (json_int_t)having(show, lg_ctl_int(reply, "version"), &n_away)));
	else if (r == 0)
		change_print(reply, show, is_dry);
	json_decref(show);
	json_decref(reply);
	return r;
}

static int look(struct regions *g)
{
	json_t *reply = NULL;
	int r = ask(g, g->request, &reply);

	if (r)
		return r;
	if (g->ctl->json) {
		json_object_del(reply, "ok");
		return lg_ctl_print(reply);
	}
	if (is(g, "history"))
		history_print(reply);
	else
		show_print(reply);
	json_decref(reply);
	return 0;
}

int lg_ctl_regions(const struct lg_ctl *ctl, int argc, char **argv)
{
	static const char *const ops[] = { "show", "history", "add", "drain", "undrain", "remove" };
	struct regions g = { .ctl = ctl, .op = argc < 2 ? ops[0] : NULL };
	int r = 0;

	for (size_t i = 0; argc > 1 && i < N_ELEMS(ops); i++)
		if (strcmp(argv[1], ops[i]) == 0)
			g.op = ops[i];
	if (!g.op)
		return lg_ctl_usage(ctl, "regions", argv[1]);
	g.request = json_pack("{s:s, s:s}", "cmd", "regions", "op", g.op);
	for (int i = 2; r == 0 && i < argc; i++)
		r = argument(&g, argc, argv, &i);
	if (r == 0)
		r = complete_check(&g);
	if (r == 0)
		r = changes(&g) ? change(&g) : look(&g);
	json_decref(g.request);
	return r;
}
