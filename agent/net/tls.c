// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "net/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"

#define CHAIN_MAX 8		/* certificates between a peer and the authority */
#define URI_MAX 512
#define SCHEME "spiffe://"
#define NAME_TEXT_LEN (2 * LG_NAME_LEN + 32)

/* A file as it was when it was read. */
struct stamp {
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec mtime;
};

struct lg_tls {
	struct lg_tls_files files;
	SSL_CTX *ctx;
	struct stamp stamps[3];
	uint64_t not_after_s;
	struct lg_tls_name self;	/* what the certificate must say; no region: whatever */
};

/* What one connection knows of its peer; belongs to its SSL. */
struct facts {
	bool is_server;
	bool by_host;
	struct lg_tls_name expect;	/* client: the name it must have, unless by_host */
	struct lg_tls_name peer;
	char why[2 * NAME_TEXT_LEN + 32];	/* the peer was refused, for a reason of ours */
};

/* ---- files ---- */

/* What the library has to say of its last failure; the queue is empty afterwards. */
static const char *library_error(void)
{
	unsigned long error = ERR_peek_last_error();
	const char *text = error ? ERR_reason_error_string(error) : NULL;

	ERR_clear_error();
	return text ? text : "unknown error";
}

static int file_complain(struct lg_complaint *c, const char *path, int err, const char *what, const char *why)
{
	snprintf(c->file, sizeof(c->file), "%s", path);
	c->line = c->col = 0;
	lg_complain(c, "%s: %s", what, why);
	return err;
}

static int stamps_take(const struct lg_tls_files *files, struct stamp stamps[3], struct lg_complaint *c)
{
	const char *paths[3] = { files->ca, files->certificate, files->key };
	struct stat st;

	memset(stamps, 0, 3 * sizeof(*stamps));
	for (size_t i = 0; i < 3; i++) {
		if (stat(paths[i], &st) < 0)
			return file_complain(c, paths[i], -errno, "cannot read this file for TLS", strerror(errno));
		stamps[i].dev = st.st_dev;
		stamps[i].ino = st.st_ino;
		stamps[i].size = st.st_size;
		stamps[i].mtime = st.st_mtim;
	}
	return 0;
}

/* A key with a password would make the library ask on the terminal. */
static int no_password(char *buf, int size, int is_writing, void *arg)
{
	(void)buf;
	(void)size;
	(void)is_writing;
	(void)arg;
	return 0;
}

static int files_load(SSL_CTX *ctx, const struct lg_tls_files *f, struct lg_complaint *c)
{
	SSL_CTX_set_default_passwd_cb(ctx, no_password);
	if (SSL_CTX_load_verify_locations(ctx, f->ca, NULL) != 1)
		return file_complain(c, f->ca, -EINVAL, "no certificates of an authority can be read from this file", library_error());
	if (SSL_CTX_use_certificate_chain_file(ctx, f->certificate) != 1)
		return file_complain(c, f->certificate, -EINVAL, "no certificate can be read from this file", library_error());
	if (SSL_CTX_use_PrivateKey_file(ctx, f->key, SSL_FILETYPE_PEM) != 1)
		return file_complain(c, f->key, -EINVAL, "no key without a password can be read from this file, or it is not the one of the "
				     "certificate", library_error());
	return 0;
}

static bool time_of(const ASN1_TIME *time, uint64_t *ret_s)
{
	struct tm tm;

	if (ASN1_TIME_to_tm(time, &tm) != 1)
		return false;
	*ret_s = (uint64_t)timegm(&tm);
	return true;
}

/* ---- names ---- */

/* One part of a path, up to the next slash or the end. Returns what follows, or NULL where there is none that could be a name. */
static const char *part_take(const char *from, char name[LG_NAME_LEN])
{
	size_t n = strcspn(from, "/");

	if (!n || n >= LG_NAME_LEN)
		return NULL;
	memcpy(name, from, n);
	name[n] = '\0';
	return from + n;
}

static bool name_parse(const char *uri, struct lg_tls_name *ret)
{
	const char *p;

	*ret = (struct lg_tls_name){ 0 };
	if (strncmp(uri, SCHEME, strlen(SCHEME)) != 0)
		return false;
	p = strchr(uri + strlen(SCHEME), '/');
	if (!p || strncmp(p, "/region/", 8) != 0)
		return false;
	p = part_take(p + 8, ret->region);
	if (p && strncmp(p, "/node/", 6) == 0)
		p = part_take(p + 6, ret->node);
	else if (p && strncmp(p, "/operator/", 10) == 0)
		p = part_take(p + 10, ret->operator_name);
	if (p && !*p)
		return true;
	*ret = (struct lg_tls_name){ 0 };
	return false;
}

/* The one name among a certificate's URIs. Two would leave it to us to choose who somebody is. */
static bool name_of(X509 *cert, struct lg_tls_name *ret)
{
	GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
	struct lg_tls_name one;
	char uri[URI_MAX];
	size_t n_found = 0;

	*ret = (struct lg_tls_name){ 0 };
	for (int i = 0; names && i < sk_GENERAL_NAME_num(names); i++) {
		const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
		int len = name->type == GEN_URI ? ASN1_STRING_length(name->d.uniformResourceIdentifier) : 0;

		if (len <= 0 || len >= URI_MAX)
			continue;
		memcpy(uri, ASN1_STRING_get0_data(name->d.uniformResourceIdentifier), (size_t)len);
		uri[len] = '\0';
		/* A NUL inside would hide what stands behind it. */
		if (strlen(uri) != (size_t)len || !name_parse(uri, &one))
			continue;
		*ret = one;
		n_found++;
	}
	GENERAL_NAMES_free(names);
	if (n_found != 1)
		*ret = (struct lg_tls_name){ 0 };
	return n_found == 1;
}

/* ---- contexts ---- */

static int alpn_choose(SSL *ssl, const unsigned char **out, unsigned char *out_len, const unsigned char *in, unsigned int in_len, void *arg)
{
	static const unsigned char h2[] = { 2, 'h', '2' };

	(void)ssl;
	(void)arg;
	if (SSL_select_next_proto((unsigned char **)out, out_len, h2, sizeof(h2), in, in_len) != OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	return SSL_TLSEXT_ERR_OK;
}

static void ctx_set(SSL_CTX *ctx)
{
	static const unsigned char h2[] = { 2, 'h', '2' };

	SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_num_tickets(ctx, 0);
	SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET);
	SSL_CTX_set_verify_depth(ctx, CHAIN_MAX);
	SSL_CTX_set_alpn_protos(ctx, h2, sizeof(h2));
	SSL_CTX_set_alpn_select_cb(ctx, alpn_choose, NULL);
}

bool lg_tls_name_equal(const struct lg_tls_name *a, const struct lg_tls_name *b)
{
	return strcmp(a->region, b->region) == 0 && strcmp(a->node, b->node) == 0 && strcmp(a->operator_name, b->operator_name) == 0;
}

static int self_complain(const struct lg_tls *tls, struct lg_complaint *c)
{
	char why[URI_MAX];

	snprintf(why, sizeof(why), "among its alternative names there must be one URI " SCHEME "DOMAIN/region/%s%s%s", tls->self.region,
		 tls->self.node[0] ? "/node/" : "", tls->self.node);
	return file_complain(c, tls->files.certificate, -EINVAL, "the certificate is not that of this daemon", why);
}

/* Our own certificate must be good today: else every peer would refuse us, each with a riddle. */
static int self_check(struct lg_tls *tls, SSL_CTX *ctx, struct lg_complaint *c)
{
	X509 *cert = SSL_CTX_get0_certificate(ctx);
	const char *path = tls->files.certificate;
	struct lg_tls_name found;
	uint64_t from_s, to_s, now_s = lg_clock_unix_ns() / LG_NS_PER_S;

	if (!time_of(X509_get0_notBefore(cert), &from_s) || !time_of(X509_get0_notAfter(cert), &to_s))
		return file_complain(c, path, -EINVAL, "bad certificate", "it does not say when it is valid");
	if (now_s < from_s)
		return file_complain(c, path, -EINVAL, "the certificate is not valid yet", "is this machine's clock right?");
	if (now_s >= to_s)
		return file_complain(c, path, -EINVAL, "the certificate has expired", "renew it");
	if (tls->self.region[0] && (!name_of(cert, &found) || !lg_tls_name_equal(&found, &tls->self)))
		return self_complain(tls, c);
	tls->not_after_s = to_s;
	return 0;
}

/* Puts what the files say into force, or leaves all as it was. */
static int load(struct lg_tls *tls, struct lg_complaint *c)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_method());
	int r;

	if (!ctx) {
		ERR_clear_error();
		lg_complain(c, "not enough memory for TLS");
		return -ENOMEM;
	}
	ctx_set(ctx);
	r = files_load(ctx, &tls->files, c);
	if (r == 0)
		r = self_check(tls, ctx, c);
	if (r < 0) {
		SSL_CTX_free(ctx);
		return r;
	}
	SSL_CTX_free(tls->ctx);
	tls->ctx = ctx;
	return 0;
}

int lg_tls_new(const struct lg_tls_files *files, const struct lg_tls_name *self, struct lg_tls **ret_tls, struct lg_complaint *c)
{
	_cleanup_(lg_tls_free) struct lg_tls *tls = calloc(1, sizeof(*tls));
	int r;

	if (!tls) {
		lg_complain(c, "not enough memory for TLS");
		return -ENOMEM;
	}
	tls->files = *files;
	if (self)
		tls->self = *self;
	r = stamps_take(&tls->files, tls->stamps, c);
	if (r == 0)
		r = load(tls, c);
	if (r < 0)
		return r;
	*ret_tls = TAKE(tls);
	return 0;
}

struct lg_tls *lg_tls_free(struct lg_tls *tls)
{
	if (!tls)
		return NULL;
	SSL_CTX_free(tls->ctx);
	free(tls);
	return NULL;
}

int lg_tls_reload(struct lg_tls *tls, struct lg_complaint *c)
{
	struct stamp stamps[3];
	int r;

	/* A file that is not there is about to be: it is being replaced. */
	r = stamps_take(&tls->files, stamps, c);
	if (r < 0 || memcmp(stamps, tls->stamps, sizeof(stamps)) == 0)
		return r;
	memcpy(tls->stamps, stamps, sizeof(stamps));
	r = load(tls, c);
	return r < 0 ? r : 1;
}

uint64_t lg_tls_not_after_s(const struct lg_tls *tls)
{
	return tls->not_after_s;
}

/* ---- connections ---- */

static void facts_free(void *parent, void *ptr, CRYPTO_EX_DATA *ad, int index, long arg, void *argp)
{
	(void)parent;
	(void)ad;
	(void)index;
	(void)arg;
	(void)argp;
	free(ptr);
}

/* Where the facts stand in an SSL. One thread, so once is once. */
static int facts_index(void)
{
	static int index = -1;

	if (index < 0)
		index = SSL_get_ex_new_index(0, NULL, NULL, NULL, facts_free);
	return index;
}

static void name_format(const struct lg_tls_name *name, char buf[NAME_TEXT_LEN])
{
	const char *who = name->operator_name[0] ? name->operator_name : name->node;

	snprintf(buf, NAME_TEXT_LEN, "%s%s region %s", who, who[0] ? " of" : "the server of", name->region);
}

/* The peer's own certificate, which the authority vouches for: is it one we talk to? */
static bool peer_check(struct facts *facts, X509 *cert)
{
	char expected[NAME_TEXT_LEN], found[NAME_TEXT_LEN];

	if (facts->by_host)
		return true;
	if (!name_of(cert, &facts->peer)) {
		snprintf(facts->why, sizeof(facts->why), "its certificate does not say, by exactly one URI, which node or region it is");
		return false;
	}
	if (facts->is_server || lg_tls_name_equal(&facts->peer, &facts->expect))
		return true;
	name_format(&facts->expect, expected);
	name_format(&facts->peer, found);
	snprintf(facts->why, sizeof(facts->why), "%s was expected, and this is %s", expected, found);
	return false;
}

static int on_verify(int is_good, X509_STORE_CTX *store)
{
	SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
	struct facts *facts = SSL_get_ex_data(ssl, facts_index());

	if (!is_good || X509_STORE_CTX_get_error_depth(store) > 0)
		return is_good;
	if (facts && peer_check(facts, X509_STORE_CTX_get_current_cert(store)))
		return 1;
	X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
	return 0;
}

/* The name or address in the server's certificate, and the name we say whom we want to talk to. */
static bool host_set(SSL *ssl, const char *host)
{
	struct in6_addr addr;

	if (inet_pton(AF_INET, host, &addr) == 1 || inet_pton(AF_INET6, host, &addr) == 1)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
	return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

struct ssl_st *lg_tls_connection(struct lg_tls *tls, const struct lg_tls_expect *expect)
{
	_cleanup_free_ struct facts *facts = calloc(1, sizeof(*facts));
	SSL *ssl = SSL_new(tls->ctx);

	if (!facts || !ssl)
		goto fail;
	facts->is_server = !expect;
	facts->by_host = expect && !expect->name.region[0];
	if (expect)
		facts->expect = expect->name;
	if (facts->by_host && !host_set(ssl, expect->host))
		goto fail;
	if (SSL_set_ex_data(ssl, facts_index(), facts) != 1)
		goto fail;
	(void)TAKE(facts);
	SSL_set_verify(ssl, SSL_VERIFY_PEER | (expect ? 0 : SSL_VERIFY_FAIL_IF_NO_PEER_CERT), on_verify);
	return ssl;
fail:
	SSL_free(ssl);
	ERR_clear_error();
	return NULL;
}

bool lg_tls_peer(const struct ssl_st *ssl, struct lg_tls_name *ret)
{
	const struct facts *facts = SSL_get_ex_data(ssl, facts_index());

	*ret = (struct lg_tls_name){ 0 };
	if (!facts || !facts->peer.region[0] || !SSL_is_init_finished(ssl))
		return false;
	*ret = facts->peer;
	return true;
}

void lg_tls_why(const struct ssl_st *ssl, unsigned long error, char *buf, uint32_t len)
{
	const struct facts *facts = SSL_get_ex_data(ssl, facts_index());
	long verified = SSL_get_verify_result(ssl);
	const char *reason = error ? ERR_reason_error_string(error) : NULL;

	if (facts && facts->why[0])
		snprintf(buf, len, "%s", facts->why);
	else if (verified != X509_V_OK)
		snprintf(buf, len, "its certificate is not good: %s", X509_verify_cert_error_string(verified));
	else
		snprintf(buf, len, "%s", reason ? reason : "the connection broke");
}
