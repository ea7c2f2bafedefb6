// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Probes that need no privilege, on what every machine has. */
#include "kern/facts.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void a_path_lies_on_the_file_system_of_its_nearest_folder(void **state)
{
	static const struct { const char *path, *at, *name; } rows[] = {
		{ "/proc", "/proc", "proc" },
		{ "/proc/self/none/such", "/proc/self", "proc" },
		{ "/sys/kernel/none", "/sys/kernel", "sysfs" },
	};
	char at[64], name[24], long_path[400];
	bool read_only;

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		assert_int_equal(lg_probe_file_system(rows[i].path, at, sizeof(at), name, sizeof(name), &read_only), 0);
		assert_string_equal(at, rows[i].at);
		assert_string_equal(name, rows[i].name);
	}
	assert_int_equal(lg_probe_file_system("none/such", at, sizeof(at), name, sizeof(name), &read_only), -ENOENT);
	assert_int_equal(lg_probe_file_system("/proc/version/x", at, sizeof(at), name, sizeof(name), &read_only), -ENOTDIR);
	/* One that does not fit is cut, and its folders are looked at all the same. */
	memset(long_path, 'x', sizeof(long_path) - 1);
	long_path[sizeof(long_path) - 1] = '\0';
	memcpy(long_path, "/proc/self/", 11);
	assert_int_equal(lg_probe_file_system(long_path, at, sizeof(at), name, sizeof(name), &read_only), 0);
	assert_string_equal(at, "/proc/self");
}

static void the_loopback_is_known_as_such(void **state)
{
	struct lg_interface_facts i;

	(void)state;
	for (int others = 0; others < 2; others++) {
		lg_probe_interface("lo", others, &i);
		assert_string_equal(i.name, "lo");
		assert_true(i.ifindex > 0 && i.is_loopback && i.mtu >= 1280);
		assert_string_equal(i.kind, "");
		assert_true(!i.master[0] && !i.lower[0] && !i.n_ports && !i.n_children);
		assert_int_not_equal(i.gro, LG_NOT_KNOWN);
		assert_int_not_equal(i.rx_vlan, LG_NOT_KNOWN);
	}
}

static void an_interface_that_is_not_there_has_no_index(void **state)
{
	struct lg_interface_facts i;

	(void)state;
	lg_probe_interface("lgt-none0", true, &i);
	assert_string_equal(i.name, "lgt-none0");
	assert_int_equal(i.ifindex, 0);
	assert_int_equal(i.mtu, 0);
}

static void maps_are_told_as_the_options_size_them(void **state)
{
	struct lg_kern_options o = { .instance = "x", .max_keys = 1000, .log_keys = 7, .max_rules = 3 };
	struct lg_map_facts maps[LG_MAPS_MAX];
	int n = lg_kern_maps_look(&o, maps, N_ELEMS(maps));
	bool keys = false, logs = false;

	(void)state;
	assert_in_range(n, 10, LG_MAPS_MAX - 1);
	for (int k = 0; k < n; k++) {
		if (strcmp(maps[k].name, "buckets") == 0)
			keys = maps[k].max_entries == 1000 && maps[k].value_bytes == sizeof(struct lg_bucket);
		if (strcmp(maps[k].name, "logs") == 0)
			logs = maps[k].max_entries == 7;
	}
	assert_true(keys && logs);
	assert_int_equal(lg_kern_maps_look(&o, maps, 2), 2);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_path_lies_on_the_file_system_of_its_nearest_folder),
		cmocka_unit_test(the_loopback_is_known_as_such),
		cmocka_unit_test(an_interface_that_is_not_there_has_no_index),
		cmocka_unit_test(maps_are_told_as_the_options_size_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
