// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * libyaml hands out events; a stack of open lists and mappings turns them into nodes. All nodes hang on one chain, so freeing
 * needs no recursion. Aliases are refused, hence a text of n bytes can make no more than n nodes.
 */
#include "rules/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <yaml.h>

#include "base/num.h"

struct builder {
	yaml_parser_t parser;
	const char *text;
	size_t len;
	struct lg_tree *tree;
	struct lg_node *open[LG_TREE_DEPTH_MAX]; /* lists and mappings not yet ended, outermost first */
	struct lg_node *last[LG_TREE_DEPTH_MAX]; /* last child of each */
	size_t depth;
	char *key; /* of the mapping on top, when its value is still to come */
	uint32_t key_line;
	uint32_t key_col;
	bool has_document;
	struct lg_complaint *c;
};

struct lg_tree *lg_tree_free(struct lg_tree *tree)
{
	struct lg_node *node, *next;

	if (!tree)
		return NULL;
	for (node = tree->all; node; node = next) {
		next = node->all;
		free(node->text);
		free(node->key);
		free(node);
	}
	free(tree);
	return NULL;
}

static int complain_at(uint32_t line, uint32_t col, struct lg_complaint *c, const char *fmt, va_list ap)
{
	vsnprintf(c->text, sizeof(c->text), fmt, ap);
	c->line = line;
	c->col = col;
	return -EINVAL;
}

int lg_node_complain(const struct lg_node *node, struct lg_complaint *c, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = complain_at(node->line, node->col, c, fmt, ap);
	va_end(ap);
	return r;
}

int lg_node_key_complain(const struct lg_node *node, struct lg_complaint *c, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = complain_at(node->key_line, node->key_col, c, fmt, ap);
	va_end(ap);
	return r;
}

__attribute__((format(printf, 3, 4))) static int mark_complain(struct builder *b, yaml_mark_t mark, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = complain_at((uint32_t)mark.line + 1, (uint32_t)mark.column + 1, b->c, fmt, ap);
	va_end(ap);
	return r;
}

/* The byte at a mark, 0 if it is not in the text. Columns are counted in characters. */
static char byte_at(const struct builder *b, yaml_mark_t mark)
{
	const char *p = b->text, *end = b->text + b->len;

	for (size_t line = 0; line < mark.line; line++) {
		p = memchr(p, '\n', (size_t)(end - p));
		if (!p)
			return 0;
		p++;
	}
	for (size_t col = 0; p < end && (col < mark.column || ((unsigned char)*p & 0xc0) == 0x80); p++)
		col += ((unsigned char)*p & 0xc0) != 0x80;
	return p < end ? *p : 0;
}

/* Bytes that are no text have an offset instead of a mark. */
static int reader_complain(struct builder *b)
{
	yaml_mark_t mark = { 0 };

	for (size_t i = 0; i < b->parser.problem_offset && i < b->len; i++) {
		mark.column = b->text[i] == '\n' ? 0 : mark.column + 1;
		mark.line += b->text[i] == '\n';
	}
	return mark_complain(b, mark, "this is not text in UTF-8: %s", b->parser.problem);
}

/* What libyaml could not read, in one line, with a hint for the two slips that its words do not explain. */
static int syntax_complain(struct builder *b)
{
	const yaml_parser_t *p = &b->parser;
	char at = byte_at(b, p->problem_mark);

	if (p->error == YAML_MEMORY_ERROR)
		return -ENOMEM;
	if (p->error == YAML_READER_ERROR)
		return reader_complain(b);
	if (at == '\t')
		return mark_complain(b, p->problem_mark, "a tab cannot indent YAML: use spaces");
	if (at == ':' && b->depth)
		return mark_complain(b, p->problem_mark,
				     "not valid YAML: %s (quote a value that begins or ends with a colon, as in \"::/0\")",
				     p->problem);
	return mark_complain(b, p->problem_mark, "not valid YAML: %s%s%s", p->context ? p->context : "",
			     p->context ? ", " : "", p->problem);
}

/* A scalar's value as a string. A NUL can only come from an escape. */
static int scalar_take(struct builder *b, const yaml_event_t *event, char **ret_text)
{
	const char *value = (const char *)event->data.scalar.value;

	if (strlen(value) != event->data.scalar.length)
		return mark_complain(b, event->start_mark, "a value cannot hold a NUL");
	*ret_text = strdup(value);
	return *ret_text ? 0 : -ENOMEM;
}

/* The scalar is the next key of the mapping on top. */
static int key_add(struct builder *b, const yaml_event_t *event)
{
	struct lg_node *map = b->open[b->depth - 1];
	char quoted[LG_QUOTE_LEN];
	int r;

	r = scalar_take(b, event, &b->key);
	if (r < 0)
		return r;
	b->key_line = (uint32_t)event->start_mark.line + 1;
	b->key_col = (uint32_t)event->start_mark.column + 1;
	if (map->n == LG_TREE_KEYS_MAX)
		return mark_complain(b, event->start_mark, "more than %d keys in one mapping", LG_TREE_KEYS_MAX);
	for (const struct lg_node *node = map->child; node; node = node->next)
		if (strcmp(node->key, b->key) == 0)
			return mark_complain(b, event->start_mark, "%s is written twice, first on line %u",
					     lg_text_quote(b->key, quoted), node->key_line);
	return 0;
}

/* A new node in its place: the root, an item of the list on top, or the value of the key read last. */
static int node_add(struct builder *b, const yaml_event_t *event, enum lg_node_kind kind, struct lg_node **ret_node)
{
	struct lg_node *node;

	if (b->tree->n_nodes == LG_TREE_NODES_MAX)
		return mark_complain(b, event->start_mark, "more than %d values", LG_TREE_NODES_MAX);
	node = calloc(1, sizeof(*node));
	if (!node)
		return -ENOMEM;
	node->kind = kind;
	node->line = (uint32_t)event->start_mark.line + 1;
	node->col = (uint32_t)event->start_mark.column + 1;
	node->key = TAKE(b->key);
	node->key_line = node->key ? b->key_line : node->line;
	node->key_col = node->key ? b->key_col : node->col;
	node->all = b->tree->all;
	b->tree->all = node;
	b->tree->n_nodes++;

	if (!b->depth) {
		b->tree->root = node;
	} else {
		*(b->last[b->depth - 1] ? &b->last[b->depth - 1]->next : &b->open[b->depth - 1]->child) = node;
		b->last[b->depth - 1] = node;
		b->open[b->depth - 1]->n++;
	}
	*ret_node = node;
	return 0;
}

static int scalar_add(struct builder *b, const yaml_event_t *event)
{
	struct lg_node *node;
	int r;

	if (b->depth && b->open[b->depth - 1]->kind == LG_NODE_MAP && !b->key)
		return key_add(b, event);
	r = node_add(b, event, LG_NODE_SCALAR, &node);
	return r < 0 ? r : scalar_take(b, event, &node->text);
}

static int collection_open(struct builder *b, const yaml_event_t *event, enum lg_node_kind kind)
{
	struct lg_node *node;
	int r;

	if (b->depth && b->open[b->depth - 1]->kind == LG_NODE_MAP && !b->key)
		return mark_complain(b, event->start_mark, "a key must be a word, not a list or mapping");
	if (b->depth == LG_TREE_DEPTH_MAX)
		return mark_complain(b, event->start_mark, "nested deeper than %d levels", LG_TREE_DEPTH_MAX);
	r = node_add(b, event, kind, &node);
	if (r < 0)
		return r;
	b->open[b->depth] = node;
	b->last[b->depth] = NULL;
	b->depth++;
	return 0;
}

static bool has_anchor_or_tag(const yaml_event_t *event)
{
	if (event->type == YAML_SCALAR_EVENT)
		return event->data.scalar.anchor || event->data.scalar.tag;
	if (event->type == YAML_SEQUENCE_START_EVENT)
		return event->data.sequence_start.anchor || event->data.sequence_start.tag;
	if (event->type == YAML_MAPPING_START_EVENT)
		return event->data.mapping_start.anchor || event->data.mapping_start.tag;
	return event->type == YAML_ALIAS_EVENT;
}

/* 1 at the end of the text. */
static int event_take(struct builder *b, const yaml_event_t *event)
{
	if (has_anchor_or_tag(event))
		return mark_complain(b, event->start_mark, "anchors (&), aliases (*) and tags (!) are not used here: write the "
							   "value out, or quote it");
	switch (event->type) {
	case YAML_SCALAR_EVENT: return scalar_add(b, event);
	case YAML_SEQUENCE_START_EVENT: return collection_open(b, event, LG_NODE_LIST);
	case YAML_MAPPING_START_EVENT: return collection_open(b, event, LG_NODE_MAP);
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT: b->depth--; return 0;
	case YAML_DOCUMENT_START_EVENT:
		if (b->has_document)
			return mark_complain(b, event->start_mark, "a second document begins here: write one only");
		b->has_document = true;
		return 0;
	case YAML_STREAM_END_EVENT: return 1;
	case YAML_NO_EVENT:
	case YAML_ALIAS_EVENT:
	case YAML_STREAM_START_EVENT:
	case YAML_DOCUMENT_END_EVENT: return 0;
	}
	return 0;
}

static int events_run(struct builder *b)
{
	yaml_event_t event;
	int r;

	do {
		if (!yaml_parser_parse(&b->parser, &event))
			return syntax_complain(b);
		r = event_take(b, &event);
		yaml_event_delete(&event);
	} while (r == 0);
	return r < 0 ? r : 0;
}

static int too_large_complain(size_t max_bytes, struct lg_complaint *c)
{
	return lg_complain(c, "larger than %zu bytes, the most that is read", max_bytes);
}

int lg_tree_parse(const char *text, size_t len, const char *name, size_t max_bytes, const char *expect,
		  struct lg_tree **ret_tree, struct lg_complaint *c)
{
	_cleanup_(lg_tree_free) struct lg_tree *tree = calloc(1, sizeof(*tree));
	struct builder b = { .text = text, .len = len, .tree = tree, .c = c };
	int r;

	snprintf(c->file, sizeof(c->file), "%s", name);
	c->line = c->col = 0;
	if (len > max_bytes)
		return too_large_complain(max_bytes, c);
	if (!tree || !yaml_parser_initialize(&b.parser))
		return -ENOMEM;
	yaml_parser_set_encoding(&b.parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&b.parser, (const unsigned char *)text, len);
	r = events_run(&b);
	yaml_parser_delete(&b.parser);
	free(b.key);
	if (r < 0)
		return r;
	if (!tree->root || (tree->root->kind == LG_NODE_SCALAR && !*tree->root->text))
		return lg_complain(c, "nothing is written here: %s", expect);
	if (tree->root->kind != LG_NODE_MAP)
		return lg_node_complain(tree->root, c, "this is no mapping of keys to values: %s", expect);
	*ret_tree = TAKE(tree);
	return 0;
}

/* Forwards a failed system call with its words. */
static int errno_complain(struct lg_complaint *c, const char *what)
{
	int err = errno;

	lg_complain(c, "cannot %s: %s", what, strerror(err));
	return -err;
}

int lg_tree_file_read(const char *path, size_t max_bytes, char **ret_text, size_t *ret_len, struct lg_complaint *c)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_fd_ int fd = -1;
	struct stat st;
	size_t len = 0;
	ssize_t n;

	snprintf(c->file, sizeof(c->file), "%s", path);
	c->line = c->col = 0;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0)
		return errno_complain(c, "open it");
	if (!S_ISREG(st.st_mode)) {
		lg_complain(c, "this is not a file");
		return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
	}
	text = malloc(max_bytes + 1);
	if (!text)
		return -ENOMEM;
	do {
		n = read(fd, text + len, max_bytes + 1 - len);
		if (n < 0 && errno != EINTR)
			return errno_complain(c, "read it");
		len += n > 0 ? (size_t)n : 0;
	} while (n != 0 && len <= max_bytes);
	if (len > max_bytes)
		return too_large_complain(max_bytes, c);
	*ret_text = TAKE(text);
	*ret_len = len;
	return 0;
}
