// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "rules/fields.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/if_ether.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "leasegate/bounds.h"
#include "rules/action.h"
#include "rules/config.h"
#include "rules/names.h"

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"
#define KEY_LEN_MAX 48 /* longest key that is worth a suggestion */

const struct lg_field lg_rules_fields[_LG_RF_N] = {
#define LG_RULES_FIELD(id, path, type, min, max, def, words, help) \
	{ path, LG_FIELD_##type, min, max, def, words, help, LG_FIELD_BOTH },
#include "rules/fields.def"
};

const struct lg_field lg_config_fields[_LG_CF_N] = {
#define LG_CONFIG_FIELD(id, path, type, min, max, def, words, help, roles) \
	{ path, LG_FIELD_##type, min, max, def, words, help, LG_FIELD_##roles },
#include "rules/fields.def"
};

const char *lg_field_label(const struct lg_field *field)
{
	const char *label = field->path, *item;

	while ((item = strstr(label, "[].")))
		label = item + 3;
	return label;
}

int lg_field_complain(const struct lg_field *field, const struct lg_node *node, struct lg_complaint *c, const char *fmt,
		      ...)
{
	char why[sizeof(c->text)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	return lg_node_complain(node, c, "%s: %.440s", lg_field_label(field), why);
}

/* ---- words ---- */

/* "a|!b|c" as "a, c"; those that begin with "!" are left out. */
static void words_list(const char *words, char *buf, size_t len)
{
	size_t n = 0;

	buf[0] = '\0';
	for (const char *w = words; *w; w += strcspn(w, "|"), w += *w == '|')
		if (*w != '!' && n < len)
			n += (size_t)snprintf(buf + n, len - n, "%s%.*s", n ? ", " : "", (int)strcspn(w, "|"), w);
}

/* The index of text in words; *ret_later says whether it is a refused one. -ENOENT if it is none. */
static int word_find(const char *words, const char *text, bool *ret_later)
{
	int i = 0;

	for (const char *w = words; *w; w += strcspn(w, "|"), w += *w == '|', i++) {
		*ret_later = *w == '!';
		w += *ret_later;
		if (strlen(text) == strcspn(w, "|") && strncmp(w, text, strlen(text)) == 0)
			return i;
	}
	return -ENOENT;
}

static int word_read(const struct lg_field *field, const struct lg_node *node, uint64_t *ret_num,
		     struct lg_complaint *c)
{
	char known[128], quoted[LG_QUOTE_LEN];
	bool later;
	int i = word_find(field->words, node->text, &later);

	words_list(field->words, known, sizeof(known));
	lg_text_quote(node->text, quoted);
	if (i < 0)
		return lg_field_complain(field, node, c, "%s is none of %s", quoted, known);
	if (later)
		return lg_field_complain(field, node, c, "%s is not supported yet by this version, only %s", quoted,
					 known);
	*ret_num = (uint64_t)i;
	return 0;
}

/* One word, or an item of a list of them, as a bit. */
static int words_read(const struct lg_field *field, const struct lg_node *node, uint64_t *ret_num, struct lg_complaint *c)
{
	uint64_t index = 0;
	int r;

	if (node->kind == LG_NODE_MAP || (node->kind == LG_NODE_LIST && !node->n))
		return lg_field_complain(field, node, c, "expected %s", lg_field_type_text(field));
	if (node->kind == LG_NODE_SCALAR) {
		r = word_read(field, node, &index, c);
		*ret_num = r < 0 ? 0 : 1ull << index;
		return r;
	}
	*ret_num = 0;
	for (const struct lg_node *item = node->child; item; item = item->next) {
		if (item->kind != LG_NODE_SCALAR)
			return lg_field_complain(field, item, c, "expected a word in the list");
		r = word_read(field, item, &index, c);
		if (r < 0)
			return r;
		*ret_num |= 1ull << index;
	}
	return 0;
}

/* ---- values ---- */

const char *lg_field_type_text(const struct lg_field *field)
{
	switch (field->type) {
	case LG_FIELD_MAP: return "a mapping of keys to values";
	case LG_FIELD_LIST: return "a list";
	case LG_FIELD_NAMES: return "a mapping from names to values";
	case LG_FIELD_NAME:
	case LG_FIELD_INSTANCE: return "a name";
	case LG_FIELD_IFNAME: return "the name of an interface";
	case LG_FIELD_IFPATTERN: return "the name of an interface, or a pattern such as veth*";
	case LG_FIELD_WORD: return "a word";
	case LG_FIELD_CHOICE: return "a word, or a mapping with one of the keys below";
	case LG_FIELD_MARK: return "a number such as 7 or 0x10, below 2^32";
	case LG_FIELD_PRIORITY: return "a number such as 6 below 2^32, or a class such as 1:10";
	case LG_FIELD_DSCP: return "a DSCP such as ef, af41 or 46, 0 to 63";
	case LG_FIELD_NODES: return "a percentage such as 10%, or a label and its value such as tier=canary";
	case LG_FIELD_WORDS: return "a word or a list of words";
	case LG_FIELD_BOOL: return "true or false";
	case LG_FIELD_UINT: return "a whole number";
	case LG_FIELD_PERCENT: return "a percentage such as 20%";
	case LG_FIELD_RATE: return "a rate such as 10/s";
	case LG_FIELD_DURATION: return "a duration such as 150ms";
	case LG_FIELD_BYTES: return "an amount of bytes such as 64MiB";
	case LG_FIELD_PROTOCOL: return "a protocol such as udp";
	case LG_FIELD_LENGTH: return "a prefix length such as 32, or {ipv4: 24, ipv6: 56}";
	case LG_FIELD_ADDRESS: return "an address such as 192.0.2.1:7400";
	case LG_FIELD_PATH: return "a path";
	case LG_FIELD_ETHERTYPE: return "one of ip, ipv6, arp, lldp, llc, or a number such as 0x88cc";
	case LG_FIELD_TCP_FLAGS: return "flags such as syn,!ack";
	case LG_FIELD_PREFIXES: return "a list of prefixes";
	case LG_FIELD_ADDRESSES: return "a list of addresses such as [192.0.2.1:2379]";
	case LG_FIELD_LISTED: return "a list of prefixes and of {file: PATH}";
	case LG_FIELD_MATCH: return "a mapping with the keys of `rules[].match`";
	case LG_FIELD_IFNAMES: return "the name of an interface, or a list of names";
	case LG_FIELD_TAGS: return "a VLAN id such as 7, a range such as 100-199, none, or a list of them";
	case LG_FIELD_ICMP_TYPES: return "a type such as echo-request, 8 or 3/4 (with its code), or a list of them";
	case LG_FIELD_PORTS: return "a port such as 53, a range such as 8000-8099, or a list of them";
	case LG_FIELD_PREFIX: return "a prefix such as 192.0.2.0/24";
	case LG_FIELD_VALUES: return "a list of values such as [alice, \"vip:*\"]";
	case LG_FIELD_ENTRIES: return "a list of entries such as [user, {key: plan, value: gold}]";
	case LG_FIELD_TEXTS: return "a list of entries such as [user, path]";
	case LG_FIELD_TEXT: return "an entry such as ip";
	case LG_FIELD_LIMIT: return "a limit such as 10000/1m";
	case LG_FIELD_AMOUNT: return "an amount such as 500, or 64KiB for bytes";
	}
	return "something";
}

static int kind_check(const struct lg_field *field, const struct lg_node *node, struct lg_complaint *c)
{
	static const char *const kinds[] = { "a single value", "a list", "a mapping" };
	enum lg_field_type type = field->type;
	bool map = type == LG_FIELD_MAP || type == LG_FIELD_NAMES || type == LG_FIELD_LENGTH || type == LG_FIELD_CHOICE ||
		   type == LG_FIELD_MATCH;
	bool either = type == LG_FIELD_WORDS || type == LG_FIELD_PORTS || type == LG_FIELD_TAGS || type == LG_FIELD_IFNAMES ||
		      type == LG_FIELD_ICMP_TYPES;
	bool list = type == LG_FIELD_LIST || type == LG_FIELD_PREFIXES || type == LG_FIELD_ADDRESSES || type == LG_FIELD_LISTED ||
		    type == LG_FIELD_VALUES || type == LG_FIELD_ENTRIES || type == LG_FIELD_TEXTS || either;
	bool scalar = type == LG_FIELD_LENGTH || type == LG_FIELD_CHOICE || either || !(map || list);

	if (node->kind == LG_NODE_SCALAR && !*node->text)
		return lg_field_complain(field, node, c, "has no value: write %s", lg_field_type_text(field));
	if (node->kind == LG_NODE_SCALAR ? scalar : node->kind == LG_NODE_LIST ? list
									       : map)
		return 0;
	return lg_field_complain(field, node, c, "expected %s, not %s", lg_field_type_text(field), kinds[node->kind]);
}

bool lg_name_is_valid(const char *text)
{
	return isalnum((unsigned char)text[0]) && !text[strspn(text, LETTERS DIGITS "._-")] &&
	       strlen(text) < LG_NAME_LEN;
}

static int name_check(const struct lg_field *field, const struct lg_node *node, struct lg_complaint *c)
{
	static const char *const instance_letters = "abcdefghijklmnopqrstuvwxyz" DIGITS "_-";
	bool instance = field->type == LG_FIELD_INSTANCE;
	char quoted[LG_QUOTE_LEN];

	lg_text_quote(node->text, quoted);
	if (strlen(node->text) > field->max)
		return lg_field_complain(field, node, c, "%s is longer than %" PRIu64 " characters", quoted,
					 field->max);
	if (!lg_name_is_valid(node->text) || (instance && node->text[strspn(node->text, instance_letters)]))
		return lg_field_complain(field, node, c, "%s is no name: %s, after a first letter or digit", quoted,
					 instance ? "write a-z, 0-9, _ and -" : "write A-Z, a-z, 0-9, ., _ and -");
	return 0;
}

bool lg_ifname_is_pattern(const char *text)
{
	return text[strcspn(text, "*?[")] != '\0';
}

int lg_ifname_check(const struct lg_field *field, const struct lg_node *node, struct lg_complaint *c)
{
	const char *text = node->text;
	char quoted[LG_QUOTE_LEN];
	size_t len = strlen(text), max = field->max;
	bool graph = true;

	if (field->type == LG_FIELD_IFPATTERN && !lg_ifname_is_pattern(text))
		max = LG_IFNAME_LEN - 1;
	for (size_t i = 0; i < len; i++)
		graph = graph && isgraph((unsigned char)text[i]) && text[i] != '/' && text[i] != ':';
	if (graph && len <= max && strcmp(text, ".") != 0 && strcmp(text, "..") != 0)
		return 0;
	return lg_field_complain(field, node, c,
				 "%s cannot be an interface: 1 to %zu characters, no blank, / or :", lg_text_quote(text, quoted), max);
}

int lg_address_check(const char *text, struct lg_complaint *c)
{
	char quoted[LG_QUOTE_LEN];
	const char *colon = strrchr(text, ':'), *host = text;
	size_t n = colon ? (size_t)(colon - text) : 0;
	uint64_t port;

	lg_text_quote(text, quoted);
	if (strlen(text) >= LG_ADDRESS_LEN)
		return lg_complain(c, "%s is longer than %d characters", quoted, LG_ADDRESS_LEN - 1);
	if (!n || lg_num_parse(colon + 1, 1, 65535, &port, c) < 0)
		return lg_complain(c, "%s is not host:port with a port of 1 to 65535", quoted);
	if (host[0] == '[' && host[n - 1] == ']' && n > 2 && strspn(host + 1, DIGITS "abcdefABCDEF:.") == n - 2)
		return 0;
	if (memchr(host, ':', n))
		return lg_complain(c, "%s: put the IPv6 address in brackets, as in [2001:db8::1]:7400", quoted);
	if (strspn(host, LETTERS DIGITS "._-") != n)
		return lg_complain(c, "%s is not host:port: the host is a name or an address", quoted);
	return 0;
}

/* "10/s": how often, in thousandths per second. */
static int rate_parse(const struct lg_field *field, const char *text, uint64_t *ret_mps, struct lg_complaint *c)
{
	uint64_t n, per_ns, mps;
	char quoted[LG_QUOTE_LEN];

	if (lg_limit_parse(text, false, field->max, LG_PER_MAX_NS, &n, &per_ns, c) < 0)
		return -EINVAL;
	mps = (uint64_t)((unsigned __int128)n * 1000000000000u / per_ns);
	if (mps < field->min || mps > field->max)
		return lg_complain(c, "%s is outside %g/s to %g/s", lg_text_quote(text, quoted), (double)field->min / 1000,
				   (double)field->max / 1000);
	*ret_mps = mps;
	return 0;
}

/* Runs a parser that knows no keys and puts the key before its complaint. */
static int num_read(const struct lg_field *field, const struct lg_node *node, uint64_t *ret_num, struct lg_complaint *c)
{
	struct lg_complaint why = { 0 };
	uint32_t permille = 0;
	int r;

	if (field->type == LG_FIELD_PERCENT) {
		r = lg_permille_parse(node->text, (uint32_t)field->min, (uint32_t)field->max, &permille, &why);
		*ret_num = permille;
	} else if (field->type == LG_FIELD_RATE) {
		r = rate_parse(field, node->text, ret_num, &why);
	} else if (field->type == LG_FIELD_DURATION) {
		r = lg_duration_parse(node->text, field->min, field->max, ret_num, &why);
	} else {
		r = lg_num_parse(node->text, field->min, field->max, ret_num, &why);
	}
	return r < 0 ? lg_field_complain(field, node, c, "%s", why.text) : 0;
}

static int bytes_read(const struct lg_field *field, const struct lg_node *node, uint64_t *ret_num, struct lg_complaint *c)
{
	struct lg_complaint why = { 0 };
	bool later;

	*ret_num = 0;
	if (field->words && word_find(field->words, node->text, &later) >= 0)
		return 0;
	if (lg_bytes_parse(node->text, field->min, field->max, ret_num, &why) < 0)
		return lg_field_complain(field, node, c, "%s", why.text);
	return 0;
}

static int address_read(const struct lg_field *field, const struct lg_node *node, struct lg_complaint *c)
{
	struct lg_complaint why = { 0 };
	bool later;

	if (field->words && word_find(field->words, node->text, &later) >= 0)
		return 0;
	return lg_address_check(node->text, &why) < 0 ? lg_field_complain(field, node, c, "%s", why.text) : 0;
}

static int bool_read(const struct lg_field *field, const struct lg_node *node, uint64_t *ret_num,
		     struct lg_complaint *c)
{
	char quoted[LG_QUOTE_LEN];

	*ret_num = strcmp(node->text, "true") == 0;
	if (*ret_num || strcmp(node->text, "false") == 0)
		return 0;
	return lg_field_complain(field, node, c, "%s is not true or false", lg_text_quote(node->text, quoted));
}

static int protocol_read(const struct lg_field *field, const struct lg_node *node, uint64_t *ret_num,
			 struct lg_complaint *c)
{
	int number = lg_protocol_parse(node->text);
	char quoted[LG_QUOTE_LEN];

	if (number < 0)
		return lg_field_complain(field, node, c,
					 "%s is none of tcp, udp, icmp, icmpv6, sctp, or a number of 0 to 255",
					 lg_text_quote(node->text, quoted));
	*ret_num = (uint64_t)number;
	return 0;
}

static int ethertype_read(const struct lg_field *field, const struct lg_node *node, uint64_t *ret_num, struct lg_complaint *c)
{
	char quoted[LG_QUOTE_LEN];
	int number = lg_ethertype_parse(node->text);

	lg_text_quote(node->text, quoted);
	if (number < 0)
		return lg_field_complain(field, node, c, "%s is none of ip, ipv6, arp, lldp, llc, or a number of 0x600 to 0xffff", quoted);
	if (number == ETH_P_8021Q || number == ETH_P_8021AD)
		return lg_field_complain(field, node, c, "%s is a tag, and this is what stands behind the tags: write vlan", quoted);
	*ret_num = (uint64_t)number;
	return 0;
}

static int special_read(const struct lg_field *field, const struct lg_node *node, int (*parse)(const char *, uint64_t *),
			uint64_t *ret_num, struct lg_complaint *c)
{
	char quoted[LG_QUOTE_LEN];

	lg_text_quote(node->text, quoted);
	if (parse(node->text, ret_num) < 0)
		return lg_field_complain(field, node, c, "%s is not %s", quoted, lg_field_type_text(field));
	return 0;
}

static int tcp_flags_read(const struct lg_field *field, const struct lg_node *node, uint64_t *ret_num, struct lg_complaint *c)
{
	char quoted[LG_QUOTE_LEN];
	uint8_t mask, value;

	lg_text_quote(node->text, quoted);
	if (lg_tcp_flags_parse(node->text, &mask, &value) < 0)
		return lg_field_complain(field, node, c,
					 "%s is no list of fin, syn, rst, psh, ack, urg, ece, cwr, each once, with ! before those that must "
					 "not be set",
					 quoted);
	*ret_num = (uint64_t)mask << 8 | value;
	return 0;
}

/* The value of a scalar, as far as it can be judged without other keys. */
static int scalar_read(const struct lg_field *field, const struct lg_node *node, uint64_t *ret_num,
		       struct lg_complaint *c)
{
	switch (field->type) {
	case LG_FIELD_NAME:
	case LG_FIELD_INSTANCE: return name_check(field, node, c);
	case LG_FIELD_IFNAME:
	case LG_FIELD_IFPATTERN: return lg_ifname_check(field, node, c);
	case LG_FIELD_CHOICE:
	case LG_FIELD_WORD: return word_read(field, node, ret_num, c);
	case LG_FIELD_MARK: return special_read(field, node, lg_mark_parse, ret_num, c);
	case LG_FIELD_PRIORITY: return special_read(field, node, lg_priority_parse, ret_num, c);
	case LG_FIELD_DSCP: return special_read(field, node, lg_dscp_parse, ret_num, c);
	case LG_FIELD_BOOL: return bool_read(field, node, ret_num, c);
	case LG_FIELD_PROTOCOL: return protocol_read(field, node, ret_num, c);
	case LG_FIELD_WORDS: return words_read(field, node, ret_num, c);
	case LG_FIELD_ETHERTYPE: return ethertype_read(field, node, ret_num, c);
	case LG_FIELD_TCP_FLAGS: return tcp_flags_read(field, node, ret_num, c);
	case LG_FIELD_UINT:
	case LG_FIELD_LENGTH:
	case LG_FIELD_RATE:
	case LG_FIELD_DURATION:
	case LG_FIELD_PERCENT: return num_read(field, node, ret_num, c);
	case LG_FIELD_BYTES: return bytes_read(field, node, ret_num, c);
	case LG_FIELD_ADDRESS: return address_read(field, node, c);
	case LG_FIELD_PATH:
		if (strlen(node->text) > field->max)
			return lg_field_complain(field, node, c, "longer than %" PRIu64 " bytes", field->max);
		return 0;
	case LG_FIELD_MAP:
	case LG_FIELD_LIST:
	case LG_FIELD_NAMES:
	case LG_FIELD_PREFIXES:
	case LG_FIELD_ADDRESSES:
	case LG_FIELD_LISTED:
	case LG_FIELD_MATCH:
	case LG_FIELD_IFNAMES:
	case LG_FIELD_TAGS:
	case LG_FIELD_ICMP_TYPES:
	case LG_FIELD_PORTS:
	case LG_FIELD_PREFIX:
	case LG_FIELD_NODES:
	case LG_FIELD_VALUES:
	case LG_FIELD_ENTRIES:
	case LG_FIELD_TEXTS:
	case LG_FIELD_TEXT:
	case LG_FIELD_LIMIT:
	case LG_FIELD_AMOUNT: return 0;
	}
	return 0;
}

/* ---- mappings ---- */

/* The last part of a field's path if it is a key of the mapping at prefix, else NULL. */
static const char *key_of(const struct lg_field *field, const char *prefix)
{
	size_t n = strlen(prefix);
	const char *key = field->path + n;

	if (strncmp(field->path, prefix, n) != 0)
		return NULL;
	if (n && *key++ != '.')
		return NULL;
	return key[strcspn(key, ".[")] ? NULL : key;
}

static size_t min_of(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Letters to insert, delete, change or swap with a neighbour to make a into b; SIZE_MAX for what is too long to compare. */
static size_t distance(const char *a, const char *b)
{
	size_t row[3][KEY_LEN_MAX + 1], n = strlen(a), m = strlen(b);
	size_t *before = row[0], *above = row[1], *here = row[2], *spare;

	if (n > KEY_LEN_MAX || m > KEY_LEN_MAX)
		return SIZE_MAX;
	for (size_t j = 0; j <= m; j++)
		above[j] = j;
	for (size_t i = 1; i <= n; i++) {
		here[0] = i;
		for (size_t j = 1; j <= m; j++) {
			here[j] = min_of(min_of(above[j], here[j - 1]) + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				here[j] = min_of(here[j], before[j - 2] + 1);
		}
		spare = before;
		before = above;
		above = here;
		here = spare;
	}
	return above[m];
}

/* Nearer than best? Of two as near the one as long. */
static bool is_nearer(const char *text, const char *key, size_t *best)
{
	size_t rank = distance(text, key);

	rank = rank < *best ? 2 * rank + (strlen(key) != strlen(text)) : *best;
	if (rank >= *best)
		return false;
	*best = rank;
	return true;
}

static size_t far_enough(const char *text)
{
	return 2 * (2 + strlen(text) / 4);
}

const char *lg_nearest(const char *text, const char *(*at)(const void *arg, size_t i), const void *arg, size_t n)
{
	size_t best = far_enough(text);
	const char *nearest = NULL;

	for (size_t i = 0; i < n; i++)
		if (is_nearer(text, at(arg, i), &best))
			nearest = at(arg, i);
	return nearest;
}

/* An unknown key: the nearest one as a suggestion, or else all that may stand here. */
static int unknown_complain(const struct lg_field *fields, size_t n, const char *prefix, enum lg_field_roles role,
			    const struct lg_node *node, struct lg_complaint *c)
{
	size_t best = far_enough(node->key), len = 0;
	char quoted[LG_QUOTE_LEN], known[320] = "";
	const char *nearest = NULL, *key;

	lg_text_quote(node->key, quoted);
	for (size_t i = 0; i < n; i++) {
		key = fields[i].roles & role ? key_of(&fields[i], prefix) : NULL;
		if (!key)
			continue;
		if (len < sizeof(known))
			len += (size_t)snprintf(known + len, sizeof(known) - len, "%s%s", len ? ", " : "", key);
		if (is_nearer(node->key, key, &best))
			nearest = key;
	}
	if (nearest)
		return lg_node_key_complain(node, c, "unknown key %s: did you mean \"%s\"?", quoted, nearest);
	return lg_node_key_complain(node, c, "unknown key %s: known here are %s", quoted, known);
}

static int map_collect(const struct lg_field *fields, size_t n, const char *prefix, enum lg_field_roles role,
		       const struct lg_node *map, struct lg_field_at *at, struct lg_complaint *c);

/* One key with its value: of the field i, known to belong here. */
static int value_collect(const struct lg_field *fields, size_t n, size_t i, enum lg_field_roles role,
			 const struct lg_node *node, struct lg_field_at *at, struct lg_complaint *c)
{
	const struct lg_field *field = &fields[i];
	enum lg_field_type type = field->type;
	int r;

	if (!(field->roles & role))
		return lg_node_key_complain(node, c, "\"%s\" is a key of %s, and this file is read by %s", node->key,
					    role == LG_FIELD_NODE ? "region servers" : "nodes",
					    role == LG_FIELD_NODE ? "a node" : "a region server");
	at[i].node = node;
	r = kind_check(field, node, c);
	if (r < 0)
		return r;
	if (node->kind == LG_NODE_SCALAR)
		return scalar_read(field, node, &at[i].num, c);
	if (field->type == LG_FIELD_WORDS)
		return words_read(field, node, &at[i].num, c);
	if (field->type == LG_FIELD_MAP || field->type == LG_FIELD_LENGTH || field->type == LG_FIELD_CHOICE)
		return map_collect(fields, n, field->path, role, node, at, c);
	if ((type == LG_FIELD_LIST || type == LG_FIELD_PREFIXES || type == LG_FIELD_ADDRESSES || type == LG_FIELD_VALUES ||
	     type == LG_FIELD_ENTRIES || type == LG_FIELD_TEXTS) &&
	    (node->n < field->min || node->n > field->max))
		return lg_field_complain(field, node, c, "has %zu items, but %" PRIu64 " to %" PRIu64 " are possible",
					 node->n, field->min, field->max);
	return 0;
}

static int map_collect(const struct lg_field *fields, size_t n, const char *prefix, enum lg_field_roles role,
		       const struct lg_node *map, struct lg_field_at *at, struct lg_complaint *c)
{
	const char *key;
	size_t i;
	int r;

	for (const struct lg_node *node = map->child; node; node = node->next) {
		for (i = 0; i < n; i++) {
			key = key_of(&fields[i], prefix);
			if (key && strcmp(key, node->key) == 0)
				break;
		}
		r = i < n ? value_collect(fields, n, i, role, node, at, c)
			  : unknown_complain(fields, n, prefix, role, node, c);
		if (r < 0)
			return r;
	}
	for (i = 0; i < n; i++)
		if (!at[i].node && !fields[i].def && fields[i].roles & role && key_of(&fields[i], prefix))
			return lg_node_complain(map, c, "%s is missing: write %s", lg_field_label(&fields[i]),
						lg_field_type_text(&fields[i]));
	return 0;
}

/* The value of a default that is written out in the table. */
static uint64_t default_num(const struct lg_field *field)
{
	struct lg_complaint unused;
	struct lg_node node = { .kind = LG_NODE_SCALAR };
	uint64_t num = 0;

	if (!field->def || !*field->def || *field->def == '(')
		return 0;
	node.text = (char *)field->def;
	scalar_read(field, &node, &num, &unused);
	return num;
}

int lg_fields_collect(const struct lg_field *fields, size_t n, const char *prefix, enum lg_field_roles role,
		      const struct lg_node *map, struct lg_field_at *ret_at, struct lg_complaint *c)
{
	for (size_t i = 0; i < n; i++)
		ret_at[i] = (struct lg_field_at){ .num = default_num(&fields[i]) };
	return map_collect(fields, n, prefix, role, map, ret_at, c);
}
