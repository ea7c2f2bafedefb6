/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * The TCP sockets of this network namespace. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct lg_socket {
	uint8_t local[16]; /* IPv6 or mapped IPv4 */
	uint8_t peer[16];
	uint16_t local_port;
	uint16_t peer_port;
	bool is_listening;
	bool is_open; /* its handshake is over, and it is not gone: TIME_WAIT is */
};

/* Calls fn for each that is established and whose own port is this one. As below. */
int lg_sockets_at(uint16_t port, int (*fn)(void *arg, const struct lg_socket *socket), void *arg);
/* Calls fn for each, those that wait for a connection too. Stops when fn returns other than 0 and returns that. */
int lg_sockets_each(int (*fn)(void *arg, const struct lg_socket *socket), void *arg);
