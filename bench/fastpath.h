/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * What the two halves of the fast-path bench agree on. */
#pragma once

#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/types.h>
#include <linux/udp.h>

#define LG_BENCH_FIRST_SOURCE 0x0a000000u /* 10.0.0.0 and up */
#define LG_BENCH_NEW_SOURCES 0xffffffffu  /* as n_keys: each packet has a source of its own */
#define LG_BENCH_BURST_NS 1000000000ull

/* What the generator keeps in a packet, whose bytes live on from one repeat to the next. */
struct lg_bench_gen {
	__u32 state;
	__u32 n_keys;
} __attribute__((packed, aligned(2)));

struct lg_bench_packet {
	struct ethhdr eth;
	struct iphdr ip;
	struct udphdr udp;
	__u8 _rest[14];
	struct lg_bench_gen gen;
} __attribute__((packed, aligned(2)));
_Static_assert(sizeof(struct lg_bench_packet) == 64, "the frame is 64 bytes long");

struct lg_bench_packet6 {
	struct ethhdr eth;
	struct ipv6hdr ip;
	struct udphdr udp;
	struct lg_bench_gen gen;
	__u8 _rest[2];
} __attribute__((packed, aligned(2)));
_Static_assert(sizeof(struct lg_bench_packet6) == 72, "the IPv6 frame is 72 bytes long");
