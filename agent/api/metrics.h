/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * A page of Prometheus text (version 0.0.4). Families are those of metrics.def, each once with type and help; samples may be added in any
 * order and come out grouped. No label holds a client's address. */
#pragma once

#include <stdint.h>

#include "base/mem.h"
#include "base/text.h"

enum lg_metric {
#define LG_METRIC(id, name, type, help) LG_METRIC_##id,
#include "api/metrics.def"
#undef LG_METRIC
	_LG_METRIC_N
};

struct lg_metrics {
	struct lg_text family[_LG_METRIC_N];	/* sample lines; zeroed at first */
};

/* labels: pairs name, value, ended by NULL. Values are escaped. */
void lg_metrics_add(struct lg_metrics *m, enum lg_metric metric, uint64_t value, ...) __attribute__((sentinel));
/* A value in seconds or a ratio, printed with up to 9 digits after the point. */
void lg_metrics_addf(struct lg_metrics *m, enum lg_metric metric, double value, ...) __attribute__((sentinel));
/* Writes the page into *page and empties m. */
void lg_metrics_page(struct lg_metrics *m, struct lg_text *page);
