/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * One key at its home where the home lends no tokens but the limit itself, in parts: each holder, a region, runs its part on its own. For
 * limits that would be spent within a few round trips, so that tokens were always under way and never where they are needed. A
 * part costs messages only when it changes. See limits.c for why the law holds, sublimit.h for the holder's end.
 */
#pragma once

#include "base/mem.h"
#include "lease/home.h"
#include "lease/lessor.h"
#include "lease/msg.h"

struct lg_limits;

/* lessor: borrowed for the life of the object. With an earlier life nothing is lent until it is known what it had lent. */
int lg_limits_new(struct lg_lessor *lessor, uint64_t now_ns, struct lg_limits **ret_limits);
struct lg_limits *lg_limits_free(struct lg_limits *l);
LG_CLEANUP(struct lg_limits, lg_limits_free)
/* Other terms are about to be the lessor's. What is told already shrinks as holders answer. */
void lg_limits_terms(struct lg_limits *l, const struct lg_terms *terms, uint64_t now_ns);

/* A message of this life of the home; see lg_home_ask(). */
void lg_limits_ask(struct lg_limits *l, uint32_t holder, uint64_t incarnation, const struct lg_ask *ask, uint64_t now_ns,
		   const struct lg_home_effects *fx);
uint64_t lg_limits_tick(struct lg_limits *l, uint64_t now_ns, const struct lg_home_effects *fx);
/* All of the window may have been spent by now, by whom it is not known. */
void lg_limits_count_full(struct lg_limits *l, uint64_t now_ns);
/* Nobody holds anything, and nothing is remembered that a new object would not know. */
bool lg_limits_is_idle(struct lg_limits *l, uint64_t now_ns);

/* outstanding: what holders may have of the limit; consumed: parts that count as spent because their holder fell silent. */
void lg_limits_view(struct lg_limits *l, uint64_t now_ns, struct lg_home_view *ret);
uint64_t lg_limits_outstanding_tok(const struct lg_limits *l);
uint32_t lg_limits_n_holders(const struct lg_limits *l);
bool lg_limits_is_recovering(const struct lg_limits *l);
size_t lg_limits_bytes(const struct lg_limits *l);
/* granted: its limit; want: what it would use of it. 0, or -ENOENT. */
int lg_limits_holder(const struct lg_limits *l, uint32_t holder, struct lg_holder_view *ret);
