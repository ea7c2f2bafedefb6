/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Rows of service: a scene, and the bands that hold for any seed. A row that is out of its band is told, and the others are still run.
 */
#pragma once

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/sim_scene.h"

#define BUCKET LG_TOKEN_BUCKET
#define WINDOW LG_SLIDING_WINDOW
#define FIXED LG_FIXED_WINDOW
#define BLOCKS LG_LEASE_BLOCK
#define PARTS LG_LEASE_LIMIT
#define MINUTE .limit_tok = 10000, .per_s = 60, .warm_s = 120, .end_s = 360
#define TEN_S .limit_tok = 10000, .per_s = 10, .warm_s = 40, .end_s = 140
#define SECOND .limit_tok = 1000, .per_s = 1, .warm_s = 10, .end_s = 70

struct row {
	struct scene scene;
	double least;	/* served */
	double most;	/* 0: no more than perfect, give or take the edges of the measurement */
	double back_s;	/* after the event at the latest, of three or more seeds by the median; 0: no matter */
	double small;	/* of its own offer the farthest region is served at least */
};

static inline const char *algorithm_name(const struct scene *c)
{
	return c->algorithm == BUCKET ? "bucket" : c->algorithm == FIXED ? "fixed" : "window";
}

/* Runs it, says what came out, and returns it. */
static inline struct scene_result measured(const char *what, const struct scene *c)
{
	struct scene_result r;

	scene_run(c, &r);
	print_message("%s, %s %llu per %.0f s, %.2fx: served %.4f, back %.1f s, lost %.2f s, home %.2f + %.2f msg/s, regions %.1f + %.1f, "
		      "out %.0f, varies %.3f\n", what, algorithm_name(c), (unsigned long long)c->limit_tok, c->per_s, c->load, r.served,
		      r.back_s, r.lost_s, r.reports_per_s, r.grants_per_s, r.host_reports_per_s, r.host_grants_per_s, r.out_tok, r.variation);
	if (c->shape == SCENE_RIVALS)
		print_message("the small one is served %.4f of its offer\n", r.region[SCENE_FAR]);
	return r;
}

static inline bool row_holds(const struct row *row, const struct scene_result *r)
{
	double back_s = row->scene.n_seeds > 2 ? r->median_back_s : r->back_s;

	if (r->served < row->least || r->served > (row->most > 0 ? row->most : 1.01))
		print_error("served %.4f, not between %.4f and %.4f\n", r->served, row->least, row->most > 0 ? row->most : 1.01);
	else if (row->back_s > 0 && back_s > row->back_s)
		print_error("back after %.1f s, not within %.1f\n", back_s, row->back_s);
	else if (r->region[SCENE_FAR] < row->small)
		print_error("the small one is served %.4f of its offer, not %.4f\n", r->region[SCENE_FAR], row->small);
	else
		return true;
	return false;
}

static inline void check_rows(const char *what, const struct row *rows, size_t n)
{
	size_t n_bad = 0;

	for (size_t i = 0; i < n; i++) {
		struct scene_result r = measured(what, &rows[i].scene);

		n_bad += !row_holds(&rows[i], &r);
	}
	assert_int_equal(n_bad, 0);
}

#define CHECK(what, ...)                                                         \
	do {                                                                     \
		static const struct row rows[] = { __VA_ARGS__ };                \
		(void)state;                                                     \
		check_rows(what, rows, sizeof(rows) / sizeof(rows[0]));          \
	} while (0)
