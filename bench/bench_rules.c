// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "bench_rules.h"

#include <stdio.h>
#include <stdlib.h>

static void put_prefix4(FILE *out, const char *name, uint32_t addr, unsigned int len)
{
	addr &= ~0u << (32 - len);
	fprintf(out, "%s: %u.%u.%u.%u/%u", name, addr >> 24, addr >> 16 & 255, addr >> 8 & 255, addr & 255, len);
}

/* A prefix of 2001:db8::/32 whose next 32 bits are `low`, as far as its length goes. */
static void put_prefix6(FILE *out, const char *name, uint32_t low, unsigned int len)
{
	low &= ~0u << (64 - len);
	fprintf(out, "%s: \"2001:db8:%x:%x::/%u\"", name, low >> 16, low & 0xffff, len);
}

static void put_filler(FILE *out, unsigned int i, unsigned int family)
{
	fprintf(out, "  - name: filler-%u\n    limit: 1000/1s\n    key: {source: 32}\n    table: exact\n    match: {", i);
	if (family == 6) {
		put_prefix6(out, "destination", 0x00100000 + i * 0x9400, 44 + i % 20);
		fputs(", ", out);
		put_prefix6(out, "source", i * 0x30000, 33 + i % 16);
	} else {
		put_prefix4(out, "destination", 0x0a100000 + i * 0x9400, 16 + i % 9);
		fputs(", ", out);
		put_prefix4(out, "source", 0x0a000000 + i * 0x30000, 8 + i % 9);
	}
	if (i % 5 || i % 20 < 17)
		fprintf(out, ", protocol: %s", i % 2 ? "udp" : "tcp");
	if (i % 20 < 11)
		fprintf(out, ", destination_port: %u", 1000 + i * 7);
	else if (i % 20 < 17)
		fprintf(out, ", destination_port: [%u-%u]", 2000 + i * 11, 2400 + i * 11);
	fputs("}\n", out);
}

char *lg_bench_rules(unsigned int n, unsigned int family, const char *last)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return NULL;
	fputs("rules:\n", out);
	for (unsigned int i = 0; i + 1 < n; i++)
		put_filler(out, i, family);
	fprintf(out, "  - name: hit\n%s\n", last);
	if (fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
}
