// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * How much of the verifier's million instructions each program takes, against what was measured when
 * tests/golden/verifier.txt was written: a fifth more is a change to be looked at. Counts differ by kernel; on one that
 * the file does not know, all that is asked is to stay below a quarter of the million.
 */
#include <sys/utsname.h>

#include "progs.h"

struct verified {
	const char *kernel;	/* series, as in 6.1 */
	const char *program;
	uint32_t insns;
};

static const struct verified golden[] = {
#define LG_VERIFIED(kernel, program, insns) { kernel, program, insns },
#include "tests/golden/verifier.txt"
#undef LG_VERIFIED
};

static uint32_t verified_insns(const struct bpf_program *program)
{
	struct bpf_prog_info info = { 0 };
	uint32_t len = sizeof(info);

	assert_int_equal(bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &len), 0);
	return info.verified_insns;
}

static uint32_t golden_insns(const char *kernel, const char *program)
{
	for (size_t i = 0; i < N_ELEMS(golden); i++) {
		if (!strcmp(golden[i].kernel, kernel) && !strcmp(golden[i].program, program))
			return golden[i].insns;
	}
	return 0;
}

static void programs_cost_the_verifier_what_they_did(void **state)
{
	struct progs *p = progs_load(64, false);
	struct bpf_program *program;
	unsigned int major, minor;
	struct utsname name;
	char kernel[32];
	uint32_t insns, was;
	bool is_over = false;

	(void)state;
	assert_int_equal(uname(&name), 0);
	assert_int_equal(sscanf(name.release, "%u.%u", &major, &minor), 2);
	snprintf(kernel, sizeof(kernel), "%u.%u", major, minor);
	bpf_object__for_each_program(program, p->skel->obj) {
		insns = verified_insns(program);
		was = golden_insns(kernel, bpf_program__name(program));
		print_message("LG_VERIFIED(\"%s\", \"%s\", %u) was %u\n", kernel, bpf_program__name(program), insns, was);
		is_over |= insns > (was ? was + was / 5 : 250000);
	}
	progs_free(p);
	assert_false(is_over);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(programs_cost_the_verifier_what_they_did),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
