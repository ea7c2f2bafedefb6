/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * The reconciliation log of a region's server: what happened on its books at both tiers, as numbered records in the state folder. */
#pragma once

#include <jansson.h>

#include "api/metrics.h"
#include "lease/note.h"
#include "role/meter.h"

struct lg_server;
struct lg_server_holder;
struct lg_wire_key;

int lg_server_journal_start(struct lg_server *s, struct lg_complaint *c);
void lg_server_journal_stop(struct lg_server *s);

/* A change on the books of a key that is in the tables. */
void lg_server_note(struct lg_server *s, enum lg_tier tier, const struct lg_key *key, const struct lg_note *note);
/* An ask that never came to a key's books. */
void lg_server_note_refused(struct lg_server *s, const struct lg_server_holder *from, const struct lg_wire_key *wire,
			    enum lg_grant_status status);
/* Once a turn: what was noted goes to the writer. */
void lg_server_journal_flush(struct lg_server *s);
/* Each second: says what went wrong with the files. */
void lg_server_journal_watch(struct lg_server *s);

/*
 * A page of it: {from: first seq wanted, 0 the oldest; since_ms; rule; key; tier; what}, all but from may be left out. The answer has the
 * records that match, `next` to go on from, and `first`, `first_ms` and `end` of what there is.
 */
json_t *lg_server_journal_page(struct lg_server *s, const json_t *request);
void lg_server_journal_metrics(struct lg_server *s, struct lg_metrics *m);
