/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Messages of the lease service (include/proto/lease.proto) to structs and back. Inside of api/. Pure.
 *
 * Reading checks a whole message, every range that the .proto file gives, before anything of it can be taken out: malformed input never
 * reaches the core, not even by half. Writing appends, and what was appended piece by piece is one message: repeated fields of protobuf
 * messages that stand one behind the other are joined.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/lease_rpc.h"
#include "base/complaint.h"
#include "base/mem.h"
#include "base/text.h"

#define LG_WIRE_TOK_MAX (1ull << 62)	/* of every amount of tokens: two of them can be added */
#define LG_WIRE_AGE_MAX_MS (2 * (LG_PER_MAX_NS / 1000000))
#define LG_WIRE_TTL_MAX_MS (LG_PER_MAX_NS / 1000000)
#define LG_WIRE_LIMIT_MAX LG_BURST_MAX_TOK	/* of a limit of the holder's own: no rule's is larger */
#define LG_WIRE_PERMILLE_MAX 1000u

/* ---- from a holder ---- */
struct lg_holder_msg;
/* -EINVAL with c->text saying what is wrong, or -ENOMEM. data is not needed afterwards. */
int lg_holder_msg_parse(const uint8_t *data, size_t len, struct lg_holder_msg **ret_msg, struct lg_complaint *c);
struct lg_holder_msg *lg_holder_msg_free(struct lg_holder_msg *msg);
LG_CLEANUP(struct lg_holder_msg, lg_holder_msg_free)
/* Has it a hello? Then it has nothing else. */
bool lg_holder_msg_hello(const struct lg_holder_msg *msg, struct lg_lease_hello *ret_hello);
size_t lg_holder_msg_count(const struct lg_holder_msg *msg);
/* The i-th ask, i below the count. */
void lg_holder_msg_ask(const struct lg_holder_msg *msg, size_t i, struct lg_wire_key *ret_key, struct lg_ask *ret_ask);
bool lg_holder_msg_is_synced(const struct lg_holder_msg *msg, uint64_t *ret_forgot_age_ms);
/* Of the slots it is synced in: none, if in all. And the lives. False: there is no i-th. */
bool lg_holder_msg_synced_part(const struct lg_holder_msg *msg, size_t i, struct lg_slot_part *ret_part);
bool lg_holder_msg_live(const struct lg_holder_msg *msg, size_t i, struct lg_slot_part *ret_part);
bool lg_holder_msg_rules(const struct lg_holder_msg *msg, struct lg_rules_state *ret_state);
/* What it points to lives as long as the message. */
bool lg_holder_msg_regions(const struct lg_holder_msg *msg, struct lg_region_list *ret_list);

/* ---- from a lessor ---- */
struct lg_lessor_msg;
int lg_lessor_msg_parse(const uint8_t *data, size_t len, struct lg_lessor_msg **ret_msg, struct lg_complaint *c);
struct lg_lessor_msg *lg_lessor_msg_free(struct lg_lessor_msg *msg);
LG_CLEANUP(struct lg_lessor_msg, lg_lessor_msg_free)
bool lg_lessor_msg_welcome(const struct lg_lessor_msg *msg, struct lg_lease_welcome *ret_welcome);
size_t lg_lessor_msg_count(const struct lg_lessor_msg *msg);
bool lg_lessor_msg_map(const struct lg_lessor_msg *msg, struct lg_slot_map *ret_map);
/* What it points to lives as long as the message. */
bool lg_lessor_msg_rules(const struct lg_lessor_msg *msg, struct lg_rules_part *ret_part);
bool lg_lessor_msg_regions(const struct lg_lessor_msg *msg, struct lg_region_list *ret_list);
void lg_lessor_msg_grant(const struct lg_lessor_msg *msg, size_t i, struct lg_wire_key *ret_key, struct lg_grant *ret_grant);

/* ---- writing: what is out of range is brought to the nearest value that is safe, a shorter age or a smaller wish ---- */
void lg_codec_put_hello(struct lg_text *out, const struct lg_lease_hello *hello);
void lg_codec_put_ask(struct lg_text *out, const struct lg_wire_key *key, const struct lg_ask *ask);
void lg_codec_put_synced(struct lg_text *out, uint64_t forgot_age_ms);
void lg_codec_put_synced_slots(struct lg_text *out, const struct lg_slot_part *parts, size_t n, uint64_t forgot_age_ms);
void lg_codec_put_lives(struct lg_text *out, const struct lg_slot_part *parts, size_t n);
void lg_codec_put_map(struct lg_text *out, const struct lg_slot_map *map);
void lg_codec_put_rules_state(struct lg_text *out, const struct lg_rules_state *state);
void lg_codec_put_rules_part(struct lg_text *out, const struct lg_rules_part *part);
void lg_codec_put_regions_up(struct lg_text *out, const struct lg_region_list *list);	/* to a lessor */
void lg_codec_put_regions_down(struct lg_text *out, const struct lg_region_list *list);	/* to a holder */
void lg_codec_put_welcome(struct lg_text *out, const struct lg_lease_welcome *welcome);
void lg_codec_put_grant(struct lg_text *out, const struct lg_wire_key *key, const struct lg_grant *grant);
