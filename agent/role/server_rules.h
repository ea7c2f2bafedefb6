/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * Rules at run time, in a region's server: the newest version is in the store of the region (and goes to the others over their streams), is in
 * force here, and is pushed to whoever has his rules from here. Part of struct lg_server (role/server.h). */
#pragma once

#include <jansson.h>

#include "api/rules_inbox.h"
#include "base/text.h"
#include "rules/document.h"
#include "rules/lockout.h"
#include "store/store.h"

struct lg_loop;
struct lg_metrics;
struct lg_server;
struct lg_server_stream;
struct lg_server_home;
struct lg_source;

/* What a holder has of our rules, as it said on this stream, and what is on its way on it. */
struct lg_server_rules_stream {
	bool wants;
	struct lg_rules_state state;
	struct lg_rules_stamp sent;	/* since its stream is up */
	uint32_t sent_bytes;
};

/* A version on its way into the store: its texts first, then what names them. */
struct lg_server_rules_change {
	struct lg_rules_doc *doc;	/* owned; NULL: none */
	bool is_ours;			/* somebody waits for it; else it is from another region */
	uint64_t revision;		/* that rules/current must have */
};

struct lg_server_rules {
	struct lg_rules_doc *doc;	/* the newest, in force; NULL: there is none yet */
	struct lg_rules_stamp refused;	/* newer than that, and cannot be put into force here */
	char why[512];
	uint64_t revision;		/* of rules/current in the store; 0: it is not there */
	struct lg_text packed;		/* the document for holders */
	uint64_t packed_ns;
	struct lg_source *loader, *pusher, *ender;
	struct lg_server_rules_change change;
	struct lg_rules_doc *offered;	/* owned; of another region, waits for the change under way */
	char file_why[512];		/* why the file that counts until there is a version does not; "" otherwise */
	struct lg_rules_stamp done;	/* our last change, and what became of it */
	char done_why[512];		/* "": it is durable */
	bool done_late;			/* another version came first */
};

/* server_rules.c */
int lg_server_rules_watch(struct lg_server *s);				/* once the store is open */
/* What a life begins with: of the store, or of the file that was read. *ret_rules is new. */
int lg_server_rules_first(struct lg_server *s, struct lg_rules **ret_rules, struct lg_complaint *c);
/* A reload has no file to read: there is a version, or no file is written. */
bool lg_server_rules_are_made(const struct lg_server *s);
void lg_server_rules_stop(struct lg_server *s);
void lg_server_rules_here(struct lg_server_stream *stream);			/* it is up */
void lg_server_rules_heard(struct lg_server_stream *stream, const struct lg_rules_state *state);
/* Of another region: is it news, and a whole version. arg: struct lg_server_home. */
bool lg_server_rules_wanted(void *arg, const struct lg_rules_stamp *stamp);
void lg_server_rules_whole(void *arg, const struct lg_rules_inbox *inbox);
void lg_server_rules_say(struct lg_server *s);				/* to the other regions: what is in force here */
/* Reads the header and, unless ret_doc's texts are not wanted, the texts of a version. 0, 1: it is not there, negative errno. */
int lg_server_rules_read(struct lg_server *s, const char *key, bool with_texts, struct lg_rules_doc **ret_doc, uint64_t *ret_revision);
/* Of a text: the key of its n-th piece. */
void lg_server_rules_text_key(uint64_t hash, size_t n, char ret[64]);
/* Is all of it fit to be in force, with its overrides and without? */
int lg_server_rules_check(struct lg_server *s, const struct lg_rules_doc *doc, const struct lg_peer *peers, size_t n_peers, const char *name,
			  struct lg_complaint *c);

#define LG_SERVER_RULES_KEY_LEN (LG_NAME_LEN + 48)	/* of a key below rules/ in the store */

/* server_rules_change.c */
/* Begins to write it; takes doc. -EBUSY while another one is written. Whoever asked finds in `done` what became of it. */
int lg_server_rules_write(struct lg_server *s, struct lg_rules_doc *doc, bool is_ours);
/* What the tool asks for becomes the next version. */
json_t *lg_server_rules_change(struct lg_server *s, const json_t *request, const char *op);
json_t *lg_server_rules_refusal(const struct lg_complaint *c, int r);
/* The key of a version for all nodes: of this number, or (0) the last one whose text has another hash; "" if there is none. Negative errno. */
int lg_server_rules_find(struct lg_server *s, uint64_t counter, uint64_t hash, char ret_key[LG_SERVER_RULES_KEY_LEN]);

/* server_rules_show.c */
json_t *lg_server_rules_admin(struct lg_server *s, const json_t *request);
void lg_server_rules_metrics(const struct lg_server *s, struct lg_metrics *m);
