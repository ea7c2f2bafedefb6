/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * A frame as a hook hands it over, and the one way to read its bytes. In the kernel only a first part can be read
 * directly (TC: often just 90 bytes); the rest, XDP fragments and skb pages, is copied by a helper. So a frame is
 * parsed fast, by direct reads, and what that cannot do is parsed again by helpers: the same parser, in a function of
 * its own. On the host everything lies in one piece.
 */
#pragma once

#include <linux/types.h>

#include <leasegate/abi.h>

#ifdef __bpf__
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#else
#include <stddef.h>
#include <string.h>
#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif
#endif

/* Hides a value's origin from the compiler, where the verifier needs code in the order it was written. */
#define lg_opaque(x) __asm__ volatile("" \
				      : "+r"(x))

/*
 * x, with all that the verifier knows about it forgotten: it passes through half a stack slot, which no kernel tracks.
 * Where paths meet, what differs between them but no longer matters would else make it walk the rest once for each.
 */
#define LG_NOT_ZERO 0x5a5a5a5a /* zeros the verifier does remember, in whatever slot: none are written */
static __always_inline __u32 lg_forget(__u32 x)
{
	__u32 slot[2] __attribute__((aligned(8)));
	volatile __u32 *half = &slot[1];

	lg_opaque(half); /* else clang keeps only the half in use, and puts it where kernels since 6.8 do track it */
	*half = x ^ LG_NOT_ZERO;
	return *half ^ LG_NOT_ZERO;
}

/* The same for 64 bits, as far as kernels without lg_forget()'s word go: up to 6.16 a negation makes a value unknown. */
static __always_inline __u64 lg_blur(__u64 x)
{
	x = -x;
	lg_opaque(x);
	return -x;
}

#define LG_VLAN_ID_MASK 0x0fff

struct lg_frame {
	const __u8 *data; /* Ethernet header */
	const __u8 *end;  /* end of what can be read directly */
	__u32 len_bytes;  /* the whole frame, without FCS and without a tag the kernel holds apart */
	__u32 ifindex;    /* of the interface the hook is on */
	__u16 tag;        /* VLAN tag that the kernel holds apart (TC) and that precedes those in the frame: 1 + id; 0: none */
	__u32 gso_segs;   /* superframe (TC): packets in it, 0 unknown */
	__u32 gso_size;   /* superframe: payload of each packet; 0: no superframe */
	void *ctx;        /* kernel only */
	__u32 hook;       /* enum lg_hook; in the kernel a compile-time constant */
	/* Compile-time constants: */
	_Bool is_fast;  /* direct reads only, and no walk through extension headers */
	_Bool is_plain; /* a fast one, and nothing but TCP or UDP behind a plain IP header will do */
};

#ifdef __bpf__
static __always_inline struct lg_frame lg_frame_of_xdp(struct xdp_md *ctx, _Bool is_plain)
{
	return (struct lg_frame){
		.data = (const __u8 *)(long)ctx->data,
		.end = (const __u8 *)(long)ctx->data_end,
		.len_bytes = is_plain ? ctx->data_end - ctx->data : bpf_xdp_get_buff_len(ctx),
		.ifindex = ctx->ingress_ifindex,
		.ctx = ctx,
		.hook = LG_HOOK_XDP,
		.is_fast = 1,
		.is_plain = is_plain,
	};
}

static __always_inline struct lg_frame lg_frame_of_skb(struct __sk_buff *skb, __u32 hook, _Bool is_plain)
{
	return (struct lg_frame){
		.data = (const __u8 *)(long)skb->data,
		.end = (const __u8 *)(long)skb->data_end,
		.len_bytes = skb->len,
		.tag = skb->vlan_present ? 1 + (skb->vlan_tci & LG_VLAN_ID_MASK) : 0,
		.ifindex = skb->ifindex,
		.gso_segs = skb->gso_segs,
		.gso_size = skb->gso_size,
		.ctx = skb,
		.hook = hook,
		.is_fast = 1,
		.is_plain = is_plain,
	};
}
#endif

/**
 * lg_frame_at() - @n bytes at @off, or NULL when the frame (a fast one: what can be read directly) ends before
 * @off: below 64 Ki, known to the verifier
 * @n:   compile-time constant
 * @buf: room for @n bytes, aligned for what the caller reads; holds the bytes where they are not read in place
 */
#ifdef __bpf__
static __always_inline const void *lg_frame_at(const struct lg_frame *f, __u32 off, __u32 n, void *buf)
{
	const __u8 *p;
	long r;

	if (f->is_fast) {
		p = f->data + off;
		/* Else clang adds off + n first, and the verifier no longer sees that the check is about p. */
		lg_opaque(p);
		return p + n > f->end ? NULL : p;
	}
	r = f->hook == LG_HOOK_XDP ? bpf_xdp_load_bytes(f->ctx, off, buf, n) : bpf_skb_load_bytes(f->ctx, off, buf, n);
	p = r ? NULL : buf;
	/* Else clang tests r again where the caller tests p, and 6.1 does not learn from "r is 0" that in the other case it is not. */
	lg_opaque(p);
	return p;
}
#else
static inline const void *lg_frame_at(const struct lg_frame *f, __u32 off, __u32 n, void *buf)
{
	if ((size_t)(f->end - f->data) < (size_t)off + n)
		return NULL;
	return memcpy(buf, f->data + off, n);
}
#endif
