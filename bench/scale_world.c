// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Which keys there are, where they have traffic and how much, and who is connected with whom. */
#include "bench/scale_world.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "leasegate/abi.h"
#include "lease/hash.h"

static const char *const region_names[SCALE_REGIONS] = { "eu-north", "eu-west", "us-east", "us-west", "ap-south" };

static uint8_t home_of(uint32_t key)
{
	uint8_t bytes[sizeof("per-client") + 4 + 16 + 16] = "per-client";
	uint8_t *at = bytes + sizeof("per-client");

	at[0] = LG_FORM_SOURCE;
	at[4 + 10] = at[4 + 11] = 0xff;
	memcpy(at + 4 + 12, &key, 4);
	return (uint8_t)lg_home_of(region_names, SCALE_REGIONS, bytes, sizeof(bytes));
}

static uint8_t n_parts_of(const struct scale_load *l, uint32_t key)
{
	double x = (double)(scale_hash(l->seed + key) >> 11) * 0x1p-53;

	return x < l->share_all ? SCALE_REGIONS : x < l->share_all + l->share_two ? 2 : 1;
}

static uint16_t n_hosts_of(const struct scale_load *l, double part_per_s)
{
	double n = l->key_per_host_per_s > 0 ? ceil(part_per_s / l->key_per_host_per_s) : 1;

	return (uint16_t)(n < 1 ? 1 : n > l->hosts ? l->hosts : n);
}

/* Which keys there are, where they have traffic, and how much. */
static int lay_out(struct model *m)
{
	const struct scale_load *l = &m->load;
	_cleanup_free_ double *weights = calloc(l->n_keys, sizeof(*weights));
	double sum = 0;

	m->keys = calloc(l->n_keys, sizeof(*m->keys));
	m->parts = calloc((size_t)l->n_keys * SCALE_REGIONS, sizeof(*m->parts));
	if (!weights || !m->keys || !m->parts)
		return -ENOMEM;
	for (uint32_t i = 0; i < l->n_keys; i++)
		sum += weights[i] = pow(i + 1, -l->zipf);
	for (uint32_t i = 0; i < l->n_keys; i++) {
		struct key *k = &m->keys[i];

		*k = (struct key){ .first_part = m->n_parts, .n_parts = n_parts_of(l, i), .at = home_of(i) };
		for (uint32_t j = 0; j < k->n_parts; j++) {
			struct part *p = &m->parts[m->n_parts++];

			*p = (struct part){ .key = i, .first_place = m->n_places };
			p->at = (uint8_t)((scale_hash(i) + j) % SCALE_REGIONS);
			p->first_host = (uint16_t)(scale_hash(i * 5 + j + 1) % l->hosts);
			p->n_hosts = n_hosts_of(l, l->requests_per_s * weights[i] / sum / k->n_parts);
			m->n_places += p->n_hosts;
		}
	}
	return scale_alias_init(&m->alias, weights, l->n_keys);
}

static int place_all(struct model *m)
{
	m->places = calloc(m->n_places, sizeof(*m->places));
	if (!m->places)
		return -ENOMEM;
	for (uint32_t i = 0; i < m->n_parts; i++)
		for (uint32_t j = 0; j < m->parts[i].n_hosts; j++)
			m->places[m->parts[i].first_place + j].part = i;
	return scale_wheel_init(&m->wheel, m->n_places + m->n_parts + m->load.n_keys, (uint32_t)SCALE_START_MS);
}

static int connect_all(struct model *m)
{
	uint32_t n_hosts = SCALE_REGIONS * m->load.hosts;

	m->host_up = calloc(n_hosts, sizeof(*m->host_up));
	m->host_holding = calloc(n_hosts, sizeof(*m->host_holding));
	for (int i = 0; i < 2; i++)
		m->host_streams[i] = calloc(n_hosts, sizeof(struct stream));
	if (!m->host_up || !m->host_holding || !m->host_streams[0] || !m->host_streams[1])
		return -ENOMEM;
	for (uint32_t i = 0; i < n_hosts; i++) {
		m->host_up[i] = (struct lg_upstream){ .up = true, .epoch = SCALE_EPOCH, .rand = scale_hash(i) };
		m->host_holding[i] = (struct lg_holding){ .terms = &m->terms, .upstream = &m->host_up[i] };
	}
	for (uint32_t i = 0; i < SCALE_REGIONS; i++) {
		m->region_lessor[i] = (struct lg_lessor){ .terms = &m->terms, .epoch = SCALE_EPOCH, .rand = scale_hash(~i) };
		m->home_lessor[i] = (struct lg_lessor){ .terms = &m->terms, .epoch = SCALE_EPOCH, .rand = scale_hash(~i - 9) };
		for (uint32_t j = 0; j < SCALE_REGIONS; j++) {
			m->region_up[i][j] = (struct lg_upstream){ .up = true, .epoch = SCALE_EPOCH, .rand = scale_hash(i * 8 + j) };
			m->region_holding[i][j] = (struct lg_holding){ .terms = &m->terms, .upstream = &m->region_up[i][j] };
		}
	}
	return 0;
}

static void terms_init(struct model *m)
{
	const struct scale_load *l = &m->load;
	const struct lg_rule_def rule = { .algorithm = LG_TOKEN_BUCKET, .limit_tok = l->limit_tok, .per_ns = 60000000000ull,
					  .burst_tok = l->burst_tok, .lease = { .rpc_budget_mps = l->rpc_budget_mps } };
	const struct lg_fleet fleet = { .regions = SCALE_REGIONS, .hosts = SCALE_REGIONS * l->hosts, .far_rtt_ns = 150000000 };

	lg_terms_init(&rule, &fleet, &m->terms);
	m->terms.kind = LG_LEASE_BLOCK;
}

int scale_world_init(struct model *m, const struct scale_load *load)
{
	int r;

	m->load = *load;
	m->rand = load->seed;
	m->now_ms = SCALE_START_MS;
	m->r.worst_over_tok = INT64_MIN;
	for (uint32_t i = 0; i < DELAYS_MAX; i++)
		m->under_way[i].end = &m->under_way[i].first;
	terms_init(m);
	r = lay_out(m);
	if (r == 0)
		r = place_all(m);
	return r == 0 ? connect_all(m) : r;
}

void scale_world_free(struct model *m)
{
	for (uint32_t i = 0; m->places && i < m->n_places; i++)
		lg_lessee_free(m->places[i].lessee);
	for (uint32_t i = 0; m->parts && i < m->n_parts; i++)
		lg_region_free(m->parts[i].region);
	for (uint32_t i = 0; m->keys && i < m->load.n_keys; i++)
		lg_home_free(m->keys[i].home);
	for (uint32_t i = 0; i < DELAYS_MAX; i++)
		while (m->under_way[i].first) {
			struct message *msg = m->under_way[i].first;

			m->under_way[i].first = msg->next;
			free(msg);
		}
	scale_alias_fini(&m->alias);
	scale_wheel_fini(&m->wheel);
	lg_text_fini(&m->text);
	free(m->places);
	free(m->parts);
	free(m->keys);
	free(m->host_up);
	free(m->host_holding);
	free(m->host_streams[0]);
	free(m->host_streams[1]);
	free(m);
}
