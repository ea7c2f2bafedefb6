// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Regions of lines. A key's place in a region follows from its hash and the region's size, so a region neither moves nor grows
 * while a bucket in it may owe: a rule keeps it as long as it has its id, and that is until the agent has forgotten its buckets.
 */
#include "rules/lines.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/num.h"
#include "rules/rate.h"

#define LINES_MIN 16u /* of a rule that does not say how many; fewer would be full at once */

/* What the largest superframes cost: 8 x 65,535 bytes, each of up to 65,535 segments with headers of its own. */
#define SUPERFRAME_PACKETS (1ull << 16)
#define SUPERFRAME_BYTES (1ull << 24)

static bool can_hold(const struct lg_rule_def *def)
{
	return def->scope == LG_SCOPE_HOST && def->algorithm == LG_TOKEN_BUCKET && def->key.form != LG_FORM_RULE &&
	       !lg_unit_is_count(def->unit) && def->burst_tok < LG_LINE_BURST_MAX_TOK && def->action != LG_ACTION_PACE;
}

bool lg_lines_hold(const struct lg_rule_def *def, const struct lg_compile_env *env)
{
	switch (def->table) {
	case LG_TABLE_CHOICE_EXACT: return false;
	case LG_TABLE_CHOICE_LINES: return true;
	case LG_TABLE_CHOICE_NONE: break;
	}
	return env->n_lines && can_hold(def);
}

static uint64_t superframe_tok(const struct lg_rule *rule)
{
	return rule->cost * (rule->flags & LG_RULE_BYTES ? SUPERFRAME_BYTES : SUPERFRAME_PACKETS);
}

/* With slope and burst unchanged the anchor stays, too: reloading a file again and again must not round anything. */
static void rate_settle(const struct lg_rate *old, struct lg_rate *rate)
{
	if (rate->mult == old->mult && rate->shift == old->shift && rate->burst_vt == old->burst_vt)
		*rate = *old;
}

int lg_lines_fill(const struct lg_rule_def *def, const struct lg_compile_env *env, const struct lg_rule *old, struct lg_rule *rule)
{
	int r;

	rule->table = LG_TABLE_LINES;
	/* A table that was made anew may be smaller than the one the rule was in. */
	if (!old || old->table != LG_TABLE_LINES || old->first_line > env->n_lines || old->n_lines > env->n_lines - old->first_line)
		return lg_rate_line_init(def->limit_tok, def->per_ns, def->burst_tok, superframe_tok(rule), env->now_ns, &rule->rate,
					 &rule->live_vt);
	r = lg_rate_line_change(&old->rate, old->live_vt, def->limit_tok, def->per_ns, def->burst_tok, superframe_tok(rule), env->now_ns,
				&rule->rate, &rule->live_vt);
	if (r < 0)
		return r;
	rate_settle(&old->rate, &rule->rate);
	rule->first_line = old->first_line;
	rule->n_lines = old->n_lines;
	return 0;
}

/* ---- places ---- */

struct room {
	uint32_t first;
	uint32_t n;
};

static int room_compare(const void *a, const void *b)
{
	const struct room *x = a, *y = b;

	return x->first < y->first ? -1 : x->first > y->first;
}

/* Sorted, what users have. */
static size_t taken_list(const struct lg_lines_user *users, size_t n, struct room *ret)
{
	size_t n_taken = 0;

	for (size_t i = 0; i < n; i++)
		if (users[i].rule->table == LG_TABLE_LINES && users[i].rule->n_lines)
			ret[n_taken++] = (struct room){ users[i].rule->first_line, users[i].rule->n_lines };
	qsort(ret, n_taken, sizeof(*ret), room_compare);
	return n_taken;
}

/* What is free: all of it, the largest piece, and the first piece of n_wanted or more (first is UINT32_MAX if there is none). */
struct free_room {
	uint32_t n_free;
	uint32_t n_largest;
	uint32_t first;
};

static struct free_room free_find(const struct room *taken, size_t n_taken, uint32_t n_lines, uint32_t n_wanted)
{
	struct free_room f = { .first = UINT32_MAX };
	uint32_t at = 0, end, gap;

	for (size_t i = 0; i <= n_taken; i++) {
		end = i < n_taken ? taken[i].first : n_lines;
		gap = end > at ? end - at : 0;
		f.n_free += gap;
		f.n_largest = gap > f.n_largest ? gap : f.n_largest;
		if (gap >= n_wanted && f.first == UINT32_MAX)
			f.first = at;
		if (i < n_taken)
			at = taken[i].first + taken[i].n;
	}
	return f;
}

static uint32_t power_of_two_above(uint32_t n)
{
	uint32_t power = 1;

	while (power < n)
		power *= 2;
	return power;
}

uint32_t lg_lines_wanted(const struct lg_rule_def *def)
{
	return def->keys ? power_of_two_above((def->keys + LG_LINE_SLOTS - 1) / LG_LINE_SLOTS) : 0;
}

static int room_complain(const struct lg_lines_user *user, const struct free_room *f, uint32_t n_wanted, uint32_t n_lines,
			 struct lg_complaint *c)
{
	c->line = user->def->line;
	c->col = 0;
	if (!n_lines)
		return lg_complain(c, "rule \"%s\": there is no table of lines: set line_keys in the configuration, or write `table: exact`",
				   user->def->name);
	return lg_complain(c,
			   "rule \"%s\": no room for %u keys in lines: of line_keys %u there are %u free, %u in one piece: write fewer "
			   "keys, or `table: exact`, or raise line_keys (rules that left the file keep their keys until all are full again)",
			   user->def->name, n_wanted * LG_LINE_SLOTS, n_lines * LG_LINE_SLOTS, f->n_free * LG_LINE_SLOTS,
			   f->n_largest * LG_LINE_SLOTS);
}

/* What each of n_silent rules may have that does not say how much it wants. */
static uint32_t silent_share(uint32_t n_free, uint32_t n_silent)
{
	uint32_t share = n_free / 2 / n_silent, power = LG_LINE_RULE_KEYS / LG_LINE_SLOTS;

	while (power > share && power > LINES_MIN)
		power /= 2;
	return power;
}

static int user_place(const struct lg_lines_user *users, size_t n, size_t at, uint32_t n_wanted, uint32_t n_lines, struct room *taken,
		      struct lg_complaint *c)
{
	size_t n_taken = taken_list(users, n, taken);
	struct free_room f = free_find(taken, n_taken, n_lines, n_wanted);

	if (f.first == UINT32_MAX || !n_lines)
		return room_complain(&users[at], &f, n_wanted, n_lines, c);
	users[at].rule->first_line = f.first;
	users[at].rule->n_lines = n_wanted;
	return 0;
}

static bool needs_place(const struct lg_lines_user *user)
{
	return user->def && user->rule->table == LG_TABLE_LINES && !user->rule->n_lines;
}

int lg_lines_place(const struct lg_lines_user *users, size_t n, uint32_t n_lines, struct lg_complaint *c)
{
	_cleanup_free_ struct room *taken = NULL;
	uint32_t n_silent = 0, share;
	int r = 0;

	taken = calloc(n + 1, sizeof(*taken));
	if (!taken) {
		lg_complain(c, "not enough memory to compile the rules");
		return -ENOMEM;
	}
	/* Those that say what they want come first. */
	for (size_t i = 0; i < n && r == 0; i++) {
		if (!needs_place(&users[i]))
			continue;
		if (lg_lines_wanted(users[i].def))
			r = user_place(users, n, i, lg_lines_wanted(users[i].def), n_lines, taken, c);
		else
			n_silent++;
	}
	if (r < 0 || !n_silent)
		return r;
	share = silent_share(free_find(taken, taken_list(users, n, taken), n_lines, 1).n_free, n_silent);
	for (size_t i = 0; i < n && r == 0; i++)
		if (needs_place(&users[i]))
			r = user_place(users, n, i, share, n_lines, taken, c);
	return r;
}
