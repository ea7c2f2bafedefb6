// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "rules/action.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/if_ether.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rules/reader.h"

#define INGRESS 1u /* of lg_match.directions */
#define EGRESS 2u

/* RFC 2474, 2597, 3246, 5865, 8622. The first name of a number is the one that is written. */
static const struct {
	const char *name;
	uint8_t dscp;
} dscps[] = {
	{ "cs0", 0 },   { "cs1", 8 },   { "cs2", 16 },  { "cs3", 24 },  { "cs4", 32 },  { "cs5", 40 },  { "cs6", 48 },
	{ "cs7", 56 },  { "af11", 10 }, { "af12", 12 }, { "af13", 14 }, { "af21", 18 }, { "af22", 20 }, { "af23", 22 },
	{ "af31", 26 }, { "af32", 28 }, { "af33", 30 }, { "af41", 34 }, { "af42", 36 }, { "af43", 38 }, { "ef", 46 },
	{ "va", 44 },   { "le", 1 },    { "be", 0 },    { "df", 0 },
};

/* ---- numbers ---- */

/* A number of at most 32 bits, all of the text up to `end`. */
static int number_parse(const char *text, int base, char end, const char **ret_end, uint64_t *ret)
{
	char *stop;
	uint64_t n;

	if (!((*text >= '0' && *text <= '9') || (base == 16 && *text >= 'a' && *text <= 'f')))
		return -EINVAL;
	errno = 0;
	n = strtoull(text, &stop, base);
	if (errno || *stop != end || n > UINT32_MAX)
		return -EINVAL;
	*ret_end = stop;
	*ret = n;
	return 0;
}

int lg_mark_parse(const char *text, uint64_t *ret_mark)
{
	bool hex = strncmp(text, "0x", 2) == 0;
	const char *end;

	return number_parse(hex ? text + 2 : text, hex ? 16 : 10, '\0', &end, ret_mark);
}

int lg_priority_parse(const char *text, uint64_t *ret_priority)
{
	uint64_t major, minor;
	const char *end;

	if (!strchr(text, ':'))
		return lg_mark_parse(text, ret_priority);
	if (number_parse(text, 16, ':', &end, &major) < 0 || number_parse(end + 1, 16, '\0', &end, &minor) < 0 || major > UINT16_MAX ||
	    minor > UINT16_MAX)
		return -EINVAL;
	*ret_priority = major << 16 | minor;
	return 0;
}

int lg_dscp_parse(const char *text, uint64_t *ret_dscp)
{
	const char *end;

	for (size_t i = 0; i < N_ELEMS(dscps); i++) {
		if (strcmp(dscps[i].name, text) == 0) {
			*ret_dscp = dscps[i].dscp;
			return 0;
		}
	}
	return number_parse(text, 10, '\0', &end, ret_dscp) < 0 || *ret_dscp > 63 ? -EINVAL : 0;
}

static void dscp_text(uint32_t dscp, char *buf, size_t len)
{
	for (size_t i = 0; i < N_ELEMS(dscps); i++) {
		if (dscps[i].dscp == dscp) {
			snprintf(buf, len, "dscp %s", dscps[i].name);
			return;
		}
	}
	snprintf(buf, len, "dscp %" PRIu32, dscp);
}

void lg_action_text(enum lg_action action, uint32_t value, char *buf, size_t len)
{
	switch (action) {
	case LG_ACTION_MARK: snprintf(buf, len, "mark 0x%" PRIx32, value); return;
	case LG_ACTION_PRIORITY:
		if (value >> 16)
			snprintf(buf, len, "priority %" PRIx32 ":%" PRIx32, value >> 16, value & 0xffff);
		else
			snprintf(buf, len, "priority %" PRIu32, value);
		return;
	case LG_ACTION_DSCP: dscp_text(value, buf, len); return;
	case LG_ACTION_ECN: snprintf(buf, len, "ecn ce"); return;
	case LG_ACTION_RESET: snprintf(buf, len, "reset"); return;
	case LG_ACTION_PROHIBITED: snprintf(buf, len, "prohibited"); return;
	case LG_ACTION_PACE: snprintf(buf, len, "pace"); return;
	case LG_ACTION_SOFT: snprintf(buf, len, "soft"); return;
	case LG_ACTION_DROP:
	case _LG_ACTION_N: break;
	}
	snprintf(buf, len, "drop");
}

/* ---- what a rule may ask for ---- */

bool lg_action_marks(const struct lg_rule_def *rule)
{
	switch (rule->action) {
	case LG_ACTION_MARK:
	case LG_ACTION_PRIORITY:
	case LG_ACTION_DSCP:
	case LG_ACTION_ECN: return true;
	case LG_ACTION_DROP:
	case LG_ACTION_RESET:
	case LG_ACTION_PROHIBITED:
	case LG_ACTION_PACE:
	case LG_ACTION_SOFT:
	case _LG_ACTION_N: break;
	}
	return false;
}

bool lg_rule_acts(const struct lg_rule_def *rule)
{
	return rule->action != LG_ACTION_DROP && !rule->shadow;
}

uint64_t lg_pace_horizon_tok(const struct lg_rule_def *rule)
{
	unsigned __int128 tok = (unsigned __int128)rule->limit_tok * LG_PACE_HORIZON_NS / rule->per_ns;
	uint64_t most = LG_BURST_MAX_TOK - rule->burst_tok;

	return tok < most ? (uint64_t)tok : most;
}

static bool is_ip(const struct lg_match *match)
{
	return !match->ethertype.has || match->ethertype.value == ETH_P_IP || match->ethertype.value == ETH_P_IPV6;
}

static int pace_check(struct lg_reader *r, enum lg_rules_field id)
{
	struct lg_rule_def *rule = r->rule;

	if (rule->match.directions != EGRESS)
		return lg_reader_complain(r, id, "holds packets back where they leave: write `direction: egress` in the rule's match");
	if (rule->scope != LG_SCOPE_HOST)
		return lg_reader_complain(r, id, "is for host rules: tokens that are lent are there or not, there is no telling when");
	if (rule->algorithm != LG_TOKEN_BUCKET)
		return lg_reader_complain(r, id, "is for token_bucket, which refills steadily, and the algorithm is %s",
					  lg_algorithm_name(rule->algorithm));
	if (rule->table == LG_TABLE_CHOICE_LINES)
		return lg_reader_complain(r, id, "needs `table: exact`: leave `table` and `keys` out");
	return 0;
}

static int action_check(struct lg_reader *r, enum lg_rules_field id)
{
	const struct lg_match *match = &r->rule->match;

	switch (r->rule->action) {
	case LG_ACTION_DSCP:
	case LG_ACTION_ECN:
		if (!is_ip(match))
			return lg_reader_complain(r, id, "is part of an IP header, and the rule matches frames that are no IP");
		return 0;
	case LG_ACTION_RESET:
		if (!is_ip(match) || (match->has_protocol && match->protocol != IPPROTO_TCP))
			return lg_reader_complain(r, id, "answers TCP, which the rule does not match: write `protocol: tcp`");
		break;
	case LG_ACTION_PROHIBITED:
		if (!is_ip(match))
			return lg_reader_complain(r, id, "answers IP, and the rule matches frames that are no IP");
		break;
	case LG_ACTION_PACE:
		if (match->requests)
			return lg_reader_complain(r, id, "is for packets, and requests cannot wait: leave match.domain out");
		return pace_check(r, id);
	case LG_ACTION_DROP:
	case LG_ACTION_MARK:
	case LG_ACTION_PRIORITY:
	case LG_ACTION_SOFT:
	case _LG_ACTION_N: return 0;
	}
	if (match->directions == EGRESS)
		return lg_reader_complain(r, id, "answers what comes in: what goes out was sent here, and there is nobody to answer");
	return 0;
}

#define WORD_DENY 4 /* the first of the field's words that is for requests */

/* One key of the mapping says what to do. */
static int mapping_read(struct lg_reader *r, enum lg_rules_field *ret_id)
{
	static const struct {
		enum lg_rules_field id;
		enum lg_action action;
	} kinds[] = {
		{ LG_RF_ACTION_MARK, LG_ACTION_MARK },
		{ LG_RF_ACTION_PRIORITY, LG_ACTION_PRIORITY },
		{ LG_RF_ACTION_DSCP, LG_ACTION_DSCP },
		{ LG_RF_ACTION_ECN, LG_ACTION_ECN },
	};
	size_t n = 0;

	for (size_t i = 0; i < N_ELEMS(kinds); i++) {
		if (!lg_is_written(r, kinds[i].id))
			continue;
		*ret_id = kinds[i].id;
		r->rule->action = kinds[i].action;
		r->rule->action_value = (uint32_t)r->at[kinds[i].id].num;
		n++;
	}
	if (n != 1)
		return lg_reader_complain(r, LG_RF_ACTION, "a packet has one action, and %zu are written", n);
	return 0;
}

int lg_action_read(struct lg_reader *r)
{
	/* In the order of the field's words; "deny" is what "drop" is of packets. */
	static const enum lg_action words[] = { LG_ACTION_DROP, LG_ACTION_RESET, LG_ACTION_PROHIBITED, LG_ACTION_PACE, LG_ACTION_DROP,
						LG_ACTION_SOFT };
	const bool is_mapping = lg_is_written(r, LG_RF_ACTION) && r->at[LG_RF_ACTION].node->kind == LG_NODE_MAP;
	const bool is_for_requests = !is_mapping && r->at[LG_RF_ACTION].num >= WORD_DENY;
	enum lg_rules_field id = LG_RF_ACTION;
	int err = 0;

	if (!lg_is_written(r, LG_RF_ACTION))
		return 0;
	if (is_for_requests && r->rule->unit != LG_UNIT_REQUESTS)
		return lg_reader_complain(r, id, "is for `unit: requests`: what becomes of packets is drop, or another of them");
	if (!is_for_requests && r->rule->unit == LG_UNIT_REQUESTS)
		return lg_reader_complain(r, id, "is for packets: what becomes of requests is deny or soft");
	if (is_mapping)
		err = mapping_read(r, &id);
	else
		r->rule->action = words[r->at[LG_RF_ACTION].num];
	return err < 0 ? err : action_check(r, id);
}

/* ---- where it can be done ---- */

static bool sees(const struct lg_interface *interface, const struct lg_rule_def *rule, const struct lg_config *config)
{
	const struct lg_match *match = &rule->match;

	for (size_t i = 0; i < match->n_interfaces; i++)
		if (lg_config_interface(config, match->interfaces[i]) == interface)
			return true;
	return match->n_interfaces == 0;
}

int lg_actions_check(const struct lg_rules *rules, const struct lg_config *config, struct lg_complaint *c)
{
	char text[LG_ACTION_TEXT_LEN];

	for (size_t i = 0; i < rules->n; i++) {
		const struct lg_rule_def *rule = &rules->v[i];

		if (!lg_rule_acts(rule) || !lg_action_marks(rule) || rule->match.directions == EGRESS)
			continue;
		for (size_t j = 0; j < config->n_interfaces; j++) {
			const struct lg_interface *interface = &config->interfaces[j];

			if (interface->xdp == LG_XDP_OFF || !sees(interface, rule, config))
				continue;
			lg_action_text(rule->action, rule->action_value, text, sizeof(text));
			c->line = rule->line;
			c->col = 0;
			return lg_complain(c,
					   "rule \"%s\": action %s is for TC, and interface %s has XDP on, where packets cannot be marked: "
					   "write `xdp: off` and `tc: on` for it, name other interfaces in the rule's match, or "
					   "`direction: egress`",
					   rule->name, text, interface->name);
		}
	}
	return 0;
}
