// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Allow and deny lists of a rules file. Their prefixes stand in it, or in files of their own, which are kept as they were read: whoever
 * goes back to these rules later gets the same lists, whatever became of the files.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "rules/reader.h"
#include "rules/yaml.h"

#define LIST_HEAD "\n#--- list "	/* and the length of what follows, and a newline */
#define END_HEAD "\n#--- rules "	/* the last line: how long the YAML is */

static const char *verdict_name(uint8_t verdict)
{
	return verdict == LG_LIST_ALLOW ? "allow" : "deny";
}

/* ---- one text of several files ---- */

/* The number behind a head at this place, and what follows its line; NULL if that is not there. */
static const char *head_read(const char *at, const char *end, const char *head, size_t *ret_n)
{
	size_t len = strlen(head), n = 0, digits = 0;

	if ((size_t)(end - at) <= len || memcmp(at, head, len) != 0)
		return NULL;
	for (at += len; at < end && isdigit((unsigned char)*at) && digits < 10; at++, digits++)
		n = n * 10 + (size_t)(*at - '0');
	if (!digits || at == end || *at != '\n')
		return NULL;
	*ret_n = n;
	return at + 1;
}

void lg_packed_open(const char *text, size_t len, const char *name, struct lg_packed *ret)
{
	const char *end = text + len, *at = end, *rest;
	size_t n;

	*ret = (struct lg_packed){ .name = name, .text = text, .len = len };
	/* The last line but for its newline. */
	for (at -= len ? 2 : 0; at > text && *at != '\n'; at--)
		;
	rest = len > 2 ? head_read(at, end, END_HEAD, &n) : NULL;
	if (rest != end || n > (size_t)(at - text))
		return;
	ret->len = n;
	ret->lists = text + n;
	ret->end = at;
}

int lg_rules_pack(const struct lg_rules *rules, char **text, size_t *len)
{
	size_t yaml_len = *len, n = 0;
	struct lg_packed before;
	char *packed = NULL;
	FILE *f;
	int r;

	lg_packed_open(*text, *len, "", &before);
	if (!rules->n_list_files || before.lists)
		return 0;
	f = open_memstream(&packed, &n);
	if (!f)
		return -errno;
	fwrite(*text, 1, yaml_len, f);
	for (size_t i = 0; i < rules->n_list_files; i++) {
		fprintf(f, "%s%zu\n", LIST_HEAD, rules->list_files[i].len);
		fwrite(rules->list_files[i].text, 1, rules->list_files[i].len, f);
	}
	fprintf(f, "%s%zu\n", END_HEAD, yaml_len);
	r = ferror(f) ? -ENOMEM : 0;
	if (fclose(f) != 0 || r < 0) {
		free(packed);
		return -ENOMEM;
	}
	free(*text);
	*text = packed;
	*len = n;
	return 0;
}

/* ---- prefixes ---- */

struct listing {
	struct lg_packed *packed;
	struct lg_rules *rules;
	size_t size;	/* room for so many of rules->listed */
	uint8_t verdict;
	struct lg_complaint *c;
};

static int too_many(struct listing *l)
{
	return lg_complain(l->c, "lists: %d prefixes are the most that both lists can have together", LG_LIST_FILE_MAX);
}

/* c has the file; the line is set here. */
static int prefix_add(struct listing *l, const char *text, uint8_t file, uint32_t line)
{
	struct lg_listed *more, *listed;
	struct lg_complaint why = { 0 };

	l->c->line = line;
	l->c->col = 0;
	if (l->rules->n_listed == LG_LIST_FILE_MAX)
		return too_many(l);
	if (l->rules->n_listed == l->size) {
		l->size = l->size ? 2 * l->size : 256;
		more = reallocarray(l->rules->listed, l->size, sizeof(*more));
		if (!more)
			return -ENOMEM;
		l->rules->listed = more;
	}
	listed = &l->rules->listed[l->rules->n_listed];
	*listed = (struct lg_listed){ .verdict = l->verdict, .file = file, .line = line };
	if (lg_prefix_parse(text, listed->prefix.addr, &listed->prefix.family, &listed->prefix.len, &why) < 0)
		return lg_complain(l->c, "lists.%s: %s", verdict_name(l->verdict), why.text);
	l->rules->n_listed++;
	return 0;
}

/* A line without its comment and the blanks around it: what is left lies in buf. */
static int line_trim(struct listing *l, const char *line, size_t len, uint32_t number, char *buf, size_t size)
{
	const char *comment = memchr(line, '#', len);

	len = comment ? (size_t)(comment - line) : len;
	while (len && isspace((unsigned char)line[len - 1]))
		len--;
	for (; len && isspace((unsigned char)*line); len--)
		line++;
	if (len >= size || memchr(line, '\0', len)) {
		l->c->line = number;
		l->c->col = 0;
		return lg_complain(l->c, "lists.%s: this line is no prefix such as 192.0.2.0/24", verdict_name(l->verdict));
	}
	memcpy(buf, line, len);
	buf[len] = '\0';
	return 0;
}

static int file_parse(struct listing *l, const struct lg_list_file *file, uint8_t index)
{
	const char *at = file->text, *end = file->text + file->len, *newline;
	char prefix[LG_IP_TEXT_LEN];
	uint32_t number = 0;
	int r = 0;

	for (; at < end && r == 0; at = newline + 1) {
		newline = memchr(at, '\n', (size_t)(end - at));
		newline = newline ? newline : end;
		r = line_trim(l, at, (size_t)(newline - at), ++number, prefix, sizeof(prefix));
		if (r == 0 && prefix[0])
			r = prefix_add(l, prefix, index, number);
	}
	return r;
}

/* From the packed text, or from the disk. */
static int file_fetch(struct listing *l, struct lg_list_file *file)
{
	struct lg_packed *p = l->packed;
	const char *body;

	if (!p->lists)
		return lg_tree_file_read(file->path, LG_LIST_BYTES_MAX, &file->text, &file->len, l->c);
	snprintf(l->c->file, sizeof(l->c->file), "%s", file->path);
	body = head_read(p->lists, p->end, LIST_HEAD, &file->len);
	if (!body || file->len > (size_t)(p->end - body))
		return lg_complain(l->c, "%s: what was kept of this list cannot be read", p->name);
	p->lists = body + file->len;
	file->text = malloc(file->len + 1);
	if (!file->text)
		return -ENOMEM;
	memcpy(file->text, body, file->len);
	return 0;
}

static int file_read(struct listing *l, const char *path)
{
	struct lg_rules *rules = l->rules;
	const char *slash = strrchr(l->packed->name, '/');
	int dir_len = *path != '/' && slash ? (int)(slash - l->packed->name) + 1 : 0;
	char rules_file[sizeof(l->c->file)];
	struct lg_list_file *file;
	int r;

	if (!rules->list_files)
		rules->list_files = calloc(LG_LIST_FILES_MAX, sizeof(*rules->list_files));
	if (!rules->list_files)
		return -ENOMEM;
	if (rules->n_list_files == LG_LIST_FILES_MAX)
		return lg_complain(l->c, "lists.%s: \"%s\" is one file too many: %d is the most", verdict_name(l->verdict), path,
				   LG_LIST_FILES_MAX);
	file = &rules->list_files[rules->n_list_files];
	if (snprintf(file->path, sizeof(file->path), "%.*s%s", dir_len, l->packed->name, path) >= (int)sizeof(file->path))
		return lg_complain(l->c, "lists.%s: \"%.64s...\" is longer than a path may be", verdict_name(l->verdict), path);
	memcpy(rules_file, l->c->file, sizeof(rules_file));
	r = file_fetch(l, file);
	if (r < 0)
		return r;
	rules->n_list_files++;
	r = file_parse(l, file, (uint8_t)rules->n_list_files);
	if (r == 0)
		memcpy(l->c->file, rules_file, sizeof(rules_file));
	return r;
}

static int item_read(struct listing *l, const struct lg_node *item)
{
	const struct lg_node *file = item->kind == LG_NODE_MAP && item->n == 1 ? item->child : NULL;

	if (item->kind == LG_NODE_SCALAR)
		return prefix_add(l, item->text, 0, item->line);
	if (!file || strcmp(file->key, "file") != 0 || file->kind != LG_NODE_SCALAR || !*file->text)
		return lg_node_complain(item, l->c, "lists.%s: expected a prefix such as 192.0.2.0/24, or {file: PATH}",
					verdict_name(l->verdict));
	l->c->line = item->line;
	l->c->col = item->col;
	return file_read(l, file->text);
}

/* ---- each once ---- */

static const struct lg_listed *listed_of(const void *p)
{
	return *(const struct lg_listed *const *)p;
}

static int prefix_order(const struct lg_listed *x, const struct lg_listed *y)
{
	if (x->prefix.family != y->prefix.family)
		return x->prefix.family < y->prefix.family ? -1 : 1;
	if (x->prefix.len != y->prefix.len)
		return x->prefix.len < y->prefix.len ? -1 : 1;
	return memcmp(x->prefix.addr, y->prefix.addr, sizeof(x->prefix.addr));
}

/* Equal ones in the order in which they were read. */
static int listed_compare(const void *a, const void *b)
{
	const struct lg_listed *x = listed_of(a), *y = listed_of(b);
	int order = prefix_order(x, y);

	return order ? order : (x > y) - (x < y);
}

static int twice_complain(const struct listing *l, const struct lg_listed *first, const struct lg_listed *second)
{
	const struct lg_rules *rules = l->rules;
	char prefix[LG_IP_TEXT_LEN];

	lg_prefix_format(second->prefix.addr, second->prefix.family, second->prefix.len, prefix, sizeof(prefix));
	snprintf(l->c->file, sizeof(l->c->file), "%s", second->file ? rules->list_files[second->file - 1].path : l->packed->name);
	l->c->line = second->line;
	l->c->col = 0;
	return lg_complain(l->c, "lists.%s: %s is listed %s, in %.200s on line %u: %s", verdict_name(second->verdict), prefix,
			   first->verdict == second->verdict ? "before" : first->verdict == LG_LIST_ALLOW ? "under allow" : "under deny",
			   first->file ? rules->list_files[first->file - 1].path : l->packed->name, first->line,
			   first->verdict == second->verdict ? "write it once" : "no address can be both");
}

static int twice_check(const struct listing *l)
{
	size_t n = l->rules->n_listed;
	_cleanup_free_ const struct lg_listed **order = NULL;
	int r = 0;

	order = calloc(n + 1, sizeof(const struct lg_listed *));
	if (!order)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		order[i] = &l->rules->listed[i];
	qsort(order, n, sizeof(*order), listed_compare);
	for (size_t i = 1; i < n && r == 0; i++)
		if (prefix_order(order[i - 1], order[i]) == 0)
			r = twice_complain(l, order[i - 1], order[i]);
	return r;
}

int lg_lists_read(const struct lg_node *allow, const struct lg_node *deny, struct lg_packed *packed, struct lg_rules *rules,
		  struct lg_complaint *c)
{
	const struct lg_node *const lists[] = { [LG_LIST_ALLOW] = allow, [LG_LIST_DENY] = deny };
	struct listing l = { .packed = packed, .rules = rules, .c = c };
	int r = 0;

	for (l.verdict = LG_LIST_ALLOW; l.verdict <= LG_LIST_DENY; l.verdict++)
		for (const struct lg_node *item = lists[l.verdict] ? lists[l.verdict]->child : NULL; item && r == 0; item = item->next)
			r = item_read(&l, item);
	return r < 0 ? r : twice_check(&l);
}

/* ---- exemptions ---- */

static int exemption_read(const struct lg_node *node, struct lg_rules *rules, struct lg_prefix *own, struct lg_complaint *c)
{
	struct lg_exemption *e = &rules->exemptions[rules->n_exemptions];
	struct lg_rule_def rule = { .scope = LG_SCOPE_HOST };
	struct lg_reader r = { .rule = &rule, .rules = rules, .own = own, .c = c };
	const struct lg_node *match;
	int err;

	if (node->kind != LG_NODE_MAP)
		return lg_node_complain(node, c, "an exemption is a mapping of keys to values, beginning with `- name:`");
	err = lg_fields_collect(lg_rules_fields, _LG_RF_N, "exempt[]", LG_FIELD_BOTH, node, r.at, c);
	if (err < 0)
		return err;
	snprintf(e->name, sizeof(e->name), "%s", r.at[LG_RF_EXEMPT_NAME].node->text);
	e->line = node->line;
	for (size_t i = 0; i < rules->n_exemptions; i++)
		if (strcmp(rules->exemptions[i].name, e->name) == 0)
			return lg_field_complain(&lg_rules_fields[LG_RF_EXEMPT_NAME], r.at[LG_RF_EXEMPT_NAME].node, c,
						 "\"%s\" is the name of the exemption on line %u too", e->name, rules->exemptions[i].line);
	match = r.at[LG_RF_EXEMPT_MATCH].node;
	err = lg_fields_collect(lg_rules_fields, _LG_RF_N, "rules[].match", LG_FIELD_BOTH, match, r.at, c);
	if (err == 0)
		err = lg_match_read(&r);
	if (err < 0)
		return err;
	if (lg_match_is_any(&rule.match))
		return lg_field_complain(&lg_rules_fields[LG_RF_EXEMPT_MATCH], match, c,
					 "matches every packet, and nothing would be limited: say which, or use `leasegate bypass`");
	e->match = rule.match;
	rules->n_exemptions++;
	return 0;
}

int lg_exemptions_read(const struct lg_node *list, struct lg_rules *rules, struct lg_prefix *own, struct lg_complaint *c)
{
	int r = 0;

	if (!list || !list->n)
		return 0;
	rules->exemptions = calloc(list->n, sizeof(*rules->exemptions));
	if (!rules->exemptions)
		return -ENOMEM;
	for (const struct lg_node *node = list->child; node && r == 0; node = node->next, own += 2)
		r = exemption_read(node, rules, own, c);
	return r;
}
