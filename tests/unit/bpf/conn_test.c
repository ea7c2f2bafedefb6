// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* bpf/conn.h on the host: what packets make of a connection. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "conn.h"

#define S 1000000000ull
#define FIN LG_TCP_FIN
#define SYN LG_TCP_SYN
#define RST LG_TCP_RST
#define ACK LG_TCP_ACK

enum { OF_A, OF_B };

struct step {
	int end;
	uint8_t flags;
	enum lg_conn_state want;
};

static void run(int began, const struct step *steps, size_t n)
{
	uint64_t word = lg_conn_began(began, 7);

	for (size_t i = 0; i < n; i++) {
		word = lg_conn_next(word, steps[i].end, steps[i].flags);
		assert_int_equal(lg_conn_state(word), steps[i].want);
		assert_int_equal(word >> 32, 7); /* which connection it is stays */
	}
}

#define RUN(began, ...) \
	run(began, (const struct step[]){ __VA_ARGS__ }, N_ELEMS(((const struct step[]){ __VA_ARGS__ })))

static void a_handshake_ends_with_the_ack_of_the_end_that_began(void **state)
{
	(void)state;
	RUN(OF_A, { OF_B, SYN | ACK, LG_CONN_PENDING }, { OF_B, ACK, LG_CONN_PENDING }, { OF_A, SYN, LG_CONN_PENDING },
	    { OF_A, SYN | ACK, LG_CONN_PENDING }, { OF_A, ACK, LG_CONN_ESTABLISHED });
	RUN(OF_B, { OF_A, ACK, LG_CONN_PENDING }, { OF_B, ACK, LG_CONN_ESTABLISHED }, { OF_B, SYN, LG_CONN_ESTABLISHED });
}

static void a_connection_ends_when_both_ends_have_closed_in_any_order(void **state)
{
	(void)state;
	RUN(OF_A, { OF_A, ACK, LG_CONN_ESTABLISHED }, { OF_A, FIN | ACK, LG_CONN_CLOSING }, { OF_A, FIN | ACK, LG_CONN_CLOSING },
	    { OF_B, ACK, LG_CONN_CLOSING }, { OF_B, FIN | ACK, LG_CONN_CLOSED }, { OF_A, ACK, LG_CONN_CLOSED });
	RUN(OF_A, { OF_A, ACK, LG_CONN_ESTABLISHED }, { OF_B, FIN | ACK, LG_CONN_CLOSING }, { OF_A, ACK, LG_CONN_CLOSING },
	    { OF_A, FIN | ACK, LG_CONN_CLOSED });
	RUN(OF_A, { OF_A, FIN | ACK, LG_CONN_CLOSING }, { OF_B, FIN, LG_CONN_CLOSED });
}

static void a_reset_ends_it_wherever_it_stands(void **state)
{
	(void)state;
	RUN(OF_A, { OF_B, RST | ACK, LG_CONN_CLOSED }, { OF_A, SYN, LG_CONN_CLOSED });
	RUN(OF_A, { OF_A, ACK, LG_CONN_ESTABLISHED }, { OF_A, RST, LG_CONN_CLOSED });
	RUN(OF_A, { OF_A, FIN | ACK, LG_CONN_CLOSING }, { OF_B, RST | SYN, LG_CONN_CLOSED });
}

static void a_syn_after_a_fin_begins_a_new_one_between_the_same_ports(void **state)
{
	(void)state;
	RUN(OF_A, { OF_A, ACK, LG_CONN_ESTABLISHED }, { OF_A, FIN | ACK, LG_CONN_CLOSING }, { OF_B, SYN, LG_CONN_PENDING },
	    { OF_A, ACK, LG_CONN_PENDING }, { OF_B, ACK, LG_CONN_ESTABLISHED }, { OF_B, FIN | ACK, LG_CONN_CLOSING },
	    { OF_A, FIN | ACK, LG_CONN_CLOSED });
}

static void entries_that_are_blank_or_closed_do_not_move(void **state)
{
	(void)state;
	for (unsigned int flags = 0; flags < 256; flags++) {
		assert_int_equal(lg_conn_next(LG_CONN_BLANK, OF_A, (uint8_t)flags), LG_CONN_BLANK);
		assert_int_equal(lg_conn_next(LG_CONN_CLOSED, OF_B, (uint8_t)flags), LG_CONN_CLOSED);
	}
}

static void every_set_of_flags_is_a_syn_or_not(void **state)
{
	(void)state;
	for (unsigned int flags = 0; flags < 256; flags++)
		assert_int_equal(lg_is_syn((uint8_t)flags), (flags & SYN) && !(flags & (ACK | RST | FIN)));
}

static struct lg_pkt packet(uint64_t source, uint16_t source_port, uint64_t destination, uint16_t destination_port)
{
	return (struct lg_pkt){ .source = { { 0, source } }, .destination = { { 0, destination } }, .source_port = source_port,
				.destination_port = destination_port, .protocol = LG_PROTO_TCP };
}

static void both_directions_have_one_key_and_know_their_end(void **state)
{
	static const struct {
		uint64_t source, destination;
		uint16_t source_port, destination_port;
	} rows[] = { { 1, 2, 9, 8 }, { 1, 1, 9, 8 }, { ~0ull, 1, 1, 1 }, { 1ull << 56, 1, 80, 80 }, { 5, 5, 80, 443 } };
	struct lg_conn_key there, back;

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		struct lg_pkt p = packet(rows[i].source, rows[i].source_port, rows[i].destination, rows[i].destination_port);
		struct lg_pkt q = packet(rows[i].destination, rows[i].destination_port, rows[i].source, rows[i].source_port);
		bool of_b = lg_conn_key_make(&p, &there);

		assert_int_equal(lg_conn_key_make(&q, &back), !of_b);
		assert_memory_equal(&there, &back, sizeof(there));
		assert_int_equal(lg_conn_tag(&there), lg_conn_tag(&back));
		/* As the agent orders them: by bytes, then by port. */
		assert_true(memcmp(there.a, there.b, sizeof(there.a)) < 0 ||
			    (memcmp(there.a, there.b, sizeof(there.a)) == 0 && there.a_port <= there.b_port));
	}
}

static void a_patient_sender_s_next_syn_is_waited_for(void **state)
{
	uint64_t last_ns = 0, until_ns = 0, now_ns = 1000 * S;

	(void)state;
	for (unsigned int gap_s = 1; gap_s <= 64; gap_s *= 2) {
		if (last_ns)
			assert_true(now_ns < until_ns);
		until_ns = lg_syn_until_ns(now_ns, last_ns, 5 * S);
		last_ns = now_ns;
		now_ns += gap_s * S;
	}
	assert_int_equal(lg_syn_until_ns(100 * S, 0, 5 * S), 105 * S);
	assert_int_equal(lg_syn_until_ns(100 * S, 98 * S, 5 * S), 105 * S);
	assert_int_equal(lg_syn_until_ns(100 * S, 97 * S, 5 * S), 107 * S);
	assert_int_equal(lg_syn_until_ns(100 * S, 101 * S, 5 * S), 105 * S); /* another CPU's clock */
	assert_int_equal(lg_syn_until_ns(9000 * S, 100 * S, 5 * S), 9000 * S + LG_SYN_WAIT_MAX_NS);
}

static void a_count_goes_to_its_limit_and_back_to_nothing(void **state)
{
	__u64 open = 0;

	(void)state;
	assert_int_equal(lg_count_take(&open, 0, 1), LG_DROP_LIMIT);
	for (uint64_t i = 0; i < 3; i++) {
		assert_int_equal(lg_count_take(&open, 3, 0), LG_PASS_ADMITTED);
		assert_int_equal(open, i);
		assert_int_equal(lg_count_take(&open, 3, 1), LG_PASS_ADMITTED);
	}
	assert_int_equal(lg_count_take(&open, 3, 1), LG_DROP_LIMIT);
	assert_int_equal(lg_count_take(&open, 2, 1), LG_DROP_LIMIT);
	for (unsigned int i = 0; i < 5; i++)
		lg_count_put(&open);
	assert_int_equal(open, 0);
	open = LG_COUNT_CLOSED;
	assert_int_equal(lg_count_take(&open, ~0ull >> 1, 1), LG_DROP_LIMIT);
	lg_count_put(&open);
	assert_true(open == LG_COUNT_CLOSED);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_handshake_ends_with_the_ack_of_the_end_that_began),
		cmocka_unit_test(a_connection_ends_when_both_ends_have_closed_in_any_order),
		cmocka_unit_test(a_reset_ends_it_wherever_it_stands),
		cmocka_unit_test(a_syn_after_a_fin_begins_a_new_one_between_the_same_ports),
		cmocka_unit_test(entries_that_are_blank_or_closed_do_not_move),
		cmocka_unit_test(every_set_of_flags_is_a_syn_or_not),
		cmocka_unit_test(both_directions_have_one_key_and_know_their_end),
		cmocka_unit_test(a_patient_sender_s_next_syn_is_waited_for),
		cmocka_unit_test(a_count_goes_to_its_limit_and_back_to_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
