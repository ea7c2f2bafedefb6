/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * Memory for one message being unpacked: bounded, and freed as a whole. A message of 1 MiB can describe half a million empty parts;
 * unpacked one by one from malloc() they would cost more than any honest message. */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>

struct lg_arena_chunk;

struct lg_arena {
	struct lg_arena_chunk *chunks;	/* newest first */
	size_t left_bytes;		/* that may still be allocated */
	ProtobufCAllocator allocator;	/* to unpack with; points at this arena, which must not move */
};

void lg_arena_init(struct lg_arena *arena, size_t max_bytes);
void lg_arena_fini(struct lg_arena *arena);
