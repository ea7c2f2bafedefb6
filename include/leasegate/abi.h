/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * The kernel ABI: keys and values of every BPF map, shared by bpf/ and agent/.
 *
 * Host byte order unless a type says __be. Fixed-width members only, padding is named and 0 (keys are compared bytewise).
 * Who writes what: words that packets change (struct lg_bucket) change by compare-and-swap or atomic add inside BPF programs
 * alone; the agent changes them through the `grant` program. A change of layout or meaning bumps LG_ABI_VERSION, which is part
 * of the pin path, and tests/golden/abi.txt.
 */
#pragma once

#include <linux/types.h>

#include "bounds.h"

#define LG_ABI_VERSION 3

enum lg_reason {
#define LG_REASON(id, name, label, verdict, help) LG_##name = id,
#include "reason.def"
#undef LG_REASON
	_LG_REASON_N
};

#define LG_REASON_SLOTS 32 /* room for reasons in map values, so that a new reason is no change of layout */

enum lg_hook {
	LG_HOOK_XDP = 0,
	LG_HOOK_TC_INGRESS = 1,
	LG_HOOK_TC_EGRESS = 2,
	_LG_HOOK_N
};

/* ---- map `control` (ARRAY, one entry): written by the agent, and by the operator's tool where a member says so. Once packets read it
 * each word is stored by itself (the map is BPF_F_MMAPABLE for that): a copy of the whole would undo what another wrote meanwhile ---- */
struct lg_control {
	__u32 abi_version;	/* LG_ABI_VERSION */
	__u32 active_set;	/* which entry of `rules` and of `classifiers` is in force: 0 or 1 */
	__u64 incarnation;	/* grows each time the maps of this instance are made anew; lessors tell old state from new by it */
	__u64 hash_seed;	/* random: chooses overflow buckets */
	__u64 line_seed[2];	/* random, with hash_seed: choose a key's line and its tag there */
	__u16 unparsable_drop;	/* 0: packets whose headers cannot be read pass, 1: they are dropped */
	__u16 has_lists;	/* 0: map `lists` is empty. Also set by the operator's tool */
	__u32 reachable;	/* 1 while the agent has a working upstream: splits lease_pending from unreachable */
	__u8 nat64[16];		/* a /96: IPv6 addresses in it are the IPv4 address in their last 32 bits; all 0: none are */
};
_Static_assert(sizeof(struct lg_control) == 64, "lg_control: bump LG_ABI_VERSION");

/* ---- map `bypass` (ARRAY, one entry): written by `leasegate bypass`, daemon or not ---- */
struct lg_bypass {
	__u64 until_ns;		/* CLOCK_BOOTTIME: everything passes before this time. 0: off, ~0: until switched off */
	__u64 from_ns;		/* and not before this one, if it is switched off on trial; else 0 */
};
_Static_assert(sizeof(struct lg_bypass) == 16, "lg_bypass: bump LG_ABI_VERSION");

/* ---- map `buckets` (HASH): struct lg_short_key -> struct lg_bucket, of all keys but products;
 * map `products` (HASH): struct lg_key -> struct lg_bucket, of those. Also the value of `overflow` ---- */
enum lg_key_form {
	LG_FORM_RULE = 1,	/* one bucket for the whole rule; a and b are 0 */
	LG_FORM_SOURCE = 2,	/* a = source address, masked */
	LG_FORM_DESTINATION = 3,/* a = destination address, masked */
	LG_FORM_OVERFLOW = 4,	/* a[0..3] = which of its rule's overflow buckets, host order; in no HASH, see map `overflow` */
	LG_FORM_SECRET = 1 << 13,	/* of a hashed product: a is a hash of all its parts, b is 0, and nothing knows of what */
	LG_FORM_HASHED = 1 << 14,	/* of a product: a is a hash, and map `wide_keys` may know of what */
	LG_FORM_PRODUCT = 1 << 15,	/* or-ed with the enum lg_key_part that make the key, any but a single address */
};

enum lg_key_part {
	LG_KEY_SOURCE = 1 << 0,
	LG_KEY_DESTINATION = 1 << 1,
	LG_KEY_SOURCE_PORT = 1 << 2,
	LG_KEY_DESTINATION_PORT = 1 << 3,
	LG_KEY_PROTOCOL = 1 << 4,
	LG_KEY_VLAN = 1 << 5,		/* outer tag */
	LG_KEY_INNER_VLAN = 1 << 6,
	LG_KEY_INTERFACE = 1 << 7,
	LG_KEY_CGROUP = 1 << 8,		/* of the sending socket, at TC egress; else 0 */
	LG_KEY_TEXTS = 1 << 9,		/* values of a request's entries */
};

struct lg_key {
	__u32 rule_id;		/* 1 .. LG_RULES_MAX, stable across reloads */
	__u32 form;		/* enum lg_key_form */
	__u8 a[16];		/* IPv6, or IPv4 as ::ffff:a.b.c.d, with the bits below the prefix cleared */
	__u8 b[16];		/* of a product, else 0 */
} __attribute__((aligned(8)));
_Static_assert(sizeof(struct lg_key) == 40, "lg_key: bump LG_ABI_VERSION");

/* How struct lg_key begins, and all there is of a key without b. The kernel takes twice as long to hash and compare a whole one. */
struct lg_short_key {
	__u32 rule_id;
	__u32 form;
	__u8 a[16];
} __attribute__((aligned(8)));
_Static_assert(sizeof(struct lg_short_key) == 24 && sizeof(struct lg_short_key) == __builtin_offsetof(struct lg_key, b),
	       "lg_short_key: bump LG_ABI_VERSION");

/*
 * A product's a and b. Source, destination and cgroup are wide parts: a is the first of them that the key has, else 0. Ports,
 * protocol, tags and interface are narrow parts: b is struct lg_key_narrow if the key has any, else the second wide part, else 0.
 * Where that leaves a wide part without a place, a is a keyed 128-bit hash of all wide parts (form LG_FORM_HASHED), and map
 * `wide_keys` has them in full, if there was room. A cgroup's id stands in the first 8 bytes, host order.
 *
 * With LG_KEY_TEXTS, which has no part beside it but LG_KEY_SOURCE, a and b are texts one behind the other, each after a byte that is its
 * length, then zeros; with LG_KEY_SOURCE that is b alone, and a the address. Where they do not fit a is a hash: SipHash-1-3 of 128 bits,
 * little-endian, under the rule's hash_seed, of the address, if it has one, and of the texts, each after four bytes that are its length.
 *
 * Of form LG_FORM_SECRET a is SipHash-2-4 of 128 bits, little-endian, of struct lg_wide_key and struct lg_key_narrow one behind the other,
 * under the rule's hash_seed, which follows from the fleet's secret; with LG_KEY_TEXTS of what is said above.
 */
struct lg_key_narrow {
	__u16 source_port;	/* host order; like all members 0 where the packet has none or the key leaves it out */
	__u16 destination_port;
	__u16 vlan;		/* 1 + VLAN id, priority bits masked off; 0: untagged */
	__u16 inner_vlan;
	__u32 interface;	/* ifindex */
	__u8 protocol;
	__u8 _pad[3];
};
_Static_assert(sizeof(struct lg_key_narrow) == 16, "lg_key_narrow: bump LG_ABI_VERSION");

/* ---- map `wide_keys` (HASH): struct lg_key of form LG_FORM_HASHED -> what was hashed; for people, nothing is decided by it ---- */
struct lg_wide_key {
	__u8 source[16];	/* masked; like all members 0 where the key leaves it out */
	__u8 destination[16];
	__u64 cgroup_id;
};
_Static_assert(sizeof(struct lg_wide_key) == 40, "lg_wide_key: bump LG_ABI_VERSION");

/* ---- map `interfaces` (HASH): ifindex -> its class under each of the two entries of `rules`: an index of lg_ruleset.interfaces ---- */
struct lg_interface_class {
	__u32 of_set[2];	/* 0: no rule of the set names it */
};

/* ---- map `lists` (LPM_TRIE): struct lg_list_key -> struct lg_list_entry: addresses that are let through or refused before any rule ----
 * The longest prefix in which an address lies decides, if its entry does: one whose time is over does not, then the next shorter one is
 * asked. Looked at is the peer: the source of what comes in, the destination of what goes out. */
enum lg_list_verdict { LG_LIST_NONE = 0, LG_LIST_ALLOW = 1, LG_LIST_DENY = 2 };

struct lg_list_key {
	__u32 prefix_len;	/* of 128 bits: an IPv4 prefix has 96 more than its own. Shorter ones are for packets with an IPv6 header */
	__u8 addr[16];		/* IPv6, or IPv4 as ::ffff:a.b.c.d */
};
_Static_assert(sizeof(struct lg_list_key) == 20, "lg_list_key: bump LG_ABI_VERSION");

struct lg_list_entry {
	__u64 until_ns;		/* the operator's verdict holds before this, CLOCK_BOOTTIME; 0: until it is removed */
	__u8 of_operator;	/* enum lg_list_verdict: goes before that of the file while it holds */
	__u8 of_file;		/* enum lg_list_verdict: of the rules file */
	__u8 prefix_len;	/* as in the key: what is shorter is asked next */
	__u8 _pad[5];
};
_Static_assert(sizeof(struct lg_list_entry) == 16, "lg_list_entry: bump LG_ABI_VERSION");

/* ---- map `bans` (HASH): struct lg_key -> struct lg_ban: keys that their rule refuses for a time ---- */
struct lg_ban {
	__u64 until_ns;		/* CLOCK_BOOTTIME: refused before this */
	__u64 since_ns;		/* when the ban began */
	__u32 times;		/* bans of this key in a row, this one included */
	__u32 by_operator;	/* 1: set by hand */
};
_Static_assert(sizeof(struct lg_ban) == 24, "lg_ban: bump LG_ABI_VERSION");

/* ---- map `strikes` (ARRAY): refusals that are counted towards a ban, one word for all keys whose hash leads there ----
 * {16 bits: tag of the key, 28 bits: when the first of them was, in LG_STRIKE_UNIT_NS, 20 bits: how many}. A key that finds another's
 * word counts that down, and has it when nothing is left: so a flood of keys, each refused a few times, hides nobody who is refused
 * more often than all others of his word together. */
#define LG_STRIKE_COUNT_BITS 20
#define LG_STRIKE_START_BITS 28
#define LG_STRIKE_UNIT_NS (1ull << 20) /* about a millisecond: the start goes round in 78 hours */

struct lg_strikes {
	__u64 word;
};

enum lg_bucket_kind {
	LG_BUCKET_RATE = 1,	/* token bucket: refills by time from the rule's own rate (host scope) */
	LG_BUCKET_BLOCK = 2,	/* filled by grants of the agent (global scope) */
	LG_BUCKET_FIXED = 3,	/* fixed window (host scope) */
	LG_BUCKET_SLIDING = 4,	/* sliding window by two counters (host scope) */
	LG_BUCKET_LOG = 5,	/* sliding log (host scope); its ring lies in map `logs` */
	LG_BUCKET_LINE = 6,	/* in no map: how listings show a slot of `lines` */
	LG_BUCKET_COUNT = 7,	/* connections open, or half open, at one time (host scope) */
};

/*
 * All `_tok` totals only grow, but for a take that is undone within the same packet. What is left of a block is
 * granted_tok - spent_tok, spendable while now < expires_ns. The agent gives tokens back by taking them as a packet would:
 * spent_tok and returned_tok grow together, so that a token cannot be both spent and returned; traffic has used
 * spent_tok - returned_tok.
 *
 * An entry of `buckets` is 192 bytes long, three whole lines of memory: the kernel's 48 bytes, the key's 24 and these 120. What packets
 * look at comes first, and lies in the second line with the end of the key.
 */
struct lg_bucket {
	__u32 rule_id;		/* as in the key, for readers */
	__u16 kind;		/* enum lg_bucket_kind; 0 blank: just inserted, or an overflow bucket not yet used */
	__u16 numbers;		/* of rate_tok and per_ns: tells whether the rule's are others by now, without a look at them */
	union {			/* by kind */
		struct {	/* block */
			__u64 granted_tok;	/* tokens ever granted, and what the key started with */
			__u64 expires_ns;	/* end of the lease, CLOCK_BOOTTIME; a key without a lease has the time it was first seen,
						 * and LG_COLD_START_NS more if its rule gives it something to start with.
						 * The first packet after the end that the agent hears of, while `reachable`, moves an
						 * older end to share_delay_ns / 2 ago: the fallback waits for the agent's answer */
		};
		__u64 full_at_vt;	/* rate: virtual time (struct lg_rate) at which the bucket is full again */
		__u64 window[2];	/* fixed, sliding: by the parity of the window's index: count << LG_WINDOW_INDEX_BITS | its low
					 * bits */
		__u64 open;	/* count: connections that are counted now, see map `conns`; top bit: the bucket is on its way out */
	};
	__u64 spent_tok;	/* tokens ever taken: by traffic and, for blocks, back by the agent */
	__u64 low_water_tok;	/* block: below this much left the key is announced to the agent */
	__u64 asked_ns;		/* when the key was last announced to the agent, 0 never */
	__u64 seen_ns;		/* last packet, accurate to about 0.3 s */
	/* From here on another line of memory. */
	__u64 share_full_at_vt;	/* block: full_at_vt of the fallback share */
	__u64 returned_tok;	/* block: the part of spent_tok that the agent took back */
	__u64 denied_tok;	/* cost of the packets refused, but for what waits in `denials` */
	__u64 rate_tok;		/* the rule's limit: rate_tok per per_ns, for readers */
	__u64 per_ns;
	__u32 lease_generation;	/* of the lease held, set by grants; survives a restart of the agent. 0: none yet, so what is left is
				 * what the key started with */
	__u32 lease_epoch;	/* epoch of the lessor that granted it */
	__u64 base_tok;		/* granted_tok and spent_tok, which were the same, at the start of that generation: lease totals are */
	__u64 base_returned_tok; /* differences to this, and to what returned_tok was then */
};
_Static_assert(sizeof(struct lg_bucket) == 120, "lg_bucket: bump LG_ABI_VERSION");

#define LG_WINDOW_INDEX_BITS 20 /* a bucket last seen 2^18 windows ago has none in use, so that its words cannot be misread */

/* ---- map `overflow` (ARRAY): [(rule_id - 1) * LG_OVERFLOW_BUCKETS + i] -> struct lg_bucket ----
 * Where keys that find `buckets` full are charged. An array of its own, so that a flood of keys can never take its place. */

/* ---- map `lines` (ARRAY): token buckets of host scope, eight of a word each to a line of memory ----
 * A rule owns a region of lines; a key's hash says which of them it may be in, and its tag there. Mapped by nobody: the map has
 * BPF_F_MMAPABLE because only then its values lie where lines of memory do.
 *
 * A word is {1 bit: claim not settled yet, 1 bit: key noted, 22 bits: tag, never 0, 40 bits: position}. The position is the virtual
 * time (struct lg_rate, modulo 2^40) at which the bucket is full again: the slot is live iff 0 < (position - v) mod 2^40 <= live_vt,
 * and anything else is a full bucket, so whoever needs the slot may have it.
 */
#define LG_LINE_SLOTS 8
#define LG_LINE_POSITION ((1ull << 40) - 1)
#define LG_LINE_PENDING (1ull << 63)
#define LG_LINE_NOTED (1ull << 62)

struct lg_line {
	__u64 slot[LG_LINE_SLOTS];
};
_Static_assert(sizeof(struct lg_line) == 64, "lg_line: bump LG_ABI_VERSION");

/*
 * map `line_keys` (ARRAY): [line * LG_LINE_SLOTS + slot]: whose slot it is, for people, if the word has LG_LINE_NOTED; else it is of a
 * key of before. A key is noted by its second packet: a flood of made-up sources, a packet each, writes nothing here. Packets that are
 * let through do not look at it.
 */
struct lg_line_key {
	struct lg_key key;
	__u64 denied_tok;	/* cost of the packets refused since it was noted, but for what waits in `denials` */
};
_Static_assert(sizeof(struct lg_line_key) == 48, "lg_line_key: bump LG_ABI_VERSION");
/* ---- map `logs` (HASH): struct lg_key -> struct lg_log, for keys of sliding logs; LG_FORM_OVERFLOW with a and b 0 is the one of all
 * keys of its rule that found no room ----
 * The times at which the key was admitted, one slot per token. Number h of them lies in slot h % LG_LOG_SLOTS; the numbers below head
 * are final. Token h is admitted iff token h - limit was a window ago or more. Who takes slots `head` to `head + c - 1` swaps the first
 * of them from exactly what was found there to its time, rounded up to LG_LOG_COST_MAX ns, plus c - 1; whoever comes next helps to
 * fill the others and to move the head. So c tokens are taken at once or not at all, a slot counts for one token per window whoever
 * races, and a changed limit or window finds what was admitted. */
struct lg_log {
	__u64 head;		/* how many were admitted; top bit: the log is on its way out */
	__u64 time_ns[LG_LOG_SLOTS]; /* 0: not used yet */
};
_Static_assert(sizeof(struct lg_log) == 8200, "lg_log: bump LG_ABI_VERSION");

/* ---- map `conns` (HASH): struct lg_conn_key -> struct lg_conn: TCP connections that some rule has charged ---- */
struct lg_conn_key {
	__u8 a[16];		/* the lower end, by its bytes and then its port: so both directions have one key. IPv6 or mapped IPv4 */
	__u8 b[16];
	__u16 a_port;		/* host order */
	__u16 b_port;
	__u8 protocol;		/* in `conns` always TCP */
	__u8 _pad[3];
} __attribute__((aligned(8)));
_Static_assert(sizeof(struct lg_conn_key) == 40, "lg_conn_key: bump LG_ABI_VERSION");

/* docs/connections.md has the ways between them. */
enum lg_conn_state {
	LG_CONN_BLANK = 0,	/* just inserted */
	LG_CONN_PENDING = 1,	/* a SYN was seen */
	LG_CONN_ESTABLISHED = 2,/* and then an ACK of the end that sent it */
	LG_CONN_CLOSING = 3,	/* one end has sent a FIN */
	LG_CONN_CLOSED = 4,	/* whoever swapped this in gives back what was charged, and deletes the entry */
};

enum lg_conn_bits {
	LG_CONN_STATE = 7,	/* mask of enum lg_conn_state */
	LG_CONN_OF_B = 1 << 3,	/* b began it, else a */
	LG_CONN_FIN_A = 1 << 4,
	LG_CONN_FIN_B = 1 << 5,
};

/* What a rule charged for a connection. The word: random number << 32 | rule_id << 8 | enum lg_rule_connection; 0: free. Whoever swaps
 * it to 0 takes the connection out of the count of the bucket, so that nothing is counted or given back twice. */
struct lg_conn_charge {
	__u64 word;
	struct lg_key key;	/* of the bucket */
};
_Static_assert(sizeof(struct lg_conn_charge) == sizeof(struct lg_key) + 8, "lg_conn_charge: bump LG_ABI_VERSION");

struct lg_conn {
	__u64 word;		/* random number << 32 | enum lg_conn_bits; changes by swap alone */
	__u64 tag;		/* hash of the key: an entry can become another's while it is looked at */
	__u64 syn_ns;		/* the last SYN, CLOCK_BOOTTIME as all here */
	__u64 syn_until_ns;	/* until then a SYN is the same one sent again; pending: the end */
	__u64 until_ns;		/* else the end, unless something moves it */
	struct lg_conn_charge charge[LG_CONN_CHARGES_MAX];
};
_Static_assert(sizeof(struct lg_conn) == 40 + LG_CONN_CHARGES_MAX * sizeof(struct lg_conn_charge), "lg_conn: bump LG_ABI_VERSION");

/* ---- map `initiated` (HASH): struct lg_conn_key -> struct lg_initiated: who began what, of TCP, UDP and SCTP ---- */
enum lg_initiated_bits {
	LG_INITIATED_OURS = 1 << 0,	/* this host began it; else a peer did, which is noted of UDP and SCTP that a rule let in */
	LG_INITIATED_FIN_A = 1 << 1,
	LG_INITIATED_FIN_B = 1 << 2,
	LG_INITIATED_OVER = 1 << 3,	/* closed by both ends or by a reset; last packets may still come */
};

struct lg_initiated {
	__u64 until_ns;		/* forgotten then */
	__u64 bits;		/* enum lg_initiated_bits */
};
_Static_assert(sizeof(struct lg_initiated) == 16, "lg_initiated: bump LG_ABI_VERSION");

/* ---- map `conn_terms` (ARRAY, one entry): written by the agent only ---- */
struct lg_conn_terms {
	__u64 handshake_ns;	/* a handshake that is not finished ends this long after its last SYN */
	__u64 closing_ns;	/* a connection of which one end has sent a FIN, after its last packet */
	__u64 established_ns;	/* any other, after its last packet */
	__u64 datagram_ns;	/* a flow without handshake, after its last packet */
};
_Static_assert(sizeof(struct lg_conn_terms) == 32, "lg_conn_terms: bump LG_ABI_VERSION");

/* ---- map `conn_ops` (ARRAY of LG_OPS_MAX): requests to the program `track`, as `ops` ---- */
enum lg_conn_op_code {
	LG_CONN_OP_EXPIRE = 1,	/* end the entry if its time is over; else -EBUSY */
	LG_CONN_OP_END = 2,	/* end the entry if its word still is `word`; else -EBUSY */
	LG_CONN_OP_KEEP = 3,	/* its socket is there: the entry lives as if a packet had come */
	LG_CONN_OP_ADOPT = 4,	/* have rules that count open connections charge one that is established, where they did not yet; the result is
				 * how many have */
	LG_CONN_OP_FORGET = 5,	/* drop what rule `rule_id` charged; its buckets are gone or going */
	LG_CONN_OP_OURS = 6,	/* `initiated`: this host began it */
	LG_CONN_OP_OURS_EXPIRE = 7, /* `initiated`: as EXPIRE */
};

struct lg_conn_op {
	__u8 from[16];		/* the end that began it; codes but ADOPT and OURS take the ends in any order */
	__u8 to[16];
	__u16 from_port;	/* host order */
	__u16 to_port;
	__u8 protocol;
	__u8 is_egress;		/* ADOPT: this host began it */
	__u8 _pad[2];
	__u32 code;		/* enum lg_conn_op_code */
	__s32 result;		/* 0 or more, or a negative errno */
	__u32 ifindex;		/* ADOPT: of the interface that has this host's address; 0: not known */
	__u32 rule_id;		/* FORGET */
	__u64 word;		/* END */
};
_Static_assert(sizeof(struct lg_conn_op) == 64, "lg_conn_op: bump LG_ABI_VERSION");

/* ---- map `conn_scratch` (PERCPU_ARRAY, one entry): what a packet looks up by; a packet has it for itself ---- */
struct lg_conn_scratch {
	struct lg_conn_key key;
	struct lg_key bucket;
};

/* ---- map `rules` (ARRAY, two entries): the set in force and the one being written ---- */
/*
 * Virtual time of a rate: v(t) = v0 + ((t - anchor_ns) * mult >> shift), in units of which unit_per_tok make a token; the product
 * has 128 bits. A bucket is one word, full_at_vt; taking c tokens is: from = max(full_at, v); next = from + c * unit_per_tok;
 * admitted iff next - v <= burst_vt. Both wrap at 2^64 and are compared by their difference. Where period / rate allows (shift 0,
 * mult and unit_per_tok the reduced fraction) this is exact; else v is low by less than one unit plus a relative 2^-40.
 * In `lines` a word has 40 bits for it: a token is 2^k units there, as many as leave a burst a 2^14th part of the ring.
 * unit_per_tok never changes in the life of a rule_id, so a changed rate is a new anchor (v0 = old v(now)) and levels carry over:
 * what was spent stays spent.
 */
struct lg_rate {
	__u64 anchor_ns;
	__u64 v0;
	__u64 mult;
	__u64 unit_per_tok;
	__u64 burst_vt;		/* burst * unit_per_tok */
	__u32 shift;		/* 0 .. 125 */
	__u32 coarse;		/* 1: the burst is wide enough (>= 16 ms of refill) for the coarse clock */
};
_Static_assert(sizeof(struct lg_rate) == 48, "lg_rate: bump LG_ABI_VERSION");

struct lg_port_range {
	__u16 lo;		/* host order, inclusive */
	__u16 hi;
};

enum lg_rule_flags {
	LG_RULE_GLOBAL = 1 << 0,	/* spends leased blocks; else a bucket of this host alone */
	LG_RULE_SHADOW = 1 << 1,	/* counts would_deny, passes */
	LG_RULE_EVALUATE_ALL = 1 << 2,	/* asked for its would-be verdict even when another rule already denied */
	LG_RULE_BYTES = 1 << 6,		/* the unit is bytes (wire bytes without FCS); else packets */
	LG_RULE_EXEMPT = 1 << 8,	/* names packets that are limited only by rules that name them */
	LG_RULE_PASS = 1 << 9,		/* no rule but an exemption: what it matches passes; of the rest only flags and `special` count */
	LG_RULE_BOUNDED = 1 << 10,	/* of an exemption: within LG_EXEMPT_PER_S */
	LG_RULE_ACTS = 1 << 11,		/* `action` is another than LG_ACTION_DROP, and the rule is no shadow */
	LG_RULE_REQUESTS = 1 << 12,	/* for requests alone: no packet matches it */
};

/* What becomes of a packet that a rule has no tokens for. Where a hook cannot do it the packet is dropped. */
enum lg_action {
	LG_ACTION_DROP = 0,
	LG_ACTION_MARK = 1,		/* passes with this mark (TC) */
	LG_ACTION_PRIORITY = 2,		/* passes with this priority (TC) */
	LG_ACTION_DSCP = 3,		/* passes with this DSCP in its IP header (TC) */
	LG_ACTION_ECN = 4,		/* passes marked "congestion experienced", if its ends have agreed on ECN, else dropped (TC) */
	LG_ACTION_RESET = 5,		/* TCP: dropped, and its sender is told by a RST (XDP, TC ingress) */
	LG_ACTION_PROHIBITED = 6,	/* dropped, and its sender is told by ICMP (XDP, TC ingress) */
	LG_ACTION_PACE = 7,		/* leaves when its tokens are there (TC egress, by fq); beyond LG_PACE_HORIZON_NS dropped */
	LG_ACTION_SOFT = 8,		/* a request passes, and its service is told to do less */
	_LG_ACTION_N
};

/* What is not on the common way of a packet: one test says whether there is any. */
enum lg_rule_special {
	LG_SPECIAL_BAN = 1 << 0,	/* keys can be banned */
	LG_SPECIAL_CONNECTION = 1 << 2,	/* the unit is connections, by enum lg_rule_connection */
	LG_SPECIAL_PASS = 1 << 4,	/* LG_RULE_PASS */
};

/* When a key is banned: `after` refusals within within_ns of the first of them ban it for for_ns; twice as long each time, up to max_ns,
 * where the ban before ended less than max_ns ago. */
struct lg_ban_terms {
	__u64 within_ns;
	__u64 for_ns;
	__u64 max_ns;		/* 0: always for_ns */
	__u32 after;		/* 0: the rule bans nobody */
	__u32 _pad;
};
_Static_assert(sizeof(struct lg_ban_terms) == 32, "lg_ban_terms: bump LG_ABI_VERSION");

/* What of a TCP connection a rule counts. */
enum lg_rule_connection {
	LG_CONNECTION_NONE = 0,
	LG_CONNECTION_NEW = 1,		/* tokens for each that begins */
	LG_CONNECTION_OPEN = 2,		/* how many there are at one time */
	LG_CONNECTION_HALF_OPEN = 3,	/* how many there are whose handshake is not finished */
};

enum lg_rule_algorithm { LG_RULE_TOKEN_BUCKET = 0, LG_RULE_FIXED_WINDOW = 1, LG_RULE_SLIDING_WINDOW = 2, LG_RULE_SLIDING_LOG = 3 };
enum lg_rule_table { LG_TABLE_EXACT = 0, LG_TABLE_LINES = 1 };
enum lg_on_full { LG_ON_FULL_OVERFLOW = 0, LG_ON_FULL_DENY = 1, LG_ON_FULL_PASS = 2 };
enum lg_fallback { LG_FALLBACK_DENY = 0, LG_FALLBACK_SHARE = 1, LG_FALLBACK_CLOSED = 2, LG_FALLBACK_OPEN = 3 };

/*
 * Windows of a rule of host scope: window k(t) = index0 + (t - anchor_ns) / length_ns. A new rule has anchor and index0 0: its windows
 * begin at multiples of their length. Where the length changes, the window at hand begins anew (anchor_ns) and keeps its index, so
 * that what was counted in it and in the one before still counts.
 */
struct lg_window {
	__u64 anchor_ns;
	__u64 index0;
	__u64 length_ns;	/* 0: the rule has no windows. Of a sliding log: the window; the rest is 0 */
};
_Static_assert(sizeof(struct lg_window) == 24, "lg_window: bump LG_ABI_VERSION");

struct lg_rule {
	__u32 rule_id;		/* 1 .. LG_RULES_MAX */
	__u32 flags;		/* enum lg_rule_flags */
	__u8 key_mask4[16];	/* applied to a mapped IPv4 address to make the key; of a product to its source, 0 if it has none */
	__u8 key_mask6[16];
	__u8 destination_mask4[16]; /* product: to its destination, likewise */
	__u8 destination_mask6[16];
	struct lg_key_narrow narrow_mask; /* product: all ones where the key has the part */
	__u8 key_form;		/* enum lg_key_form: RULE, SOURCE or DESTINATION; 0: a product, see product_form */
	__u8 on_full;		/* enum lg_on_full */
	__u8 fallback;		/* enum lg_fallback; global rules */
	__u8 algorithm;		/* enum lg_rule_algorithm; host scope */
	__u8 table;		/* enum lg_rule_table */
	__u8 special;		/* enum lg_rule_special */
	__u8 connection;	/* enum lg_rule_connection */
	__u8 n_texts;		/* with LG_KEY_TEXTS: how many there are */
	__u32 cost;		/* tokens for each packet or byte; at least 1 */
	__u32 product_form;	/* form of a product's keys, with key_form 0 */
	__u32 first_line;	/* table lines: where the rule's region begins, and how many lines it has, a power of two */
	__u32 n_lines;
	__u64 live_vt;		/* table lines: largest debt a slot may have, burst or superframe, 1 .. 2^38; never shrinks */
	struct lg_window window;
	__u64 cold_burst_tok;	/* cost above this can never pass: burst, or the window's limit; of a log LG_LOG_COST_MAX at most */
	struct lg_rate rate;	/* host scope */
	struct lg_rate share;	/* global scope, fallback share: what this host may take by itself. burst_vt 0: nothing */
	__u64 share_delay_ns;	/* the share starts, empty, at expires_ns + this (grace, or for windows the window) */
	__u64 rate_tok;		/* for readers: limit is rate_tok per per_ns, burst burst_tok */
	__u64 per_ns;
	__u64 burst_tok;
	__u64 cold_start_tok;	/* global scope: what a new key may spend before its first lease, for LG_COLD_START_NS */
	__u64 hash_seed[2];	/* hashed keys: the same on all hosts; of host scope `hash_seed` of the instance takes the second's place, but
				 * not of secret keys, whose key they both are */
	struct lg_ban_terms ban;
	__u32 action_value;	/* mark, priority or DSCP */
	__u8 action;		/* enum lg_action. PACE: burst_vt and cold_burst_tok are those of burst_tok and the horizon's tokens together */
	__u8 _action_pad[3];
};
_Static_assert(sizeof(struct lg_rule) == 344, "lg_rule: bump LG_ABI_VERSION");

enum lg_set_needs {
	LG_NEEDS_CGROUP = 1 << 0,
	LG_NEEDS_INTERFACE = 1 << 1,
	LG_NEEDS_BYTES = 1 << 2,	/* a rule counts bytes */
	LG_NEEDS_ECN = 1 << 4,		/* a rule marks by ECN */
	LG_NEEDS_CONNECTIONS = 1 << 5,	/* a rule counts connections */
	LG_NEEDS_INITIATED = 1 << 6,	/* a rule leaves out what this host began */
};

struct lg_bits {
	__u64 w[LG_RULES_MAX / 64];	/* bit i: rules[i] of the set */
};

struct lg_ruleset {
	__u64 version;		/* grows with each load */
	__u32 n_rules;
	__u32 needs;		/* enum lg_set_needs: what is looked up for the packet, because some rule asks for it */
	struct lg_bits exempt;	/* rules and exemptions with LG_RULE_EXEMPT */
	struct lg_bits pass;	/* exemptions, whose records follow those of the rules: n_pass of them */
	__u32 n_pass;
	__u32 _pad;
	struct lg_bits initiated; /* rules that packets of connections begun by this host do not match */
	char interfaces[LG_INTERFACE_CLASSES][16]; /* names of the classes, from 1 on; "" behind the last */
	struct lg_rule rules[LG_RULES_MAX]; /* dense, most specific first; then exemptions; then what retired rules were, in case they return */
};

/* ---- map `classifiers` (ARRAY, two entries, in step with `rules`): which rules of the set a packet matches ---- */

/*
 * For each field that rules look at: its value -> a class of values that are in the same rules -> the vector of those rules. A packet
 * matches the AND of its vectors. All tables hold indexes into `vectors`; vector 0 is empty.
 */
enum lg_dimension {
	LG_DIM_SOURCE = 1 << 0,
	LG_DIM_DESTINATION = 1 << 1,
	LG_DIM_NUMBER = 1 << 2,		/* destination port; ICMP: type << 8 | code; no IP: EtherType */
	LG_DIM_SOURCE_PORT = 1 << 3,
	LG_DIM_TCP_FLAGS = 1 << 4,
	LG_DIM_VLAN = 1 << 5,
	LG_DIM_INNER_VLAN = 1 << 6,
	LG_DIM_INTERFACE = 1 << 7,
};

/* What every packet has, in one index: protocol, then these. */
enum lg_kind {
	LG_KIND_L4 = 1 << 8,		/* its ports, or its ICMP type and code, are known */
	LG_KIND_FRAGMENT = 1 << 9,	/* times enum lg_fragment */
	LG_KIND_FAMILY = 1 << 11,	/* times 0: no IP, 1: IPv4, 2: IPv6 */
	LG_KIND_EGRESS = 1 << 13,
	_LG_KIND_N = 1 << 14,
};

/*
 * A prefix tree has leaves, which are indexes into `vectors`, and nodes, LG_TREE_NODE | place in `tree`. A node asks whether an
 * address lies in a prefix, and if so, what its next `bits` bits are: an address, or its lower 64 bits, is x; i = (x - base) >> shift
 * is below 1 << bits inside. Outside the way goes on at `outside`, else at the i-th of the words that follow. IPv4 stands in the upper
 * 32 of 128 bits.
 */
#define LG_TREE_NODE (1u << 31)
struct lg_tree_node {
	__u64 base;
	__u8 shift;
	__u8 bits;
	__u8 is_low;		/* x is the lower half; that the upper one is the right one, nodes above have asked */
	__u8 _pad;
	__u32 outside;
};
_Static_assert(sizeof(struct lg_tree_node) == 16, "lg_tree_node: bump LG_ABI_VERSION");

#define LG_VLAN_SLOTS 8192 /* 4097 tags, rounded up: indexes are bounded by their bits */

struct lg_classifier {
	__u32 dims;		/* enum lg_dimension that some rule looks at; the others need no look */
	__u32 n_rules;
	__u32 source4, source6;	/* the trees' roots, by the family of the packet */
	__u32 destination4, destination6;
	__u32 _pad[10];
	__u16 kinds[_LG_KIND_N];
	__u16 numbers[65536];
	__u16 source_ports[65536];
	__u16 vlans[LG_VLAN_SLOTS];	/* by 1 + id; 0: untagged */
	__u16 inner_vlans[LG_VLAN_SLOTS];
	__u16 tcp_flags[256];
	__u16 interfaces[LG_INTERFACE_CLASSES];
	struct lg_bits vectors[LG_VECTORS_MAX];
	__u32 tree[LG_TREE_WORDS];
	__u32 _tail[16];	/* a node may begin at the last word, as far as the verifier knows */
};
_Static_assert(sizeof(struct lg_classifier) % 64 == 0 && __builtin_offsetof(struct lg_classifier, vectors) % 64 == 0,
	       "vectors should lie in one line of memory each");

/* ---- map `rule_names` (ARRAY of LG_RULES_MAX + 1): rule_id -> who it is; id 0 unused ---- */
struct lg_rule_name {
	char name[LG_NAME_LEN];	/* "" when the id is free */
	__u64 fingerprint;	/* of everything that makes the rule what it is (match, key, unit, scope), not of its numbers */
	__u64 retired_ns;	/* not 0: the rule left the file at this time; the id is reused only after its buckets are gone */
	char match[LG_MATCH_TEXT_LEN]; /* what it matches, for people: "udp to 192.0.2.0/24 port 53" */
};
_Static_assert(sizeof(struct lg_rule_name) == 208, "lg_rule_name: bump LG_ABI_VERSION");

/* ---- counters (PERCPU_ARRAY) ---- */
struct lg_count {
	__u64 packets;		/* superframes count as their segments */
	__u64 bytes;		/* wire bytes without FCS */
};

/* map `verdicts`: [hook * LG_REASON_SLOTS + reason]: every packet exactly once */

/* map `rule_counts`: [rule_id]: one count per reason as seen by that rule. would_deny of a shadow rule is PASS_SHADOW. */
struct lg_rule_counts {
	struct lg_count by_reason[LG_REASON_SLOTS];
	struct lg_count bans;	/* packets: how many bans began; bytes: 0 */
};

/* ---- map `events` (RINGBUF): a key wants the agent's attention ---- */
enum lg_event_type {
	LG_EVENT_NEW_KEY = 1,	/* a key of a global rule was seen for the first time */
	LG_EVENT_LOW_WATER = 2,	/* what is left fell below low_water_tok */
	LG_EVENT_DENIED = 3,	/* a packet was refused for want of leased tokens */
};

struct lg_event {
	__u32 type;
	__u32 _pad;
	struct lg_key key;
	__u64 cost_tok;		/* of the packet that raised it */
	__u64 now_ns;
};

/* ---- map `ops` (ARRAY of LG_OPS_MAX): requests to the syscall programs, answered in place ----
 * The agent fills [0, n) and runs `grant` or `collect` with struct lg_ops_args as context. One agent at a time (it holds the
 * instance lock). Operations run in order, each atomic towards packets. */
enum lg_op_code {
	LG_OP_READ = 1,		/* collect: snapshot into `after`; -ENOENT if the key has no bucket */
	LG_OP_REAP = 2,		/* collect: delete the bucket if nothing is lost by it (rate: full; block: no leased token left, not expired
				 * less than share_delay ago; windows and logs: nothing counts any more; counts: nothing is open) and it was not
				 * seen since `before_ns`; else -EBUSY. With it goes its log, also one whose bucket is gone already */
	LG_OP_GRANT = 3,	/* grant: granted_tok += tok; expires_ns and low water are set; makes the bucket if needed */
	LG_OP_TAKE = 4,		/* grant: take back up to `tok` (~0: all that is left); tok becomes what was taken */
	LG_OP_GENERATION = 5,	/* grant: take back all that is left, end the lease now, note generation, epoch and bases */
	LG_OP_FORGET = 6,	/* grant: delete the bucket, whatever it holds (its rule is gone) */
};

struct lg_op {
	struct lg_key key;
	__u32 code;		/* enum lg_op_code */
	__s32 result;		/* 0 or a negative errno */
	__u64 tok;
	__u64 expires_ns;	/* GRANT: new lease end; never lowers the old one */
	__u64 low_water_tok;	/* GRANT: new low water; ~0 leaves it */
	__u64 before_ns;	/* REAP */
	__u32 generation;	/* GENERATION */
	__u32 epoch;		/* GENERATION, GRANT */
	struct lg_bucket after;	/* the bucket after the operation (READ, GRANT, TAKE, GENERATION) */
};
_Static_assert(sizeof(struct lg_op) == 208, "lg_op: bump LG_ABI_VERSION");

struct lg_ops_args {
	__u32 n;		/* 1 .. LG_OPS_MAX */
	__u32 done;		/* answered */
};

/* ---- map `checks` (ARRAY of LG_CHECK_USERS * LG_CHECKS_MAX): requests to the program `check`, as `ops`; mapped by who asks ----
 * A request is charged to the buckets that packets are charged to, by the same code: all charges are tested, then all are taken, or none. */
enum lg_check_way {
	LG_CHECK_WAY_TAKE = 0,
	LG_CHECK_WAY_PEEK = 1,		/* what a take would answer; nothing is taken, made, counted or announced */
	LG_CHECK_WAY_REFUND = 2,	/* gives back, no bucket ends above its cap */
};

/* What a bucket said, in charge.state; all of it as of check.now_ns. */
enum lg_charge_kind {
	LG_CHARGE_NONE = 0,		/* nothing: there is no such rule or bucket, or it was not asked */
	LG_CHARGE_RATE = 1,		/* 0: what it owes, in its rule's virtual time; full at 0 */
	LG_CHARGE_BLOCK = 2,		/* 0: tokens left, 1: ns until the lease ends; 2: what the fallback share owes, ~0: it is not in use */
	LG_CHARGE_WINDOW = 3,		/* 0: tokens in this window, 1: and in the one before; 2: ns since this one began */
	LG_CHARGE_LOG = 4,		/* 0: tokens in the trailing window; ns until 1: the oldest leaves it, 2: there is room for the cost */
	LG_CHARGE_BAN = 5,		/* 0: ns until the key's ban ends */
};

struct lg_charge {
	struct lg_key key;
	__u32 rule_index;	/* in the set, as far as the caller knows it */
	__u32 units;		/* as packets or bytes: times the rule's `cost` it is tokens */
	__u8 source[16];	/* the address that the key has or that a hash is of; else 0 */
	__u8 generation;	/* answer; REFUND: as it was answered to the take */
	__u8 reason;		/* answer: enum lg_reason, what the bucket said; REFUND: as it was answered to the take */
	__u8 meant;		/* answer: enum lg_reason, what the rule makes of it: shadow, soft; PASS_NO_RULE: the rule is gone */
	__u8 kind;		/* answer: enum lg_charge_kind */
	__u8 done;		/* answer: 1 if it was taken, or given back */
	__u8 _pad[3];
	__u64 state[3];
};
_Static_assert(sizeof(struct lg_charge) == 96, "lg_charge: bump LG_ABI_VERSION");

#define LG_CHECK_ROOM_WORDS 22
struct lg_check {
	__u8 way;		/* enum lg_check_way */
	__u8 n;			/* charges, 0 .. LG_MATCHES_MAX, in the order of the set */
	__u8 verdict;		/* answer: enum lg_reason: the first refusal, or the loudest reason to let pass */
	__u8 decider;		/* answer: of which charge */
	__u8 _pad[4];
	__u64 now_ns;		/* answer: CLOCK_BOOTTIME */
	__u64 room[LG_CHECK_ROOM_WORDS]; /* the program's own, for which its stack is too small */
	struct lg_charge charge[LG_MATCHES_MAX];
};
_Static_assert(sizeof(struct lg_check) == 16 + LG_CHECK_ROOM_WORDS * 8 + LG_MATCHES_MAX * sizeof(struct lg_charge),
	       "lg_check: bump LG_ABI_VERSION");

struct lg_check_args {
	__u32 first;		/* entry of `checks`: the caller's part begins at a multiple of LG_CHECKS_MAX */
	__u32 n;		/* 1 .. LG_CHECKS_MAX */
	__u32 done;		/* answered */
	__u32 _pad;
};

/* What is exempt, in kinds that must not crowd each other out. */
enum lg_exempt_kind {
	LG_EXEMPT_ARP = 0,
	LG_EXEMPT_ND = 1,
	LG_EXEMPT_PATH = 2,		/* "fragmentation needed" and "packet too big": from anywhere, unlike the two before */
	LG_EXEMPT_CONTROL = 3,		/* link-local multicast, and who listens to it */
	LG_EXEMPT_DATAGRAM = 4,		/* exemptions with LG_RULE_BOUNDED: DHCP */
	LG_EXEMPT_STREAM = 5,		/* those of TCP: sessions of our own */
	_LG_EXEMPT_N
};

/* ---- map `shared` (ARRAY, one entry): words all CPUs share ---- */
struct lg_shared {
	__u64 announce_full_at_ns;	/* limits key events to LG_ANNOUNCE_PER_S */
	__u64 events_lost;		/* key events that found the ring buffer full */
	__u64 events_limited;		/* key events held back by that limit */
	__u64 map_full;			/* packets whose key found `buckets` full */
	__u64 lines_full;		/* packets whose key found all slots of its line live */
	__u64 bans_full;		/* refusals that should have banned a key, but `bans` was full */
	__u64 strikes_lost;		/* refusals that found the word of another key in `strikes` */
	__u64 exempt_full_at_ns[_LG_HOOK_N][_LG_EXEMPT_N]; /* what is exempt, kind by kind, within LG_EXEMPT_PER_S */
	__u64 replies_full_at_ns;	/* limits replies to LG_REPLIES_PER_S */
	__u64 resets;			/* RSTs sent */
	__u64 prohibited;		/* ICMP and ICMPv6 "administratively prohibited" sent */
	__u64 conns_full;		/* connections that found `conns` full */
	__u64 conns_swept_ns;		/* when entries of `conns` whose time is over were last looked for */
	__u64 initiated_full;		/* flows that found `initiated` full, and so count as begun by the peer */
	__u64 initiated_swept_ns;
};

/* ---- map `memos` (PERCPU_ARRAY, one entry): what packets on this CPU found, for the next one alone ---- */
struct lg_memo {
	__u64 jiffies;		/* when now_ns was asked for */
	__u64 now_ns;		/* CLOCK_BOOTTIME, then */
	__u32 rule;		/* index in the set of the rule that the last packet matched, a guess for the next */
	__u32 _pad;
};

/* ---- map `denials` (PERCPU_ARRAY, one entry): refusals of the key refused most on this CPU, not yet booked under the key ----
 * Packets of this CPU alone change all but booked_tok, which whoever books moves up by a swap. */
struct lg_denials {
	struct lg_key key;
	__u64 added_tok;	/* cost of the packets refused while a key is counted here, of all such keys */
	__u64 booked_tok;	/* as much of it is in `denied_tok` of its key */
	__u64 turn;		/* grows before and after another key comes: odd while key and slot change */
	__u32 slot;		/* 1 + the key's place in `line_keys`; 0: it has a bucket */
	__u32 packets;		/* since this CPU booked */
	__u32 misses;		/* refusals of other keys in a row */
	__u32 _pad;
};
_Static_assert(sizeof(struct lg_denials) == 80, "lg_denials: bump LG_ABI_VERSION");
#define LG_DENIALS_MAX 64 /* packets that are booked at once */
#define LG_DENIALS_MISSES 256 /* until another key comes */

/* ---- map `test_clock` (ARRAY, one entry): __u64 ns; read only when loaded with lg_test_clock ---- */
