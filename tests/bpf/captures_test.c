// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Odd frames: whatever comes, the kernel's programs and the same parser on the host say the same, every frame is
 * counted once with the length it has, and none is aborted. Frames come from well-formed ones by damage, and from
 * captures in the folder $LG_PCAPS (if not set: ../shared/pcaps/odd, should there be one).
 */
#include <dirent.h>
#include <time.h>

#include "parse.h"
#include "progs.h"

#define TC_BYTES_MAX 3500 /* what a TC test run takes on every kernel with pages of 4 KiB */
#define ETH_BYTES 14

static struct progs *p;
static uint64_t rng;

static uint64_t random_below(uint64_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng % n;
}

static int load(void **state)
{
	const char *seed = getenv("SEED");

	(void)state;
	rng = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL) * 2654435761u + 1;
	print_message("SEED=%llu replays this run\n", (unsigned long long)rng);
	p = progs_load(64, true);
	progs_reset(p);
	/* Everything that has a port is refused, so that a port read where there is none shows. */
	progs_match(p, progs_rule(p, 0))->destination_ports = (struct lg_ranges){ .n = 1, .v = { { 0, 65535 } } };
	progs_publish(p);
	return 0;
}

static int unload(void **state)
{
	(void)state;
	progs_free(p);
	return 0;
}

/* What the kernel should say of a frame, by the parser on the host. */
static enum lg_reason expected(const uint8_t *data, uint32_t len)
{
	struct lg_frame f = { .data = data, .end = data + len, .len_bytes = len };
	struct lg_pkt pkt;

	switch (lg_parse(&f, &pkt)) {
	case LG_CLASS_IP: return pkt.has_port ? LG_DROP_LIMIT : LG_PASS_NO_RULE;
	case LG_CLASS_EXEMPT: return LG_PASS_EXEMPT;
	case LG_CLASS_NOT_IP: return LG_PASS_NOT_IP;
	case LG_CLASS_UNPARSABLE:
	case LG_CLASS_RETRY: break;
	}
	return LG_PASS_UNPARSABLE;
}

/* Counts per reason, of all frames run so far: what should be, to be compared with the maps once in a while. */
struct tally {
	struct lg_count want[_LG_HOOK_N][LG_REASON_SLOTS];
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

static void run_frame(struct tally *t, const uint8_t *data, uint32_t len)
{
	enum lg_reason reason = expected(data, len);

	for (enum lg_hook hook = LG_HOOK_XDP; hook < LG_HOOK_TC_EGRESS; hook++) {
		if (!is_taken(hook, data, len))
			continue;
		assert_int_equal(progs_run_sized(p, hook, data, len, 0, 0), reason != LG_DROP_LIMIT);
		t->want[hook][reason].packets++;
		t->want[hook][reason].bytes += len;
	}
	t->n_frames++;
}

static void compare(const struct tally *t, const char *what)
{
	struct lg_count got;

	for (enum lg_hook hook = LG_HOOK_XDP; hook < LG_HOOK_TC_EGRESS; hook++) {
		for (uint32_t reason = 0; reason < LG_REASON_SLOTS; reason++) {
			got = progs_verdicts(p, hook, reason);
			if (got.packets != t->want[hook][reason].packets || got.bytes != t->want[hook][reason].bytes)
				print_error("%s, %s, reason %u: %llu packets, wanted %llu\n", what, hook_names[hook], reason,
					    (unsigned long long)got.packets, (unsigned long long)t->want[hook][reason].packets);
			assert_int_equal(got.packets, t->want[hook][reason].packets);
			assert_int_equal(got.bytes, t->want[hook][reason].bytes);
		}
	}
}

static struct tally tally;

/* ---- damaged frames ---- */

static void build_random(struct lg_pkt_buf *pkt)
{
	static const uint8_t extensions[] = { 0, 43, 60 };

	lg_pkt_init(pkt);
	for (uint64_t n = random_below(4); n > 1; n--)
		lg_pkt_vlan(pkt, random_below(2) ? 0x8100 : 0x88a8, (uint16_t)random_below(65536));
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
	switch (random_below(5)) {
	case 0: lg_pkt_tcp(pkt, 1024, 443); break;
	case 1: lg_pkt_udp(pkt, 40000, 53); break;
	case 2: lg_pkt_sctp(pkt, 1024, 2905); break;
	case 3: lg_pkt_icmp6(pkt, (uint8_t)(128 + random_below(16))); break;
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
	assert_true(tally.want[LG_HOOK_XDP][LG_DROP_LIMIT].packets > 500);
	assert_true(tally.want[LG_HOOK_XDP][LG_PASS_NO_RULE].packets > 500);
	assert_true(tally.want[LG_HOOK_XDP][LG_PASS_UNPARSABLE].packets > 500);
	assert_true(tally.want[LG_HOOK_XDP][LG_PASS_EXEMPT].packets > 20);
	assert_true(tally.want[LG_HOOK_XDP][LG_PASS_NOT_IP].packets > 20);
}

/* ---- captures ---- */

#define PCAPNG_SECTION 0x0a0d0d0a /* the same in both byte orders */
#define PCAPNG_ORDER 0x1a2b3c4d

static uint32_t swap_if(bool is_swapped, uint32_t x)
{
	return is_swapped ? __builtin_bswap32(x) : x;
}

/* Longer than a test run takes: its first part, whose lengths then lie. */
static void run_captured(const uint8_t *frame, uint32_t len)
{
	run_frame(&tally, frame, len < LG_PKT_BYTES_MAX ? len : LG_PKT_BYTES_MAX);
}

/* The records of a file in the classic format, behind its header. */
static int run_classic(FILE *file, bool is_swapped)
{
	static uint8_t frame[1 << 18];
	uint32_t record[4], len;
	int n = 0;

	while (fread(record, sizeof(record), 1, file) == 1) {
		len = swap_if(is_swapped, record[2]);
		if (len > sizeof(frame) || fread(frame, 1, len, file) != len)
			break;
		run_captured(frame, len);
		n++;
	}
	return n;
}

/* The blocks of a pcapng file: of the kinds that hold a frame, 6 says how much of it was captured, 3 only how long it was. */
static int run_blocks(FILE *file)
{
	static uint8_t body[1 << 18];
	bool is_swapped = false;
	uint32_t head[2], words[5];
	int n = 0;

	while (fread(head, sizeof(head), 1, file) == 1) {
		uint32_t type = swap_if(is_swapped, head[0]), len, at;

		if (type == PCAPNG_SECTION) {
			assert_int_equal(fread(words, 4, 1, file), 1);
			is_swapped = words[0] != PCAPNG_ORDER;
			fseek(file, -4, SEEK_CUR);
		}
		len = swap_if(is_swapped, head[1]);
		if (len < 12 || len - 8 > sizeof(body) || fread(body, 1, len - 8, file) != len - 8)
			break;
		at = type == 6 ? 20 : 4;
		if ((type != 6 && type != 3) || len < 12 + at)
			continue;
		memcpy(words, body, at);
		len = type == 6 && swap_if(is_swapped, words[3]) < len - 12 - at ? swap_if(is_swapped, words[3]) : len - 12 - at;
		run_captured(body + at, len);
		n++;
	}
	return n;
}

/* Runs all frames of one file, in either format and byte order; returns how many, -1 if it is no capture. */
static int run_capture(const char *path)
{
	FILE *file = fopen(path, "rb");
	uint32_t header[6];
	int n = -1;

	assert_non_null(file);
	if (fread(header, sizeof(header), 1, file) == 1) {
		if (header[0] == 0xa1b2c3d4 || header[0] == 0xa1b23c4d || header[0] == 0xd4c3b2a1 || header[0] == 0x4d3cb2a1) {
			n = run_classic(file, header[0] == 0xd4c3b2a1 || header[0] == 0x4d3cb2a1);
		} else if (header[0] == PCAPNG_SECTION) {
			rewind(file);
			n = run_blocks(file);
		}
	}
	fclose(file);
	return n;
}

/* Captures of any link type: those of others than Ethernet are just odder frames. */
static void frames_of_captures_are_all_accounted_for(void **state)
{
	const char *folder = getenv("LG_PCAPS") ?: "../shared/pcaps/odd";
	uint32_t n_files = 0, n_frames = tally.n_frames;
	struct dirent *entry;
	char path[1024];
	DIR *dir;
	int n;

	(void)state;
	dir = opendir(folder);
	if (!dir) {
		print_message("no captures: set LG_PCAPS to a folder of .pcap files\n");
		skip();
	}
	while ((entry = readdir(dir))) {
		if (!strstr(entry->d_name, ".pcap"))
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		n = run_capture(path);
		if (n < 0)
			fail_msg("%s: no capture that this can read", path);
		compare(&tally, entry->d_name);
		n_files++;
	}
	closedir(dir);
	print_message("%u frames of %u files\n", tally.n_frames - n_frames, n_files);
	assert_true(n_files > 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(damaged_frames_mean_the_same_to_kernel_and_host),
		cmocka_unit_test(frames_of_captures_are_all_accounted_for),
	};

	return cmocka_run_group_tests(tests, load, unload);
}
