/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * What a global rule's class and what is written stand for together, as the daemons and the tool tell it. */
#pragma once

#include <jansson.h>

#include "lease/terms.h"

/* {"class": ..., "kind": "block"|"limit", "owner": bool, "fallback": ..., "max_outstanding_tok": ..., periods, ...}; NULL: no memory. */
json_t *lg_settings_json(const struct lg_rule_def *rule, const struct lg_terms *terms);
