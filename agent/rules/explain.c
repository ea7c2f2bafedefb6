// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "rules/explain.h"

#include <inttypes.h>
#include <linux/if_ether.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "rules/action.h"
#include "rules/words.h"

#define FRAME_BYTES 1514       /* Ethernet without FCS at an MTU of 1500 */
#define SUPERFRAME_BYTES 65536 /* what segmentation offload makes of a TCP stream */
#define SUPERFRAME_PACKETS 45
#define TCP_PATIENCE_NS 200000000 /* the least that a sender waits for the answer to a packet before it sends it again */
#define NO_SHARE "; a region that is cut off admits nothing, its share of the limit being below 1"

/* ---- bound ---- */

/* Whether a period's traffic may come at its end and the next one's at its beginning: two counters take it to be spread evenly. */
static bool can_double(const struct lg_rule_def *rule)
{
	return rule->algorithm == LG_FIXED_WINDOW || (rule->algorithm == LG_SLIDING_WINDOW && rule->scope == LG_SCOPE_HOST);
}

void lg_rule_bound(const struct lg_rule_def *rule, const struct lg_explain_env *env, struct lg_bound *ret_bound)
{
	struct lg_bound bound = { .base_tok = rule->burst_tok, .plus_rate = rule->algorithm == LG_TOKEN_BUCKET && rule->per_ns };

	if (rule->scope == LG_SCOPE_GLOBAL && rule->fallback == LG_FALLBACK_SHARE && !lg_rule_sets_shares_aside(rule)) {
		bound.fallback_tok = rule->limit_tok / (env->n_regions ? env->n_regions : 1);
		bound.fallback_per_ns = rule->per_ns;
	}
	if (rule->algorithm != LG_TOKEN_BUCKET)
		bound.trailing_tok = can_double(rule) ? 2 * rule->limit_tok : rule->limit_tok;
	bound.unbounded = rule->scope == LG_SCOPE_GLOBAL && rule->fallback == LG_FALLBACK_OPEN;
	*ret_bound = bound;
}

static void amount_format(uint64_t tok, enum lg_unit unit, bool with_unit, char *buf, size_t len)
{
	if (unit == LG_UNIT_BYTES)
		lg_bytes_format(tok, buf, len);
	else
		snprintf(buf, len, "%" PRIu64 "%s%s%s", tok, with_unit ? " " : "", with_unit && unit == LG_UNIT_CONNECTIONS ? "new " : "",
			 with_unit ? lg_unit_name(unit) : "");
}

/* Of the limit, not beside it. */
static void aside_add(struct lg_words *t, const struct lg_rule_def *rule, const struct lg_explain_env *env)
{
	uint64_t tok = lg_rule_shares_tok(rule, rule->limit_tok) / (env->n_regions ? env->n_regions : 1);
	char share[LG_NUM_TEXT_LEN], per[LG_NUM_TEXT_LEN];

	amount_format(tok, rule->unit, false, share, sizeof(share));
	lg_duration_format(rule->per_ns, per, sizeof(per));
	if (!env->n_regions)
		lg_words_add(t, "; of that up to %s/n per %s for each of n regions that is cut off (n is not known here)", share, per);
	else if (!tok)
		lg_words_add(t, NO_SHARE);
	else
		lg_words_add(t, "; of that up to %s per %s for each region that is cut off", share, per);
}

/* Where packets differ from tokens by their cost the limit is one of tokens. */
static void base_format(const struct lg_rule_def *rule, uint64_t tok, char *buf, size_t len)
{
	if (rule->cost > 1 && rule->unit != LG_UNIT_BYTES)
		snprintf(buf, len, "%" PRIu64 " tokens", tok);
	else
		amount_format(tok, rule->unit, true, buf, len);
}

static void fallback_add(struct lg_words *t, const struct lg_rule_def *rule, const struct lg_explain_env *env,
			 const struct lg_bound *bound)
{
	char share[LG_NUM_TEXT_LEN], per[LG_NUM_TEXT_LEN];

	switch (rule->fallback) {
	case LG_FALLBACK_DENY: lg_words_add(t, "; a host that is cut off spends its lease, then denies"); return;
	case LG_FALLBACK_CLOSED: lg_words_add(t, "; a host that is cut off denies at once"); return;
	case LG_FALLBACK_OPEN: lg_words_add(t, "; a host that is cut off lets everything pass: nothing bounds it then"); return;
	case LG_FALLBACK_SHARE: break;
	}
	if (lg_rule_sets_shares_aside(rule)) {
		aside_add(t, rule, env);
		return;
	}
	amount_format(bound->fallback_tok, rule->unit, false, share, sizeof(share));
	lg_duration_format(rule->per_ns, per, sizeof(per));
	if (!env->n_regions)
		lg_words_add(t, "; while one of n regions is cut off + %s/n per %s for it, and %s/n once (n is not known here)", share, per,
			     share);
	else if (!bound->fallback_tok)
		lg_words_add(t, NO_SHARE);
	else
		lg_words_add(t, "; while a region is cut off + %s per %s for it, and %s once", share, per, share);
}

static void action_add(struct lg_words *t, const struct lg_rule_def *rule)
{
	char text[LG_ACTION_TEXT_LEN];

	lg_action_text(rule->action, rule->action_value, text, sizeof(text));
	switch (rule->action) {
	case LG_ACTION_MARK:
	case LG_ACTION_PRIORITY:
	case LG_ACTION_DSCP: lg_words_add(t, "; what is above passes with %s", text); return;
	case LG_ACTION_ECN: lg_words_add(t, "; what is above passes with %s if its ends have agreed on ECN", text); return;
	case LG_ACTION_RESET: lg_words_add(t, "; who sends TCP above it is told by a RST"); return;
	case LG_ACTION_PROHIBITED: lg_words_add(t, "; who sends what is above is told by ICMP"); return;
	case LG_ACTION_PACE: lg_words_add(t, "; what is above waits for its tokens, up to 2s, if its interface has fq"); return;
	case LG_ACTION_SOFT: lg_words_add(t, "; what is above passes, and its service is told to do less"); return;
	case LG_ACTION_DROP:
	case _LG_ACTION_N: return;
	}
}

static void ban_add(struct lg_words *t, const struct lg_ban_terms *ban)
{
	char within[LG_NUM_TEXT_LEN], length[LG_NUM_TEXT_LEN], max[LG_NUM_TEXT_LEN];

	if (!ban->after)
		return;
	lg_duration_format(ban->within_ns, within, sizeof(within));
	lg_duration_format(ban->for_ns, length, sizeof(length));
	lg_duration_format(ban->max_ns, max, sizeof(max));
	lg_words_add(t, "; a key that is refused %u times within %s is shut out for %s", ban->after, within, length);
	if (ban->max_ns)
		lg_words_add(t, ", twice as long each time, up to %s", max);
}

static const char *spender(enum lg_unit unit)
{
	return unit == LG_UNIT_BYTES ? "byte" : lg_unit_is_connection(unit) ? "new connection" : "packet";
}

void lg_rule_bound_text(const struct lg_rule_def *rule, const struct lg_explain_env *env, char *buf, size_t len)
{
	bool global = rule->scope == LG_SCOPE_GLOBAL;
	char base[LG_LIMIT_TEXT_LEN], limit[LG_LIMIT_TEXT_LEN], per[LG_NUM_TEXT_LEN], trailing[LG_NUM_TEXT_LEN];
	char nodes[LG_GATE_TEXT_LEN];
	struct lg_words t = { buf, len, 0 };
	struct lg_bound bound;

	lg_rule_bound(rule, env, &bound);
	base_format(rule, bound.base_tok, base, sizeof(base));
	lg_limit_format(rule->limit_tok, rule->per_ns, rule->unit, limit, sizeof(limit));
	lg_duration_format(rule->per_ns, per, sizeof(per));
	amount_format(bound.trailing_tok, rule->unit, false, trailing, sizeof(trailing));
	if (!rule->limit_tok)
		lg_words_add(&t, "nothing at all");
	else if (lg_unit_is_count(rule->unit))
		lg_words_add(&t, "at most %" PRIu64 " %s at one time, on each host", rule->limit_tok,
			     rule->unit == LG_UNIT_CONCURRENT ? "open connections" : "connections whose handshake is not finished");
	else if (bound.plus_rate)
		lg_words_add(&t, "at most %s at once, plus %s, %s", base, limit, global ? "over all hosts" : "on each host");
	else if (rule->algorithm == LG_FIXED_WINDOW)
		lg_words_add(&t, "at most %s in each %s of the %s clock (in any trailing %s at most %s), %s", base, per,
			     global ? "home's" : "host's",
			     per, trailing, global ? "over all hosts" : "on each host");
	else if (can_double(rule))
		lg_words_add(&t,
			     "at most %s in any trailing %s of even traffic, on each host (estimated by two counters: less than %s at worst)",
			     base, per, trailing);
	else
		lg_words_add(&t, "at most %s in any trailing %s, %s", base, per, global ? "over all hosts" : "on each host");
	if (global && (rule->limit_tok || bound.unbounded))
		fallback_add(&t, rule, env, &bound);
	if (rule->cost > 1)
		lg_words_add(&t, "; %" PRIu64 " are spent by each %s", rule->cost, spender(rule->unit));
	if (rule->on_full == LG_ON_FULL_PASS && lg_unit_is_count(rule->unit))
		lg_words_add(&t, "; connections that find the table of connections full pass uncounted");
	if (rule->on_full == LG_ON_FULL_PASS)
		lg_words_add(&t, "; keys that find the table of keys full pass without limit");
	if (lg_rule_acts(rule))
		action_add(&t, rule);
	ban_add(&t, &rule->ban);
	if (rule->shadow)
		lg_words_add(&t, "; in shadow mode, so what is above is counted and passes");
	lg_gate_text(&rule->nodes, nodes, sizeof(nodes));
	if (lg_gate_is_set(&rule->nodes))
		lg_words_add(&t, "; on %s only", nodes);
}

/* ---- warnings ---- */

static bool can_be_tcp(const struct lg_rule_def *rule)
{
	bool ip = !rule->match.ethertype.has || rule->match.ethertype.value == ETH_P_IP || rule->match.ethertype.value == ETH_P_IPV6;

	return ip && (!rule->match.has_protocol || rule->match.protocol == IPPROTO_TCP);
}

static bool frame_warn(const struct lg_rule_def *rule, const struct lg_explain_env *env, struct lg_words *t)
{
	(void)env;
	if (rule->unit != LG_UNIT_BYTES || !rule->limit_tok || rule->burst_tok / rule->cost >= FRAME_BYTES)
		return false;
	lg_words_add(t, "a burst of %" PRIu64 "B is less than one full frame (%dB): such frames can never pass", rule->burst_tok / rule->cost,
		     FRAME_BYTES);
	return true;
}

static bool superframe_warn(const struct lg_rule_def *rule, const struct lg_explain_env *env, struct lg_words *t)
{
	bool bytes = rule->unit == LG_UNIT_BYTES;
	uint64_t burst = rule->burst_tok / rule->cost;

	(void)env;
	/* No superframe begins a connection, and none is a request. */
	if (!rule->limit_tok || lg_match_is_requests(&rule->match) || !can_be_tcp(rule) || lg_unit_is_connection(rule->unit) ||
	    burst >= (bytes ? SUPERFRAME_BYTES : SUPERFRAME_PACKETS))
		return false;
	if (bytes && burst < FRAME_BYTES)
		return false;
	lg_words_add(t, "a burst of %" PRIu64 "%s is less than a TCP superframe at TC (%s): %s", burst,
		     bytes ? "B" : " packets", bytes ? "64KiB" : "45 packets",
		     rule->scope == LG_SCOPE_GLOBAL ? "such can never pass" : "such pass only while the bucket is full");
	return true;
}

/* Who finds the bucket empty loses the rest of what it sent at once, and waits: what comes meanwhile must find room, or is lost to it. */
static bool patience_warn(const struct lg_rule_def *rule, const struct lg_explain_env *env, struct lg_words *t)
{
	double wanted = (double)rule->limit_tok * TCP_PATIENCE_NS / (double)rule->per_ns;
	char burst[LG_NUM_TEXT_LEN];

	(void)env;
	if (rule->unit != LG_UNIT_BYTES || rule->algorithm != LG_TOKEN_BUCKET || !rule->limit_tok || !can_be_tcp(rule) ||
	    rule->burst_tok / rule->cost < FRAME_BYTES || (double)rule->burst_tok >= wanted)
		return false;
	lg_bytes_format(rule->burst_tok, burst, sizeof(burst));
	lg_words_add(t,
		     "a burst of %s is less than 200ms of the limit: one TCP connection may get less than nine tenths of it (%.0f%% at worst)",
		     burst, 100 * (double)rule->burst_tok / wanted);
	return true;
}

static bool small_limit_warn(const struct lg_rule_def *rule, const struct lg_explain_env *env, struct lg_words *t)
{
	unsigned int times = rule->algorithm == LG_TOKEN_BUCKET ? 8 : 80;
	uint64_t wanted = rule->cost * times;

	if (rule->scope != LG_SCOPE_GLOBAL || !env->hosts || !rule->limit_tok || rule->limit_tok >= wanted * env->hosts)
		return false;
	lg_words_add(t, "a limit of %" PRIu64 " is small for %u hosts (%" PRIu64 " for each are wanted", rule->limit_tok, env->hosts, wanted);
	if (rule->cost > 1)
		lg_words_add(t, ", %u times the cost", times);
	lg_words_add(t, "): where many see one key, part of it stays unused");
	return true;
}

static bool share_warn(const struct lg_rule_def *rule, const struct lg_explain_env *env, struct lg_words *t)
{
	uint64_t tok = lg_rule_shares_tok(rule, rule->limit_tok);
	uint64_t wanted = rule->cost * (lg_rule_sets_shares_aside(rule) && rule->algorithm != LG_TOKEN_BUCKET ? 2 : 1);

	if (rule->scope != LG_SCOPE_GLOBAL || rule->fallback != LG_FALLBACK_SHARE || !rule->limit_tok ||
	    tok >= wanted * env->hosts)
		return false;
	lg_words_add(t,
		     "the fallback share of a host is below %" PRIu64 " (%" PRIu64 " over %u hosts): one that is cut off admits nothing",
		     wanted, tok, env->hosts);
	return true;
}

static bool deny_all_warn(const struct lg_rule_def *rule, const struct lg_explain_env *env, struct lg_words *t)
{
	(void)env;
	if (rule->limit_tok || rule->shadow || lg_unit_is_connection(rule->unit) || !lg_match_is_any(&rule->match))
		return false;
	lg_words_add(t, "a limit of 0 without a match denies every IP packet");
	return true;
}

int lg_rule_warning(const struct lg_rule_def *rule, const struct lg_explain_env *env, size_t i, char *buf, size_t len)
{
	static bool (*const warns[])(const struct lg_rule_def *, const struct lg_explain_env *, struct lg_words *) = {
		deny_all_warn,
		frame_warn,
		superframe_warn,
		patience_warn,
		small_limit_warn,
		share_warn,
	};

	for (size_t w = 0; w < N_ELEMS(warns); w++) {
		struct lg_words t = { buf, len, 0 };

		if (warns[w](rule, env, &t) && i-- == 0)
			return 0;
	}
	return 1;
}

int lg_rules_warning(const struct lg_rules *rules, const struct lg_explain_env *env, size_t i, char *buf, size_t len)
{
	char text[512];

	for (size_t n = 0; n < rules->n; n++) {
		for (size_t w = 0; lg_rule_warning(&rules->v[n], env, w, text, sizeof(text)) == 0; w++) {
			if (i--)
				continue;
			snprintf(buf, len, "rule \"%s\" (line %u): %s", rules->v[n].name, rules->v[n].line, text);
			return 0;
		}
	}
	return 1;
}
