// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "api/arena.h"

#include <stdalign.h>
#include <stdlib.h>

#define CHUNK_BYTES 65536

struct lg_arena_chunk {
	struct lg_arena_chunk *next;
	size_t used;
	size_t size;
	alignas(max_align_t) unsigned char bytes[];
};

static struct lg_arena_chunk *add_chunk(struct lg_arena *arena, size_t need)
{
	size_t size = need > CHUNK_BYTES ? need : CHUNK_BYTES;
	struct lg_arena_chunk *chunk;

	if (size > arena->left_bytes)
		size = need;
	if (size > arena->left_bytes)
		return NULL;
	chunk = malloc(sizeof(*chunk) + size);
	if (!chunk)
		return NULL;
	arena->left_bytes -= size;
	*chunk = (struct lg_arena_chunk){ .next = arena->chunks, .size = size };
	arena->chunks = chunk;
	return chunk;
}

static void *arena_alloc(void *arg, size_t len)
{
	struct lg_arena *arena = arg;
	struct lg_arena_chunk *chunk = arena->chunks;
	size_t need = (len + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
	void *p;

	if (need < len)
		return NULL;
	if (!chunk || chunk->size - chunk->used < need)
		chunk = add_chunk(arena, need);
	if (!chunk)
		return NULL;
	p = chunk->bytes + chunk->used;
	chunk->used += need;
	return p;
}

/* All at once, at the end. */
static void arena_free(void *arg, void *p)
{
	(void)arg;
	(void)p;
}

void lg_arena_init(struct lg_arena *arena, size_t max_bytes)
{
	*arena = (struct lg_arena){ .left_bytes = max_bytes,
				    .allocator = { .alloc = arena_alloc, .free = arena_free, .allocator_data = arena } };
}

void lg_arena_fini(struct lg_arena *arena)
{
	while (arena->chunks) {
		struct lg_arena_chunk *chunk = arena->chunks;

		arena->chunks = chunk->next;
		free(chunk);
	}
}
