// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A slab is 64 KiB at a multiple of its own size, so the slab of an object is found from its address; it begins with a head of 64 bytes.
 * Free objects are a list through themselves. Objects that were never used are not on it: a new slab is touched only as far as it is used.
 * Slabs with room are a list per size. One empty slab of a size is kept, so that a single object that comes and goes costs no system call.
 */
#include "base/pool.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Under the address sanitizer each object stands alone, so that it sees their bounds and whether they leak. */
#ifdef __SANITIZE_ADDRESS__
#define IN_SLABS_MAX 0u
#else
#define IN_SLABS_MAX LG_POOL_OBJECT_MAX
#endif

#define SLAB_BYTES 65536u
#define GRAIN 16u
#define N_CLASSES (LG_POOL_OBJECT_MAX / GRAIN)

struct pool_slab {
	struct pool_slab *prev, *next;	/* those with room */
	void *free;			/* objects given back */
	uint32_t size;
	uint32_t n_used;
	uint32_t n_fresh;		/* never used, at the end */
};

#define HEAD_BYTES 64u
_Static_assert(sizeof(struct pool_slab) <= HEAD_BYTES, "the head of a slab has a cache line");

static struct pool_slab *classes[N_CLASSES + 1];
static struct lg_pool_stat stat;

static size_t rounded(size_t size)
{
	return size ? (size + GRAIN - 1) / GRAIN * GRAIN : GRAIN;
}

/* Twice as much is mapped as needed, and what lies outside of the multiple is given back. */
static void *slab_map(void)
{
	char *p = mmap(NULL, 2 * SLAB_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *slab;
	size_t before;

	if (p == MAP_FAILED)
		return NULL;
	before = (SLAB_BYTES - (uintptr_t)p % SLAB_BYTES) % SLAB_BYTES;
	slab = p + before;
	if (before)
		munmap(p, before);
	munmap(slab + SLAB_BYTES, SLAB_BYTES - before);
	return slab;
}

static void link_in(struct pool_slab *slab)
{
	struct pool_slab **head = &classes[slab->size / GRAIN];

	slab->prev = NULL;
	slab->next = *head;
	if (*head)
		(*head)->prev = slab;
	*head = slab;
}

static void link_out(struct pool_slab *slab)
{
	if (slab->prev)
		slab->prev->next = slab->next;
	else
		classes[slab->size / GRAIN] = slab->next;
	if (slab->next)
		slab->next->prev = slab->prev;
	slab->prev = slab->next = NULL;
}

static struct pool_slab *slab_new(size_t size)
{
	struct pool_slab *slab = slab_map();

	if (!slab)
		return NULL;
	*slab = (struct pool_slab){ .size = (uint32_t)size, .n_fresh = (SLAB_BYTES - HEAD_BYTES) / (uint32_t)size };
	stat.held_bytes += SLAB_BYTES;
	link_in(slab);
	return slab;
}

static bool is_full(const struct pool_slab *slab)
{
	return !slab->free && !slab->n_fresh;
}

static void *take(struct pool_slab *slab)
{
	void *p = slab->free;

	slab->n_used++;
	if (p) {
		slab->free = *(void **)p;
		return memset(p, 0, slab->size);
	}
	slab->n_fresh--;
	return (char *)slab + HEAD_BYTES + (size_t)slab->size * (slab->n_used - 1);
}

static void *large_get(size_t size)
{
	void *p = calloc(1, size);

	if (p) {
		stat.used_bytes += size;
		stat.held_bytes += size;
		stat.large_bytes += size;
	}
	return p;
}

void *lg_pool_get(size_t size)
{
	struct pool_slab *slab;
	void *p;

	size = rounded(size);
	if (size > IN_SLABS_MAX)
		return large_get(size);
	slab = classes[size / GRAIN];
	if (!slab)
		slab = slab_new(size);
	if (!slab)
		return NULL;
	p = take(slab);
	if (is_full(slab))
		link_out(slab);
	stat.used_bytes += size;
	return p;
}

void lg_pool_put(void *p, size_t size)
{
	struct pool_slab *slab;

	size = rounded(size);
	if (!p)
		return;
	stat.used_bytes -= size;
	if (size > IN_SLABS_MAX) {
		stat.held_bytes -= size;
		stat.large_bytes -= size;
		free(p);
		return;
	}
	slab = (struct pool_slab *)((uintptr_t)p & ~(uintptr_t)(SLAB_BYTES - 1));
	if (is_full(slab))
		link_in(slab);
	*(void **)p = slab->free;
	slab->free = p;
	if (--slab->n_used || (!slab->prev && !slab->next))
		return;
	link_out(slab);
	munmap(slab, SLAB_BYTES);
	stat.held_bytes -= SLAB_BYTES;
}

void lg_pool_stat(struct lg_pool_stat *ret)
{
	*ret = stat;
}
