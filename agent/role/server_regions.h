/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * The list of regions at run time, in a region's server. A version is written to the region's store, each server of the region sees it there,
 * keeps it in its state folder and begins a new life with it, in an orderly way: what it lent stays lent, and server_list.c says what a
 * life under another list may lend. It tells the other regions and its hosts, if theirs is older. Part of struct lg_server (role/server.h).
 */
#pragma once

#include <jansson.h>

#include "api/lease_rpc.h"
#include "base/text.h"

struct lg_server;
struct lg_server_stream;
struct lg_source;

struct lg_server_regions {
	struct lg_text text;		/* of the list in use, if it is one of the store; others are told of it */
	uint64_t revision;		/* of regions/current; 0: it is not there */
	struct lg_text offer;		/* a newer one, of another region, that is to be written */
	uint64_t offer_version;
	bool is_writing;
	bool is_offer;			/* what is written is that */
	char why[256];			/* our last change was not written */
	struct lg_source *pusher;
	bool is_leaving;		/* the life ends, for one with the newer list */
};

/* Once the store is open. */
int lg_server_regions_watch(struct lg_server *s);
void lg_server_regions_stop(struct lg_server *s);
/* The list for others; false: it is one of a file. What it points to lives as long as this life. */
bool lg_server_regions_list(const struct lg_server *s, struct lg_region_list *ret_list);
/* A host is here, whose list may be older. */
void lg_server_regions_here(struct lg_server_stream *stream);
/* A region says that it has a newer list. arg: struct lg_server. */
void lg_server_regions_told(void *arg, struct lg_lease_peer *peer, const struct lg_region_list *list);
/* Now and then: what could not be written is tried again. */
void lg_server_regions_sweep(struct lg_server *s);
/* The regions that were in a list that this region worked with once, by its version and their names; 0: that is not known. */
size_t lg_server_regions_before(struct lg_server *s, uint64_t version, uint64_t names, char ret_names[LG_REGIONS_MAX][LG_NAME_LEN]);
json_t *lg_server_regions_admin(struct lg_server *s, const json_t *request);
