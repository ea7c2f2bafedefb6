// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Maps of an earlier process that are not laid out as ours. Those that are, go on as they are, whatever becomes of the others. For the
 * others new ones are made, and entries copied member by member.
 *
 * A level must not be spent twice, once from the old map and once from the copy. So levels are copied when the old programs run no
 * more, and until that is done the new ones take nothing: the rules are in force with a limit of 0, for as long as copying takes, some
 * 10 to 300 ms. Where no level has to be copied nothing is refused.
 */
#include "kern/takeover.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

/* In step with each other by the number of an entry, so all are made anew or none. */
static const char *const rule_maps[] = { "control", "rules", "classifiers", "interfaces" };
/* Neither a level nor a count: written anew by whoever uses them, or for nobody's decision. */
static const char *const plain_maps[] = { "rule_names", "events", "ops", "checks", "memos", "test_clock" };

static bool is_one_of(const struct lg_found *f, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(bpf_map__name(f->map), names[i]) == 0)
			return true;
	return false;
}

static bool is_rules(const struct lg_found *f)
{
	return is_one_of(f, rule_maps, N_ELEMS(rule_maps));
}

static bool is_level(const struct lg_found *f)
{
	return !is_rules(f) && !is_one_of(f, plain_maps, N_ELEMS(plain_maps));
}

static void debug_line(const char *what, const char *text)
{
	lg_debug("map %s: %s", what, text);
}

int lg_takeover_meet(struct lg_takeover *t, const struct bpf_object *obj, struct bpf_map *map, int fd, const char *table,
		     bool size_is_wanted, bool size_is_told)
{
	struct lg_found *f = &t->found[t->n_found];
	struct bpf_map_info *now = &f->carry.now;
	int r;

	if (t->n_found == LG_MAPS_PER_OBJECT)
		return -E2BIG;
	t->n_found++;
	*f = (struct lg_found){ .map = map, .table = table, .size_is_wanted = size_is_wanted, .size_is_told = size_is_told, .is_there = fd >= 0,
				.carry.was.fd = fd, .d = { .what = bpf_map__name(map), .tell = debug_line } };
	f->carry.name = f->d.what;
	*now = (struct bpf_map_info){ .type = bpf_map__type(map), .key_size = bpf_map__key_size(map),
				      .value_size = bpf_map__value_size(map), .max_entries = bpf_map__max_entries(map),
				      .map_flags = bpf_map__map_flags(map), .btf_key_type_id = bpf_map__btf_key_type_id(map),
				      .btf_value_type_id = bpf_map__btf_value_type_id(map) };
	if (!f->is_there)
		return 0;
	r = lg_map_meet(fd, &t->btfs, &f->carry.was);
	t->no_types |= r == -EPERM;
	if (r == 0 || r == -EPERM)
		r = lg_map_compare(&f->carry.was, now, bpf_object__btf(obj), &f->d, &f->carry);
	if (r == 0 && !table && f->carry.was.info.max_entries != now->max_entries)
		lg_differ(&f->d, "max entries %u, needed %u", f->carry.was.info.max_entries, now->max_entries);
	return r;
}

static bool is_larger(const struct lg_found *f)
{
	return f->is_there && f->table && f->size_is_wanted && f->carry.now.max_entries > f->carry.was.info.max_entries;
}

/* Which of them are made anew: what does not fit, what is to be larger, and what goes with those. */
static void choose(struct lg_takeover *t)
{
	bool rules_anew = t->from_abi != LG_ABI_VERSION; /* `control` says the version */

	for (size_t i = 0; i < t->n_found; i++) {
		t->found[i].is_anew = t->found[i].is_there && (t->found[i].d.n || is_larger(&t->found[i]));
		rules_anew |= t->found[i].is_anew && is_rules(&t->found[i]);
	}
	for (size_t i = 0; rules_anew && i < t->n_found; i++)
		t->found[i].is_anew |= t->found[i].is_there && is_rules(&t->found[i]);
}

static size_t count_misfits(const struct lg_takeover *t, const struct lg_found **ret_first)
{
	size_t n = 0;

	for (size_t i = t->n_found; i-- > 0;) {
		if (!t->found[i].d.n)
			continue;
		*ret_first = &t->found[i];
		n++;
	}
	return n;
}

/* "'buckets' is another than this build needs (…)", as far as there is room. */
static void misfits_say(const struct lg_takeover *t, char *ret, size_t len)
{
	const struct lg_found *first = NULL;
	size_t n = count_misfits(t, &first), n_more = 0;
	char more[96] = "";

	ret[0] = '\0';
	if (!n)
		return;
	for (size_t i = 0; i < t->n_found; i++)
		n_more += t->found[i].d.n;
	n_more -= first->d.n_told;
	if (n_more)
		snprintf(more, sizeof(more), "; and %zu more differences in %zu maps, see --debug", n_more, n);
	snprintf(ret, len, "the pinned map '%s' is another than this build needs (%s%s)", first->carry.name, first->d.text, more);
}

static int refuse(const struct lg_takeover *t, struct lg_complaint *c)
{
	char what[360];

	misfits_say(t, what, sizeof(what));
	if (t->from_abi == LG_ABI_VERSION)
		lg_complain(c, "%s: %s; nothing was changed: run the build that made it, or start once with --migrate or --discard-state",
			    t->kern->dir, what);
	else
		lg_complain(c, "%s: maps of ABI version %u are in force, this build speaks version %d%s%s; nothing was changed: %s",
			    t->kern->dir, t->from_abi, LG_ABI_VERSION, what[0] ? ": " : "", what,
			    t->from_abi > LG_ABI_VERSION ? "run the newer build, or start once with --discard-state" :
							   "start once with --migrate, or run the older build");
	return -EPROTONOSUPPORT;
}

static int carry_check(const struct lg_takeover *t, struct lg_complaint *c)
{
	if (t->from_abi > LG_ABI_VERSION) {
		lg_complain(c,
			    "%s: maps of ABI version %u are in force, this build speaks version %d and cannot know what they hold; "
			    "nothing was changed: run the newer build, or start once with --discard-state, which begins with full buckets "
			    "and without leases",
			    t->kern->dir, t->from_abi, LG_ABI_VERSION);
		return -EPROTONOSUPPORT;
	}
	for (size_t i = 0; i < t->n_found; i++) {
		if (!t->found[i].d.n_lost || !t->found[i].is_anew)
			continue;
		lg_complain(c, "%s: what is in map '%s' cannot be carried over (%s); nothing was changed: run the build that made it, or "
			       "start once with --discard-state, which begins with full buckets and without leases",
			    t->kern->dir, t->found[i].carry.name, t->found[i].d.text);
		return -EPROTONOSUPPORT;
	}
	if (!t->no_types)
		return 0;
	lg_complain(c,
		    "%s: only with CAP_SYS_ADMIN the kernel tells how the maps are laid out that are to be carried over; nothing was "
		    "changed: start once with it",
		    t->kern->dir);
	return -EPERM;
}

int lg_takeover_decide(struct lg_takeover *t, enum lg_kern_misfit how, struct lg_complaint *c)
{
	const struct lg_found *first;
	bool fits = t->from_abi == LG_ABI_VERSION && !count_misfits(t, &first), grows = false;

	for (size_t i = 0; i < t->n_found; i++)
		grows |= is_larger(&t->found[i]);
	t->way = LG_WAY_ADOPT;
	if (fits && !(how == LG_MISFIT_MIGRATE && grows))
		return 0;
	switch (how) {
	case LG_MISFIT_REFUSE: return refuse(t, c);
	case LG_MISFIT_DISCARD: t->way = LG_WAY_REPLACE; return 0;
	case LG_MISFIT_MIGRATE: break;
	}
	t->way = LG_WAY_CARRY;
	choose(t);
	return carry_check(t, c);
}

/* A table keeps the size it has, unless it is made anew and may grow. */
static int resize(struct lg_found *f, struct lg_complaint *c)
{
	uint32_t was = f->carry.was.info.max_entries, now = f->carry.now.max_entries;

	if (!f->table)
		return 0;
	if (f->size_is_told && was != now && !(f->is_anew && now > was))
		lg_complain(c,
			    "the %s stays at %u entries, not %u as configured: the size of a table in use cannot change; started with "
			    "--migrate it can grow, and `leasegate detach` and a new start make it anew, without its levels",
			    f->table, was, now);
	if (!f->is_anew || (f->size_is_wanted && now > was))
		return 0;
	f->carry.now.max_entries = was;
	return bpf_map__set_max_entries(f->map, was);
}

int lg_takeover_reuse(struct lg_takeover *t, struct lg_complaint *c)
{
	int r = 0;

	for (size_t i = 0; i < t->n_found && r == 0; i++) {
		struct lg_found *f = &t->found[i];

		if (!f->is_there || t->way == LG_WAY_FRESH || t->way == LG_WAY_REPLACE)
			continue;
		r = resize(f, c);
		if (r == 0 && !f->is_anew)
			r = bpf_map__reuse_fd(f->map, f->carry.was.fd);
	}
	return r;
}

/* ---- copying ---- */

static int copy(struct lg_takeover *t, bool levels)
{
	uint64_t n_left_out;
	int r = 0;

	for (size_t i = 0; i < t->n_found && r == 0; i++) {
		struct lg_found *f = &t->found[i];

		if (!f->is_anew || is_level(f) != levels)
			continue;
		f->carry.now_fd = bpf_map__fd(f->map);
		r = lg_carry_run(&f->carry, &n_left_out);
		t->n_left_out += n_left_out;
	}
	return r;
}

int lg_takeover_copy_rules(struct lg_takeover *t)
{
	return copy(t, false);
}

int lg_takeover_copy_levels(struct lg_takeover *t)
{
	int r = t->is_attached ? lg_kern_grace() : 0; /* packets still on their way through the old programs */

	return r < 0 ? r : copy(t, true);
}

static bool has_levels_to_copy(const struct lg_takeover *t)
{
	for (size_t i = 0; i < t->n_found; i++)
		if (t->found[i].is_anew && is_level(&t->found[i]))
			return true;
	return false;
}

/* Puts the set in force again, with limits of 0 or as it was. */
static int set_again(struct lg_takeover *t, bool with_limits)
{
	_cleanup_free_ struct lg_rule_name *names = calloc(LG_RULES_MAX + 1, sizeof(*names));
	_cleanup_free_ struct lg_ruleset *set = malloc(sizeof(*set));
	int r;

	if (!names || !set)
		return -ENOMEM;
	r = lg_kern_rules_read(t->kern, set, names);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < set->n_rules && i < LG_RULES_MAX; i++) {
		if (!with_limits)
			t->limits[i] = set->rules[i].cold_burst_tok;
		set->rules[i].cold_burst_tok = with_limits ? t->limits[i] : 0;
	}
	set->version++;
	return set->n_rules ? lg_kern_rules_load(t->kern, set, NULL, names) : 0;
}

int lg_takeover_hold(struct lg_takeover *t)
{
	return t->is_attached && has_levels_to_copy(t) ? set_again(t, false) : 0;
}

int lg_takeover_release(struct lg_takeover *t)
{
	return t->is_attached && has_levels_to_copy(t) ? set_again(t, true) : 0;
}

void lg_takeover_report(const struct lg_takeover *t, struct lg_complaint *c)
{
	char names[160] = "", left_out[64] = "", versions[48] = "";
	size_t n = 0;

	for (size_t i = 0; i < t->n_found; i++) {
		size_t used = strlen(names);

		if (!t->found[i].is_anew)
			continue;
		n++;
		snprintf(names + used, sizeof(names) - used, "%s%s", used ? ", " : "", t->found[i].carry.name);
	}
	if (t->n_left_out)
		snprintf(left_out, sizeof(left_out), "; %llu entries found no room", (unsigned long long)t->n_left_out);
	if (t->from_abi != LG_ABI_VERSION)
		snprintf(versions, sizeof(versions), " from ABI version %u to version %d", t->from_abi, LG_ABI_VERSION);
	lg_complain(c, "maps were carried over%s: %zu of %zu made anew (%s)%s", versions, n, t->n_found, names, left_out);
}

void lg_takeover_fini(struct lg_takeover *t)
{
	for (size_t i = 0; i < t->n_found; i++)
		lg_carry_fini(&t->found[i].carry);
	lg_btfs_fini(&t->btfs);
}
