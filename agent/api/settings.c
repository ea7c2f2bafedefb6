// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "api/settings.h"

#include "base/clock.h"

static json_t *ms(uint64_t ns)
{
	return json_real((double)ns / LG_NS_PER_MS);
}

json_t *lg_settings_json(const struct lg_rule_def *rule, const struct lg_terms *t)
{
	return json_pack("{s:s, s:s, s:b, s:s, s:I, s:I, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "class", lg_class_name(rule->class),
			 "kind", lg_lease_kind_name(t->kind), "owner", t->owner, "fallback", lg_fallback_name(rule->fallback),
			 "max_outstanding_tok", (json_int_t)t->max_outstanding_tok, "cold_start_tok", (json_int_t)t->cold_tok,
			 "low_water_permille", (int)t->low_water_permille, "region_period_ms", ms(t->region_period_ns),
			 "host_period_ms", ms(t->host_period_ns), "home_tick_ms", ms(t->home_tick_ns), "region_tick_ms",
			 ms(t->region_tick_ns), "host_tick_ms", ms(t->host_tick_ns), "ttl_ms", ms(t->ttl_ns), "grace_ms",
			 ms(t->grace_ns));
}
