// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Odd frames: whatever comes, the kernel's programs and the same parser on the host say the same, every frame is
 * counted once with the length it has and under the rules whose fields it has, and none is aborted. Frames come from well-formed ones
 * by damage, and from captures in the folders $LG_PCAPS (if not set: those of ../shared/pcaps, should there be any).
 */
#include <dirent.h>
#include <time.h>

#include "parse.h"
#include "progs.h"
#include "tests/lib/pcap.h"
#include "tests/lib/plain_match.h"

#define TC_BYTES_MAX 3500 /* what a TC test run takes on every kernel with pages of 4 KiB */
#define ETH_BYTES 14

static struct progs *p;
static uint64_t rng;

static uint64_t random_below(uint64_t n)
{
	return chance_next(&rng) % n;
}

#define N_RULES 8

/* One rule for each field, so that a field that is read wrong, or where there is none, shows in what a rule counts. */
static const struct lg_match fields[N_RULES] = {
	{ .destination_ports = { 1, { { 0, 65535 } } } },
	{ .source_ports = { 1, { { 0, 1023 } } } },
	{ .has_protocol = true, .protocol = LG_PROTO_TCP, .tcp_flags = { .mask = 0x12, .value = 0x02 } },
	{ .has_protocol = true, .protocol = LG_PROTO_ICMP, .icmp_types = { 1, { { 8 << 8, 8 << 8 | 255 } } } },
	{ .fragments = 1 << LG_FRAGMENT_LATER },
	{ .vlans = { .ids = { 1, { { 0, 2047 } } } } },
	{ .inner_vlans = { .ids = { 1, { { 0, 2047 } } } } },
	{ .ethertype = { .has = true, .value = 0 } },
};

static int load(void **state)
{
	(void)state;
	rng = chance_seed();
	p = progs_load(64, true);
	progs_reset(p);
	for (size_t i = 0; i < N_RULES; i++) {
		struct lg_rule *rule = progs_rule(p, 0);

		rule->flags |= LG_RULE_EVALUATE_ALL;
		*progs_match(p, rule) = fields[i];
	}
	/* Else of a frame in several buffers whose IP packet ends in the first, XDP counts that one's bytes. */
	p->set.needs |= LG_NEEDS_BYTES;
	progs_publish(p);
	return 0;
}

static int unload(void **state)
{
	(void)state;
	progs_free(p);
	return 0;
}

/* Counts of all frames run so far: what should be, to be compared with the maps once in a while. */
struct tally {
	struct lg_count by_reason[_LG_HOOK_N][LG_REASON_SLOTS];
	struct lg_count by_rule[N_RULES];
	uint32_t n_frames;
};

/* Whether a test run takes the frame: XDP all with a MAC header; TC no long ones, and IP only with a whole header. */
static bool is_taken(enum lg_hook hook, const uint8_t *data, uint32_t len)
{
	uint16_t type;

	if (hook == LG_HOOK_XDP || len < ETH_BYTES)
		return len >= ETH_BYTES;
	type = (uint16_t)(data[12] << 8 | data[13]);
	return len <= TC_BYTES_MAX && len >= ETH_BYTES + (type == ETH_P_IP ? 20u : type == ETH_P_IPV6 ? 40u : 0u);
}

/* What the kernel should say of a frame, by the parser on the host, and under which rules. */
static enum lg_reason expected(const uint8_t *data, uint32_t len, bool ret_matches[N_RULES])
{
	struct lg_frame f = { .data = data, .end = data + len, .len_bytes = len };
	enum lg_class class;
	struct lg_pkt pkt;
	bool any = false;

	memset(ret_matches, 0, N_RULES * sizeof(*ret_matches));
	class = lg_parse(&f, &pkt);
	if (class == LG_CLASS_EXEMPT)
		return LG_PASS_EXEMPT;
	if (class != LG_CLASS_IP && class != LG_CLASS_NOT_IP)
		return LG_PASS_UNPARSABLE;
	for (size_t i = 0; i < N_RULES; i++)
		any |= ret_matches[i] = plain_match(&fields[i], &pkt, "");
	return any ? LG_DROP_LIMIT : class == LG_CLASS_IP ? LG_PASS_NO_RULE : LG_PASS_NOT_IP;
}

static void run_frame(struct tally *t, const uint8_t *data, uint32_t len)
{
	bool matches[N_RULES];
	enum lg_reason reason = expected(data, len, matches);

	for (enum lg_hook hook = LG_HOOK_XDP; hook < _LG_HOOK_N; hook++) {
		if (!is_taken(hook, data, len))
			continue;
		assert_int_equal(progs_run_sized(p, hook, data, len, 0, 0), reason != LG_DROP_LIMIT);
		t->by_reason[hook][reason].packets++;
		t->by_reason[hook][reason].bytes += len;
		for (size_t i = 0; i < N_RULES; i++) {
			t->by_rule[i].packets += matches[i];
			t->by_rule[i].bytes += matches[i] ? len : 0;
		}
	}
	t->n_frames++;
}

static void compare_count(struct lg_count got, struct lg_count want, const char *what, const char *where, size_t index)
{
	if (got.packets != want.packets || got.bytes != want.bytes)
		fail_msg("%s, %s %zu: %llu packets of %llu bytes, wanted %llu of %llu", what, where, index,
			 (unsigned long long)got.packets, (unsigned long long)got.bytes, (unsigned long long)want.packets,
			 (unsigned long long)want.bytes);
}

static void compare(const struct tally *t, const char *what)
{
	for (enum lg_hook hook = LG_HOOK_XDP; hook < _LG_HOOK_N; hook++)
		for (uint32_t reason = 0; reason < LG_REASON_SLOTS; reason++)
			compare_count(progs_verdicts(p, hook, reason), t->by_reason[hook][reason], what, hook_names[hook], reason);
	for (uint32_t i = 0; i < N_RULES; i++)
		compare_count(progs_rule_count(p, i + 1, LG_DROP_LIMIT), t->by_rule[i], what, "rule", i + 1);
}

static struct tally tally;

/* ---- damaged frames ---- */

static void build_random(struct lg_pkt_buf *pkt)
{
	static const uint8_t extensions[] = { 0, 43, 60 };

	lg_pkt_init(pkt);
	for (uint64_t n = random_below(4); n > 1; n--)
		lg_pkt_vlan(pkt, random_below(2) ? 0x8100 : 0x88a8, (uint16_t)random_below(65536));
	if (!random_below(20)) {
		lg_pkt_type(pkt, (uint16_t)(LG_ETHERTYPE_MIN - 2 + random_below(4)));
		lg_pkt_payload(pkt, 46, 0);
		return;
	}
	if (random_below(2)) {
		lg_pkt_ip4(pkt, "10.0.0.1", "192.0.2.1", (uint32_t)random_below(11));
		if (!random_below(4))
			lg_pkt_ip4_fragment(pkt, (uint16_t)(random_below(3) * 8), random_below(2));
	} else {
		lg_pkt_ip6(pkt, "fe80::1", "2001:db8::2");
		if (random_below(2))
			lg_pkt_hop_limit(pkt, 255);
		for (uint64_t n = random_below(10); n > 1; n--) {
			switch (random_below(3)) {
			case 0: lg_pkt_ah(pkt, (uint8_t)random_below(8)); break;
			case 1: lg_pkt_ip6_fragment(pkt, (uint16_t)(random_below(2) * 8), random_below(2)); break;
			default: lg_pkt_ext(pkt, extensions[random_below(3)], (uint8_t)random_below(4));
			}
		}
	}
	switch (random_below(6)) {
	case 0:
		lg_pkt_tcp(pkt, (uint16_t)(1023 + random_below(2)), 443);
		lg_pkt_tcp_flags(pkt, (uint8_t)random_below(256));
		break;
	case 1: lg_pkt_udp(pkt, 40000, 53); break;
	case 2: lg_pkt_sctp(pkt, 1024, 2905); break;
	case 3: lg_pkt_icmp6(pkt, (uint8_t)(128 + random_below(16))); break;
	case 4: lg_pkt_icmp4(pkt, (uint8_t)(7 + random_below(3)), 0); break;
	default: lg_pkt_proto(pkt, (uint8_t)random_below(256));
	}
	lg_pkt_payload(pkt, (uint32_t)random_below(64), 0);
	lg_pkt_done(pkt);
}

static void damaged_frames_mean_the_same_to_kernel_and_host(void **state)
{
	struct lg_pkt_buf pkt;

	(void)state;
	for (int i = 0; i < 10000; i++) {
		build_random(&pkt);
		for (uint64_t n = random_below(4); n > 0; n--)
			pkt.data[random_below(2) ? random_below(pkt.len) : 12 + random_below(60) % (pkt.len - 12)] =
				(uint8_t)random_below(256);
		if (!random_below(4))
			pkt.len = 1 + (uint32_t)random_below(pkt.len);
		else if (!random_below(4))
			lg_pkt_pad(&pkt, 60);
		run_frame(&tally, pkt.data, pkt.len);
	}
	compare(&tally, "damaged frames");
	/* The mixture is one: each way to be read was taken often. */
	assert_true(tally.by_reason[LG_HOOK_XDP][LG_DROP_LIMIT].packets > 500);
	assert_true(tally.by_reason[LG_HOOK_XDP][LG_PASS_NO_RULE].packets > 500);
	assert_true(tally.by_reason[LG_HOOK_XDP][LG_PASS_UNPARSABLE].packets > 500);
	assert_true(tally.by_reason[LG_HOOK_XDP][LG_PASS_EXEMPT].packets > 20);
	assert_true(tally.by_reason[LG_HOOK_XDP][LG_PASS_NOT_IP].packets > 20);
	for (size_t i = 0; i < N_RULES; i++)
		assert_true(tally.by_rule[i].packets > 20);
}

/* ---- captures ---- */

/* Longer than a test run takes: its first part, whose lengths then lie. */
static void run_captured(void *ctx, const uint8_t *frame, uint32_t len)
{
	run_frame(ctx, frame, len < LG_PKT_BYTES_MAX ? len : LG_PKT_BYTES_MAX);
}

/* Returns how many captures there are in a folder, -1 if there is no folder. */
static int run_folder(const char *folder)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	char path[1024];
	int n_files = 0;

	if (!dir)
		return -1;
	while ((entry = readdir(dir))) {
		if (!strstr(entry->d_name, ".pcap"))
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		if (lg_pcap_each(path, run_captured, &tally) < 0)
			fail_msg("%s: no capture that this can read", path);
		compare(&tally, entry->d_name);
		n_files++;
	}
	closedir(dir);
	return n_files;
}

/* Captures of any link type: those of others than Ethernet are just odder frames. */
static void frames_of_captures_are_all_accounted_for(void **state)
{
	char folders[4096], *rest = folders;
	uint32_t n_frames = tally.n_frames;
	int n, n_files = 0;

	(void)state;
	snprintf(folders, sizeof(folders), "%s", getenv("LG_PCAPS") ?: "../shared/pcaps/odd:../shared/pcaps/attack");
	for (const char *folder; (folder = strsep(&rest, ":"));) {
		n = run_folder(folder);
		n_files += n > 0 ? n : 0;
		if (n < 0)
			print_message("no folder %s\n", folder);
	}
	if (!n_files) {
		print_message("no captures: set LG_PCAPS to folders of .pcap files, with colons between them\n");
		skip();
	}
	print_message("%u frames of %d files\n", tally.n_frames - n_frames, n_files);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(damaged_frames_mean_the_same_to_kernel_and_host),
		cmocka_unit_test(frames_of_captures_are_all_accounted_for),
	};

	return cmocka_run_group_tests(tests, load, unload);
}
