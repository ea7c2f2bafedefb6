// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Attaching to real interfaces: XDP, tcx and clsact, what is there already, and what comes and goes. */
#include "tests/bpf/kern_world.h"

#include "kern/internal.h"

/* A program that lets everything pass, of somebody else. */
static int intruder(enum bpf_prog_type type)
{
	const struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = type == BPF_PROG_TYPE_XDP ? 2 : -1 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	int fd = bpf_prog_load(type, "intruder", "GPL", insns, 2, NULL);

	assert_true(fd >= 0);
	return fd;
}

static uint32_t prog_id_of(int fd)
{
	struct bpf_prog_info info = { 0 };
	__u32 len = sizeof(info);

	assert_int_equal(bpf_obj_get_info_by_fd(fd, &info, &len), 0);
	return info.id;
}

/* From kernel 6.6 on. */
static bool kernel_has_tcx(void)
{
	struct lg_attachment at = attach(kern, "lgk0", LG_HOOK_TC_INGRESS, LG_MODE_NONE);

	assert_int_equal(lg_kern_detach(kern, "lgk0", LG_HOOK_TC_INGRESS), 0);
	return at.mode == LG_MODE_TCX;
}

/* ---- attaching ---- */

static void each_way_of_attaching_sees_each_frame_once(void **state)
{
	static const struct {
		enum lg_hook hook;
		enum lg_attach_mode mode;
	} rows[] = {
		{ LG_HOOK_XDP, LG_MODE_XDP_NATIVE },	 { LG_HOOK_XDP, LG_MODE_XDP_GENERIC },
		{ LG_HOOK_TC_INGRESS, LG_MODE_TCX },	 { LG_HOOK_TC_EGRESS, LG_MODE_TCX },
		{ LG_HOOK_TC_INGRESS, LG_MODE_CLSACT }, { LG_HOOK_TC_EGRESS, LG_MODE_CLSACT },
	};
	bool tcx = kernel_has_tcx();

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		bool egress = rows[i].hook == LG_HOOK_TC_EGRESS;
		const char *from = egress ? "lgk0" : "lgk1", *to = egress ? "lgk1" : "lgk0";
		struct lg_attachment at, list[2];

		if (rows[i].mode == LG_MODE_TCX && !tcx)
			continue;
		at = attach(kern, "lgk0", rows[i].hook, rows[i].mode);
		assert_int_equal(at.mode, rows[i].mode);
		assert_int_equal(at.link_id == 0, rows[i].mode == LG_MODE_CLSACT);
		assert_int_not_equal(at.prog_id, 0);
		assert_false(at.adopted);
		/* Again is the same, and no second one. */
		attach(kern, "lgk0", rows[i].hook, rows[i].mode);
		assert_int_equal(frames_counted(rows[i].hook, from, to), FRAMES);
		assert_int_equal(lg_kern_attachments(kern, list, 2), 1);
		assert_memory_equal(&list[0], &at, sizeof(at));
		assert_int_equal(lg_kern_attachments(kern, list, 0), 0);

		assert_int_equal(lg_kern_detach(kern, "lgk0", rows[i].hook), 0);
		assert_int_equal(lg_kern_attachments(kern, list, 2), 0);
		assert_int_equal(n_links_pinned(), 0);
		assert_int_equal(frames_counted(rows[i].hook, from, to), 0);
		assert_int_equal(lg_kern_detach(kern, "lgk0", rows[i].hook), 0);
	}
}

/* Which hooks have a program in this process, a bit for each. */
static unsigned int hooks_loaded(void)
{
	unsigned int hooks = 0;

	for (int hook = 0; hook < _LG_HOOK_N; hook++)
		hooks |= kern->prog_fd[hook] >= 0 ? 1u << hook : 0;
	return hooks;
}

static void a_program_is_loaded_when_its_hook_is_used(void **state)
{
	struct lg_kern_options o = options("t");
	struct lg_attachment at;

	(void)state;
	kern = lg_kern_free(kern);
	o.unused_hooks = 1u << LG_HOOK_XDP | 1u << LG_HOOK_TC_INGRESS | 1u << LG_HOOK_TC_EGRESS;
	kern = open_as(&o, 1);
	assert_int_equal(hooks_loaded(), 0);
	attach(kern, "lgk0", LG_HOOK_TC_INGRESS, LG_MODE_NONE);
	assert_int_equal(hooks_loaded(), 1u << LG_HOOK_TC_INGRESS);
	assert_int_equal(frames_counted(LG_HOOK_TC_INGRESS, "lgk1", "lgk0"), FRAMES);
	/* What an earlier process attached gets this one's program, whatever is used. */
	kern = lg_kern_free(kern);
	kern = open_as(&o, 1);
	assert_int_equal(hooks_loaded(), 1u << LG_HOOK_TC_INGRESS);
	assert_int_equal(lg_kern_attached(kern, "lgk0", LG_HOOK_TC_INGRESS, &at), 1);
	assert_true(at.adopted);
	assert_int_equal(frames_counted(LG_HOOK_TC_INGRESS, "lgk1", "lgk0"), FRAMES);
	assert_int_equal(lg_kern_detach(kern, "lgk0", LG_HOOK_TC_INGRESS), 0);
	kern = lg_kern_free(kern);
	o.unused_hooks = 0;
	kern = open_as(&o, 1);
	assert_int_equal(hooks_loaded(), 1u << LG_HOOK_XDP | 1u << LG_HOOK_TC_INGRESS | 1u << LG_HOOK_TC_EGRESS);
}

static void tcx_on_a_kernel_without_it_is_refused_and_clsact_taken_instead(void **state)
{
	struct lg_attachment at;

	(void)state;
	if (kernel_has_tcx())
		return;
	assert_int_equal(lg_kern_attach(kern, "lgk0", LG_HOOK_TC_INGRESS, LG_MODE_TCX, &at, &fail, &complaint), -EOPNOTSUPP);
	assert_int_equal(fail, LG_KERN_FEATURE);
	assert_text_has("no tcx");
	assert_int_equal(attach(kern, "lgk0", LG_HOOK_TC_INGRESS, LG_MODE_NONE).mode, LG_MODE_CLSACT);
}

static void modes_that_do_not_fit_the_hook_and_unknown_interfaces_are_refused(void **state)
{
	struct lg_attachment at;

	(void)state;
	assert_int_equal(lg_kern_attach(kern, "lgk0", LG_HOOK_XDP, LG_MODE_TCX, &at, &fail, &complaint), -EINVAL);
	assert_int_equal(lg_kern_attach(kern, "lgk0", LG_HOOK_TC_EGRESS, LG_MODE_XDP_NATIVE, &at, &fail, &complaint), -EINVAL);
	assert_int_equal(lg_kern_attach(kern, "nowhere", LG_HOOK_XDP, LG_MODE_XDP_NATIVE, &at, &fail, &complaint), -ENODEV);
	assert_int_equal(fail, LG_KERN_REFUSED);
	assert_text_has("nowhere: no such interface");
	assert_int_equal(lg_kern_detach(kern, "nowhere", LG_HOOK_XDP), 0);
}

static void a_foreign_xdp_program_is_named_and_left(void **state)
{
	static const struct {
		uint32_t flags;
		enum lg_attach_mode ours;
	} rows[] = {
		{ XDP_FLAGS_DRV_MODE, LG_MODE_XDP_NATIVE },
		{ XDP_FLAGS_SKB_MODE, LG_MODE_XDP_GENERIC },
		{ XDP_FLAGS_SKB_MODE, LG_MODE_XDP_NATIVE },
		{ XDP_FLAGS_DRV_MODE, LG_MODE_XDP_GENERIC },
	};
	int ifindex = (int)if_nametoindex("lgk0");
	int fd = intruder(BPF_PROG_TYPE_XDP);
	char id[32];

	(void)state;
	snprintf(id, sizeof(id), "id %u", prog_id_of(fd));
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		struct lg_attachment at;

		assert_int_equal(bpf_xdp_attach(ifindex, fd, rows[i].flags, NULL), 0);
		assert_int_equal(lg_kern_attach(kern, "lgk0", LG_HOOK_XDP, rows[i].ours, &at, &fail, &complaint), -EBUSY);
		assert_int_equal(fail, LG_KERN_REFUSED);
		assert_text_has(id);
		assert_text_has("'intruder'");
		assert_int_equal(xdp_prog_id("lgk0"), prog_id_of(fd));
		assert_int_equal(lg_kern_detach(kern, "lgk0", LG_HOOK_XDP), 0);
		assert_int_equal(xdp_prog_id("lgk0"), prog_id_of(fd));
		assert_int_equal(bpf_xdp_detach(ifindex, rows[i].flags, NULL), 0);
	}
	close(fd);
}

static void native_xdp_that_the_driver_refuses_names_the_reason_and_the_way_out(void **state)
{
	struct lg_attachment at;
	int r;

	(void)state;
	run("ip link set lo up");
	r = lg_kern_attach(kern, "lo", LG_HOOK_XDP, LG_MODE_XDP_NATIVE, &at, &fail, &complaint);
	assert_int_equal(r, -EOPNOTSUPP);
	assert_int_equal(fail, LG_KERN_FEATURE);
	assert_text_has("lo: native XDP is refused");
	assert_text_has("xdp: generic");
	assert_int_equal(xdp_prog_id("lo"), 0);
	assert_false(is_pinned("links/lo-xdp"));
	/* Nothing else was tried; asked for, the other mode works. */
	assert_int_equal(attach(kern, "lo", LG_HOOK_XDP, LG_MODE_XDP_GENERIC).mode, LG_MODE_XDP_GENERIC);
	/* And stays when a change to what the driver cannot is asked for. */
	assert_int_equal(lg_kern_attach(kern, "lo", LG_HOOK_XDP, LG_MODE_XDP_NATIVE, &at, &fail, &complaint), -EOPNOTSUPP);
	assert_int_not_equal(xdp_prog_id("lo"), 0);
	assert_true(is_pinned("links/lo-xdp"));
	assert_int_equal(lg_kern_detach(kern, "lo", LG_HOOK_XDP), 0);
	assert_int_equal(xdp_prog_id("lo"), 0);
}

static void the_words_of_the_driver_reach_the_complaint(void **state)
{
	struct lg_attachment at;
	int r;

	(void)state;
	/* veth refuses XDP when its peer's queues do not fit: a refusal that the kernel explains. */
	run("ip link add lgk2 numrxqueues 1 numtxqueues 1 type veth peer name lgk3 numrxqueues 2 numtxqueues 2");
	r = lg_kern_attach(kern, "lgk2", LG_HOOK_XDP, LG_MODE_XDP_NATIVE, &at, &fail, &complaint);
	assert_int_equal(r, -ENOSPC);
	assert_int_equal(fail, LG_KERN_FEATURE);
	assert_text_has("XDP expects number of rx queues not less than peer tx queues");
}

/* Frames above a page come in fragments, which the program must be made for. */
static void jumbo_frames_do_not_keep_native_xdp_away(void **state)
{
	static const int mtus[] = { 3400, 3600, 9000 };

	(void)state;
	for (size_t i = 0; i < N_ELEMS(mtus); i++) {
		run("ip link set lgk0 mtu %d && ip link set lgk1 mtu %d", mtus[i], mtus[i]);
		assert_int_equal(attach(kern, "lgk0", LG_HOOK_XDP, LG_MODE_XDP_NATIVE).mode, LG_MODE_XDP_NATIVE);
		assert_int_equal(frames_counted(LG_HOOK_XDP, "lgk1", "lgk0"), FRAMES);
		assert_int_equal(lg_kern_detach(kern, "lgk0", LG_HOOK_XDP), 0);
	}
}

static void a_change_of_xdp_mode_is_carried_out(void **state)
{
	struct lg_attachment native, generic;

	(void)state;
	native = attach(kern, "lgk0", LG_HOOK_XDP, LG_MODE_XDP_NATIVE);
	generic = attach(kern, "lgk0", LG_HOOK_XDP, LG_MODE_XDP_GENERIC);
	assert_int_equal(generic.mode, LG_MODE_XDP_GENERIC);
	assert_int_not_equal(native.link_id, generic.link_id);
	assert_int_equal(n_links_pinned(), 1);
	assert_int_equal(frames_counted(LG_HOOK_XDP, "lgk1", "lgk0"), FRAMES);
}

static void tc_changes_between_tcx_and_clsact_without_counting_twice(void **state)
{
	struct lg_attachment at, list[4];

	(void)state;
	if (!kernel_has_tcx())
		return;
	at = attach(kern, "lgk0", LG_HOOK_TC_INGRESS, LG_MODE_CLSACT);
	/* No wish: what is there stays. */
	assert_int_equal(attach(kern, "lgk0", LG_HOOK_TC_INGRESS, LG_MODE_NONE).mode, LG_MODE_CLSACT);
	at = attach(kern, "lgk0", LG_HOOK_TC_INGRESS, LG_MODE_TCX);
	assert_int_equal(at.mode, LG_MODE_TCX);
	assert_int_equal(lg_kern_attachments(kern, list, 4), 1);
	assert_int_equal(frames_counted(LG_HOOK_TC_INGRESS, "lgk1", "lgk0"), FRAMES);
	at = attach(kern, "lgk0", LG_HOOK_TC_INGRESS, LG_MODE_CLSACT);
	assert_int_equal(at.mode, LG_MODE_CLSACT);
	assert_int_equal(lg_kern_attachments(kern, list, 4), 1);
	assert_int_equal(frames_counted(LG_HOOK_TC_INGRESS, "lgk1", "lgk0"), FRAMES);
}

static void an_interface_made_again_under_its_name_is_attached_anew(void **state)
{
	static const enum lg_attach_mode modes[] = { LG_MODE_NONE, LG_MODE_CLSACT };

	(void)state;
	for (size_t i = 0; i < N_ELEMS(modes); i++) {
		struct lg_attachment before, after, list[4];

		before = attach(kern, "lgk0", LG_HOOK_XDP, LG_MODE_XDP_NATIVE);
		attach(kern, "lgk0", LG_HOOK_TC_EGRESS, modes[i]);
		run("ip link del lgk0");
		assert_int_equal(lg_kern_attachments(kern, list, 4), 0);
		run("ip link add lgk0 type veth peer name lgk1 && ip link set lgk0 up && ip link set lgk1 up");
		after = attach(kern, "lgk0", LG_HOOK_XDP, LG_MODE_XDP_NATIVE);
		attach(kern, "lgk0", LG_HOOK_TC_EGRESS, modes[i]);
		assert_int_not_equal(before.ifindex, after.ifindex);
		assert_int_equal(lg_kern_attachments(kern, list, 4), 2);
		assert_int_equal(n_links_pinned(), 2);
		lg_kern_detach(kern, "lgk0", LG_HOOK_XDP);
		lg_kern_detach(kern, "lgk0", LG_HOOK_TC_EGRESS);
	}
}

static void what_was_attached_to_interfaces_that_went_while_no_daemon_ran_is_cleared(void **state)
{
	struct lg_attachment list[4];

	(void)state;
	attach(kern, "lgk0", LG_HOOK_XDP, LG_MODE_XDP_NATIVE);
	attach(kern, "lgk0", LG_HOOK_TC_INGRESS, LG_MODE_NONE);
	attach(kern, "lgk0", LG_HOOK_TC_EGRESS, LG_MODE_CLSACT);
	kern = lg_kern_free(kern);
	assert_int_equal(n_links_pinned(), 3);
	assert_true(is_pinned("qdiscs"));
	run("ip link del lgk0");
	reopen();
	assert_int_equal(lg_kern_attachments(kern, list, 4), 0);
	assert_false(is_pinned("qdiscs"));
	assert_int_equal(n_links_pinned(), 0);
}

static void pins_follow_interfaces_through_coming_and_going(void **state)
{
	bool there[8] = { false };
	uint32_t seed = 1;
	int n = 0;

	(void)state;
	for (int step = 0; step < 100; step++) {
		unsigned int i = (seed = seed * 1103515245 + 12345) >> 16 & 7;
		char ifname[16];

		snprintf(ifname, sizeof(ifname), "lgv%u", i);
		if (there[i]) {
			run("ip link del %s", ifname);
			/* Some go without anybody noticing; the next attach clears up after them. */
			if (step % 3)
				lg_kern_detach(kern, ifname, LG_HOOK_XDP);
		} else {
			run("ip link add %s type veth peer name lgp%u", ifname, i);
			attach(kern, ifname, LG_HOOK_XDP, LG_MODE_XDP_NATIVE);
		}
		there[i] = !there[i];
	}
	for (unsigned int i = 0; i < 8; i++) {
		char ifname[16];

		snprintf(ifname, sizeof(ifname), "lgv%u", i);
		if (!there[i])
			lg_kern_detach(kern, ifname, LG_HOOK_XDP);
		n += there[i];
	}
	assert_int_equal(n_links_pinned(), n);
	for (unsigned int i = 0; i < 8; i++) {
		char ifname[16];

		snprintf(ifname, sizeof(ifname), "lgv%u", i);
		if (there[i])
			run("ip link del %s", ifname);
		lg_kern_detach(kern, ifname, LG_HOOK_XDP);
	}
}

static void a_link_follows_its_interface_to_a_new_name(void **state)
{
	struct lg_attachment before, after;

	(void)state;
	before = attach(kern, "lgk0", LG_HOOK_XDP, LG_MODE_XDP_NATIVE);
	kern = lg_kern_free(kern);
	run("ip link set lgk0 down && ip link set lgk0 name lgk2");
	reopen();
	after = attach(kern, "lgk2", LG_HOOK_XDP, LG_MODE_XDP_NATIVE);
	assert_int_equal(after.link_id, before.link_id);
	assert_true(is_pinned("links/lgk2-xdp"));
	assert_false(is_pinned("links/lgk0-xdp"));
}

static void a_filter_follows_its_interface_to_a_new_name(void **state)
{
	struct lg_attachment before, after;

	(void)state;
	before = attach(kern, "lgk0", LG_HOOK_TC_INGRESS, LG_MODE_CLSACT);
	kern = lg_kern_free(kern);
	run("ip link set lgk0 down && ip link set lgk0 name lgk2");
	reopen();
	after = attach(kern, "lgk2", LG_HOOK_TC_INGRESS, LG_MODE_NONE);
	assert_int_equal(after.mode, LG_MODE_CLSACT);
	assert_int_equal(after.ifindex, before.ifindex);
	assert_true(after.adopted);
	assert_true(is_pinned("links/lgk2-tc_ingress"));
	assert_int_equal(n_links_pinned(), 1);
}

static void names_that_a_bpf_file_system_refuses_are_escaped(void **state)
{
	struct lg_attachment list[2];

	(void)state;
	run("ip link add lg.k-2~.100 type veth peer name lgk2");
	attach(kern, "lg.k-2~.100", LG_HOOK_XDP, LG_MODE_XDP_NATIVE);
	attach(kern, "lg.k-2~.100", LG_HOOK_TC_INGRESS, LG_MODE_CLSACT);
	assert_true(is_pinned("links/lg%2ek-2%7e%2e100-xdp"));
	assert_int_equal(lg_kern_attachments(kern, list, 2), 2);
	assert_string_equal(list[0].ifname, "lg.k-2~.100");
	reopen();
	assert_true(attach(kern, "lg.k-2~.100", LG_HOOK_XDP, LG_MODE_XDP_NATIVE).adopted);
	assert_true(attach(kern, "lg.k-2~.100", LG_HOOK_TC_INGRESS, LG_MODE_NONE).adopted);
	assert_int_equal(n_links_pinned(), 2);
}

/* ---- clsact ---- */

static int n_lines(const char *command)
{
	FILE *f = popen(command, "r");
	char line[256];
	int n = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		n++;
	pclose(f);
	return n;
}

static int n_clsact(const char *ifname)
{
	char command[64];

	snprintf(command, sizeof(command), "tc qdisc show dev %s | grep clsact", ifname);
	return n_lines(command);
}

static void a_clsact_qdisc_that_we_made_goes_with_its_last_filter(void **state)
{

	(void)state;
	attach(kern, "lgk0", LG_HOOK_TC_INGRESS, LG_MODE_CLSACT);
	attach(kern, "lgk0", LG_HOOK_TC_EGRESS, LG_MODE_CLSACT);
	/* Also when another process than its maker takes it away. */
	reopen();
	assert_int_equal(lg_kern_detach(kern, "lgk0", LG_HOOK_TC_INGRESS), 0);
	assert_int_equal(n_clsact("lgk0"), 1);
	assert_int_equal(lg_kern_detach(kern, "lgk0", LG_HOOK_TC_EGRESS), 0);
	assert_int_equal(n_clsact("lgk0"), 0);
	assert_false(is_pinned("qdiscs"));
}

static void a_clsact_qdisc_that_others_made_or_use_stays(void **state)
{
	LIBBPF_OPTS(bpf_tc_hook, egress, .attach_point = BPF_TC_EGRESS);
	LIBBPF_OPTS(bpf_tc_opts, theirs);

	(void)state;
	run("tc qdisc add dev lgk0 clsact");
	attach(kern, "lgk0", LG_HOOK_TC_INGRESS, LG_MODE_CLSACT);
	assert_int_equal(lg_kern_detach(kern, "lgk0", LG_HOOK_TC_INGRESS), 0);
	assert_int_equal(n_clsact("lgk0"), 1);

	attach(kern, "lgk1", LG_HOOK_TC_INGRESS, LG_MODE_CLSACT);
	egress.ifindex = (int)if_nametoindex("lgk1");
	theirs.prog_fd = intruder(BPF_PROG_TYPE_SCHED_CLS);
	assert_int_equal(bpf_tc_attach(&egress, &theirs), 0);
	close(theirs.prog_fd);
	assert_int_equal(lg_kern_detach(kern, "lgk1", LG_HOOK_TC_INGRESS), 0);
	assert_int_equal(n_clsact("lgk1"), 1);
	assert_int_equal(n_lines("tc filter show dev lgk1 egress | grep intruder"), 1);
	assert_false(is_pinned("qdiscs"));
}

static void an_adopted_clsact_filter_is_replaced_in_place(void **state)
{
	struct lg_attachment before, list[4];

	(void)state;
	before = attach(kern, "lgk0", LG_HOOK_TC_INGRESS, LG_MODE_CLSACT);
	reopen();
	assert_int_equal(lg_kern_attachments(kern, list, 4), 1);
	assert_int_equal(list[0].mode, LG_MODE_CLSACT);
	assert_int_not_equal(list[0].prog_id, before.prog_id);
	assert_true(list[0].adopted);
	assert_int_equal(n_lines("tc filter show dev lgk0 ingress | grep handle"), 1);
	assert_int_equal(frames_counted(LG_HOOK_TC_INGRESS, "lgk1", "lgk0"), FRAMES);
}

static void a_filter_of_somebody_else_in_our_place_is_named_and_left(void **state)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .attach_point = BPF_TC_INGRESS);
	LIBBPF_OPTS(bpf_tc_opts, opts, .priority = 10);
	int fd = intruder(BPF_PROG_TYPE_SCHED_CLS);
	struct lg_attachment at;
	unsigned int handle;
	FILE *f;

	(void)state;
	attach(kern, "lgk0", LG_HOOK_TC_INGRESS, LG_MODE_CLSACT);
	f = popen("tc filter show dev lgk0 ingress | sed -n 's/.*handle \\(0x[0-9a-f]*\\).*/\\1/p'", "r");
	assert_int_equal(fscanf(f, "%x", &handle), 1);
	pclose(f);
	assert_int_equal(lg_kern_detach(kern, "lgk0", LG_HOOK_TC_INGRESS), 0);

	hook.ifindex = (int)if_nametoindex("lgk0");
	opts.handle = handle;
	opts.prog_fd = fd;
	assert_int_equal(bpf_tc_hook_create(&hook), 0);
	assert_int_equal(bpf_tc_attach(&hook, &opts), 0);
	assert_int_equal(lg_kern_attach(kern, "lgk0", LG_HOOK_TC_INGRESS, LG_MODE_CLSACT, &at, &fail, &complaint), -EBUSY);
	assert_int_equal(fail, LG_KERN_REFUSED);
	assert_text_has("intruder");
	assert_int_equal(lg_kern_detach(kern, "lgk0", LG_HOOK_TC_INGRESS), 0);
	assert_int_equal(n_lines("tc filter show dev lgk0 ingress | grep intruder"), 1);
	close(fd);
}

/* ---- looking, and detaching what nobody wants ---- */

static void what_is_attached_is_asked_of_the_kernel_and_not_remembered(void **state)
{
	static const enum lg_attach_mode modes[] = { LG_MODE_NONE, LG_MODE_CLSACT };
	char command[512], pin[256];
	struct lg_attachment at, seen;

	(void)state;
	assert_int_equal(lg_kern_attached(kern, "lgk0", LG_HOOK_XDP, &seen), 0);
	assert_int_equal(lg_kern_attached(kern, "nowhere", LG_HOOK_XDP, &seen), 0);
	at = attach(kern, "lgk0", LG_HOOK_XDP, LG_MODE_XDP_NATIVE);
	assert_int_equal(lg_kern_attached(kern, "lgk0", LG_HOOK_XDP, &seen), 1);
	assert_memory_equal(&seen, &at, sizeof(at));
	pin_path(pin, "links/lgk0-xdp");
	snprintf(command, sizeof(command), "bpftool link detach pinned %s", pin);
	run("%s", command);
	assert_int_equal(lg_kern_attached(kern, "lgk0", LG_HOOK_XDP, &seen), 0);
	assert_false(attach(kern, "lgk0", LG_HOOK_XDP, LG_MODE_XDP_NATIVE).adopted);
	for (size_t i = 0; i < N_ELEMS(modes); i++) {
		at = attach(kern, "lgk0", LG_HOOK_TC_INGRESS, modes[i]);
		assert_int_equal(lg_kern_attached(kern, "lgk0", LG_HOOK_TC_INGRESS, &seen), 1);
		assert_int_equal(seen.mode, at.mode);
		if (at.mode == LG_MODE_CLSACT)
			run("tc qdisc del dev lgk0 clsact");
		else
			lg_kern_detach(kern, "lgk0", LG_HOOK_TC_INGRESS);
		assert_int_equal(lg_kern_attached(kern, "lgk0", LG_HOOK_TC_INGRESS, &seen), 0);
	}
	attach(kern, "lgk0", LG_HOOK_TC_INGRESS, LG_MODE_CLSACT);
	assert_int_equal(frames_counted(LG_HOOK_TC_INGRESS, "lgk1", "lgk0"), FRAMES);
}

static bool keep_ingress(void *arg, const char *ifname, enum lg_hook hook)
{
	int *n_asked = arg;

	assert_string_equal(ifname, "lgk0");
	++*n_asked;
	return hook == LG_HOOK_TC_INGRESS;
}

static void what_nobody_wants_is_detached_and_the_rest_stays(void **state)
{
	struct lg_attachment list[4];
	int n_asked = 0;

	(void)state;
	attach(kern, "lgk0", LG_HOOK_XDP, LG_MODE_XDP_NATIVE);
	attach(kern, "lgk0", LG_HOOK_TC_INGRESS, LG_MODE_NONE);
	attach(kern, "lgk0", LG_HOOK_TC_EGRESS, LG_MODE_CLSACT);
	assert_int_equal(lg_kern_detach_others(kern, keep_ingress, &n_asked), 2);
	assert_int_equal(n_asked, 3);
	assert_int_equal(lg_kern_attachments(kern, list, 4), 1);
	assert_int_equal(list[0].hook, LG_HOOK_TC_INGRESS);
	assert_int_equal(n_links_pinned(), 1);
	assert_int_equal(lg_kern_detach_others(kern, keep_ingress, &n_asked), 0);
}

/* ---- detaching everything ---- */

static void detach_all_takes_what_is_the_instances_and_nothing_else(void **state)
{
	struct lg_kern_options o = options("other");
	int fd = intruder(BPF_PROG_TYPE_XDP);
	struct lg_attachment list[4];
	struct lg_kern *other;

	(void)state;
	assert_int_equal(bpf_xdp_attach((int)if_nametoindex("lgk1"), fd, XDP_FLAGS_DRV_MODE, NULL), 0);
	other = open_as(&o, 0);
	attach(kern, "lgk0", LG_HOOK_XDP, LG_MODE_XDP_NATIVE);
	attach(kern, "lgk0", LG_HOOK_TC_INGRESS, LG_MODE_NONE);
	attach(kern, "lgk0", LG_HOOK_TC_EGRESS, LG_MODE_CLSACT);
	attach(other, "lgk0", LG_HOOK_TC_INGRESS, LG_MODE_NONE);
	attach(other, "lgk0", LG_HOOK_TC_EGRESS, LG_MODE_CLSACT);
	kern = lg_kern_free(kern);

	assert_int_equal(lg_kern_detach_all("t", root, &fail, &complaint), 3);
	assert_int_equal(fail, LG_KERN_OK);
	assert_int_equal(xdp_prog_id("lgk0"), 0);
	assert_int_equal(xdp_prog_id("lgk1"), prog_id_of(fd));
	assert_int_equal(lg_kern_attachments(other, list, 4), 2);
	assert_int_equal(n_entries(root), 1);
	lg_kern_free(other);
	assert_int_equal(lg_kern_detach_all("other", root, &fail, &complaint), 2);
	assert_int_equal(n_entries(base), 0);
	/* Nothing there is nothing to do. */
	assert_int_equal(lg_kern_detach_all("other", root, &fail, &complaint), 0);
	assert_int_equal(fail, LG_KERN_OK);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(each_way_of_attaching_sees_each_frame_once),
		T(a_program_is_loaded_when_its_hook_is_used),
		T(tcx_on_a_kernel_without_it_is_refused_and_clsact_taken_instead),
		T(modes_that_do_not_fit_the_hook_and_unknown_interfaces_are_refused),
		T(a_foreign_xdp_program_is_named_and_left),
		T(native_xdp_that_the_driver_refuses_names_the_reason_and_the_way_out),
		T(the_words_of_the_driver_reach_the_complaint),
		T(jumbo_frames_do_not_keep_native_xdp_away),
		T(a_change_of_xdp_mode_is_carried_out),
		T(tc_changes_between_tcx_and_clsact_without_counting_twice),
		T(an_interface_made_again_under_its_name_is_attached_anew),
		T(what_was_attached_to_interfaces_that_went_while_no_daemon_ran_is_cleared),
		T(pins_follow_interfaces_through_coming_and_going),
		T(a_link_follows_its_interface_to_a_new_name),
		T(a_filter_follows_its_interface_to_a_new_name),
		T(names_that_a_bpf_file_system_refuses_are_escaped),
		T(a_clsact_qdisc_that_we_made_goes_with_its_last_filter),
		T(a_clsact_qdisc_that_others_made_or_use_stays),
		T(an_adopted_clsact_filter_is_replaced_in_place),
		T(a_filter_of_somebody_else_in_our_place_is_named_and_left),
		T(what_is_attached_is_asked_of_the_kernel_and_not_remembered),
		T(what_nobody_wants_is_detached_and_the_rest_stays),
		T(detach_all_takes_what_is_the_instances_and_nothing_else),
	};

	return cmocka_run_group_tests_name("kern_attach", tests, group_setup, group_teardown);
}
