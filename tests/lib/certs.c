// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "tests/lib/certs.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DAY_S (24 * 3600)

struct certs {
	X509 *cert;
	EVP_PKEY *key;
	long serial;
};

#define MUST(x)                                                                                                       \
	do {                                                                                                          \
		if (!(x)) {                                                                                           \
			fprintf(stderr, "certs: %s failed\n", #x);                                                    \
			abort();                                                                                      \
		}                                                                                                     \
	} while (0)

static void extend(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509_EXTENSION *ext;
	X509V3_CTX ctx;

	X509V3_set_ctx_nodb(&ctx);
	X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
	ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	MUST(ext);
	MUST(X509_add_ext(cert, ext, -1) == 1);
	X509_EXTENSION_free(ext);
}

static X509 *cert_new(const char *name, EVP_PKEY *key, long serial, long from_s, long to_s)
{
	X509 *cert = X509_new();
	X509_NAME *subject;

	MUST(cert);
	X509_set_version(cert, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(cert), serial);
	X509_gmtime_adj(X509_getm_notBefore(cert), from_s);
	X509_gmtime_adj(X509_getm_notAfter(cert), to_s);
	subject = X509_get_subject_name(cert);
	MUST(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, (const unsigned char *)name, -1, -1, 0) == 1);
	MUST(X509_set_pubkey(cert, key) == 1);
	return cert;
}

static void cert_write(X509 *cert, const char *path)
{
	FILE *f = fopen(path, "we");

	MUST(f);
	MUST(PEM_write_X509(f, cert) == 1);
	fclose(f);
}

struct certs *certs_new(const char *path)
{
	struct certs *certs = calloc(1, sizeof(*certs));

	MUST(certs);
	certs->key = EVP_EC_gen("P-256");
	MUST(certs->key);
	certs->cert = cert_new("an authority for tests", certs->key, 1, -DAY_S, DAY_S);
	X509_set_issuer_name(certs->cert, X509_get_subject_name(certs->cert));
	extend(certs->cert, certs->cert, NID_basic_constraints, "critical,CA:TRUE");
	extend(certs->cert, certs->cert, NID_key_usage, "critical,keyCertSign,cRLSign");
	MUST(X509_sign(certs->cert, certs->key, EVP_sha256()) > 0);
	cert_write(certs->cert, path);
	return certs;
}

void certs_free(struct certs *certs)
{
	X509_free(certs->cert);
	EVP_PKEY_free(certs->key);
	free(certs);
}

static void name_add(char *names, size_t size, const char *type, const char *value)
{
	size_t n = strlen(names);

	if (value)
		snprintf(names + n, size - n, "%s%s:%s", n ? "," : "", type, value);
}

void certs_leaf(struct certs *certs, const struct certs_leaf *leaf, const char *certificate, const char *key_path)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	char names[2048] = "";
	X509 *cert;
	FILE *f;

	MUST(key);
	cert = cert_new("a peer", key, ++certs->serial + 1, leaf->from_s ? leaf->from_s : -60, leaf->to_s ? leaf->to_s : DAY_S);
	X509_set_issuer_name(cert, X509_get_subject_name(certs->cert));
	for (size_t i = 0; i < 3; i++)
		name_add(names, sizeof(names), "URI", leaf->uri[i]);
	name_add(names, sizeof(names), "DNS", leaf->dns);
	if (names[0])
		extend(cert, certs->cert, NID_subject_alt_name, names);
	MUST(X509_sign(cert, certs->key, EVP_sha256()) > 0);
	cert_write(cert, certificate);
	f = fopen(key_path, "we");
	MUST(f);
	MUST(PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL) == 1);
	fclose(f);
	X509_free(cert);
	EVP_PKEY_free(key);
}
