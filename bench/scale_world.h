/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * What scale_model.c moves and scale_world.c makes. */
#pragma once

#include <stddef.h>

#include "base/text.h"
#include "bench/scale_model.h"
#include "leasegate/bounds.h"

#define SCALE_EPOCH 1
#define DELAYS_MAX 256u	/* milliseconds a message may be under way, power of two */

/* Exactly the law of a token bucket: what was admitted, worked off at the rate. */
struct meter {
	uint64_t queue;	/* tok * per_ns */
	uint64_t at_ns;
};

/* A key at a host: its bucket in place of the kernel's, and the agent's part. */
struct place {
	struct lg_lessee *lessee;
	uint64_t granted_tok;
	struct lg_usage usage;
	uint64_t expires_ns;
	uint64_t low_water_tok;
	uint32_t part;
	uint32_t announced_ms;
};

/* A key at a region. */
struct part {
	struct lg_region *region;
	uint32_t key;
	uint32_t first_place;
	uint16_t n_hosts;
	uint16_t first_host;	/* of the region; the next ones follow, round the end */
	uint16_t seen_period;
	uint8_t at;		/* which region */
};

struct key {
	struct lg_home *home;
	struct meter law, perfect;
	uint32_t first_part;
	uint32_t n_admitted, n_perfect, n_offered;
	uint32_t warm_admitted, warm_perfect, warm_first;	/* after the warm-up */
	uint16_t seen_period;
	uint8_t n_seen;		/* parts, in that period */
	uint8_t n_parts;
	uint8_t at;		/* which region is its home */
};

enum kind { ASK_OF_HOST, GRANT_TO_HOST, ASK_OF_REGION, GRANT_TO_REGION };

struct message {
	struct message *next;
	enum kind kind;
	uint32_t to_part;	/* or from it, to the home */
	uint32_t place;		/* the host's end */
	uint32_t len;
	max_align_t body[];	/* a grant, or an ask without the slots it does not use */
};

struct stream {
	uint32_t turn_ms;
	uint32_t n_keys;	/* in this turn */
};

struct model {
	struct scale_load load;
	struct scale_result r;
	struct lg_terms terms;
	uint32_t now_ms;
	uint32_t warm_ms;	/* when the warm-up is over */
	bool warm;
	uint64_t rand;
	uint64_t next_arrival_ns;
	struct key *keys;
	struct part *parts;
	struct place *places;
	uint32_t n_parts, n_places;
	struct scale_alias alias;
	struct scale_wheel wheel;	/* places, then parts, then keys */
	struct {
		struct message *first, **end;
	} under_way[DELAYS_MAX];
	struct lg_upstream *host_up, region_up[SCALE_REGIONS][SCALE_REGIONS];
	struct lg_holding *host_holding, region_holding[SCALE_REGIONS][SCALE_REGIONS];
	struct lg_lessor region_lessor[SCALE_REGIONS], home_lessor[SCALE_REGIONS];
	struct stream *host_streams[2], region_streams[2][SCALE_REGIONS][SCALE_REGIONS];
	uint64_t n_sent;
	struct lg_text text;
	uint32_t at;			/* the place, part or key whose object is being called */
	bool out_of_memory;
};

/* Zeroed before. 0 or -ENOMEM; free it in any case. */
int scale_world_init(struct model *m, const struct scale_load *load);
void scale_world_free(struct model *m);
