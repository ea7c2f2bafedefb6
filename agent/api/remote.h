/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * The operator's tool at another machine: it asks a region's server what it would ask on its socket, over mutual TLS at the lease service,
 * with a certificate that says who the operator is. One stream for each question: one message of JSON goes, an answer in parts comes.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/complaint.h"
#include "base/mem.h"
#include "leasegate/abi.h"

struct lg_grpc_stream;
struct lg_tls_files;

#define LG_REMOTE_PATH "/leasegate.v1.OperatorService/Ask"

/* ---- the server's end ---- */

/* Who asks, by his certificate; false: it is none of an operator of this region. */
bool lg_remote_operator(const struct lg_grpc_stream *stream, const char *region, char name[LG_NAME_LEN]);
/* One question, answered by fn (a new reply, NULL without memory), and the end of its stream. */
void lg_remote_answer(struct lg_grpc_stream *stream, const char *asker, const void *data, size_t len,
		      json_t *(*fn)(void *arg, const char *asker, const json_t *request), void *arg);

/* ---- the tool's end, blocking ---- */
struct lg_remote;
/* Talks to nobody but the server of this region. Connects with the first question. */
int lg_remote_new(const char *address, const char *region, const struct lg_tls_files *files, struct lg_remote **ret_remote,
		  struct lg_complaint *c);
struct lg_remote *lg_remote_free(struct lg_remote *remote);
LG_CLEANUP(struct lg_remote, lg_remote_free)
/* *ret_reply is a new reference. */
int lg_remote_ask(struct lg_remote *remote, const json_t *request, unsigned timeout_ms, json_t **ret_reply, struct lg_complaint *c);
