/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * What the two halves of the fast-path bench agree on. */
#pragma once

#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/types.h>
#include <linux/udp.h>

#define LG_BENCH_FIRST_SOURCE 0x0a000000u /* 10.0.0.0 and up */
#define LG_BENCH_TEXTBOOK_KEYS 131072
#define LG_BENCH_BURST_NS 1000000000ull

struct lg_bench_packet {
	struct ethhdr eth;
	struct iphdr ip;
	struct udphdr udp;
	__u32 state; /* of the generator */
	__u32 n_keys;
	__u8 rest[14];
} __attribute__((packed, aligned(2)));
_Static_assert(sizeof(struct lg_bench_packet) == 64, "the frame is 64 bytes long");
