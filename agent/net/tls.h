/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Mutual TLS 1.3 (OpenSSL): one certificate for what this process is, one authority that all its peers must come from. Who a peer is says
 * a URI among its certificate's alternative names:
 *
 *	spiffe://DOMAIN/region/REGION			a region's server
 *	spiffe://DOMAIN/region/REGION/node/NODE		a host of that region
 *	spiffe://DOMAIN/region/REGION/operator/NAME	somebody who may ask that region's server what its operators may
 *
 * whatever the domain: the authority vouches for it. No session is ever resumed, so each connection is checked anew.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/complaint.h"
#include "base/mem.h"
#include "leasegate/bounds.h"

#define LG_TLS_PATH_LEN 256

struct ssl_st;
struct lg_tls;

struct lg_tls_files {
	char ca[LG_TLS_PATH_LEN];		/* PEM; the authorities that peers may come from */
	char certificate[LG_TLS_PATH_LEN];	/* PEM; ours, followed by what leads to the authority */
	char key[LG_TLS_PATH_LEN];		/* PEM, without a password */
};

/* Who somebody is. */
struct lg_tls_name {
	char region[LG_NAME_LEN];	/* "": nobody */
	char node[LG_NAME_LEN];		/* "": the region's server itself, unless it is an operator */
	char operator_name[LG_NAME_LEN];	/* "": no operator */
};
bool lg_tls_name_equal(const struct lg_tls_name *a, const struct lg_tls_name *b);

/* Reads and checks the files: the key fits the certificate, which is valid now and says that we are `self` (NULL: whatever it says). Negative
 * errno with *c filled. */
int lg_tls_new(const struct lg_tls_files *files, const struct lg_tls_name *self, struct lg_tls **ret_tls, struct lg_complaint *c);
struct lg_tls *lg_tls_free(struct lg_tls *tls);
LG_CLEANUP(struct lg_tls, lg_tls_free)

/*
 * Reads files that have changed; connections made from now on use them, the others stay as they are. 1 it did, 0 nothing changed, negative
 * errno with *c filled: what was in force stays, and is read again when the files change once more.
 */
int lg_tls_reload(struct lg_tls *tls, struct lg_complaint *c);
/* When our certificate ends, seconds since 1970. */
uint64_t lg_tls_not_after_s(const struct lg_tls *tls);

/* Whom a client expects to find. */
struct lg_tls_expect {
	struct lg_tls_name name;	/* its name, if it has a region */
	const char *host;		/* else the host name or address that its certificate is for, as with any server of the web */
};

/*
 * For one connection. A client says whom it expects; with a server (expect NULL) any peer may talk that the authority vouches for and that
 * has a name. Peers are checked in the handshake: before a byte of what is said goes either way. NULL without memory.
 */
struct ssl_st *lg_tls_connection(struct lg_tls *tls, const struct lg_tls_expect *expect);
/* Who the peer of a connection is; false before the handshake is through, and of a server that was found by its host. */
bool lg_tls_peer(const struct ssl_st *ssl, struct lg_tls_name *ret);
/* Why the handshake failed or the connection broke, in words. error: of the library, 0 unknown. */
void lg_tls_why(const struct ssl_st *ssl, unsigned long error, char *buf, uint32_t len);
