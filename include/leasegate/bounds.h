/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * Compile-time maxima, each with its reason. Shared by bpf/ and agent/. */
#pragma once

#define LG_RULES_MAX 256		/* rules of one set: the bits of struct lg_bits */
#define LG_RULES_DEFAULT 64		/* rules that overflow buckets and counters have room for unless configured */
#define LG_MATCHES_MAX 8		/* rules that may match one packet; more is refused when rules are loaded */
#define LG_SETS_MAX 256			/* named sets of prefixes of one file */
#define LG_SET_PREFIXES_MAX 16384	/* prefixes of one set */
#define LG_PORT_RANGES_MAX 8		/* ranges in one list of ports of one rule */
#define LG_RULE_ENTRIES_MAX 8		/* entries of a request's descriptor that one rule asks for */
#define LG_RULE_VALUES_MAX 1024		/* values that one rule takes for an entry */
#define LG_SET_VALUES_MAX 16384		/* values of one set */
#define LG_ENTRY_KEY_LEN 64		/* key of a request's entry with its final NUL */
#define LG_VALUE_PATTERN_LEN 256	/* value or pattern that a rule has of an entry, with its final NUL */
#define LG_VECTORS_MAX 16384		/* different vectors of rules in one classifier, power of two */
#define LG_TREE_WORDS 524288		/* of the prefix trees of one classifier: 2 MiB, power of two */
#define LG_TREE_LEVELS 32		/* nodes between a tree's root and a leaf; agent/rules/prefix_tree.c says why it is enough */
#define LG_NAME_LEN 64			/* rule, region, holder and instance names with their final NUL */
#define LG_MATCH_TEXT_LEN 128		/* what a rule matches, said shortly, with the final NUL */
#define LG_OVERFLOW_BUCKETS 1024	/* overflow buckets of one rule, power of two */
#define LG_INTERFACE_CLASSES 64		/* interfaces that the rules of a set name, one less: each takes a bit in the kernel's tables */
#define LG_INTERFACES_KNOWN_MAX 1024	/* entries of map interfaces: those that a set may name, with renamed and re-created ones */
#define LG_VLAN_TAGS_MAX 2		/* tags the parser walks; a third makes the packet unparsable */
#define LG_IP6_EXT_MAX 8		/* extension headers the parser walks */
#define LG_TAKE_TRIES 4			/* compare-and-swap attempts of one take (measured: 4 fail in < 0.015 % under two CPUs) */
#define LG_OPS_MAX 256			/* operations of one grant or collect call */
#define LG_CHECKS_MAX 64			/* requests of one call of the program that checks them */
#define LG_CHECK_USERS 8		/* who may call it at one time, each in a part of its map */
#define LG_KEYS_DEFAULT 65536		/* entries of map buckets unless configured */
#define LG_KEYS_LIMIT 16777216		/* most entries that may be configured */
#define LG_LINE_KEYS_DEFAULT 1048576	/* slots of map lines unless configured: 8 MiB, and 48 MiB for their keys */
#define LG_LINE_KEYS_LIMIT 134217728	/* most slots that may be configured */
#define LG_LINE_BURST_MAX_TOK (1ull << 38) /* a burst in lines is below this: a quarter of a position's ring */
#define LG_COST_MAX 1000000		/* tokens that a rule may charge for each packet or byte */
#define LG_LOG_SLOTS 1024		/* admitted times that a sliding log remembers of a key, power of two */
#define LG_LOG_MAX 1000			/* largest limit of a sliding log: some slots less, so that one being taken is told from one in use */
#define LG_LOG_COST_MAX 64		/* slots that one packet may take, a superframe counted as its segments; power of two */
#define LG_LOGS_DEFAULT 256		/* entries of map logs unless configured: 2 MiB */
#define LG_LOGS_LIMIT 65536		/* most entries that may be configured: 513 MiB */
#define LG_LIST_FILE_MAX 100000		/* prefixes in the lists of one rules file */
#define LG_LISTS_MAX 131072		/* entries of map lists: those, and the operator's */
#define LG_LIST_FILES_MAX 64		/* files that the lists of one rules file name */
#define LG_BANS_MAX 65536		/* entries of map bans: keys banned at one time, 10 MiB if all are */
#define LG_STRIKE_SLOTS 131072		/* words of map strikes: 1 MiB, power of two. To hide one key takes a flood so many times as large */
#define LG_BAN_AFTER_MAX 1000000	/* refusals before a ban: below 2^LG_STRIKE_COUNT_BITS */
#define LG_BAN_WITHIN_MIN_NS 10000000ull /* ten units of a strike's start */
#define LG_BAN_WITHIN_MAX_NS 3600000000000ull /* an hour: a small part of the start's ring */
#define LG_BAN_FOR_MIN_NS 1000000000ull	/* a second: less is what the limit does anyway */
#define LG_EXEMPT_PER_S 10000		/* packets of one exempt kind at one hook: a link with 4,096 neighbours that all ask at once needs half,
					 * and a CPU answers a multiple */
#define LG_CONNS_DEFAULT 65536		/* entries of map conns, and of map initiated, unless configured: 18 and 7 MiB */
#define LG_CONNS_LIMIT 16777216		/* most entries that may be configured */
#define LG_CONN_CHARGES_MAX 4		/* rules that count connections and match one packet */
#define LG_CONN_SWEEP_NS 3000000000ull	/* packets look for what is over themselves when the agent did not for this long */
#define LG_EVENTS_BYTES 1048576		/* ring buffer of key events, power of two */
#define LG_ANNOUNCE_PER_S 20000		/* key events a host may raise per second: a spoofed flood must not become a lease storm */
#define LG_REPLIES_PER_S 1000		/* RSTs and ICMP errors a host may send: a flood under forged addresses must not become two */
#define LG_REPLIES_BURST 100		/* of them at once: a page's worth of connections that are refused together */
#define LG_REPLY_ROOM_BYTES 2304	/* where one is put together: 1,280 bytes at most, and more as far as the verifier knows */
#define LG_PACE_HORIZON_NS 2000000000ull /* how late a packet may leave; fq drops what lies beyond its own horizon of 10 s */
#define LG_COLD_START_NS 10000000000ull	/* a new key's allowance ends after this: whoever is not back by then waits for a lease */
#define LG_ANNOUNCE_GAP_NS 20000000ull	/* least time between two events of one key */
#define LG_BURST_MAX_TOK (1ull << 40)	/* largest burst or limit: 1 TiB of bytes */
#define LG_PER_MAX_NS (31ull * 24 * 3600 * 1000000000) /* longest window: 31 days */

#define LG_ETCD_ENDPOINTS_MAX 16	/* members of an etcd cluster that are named */
#define LG_LABELS_MAX 16		/* labels of a node */
#define LG_REGIONS_MAX 64		/* regions of one list */
#define LG_HOLDERS_MAX 4096		/* holders one lessor keeps in a ledger */
#define LG_LEASE_KEYS_MAX 1048576	/* keys one lessor or lessee keeps */
#define LG_SLOTS_MAX 64			/* usage slots in one report of one key */
#define LG_HISTORY_MAX 256		/* slots of the last window sent to a successor */
#define LG_MSG_BYTES_MAX (1u << 20)	/* one gRPC message */
#define LG_BATCH_KEYS_MAX 512		/* keys of one message */
#define LG_QUEUE_BYTES_MAX (8u << 20)	/* unsent bytes of one stream before it is closed as too slow */
