// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Keys and values as two builds lay them out, told apart member by member from their type information: the kernel keeps that of a map
 * for as long as the map is there. Members are the same if they have the same name; what a build uses in another sense it must call by
 * another name, and 0 in a member that is new must mean what was so before.
 */
#include "kern/layout.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define DEPTH_MAX 16 /* of structs and arrays in each other: ours have 5 */

/* ---- type information of pinned maps ---- */

void lg_btfs_fini(struct lg_btfs *btfs)
{
	for (size_t i = 0; i < btfs->n; i++)
		btf__free(btfs->v[i].btf);
	btfs->n = 0;
}

int lg_btfs_get(struct lg_btfs *btfs, uint32_t id, const struct btf **ret_btf)
{
	struct btf *btf;

	*ret_btf = NULL;
	if (!id)
		return 0;
	for (size_t i = 0; i < btfs->n; i++) {
		if (btfs->v[i].id == id) {
			*ret_btf = btfs->v[i].btf;
			return 0;
		}
	}
	if (btfs->n == N_ELEMS(btfs->v))
		return -E2BIG;
	btf = btf__load_from_kernel_by_id(id);
	if (!btf)
		return -errno;
	btfs->v[btfs->n].id = id;
	btfs->v[btfs->n++].btf = btf;
	*ret_btf = btf;
	return 0;
}

/* ---- what is done to a value ---- */

void lg_plan_fini(struct lg_plan *plan)
{
	free(plan->v);
	*plan = (struct lg_plan){ 0 };
}

/* Moves that follow each other on both sides become one. */
static int move_add(struct lg_plan *plan, const struct lg_move *move)
{
	struct lg_move *last = plan->n ? &plan->v[plan->n - 1] : NULL, *grown;

	if (last && last->from_bytes == last->to_bytes && move->from_bytes == move->to_bytes &&
	    last->from + last->from_bytes == move->from && last->to + last->to_bytes == move->to) {
		last->from_bytes += move->from_bytes;
		last->to_bytes += move->to_bytes;
		return 0;
	}
	if (plan->n == plan->size) {
		grown = reallocarray(plan->v, plan->size * 2 + 16, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		plan->v = grown;
		plan->size = plan->size * 2 + 16;
	}
	plan->v[plan->n++] = *move;
	return 0;
}

static uint64_t word_read(const uint8_t *at, uint32_t bytes, bool is_signed)
{
	switch (bytes) {
	case 1: return is_signed ? (uint64_t)(int64_t) * (const int8_t *)at : *at;
	case 2: {
		uint16_t v;

		memcpy(&v, at, sizeof(v));
		return is_signed ? (uint64_t)(int64_t)(int16_t)v : v;
	}
	case 4: {
		uint32_t v;

		memcpy(&v, at, sizeof(v));
		return is_signed ? (uint64_t)(int64_t)(int32_t)v : v;
	}
	default: {
		uint64_t v;

		memcpy(&v, at, sizeof(v));
		return v;
	}
	}
}

/* What does not fit becomes the nearest that does. */
static void word_write(uint8_t *at, uint32_t bytes, bool is_signed, uint64_t v)
{
	uint32_t bits = bytes * 8 - is_signed;
	uint64_t most = bits == 64 ? UINT64_MAX : (1ull << bits) - 1;

	if (!is_signed)
		v = v > most ? most : v;
	else if ((int64_t)v > (int64_t)most)
		v = most;
	else if ((int64_t)v < -(int64_t)most - 1)
		v = ~most;
	switch (bytes) {
	case 1: memcpy(at, &(uint8_t){ (uint8_t)v }, 1); break;
	case 2: memcpy(at, &(uint16_t){ (uint16_t)v }, 2); break;
	case 4: memcpy(at, &(uint32_t){ (uint32_t)v }, 4); break;
	default: memcpy(at, &v, 8); break;
	}
}

void lg_plan_run(const struct lg_plan *plan, const uint8_t *from, uint8_t *to)
{
	for (size_t i = 0; i < plan->n; i++) {
		const struct lg_move *m = &plan->v[i];

		if (m->from_bytes == m->to_bytes)
			memcpy(to + m->to, from + m->from, m->to_bytes);
		else
			word_write(to + m->to, m->to_bytes, m->is_signed, word_read(from + m->from, m->from_bytes, m->is_signed));
	}
}

/* ---- two types side by side ---- */

struct walk {
	const struct btf *was, *now;
	struct lg_plan *plan; /* NULL: differences alone are wanted */
	struct lg_differences *d;
	bool is_again;	      /* an element of an array after its first: its differences are told */
	uint32_t depth;
	char path[96];	      /* of the member at hand */
};

static int walk_type(struct walk *w, uint32_t was_id, uint32_t now_id, uint32_t was_at, uint32_t now_at);

__attribute__((format(printf, 2, 3))) static void tell(struct walk *w, const char *fmt, ...)
{
	char text[128];
	va_list ap;

	if (w->is_again)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	lg_differ(w->d, "%s%s%s", w->path, w->path[0] ? ": " : "", text);
}

static const struct btf_type *strip(const struct btf *btf, uint32_t *id)
{
	const struct btf_type *t = btf__type_by_id(btf, *id);

	for (int i = 0; t && i < DEPTH_MAX && (btf_is_mod(t) || btf_is_typedef(t)); i++) {
		*id = t->type;
		t = btf__type_by_id(btf, *id);
	}
	return t;
}

static bool is_scalar(const struct btf_type *t)
{
	return btf_is_int(t) || btf_is_any_enum(t);
}

static uint32_t size_of(const struct btf *btf, uint32_t id)
{
	int64_t bytes = btf__resolve_size(btf, id);

	return bytes < 0 || bytes > UINT32_MAX ? 0 : (uint32_t)bytes;
}

/* The member of this name; of those without one, the one that has as many of these before it. */
static const struct btf_member *member_find(const struct btf *btf, const struct btf_type *t, const char *name, uint32_t n_nameless)
{
	const struct btf_member *m = btf_members(t);

	for (uint32_t i = 0; i < btf_vlen(t); i++, m++) {
		const char *own = btf__name_by_offset(btf, m->name_off);

		if (own && strcmp(own, name) == 0 && (own[0] || n_nameless-- == 0))
			return m;
	}
	return NULL;
}

/* Goes down into a member, and back to where it was. */
static int walk_member(struct walk *w, const struct btf_member *was, const struct btf_member *now, const char *name, uint32_t was_at,
		       uint32_t now_at)
{
	uint32_t was_bytes = size_of(w->was, was->type), now_bytes = size_of(w->now, now->type);
	uint32_t was_off = was->offset / 8, now_off = now->offset / 8;
	size_t len = strlen(w->path);
	int r;

	snprintf(w->path + len, sizeof(w->path) - len, "%s%s", len && name[0] ? "." : "", name);
	if (was_off != now_off || was_bytes != now_bytes)
		tell(w, "offset %u, %u bytes, needed offset %u, %u bytes", was_off, was_bytes, now_off, now_bytes);
	r = walk_type(w, was->type, now->type, was_at + was_off, now_at + now_off);
	w->path[len] = '\0';
	return r;
}

static void tell_alone(struct walk *w, const struct btf *btf, const struct btf_member *m, const char *name, bool is_new)
{
	uint32_t off = m->offset / 8, bytes = size_of(btf, m->type);
	size_t len = strlen(w->path);

	snprintf(w->path + len, sizeof(w->path) - len, "%s%s", len && name[0] ? "." : "", name);
	if (is_new)
		tell(w, "not there, needed at offset %u, %u bytes", off, bytes);
	w->d->n_new += is_new && !w->is_again;
	if (!is_new)
		tell(w, "offset %u, %u bytes, unknown to this build", off, bytes);
	w->path[len] = '\0';
}

static int walk_struct(struct walk *w, const struct btf_type *was, const struct btf_type *now, uint32_t was_at, uint32_t now_at)
{
	const struct btf_member *m = btf_members(now);
	uint32_t n_nameless = 0;
	int r = 0;

	for (uint32_t i = 0; i < btf_vlen(now) && r == 0; i++, m++) {
		const char *name = btf__name_by_offset(w->now, m->name_off);
		const struct btf_member *old = member_find(w->was, was, name, n_nameless);

		if (old && !btf_member_bitfield_size(now, i) && !(btf_kflag(was) && old->offset >> 24))
			r = walk_member(w, old, m, name, was_at, now_at);
		else
			tell_alone(w, w->now, m, name, true);
		n_nameless += !name[0];
	}
	n_nameless = 0;
	m = btf_members(was);
	for (uint32_t i = 0; i < btf_vlen(was) && r == 0; i++, m++) {
		const char *name = btf__name_by_offset(w->was, m->name_off);

		if (!member_find(w->now, now, name, n_nameless))
			tell_alone(w, w->was, m, name, false);
		n_nameless += !name[0];
	}
	return r;
}

/*
 * Which of a union's members counts, another member says, and not to us. So it is moved as a whole, if all its members are as they were,
 * and others are new at most.
 */
static int walk_union(struct walk *w, const struct btf_type *was, const struct btf_type *now, const struct lg_move *move)
{
	struct lg_differences d = { 0 };
	struct walk inside = { .was = w->was, .now = w->now, .d = &d, .depth = w->depth };
	struct lg_move whole = *move;
	int r;

	r = walk_struct(&inside, was, now, 0, 0);
	if (r < 0)
		return r;
	if (d.n > d.n_new) {
		tell(w, "a union with other members");
		w->d->n_lost++;
		return 0;
	}
	w->d->n += d.n;
	w->d->n_new += d.n;
	if (whole.from_bytes > whole.to_bytes)
		whole.from_bytes = whole.to_bytes;
	whole.to_bytes = whole.from_bytes;
	return w->plan ? move_add(w->plan, &whole) : 0;
}

static int walk_array(struct walk *w, const struct btf_type *was, const struct btf_type *now, uint32_t was_at, uint32_t now_at)
{
	const struct btf_array *a = btf_array(was), *b = btf_array(now);
	uint32_t was_bytes = size_of(w->was, a->type), now_bytes = size_of(w->now, b->type);
	uint32_t n = a->nelems < b->nelems ? a->nelems : b->nelems;
	size_t before = w->d->n, len = strlen(w->path);
	bool was_again = w->is_again;
	int r = 0;

	snprintf(w->path + len, sizeof(w->path) - len, "[]");
	for (uint32_t i = 0; i < n && r == 0; i++) {
		r = walk_type(w, a->type, b->type, was_at + i * was_bytes, now_at + i * now_bytes);
		/* Elements that are alike on both sides are moved at once. */
		if (r == 0 && i == 0 && !was_again && w->d->n == before && was_bytes == now_bytes) {
			if (w->plan && n > 1)
				r = move_add(w->plan, &(struct lg_move){ .from = was_at + was_bytes, .to = now_at + now_bytes,
									 .from_bytes = (n - 1) * was_bytes,
									 .to_bytes = (n - 1) * now_bytes });
			break;
		}
		if (!w->plan)
			break;
		w->is_again = true;
	}
	w->is_again = was_again;
	w->path[len] = '\0';
	return r;
}

static int walk_type(struct walk *w, uint32_t was_id, uint32_t now_id, uint32_t was_at, uint32_t now_at)
{
	const struct btf_type *was = strip(w->was, &was_id), *now = strip(w->now, &now_id);
	uint32_t was_bytes = size_of(w->was, was_id), now_bytes = size_of(w->now, now_id);
	struct lg_move move = { was_at, now_at, was_bytes, now_bytes, false };
	int r = 0;

	if (!was || !now || w->depth == DEPTH_MAX)
		return -EINVAL;
	w->depth++;
	if (is_scalar(was) && is_scalar(now)) {
		move.is_signed = btf_is_int(was) && btf_int_encoding(was) & BTF_INT_SIGNED;
		if (w->plan)
			r = was_bytes == now_bytes || (was_bytes <= 8 && now_bytes <= 8) ? move_add(w->plan, &move) : 0;
	} else if (btf_is_struct(was) && btf_is_struct(now)) {
		r = walk_struct(w, was, now, was_at, now_at);
	} else if (btf_is_array(was) && btf_is_array(now)) {
		r = walk_array(w, was, now, was_at, now_at);
	} else if (btf_is_union(was) && btf_is_union(now)) {
		r = walk_union(w, was, now, &move);
	} else if (btf_kind(was) != btf_kind(now)) {
		tell(w, "of another kind");
		w->d->n_lost++;
	} else if (was_bytes == now_bytes && w->plan) {
		r = move_add(w->plan, &move);
	}
	w->depth--;
	return r;
}

int lg_layout_walk(const struct btf *was, uint32_t was_id, const struct btf *now, uint32_t now_id, const char *name,
		   struct lg_differences *d, struct lg_plan *plan)
{
	struct walk w = { .was = was, .now = now, .plan = plan, .d = d };

	snprintf(w.path, sizeof(w.path), "%s", name);
	return walk_type(&w, was_id, now_id, 0, 0);
}

/* ---- differences, for people ---- */

void lg_differ(struct lg_differences *d, const char *fmt, ...)
{
	size_t used = strlen(d->text);
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	d->n++;
	if (d->tell)
		d->tell(d->what, text);
	/* All or nothing of each, and none behind one that was left out. */
	if (d->n_told + 1 == d->n && used + strlen(text) + 3 < sizeof(d->text)) {
		snprintf(d->text + used, sizeof(d->text) - used, "%s%s", used ? "; " : "", text);
		d->n_told++;
	}
}
