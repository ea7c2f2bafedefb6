// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ctl/ctl.h"

#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/admin.h"
#include "api/remote.h"

int lg_ctl_fail(const struct lg_ctl *ctl, int code, const char *fmt, ...)
{
	char text[1200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fprintf(stderr, "leasegate: %s\n", text);
	if (ctl->json)
		lg_ctl_print(json_pack("{s:s}", "error", text));
	return code;
}

int lg_ctl_usage(const struct lg_ctl *ctl, const char *command, const char *argument)
{
	return lg_ctl_fail(ctl, LG_CTL_USAGE, "%s: do not understand %s (try leasegate %s --help)", command, argument, command);
}

int lg_ctl_pins(const struct lg_ctl *ctl, struct lg_kern **ret_kern)
{
	enum lg_kern_fail fail = LG_KERN_REFUSED;
	struct lg_complaint c = { 0 };
	int r;

	if (ctl->remote)
		return lg_ctl_fail(ctl, LG_CTL_USAGE, "what the kernel has is looked at on its own machine: --server is for what the server "
						      "of a region knows (rules apply and the like, leases, curve)");
	r = lg_kern_open_pins(ctl->instance, NULL, ret_kern, &fail, &c);
	if (r >= 0)
		return 0;
	if (r == -ENOENT)
		return lg_ctl_fail(ctl, LG_CTL_REFUSED, "instance %s has nothing in the kernel: no node was started, or it was detached",
				   ctl->instance);
	return lg_ctl_fail(ctl, fail, "%s", c.text);
}

int lg_ctl_ask_for(const struct lg_ctl *ctl, const char *role, const json_t *request, json_t **ret_reply, struct lg_complaint *c)
{
	char path[512];
	int r;

	if (ctl->remote && strcmp(role, "region") == 0)
		return lg_remote_ask(ctl->remote, request, 10000, ret_reply, c);
	if (ctl->remote)
		return lg_complain(c, "a %s is asked on its own machine: --server is for the server of a region", role);
	snprintf(path, sizeof(path), "%s/%s.sock", ctl->run_dir, role);
	r = lg_admin_call(path, request, 10000, ret_reply, c);
	return r == -ENOENT || r == -ECONNREFUSED ? 1 : r;
}

int lg_ctl_ask(const struct lg_ctl *ctl, const char *role, const char *cmd, json_t **ret_reply, struct lg_complaint *c)
{
	json_t *request = json_pack("{s:s}", "cmd", cmd);
	int r = lg_ctl_ask_for(ctl, role, request, ret_reply, c);

	json_decref(request);
	return r;
}

int lg_ctl_print(json_t *value)
{
	int r = value && json_dumpf(value, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0;

	putchar('\n');
	json_decref(value);
	return r ? LG_CTL_OK : LG_CTL_REFUSED;
}

const char *lg_ctl_reason_label(unsigned reason)
{
	static const char *const labels[_LG_REASON_N] = {
#define LG_REASON(id, name, label, verdict, help) [id] = label,
#include "leasegate/reason.def"
#undef LG_REASON
	};

	return reason < _LG_REASON_N ? labels[reason] : "unknown";
}

const char *lg_ctl_rule_name(const struct lg_rule_name *names, uint32_t rule_id, char *buf, size_t len)
{
	if (rule_id >= 1 && rule_id <= LG_RULES_MAX && names[rule_id].name[0])
		return names[rule_id].name;
	snprintf(buf, len, "rule %" PRIu32, rule_id);
	return buf;
}

const char *lg_ctl_number(uint64_t value, char *buf, size_t len)
{
	char plain[32];
	size_t n = (size_t)snprintf(plain, sizeof(plain), "%" PRIu64, value), o = 0;

	for (size_t i = 0; i < n && o + 2 < len; i++) {
		if (i && (n - i) % 3 == 0)
			buf[o++] = ',';
		buf[o++] = plain[i];
	}
	buf[o] = '\0';
	return buf;
}

int lg_ctl_ask_server(const struct lg_ctl *ctl, const json_t *request, const char *why, bool changes, json_t **ret_reply)
{
	struct lg_complaint c = { 0 };
	json_t *reply = NULL;
	int r;

	r = lg_ctl_ask_for(ctl, "region", request, &reply, &c);
	if (r == 1)
		return lg_ctl_fail(ctl, LG_CTL_REFUSED, "instance %s: no region server runs here (nothing at %s), and %s", ctl->instance,
				   ctl->run_dir, why);
	if (r < 0)
		return lg_ctl_fail(ctl, LG_CTL_REFUSED, "%s", c.text);
	if (!json_is_true(json_object_get(reply, "ok"))) {
		r = lg_ctl_fail(ctl, LG_CTL_REFUSED, "%s%s", lg_ctl_text(reply, "error"), changes ? "; nothing was changed" : "");
		json_decref(reply);
		return r;
	}
	*ret_reply = reply;
	return 0;
}

const char *lg_ctl_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

json_int_t lg_ctl_int(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

const char *lg_ctl_who(void)
{
	const char *sudo = getenv("SUDO_USER");
	const struct passwd *pw = sudo && *sudo ? NULL : getpwuid(geteuid());

	return sudo && *sudo ? sudo : pw ? pw->pw_name : "?";
}
