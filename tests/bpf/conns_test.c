// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Rules about connections: what is charged, what is counted, and when it is given back. */
#include <pthread.h>

#include "progs_shared.h"

#define FIN 1
#define SYN 2
#define RST 4
#define ACK 16
#define PEER "10.0.0.1"
#define HOST "192.0.2.1"

static int reset(void **state)
{
	(void)state;
	progs_reset(p);
	return 0;
}

/* ---- rules and packets ---- */

static struct lg_rule *connection_rule(enum lg_rule_connection what, uint64_t limit)
{
	struct lg_rule *rule = progs_rule(p, limit);
	struct lg_match *match = progs_match(p, rule);

	rule->special = LG_SPECIAL_CONNECTION;
	rule->connection = what;
	match->has_protocol = true;
	match->protocol = IPPROTO_TCP;
	p->set.needs |= LG_NEEDS_CONNECTIONS;
	if (what != LG_CONNECTION_NEW) {
		rule->rate_tok = limit;
		rule->per_ns = 0;
		memset(&rule->rate, 0, sizeof(rule->rate));
	}
	return rule;
}

static struct lg_pkt_buf tcp(const char *source, uint16_t source_port, const char *destination, uint16_t destination_port, uint8_t flags)
{
	struct lg_pkt_buf pkt;

	lg_pkt_init(&pkt);
	if (strchr(source, ':'))
		lg_pkt_ip6(&pkt, source, destination);
	else
		lg_pkt_ip4(&pkt, source, destination, 0);
	lg_pkt_tcp(&pkt, source_port, destination_port);
	lg_pkt_tcp_flags(&pkt, flags);
	lg_pkt_done(&pkt);
	return pkt;
}

/* A packet of the peer at XDP, and one of the host at TC egress. */
static void in(uint16_t port, uint8_t flags, enum lg_reason want)
{
	struct lg_pkt_buf pkt = tcp(PEER, port, HOST, 80, flags);

	progs_expect(p, LG_HOOK_XDP, &pkt, want);
}

static void out(uint16_t port, uint8_t flags, enum lg_reason want)
{
	struct lg_pkt_buf pkt = tcp(HOST, 80, PEER, port, flags);

	progs_expect(p, LG_HOOK_TC_EGRESS, &pkt, want);
}

/* The rules of a set match what comes in from the peer alone. */
static void publish_for_peers(void)
{
	for (uint32_t i = 0; i < p->set.n_rules; i++)
		progs_match(p, &p->set.rules[i])->directions = 1;
	progs_publish(p);
}

static uint64_t open_of(uint32_t rule_id)
{
	struct lg_key key = progs_key(rule_id, PEER);
	struct lg_bucket bucket;

	return progs_has_bucket(p, &key, &bucket) ? bucket.open : 0;
}

static uint64_t spent_of(uint32_t rule_id)
{
	struct lg_key key = progs_key(rule_id, PEER);
	struct lg_bucket bucket;

	return progs_has_bucket(p, &key, &bucket) ? bucket.spent_tok : 0;
}

static uint32_t n_entries(void)
{
	struct lg_conn_key key, *before = NULL;
	uint32_t n = 0;

	for (; !bpf_map_get_next_key(bpf_map__fd(p->skel->maps.conns), before, &key); n++)
		before = &key;
	return n;
}

static void at(uint64_t seconds)
{
	progs_now(p, START_NS + seconds * S);
}

/* ---- new connections ---- */

static void a_connection_is_charged_by_its_syn_alone(void **state)
{
	(void)state;
	connection_rule(LG_CONNECTION_NEW, 10);
	publish_for_peers();
	in(1000, SYN, LG_PASS_ADMITTED);
	out(1000, SYN | ACK, LG_PASS_NO_RULE);
	in(1000, ACK, LG_PASS_CONNECTION);
	in(1000, FIN | ACK, LG_PASS_CONNECTION);
	in(1000, RST, LG_PASS_CONNECTION);
	in(1001, SYN, LG_PASS_ADMITTED);
	assert_int_equal(spent_of(1), 2);
}

static void a_syn_sent_again_is_charged_once_however_patient_its_sender(void **state)
{
	static const unsigned int times[] = { 0, 1, 3, 7, 15, 31, 63 };

	(void)state;
	connection_rule(LG_CONNECTION_NEW, 1)->rate_tok = 0; /* one in all */
	publish_for_peers();
	for (size_t i = 0; i < N_ELEMS(times); i++) {
		at(times[i]);
		in(1000, SYN, i ? LG_PASS_CONNECTION : LG_PASS_ADMITTED);
	}
	assert_int_equal(spent_of(1), 1);
}

static void a_syn_after_the_handshake_s_time_is_another_one(void **state)
{
	(void)state;
	connection_rule(LG_CONNECTION_NEW, 10);
	publish_for_peers();
	in(1000, SYN, LG_PASS_ADMITTED);
	at(5);
	in(1000, SYN, LG_PASS_CONNECTION);
	at(5 + 11); /* twice the pause before, and a second */
	in(1000, SYN, LG_PASS_CONNECTION);
	at(5 + 11 + 24);
	in(1000, SYN, LG_PASS_ADMITTED);
	assert_int_equal(spent_of(1), 2);
}

static void a_syn_that_is_refused_leaves_nothing_and_is_judged_again(void **state)
{
	struct lg_key key = progs_key(1, PEER);

	(void)state;
	connection_rule(LG_CONNECTION_NEW, 1);
	publish_for_peers();
	in(1000, SYN, LG_PASS_ADMITTED);
	in(1001, SYN, LG_DROP_LIMIT);
	in(1001, SYN, LG_DROP_LIMIT);
	assert_int_equal(n_entries(), 1);
	progs_now(p, START_NS + 100 * MS); /* a token more */
	in(1001, SYN, LG_PASS_ADMITTED);
	assert_int_equal(progs_bucket(p, &key).denied_tok, 2);
}

static void an_established_connection_needs_no_entry_for_its_rate(void **state)
{
	(void)state;
	connection_rule(LG_CONNECTION_NEW, 10);
	publish_for_peers();
	in(1000, SYN, LG_PASS_ADMITTED);
	assert_int_equal(n_entries(), 1);
	in(1000, ACK, LG_PASS_CONNECTION);
	assert_int_equal(n_entries(), 0);
}

static void new_connections_are_counted_by_leases_windows_logs_and_lines_too(void **state)
{
	struct lg_rule *rule;

	(void)state;
	for (int kind = 0; kind < 4; kind++) {
		progs_reset(p);
		rule = connection_rule(LG_CONNECTION_NEW, 2);
		if (kind == 0)
			rule->flags |= LG_RULE_GLOBAL;
		else if (kind == 1)
			progs_in_lines(p, rule, 16, START_NS);
		else
			rule->algorithm = kind == 2 ? LG_RULE_FIXED_WINDOW : LG_RULE_SLIDING_LOG;
		if (kind >= 2) {
			rule->rate_tok = 2;
			rule->window = (struct lg_window){ .anchor_ns = START_NS, .index0 = 7, .length_ns = S };
		}
		publish_for_peers();
		if (kind == 0) {
			in(999, SYN, LG_DROP_LEASE_PENDING);
			assert_int_equal(progs_grant(p, progs_key(1, PEER), 2, START_NS + 10 * S).result, 0);
		}
		in(1000, SYN, LG_PASS_ADMITTED);
		in(1000, SYN, LG_PASS_CONNECTION);
		in(1001, SYN, LG_PASS_ADMITTED);
		in(1002, SYN, LG_DROP_LIMIT);
		in(1001, ACK, LG_PASS_CONNECTION);
	}
}

static void a_limit_of_0_lets_no_connection_begin(void **state)
{
	(void)state;
	for (unsigned int what = LG_CONNECTION_NEW; what <= LG_CONNECTION_HALF_OPEN; what++) {
		progs_reset(p);
		connection_rule(what, 0);
		publish_for_peers();
		in(1000, SYN, LG_DROP_LIMIT);
		in(1000, ACK, LG_PASS_CONNECTION);
		assert_int_equal(n_entries(), 0);
	}
}

static void answers_that_nobody_asked_for_fall_under_rules_about_packets(void **state)
{
	struct lg_rule *packets;

	(void)state;
	connection_rule(LG_CONNECTION_NEW, 1);
	packets = progs_rule(p, 1000);
	packets->key_form = LG_FORM_RULE;
	progs_publish(p);
	for (unsigned int i = 0; i < 1100; i++) {
		char source[32];
		struct lg_pkt_buf pkt;

		snprintf(source, sizeof(source), "10.%u.%u.1", i >> 8, i & 0xff);
		pkt = tcp(source, 443, HOST, 40000, i & 1 ? ACK : SYN | ACK);
		progs_expect(p, LG_HOOK_TC_INGRESS, &pkt, i < 1000 ? LG_PASS_CONNECTION : LG_DROP_LIMIT);
	}
	assert_int_equal(progs_rule_count(p, 2, LG_PASS_ADMITTED).packets, 1000);
	assert_int_equal(progs_rule_count(p, 1, LG_PASS_CONNECTION).packets, 1000);
	assert_int_equal(n_entries(), 0);
}

static void a_later_fragment_is_no_connection_s_business(void **state)
{
	struct lg_pkt_buf pkt;

	(void)state;
	connection_rule(LG_CONNECTION_NEW, 0);
	progs_publish(p);
	lg_pkt_init(&pkt);
	lg_pkt_ip4(&pkt, PEER, HOST, 0);
	lg_pkt_proto(&pkt, IPPROTO_TCP);
	lg_pkt_ip4_fragment(&pkt, 800, false);
	lg_pkt_payload(&pkt, 40, 0);
	lg_pkt_done(&pkt);
	progs_expect(p, LG_HOOK_XDP, &pkt, LG_PASS_CONNECTION);
}

/* ---- how many there are ---- */

static void connections_are_counted_until_both_ends_have_closed(void **state)
{
	(void)state;
	connection_rule(LG_CONNECTION_OPEN, 2);
	publish_for_peers();
	in(1000, SYN, LG_PASS_ADMITTED);
	in(1000, ACK, LG_PASS_CONNECTION);
	in(1001, SYN, LG_PASS_ADMITTED);
	in(1002, SYN, LG_DROP_LIMIT);
	assert_int_equal(open_of(1), 2);
	in(1000, FIN | ACK, LG_PASS_CONNECTION);
	in(1000, FIN | ACK, LG_PASS_CONNECTION); /* sent again it is still the same end's */
	assert_int_equal(open_of(1), 2);
	in(1002, SYN, LG_DROP_LIMIT);
	out(1000, FIN | ACK, LG_PASS_NO_RULE);
	assert_int_equal(open_of(1), 1);
	in(1002, SYN, LG_PASS_ADMITTED);
	assert_int_equal(n_entries(), 2);
}

static void a_half_closed_connection_is_counted_while_the_other_end_sends(void **state)
{
	(void)state;
	connection_rule(LG_CONNECTION_OPEN, 1);
	publish_for_peers();
	in(1000, SYN, LG_PASS_ADMITTED);
	in(1000, ACK, LG_PASS_CONNECTION);
	in(1000, FIN | ACK, LG_PASS_CONNECTION);
	for (unsigned int s = 50; s <= 500; s += 50) {
		at(s);
		out(1000, ACK, LG_PASS_NO_RULE);
		in(1001, SYN, LG_DROP_LIMIT);
	}
	at(562); /* a minute of silence */
	in(1001, SYN, LG_DROP_LIMIT); /* looks for what is over, for those that come next */
	in(1001, SYN, LG_PASS_ADMITTED);
	assert_int_equal(open_of(1), 1);
}

static void a_reset_of_either_end_gives_back_once(void **state)
{
	(void)state;
	connection_rule(LG_CONNECTION_OPEN, 5);
	publish_for_peers();
	for (uint16_t port = 1000; port < 1003; port++) {
		in(port, SYN, LG_PASS_ADMITTED);
		out(port, SYN | ACK, LG_PASS_NO_RULE);
		in(port, ACK, LG_PASS_CONNECTION);
	}
	assert_int_equal(open_of(1), 3);
	in(1000, RST, LG_PASS_CONNECTION);
	assert_int_equal(open_of(1), 2);
	in(1000, RST, LG_PASS_CONNECTION);
	out(1000, RST, LG_PASS_NO_RULE);
	assert_int_equal(open_of(1), 2);
	out(1001, RST | ACK, LG_PASS_NO_RULE);
	assert_int_equal(open_of(1), 1);
}

static void what_ends_without_having_begun_counts_nothing(void **state)
{
	(void)state;
	connection_rule(LG_CONNECTION_OPEN, 5);
	publish_for_peers();
	for (uint16_t port = 1000; port < 1050; port++) {
		in(port, FIN | ACK, LG_PASS_CONNECTION);
		out(port, FIN | ACK, LG_PASS_NO_RULE);
		in(port, RST, LG_PASS_CONNECTION);
	}
	assert_int_equal(open_of(1), 0);
	assert_int_equal(n_entries(), 0);
}

static void an_end_that_another_rule_drops_ends_nothing(void **state)
{
	struct lg_rule *packets;

	(void)state;
	connection_rule(LG_CONNECTION_OPEN, 5);
	packets = progs_rule(p, 2);
	assert_int_equal(lg_rate_init(0, S, 2, START_NS, &packets->rate), 0);
	publish_for_peers();
	in(1000, SYN, LG_PASS_ADMITTED);
	in(1000, ACK, LG_PASS_CONNECTION);
	in(1000, RST, LG_DROP_LIMIT);
	assert_int_equal(open_of(1), 1);
}

static void the_same_ports_again_are_counted_once(void **state)
{
	(void)state;
	connection_rule(LG_CONNECTION_OPEN, 1);
	publish_for_peers();
	in(1000, SYN, LG_PASS_ADMITTED);
	in(1000, ACK, LG_PASS_CONNECTION);
	in(1000, FIN | ACK, LG_PASS_CONNECTION); /* the host's end is not seen */
	in(1000, SYN, LG_PASS_CONNECTION);
	in(1000, ACK, LG_PASS_CONNECTION);
	in(1000, FIN | ACK, LG_PASS_CONNECTION);
	assert_int_equal(open_of(1), 1);
	out(1000, FIN | ACK, LG_PASS_NO_RULE);
	assert_int_equal(open_of(1), 0);
}

static void the_same_packet_at_two_hooks_is_one_connection(void **state)
{
	struct lg_pkt_buf syn = tcp(PEER, 1000, HOST, 80, SYN), syn6 = tcp("2001:db8::1", 1000, "2001:db8::2", 80, SYN);

	(void)state;
	connection_rule(LG_CONNECTION_OPEN, 5);
	progs_publish(p);
	progs_expect(p, LG_HOOK_XDP, &syn, LG_PASS_ADMITTED);
	progs_expect(p, LG_HOOK_TC_INGRESS, &syn, LG_PASS_CONNECTION);
	progs_expect(p, LG_HOOK_TC_EGRESS, &syn, LG_PASS_CONNECTION);
	progs_expect(p, LG_HOOK_XDP, &syn6, LG_PASS_ADMITTED);
	progs_expect(p, LG_HOOK_TC_INGRESS, &syn6, LG_PASS_CONNECTION);
	assert_int_equal(open_of(1), 1);
	assert_int_equal(n_entries(), 2);
}

static void handshakes_are_counted_until_they_are_finished(void **state)
{
	(void)state;
	connection_rule(LG_CONNECTION_HALF_OPEN, 2);
	publish_for_peers();
	for (uint16_t port = 1000; port < 1100; port++) {
		in(port, SYN, LG_PASS_ADMITTED);
		in(port, ACK, LG_PASS_CONNECTION);
	}
	assert_int_equal(open_of(1), 0);
	assert_int_equal(n_entries(), 0);
	in(2000, SYN, LG_PASS_ADMITTED);
	in(2001, SYN, LG_PASS_ADMITTED);
	out(2001, ACK, LG_PASS_NO_RULE); /* of the other end it finishes nothing */
	in(2002, SYN, LG_DROP_LIMIT);
	in(2000, RST, LG_PASS_CONNECTION);
	in(2002, SYN, LG_PASS_ADMITTED);
}

static void handshakes_that_nobody_finishes_end_by_themselves(void **state)
{
	(void)state;
	connection_rule(LG_CONNECTION_HALF_OPEN, 50);
	publish_for_peers();
	for (uint16_t port = 1000; port < 1050; port++)
		in(port, SYN, LG_PASS_ADMITTED);
	at(5);
	in(2000, SYN, LG_DROP_LIMIT);
	at(8);
	in(2001, SYN, LG_DROP_LIMIT); /* ends the others: no agent did */
	assert_int_equal(open_of(1), 0);
	in(2001, SYN, LG_PASS_ADMITTED);
	assert_int_equal(open_of(1), 1);
	assert_int_equal(n_entries(), 1);
}

static void a_refusal_by_another_rule_leaves_neither_count_nor_token(void **state)
{
	struct lg_rule *packets;
	unsigned int order;

	(void)state;
	for (order = 0; order < 2; order++) {
		progs_reset(p);
		packets = order ? progs_rule(p, 0) : NULL;
		connection_rule(LG_CONNECTION_NEW, 5);
		connection_rule(LG_CONNECTION_OPEN, 5);
		connection_rule(LG_CONNECTION_HALF_OPEN, 5);
		if (!packets)
			progs_rule(p, 0);
		publish_for_peers();
		in(1000, SYN, LG_DROP_LIMIT);
		assert_int_equal(n_entries(), 0);
		for (uint32_t id = 1; id <= 4; id++) {
			assert_int_equal(open_of(id), 0);
			assert_int_equal(spent_of(id), 0);
		}
	}
}

static void one_connection_is_charged_to_each_of_its_rules(void **state)
{
	(void)state;
	connection_rule(LG_CONNECTION_NEW, 5);
	connection_rule(LG_CONNECTION_OPEN, 5);
	connection_rule(LG_CONNECTION_HALF_OPEN, 5);
	connection_rule(LG_CONNECTION_OPEN, 1)->key_form = LG_FORM_RULE;
	publish_for_peers();
	in(1000, SYN, LG_PASS_ADMITTED);
	in(1000, SYN, LG_PASS_CONNECTION);
	in(1001, SYN, LG_DROP_LIMIT);
	assert_int_equal(spent_of(1), 1);
	assert_int_equal(open_of(2), 1);
	assert_int_equal(open_of(3), 1);
	in(1000, ACK, LG_PASS_CONNECTION);
	assert_int_equal(open_of(2), 1);
	assert_int_equal(open_of(3), 0);
	in(1000, RST, LG_PASS_CONNECTION);
	in(1001, SYN, LG_PASS_ADMITTED);
	assert_int_equal(open_of(2), 1);
}

static void a_full_table_refuses_what_it_could_not_count(void **state)
{
	struct lg_rule *rule;

	(void)state;
	rule = connection_rule(LG_CONNECTION_OPEN, 1000);
	publish_for_peers();
	for (uint16_t port = 1000; port < 1000 + PROGS_CONNS; port++)
		in(port, SYN, LG_PASS_ADMITTED);
	in(3000, SYN, LG_DROP_CONNECTIONS);
	assert_int_equal(open_of(1), PROGS_CONNS);
	assert_int_equal(progs_shared(p).conns_full, 1);
	rule->on_full = LG_ON_FULL_PASS;
	progs_publish(p);
	in(3000, SYN, LG_PASS_TABLE_FULL);
	assert_int_equal(open_of(1), PROGS_CONNS);
	at(10); /* what is over makes room */
	in(3000, SYN, LG_PASS_TABLE_FULL);
	in(3001, SYN, LG_PASS_ADMITTED);
	assert_int_equal(open_of(1), 1);
}

static void a_full_table_of_connections_does_not_lift_the_limit_of_new_ones(void **state)
{
	(void)state;
	connection_rule(LG_CONNECTION_NEW, PROGS_CONNS + 2);
	publish_for_peers();
	for (uint16_t port = 1000; port < 1000 + PROGS_CONNS; port++)
		in(port, SYN, LG_PASS_ADMITTED);
	in(3000, SYN, LG_PASS_ADMITTED);
	in(3000, SYN, LG_PASS_ADMITTED); /* that it is the same one is not known */
	in(3000, SYN, LG_DROP_LIMIT);
}

/* ---- what the agent does ---- */

static int64_t track(struct lg_conn_op op)
{
	struct lg_ops_args args = { .n = 1 };
	LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = &args, .ctx_size_in = sizeof(args));
	int fd = bpf_map__fd(p->skel->maps.conn_ops);
	uint32_t zero = 0;

	assert_int_equal(bpf_map_update_elem(fd, &zero, &op, 0), 0);
	assert_int_equal(bpf_prog_test_run_opts(bpf_program__fd(p->skel->progs.lg_track), &opts), 0);
	assert_int_equal(opts.retval, 0);
	assert_int_equal(args.done, 1);
	assert_int_equal(bpf_map_lookup_elem(fd, &zero, &op), 0);
	return op.result;
}

static struct lg_conn_op op_of(enum lg_conn_op_code code, uint16_t port)
{
	struct lg_conn_op op = { .code = code, .from_port = port, .to_port = 80, .protocol = IPPROTO_TCP };

	progs_address(op.from, PEER);
	progs_address(op.to, HOST);
	return op;
}

static void connections_that_were_there_before_are_adopted_once(void **state)
{
	(void)state;
	connection_rule(LG_CONNECTION_OPEN, 10);
	connection_rule(LG_CONNECTION_NEW, 10);
	connection_rule(LG_CONNECTION_HALF_OPEN, 10);
	publish_for_peers();
	for (unsigned int again = 0; again < 2; again++)
		for (uint16_t port = 1000; port < 1050; port++)
			assert_int_equal(track(op_of(LG_CONN_OP_ADOPT, port)), 1);
	assert_int_equal(open_of(1), 50); /* they are there, whatever the limit */
	assert_int_equal(spent_of(2), 0);
	assert_int_equal(open_of(3), 0);
	in(2000, SYN, LG_DROP_LIMIT);
	for (uint16_t port = 1000; port < 1050; port++) {
		in(port, FIN | ACK, LG_PASS_CONNECTION);
		out(port, FIN | ACK, LG_PASS_NO_RULE);
	}
	assert_int_equal(open_of(1), 0);
	in(2000, SYN, LG_PASS_ADMITTED);
}

static void what_no_rule_counts_is_not_adopted(void **state)
{
	struct lg_rule *rule;

	(void)state;
	rule = connection_rule(LG_CONNECTION_OPEN, 10);
	progs_port(p, rule, 443);
	publish_for_peers();
	assert_int_equal(track(op_of(LG_CONN_OP_ADOPT, 1000)), 0);
	assert_int_equal(n_entries(), 0);
}

static void what_is_exempt_is_not_adopted(void **state)
{
	(void)state;
	connection_rule(LG_CONNECTION_OPEN, 10);
	progs_match(p, progs_exemption(p, 0))->source_ports = (struct lg_ranges){ .n = 1, .v = { { 1000, 1000 } } };
	publish_for_peers();
	assert_int_equal(track(op_of(LG_CONN_OP_ADOPT, 1000)), 0);
	assert_int_equal(n_entries(), 0);
	assert_int_equal(track(op_of(LG_CONN_OP_ADOPT, 1001)), 1);
	assert_int_equal(open_of(1), 1);
}

static void the_agent_ends_what_is_over_and_what_has_no_socket(void **state)
{
	struct lg_conn_op end = op_of(LG_CONN_OP_END, 1000);
	struct lg_conn_key key;
	struct lg_conn conn;

	(void)state;
	connection_rule(LG_CONNECTION_OPEN, 10);
	publish_for_peers();
	in(1000, SYN, LG_PASS_ADMITTED);
	in(1000, ACK, LG_PASS_CONNECTION);
	assert_int_equal(track(op_of(LG_CONN_OP_EXPIRE, 1000)), -EBUSY);
	assert_int_equal(track(op_of(LG_CONN_OP_EXPIRE, 1001)), -ENOENT);
	assert_int_equal(bpf_map_get_next_key(bpf_map__fd(p->skel->maps.conns), NULL, &key), 0);
	assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(p->skel->maps.conns), &key, &conn), 0);
	end.word = conn.word;
	in(1000, FIN | ACK, LG_PASS_CONNECTION); /* it has moved since the agent looked */
	assert_int_equal(track(end), -EBUSY);
	assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(p->skel->maps.conns), &key, &conn), 0);
	end.word = conn.word;
	assert_int_equal(track(end), 0);
	assert_int_equal(open_of(1), 0);
	in(1001, SYN, LG_PASS_ADMITTED);
	at(10);
	assert_int_equal(track(op_of(LG_CONN_OP_EXPIRE, 1001)), 0);
	assert_int_equal(open_of(1), 0);
	assert_int_equal(n_entries(), 0);
}

static void a_socket_keeps_its_connection(void **state)
{
	(void)state;
	connection_rule(LG_CONNECTION_OPEN, 10);
	publish_for_peers();
	in(1000, SYN, LG_PASS_ADMITTED);
	in(1000, ACK, LG_PASS_CONNECTION);
	in(1000, FIN | ACK, LG_PASS_CONNECTION);
	at(50);
	assert_int_equal(track(op_of(LG_CONN_OP_KEEP, 1000)), 0);
	at(100);
	assert_int_equal(track(op_of(LG_CONN_OP_EXPIRE, 1000)), -EBUSY);
	at(111);
	assert_int_equal(track(op_of(LG_CONN_OP_EXPIRE, 1000)), 0);
}

static void a_rule_that_is_forgotten_is_forgotten_by_connections(void **state)
{
	struct lg_conn_op forget = op_of(LG_CONN_OP_FORGET, 1000);

	(void)state;
	connection_rule(LG_CONNECTION_OPEN, 10);
	connection_rule(LG_CONNECTION_OPEN, 10);
	publish_for_peers();
	in(1000, SYN, LG_PASS_ADMITTED);
	forget.rule_id = 1;
	assert_int_equal(track(forget), 0);
	assert_int_equal(n_entries(), 1);
	assert_int_equal(open_of(2), 1);
	forget.rule_id = 2;
	assert_int_equal(track(forget), 0);
	assert_int_equal(n_entries(), 0);
}

static void a_count_leaves_the_table_when_nothing_is_open(void **state)
{
	struct lg_op reap = { .key = progs_key(1, PEER), .code = LG_OP_REAP, .before_ns = ~0ull };

	(void)state;
	connection_rule(LG_CONNECTION_OPEN, 10);
	publish_for_peers();
	in(1000, SYN, LG_PASS_ADMITTED);
	assert_int_equal(progs_op(p, reap).result, -EBUSY);
	in(1000, RST, LG_PASS_CONNECTION);
	assert_int_equal(progs_op(p, reap).result, 0);
	in(1000, SYN, LG_PASS_ADMITTED);
	assert_int_equal(open_of(1), 1);
}

/* ---- who began ---- */

static struct lg_rule *initiated_rule(uint64_t limit)
{
	struct lg_rule *rule = progs_rule(p, limit);

	progs_match(p, rule)->directions = 1;
	p->set.needs |= LG_NEEDS_INITIATED;
	p->set.initiated.w[0] |= 1ull << (rule - p->set.rules);
	return rule;
}

static void answers_to_this_host_are_not_the_server_s_charge(void **state)
{
	struct lg_pkt_buf pkt;

	(void)state;
	initiated_rule(1);
	progs_publish(p);
	pkt = tcp(HOST, 40000, PEER, 443, SYN);
	progs_expect(p, LG_HOOK_TC_EGRESS, &pkt, LG_PASS_NO_RULE);
	pkt = tcp(PEER, 443, HOST, 40000, SYN | ACK);
	progs_expect(p, LG_HOOK_XDP, &pkt, LG_PASS_NO_RULE);
	pkt = tcp(PEER, 443, HOST, 40000, ACK);
	for (unsigned int i = 0; i < 10; i++)
		progs_expect(p, LG_HOOK_XDP, &pkt, LG_PASS_NO_RULE);
	/* The same server, from a port nobody asked. */
	pkt = tcp(PEER, 444, HOST, 40000, ACK);
	progs_expect(p, LG_HOOK_XDP, &pkt, LG_PASS_ADMITTED);
	progs_expect(p, LG_HOOK_XDP, &pkt, LG_DROP_LIMIT);
}

static void a_connection_of_this_host_is_known_to_its_last_packet_and_not_for_ever(void **state)
{
	struct lg_pkt_buf pkt = tcp(HOST, 40000, PEER, 443, SYN), last = tcp(PEER, 443, HOST, 40000, ACK);

	(void)state;
	initiated_rule(0);
	progs_publish(p);
	progs_expect(p, LG_HOOK_TC_EGRESS, &pkt, LG_PASS_NO_RULE);
	pkt = tcp(PEER, 443, HOST, 40000, FIN | ACK);
	progs_expect(p, LG_HOOK_XDP, &pkt, LG_PASS_NO_RULE);
	pkt = tcp(HOST, 40000, PEER, 443, FIN | ACK);
	progs_expect(p, LG_HOOK_TC_EGRESS, &pkt, LG_PASS_NO_RULE);
	progs_expect(p, LG_HOOK_XDP, &last, LG_PASS_NO_RULE);
	at(6);
	progs_expect(p, LG_HOOK_XDP, &last, LG_DROP_LIMIT);
}

static void connections_of_peers_are_charged_also_in_their_answers_way(void **state)
{
	struct lg_pkt_buf pkt = tcp(PEER, 1000, HOST, 80, SYN);

	(void)state;
	initiated_rule(3);
	progs_publish(p);
	progs_expect(p, LG_HOOK_TC_INGRESS, &pkt, LG_PASS_ADMITTED);
	pkt = tcp(HOST, 80, PEER, 1000, SYN | ACK);
	progs_expect(p, LG_HOOK_TC_EGRESS, &pkt, LG_PASS_NO_RULE);
	pkt = tcp(PEER, 1000, HOST, 80, ACK);
	progs_expect(p, LG_HOOK_TC_INGRESS, &pkt, LG_PASS_ADMITTED);
	progs_expect(p, LG_HOOK_TC_INGRESS, &pkt, LG_PASS_ADMITTED);
	progs_expect(p, LG_HOOK_TC_INGRESS, &pkt, LG_DROP_LIMIT);
}

/* UDP between a port of the peer and port 53, as progs_udp() has it, and its answer. */
static void udp(enum lg_hook hook, bool is_answer, enum lg_reason want)
{
	struct lg_pkt_buf pkt;

	lg_pkt_init(&pkt);
	lg_pkt_ip4(&pkt, is_answer ? HOST : PEER, is_answer ? PEER : HOST, 0);
	lg_pkt_udp(&pkt, is_answer ? 53 : 1234, is_answer ? 1234 : 53);
	lg_pkt_payload(&pkt, 20, 0);
	lg_pkt_done(&pkt);
	progs_expect(p, hook, &pkt, want);
}

static void the_first_packet_of_udp_says_who_began(void **state)
{
	(void)state;
	initiated_rule(2);
	progs_publish(p);
	/* The peer asks, this host answers: the peer's. */
	udp(LG_HOOK_XDP, false, LG_PASS_ADMITTED);
	udp(LG_HOOK_TC_EGRESS, true, LG_PASS_NO_RULE);
	udp(LG_HOOK_XDP, false, LG_PASS_ADMITTED);
	udp(LG_HOOK_XDP, false, LG_DROP_LIMIT);
	/* After a silence this host sends first: its own, until the next silence. */
	at(31);
	udp(LG_HOOK_TC_EGRESS, true, LG_PASS_NO_RULE);
	for (unsigned int s = 40; s < 100; s += 20) {
		at(s);
		udp(LG_HOOK_XDP, false, LG_PASS_NO_RULE);
	}
	at(111);
	udp(LG_HOOK_XDP, false, LG_PASS_ADMITTED);
}

static void a_full_table_of_who_began_makes_all_the_peers(void **state)
{
	struct lg_pkt_buf pkt;

	(void)state;
	initiated_rule(0);
	progs_publish(p);
	for (uint16_t port = 0; port <= PROGS_CONNS; port++) {
		pkt = tcp(HOST, 40000 + port, PEER, 443, SYN);
		progs_expect(p, LG_HOOK_TC_EGRESS, &pkt, LG_PASS_NO_RULE);
	}
	assert_int_equal(progs_shared(p).initiated_full, 1);
	pkt = tcp(PEER, 443, HOST, 40000 + PROGS_CONNS, ACK);
	progs_expect(p, LG_HOOK_XDP, &pkt, LG_DROP_LIMIT);
	pkt = tcp(PEER, 443, HOST, 40000, ACK);
	progs_expect(p, LG_HOOK_XDP, &pkt, LG_PASS_NO_RULE);
}

static void a_connection_found_at_start_is_this_host_s(void **state)
{
	struct lg_pkt_buf pkt = tcp(PEER, 1000, HOST, 80, ACK);
	struct lg_conn_op expire = op_of(LG_CONN_OP_OURS_EXPIRE, 1000);

	(void)state;
	initiated_rule(0);
	progs_publish(p);
	progs_expect(p, LG_HOOK_XDP, &pkt, LG_DROP_LIMIT);
	assert_int_equal(track(op_of(LG_CONN_OP_OURS, 1000)), 0);
	progs_expect(p, LG_HOOK_XDP, &pkt, LG_PASS_NO_RULE);
	assert_int_equal(track(expire), -EBUSY);
	at(3601);
	assert_int_equal(track(expire), 0);
	assert_int_equal(track(expire), -ENOENT);
}

/* ---- on two CPUs at once ---- */

struct hammer {
	pthread_t thread;
	struct lg_pkt_buf pkt;
	enum lg_hook hook;
	bool failed;
};

static void *hammer_run(void *arg)
{
	struct hammer *h = arg;
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = h->pkt.data, .data_size_in = h->pkt.len, .repeat = 100000);

	h->failed = bpf_prog_test_run_opts(progs_fd(p, h->hook), &opts) != 0;
	return NULL;
}

static void a_connection_that_begins_and_ends_on_two_cpus_is_counted_right(void **state)
{
	struct hammer h[2] = { { .pkt = tcp(PEER, 1000, HOST, 80, SYN), .hook = LG_HOOK_TC_INGRESS },
			       { .pkt = tcp(PEER, 1000, HOST, 80, RST), .hook = LG_HOOK_TC_EGRESS } };

	(void)state;
	connection_rule(LG_CONNECTION_OPEN, 3);
	connection_rule(LG_CONNECTION_HALF_OPEN, 3);
	progs_publish(p);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&h[i].thread, NULL, hammer_run, &h[i]), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pthread_join(h[i].thread, NULL), 0);
		assert_false(h[i].failed);
	}
	in(1000, RST, LG_PASS_CONNECTION);
	assert_int_equal(open_of(1), 0);
	assert_int_equal(open_of(2), 0);
	assert_int_equal(n_entries(), 0);
}

#define ROW(name) cmocka_unit_test_setup(name, reset)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		ROW(a_connection_is_charged_by_its_syn_alone),
		ROW(a_syn_sent_again_is_charged_once_however_patient_its_sender),
		ROW(a_syn_after_the_handshake_s_time_is_another_one),
		ROW(a_syn_that_is_refused_leaves_nothing_and_is_judged_again),
		ROW(an_established_connection_needs_no_entry_for_its_rate),
		ROW(new_connections_are_counted_by_leases_windows_logs_and_lines_too),
		ROW(a_limit_of_0_lets_no_connection_begin),
		ROW(answers_that_nobody_asked_for_fall_under_rules_about_packets),
		ROW(a_later_fragment_is_no_connection_s_business),
		ROW(connections_are_counted_until_both_ends_have_closed),
		ROW(a_half_closed_connection_is_counted_while_the_other_end_sends),
		ROW(a_reset_of_either_end_gives_back_once),
		ROW(what_ends_without_having_begun_counts_nothing),
		ROW(an_end_that_another_rule_drops_ends_nothing),
		ROW(the_same_ports_again_are_counted_once),
		ROW(the_same_packet_at_two_hooks_is_one_connection),
		ROW(handshakes_are_counted_until_they_are_finished),
		ROW(handshakes_that_nobody_finishes_end_by_themselves),
		ROW(a_refusal_by_another_rule_leaves_neither_count_nor_token),
		ROW(one_connection_is_charged_to_each_of_its_rules),
		ROW(a_full_table_refuses_what_it_could_not_count),
		ROW(a_full_table_of_connections_does_not_lift_the_limit_of_new_ones),
		ROW(connections_that_were_there_before_are_adopted_once),
		ROW(what_no_rule_counts_is_not_adopted),
		ROW(what_is_exempt_is_not_adopted),
		ROW(the_agent_ends_what_is_over_and_what_has_no_socket),
		ROW(a_socket_keeps_its_connection),
		ROW(a_rule_that_is_forgotten_is_forgotten_by_connections),
		ROW(a_count_leaves_the_table_when_nothing_is_open),
		ROW(answers_to_this_host_are_not_the_server_s_charge),
		ROW(a_connection_of_this_host_is_known_to_its_last_packet_and_not_for_ever),
		ROW(connections_of_peers_are_charged_also_in_their_answers_way),
		ROW(the_first_packet_of_udp_says_who_began),
		ROW(a_full_table_of_who_began_makes_all_the_peers),
		ROW(a_connection_found_at_start_is_this_host_s),
		ROW(a_connection_that_begins_and_ends_on_two_cpus_is_counted_right),
	};

	return cmocka_run_group_tests(tests, load, unload);
}
