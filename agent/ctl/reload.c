// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ctl/ctl.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/num.h"
#include "ctl/peers.h"

#define CONFIRM_MAX_NS (24ull * 3600 * LG_NS_PER_S)

/* What the arguments ask for. */
struct reload {
	const struct lg_ctl *ctl;
	bool yes;		/* whoever is cut off */
	bool confirm;		/* what is on trial */
	uint64_t timeout_ns;	/* 0: no trial */
	json_t *done;		/* roles that did it */
	json_t *notes;		/* of roles that had nothing to do: why */
};

static json_t *request_of(const struct reload *w)
{
	if (w->confirm)
		return json_pack("{s:s}", "cmd", "confirm");
	return json_pack("{s:s, s:I, s:o}", "cmd", "reload", "confirm_ms", (json_int_t)(w->timeout_ns / LG_NS_PER_MS), "peers",
			 w->yes ? json_array() : lg_ctl_peers_json());
}

/* 0: told and done, 1: no such daemon, 2: refused (already said). */
static int reload_role(const struct reload *w, const char *role)
{
	json_t *request = request_of(w), *reply = NULL;
	struct lg_complaint c = { 0 };
	const char *note;
	int r;

	r = lg_ctl_ask_for(w->ctl, role, request, &reply, &c);
	json_decref(request);
	if (r == 1)
		return 1;
	if (r < 0) {
		lg_ctl_fail(w->ctl, LG_CTL_REFUSED, "%s: %s", role, c.text);
		return 2;
	}
	if (!json_is_true(json_object_get(reply, "ok"))) {
		lg_ctl_fail(w->ctl, LG_CTL_REFUSED, "%s: %s; nothing was changed", role,
			    json_string_value(json_object_get(reply, "error")));
		json_decref(reply);
		return 2;
	}
	note = json_string_value(json_object_get(reply, "note"));
	if (note && *note)
		json_object_set_new(w->notes, role, json_string(note));
	else
		json_array_append_new(w->done, json_string(role));
	json_decref(reply);
	return 0;
}

static int arguments(struct reload *w, int argc, char **argv)
{
	struct lg_complaint c = { 0 };

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--yes") == 0) {
			w->yes = true;
		} else if (strcmp(argv[i], "--confirm") == 0) {
			w->confirm = true;
		} else if (strcmp(argv[i], "--confirm-timeout") == 0 && i + 1 < argc) {
			if (lg_duration_parse(argv[++i], LG_NS_PER_S, CONFIRM_MAX_NS, &w->timeout_ns, &c) < 0)
				return lg_ctl_fail(w->ctl, LG_CTL_USAGE, "reload --confirm-timeout %s: %s", argv[i], c.text);
		} else {
			return lg_ctl_usage(w->ctl, "reload", argv[i]);
		}
	}
	if (w->confirm && (w->yes || w->timeout_ns))
		return lg_ctl_usage(w->ctl, "reload", "--confirm with anything else");
	return 0;
}

static void done_print(const struct reload *w)
{
	char timeout[LG_NUM_TEXT_LEN];
	const char *name;
	json_t *note;

	json_object_foreach(w->notes, name, note)
		printf("%s: %s\n", name, json_string_value(note));
	lg_duration_format(w->timeout_ns, timeout, sizeof(timeout));
	for (size_t i = 0; i < json_array_size(w->done); i++) {
		const char *role = json_string_value(json_array_get(w->done, i));

		if (w->confirm)
			printf("%s: the rules in force are confirmed\n", role);
		else if (w->timeout_ns && strcmp(role, "node") == 0)
			printf("%s: rules read again and in force for %s: `leasegate reload --confirm` keeps them\n", role, timeout);
		else
			printf("%s: rules read again and in force\n", role);
	}
}

/* Those of a region server are not on trial: they cut nobody off from this host. */
static int reload_all(struct reload *w)
{
	static const char *const roles[] = { "region", "node" };

	for (size_t i = w->confirm; i < N_ELEMS(roles); i++)
		if (reload_role(w, roles[i]) == 2)
			return LG_CTL_REFUSED;
	if (json_array_size(w->done) == 0 && json_object_size(w->notes) == 0)
		return lg_ctl_fail(w->ctl, LG_CTL_REFUSED, "instance %s: no daemon is running (nothing at %s)", w->ctl->instance,
				   w->ctl->run_dir);
	if (w->ctl->json)
		return lg_ctl_print(json_pack("{s:O, s:O}", w->confirm ? "confirmed" : "reloaded", w->done, "notes", w->notes));
	done_print(w);
	return LG_CTL_OK;
}

int lg_ctl_reload(const struct lg_ctl *ctl, int argc, char **argv)
{
	struct reload w = { .ctl = ctl };
	int r;

	r = arguments(&w, argc, argv);
	if (r)
		return r;
	w.done = json_array();
	w.notes = json_object();
	r = reload_all(&w);
	json_decref(w.done);
	json_decref(w.notes);
	return r;
}
