/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * Addresses of TCP services as people write them: "192.0.2.1:80", "[2001:db8::1]:80", "name:80", and to listen on all addresses
 * ":80". Called at start or when dialling; lg_address_listen() may ask the resolver and so belongs to the start of a process. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/complaint.h"

struct sockaddr;

#define LG_HOST_LEN 256		/* a DNS name has 253 characters */
#define LG_PEER_LEN 64		/* "[v6%zone]:port" */

struct lg_address {
	char host[LG_HOST_LEN];	/* without brackets; "" means every address */
	uint16_t port;
};

/**
 * lg_address_parse() - text to host and port
 * @dial: the address is one to connect to, so host and port must be given; else both may be open ("" and 0)
 *
 * Return: 0, or -EINVAL with c->text quoting the address.
 */
int lg_address_parse(const char *text, bool dial, struct lg_address *ret_address, struct lg_complaint *c);

/**
 * lg_address_listen() - a bound, listening, non-blocking socket
 * @text: its address; port 0 takes any free one. Without a host both families are served where the machine has both.
 *
 * Return: 0 with *ret_fd owned by the caller; -EADDRINUSE when another process listens there; another negative errno. *c is filled
 * on failure.
 */
int lg_address_listen(const char *text, int *ret_fd, struct lg_complaint *c);

/* The port a socket is bound to, or a negative errno. */
int lg_address_port(int fd);

/* "192.0.2.1:4711", "[2001:db8::1]:4711"; an IPv4 address that came in by an IPv6 socket is written as IPv4. */
void lg_address_format(const struct sockaddr *sa, char buf[LG_PEER_LEN]);
