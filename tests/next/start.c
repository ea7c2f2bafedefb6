// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Starts an instance as the build does that it was compiled as, and prints what it finds there, one word and number a line.
 *
 *	kern-start ROOT INSTANCE refuse|migrate|discard [INTERFACE]
 *
 * With an interface it attaches there, at XDP. The exit code is an enum lg_kern_fail.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kern/kern.h"

static int print_bucket(void *arg, const struct lg_key *key, const struct lg_bucket *b)
{
	char name[64];

	(void)arg;
	snprintf(name, sizeof(name), "%u.%u", key->rule_id, key->a[15]);
	printf("granted.%s %" PRIu64 "\nspent.%s %" PRIu64 "\n", name, (uint64_t)b->granted_tok, name, (uint64_t)b->spent_tok);
	printf("full_at.%s %" PRIu64 "\ngeneration.%s %u\n", name, (uint64_t)b->full_at_vt, name, b->lease_generation);
	printf("epoch.%s %" PRIu64 "\nexpires.%s %" PRIu64 "\n", name, (uint64_t)b->lease_epoch, name, (uint64_t)b->expires_ns);
	return 0;
}

static int print_all(struct lg_kern *kern)
{
	static struct lg_rule_name names[LG_RULES_MAX + 1];
	static struct lg_ruleset set;
	struct lg_count verdicts[_LG_HOOK_N][LG_REASON_SLOTS];
	struct lg_control control;
	uint64_t n = 0;
	int r;

	r = lg_kern_control_read(kern, &control);
	if (r == 0)
		r = lg_kern_rules_read(kern, &set, names);
	if (r == 0)
		r = lg_kern_verdicts_read(kern, verdicts);
	if (r == 0)
		r = lg_kern_each_bucket(kern, print_bucket, NULL);
	if (r < 0)
		return r;
	for (int i = 0; i < _LG_HOOK_N * LG_REASON_SLOTS; i++)
		n += verdicts[i / LG_REASON_SLOTS][i % LG_REASON_SLOTS].packets;
	printf("abi %u\nincarnation %" PRIu64 "\nseed %" PRIu64 "\n", control.abi_version, (uint64_t)control.incarnation,
	       (uint64_t)control.hash_seed);
	printf("packets %" PRIu64 "\nrules %u\n", n, set.n_rules);
	for (uint32_t i = 0; i < set.n_rules; i++)
		printf("limit.%s %" PRIu64 "\n", names[set.rules[i].rule_id].name, (uint64_t)set.rules[i].cold_burst_tok);
	return 0;
}

int main(int argc, char **argv)
{
	struct lg_kern_options o = { .max_keys = 1024, .line_keys = LG_LINE_KEYS_ANY, .incarnation = 77 };
	enum lg_kern_fail fail = LG_KERN_REFUSED;
	struct lg_complaint c = { 0 };
	struct lg_attachment at;
	struct lg_kern *kern;
	int r;

	if (argc < 4)
		return 2;
	o.root = argv[1];
	o.instance = argv[2];
	if (strcmp(argv[3], "migrate") == 0)
		o.misfit = LG_MISFIT_MIGRATE;
	else if (strcmp(argv[3], "discard") == 0)
		o.misfit = LG_MISFIT_DISCARD;
	r = lg_kern_open(&o, &kern, &fail, &c);
	printf("opened %d\ntext %s\n", r, c.text);
	if (r < 0)
		return fail;
	r = lg_kern_settle(kern);
	if (r == 0 && argc > 4)
		r = lg_kern_attach(kern, argv[4], LG_HOOK_XDP, LG_MODE_XDP_NATIVE, &at, &fail, &c);
	if (r == 0)
		r = print_all(kern);
	if (r < 0)
		printf("error %d\ntext %s\n", r, c.text);
	lg_kern_free(kern);
	return r < 0 ? LG_KERN_REFUSED : 0;
}
