// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * How much of the verifier's million instructions, and of a packet's 512 bytes of stack, each program takes, against what was measured
 * when tests/golden/verifier.txt was written: a fifth more instructions, or 32 bytes more stack, is a change to be looked at. Both differ
 * by kernel and by the clang that compiled the programs; where the file does not know the two, all that is asked is to stay below half of
 * the million.
 */
#include <sys/utsname.h>

#include "progs.h"

#define LOG_BYTES 65536
#define LOG_STATS 4		/* BPF_LOG_STATS: a few lines at the end */
#define FRAME_BYTES 32		/* a frame takes a multiple of it */
#define STACK_BYTES 512
#define FUNCTIONS_MAX 64

struct verified {
	const char *kernel;	/* series, as in 6.1 */
	int clang;
	const char *program;
	uint32_t insns, stack_bytes;
};

static const struct verified golden[] = {
#define LG_VERIFIED(kernel, clang, program, insns, stack) { kernel, clang, program, insns, stack },
#include "tests/golden/verifier.txt"
#undef LG_VERIFIED
};

/* A program's functions, by where they begin, as the verifier knows them: itself first. */
struct functions {
	const struct bpf_insn *insns;
	uint32_t n_insns;
	uint32_t begin[FUNCTIONS_MAX];
	uint32_t stack_bytes[FUNCTIONS_MAX];
	uint32_t n;
};

/* Of one of its functions, or of a helper that is to call that function back. */
static bool is_call(const struct bpf_insn *insn)
{
	return (insn->code == (BPF_JMP | BPF_CALL) && insn->src_reg == BPF_PSEUDO_CALL) ||
	       (insn->code == (BPF_LD | BPF_IMM | BPF_DW) && insn->src_reg == BPF_PSEUDO_FUNC);
}

static void function_add(struct functions *f, uint32_t begin)
{
	uint32_t at = f->n;

	for (uint32_t i = 0; i < f->n; i++)
		if (f->begin[i] == begin)
			return;
	assert_in_range(f->n, 0, FUNCTIONS_MAX - 1);
	while (at > 0 && f->begin[at - 1] > begin) {
		f->begin[at] = f->begin[at - 1];
		at--;
	}
	f->begin[at] = begin;
	f->n++;
}

static void functions_find(struct functions *f, const struct bpf_program *program)
{
	*f = (struct functions){ .insns = bpf_program__insns(program), .n_insns = (uint32_t)bpf_program__insn_cnt(program) };
	function_add(f, 0);
	for (uint32_t i = 0; i < f->n_insns; i++)
		if (is_call(&f->insns[i]))
			function_add(f, i + 1 + (uint32_t)f->insns[i].imm);
}

/* "stack depth 408+64+0": one for each function. */
static void functions_read_stack(struct functions *f, const char *log)
{
	const char *at = strstr(log, "stack depth ");
	char *end;

	assert_non_null(at);
	at += strlen("stack depth ");
	for (uint32_t i = 0; i < f->n; i++) {
		f->stack_bytes[i] = (uint32_t)strtoul(at, &end, 10);
		assert_ptr_not_equal(end, at);
		at = end + (*end == '+');
	}
	assert_int_equal(*at, '\n');
}

/* What function i takes with all it calls, at the deepest place. */
static uint32_t stack_of(const struct functions *f, uint32_t i)
{
	uint32_t own = f->stack_bytes[i] ? f->stack_bytes[i] : 1, end = i + 1 < f->n ? f->begin[i + 1] : f->n_insns, most = 0, callee, below;

	for (uint32_t at = f->begin[i]; at < end; at++) {
		if (!is_call(&f->insns[at]))
			continue;
		for (callee = 0; f->begin[callee] != at + 1 + (uint32_t)f->insns[at].imm;)
			callee++;
		below = stack_of(f, callee);
		most = below > most ? below : most;
	}
	return (own + FRAME_BYTES - 1) / FRAME_BYTES * FRAME_BYTES + most;
}

static uint32_t verified_insns(const struct bpf_program *program)
{
	struct bpf_prog_info info = { 0 };
	uint32_t len = sizeof(info);

	assert_int_equal(bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &len), 0);
	return info.verified_insns;
}

static const struct verified *find(const struct verified *v)
{
	for (size_t i = 0; i < N_ELEMS(golden); i++)
		if (!strcmp(golden[i].kernel, v->kernel) && golden[i].clang == v->clang && !strcmp(golden[i].program, v->program))
			return &golden[i];
	return NULL;
}

static bool is_over(const struct verified *now)
{
	const struct verified *was = find(now);

	print_message("LG_VERIFIED(\"%s\", %d, \"%s\", %u, %u)", now->kernel, now->clang, now->program, now->insns, now->stack_bytes);
	if (!was) {
		print_message(" not known\n");
		return now->insns > 500000;
	}
	print_message(" was %u, %u\n", was->insns, was->stack_bytes);
	return now->insns > was->insns + was->insns / 5 || now->stack_bytes > was->stack_bytes + FRAME_BYTES;
}

static void programs_cost_the_verifier_what_they_did(void **state)
{
	struct progs *p = progs_open(64, false);
	static char logs[8][LOG_BYTES];
	struct bpf_program *program;
	unsigned int major, minor;
	bool any_over = false;
	struct functions f;
	struct utsname name;
	char kernel[32];
	size_t n = 0;

	(void)state;
	assert_int_equal(uname(&name), 0);
	assert_int_equal(sscanf(name.release, "%u.%u", &major, &minor), 2);
	snprintf(kernel, sizeof(kernel), "%u.%u", major, minor);
	bpf_object__for_each_program(program, p->skel->obj) {
		assert_in_range(n, 0, N_ELEMS(logs) - 1);
		assert_int_equal(bpf_program__set_log_buf(program, logs[n++], LOG_BYTES), 0);
		assert_int_equal(bpf_program__set_log_level(program, LOG_STATS), 0);
	}
	assert_int_equal(leasegate_bpf__load(p->skel), 0);
	n = 0;
	bpf_object__for_each_program(program, p->skel->obj) {
		struct verified now = { kernel, LG_CLANG, bpf_program__name(program), verified_insns(program), 0 };

		functions_find(&f, program);
		functions_read_stack(&f, logs[n++]);
		now.stack_bytes = stack_of(&f, 0);
		any_over |= is_over(&now);
		assert_in_range(now.stack_bytes, 1, STACK_BYTES);
	}
	progs_free(p);
	assert_false(any_over);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(programs_cost_the_verifier_what_they_did),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
