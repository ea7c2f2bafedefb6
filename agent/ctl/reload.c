// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ctl/ctl.h"

#include <stdio.h>

/* 0: told and done, 1: no such daemon, 2: refused (already said). */
static int reload_role(const struct lg_ctl *ctl, const char *role, json_t *done)
{
	struct lg_complaint c = { 0 };
	json_t *reply = NULL;
	int r;

	r = lg_ctl_ask(ctl, role, "reload", &reply, &c);
	if (r == 1)
		return 1;
	if (r < 0) {
		lg_ctl_fail(ctl, LG_CTL_REFUSED, "%s: %s", role, c.text);
		return 2;
	}
	if (!json_is_true(json_object_get(reply, "ok"))) {
		lg_ctl_fail(ctl, LG_CTL_REFUSED, "%s: %s; nothing was changed", role,
			    json_string_value(json_object_get(reply, "error")));
		json_decref(reply);
		return 2;
	}
	json_decref(reply);
	json_array_append_new(done, json_string(role));
	return 0;
}

int lg_ctl_reload(const struct lg_ctl *ctl, int argc, char **argv)
{
	static const char *const roles[] = { "region", "node" };
	json_t *done = json_array();
	int r;

	if (argc > 1) {
		json_decref(done);
		return lg_ctl_usage(ctl, "reload", argv[1]);
	}
	for (size_t i = 0; i < N_ELEMS(roles); i++) {
		r = reload_role(ctl, roles[i], done);
		if (r == 2) {
			json_decref(done);
			return LG_CTL_REFUSED;
		}
	}
	if (json_array_size(done) == 0) {
		json_decref(done);
		return lg_ctl_fail(ctl, LG_CTL_REFUSED, "instance %s: no daemon is running (nothing at %s)", ctl->instance,
				   ctl->run_dir);
	}
	if (ctl->json)
		return lg_ctl_print(json_pack("{s:o}", "reloaded", done));
	for (size_t i = 0; i < json_array_size(done); i++)
		printf("%s: rules read again and in force\n", json_string_value(json_array_get(done, i)));
	json_decref(done);
	return LG_CTL_OK;
}
