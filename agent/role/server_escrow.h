/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * What a region's server makes durable before it lends: the marks of its keys, packed by slot of keys, as escrow/NNN in the store. */
#pragma once

#include <jansson.h>

#include "base/complaint.h"
#include "lease/home.h"

struct lg_metrics;
struct lg_server;
struct lg_slot_set;
struct lg_server_home_key;
struct lg_server_life;
struct lg_server_rule;

int lg_server_escrow_start(struct lg_server *s, struct lg_complaint *c);
/* A slot is about to be claimed, with these lives before: the revision at which its page is doubtful from now on, 0: it is to be believed. */
int lg_server_escrow_doubt(struct lg_server *s, uint32_t slot, const struct lg_server_life *life, uint64_t *ret_revision);
/* This server owns a slot: reads its page. is_first: nobody has had it before, so nothing that counts was lent. A page of the revision
 * `doubtful` is not believed. */
int lg_server_escrow_open(struct lg_server *s, uint32_t slot, bool is_first, uint64_t doubtful);
/* They are going to be given away: what was not lent of them is not withheld from who lends them next. */
void lg_server_escrow_hand_over(struct lg_server *s, const struct lg_slot_set *slots);
/* And no longer: its keys are gone already. */
void lg_server_escrow_close(struct lg_server *s, uint32_t slot);
void lg_server_escrow_stop(struct lg_server *s);
/* next_terms of the rule are about to be in force. */
void lg_server_escrow_rule(struct lg_server *s, struct lg_server_rule *rule);

/* Makes the home of a key, by what an earlier life marked. 0 or negative errno. */
int lg_server_escrow_home(struct lg_server_home_key *k, struct lg_lessor *lessor, uint64_t now_ns);
/* The key goes. */
void lg_server_escrow_forget(struct lg_server_home_key *k, uint64_t now_ns);
/* An effect of its home: a mark is due. */
void lg_server_escrow_due(void *arg);
/* Each second, for each key. */
void lg_server_escrow_look(struct lg_server_home_key *k, uint64_t now_ns);

/* Each tick: what is due is written. */
void lg_server_escrow_tick(struct lg_server *s);
/* Each second: rules of which all that counts is marked by now. */
void lg_server_escrow_sweep(struct lg_server *s);
/* An orderly end: nothing more is lent, and what is not used is given back. done(s) is called when that is durable, or cannot be so soon. */
typedef void lg_server_escrow_done(struct lg_server *s);
void lg_server_escrow_finish(struct lg_server *s, lg_server_escrow_done *done);

json_t *lg_server_escrow_json(struct lg_server *s);
void lg_server_escrow_metrics(struct lg_server *s, struct lg_metrics *m);
