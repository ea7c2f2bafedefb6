// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* XDP beside programs of others, by libxdp's dispatcher: where the kernel lets programs be replaced, else how it is refused. */
#include "tests/bpf/kern_world.h"

static bool kernel_shares; /* asked by the first test */

/* A program of somebody who knows nothing of dispatchers. */
static int intruder(void)
{
	const struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 2 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	int fd = bpf_prog_load(BPF_PROG_TYPE_XDP, "intruder", "GPL", insns, 2, NULL);

	assert_true(fd >= 0);
	return fd;
}

static void sharing_works_or_is_refused_and_leaves_nothing(void **state)
{
	struct lg_attachment at;
	int r;

	(void)state;
	r = lg_kern_attach(kern, "lgk0", LG_HOOK_XDP, LG_MODE_SHARED_NATIVE, &at, &fail, &complaint);
	kernel_shares = r == 0;
	if (kernel_shares) {
		assert_int_equal(at.mode, LG_MODE_SHARED_NATIVE);
		assert_int_equal(frames_counted(LG_HOOK_XDP, "lgk1", "lgk0"), FRAMES);
		assert_int_equal(lg_kern_detach(kern, "lgk0", LG_HOOK_XDP), 0);
	} else {
		print_message("%s\n", complaint.text);
		assert_int_equal(fail, LG_KERN_FEATURE);
		assert_text_has("lgk0: sharing XDP is refused");
		assert_text_has("`attach: alone`");
	}
	assert_int_equal(xdp_prog_id("lgk0"), 0);
	assert_false(is_pinned("links/lgk0-xdp"));
}

static void two_instances_share_an_interface(void **state)
{
	struct lg_kern_options o = options("other");
	struct lg_kern *other, *own = kern;
	struct lg_attachment at, list[2];

	(void)state;
	if (!kernel_shares)
		skip();
	other = open_as(&o, 0);
	at = attach(kern, "lgk0", LG_HOOK_XDP, LG_MODE_SHARED_NATIVE);
	assert_false(at.adopted);
	assert_int_equal(attach(other, "lgk0", LG_HOOK_XDP, LG_MODE_SHARED_NATIVE).mode, LG_MODE_SHARED_NATIVE);
	assert_int_equal(frames_counted(LG_HOOK_XDP, "lgk1", "lgk0"), FRAMES);
	kern = other;
	assert_int_equal(frames_counted(LG_HOOK_XDP, "lgk1", "lgk0"), FRAMES);
	kern = own;
	assert_int_equal(lg_kern_attachments(kern, list, 2), 1);
	assert_memory_equal(&list[0], &at, sizeof(at));
	/* One goes, and the other does not notice. */
	assert_int_equal(lg_kern_detach(kern, "lgk0", LG_HOOK_XDP), 0);
	assert_int_equal(lg_kern_attached(kern, "lgk0", LG_HOOK_XDP, &at), 0);
	kern = other;
	assert_int_equal(frames_counted(LG_HOOK_XDP, "lgk1", "lgk0"), FRAMES);
	kern = own;
	assert_int_equal(lg_kern_detach(other, "lgk0", LG_HOOK_XDP), 0);
	assert_int_equal(xdp_prog_id("lgk0"), 0);
	assert_int_equal(n_links_pinned(), 0);
	lg_kern_free(other);
	assert_int_equal(lg_kern_detach_all("other", root, &fail, &complaint), 0);
}

static void what_is_shared_is_adopted_as_it_is(void **state)
{
	struct lg_attachment before, after;
	uint32_t dispatcher;

	(void)state;
	if (!kernel_shares)
		skip();
	before = attach(kern, "lgk0", LG_HOOK_XDP, LG_MODE_SHARED_NATIVE);
	dispatcher = xdp_prog_id("lgk0");
	reopen();
	after = attach(kern, "lgk0", LG_HOOK_XDP, LG_MODE_SHARED_NATIVE);
	assert_true(after.adopted);
	assert_int_equal(after.prog_id, before.prog_id);
	assert_int_equal(xdp_prog_id("lgk0"), dispatcher);
	kern = lg_kern_free(kern);
	assert_int_equal(lg_kern_detach_all("t", root, &fail, &complaint), 1);
	assert_int_equal(xdp_prog_id("lgk0"), 0);
}

/* The program among those of others is renewed before the maps that it had are forgotten, by which it is known. */
static void levels_are_carried_over_for_what_is_shared(void **state)
{
	struct lg_kern_options o = options("t");
	struct lg_attachment before, after;

	(void)state;
	if (!kernel_shares)
		skip();
	before = attach(kern, "lgk0", LG_HOOK_XDP, LG_MODE_SHARED_NATIVE);
	kern = lg_kern_free(kern);
	o.misfit = LG_MISFIT_MIGRATE;
	o.max_keys *= 2;
	kern = open_as(&o, 1);
	assert_int_equal(lg_kern_attached(kern, "lgk0", LG_HOOK_XDP, &after), 1);
	assert_int_not_equal(after.prog_id, before.prog_id);
	assert_int_equal(attach(kern, "lgk0", LG_HOOK_XDP, LG_MODE_SHARED_NATIVE).prog_id, after.prog_id);
	assert_int_equal(frames_counted(LG_HOOK_XDP, "lgk1", "lgk0"), FRAMES);
	assert_int_equal(lg_kern_detach(kern, "lgk0", LG_HOOK_XDP), 0);
	assert_int_equal(xdp_prog_id("lgk0"), 0);
	kern = lg_kern_free(kern);
	assert_int_equal(lg_kern_detach_all("t", root, &fail, &complaint), 0);
}

static void a_change_between_alone_and_shared_is_carried_out(void **state)
{
	static const enum lg_attach_mode modes[] = { LG_MODE_XDP_NATIVE, LG_MODE_SHARED_NATIVE, LG_MODE_SHARED_GENERIC, LG_MODE_XDP_GENERIC };

	(void)state;
	if (!kernel_shares)
		skip();
	for (size_t i = 0; i < N_ELEMS(modes); i++) {
		assert_int_equal(attach(kern, "lgk0", LG_HOOK_XDP, modes[i]).mode, modes[i]);
		assert_int_equal(n_links_pinned(), 1);
		assert_int_equal(frames_counted(LG_HOOK_XDP, "lgk1", "lgk0"), FRAMES);
	}
}

static void an_interface_that_goes_leaves_no_record(void **state)
{
	struct lg_attachment list[2];

	(void)state;
	if (!kernel_shares)
		skip();
	attach(kern, "lgk0", LG_HOOK_XDP, LG_MODE_SHARED_NATIVE);
	run("ip link del lgk0");
	assert_int_equal(lg_kern_attachments(kern, list, 2), 0);
	assert_int_equal(lg_kern_detach(kern, "lgk0", LG_HOOK_XDP), 0);
	assert_int_equal(n_links_pinned(), 0);
}

static void a_program_that_stands_alone_is_named_and_left(void **state)
{
	int fd = intruder();
	struct lg_attachment at;

	(void)state;
	assert_int_equal(bpf_xdp_attach((int)if_nametoindex("lgk0"), fd, XDP_FLAGS_DRV_MODE, NULL), 0);
	assert_int_equal(lg_kern_attach(kern, "lgk0", LG_HOOK_XDP, LG_MODE_SHARED_NATIVE, &at, &fail, &complaint), -EBUSY);
	assert_int_equal(fail, LG_KERN_REFUSED);
	assert_text_has("'intruder'");
	assert_int_not_equal(xdp_prog_id("lgk0"), 0);
	assert_int_equal(bpf_xdp_detach((int)if_nametoindex("lgk0"), XDP_FLAGS_DRV_MODE, NULL), 0);
	close(fd);
}

/* libxdp pins in a bpf file system, too: in the test's own. */
static int shared_setup(void **state)
{
	int r = group_setup(state);

	return r ? r : setenv("LIBXDP_BPFFS", base, 1);
}

static int shared_teardown(void **state)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/xdp", base);
	assert_in_range(n_entries(path) + 1, 0, 1);
	rmdir(path);
	return group_teardown(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(sharing_works_or_is_refused_and_leaves_nothing),
		T(two_instances_share_an_interface),
		T(what_is_shared_is_adopted_as_it_is),
		T(levels_are_carried_over_for_what_is_shared),
		T(a_change_between_alone_and_shared_is_carried_out),
		T(an_interface_that_goes_leaves_no_record),
		T(a_program_that_stands_alone_is_named_and_left),
	};

	return cmocka_run_group_tests_name("kern_shared", tests, shared_setup, shared_teardown);
}
