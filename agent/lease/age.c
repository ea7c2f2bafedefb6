// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lease/age.h"

#include "lease/arith.h"

#define NS_PER_MS 1000000ull

uint64_t lg_age_ms(uint64_t end_ns, uint64_t now_ns)
{
	return lg_sub_floor(lg_mul_div(lg_sub_floor(now_ns, end_ns), 998, 1000) / NS_PER_MS, 1);
}

uint64_t lg_age_end_ns(uint64_t age_ms, uint64_t now_ns)
{
	return lg_sub_floor(now_ns, lg_mul_div(age_ms, NS_PER_MS, 1));
}
