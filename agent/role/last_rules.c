// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "role/last_rules.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "rules/tree.h"
#include "rules/yaml.h"

/* What is kept has the files in it that its lists name. */
static int text_read(const char *path, size_t max_bytes, struct lg_rules_text *ret_text, struct lg_rules **ret_rules, struct lg_complaint *c)
{
	_cleanup_(lg_rules_free) struct lg_rules *rules = NULL;
	struct lg_rules_text text = { 0 };
	int r;

	r = lg_tree_file_read(path, max_bytes, &text.text, &text.len, c);
	if (r == 0)
		r = lg_rules_parse(text.text, text.len, path, &rules, c);
	if (r == 0 && lg_rules_pack(rules, &text.text, &text.len) < 0)
		r = lg_complain(c, "not enough memory to read it");
	if (r < 0) {
		lg_rules_text_fini(&text);
		return r;
	}
	*ret_text = text;
	*ret_rules = TAKE(rules);
	return 0;
}

int lg_rules_text_read(const char *path, struct lg_rules_text *ret_text, struct lg_rules **ret_rules, struct lg_complaint *c)
{
	return text_read(path, LG_RULES_BYTES_MAX, ret_text, ret_rules, c);
}

void lg_rules_text_fini(struct lg_rules_text *text)
{
	free(text->text);
	*text = (struct lg_rules_text){ 0 };
}

static void path_of(const struct lg_config *config, char *ret, size_t len)
{
	snprintf(ret, len, "%s/rules.last", config->state_dir);
}

static int write_all(int fd, const struct lg_rules_text *text)
{
	for (size_t done = 0; done < text->len;) {
		ssize_t n = write(fd, text->text + done, text->len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		done += (size_t)n;
	}
	return fsync(fd) < 0 ? -errno : 0;
}

int lg_rules_text_store(const char *folder, const char *name, const struct lg_rules_text *text)
{
	_cleanup_fd_ int fd = -1;
	char path[300], temp[310];
	int r;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	snprintf(temp, sizeof(temp), "%s.new", path);
	fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	r = fd < 0 ? -errno : write_all(fd, text);
	return r == 0 && rename(temp, path) < 0 ? -errno : r;
}

int lg_rules_text_load(const char *folder, const char *name, size_t max_bytes, struct lg_rules_text *ret_text, struct lg_complaint *c)
{
	char path[300];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return lg_tree_file_read(path, max_bytes, &ret_text->text, &ret_text->len, c);
}

int lg_last_rules_store(const struct lg_config *config, const struct lg_rules_text *text, struct lg_complaint *c)
{
	int r = lg_rules_text_store(config->state_dir, "rules.last", text);

	if (r < 0)
		lg_complain(c, "cannot write %s/rules.last: %s", config->state_dir, strerror(-r));
	return r;
}

int lg_last_rules_read(const struct lg_config *config, struct lg_rules **ret_rules, struct lg_complaint *c)
{
	struct lg_rules_text text = { 0 };
	char path[300];
	int r;

	path_of(config, path, sizeof(path));
	r = text_read(path, LG_RULES_PACKED_MAX, &text, ret_rules, c);
	lg_rules_text_fini(&text);
	return r;
}
