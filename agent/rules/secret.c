// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "rules/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/params.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/num.h"

/* Each use of the secret has a text of its own, so that none of them tells of another. */
#define USE_ROOT "leasegate secret"
#define USE_CHECK "leasegate check"
#define USE_KEY "leasegate key"
#define MAC_LEN 32

static bool mac(const uint8_t *key, size_t key_len, const char *use, uint64_t about, uint8_t ret[MAC_LEN])
{
	uint8_t text[64];
	size_t len = strlen(use);
	unsigned ret_len = 0;

	memcpy(text, use, len);
	for (unsigned i = 0; i < 8; i++)
		text[len++] = (uint8_t)(about >> (8 * i));
	return HMAC(EVP_sha256(), key, (int)key_len, text, len, ret, &ret_len) && ret_len == MAC_LEN;
}

static uint64_t word_of(const uint8_t bytes[8])
{
	uint64_t word = 0;

	for (unsigned i = 0; i < 8; i++)
		word |= (uint64_t)bytes[i] << (8 * i);
	return word;
}

static int file_complain(struct lg_complaint *c, const char *path, int err, const char *why)
{
	snprintf(c->file, sizeof(c->file), "%s", path);
	lg_complain(c, "secret_file: %s", why);
	return err;
}

static ssize_t file_read(const char *path, uint8_t *buf, size_t size, mode_t *ret_mode)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	size_t len = 0;
	ssize_t n = 1;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	for (; n > 0 && len < size; len += (size_t)n) {
		n = read(fd, buf + len, size - len);
		if (n < 0)
			return -errno;
	}
	*ret_mode = st.st_mode;
	return (ssize_t)len;
}

int lg_secret_read(const char *path, struct lg_secret *ret_secret, struct lg_complaint *c)
{
	struct lg_secret secret = { .has = true };
	uint8_t buf[LG_SECRET_BYTES_MAX + 1];
	mode_t mode = 0;
	ssize_t len;
	int r = 0;

	*ret_secret = (struct lg_secret){ 0 };
	if (!path[0])
		return 0;
	len = file_read(path, buf, sizeof(buf), &mode);
	if (len < 0)
		return file_complain(c, path, (int)len, strerror((int)-len));
	if (len < LG_SECRET_BYTES_MIN || len > LG_SECRET_BYTES_MAX)
		r = file_complain(c, path, -EINVAL, "a secret has 32 to 4096 bytes: make one with `openssl rand -out FILE 32`");
	else if (!mac(buf, (size_t)len, USE_ROOT, 0, secret.root))
		r = file_complain(c, path, -ENOMEM, "its hash cannot be made");
	OPENSSL_cleanse(buf, sizeof(buf));
	secret.is_open = mode & (S_IRGRP | S_IROTH);
	if (r == 0)
		*ret_secret = secret;
	return r;
}

int lg_secret_apply(const struct lg_secret *secret, struct lg_rules *rules, struct lg_complaint *c)
{
	uint8_t check[MAC_LEN], key[MAC_LEN];

	for (size_t i = 0; i < rules->n; i++) {
		struct lg_rule_def *def = &rules->v[i];

		if (!def->is_secret)
			continue;
		if (!secret->has)
			return lg_complain(c,
					   "rule \"%s\" (line %u): secret: true needs `secret_file` in the configuration, the same in all of "
					   "the fleet",
					   def->name, def->line);
		if (!mac(secret->root, sizeof(secret->root), USE_CHECK, 0, check))
			return lg_complain(c, "rule \"%s\" (line %u): its secret cannot be hashed", def->name, def->line);
		def->secret_check = word_of(check);
		if (!mac(secret->root, sizeof(secret->root), USE_KEY, lg_rule_identity(def), key))
			return lg_complain(c, "rule \"%s\" (line %u): its secret cannot be hashed", def->name, def->line);
		def->secret_key[0] = word_of(key);
		def->secret_key[1] = word_of(key + 8);
	}
	return 0;
}

/* ---- keys ---- */

bool lg_secret_is_address(const struct lg_rule *rule)
{
	uint32_t parts = lg_key_parts(rule->product_form);

	return !rule->key_form && rule->product_form & LG_FORM_SECRET && (parts == LG_KEY_SOURCE || parts == LG_KEY_DESTINATION);
}

static int siphash(const __u64 key[2], const void *data, size_t len, uint8_t ret[16])
{
	unsigned c_rounds = 2, d_rounds = 4;
	size_t size = 16, ret_len = 0;
	OSSL_PARAM params[] = {
		OSSL_PARAM_construct_size_t("size", &size),
		OSSL_PARAM_construct_uint("c-rounds", &c_rounds),
		OSSL_PARAM_construct_uint("d-rounds", &d_rounds),
		OSSL_PARAM_construct_end(),
	};
	EVP_MAC *mac_of = EVP_MAC_fetch(NULL, "SIPHASH", NULL);
	EVP_MAC_CTX *ctx = mac_of ? EVP_MAC_CTX_new(mac_of) : NULL;
	bool done = ctx && EVP_MAC_init(ctx, (const uint8_t *)key, 16, params) == 1 && EVP_MAC_update(ctx, data, len) == 1 &&
		    EVP_MAC_final(ctx, ret, &ret_len, 16) == 1 && ret_len == 16;

	EVP_MAC_CTX_free(ctx);
	EVP_MAC_free(mac_of);
	return done ? 0 : -ENOMEM;
}

int lg_secret_key(const struct lg_rule *rule, const uint8_t addr[16], struct lg_key *ret_key)
{
	bool is_source = lg_key_parts(rule->product_form) == LG_KEY_SOURCE, is4 = lg_addr_is_mapped(addr);
	const uint8_t *mask4 = is_source ? rule->key_mask4 : rule->destination_mask4;
	const uint8_t *mask6 = is_source ? rule->key_mask6 : rule->destination_mask6;
	struct {
		struct lg_wide_key wide;
		struct lg_key_narrow narrow;
	} all = { 0 };
	struct lg_key key = { .rule_id = rule->rule_id, .form = rule->product_form };
	uint8_t *to = is_source ? all.wide.source : all.wide.destination;
	int r;

	for (size_t i = 0; i < 16; i++)
		to[i] = addr[i] & (is4 ? mask4 : mask6)[i];
	r = siphash(rule->hash_seed, &all, sizeof(all), key.a);
	if (r == 0)
		*ret_key = key;
	return r;
}
