/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Every map of the object, and nothing else. Keys, values and who writes what: include/leasegate/abi.h.
 *
 * `buckets` is preallocated, for keys can be made up: an insert from a packet neither allocates nor fails for want of memory, and a full table
 * is a plain -E2BIG that follows the rule's policy. It is no LRU map, because those evict live keys some 128 at a time.
 */
#pragma once

#include <leasegate/abi.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE); /* its words are stored one by one */
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lg_control);
} control SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lg_bypass);
} bypass SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, LG_KEYS_DEFAULT);
	__type(key, struct lg_short_key);
	__type(value, struct lg_bucket);
} buckets SEC(".maps");

/* Not preallocated: most rule sets have no products, and need not pay for room for them. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, LG_KEYS_DEFAULT);
	__type(key, struct lg_key);
	__type(value, struct lg_bucket);
} products SEC(".maps");

/* Not preallocated: few rules have such keys, and for those the bucket counts, not this. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, LG_KEYS_DEFAULT);
	__type(key, struct lg_key);
	__type(value, struct lg_wide_key);
} wide_keys SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, LG_INTERFACES_KNOWN_MAX);
	__type(key, __u32);
	__type(value, struct lg_interface_class);
} interfaces SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC); /* the kernel has no others */
	__uint(max_entries, LG_LISTS_MAX);
	__type(key, struct lg_list_key);
	__type(value, struct lg_list_entry);
} lists SEC(".maps");

/* Not preallocated: mostly nobody is banned. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, LG_BANS_MAX);
	__type(key, struct lg_key);
	__type(value, struct lg_ban);
} bans SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LG_STRIKE_SLOTS);
	__type(key, __u32);
	__type(value, struct lg_strikes);
} strikes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, (LG_RULES_MAX * LG_OVERFLOW_BUCKETS));
	__type(key, __u32);
	__type(value, struct lg_bucket);
} overflow SEC(".maps");

/* Preallocated as well, for the same reasons. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, LG_LOGS_DEFAULT);
	__type(key, struct lg_key);
	__type(value, struct lg_log);
} logs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE); /* else the kernel puts values 16 bytes off the lines of memory */
	__uint(max_entries, (LG_LINE_KEYS_DEFAULT / LG_LINE_SLOTS));
	__type(key, __u32);
	__type(value, struct lg_line);
} lines SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LG_LINE_KEYS_DEFAULT);
	__type(key, __u32);
	__type(value, struct lg_line_key);
} line_keys SEC(".maps");

/* Preallocated, too. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, LG_CONNS_DEFAULT);
	__type(key, struct lg_conn_key);
	__type(value, struct lg_conn);
} conns SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, LG_CONNS_DEFAULT);
	__type(key, struct lg_conn_key);
	__type(value, struct lg_initiated);
} initiated SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lg_conn_terms);
} conn_terms SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LG_OPS_MAX);
	__type(key, __u32);
	__type(value, struct lg_conn_op);
} conn_ops SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lg_conn_scratch);
} conn_scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct lg_ruleset);
} rules SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__uint(map_flags, BPF_F_MMAPABLE); /* values then begin at a page, and vectors in them at a line of memory */
	__type(key, __u32);
	__type(value, struct lg_classifier);
} classifiers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LG_RULES_MAX + 1);
	__type(key, __u32);
	__type(value, struct lg_rule_name);
} rule_names SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, (_LG_HOOK_N * LG_REASON_SLOTS));
	__type(key, __u32);
	__type(value, struct lg_count);
} verdicts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, _LG_HOOK_N);
	__type(key, __u32);
	__type(value, __u64);
} later_fragments SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, LG_RULES_MAX + 1);
	__type(key, __u32);
	__type(value, struct lg_rule_counts);
} rule_counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, LG_EVENTS_BYTES);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LG_OPS_MAX);
	__type(key, __u32);
	__type(value, struct lg_op);
} ops SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE); /* written and read without a system call for each */
	__uint(max_entries, (LG_CHECK_USERS * LG_CHECKS_MAX));
	__type(key, __u32);
	__type(value, struct lg_check);
} checks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lg_shared);
} shared SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lg_memo);
} memos SEC(".maps");

/* Of nobody's interest but the program's that is writing there. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, LG_REPLY_ROOM_BYTES);
} reply_rooms SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lg_denials);
} denials SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} test_clock SEC(".maps");
