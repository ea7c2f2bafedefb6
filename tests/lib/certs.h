/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * Authorities and certificates for tests, made on the spot. */
#pragma once

#include <stddef.h>

struct certs;	/* an authority */

/* Its certificate is written to `path`. */
struct certs *certs_new(const char *path);
void certs_free(struct certs *certs);

struct certs_leaf {
	const char *uri[3];	/* among the alternative names, as far as not NULL */
	const char *dns;	/* likewise */
	long from_s, to_s;	/* valid, seconds from now; both 0: for a day */
};
/* Writes a certificate of the authority and its key. */
void certs_leaf(struct certs *certs, const struct certs_leaf *leaf, const char *certificate, const char *key);
