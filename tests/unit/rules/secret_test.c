// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "rules/secret.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "bpf/key.h"
#include "rules/compile.h"
#include "rules/yaml.h"

#define RULE(key, more)                                                                                                  \
	"rules:\n- name: a\n  scope: global\n  class: lease\n  match: {protocol: udp}\n  key: " key "\n  limit: 10/s\n  secret: true\n" more

static char path[] = "/tmp/leasegate-secret-XXXXXX";

static struct lg_secret secret_of(const char *bytes, size_t len, mode_t mode)
{
	struct lg_complaint c = { 0 };
	struct lg_secret secret;
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0 && write(fd, bytes, len) == (ssize_t)len && fchmod(fd, mode) == 0);
	close(fd);
	if (lg_secret_read(path, &secret, &c) < 0)
		fail_msg("%s", c.text);
	return secret;
}

static struct lg_secret secret_a(void)
{
	return secret_of("0123456789abcdef0123456789abcdef", 32, 0600);
}

static struct lg_rules *parsed(const char *text)
{
	struct lg_rules *rules = NULL;
	struct lg_complaint c = { 0 };

	if (lg_rules_parse(text, strlen(text), "t.yaml", &rules, &c) < 0)
		fail_msg("%s", c.text);
	return rules;
}

/* The rule as the kernel has it. */
static struct lg_rule compiled(const char *text, const struct lg_secret *secret, uint64_t *ret_fingerprint)
{
	static struct lg_ruleset set;
	static struct lg_rule_name names[LG_RULES_MAX + 1];
	struct lg_compile_env env = { .now_ns = 1, .n_regions = 1, .hosts_in_region = 1 };
	struct lg_rules *rules = parsed(text);
	struct lg_complaint c = { 0 };

	if (lg_secret_apply(secret, rules, &c) < 0 || lg_rules_compile(rules, &env, &set, NULL, names, &c) < 0)
		fail_msg("%s", c.text);
	*ret_fingerprint = lg_rule_fingerprint(&rules->v[0]);
	lg_rules_free(rules);
	return set.rules[0];
}

static struct lg_pkt packet(const char *source, uint16_t port)
{
	struct lg_pkt pkt = { .source_port = port, .destination_port = 53, .protocol = 17 };
	uint8_t addr[16] = { [10] = 0xff, [11] = 0xff };

	pkt.source_is4 = inet_pton(AF_INET, source, addr + 12) == 1;
	if (!pkt.source_is4)
		assert_int_equal(inet_pton(AF_INET6, source, addr), 1);
	memcpy(&pkt.source, addr, sizeof(addr));
	return pkt;
}

static void the_kernels_hash_is_siphash_2_4_as_openssl_has_it(void **state)
{
	static const char *const sources[] = { "192.0.2.7", "10.0.0.1", "2001:db8::1", "255.255.255.255", "::" };
	static const char *const texts[] = { RULE("{source: 32}", ""), RULE("{source: {ipv4: 24, ipv6: 56}}", "") };
	const struct lg_secret secret = secret_a();
	struct lg_key kernels, ours;
	uint64_t fingerprint;

	(void)state;
	for (size_t i = 0; i < N_ELEMS(texts); i++) {
		struct lg_rule rule = compiled(texts[i], &secret, &fingerprint);

		assert_true(lg_secret_is_address(&rule));
		for (size_t j = 0; j < N_ELEMS(sources); j++) {
			struct lg_pkt pkt = packet(sources[j], 1000);
			uint8_t addr[16];

			memcpy(addr, &pkt.source, sizeof(addr));
			/* Whatever the instance's seed: one key on all hosts. */
			lg_product_make(&rule, &pkt, j, &kernels);
			assert_int_equal(lg_secret_key(&rule, addr, &ours), 0);
			assert_memory_equal(&kernels, &ours, sizeof(ours));
			assert_memory_not_equal(kernels.a, addr, 16);
		}
	}
}

static void addresses_of_one_prefix_share_a_key_and_others_do_not(void **state)
{
	const struct lg_secret secret = secret_a();
	struct lg_pkt one = packet("192.0.2.7", 1), neighbour = packet("192.0.2.99", 1), other = packet("192.0.3.7", 1);
	struct lg_key a, b, c;
	uint64_t fingerprint;
	struct lg_rule rule = compiled(RULE("{source: {ipv4: 24}}", ""), &secret, &fingerprint);

	(void)state;
	lg_product_make(&rule, &one, 0, &a);
	lg_product_make(&rule, &neighbour, 0, &b);
	lg_product_make(&rule, &other, 0, &c);
	assert_memory_equal(&a, &b, sizeof(a));
	assert_memory_not_equal(&a, &c, sizeof(a));
}

static void ports_are_hashed_too(void **state)
{
	const struct lg_secret secret = secret_a();
	static const uint8_t zero[16];
	struct lg_pkt one = packet("192.0.2.7", 1), other = packet("192.0.2.7", 2);
	struct lg_key a, b;
	uint64_t fingerprint;
	struct lg_rule rule = compiled(RULE("{source: 32, source_port: true}", ""), &secret, &fingerprint);

	(void)state;
	assert_false(lg_secret_is_address(&rule));
	lg_product_make(&rule, &one, 0, &a);
	lg_product_make(&rule, &other, 0, &b);
	assert_memory_not_equal(a.a, b.a, 16);
	assert_memory_equal(a.b, zero, 16);
	assert_memory_equal(b.b, zero, 16);
}

static void another_secret_or_another_rule_makes_another_key(void **state)
{
	const struct lg_secret secret = secret_a(), same = secret_a(), other = secret_of("0123456789abcdef0123456789abcdeF", 32, 0600);
	struct lg_pkt pkt = packet("192.0.2.7", 1);
	struct lg_key a, b;
	uint64_t of_secret, of_same, of_other, of_rule;
	struct lg_rule rule = compiled(RULE("{source: 32}", ""), &secret, &of_secret);
	struct lg_rule again = compiled(RULE("{source: 32}", ""), &same, &of_same);
	struct lg_rule changed = compiled(RULE("{source: 32}", ""), &other, &of_other);
	struct lg_rule wider = compiled(RULE("{source: 31}", ""), &secret, &of_rule);

	(void)state;
	assert_memory_equal(rule.hash_seed, again.hash_seed, 16);
	assert_int_equal(of_secret, of_same);
	assert_int_not_equal(of_secret, of_other);
	assert_int_not_equal(of_secret, of_rule);
	lg_product_make(&rule, &pkt, 0, &a);
	lg_product_make(&changed, &pkt, 0, &b);
	assert_memory_not_equal(a.a, b.a, 16);
	assert_memory_not_equal(rule.hash_seed, wider.hash_seed, 16);
}

static void a_secret_key_is_a_hash_for_people_too(void **state)
{
	const struct lg_secret secret = secret_a();
	struct lg_pkt pkt = packet("192.0.2.7", 1);
	struct lg_key_shape shape;
	struct lg_key key;
	uint64_t fingerprint;
	struct lg_rule rule = compiled(RULE("{source: 32, source_port: true}", ""), &secret, &fingerprint);
	char text[LG_KEY_TEXT_LEN], want[64];
	uint64_t hash[2];

	(void)state;
	lg_product_make(&rule, &pkt, 0, &key);
	memcpy(hash, key.a, sizeof(hash));
	lg_key_shape_of(&rule, &shape);
	lg_key_format(&key, &shape, NULL, NULL, text, sizeof(text));
	snprintf(want, sizeof(want), "hash %016llx%016llx", (unsigned long long)hash[0], (unsigned long long)hash[1]);
	assert_string_equal(text, want);
}

static void rules_that_cannot_be_secret_are_refused(void **state)
{
	static const struct {
		const char *text, *why;
	} rows[] = {
		{ "rules:\n- {name: a, limit: 10/s, secret: true}\n", "one bucket for all" },
		{ "rules:\n- {name: a, limit: 10/s, unit: connections, key: {source: 32}, secret: true}\n", "told apart by their addresses" },
		{ "rules:\n- {name: a, limit: 10, unit: concurrent, key: {source: 32}, secret: true}\n", "told apart by their addresses" },
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		struct lg_complaint c = { 0 };
		struct lg_rules *rules = NULL;

		assert_true(lg_rules_parse(rows[i].text, strlen(rows[i].text), "t.yaml", &rules, &c) < 0);
		if (!strstr(c.text, rows[i].why))
			fail_msg("%s: %s", rows[i].why, c.text);
	}
}

static void without_a_secret_a_secret_rule_is_refused_and_others_are_not(void **state)
{
	struct lg_secret none;
	struct lg_complaint c = { 0 };
	struct lg_rules *rules = parsed(RULE("{source: 32}", ""));

	(void)state;
	assert_int_equal(lg_secret_read("", &none, &c), 0);
	assert_true(lg_secret_apply(&none, rules, &c) < 0);
	assert_non_null(strstr(c.text, "needs `secret_file`"));
	rules->v[0].is_secret = false;
	assert_int_equal(lg_secret_apply(&none, rules, &c), 0);
	lg_rules_free(rules);
}

static void a_secret_has_32_to_4096_bytes(void **state)
{
	static char bytes[4097] = { 'x' };
	struct lg_complaint c = { 0 };
	struct lg_secret secret;

	(void)state;
	secret_of(bytes, 4096, 0600);
	assert_false(secret_of(bytes, 32, 0600).is_open);
	assert_true(secret_of(bytes, 32, 0640).is_open);
	for (size_t len = 31; len <= 4097; len += 4097 - 31) {
		int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

		assert_true(fd >= 0 && write(fd, bytes, len) == (ssize_t)len);
		close(fd);
		assert_int_equal(lg_secret_read(path, &secret, &c), -EINVAL);
		assert_false(secret.has);
	}
	assert_int_equal(lg_secret_read("/nonexistent/secret", &secret, &c), -ENOENT);
	assert_string_equal(c.file, "/nonexistent/secret");
}

static int make_file(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
	(void)state;
	return unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_kernels_hash_is_siphash_2_4_as_openssl_has_it),
		cmocka_unit_test(addresses_of_one_prefix_share_a_key_and_others_do_not),
		cmocka_unit_test(ports_are_hashed_too),
		cmocka_unit_test(another_secret_or_another_rule_makes_another_key),
		cmocka_unit_test(a_secret_key_is_a_hash_for_people_too),
		cmocka_unit_test(rules_that_cannot_be_secret_are_refused),
		cmocka_unit_test(without_a_secret_a_secret_rule_is_refused_and_others_are_not),
		cmocka_unit_test(a_secret_has_32_to_4096_bytes),
	};

	return cmocka_run_group_tests(tests, make_file, remove_file);
}
