/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Prefixes -> the trees of struct lg_classifier, in which packets look up their addresses.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leasegate/abi.h"

/* A prefix of 128 bits, IPv4 in the upper 32 of them, and the leaf of addresses in it but in no longer one. */
struct lg_tree_prefix {
	uint64_t high, low;
	uint32_t len;
	uint32_t leaf;
};

/* Room for nodes, in the words of a classifier. */
struct lg_tree_space {
	uint32_t *words;	/* LG_TREE_WORDS and room for one node header more */
	uint32_t n;		/* in use */
	uint32_t spread;	/* 0 .. 3: how much wider than needed nodes are; wider ones make shorter ways */
};

/**
 * lg_prefix_tree_build() - one tree
 * @v:        ordered by lg_tree_prefix_compare(), no two the same
 * @any:      leaf of addresses in none of them
 * @ret_root: for struct lg_classifier
 *
 * Return: 0, or -ENOSPC: the words do not do; with a smaller spread they may.
 */
int lg_prefix_tree_build(struct lg_tree_space *space, const struct lg_tree_prefix *v, size_t n, uint32_t any, uint32_t *ret_root);

/* By address, of equal ones the shorter first: so each comes behind those it lies in. */
int lg_tree_prefix_compare(const struct lg_tree_prefix *a, const struct lg_tree_prefix *b);
bool lg_tree_prefix_has(const struct lg_tree_prefix *prefix, uint64_t high, uint64_t low);

/* The leaf of an address. */
uint32_t lg_prefix_tree_find(const uint32_t *words, uint32_t root, uint64_t high, uint64_t low);
/*
 * Calls fn(arg, leaf, high, low) with an address of each leaf, in no order; a leaf that is in many places comes once for each. Stops
 * at the first result other than 0 and returns it.
 */
int lg_prefix_tree_walk(const uint32_t *words, uint32_t root, int (*fn)(void *arg, uint32_t leaf, uint64_t high, uint64_t low),
			void *arg);
