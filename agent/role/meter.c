// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Why these numbers: a region with period T sends 1 / T reports per second of a key and strands up to the arrivals of T, so reports per
 * second times worst outstanding is at least arrivals times active regions, whatever T is. Over several keys of one period the sums obey
 * the same law when active regions are counted for each key: (R K / T) x (a K T) = (a K) x (R K).
 *
 * The home's own region is no active one and its reports are none: they go through memory. What it holds counts as outstanding.
 */
#include "role/meter.h"

#include <string.h>

#include "base/clock.h"

#define N_SECONDS (LG_METER_SECONDS + 1)

static struct lg_meter_second *second_of(struct lg_meter *m, uint64_t s)
{
	return &m->seconds[s % N_SECONDS];
}

static struct lg_meter_second *advance(struct lg_meter *m, uint64_t now_ns)
{
	uint64_t now_s = now_ns / LG_NS_PER_S;

	/* After a long pause no second before the last N_SECONDS is looked at. */
	if (now_s > m->now_s + N_SECONDS)
		m->now_s = now_s - N_SECONDS;
	while (m->now_s < now_s)
		*second_of(m, ++m->now_s) = (struct lg_meter_second){ .worst_tok = m->outstanding_tok };
	return second_of(m, m->now_s);
}

void lg_meter_init(struct lg_meter *m, uint64_t now_ns)
{
	memset(m, 0, sizeof(*m));
	m->now_s = now_ns / LG_NS_PER_S;
	m->first_s = m->now_s + 1;
}

void lg_meter_report(struct lg_meter *m, enum lg_tier tier, uint64_t now_ns)
{
	m->n_reports[tier]++;
	advance(m, now_ns)->n_reports[tier]++;
}

void lg_meter_grant(struct lg_meter *m, enum lg_tier tier, uint64_t now_ns)
{
	m->n_grants[tier]++;
	advance(m, now_ns)->n_grants[tier]++;
}

void lg_meter_outstanding(struct lg_meter *m, uint64_t before_tok, uint64_t now_tok, uint64_t now_ns)
{
	struct lg_meter_second *s = advance(m, now_ns);

	m->outstanding_tok += now_tok - before_tok;
	if (m->outstanding_tok > s->worst_tok)
		s->worst_tok = m->outstanding_tok;
}

void lg_meter_sample(struct lg_meter *m, uint64_t demand_mtps, uint32_t active, uint64_t now_ns)
{
	struct lg_meter_second *s = advance(m, now_ns);

	s->demand_mtps = demand_mtps;
	s->active = active;
	s->sampled = true;
}

void lg_meter_read(struct lg_meter *m, uint64_t now_ns, struct lg_meter_reading *ret)
{
	struct lg_meter_reading r = { 0 };
	uint64_t from_s, n_samples = 0;
	double law;

	advance(m, now_ns);
	from_s = m->now_s > m->first_s + LG_METER_SECONDS ? m->now_s - LG_METER_SECONDS : m->first_s;
	for (uint64_t at_s = from_s; at_s < m->now_s; at_s++) {
		const struct lg_meter_second *s = second_of(m, at_s);

		r.seconds++;
		for (int tier = 0; tier < _LG_TIER_N; tier++) {
			r.reports_per_s[tier] += s->n_reports[tier];
			r.grants_per_s[tier] += s->n_grants[tier];
		}
		if (s->worst_tok > r.worst_tok)
			r.worst_tok = s->worst_tok;
		n_samples += s->sampled;
		r.demand_tps += s->sampled ? (double)s->demand_mtps / 1000 : 0;
		r.active += s->sampled ? s->active : 0;
	}
	for (int tier = 0; r.seconds && tier < _LG_TIER_N; tier++) {
		r.reports_per_s[tier] /= r.seconds;
		r.grants_per_s[tier] /= r.seconds;
	}
	if (n_samples) {
		r.demand_tps /= (double)n_samples;
		r.active /= (double)n_samples;
	}
	r.product = r.reports_per_s[LG_TIER_HOME] * (double)r.worst_tok;
	law = r.demand_tps * r.active;
	r.ratio = law > 0 ? r.product / law : 0;
	*ret = r;
}
