// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What becomes of packets above the limit of a rule with an action: the packet that goes in, and the one that comes out, byte for byte. */
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sched.h>
#include <time.h>

#include "progs.h"

#define OUT_BYTES 4096

static struct progs *loaded;

static int load(void **state)
{
	(void)state;
	loaded = progs_open(64, true);
	assert_int_equal(leasegate_bpf__load(loaded->skel), 0);
	return 0;
}

static int unload(void **state)
{
	(void)state;
	progs_free(loaded);
	return 0;
}

static struct progs *fresh(void)
{
	progs_reset(loaded);
	return loaded;
}

/* A packet that came out of a program. */
struct out {
	uint8_t data[OUT_BYTES];
	uint32_t len;
	uint32_t verdict;
	struct __sk_buff skb; /* TC */
};

static struct out run_as(int prog_fd, enum lg_hook hook, const struct lg_pkt_buf *pkt, struct __sk_buff skb)
{
	static struct out out;
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = pkt->data, .data_size_in = pkt->len, .data_out = out.data,
		    .data_size_out = sizeof(out.data), .repeat = 1);

	memset(&out, 0, sizeof(out));
	if (hook != LG_HOOK_XDP) {
		opts.ctx_in = &skb;
		opts.ctx_size_in = sizeof(skb);
		opts.ctx_out = &out.skb;
		opts.ctx_size_out = sizeof(out.skb);
	}
	assert_int_equal(bpf_prog_test_run_opts(prog_fd, &opts), 0);
	out.len = opts.data_size_out;
	out.verdict = opts.retval;
	return out;
}

static struct out run_skb(struct progs *p, enum lg_hook hook, const struct lg_pkt_buf *pkt, struct __sk_buff skb)
{
	return run_as(progs_fd(p, hook), hook, pkt, skb);
}

static struct out run(struct progs *p, enum lg_hook hook, const struct lg_pkt_buf *pkt)
{
	return run_skb(p, hook, pkt, (struct __sk_buff){ 0 });
}

static bool is_pass(enum lg_hook hook, const struct out *out)
{
	return out->verdict == (hook == LG_HOOK_XDP ? XDP_PASS : (uint32_t)TC_ACT_UNSPEC);
}

static bool is_drop(enum lg_hook hook, const struct out *out)
{
	return out->verdict == (hook == LG_HOOK_XDP ? XDP_DROP : TC_ACT_SHOT);
}

static bool is_reply(enum lg_hook hook, const struct out *out)
{
	return out->verdict == (hook == LG_HOOK_XDP ? XDP_TX : TC_ACT_REDIRECT);
}

/* A rule that has one token for each source, and none after it. */
static struct lg_rule *act(struct progs *p, enum lg_action action, uint32_t value)
{
	struct lg_rule *rule = progs_rule(p, 1);

	rule->flags |= LG_RULE_ACTS;
	rule->action = (uint8_t)action;
	rule->action_value = value;
	if (action == LG_ACTION_ECN)
		p->set.needs |= LG_NEEDS_ECN;
	return rule;
}

/* Takes the one token. */
static void spend(struct progs *p, enum lg_hook hook, const struct lg_pkt_buf *pkt)
{
	struct out out = run(p, hook, pkt);

	assert_true(is_pass(hook, &out));
	assert_int_equal(out.len, pkt->len);
	assert_memory_equal(out.data, pkt->data, pkt->len);
}

static uint32_t get16(const uint8_t *at)
{
	return (uint32_t)at[0] << 8 | at[1];
}

static uint32_t get32(const uint8_t *at)
{
	return get16(at) << 16 | get16(at + 2);
}

static void put16(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

/* Of 16-bit words, an odd byte being the first of one, as RFC 1071 says it. */
static uint32_t sum(const uint8_t *at, uint32_t len, uint32_t from)
{
	uint64_t total = from;

	for (uint32_t i = 0; i < len; i++)
		total += (uint32_t)at[i] << (i % 2 ? 0 : 8);
	while (total >> 16)
		total = (total & 0xffff) + (total >> 16);
	return (uint32_t)total;
}

/* The same frame with a right checksum in its IPv4 header and, if it has one, in its TCP header. */
static void checksums_set(struct lg_pkt_buf *pkt)
{
	if (!pkt->is_ip6)
		put16(pkt->data + pkt->l3_at + 10, ~sum(pkt->data + pkt->l3_at, (pkt->data[pkt->l3_at] & 15) * 4u, 0));
}

/* An IP packet of `tags` tags; TOS or traffic class as given. */
static struct lg_pkt_buf udp(int tags, bool is_ip6, uint8_t tos)
{
	struct lg_pkt_buf pkt;

	lg_pkt_init(&pkt);
	for (int i = 0; i < tags; i++)
		lg_pkt_vlan(&pkt, i + 1 < tags ? 0x88a8 : 0x8100, 7);
	if (is_ip6)
		lg_pkt_ip6(&pkt, "2001:db8::1", "2001:db8::2");
	else
		lg_pkt_ip4(&pkt, "10.0.0.1", "192.0.2.1", tags);
	lg_pkt_udp(&pkt, 40000, 53);
	lg_pkt_payload(&pkt, 20, 0);
	lg_pkt_done(&pkt);
	if (is_ip6)
		put16(pkt.data + pkt.l3_at, get16(pkt.data + pkt.l3_at) | (uint32_t)tos << 4);
	else
		pkt.data[pkt.l3_at + 1] = tos;
	checksums_set(&pkt);
	return pkt;
}

/* ---- marks ---- */

static const enum lg_hook tc_hooks[] = { LG_HOOK_TC_INGRESS, LG_HOOK_TC_EGRESS };

static void what_is_above_the_limit_passes_with_its_mark_or_priority(void **state)
{
	struct lg_pkt_buf pkt = udp(0, false, 0);
	struct lg_key key = progs_key(1, "10.0.0.1");

	(void)state;
	for (size_t h = 0; h < N_ELEMS(tc_hooks); h++) {
		for (enum lg_action action = LG_ACTION_MARK; action <= LG_ACTION_PRIORITY; action++) {
			struct progs *p = fresh();
			struct __sk_buff in = { .mark = 5, .priority = 6 };
			struct out out;

			act(p, action, 0x80000001);
			progs_publish(p);
			out = run_skb(p, tc_hooks[h], &pkt, in);
			assert_true(is_pass(tc_hooks[h], &out));
			assert_int_equal(out.skb.mark, 5);
			assert_int_equal(out.skb.priority, 6);
			out = run_skb(p, tc_hooks[h], &pkt, in);
			assert_true(is_pass(tc_hooks[h], &out));
			assert_int_equal(out.skb.mark, action == LG_ACTION_MARK ? 0x80000001 : 5);
			assert_int_equal(out.skb.priority, action == LG_ACTION_PRIORITY ? 0x80000001 : 6);
			assert_memory_equal(out.data, pkt.data, pkt.len);
			assert_int_equal(progs_verdicts(p, tc_hooks[h], LG_PASS_MARKED).packets, 1);
			assert_int_equal(progs_rule_count(p, 1, LG_PASS_ADMITTED).packets, 1);
			assert_int_equal(progs_rule_count(p, 1, LG_PASS_MARKED).packets, 1);
			assert_int_equal(progs_bucket(p, &key).spent_tok, 1);
			assert_int_equal(progs_bucket(p, &key).denied_tok, 1);
		}
	}
}

/* Only those bits change, and the header's checksum, which is right afterwards. */
static void dscp_is_written_below_any_tags_and_nothing_else(void **state)
{
	(void)state;
	for (size_t h = 0; h < N_ELEMS(tc_hooks); h++) {
		for (int i = 0; i < 2 * 3 * 4; i++) {
			bool is_ip6 = i % 2;
			uint8_t ecn = (uint8_t)(i / 6), tos = (uint8_t)(20 << 2 | ecn);
			struct lg_pkt_buf pkt = udp(i / 2 % 3, is_ip6, tos), want = udp(i / 2 % 3, is_ip6, (uint8_t)(46 << 2 | ecn));
			struct progs *p = fresh();
			struct out out;

			act(p, LG_ACTION_DSCP, 46);
			progs_publish(p);
			spend(p, tc_hooks[h], &pkt);
			out = run(p, tc_hooks[h], &pkt);
			assert_true(is_pass(tc_hooks[h], &out));
			assert_int_equal(out.len, want.len);
			assert_memory_equal(out.data, want.data, want.len);
			progs_expect(p, tc_hooks[h], &pkt, LG_PASS_MARKED);
		}
	}
}

static void congestion_is_said_to_those_who_have_agreed_and_others_are_dropped(void **state)
{
	(void)state;
	for (size_t h = 0; h < N_ELEMS(tc_hooks); h++) {
		for (int i = 0; i < 2 * 3 * 4; i++) {
			bool is_ip6 = i % 2;
			uint8_t ecn = (uint8_t)(i / 6), tos = (uint8_t)(20 << 2 | ecn);
			struct lg_pkt_buf pkt = udp(i / 2 % 3, is_ip6, tos), want = udp(i / 2 % 3, is_ip6, 20 << 2 | 3);
			struct progs *p = fresh();
			struct out out;

			act(p, LG_ACTION_ECN, 0);
			progs_publish(p);
			spend(p, tc_hooks[h], &pkt);
			out = run(p, tc_hooks[h], &pkt);
			assert_int_equal(is_pass(tc_hooks[h], &out), ecn != 0);
			assert_int_equal(is_drop(tc_hooks[h], &out), ecn == 0);
			if (ecn)
				assert_memory_equal(out.data, want.data, want.len);
			assert_int_equal(progs_verdicts(p, tc_hooks[h], ecn ? LG_PASS_MARKED : LG_DROP_LIMIT).packets, 1);
			assert_int_equal(progs_rule_count(p, 1, ecn ? LG_PASS_MARKED : LG_DROP_LIMIT).packets, 1);
		}
	}
}

static void xdp_cannot_mark_and_drops(void **state)
{
	static const enum lg_action actions[] = { LG_ACTION_MARK, LG_ACTION_PRIORITY, LG_ACTION_DSCP, LG_ACTION_ECN };
	struct lg_pkt_buf pkt = udp(0, false, 1);

	(void)state;
	for (size_t i = 0; i < N_ELEMS(actions); i++) {
		struct progs *p = fresh();

		act(p, actions[i], 1);
		progs_publish(p);
		spend(p, LG_HOOK_XDP, &pkt);
		progs_expect(p, LG_HOOK_XDP, &pkt, LG_DROP_LIMIT);
	}
}

static void an_arp_frame_has_no_dscp_and_stays_as_it_is(void **state)
{
	struct progs *p = fresh();
	struct lg_rule *rule = act(p, LG_ACTION_DSCP, 46);
	struct lg_pkt_buf pkt;
	struct out out;

	(void)state;
	progs_match(p, rule)->ethertype.has = true;
	progs_match(p, rule)->ethertype.value = 0x88cc;
	progs_publish(p);
	lg_pkt_init(&pkt);
	lg_pkt_type(&pkt, 0x88cc);
	lg_pkt_payload(&pkt, 46, 0);
	spend(p, LG_HOOK_TC_INGRESS, &pkt);
	out = run(p, LG_HOOK_TC_INGRESS, &pkt);
	assert_true(is_pass(LG_HOOK_TC_INGRESS, &out));
	assert_memory_equal(out.data, pkt.data, pkt.len);
}

/* ---- of several rules ---- */

static void the_mark_of_the_first_rule_counts_and_who_has_tokens_is_charged(void **state)
{
	struct lg_pkt_buf pkt = udp(0, false, 0);
	struct lg_key plenty = progs_key(2, "10.0.0.1"), none = progs_key(1, "10.0.0.1");
	struct progs *p = fresh();
	struct out out;

	(void)state;
	act(p, LG_ACTION_MARK, 1);
	progs_rule(p, 100);
	act(p, LG_ACTION_MARK, 3);
	progs_publish(p);
	for (int i = 0; i < 3; i++)
		out = run(p, LG_HOOK_TC_INGRESS, &pkt);
	assert_true(is_pass(LG_HOOK_TC_INGRESS, &out));
	assert_int_equal(out.skb.mark, 1);
	assert_int_equal(progs_bucket(p, &plenty).spent_tok, 3);
	assert_int_equal(progs_bucket(p, &none).spent_tok, 1);
	assert_int_equal(progs_verdicts(p, LG_HOOK_TC_INGRESS, LG_PASS_MARKED).packets, 2);
	assert_int_equal(progs_rule_count(p, 2, LG_PASS_ADMITTED).packets, 3);
	assert_int_equal(progs_rule_count(p, 3, LG_PASS_MARKED).packets, 2);
}

static void a_refusal_comes_before_any_mark(void **state)
{
	struct lg_pkt_buf pkt = udp(0, false, 0);
	struct lg_key plenty = progs_key(3, "10.0.0.1");

	(void)state;
	for (int order = 0; order < 2; order++) {
		struct progs *p = fresh();
		struct out out;

		if (order)
			progs_rule(p, 1);
		act(p, LG_ACTION_MARK, 1);
		if (!order)
			progs_rule(p, 1);
		progs_rule(p, 100);
		progs_publish(p);
		spend(p, LG_HOOK_TC_INGRESS, &pkt);
		out = run(p, LG_HOOK_TC_INGRESS, &pkt);
		assert_true(is_drop(LG_HOOK_TC_INGRESS, &out));
		assert_int_equal(progs_verdicts(p, LG_HOOK_TC_INGRESS, LG_DROP_LIMIT).packets, 1);
		assert_int_equal(progs_bucket(p, &plenty).spent_tok, 1);
	}
}

static void a_mark_is_louder_than_a_shadow(void **state)
{
	struct lg_pkt_buf pkt = udp(0, false, 0);
	struct progs *p = fresh();

	(void)state;
	progs_rule(p, 1)->flags |= LG_RULE_SHADOW;
	act(p, LG_ACTION_MARK, 1);
	progs_publish(p);
	spend(p, LG_HOOK_TC_EGRESS, &pkt);
	progs_expect(p, LG_HOOK_TC_EGRESS, &pkt, LG_PASS_MARKED);
	assert_int_equal(progs_rule_count(p, 1, LG_PASS_SHADOW).packets, 1);
}

/* ---- replies ---- */

#define FIN 0x01
#define SYN 0x02
#define RST 0x04
#define ACK 0x10
#define SEQ 0x11223344u
#define ACK_SEQ 0x55667788u

static const enum lg_hook reply_hooks[] = { LG_HOOK_XDP, LG_HOOK_TC_INGRESS };

static struct lg_pkt_buf tcp(bool is_ip6, uint32_t n_options, uint8_t flags, uint32_t payload)
{
	struct lg_pkt_buf pkt;
	uint32_t at;

	lg_pkt_init(&pkt);
	memset(pkt.data, 4, 6);
	if (is_ip6)
		lg_pkt_ip6(&pkt, "2001:db8::1", "2001:db8::2");
	else
		lg_pkt_ip4(&pkt, "10.0.0.1", "192.0.2.1", n_options);
	at = pkt.len;
	lg_pkt_tcp(&pkt, 40000, 443);
	lg_pkt_tcp_flags(&pkt, flags);
	lg_pkt_payload(&pkt, payload, 0);
	lg_pkt_done(&pkt);
	put16(pkt.data + at + 4, SEQ >> 16);
	put16(pkt.data + at + 6, SEQ & 0xffff);
	put16(pkt.data + at + 8, ACK_SEQ >> 16);
	put16(pkt.data + at + 10, ACK_SEQ & 0xffff);
	checksums_set(&pkt);
	return pkt;
}

/* The sum of a reply's transport part with what it is summed up with is right, and so is that of its IPv4 header. */
static void sums_check(const uint8_t *ip, bool is_ip6, bool has_pseudo)
{
	uint32_t head = is_ip6 ? 40 : 20, len = is_ip6 ? get16(ip + 4) : get16(ip + 2) - 20, from = 0;

	if (!is_ip6)
		assert_int_equal(sum(ip, 20, 0), 0xffff);
	if (has_pseudo)
		from = sum(is_ip6 ? ip + 8 : ip + 12, is_ip6 ? 32 : 8, (is_ip6 ? ip[6] : ip[9]) + len);
	assert_int_equal(sum(ip + head, len, from), 0xffff);
}

/* The Ethernet and IP headers of an answer to pkt: from its destination to its source. Returns the IP header. */
static const uint8_t *turned_check(const struct out *out, const struct lg_pkt_buf *pkt, uint8_t protocol, uint32_t l4_bytes)
{
	const uint8_t *ip = out->data + pkt->l3_at, *was = pkt->data + pkt->l3_at;
	uint32_t at = pkt->is_ip6 ? 8 : 12, len = pkt->is_ip6 ? 16 : 4, head = pkt->is_ip6 ? 40 : 20;

	assert_memory_equal(out->data, pkt->data + 6, 6);
	assert_memory_equal(out->data + 6, pkt->data, 6);
	assert_memory_equal(out->data + 12, pkt->data + 12, pkt->l3_at - 12);
	assert_memory_equal(ip + at, was + at + len, len);
	assert_memory_equal(ip + at + len, was + at, len);
	assert_int_equal(pkt->is_ip6 ? ip[6] : ip[9], protocol);
	assert_int_equal(pkt->is_ip6 ? get16(ip + 4) : get16(ip + 2) - 20, l4_bytes);
	assert_int_equal(ip[0], pkt->is_ip6 ? 0x60 : 0x45);
	assert_int_equal(pkt->is_ip6 ? ip[7] : ip[8], 64);
	assert_true(out->len >= pkt->l3_at + head + l4_bytes);
	for (uint32_t i = pkt->l3_at + head + l4_bytes; i < out->len; i++)
		assert_int_equal(out->data[i], 0);
	return ip;
}

static void a_segment_above_the_limit_is_answered_by_a_reset(void **state)
{
	static const struct {
		uint8_t flags;
		uint32_t payload, n_options;
		uint8_t want_flags;
		uint32_t want_seq, want_ack;
	} rows[] = {
		{ SYN, 0, 0, RST | ACK, 0, SEQ + 1 },
		{ SYN, 10, 3, RST | ACK, 0, SEQ + 11 },
		{ SYN | ACK, 0, 0, RST, ACK_SEQ, 0 },
		{ ACK, 0, 10, RST, ACK_SEQ, 0 },
		{ ACK, 1400, 0, RST, ACK_SEQ, 0 },
		{ FIN, 7, 0, RST | ACK, 0, SEQ + 8 },
		{ 0, 0, 0, RST | ACK, 0, SEQ },
		{ FIN | ACK, 3, 0, RST, ACK_SEQ, 0 },
	};

	(void)state;
	for (size_t i = 0; i < 2 * 2 * N_ELEMS(rows); i++) {
		enum lg_hook hook = reply_hooks[i % 2];
		bool is_ip6 = i / 2 % 2;
		struct lg_pkt_buf pkt = tcp(is_ip6, rows[i / 4].n_options, rows[i / 4].flags, rows[i / 4].payload);
		struct progs *p = fresh();
		const uint8_t *ip, *rst;
		struct out out;

		act(p, LG_ACTION_RESET, 0);
		progs_publish(p);
		spend(p, hook, &pkt);
		out = run(p, hook, &pkt);
		assert_true(is_reply(hook, &out));
		ip = turned_check(&out, &pkt, IPPROTO_TCP, 20);
		rst = ip + (is_ip6 ? 40 : 20);
		assert_int_equal(get16(rst), 443);
		assert_int_equal(get16(rst + 2), 40000);
		assert_int_equal(get32(rst + 4), rows[i / 4].want_seq);
		assert_int_equal(get32(rst + 8), rows[i / 4].want_ack);
		assert_int_equal(rst[12], 5 << 4);
		assert_int_equal(rst[13], rows[i / 4].want_flags);
		assert_int_equal(get16(rst + 14), 0);
		assert_int_equal(get16(rst + 18), 0);
		sums_check(ip, is_ip6, true);
		assert_true(out.len <= pkt.len);
		assert_int_equal(progs_verdicts(p, hook, LG_DROP_LIMIT).packets, 1);
		assert_int_equal(progs_rule_count(p, 1, LG_DROP_LIMIT).packets, 1);
		assert_int_equal(progs_shared(p).resets, 1);
		assert_int_equal(progs_shared(p).prohibited, 0);
	}
}

static struct lg_pkt_buf datagram(bool is_ip6, uint32_t payload)
{
	struct lg_pkt_buf pkt;

	if (is_ip6)
		lg_pkt_udp6(&pkt, "2001:db8::1", "2001:db8::2", 53, payload);
	else
		lg_pkt_udp4(&pkt, "10.0.0.1", "192.0.2.1", 53, payload);
	memset(pkt.data, 4, 6);
	checksums_set(&pkt);
	return pkt;
}

/* Where each CPU puts replies together stands a quote now: none of it may get into a reply to somebody else. */
static void quote_somebody(void)
{
	struct lg_pkt_buf pkt = datagram(true, 1232);
	cpu_set_t all, one;
	struct progs *p = fresh();
	struct out out;

	act(p, LG_ACTION_PROHIBITED, 0)->cold_burst_tok = 0;
	progs_publish(p);
	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &all))
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
		out = run(p, LG_HOOK_XDP, &pkt);
		assert_true(is_reply(LG_HOOK_XDP, &out));
	}
	assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
}

/* At XDP a short frame stays as long as it was: adapters want 60 bytes. */
static void a_reset_is_padded_as_the_segment_was(void **state)
{
	static const uint32_t lens[] = { 54, 58, 60, 64 };

	(void)state;
	quote_somebody();
	for (size_t i = 0; i < N_ELEMS(lens); i++) {
		struct lg_pkt_buf pkt = tcp(false, 0, SYN, 0);
		struct progs *p = fresh();
		struct out out;

		lg_pkt_pad(&pkt, lens[i]);
		act(p, LG_ACTION_RESET, 0);
		progs_publish(p);
		spend(p, LG_HOOK_XDP, &pkt);
		out = run(p, LG_HOOK_XDP, &pkt);
		assert_true(is_reply(LG_HOOK_XDP, &out));
		assert_int_equal(out.len, lens[i] < 60 ? lens[i] : 60);
		sums_check(turned_check(&out, &pkt, IPPROTO_TCP, 20), false, true);
	}
}

static void what_is_above_the_limit_is_answered_by_its_head_in_icmp(void **state)
{
	static const uint32_t payloads[] = { 0, 1, 2, 3, 20, 519, 520, 521, 1183, 1184, 1185, 1400, 3000 };

	(void)state;
	for (size_t i = 0; i < 2 * 2 * N_ELEMS(payloads); i++) {
		enum lg_hook hook = reply_hooks[i % 2];
		bool is_ip6 = i / 2 % 2;
		struct lg_pkt_buf pkt = datagram(is_ip6, payloads[i / 4]);
		uint32_t most = is_ip6 ? 1232 : 548, had = pkt.len - pkt.l3_at, quote = had < most ? had : most;
		const uint8_t *ip, *icmp;
		struct progs *p = fresh();
		struct out out;

		act(p, LG_ACTION_PROHIBITED, 0);
		progs_publish(p);
		spend(p, hook, &pkt);
		out = run(p, hook, &pkt);
		assert_true(is_reply(hook, &out));
		ip = turned_check(&out, &pkt, is_ip6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP, 8 + quote);
		assert_int_equal(out.len, pkt.l3_at + (is_ip6 ? 48 : 28) + quote);
		icmp = ip + (is_ip6 ? 40 : 20);
		assert_int_equal(icmp[0], is_ip6 ? 1 : 3);
		assert_int_equal(icmp[1], is_ip6 ? 1 : 13);
		assert_int_equal(get32(icmp + 4), 0);
		assert_memory_equal(icmp + 8, pkt.data + pkt.l3_at, quote);
		sums_check(ip, is_ip6, is_ip6);
		assert_int_equal(progs_verdicts(p, hook, LG_DROP_LIMIT).packets, 1);
		assert_int_equal(progs_shared(p).prohibited, 1);
	}
}

/* Padding behind the IP packet is no part of it. */
static void the_quote_ends_with_the_packet(void **state)
{
	struct lg_pkt_buf pkt = datagram(false, 1);

	(void)state;
	lg_pkt_pad(&pkt, 60);
	for (size_t h = 0; h < N_ELEMS(reply_hooks); h++) {
		struct progs *p = fresh();
		struct out out;

		act(p, LG_ACTION_PROHIBITED, 0);
		progs_publish(p);
		spend(p, reply_hooks[h], &pkt);
		out = run(p, reply_hooks[h], &pkt);
		assert_true(is_reply(reply_hooks[h], &out));
		sums_check(turned_check(&out, &pkt, IPPROTO_ICMP, 8 + 29), false, false);
	}
}

/* XDP sees the tags in the frame and turns them round with it. At TC the kernel cannot make room behind a second tag. */
static void tags_stay_in_front_of_a_reply(void **state)
{
	(void)state;
	for (int tags = 1; tags <= 2; tags++) {
		for (int is_ip6 = 0; is_ip6 < 2; is_ip6++) {
			struct lg_pkt_buf pkt = udp(tags, is_ip6, 0);
			struct progs *p = fresh();
			struct out out;

			act(p, LG_ACTION_PROHIBITED, 0);
			progs_publish(p);
			spend(p, LG_HOOK_XDP, &pkt);
			out = run(p, LG_HOOK_XDP, &pkt);
			assert_true(is_reply(LG_HOOK_XDP, &out));
			sums_check(turned_check(&out, &pkt, is_ip6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP, 8 + pkt.len - pkt.l3_at), is_ip6,
				   is_ip6);
		}
	}
}

/* What the entry of libxdp's dispatcher makes of a packet above the limit. */
static struct out run_shared(struct progs *p, enum lg_action action, const struct lg_pkt_buf *pkt)
{
	int fd = bpf_program__fd(p->skel->progs.lg_xdp_shared);
	struct out out;

	act(p, action, 0);
	progs_publish(p);
	out = run_as(fd, LG_HOOK_XDP, pkt, (struct __sk_buff){ 0 });
	assert_true(is_pass(LG_HOOK_XDP, &out));
	return run_as(fd, LG_HOOK_XDP, pkt, (struct __sk_buff){ 0 });
}

static void where_xdp_is_shared_a_reset_has_the_length_of_the_segment(void **state)
{
	static const uint32_t payloads[] = { 0, 1, 6, 40, 1400 };

	(void)state;
	for (size_t i = 0; i < 2 * N_ELEMS(payloads); i++) {
		struct lg_pkt_buf pkt = tcp(i % 2, 0, ACK, payloads[i / 2]);
		struct out own = { 0 }, out = run_shared(fresh(), LG_ACTION_RESET, &pkt);
		struct progs *p = fresh();

		assert_int_equal(out.verdict, XDP_TX);
		assert_int_equal(out.len, pkt.len);
		act(p, LG_ACTION_RESET, 0);
		progs_publish(p);
		spend(p, LG_HOOK_XDP, &pkt);
		own = run(p, LG_HOOK_XDP, &pkt);
		assert_memory_equal(out.data, own.data, own.len);
		assert_memory_equal(out.data + own.len, pkt.data + own.len, pkt.len - own.len);
	}
}

/* 28 bytes are quoted at least, 48 of IPv6: behind as many of the reply's own that makes 70 and 110. */
static void where_xdp_is_shared_icmp_quotes_what_there_is_room_for(void **state)
{
	static const struct {
		bool is_ip6;
		uint32_t payload, quote;
	} rows[] = {
		{ false, 27, 0 }, { false, 28, 28 }, { false, 29, 29 }, { false, 548, 548 }, { false, 549, 548 }, { false, 1400, 548 },
		{ true, 47, 0 },  { true, 48, 48 },  { true, 49, 49 },	{ true, 1232, 1232 }, { true, 1400, 1232 },
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		bool is_ip6 = rows[i].is_ip6;
		struct lg_pkt_buf pkt = datagram(is_ip6, rows[i].payload);
		struct out out = run_shared(fresh(), LG_ACTION_PROHIBITED, &pkt);
		uint32_t end = pkt.l3_at + (is_ip6 ? 48 : 28) + rows[i].quote;
		const uint8_t *ip = out.data + pkt.l3_at;

		assert_int_equal(out.verdict, rows[i].quote ? XDP_TX : XDP_DROP);
		assert_int_equal(out.len, pkt.len);
		if (!rows[i].quote) {
			assert_memory_equal(out.data, pkt.data, pkt.len);
			continue;
		}
		assert_memory_equal(out.data, pkt.data + 6, 6);
		assert_memory_equal(out.data + 6, pkt.data, 6);
		assert_int_equal(is_ip6 ? get16(ip + 4) : get16(ip + 2) - 20, 8 + rows[i].quote);
		assert_memory_equal(out.data + end - rows[i].quote, pkt.data + pkt.l3_at, rows[i].quote);
		assert_memory_equal(out.data + end, pkt.data + end, pkt.len - end);
		sums_check(ip, is_ip6, is_ip6);
		assert_int_equal(progs_shared(loaded).prohibited, 1);
	}
}

static struct lg_pkt_buf icmp(bool is_ip6, uint8_t type)
{
	struct lg_pkt_buf pkt;

	lg_pkt_init(&pkt);
	if (is_ip6) {
		lg_pkt_ip6(&pkt, "2001:db8::1", "2001:db8::2");
		lg_pkt_icmp6(&pkt, type);
	} else {
		lg_pkt_ip4(&pkt, "10.0.0.1", "192.0.2.1", 0);
		lg_pkt_icmp4(&pkt, type, 0);
	}
	lg_pkt_payload(&pkt, 30, 0);
	lg_pkt_done(&pkt);
	return pkt;
}

static struct lg_pkt_buf between(const char *source, const char *destination)
{
	struct lg_pkt_buf pkt;

	lg_pkt_init(&pkt);
	if (strchr(source, ':'))
		lg_pkt_ip6(&pkt, source, destination);
	else
		lg_pkt_ip4(&pkt, source, destination, 0);
	lg_pkt_tcp(&pkt, 40000, 443);
	lg_pkt_tcp_flags(&pkt, SYN);
	lg_pkt_done(&pkt);
	return pkt;
}

static struct lg_pkt_buf to_group(uint32_t at)
{
	struct lg_pkt_buf pkt = between("10.0.0.1", "192.0.2.1");

	pkt.data[at] |= 1;
	return pkt;
}

static struct lg_pkt_buf fragment(bool is_ip6, uint16_t offset)
{
	struct lg_pkt_buf pkt;

	lg_pkt_init(&pkt);
	if (is_ip6) {
		lg_pkt_ip6(&pkt, "2001:db8::1", "2001:db8::2");
		lg_pkt_ip6_fragment(&pkt, offset, true);
	} else {
		lg_pkt_ip4(&pkt, "10.0.0.1", "192.0.2.1", 0);
		lg_pkt_ip4_fragment(&pkt, offset, true);
	}
	lg_pkt_tcp(&pkt, 40000, 443);
	lg_pkt_tcp_flags(&pkt, SYN);
	lg_pkt_done(&pkt);
	return pkt;
}

/* Each of these is dropped and that is all. The first one only shows that others like it are answered. */
static void no_reply_is_given_to_what_must_not_be_answered(void **state)
{
	struct {
		const char *name;
		struct lg_pkt_buf pkt;
		bool is_reset, is_prohibited;
	} rows[] = {
		{ "tcp", between("10.0.0.1", "192.0.2.1"), true, true },
		{ "tcp6", between("2001:db8::1", "2001:db8::2"), true, true },
		{ "udp", datagram(false, 20), false, true },
		{ "rst", tcp(false, 0, RST, 0), false, false },
		{ "rst6", tcp(true, 0, RST | ACK, 0), false, false },
		{ "ping", icmp(false, 8), false, true },
		{ "ping6", icmp(true, 128), false, true },
		{ "unreachable", icmp(false, 3), false, false },
		{ "time exceeded", icmp(false, 11), false, false },
		{ "redirect", icmp(false, 5), false, false },
		{ "pong", icmp(false, 0), false, false },
		{ "unreachable6", icmp(true, 1), false, false },
		{ "time exceeded6", icmp(true, 3), false, false },
		{ "from 0", between("0.0.0.1", "192.0.2.1"), false, false },
		{ "from loopback", between("127.0.0.1", "192.0.2.1"), false, false },
		{ "from multicast", between("224.0.0.9", "192.0.2.1"), false, false },
		{ "from broadcast", between("255.255.255.255", "192.0.2.1"), false, false },
		{ "to multicast", between("10.0.0.1", "239.1.2.3"), false, false },
		{ "to broadcast", between("10.0.0.1", "255.255.255.255"), false, false },
		{ "from ::", between("::", "2001:db8::2"), false, false },
		{ "from ::1", between("::1", "2001:db8::2"), false, false },
		{ "from ff", between("ff05::1", "2001:db8::2"), false, false },
		{ "to ff", between("2001:db8::1", "ff05::2"), false, false },
		{ "frame to a group", to_group(0), false, false },
		{ "frame from a group", to_group(6), false, false },
		{ "first fragment", fragment(false, 0), false, false },
		{ "later fragment", fragment(false, 800), false, false },
		{ "first fragment6", fragment(true, 0), false, false },
		{ "later fragment6", fragment(true, 800), false, false },
	};

	(void)state;
	for (size_t i = 0; i < 2 * 2 * N_ELEMS(rows); i++) {
		enum lg_hook hook = reply_hooks[i % 2];
		bool is_reset = i / 2 % 2, want = is_reset ? rows[i / 4].is_reset : rows[i / 4].is_prohibited;
		struct progs *p = fresh();
		struct out out;

		act(p, is_reset ? LG_ACTION_RESET : LG_ACTION_PROHIBITED, 0);
		progs_publish(p);
		spend(p, hook, &rows[i / 4].pkt);
		out = run(p, hook, &rows[i / 4].pkt);
		if (is_reply(hook, &out) != want || is_drop(hook, &out) == want)
			fail_msg("%s, %s at %s: verdict %u", rows[i / 4].name, is_reset ? "reset" : "prohibited", hook_names[hook],
				 out.verdict);
		assert_int_equal(progs_shared(p).resets + progs_shared(p).prohibited, want);
		assert_int_equal(progs_verdicts(p, hook, LG_DROP_LIMIT).packets, 1);
	}
}

static void nobody_is_answered_on_the_way_out(void **state)
{
	struct lg_pkt_buf pkt = between("10.0.0.1", "192.0.2.1");

	(void)state;
	for (enum lg_action action = LG_ACTION_RESET; action <= LG_ACTION_PROHIBITED; action++) {
		struct progs *p = fresh();

		act(p, action, 0);
		progs_publish(p);
		spend(p, LG_HOOK_TC_EGRESS, &pkt);
		progs_expect(p, LG_HOOK_TC_EGRESS, &pkt, LG_DROP_LIMIT);
		assert_int_equal(progs_shared(p).resets + progs_shared(p).prohibited, 0);
	}
}

static uint32_t replies(struct progs *p, enum lg_hook hook, const struct lg_pkt_buf *pkt, uint32_t n)
{
	uint32_t got = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct out out = run(p, hook, pkt);

		assert_true(is_reply(hook, &out) || is_drop(hook, &out));
		got += is_reply(hook, &out);
	}
	return got;
}

static void no_more_than_a_thousand_replies_leave_in_a_second(void **state)
{
	struct lg_pkt_buf pkt = between("10.0.0.1", "192.0.2.1");
	struct progs *p = fresh();

	(void)state;
	act(p, LG_ACTION_RESET, 0)->cold_burst_tok = 0;
	progs_publish(p);
	assert_int_equal(replies(p, LG_HOOK_XDP, &pkt, 60) + replies(p, LG_HOOK_TC_INGRESS, &pkt, 60), LG_REPLIES_BURST);
	progs_now(p, START_NS + 1 * MS - 1);
	assert_int_equal(replies(p, LG_HOOK_XDP, &pkt, 2), 0);
	progs_now(p, START_NS + 1 * MS);
	assert_int_equal(replies(p, LG_HOOK_XDP, &pkt, 2), 1);
	progs_now(p, START_NS + 11 * MS);
	assert_int_equal(replies(p, LG_HOOK_TC_INGRESS, &pkt, 20), 10);
	progs_now(p, START_NS + S);
	assert_int_equal(replies(p, LG_HOOK_XDP, &pkt, 200), LG_REPLIES_BURST);
	assert_int_equal(progs_shared(p).resets, 2 * LG_REPLIES_BURST + 11);
	assert_int_equal(progs_verdicts(p, LG_HOOK_XDP, LG_DROP_LIMIT).packets + progs_verdicts(p, LG_HOOK_TC_INGRESS, LG_DROP_LIMIT).packets,
			 120 + 2 + 2 + 20 + 200);
}

static void a_refusal_that_replies_does_so_although_another_rule_marks(void **state)
{
	struct lg_pkt_buf pkt = between("10.0.0.1", "192.0.2.1");

	(void)state;
	for (int order = 0; order < 2; order++) {
		struct progs *p = fresh();
		struct out out;

		act(p, order ? LG_ACTION_RESET : LG_ACTION_MARK, 1);
		act(p, order ? LG_ACTION_MARK : LG_ACTION_RESET, 1);
		progs_publish(p);
		spend(p, LG_HOOK_TC_INGRESS, &pkt);
		out = run(p, LG_HOOK_TC_INGRESS, &pkt);
		assert_true(is_reply(LG_HOOK_TC_INGRESS, &out));
	}
}

/* ---- pacing ---- */

static uint64_t monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * S + (uint64_t)t.tv_nsec;
}

/* 10 tokens a second, a burst of 2, and the 20 tokens of the horizon beside it. */
static struct lg_rule *pace(struct progs *p)
{
	struct lg_rule *rule = act(p, LG_ACTION_PACE, 0);

	rule->burst_tok = 2;
	rule->cold_burst_tok = 22;
	assert_int_equal(lg_rate_init(10, S, 22, START_NS, &rule->rate), 0);
	rule->rate.coarse = 0;
	return rule;
}

/* The packet leaves so long after now, which lies between two looks at the clock. */
static void departs_after(struct progs *p, const struct lg_pkt_buf *pkt, uint64_t delay_ns)
{
	uint64_t before_ns = monotonic_ns(), after_ns;
	struct out out = run(p, LG_HOOK_TC_EGRESS, pkt);

	after_ns = monotonic_ns();
	assert_true(is_pass(LG_HOOK_TC_EGRESS, &out));
	assert_memory_equal(out.data, pkt->data, pkt->len);
	if (!delay_ns) {
		assert_int_equal(out.skb.tstamp, 0);
		return;
	}
	assert_true(out.skb.tstamp >= before_ns + delay_ns);
	assert_true(out.skb.tstamp <= after_ns + delay_ns);
}

static void a_packet_leaves_when_its_token_is_there(void **state)
{
	struct lg_pkt_buf pkt = udp(0, false, 0);
	struct lg_key key = progs_key(1, "10.0.0.1");
	struct progs *p = fresh();

	(void)state;
	pace(p);
	progs_publish(p);
	departs_after(p, &pkt, 0);
	departs_after(p, &pkt, 0);
	for (uint64_t i = 1; i <= 20; i++)
		departs_after(p, &pkt, i * 100 * MS);
	progs_expect(p, LG_HOOK_TC_EGRESS, &pkt, LG_DROP_LIMIT); /* beyond the horizon */
	progs_now(p, START_NS + 50 * MS);
	progs_expect(p, LG_HOOK_TC_EGRESS, &pkt, LG_DROP_LIMIT);
	progs_now(p, START_NS + 150 * MS);
	departs_after(p, &pkt, 1950 * MS);
	assert_int_equal(progs_verdicts(p, LG_HOOK_TC_EGRESS, LG_PASS_ADMITTED).packets, 2);
	assert_int_equal(progs_verdicts(p, LG_HOOK_TC_EGRESS, LG_PASS_PACED).packets, 21);
	assert_int_equal(progs_rule_count(p, 1, LG_PASS_PACED).packets, 21);
	assert_int_equal(progs_rule_count(p, 1, LG_DROP_LIMIT).packets, 2);
	assert_int_equal(progs_bucket(p, &key).spent_tok, 23);
	progs_now(p, START_NS + 10 * S);
	departs_after(p, &pkt, 0);
}

static void who_set_a_later_time_keeps_it(void **state)
{
	struct lg_pkt_buf pkt = udp(0, false, 0);
	struct progs *p = fresh();
	struct __sk_buff in = { .tstamp = monotonic_ns() + 60 * S };
	struct out out;

	(void)state;
	pace(p);
	progs_publish(p);
	for (int i = 0; i < 3; i++)
		out = run_skb(p, LG_HOOK_TC_EGRESS, &pkt, in);
	assert_int_equal(out.skb.tstamp, in.tstamp);
	assert_int_equal(progs_verdicts(p, LG_HOOK_TC_EGRESS, LG_PASS_PACED).packets, 1);
}

static void of_two_waits_the_longer_one_counts_and_a_refusal_charges_neither(void **state)
{
	struct lg_pkt_buf pkt = udp(0, false, 0);
	struct lg_key key[3];
	struct progs *p = fresh();
	struct lg_rule *rule;

	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		key[i] = progs_key(i + 1, "10.0.0.1");
	pace(p);
	rule = pace(p);
	rule->burst_tok = 1; /* a token sooner, and its horizon too */
	rule->cold_burst_tok = 21;
	assert_int_equal(lg_rate_init(10, S, 21, START_NS, &rule->rate), 0);
	act(p, LG_ACTION_MARK, 9);
	progs_rule(p, 21);
	progs_publish(p);
	departs_after(p, &pkt, 0);
	departs_after(p, &pkt, 100 * MS);
	departs_after(p, &pkt, 200 * MS);
	assert_int_equal(progs_rule_count(p, 1, LG_PASS_PACED).packets, 1);
	assert_int_equal(progs_rule_count(p, 2, LG_PASS_PACED).packets, 2);
	assert_int_equal(progs_rule_count(p, 3, LG_PASS_MARKED).packets, 2);
	assert_int_equal(progs_verdicts(p, LG_HOOK_TC_EGRESS, LG_PASS_PACED).packets, 2);
	for (int i = 3; i < 21; i++)
		run(p, LG_HOOK_TC_EGRESS, &pkt);
	progs_expect(p, LG_HOOK_TC_EGRESS, &pkt, LG_DROP_LIMIT);
	assert_int_equal(progs_bucket(p, &key[0]).spent_tok, 21);
	assert_int_equal(progs_bucket(p, &key[1]).spent_tok, 21);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_above_the_limit_passes_with_its_mark_or_priority),
		cmocka_unit_test(dscp_is_written_below_any_tags_and_nothing_else),
		cmocka_unit_test(congestion_is_said_to_those_who_have_agreed_and_others_are_dropped),
		cmocka_unit_test(xdp_cannot_mark_and_drops),
		cmocka_unit_test(an_arp_frame_has_no_dscp_and_stays_as_it_is),
		cmocka_unit_test(the_mark_of_the_first_rule_counts_and_who_has_tokens_is_charged),
		cmocka_unit_test(a_refusal_comes_before_any_mark),
		cmocka_unit_test(a_mark_is_louder_than_a_shadow),
		cmocka_unit_test(a_segment_above_the_limit_is_answered_by_a_reset),
		cmocka_unit_test(a_reset_is_padded_as_the_segment_was),
		cmocka_unit_test(what_is_above_the_limit_is_answered_by_its_head_in_icmp),
		cmocka_unit_test(the_quote_ends_with_the_packet),
		cmocka_unit_test(tags_stay_in_front_of_a_reply),
		cmocka_unit_test(where_xdp_is_shared_a_reset_has_the_length_of_the_segment),
		cmocka_unit_test(where_xdp_is_shared_icmp_quotes_what_there_is_room_for),
		cmocka_unit_test(no_reply_is_given_to_what_must_not_be_answered),
		cmocka_unit_test(nobody_is_answered_on_the_way_out),
		cmocka_unit_test(no_more_than_a_thousand_replies_leave_in_a_second),
		cmocka_unit_test(a_refusal_that_replies_does_so_although_another_rule_marks),
		cmocka_unit_test(a_packet_leaves_when_its_token_is_there),
		cmocka_unit_test(who_set_a_later_time_keeps_it),
		cmocka_unit_test(of_two_waits_the_longer_one_counts_and_a_refusal_charges_neither),
	};

	return cmocka_run_group_tests(tests, load, unload);
}
