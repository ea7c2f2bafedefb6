// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Rules on trial: they are in force, and unless somebody confirms them in time those before them come back. Those are in the state folder
 * anyway (last_rules.h), and stay there while the trial lasts. A file beside them says that there is one, so that a daemon which ends
 * meanwhile comes back with what was confirmed and not with what its rules file says: whoever was cut off could not confirm either.
 */
#include "role/node.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

static void mark_path(const struct lg_node *n, char *ret, size_t len)
{
	snprintf(ret, len, "%s/rules.unconfirmed", n->config.state_dir);
}

/* Durable when it returns: the folder's entry too. */
static int mark_set(const struct lg_node *n)
{
	_cleanup_fd_ int fd = -1;
	_cleanup_fd_ int folder = -1;
	char path[300];

	mark_path(n, path, sizeof(path));
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	folder = open(n->config.state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || folder < 0 || fsync(fd) < 0 || fsync(folder) < 0)
		return -errno;
	return 0;
}

bool lg_node_is_unconfirmed(const struct lg_node *n)
{
	char path[300];

	mark_path(n, path, sizeof(path));
	return access(path, F_OK) == 0;
}

void lg_node_trial_end(struct lg_node *n)
{
	char path[300];

	mark_path(n, path, sizeof(path));
	if (unlink(path) < 0 && errno != ENOENT)
		lg_error("cannot remove %s: %s; the next start takes the rules before these", path, strerror(errno));
	if (n->trial_timer)
		lg_source_disarm(n->trial_timer);
	n->trial_until_ns = 0;
	lg_rules_text_fini(&n->trial_text);
}

/* Time is up: back to what was confirmed. */
static void on_late(void *arg)
{
	struct lg_rules *rules = NULL;
	struct lg_complaint c = { 0 };
	struct lg_node *n = arg;
	char text[1024];

	n->trial_until_ns = 0;
	lg_rules_text_fini(&n->trial_text);
	if (lg_last_rules_read(&n->config, &rules, &c) < 0 || lg_node_rules_apply(n, rules, NULL, &c) < 0) {
		lg_rules_free(rules);
		lg_complaint_format(&c, text, sizeof(text));
		lg_error("nobody confirmed the rules, and those before them cannot be put back: %s", text);
		return;
	}
	snprintf(n->rules_why, sizeof(n->rules_why), "%s was not confirmed in time; `leasegate reload` puts it into force", n->config.rules);
	lg_warn("nobody confirmed the rules in time: those before them are in force again");
}

int lg_node_trial_begin(struct lg_node *n, struct lg_complaint *c)
{
	int r = 0;

	if (!n->rules_kept)
		return lg_complain(c, "the rules in force could not be written to %s: there would be nothing to go back to",
				   n->config.state_dir);
	if (!n->trial_timer)
		r = lg_loop_add_timer(n->loop, on_late, n, &n->trial_timer);
	if (r == 0)
		r = mark_set(n);
	return r < 0 ? lg_complain(c, "cannot note in %s that rules are on trial: %s", n->config.state_dir, strerror(-r)) : 0;
}

void lg_node_trial_run(struct lg_node *n, uint64_t timeout_ns)
{
	lg_rules_text_fini(&n->trial_text);
	n->trial_text = n->rules_text;
	n->rules_text = (struct lg_rules_text){ 0 };
	n->trial_until_ns = lg_clock_now_ns() + timeout_ns;
	lg_source_arm(n->trial_timer, timeout_ns);
	lg_info("the new rules are in force for %.0f s, and then only if they are confirmed", (double)timeout_ns / 1e9);
}

int lg_node_trial_confirm(struct lg_node *n, struct lg_complaint *c)
{
	int r;

	if (!n->trial_until_ns)
		return lg_complain(c, "no rules wait for a confirmation%s",
				   lg_node_is_unconfirmed(n) ? ": the time was up, and the rules before them are in force again" : "");
	r = lg_last_rules_store(&n->config, &n->trial_text, c);
	if (r < 0)
		return r;
	lg_node_trial_end(n);
	lg_info("the rules are confirmed");
	return 0;
}
