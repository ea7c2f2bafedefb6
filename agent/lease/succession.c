// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lease/succession.h"

#include <errno.h>
#include <stdlib.h>

#include "leasegate/bounds.h"

enum { STRANGER = 0, LISTED = 1, SYNCED = 2 };

struct lg_succession {
	uint64_t since_ns;
	uint64_t forgot_ns;
	uint32_t n_missing;
	bool unsettled;
	uint8_t state[LG_HOLDERS_MAX];
};

int lg_succession_new(uint64_t since_ns, struct lg_succession **ret_succession)
{
	struct lg_succession *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->since_ns = since_ns;
	*ret_succession = s;
	return 0;
}

struct lg_succession *lg_succession_free(struct lg_succession *s)
{
	free(s);
	return NULL;
}

int lg_succession_list(struct lg_succession *s, uint32_t holder)
{
	if (holder >= LG_HOLDERS_MAX)
		return -EINVAL;
	if (s->state[holder] == STRANGER) {
		s->state[holder] = LISTED;
		s->n_missing++;
	}
	return 0;
}

void lg_succession_unsettled(struct lg_succession *s)
{
	s->unsettled = true;
}

void lg_succession_synced(struct lg_succession *s, uint32_t holder)
{
	if (holder >= LG_HOLDERS_MAX || s->state[holder] != LISTED)
		return;
	s->state[holder] = SYNCED;
	s->n_missing--;
}

void lg_succession_forgot(struct lg_succession *s, uint64_t until_ns)
{
	if (until_ns > s->forgot_ns)
		s->forgot_ns = until_ns;
}

uint64_t lg_succession_forgot_ns(const struct lg_succession *s)
{
	return s->forgot_ns;
}

uint64_t lg_succession_since_ns(const struct lg_succession *s)
{
	return s->since_ns;
}

bool lg_succession_is_unsettled(const struct lg_succession *s)
{
	return s->unsettled;
}

bool lg_succession_is_listed(const struct lg_succession *s, uint32_t holder)
{
	return holder < LG_HOLDERS_MAX && s->state[holder] != STRANGER;
}

bool lg_succession_is_synced(const struct lg_succession *s, uint32_t holder)
{
	return holder < LG_HOLDERS_MAX && s->state[holder] == SYNCED;
}

uint32_t lg_succession_missing(const struct lg_succession *s)
{
	return s->n_missing;
}

bool lg_succession_knows_all(const struct lg_succession *s, const void *accounts, uint32_t n, lg_index_at index_at)
{
	uint32_t n_told = 0;

	for (uint32_t i = 0; i < n && n_told < s->n_missing; i++)
		n_told += lg_succession_is_listed(s, index_at(accounts, i)) && !lg_succession_is_synced(s, index_at(accounts, i));
	return n_told == s->n_missing;
}
