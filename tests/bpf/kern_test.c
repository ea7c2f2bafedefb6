// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The instance in the real kernel: opening, adopting, pins, privileges, words and counters. */
#include "tests/bpf/kern_world.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static void unpin(const char *tail)
{
	char path[256];

	pin_path(path, tail);
	assert_int_equal(unlink(path), 0);
}

static uint32_t pinned_map_id(const char *name)
{
	struct bpf_map_info info = { 0 };
	__u32 len = sizeof(info);
	char path[256], tail[64];
	int fd;

	snprintf(tail, sizeof(tail), "v%d/%s", LG_ABI_VERSION, name);
	pin_path(path, tail);
	fd = bpf_obj_get(path);
	assert_true(fd >= 0);
	assert_int_equal(bpf_obj_get_info_by_fd(fd, &info, &len), 0);
	close(fd);
	return info.id;
}

/* ---- opening ---- */

static void a_first_start_makes_and_pins_every_map(void **state)
{
	static const char *const maps[] = { "control", "bypass", "buckets", "overflow", "rules", "rule_names",
					    "verdicts", "later_fragments", "rule_counts", "events", "ops", "checks", "shared", "test_clock" };
	struct lg_kern_options o = options("t");
	struct lg_control control;
	uint32_t max, used;
	struct stat st;
	char path[256], tail[64];

	(void)state;
	kern = lg_kern_free(kern);
	assert_int_equal(lg_kern_detach_all("t", root, &fail, &complaint), 0);
	assert_int_equal(n_entries(base), 0);
	kern = open_as(&o, 0);
	assert_string_equal(complaint.text, "");
	for (size_t i = 0; i < N_ELEMS(maps); i++) {
		snprintf(tail, sizeof(tail), "v%d/%s", LG_ABI_VERSION, maps[i]);
		assert_true(is_pinned(tail));
	}
	assert_int_equal(lg_kern_control_read(kern, &control), 0);
	assert_int_equal(control.abi_version, LG_ABI_VERSION);
	assert_int_equal(control.incarnation, 7);
	assert_int_not_equal(control.hash_seed, 0);
	assert_int_equal(lg_kern_keys_count(kern, &max, &used), 0);
	assert_int_equal(max, 1024);
	assert_int_equal(used, 0);
	pin_path(path, "");
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	assert_int_equal(stat(root, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
}

static void a_second_start_adopts_words_counters_and_the_same_link(void **state)
{
	struct lg_kern_options o = options("t");
	struct lg_attachment first, second, list[4];
	struct lg_control before, after;
	uint32_t buckets_id;
	uint64_t n_before;

	(void)state;
	assert_int_equal(lg_kern_control_read(kern, &before), 0);
	first = attach(kern, "lgk0", LG_HOOK_XDP, LG_MODE_XDP_NATIVE);
	assert_false(first.adopted);
	assert_int_equal(frames_counted(LG_HOOK_XDP, "lgk1", "lgk0"), FRAMES);
	n_before = counted(LG_HOOK_XDP);
	buckets_id = pinned_map_id("buckets");
	kern = lg_kern_free(kern);

	o.incarnation = 8;
	o.max_keys = 0; /* no wish: nothing to say */
	kern = open_as(&o, 1);
	assert_string_equal(complaint.text, "");
	assert_int_equal(lg_kern_control_read(kern, &after), 0);
	assert_memory_equal(&before, &after, sizeof(before));
	assert_int_equal(pinned_map_id("buckets"), buckets_id);
	assert_int_equal(counted(LG_HOOK_XDP), n_before);
	/* The link runs this process's program before anybody asks for it. */
	assert_int_equal(lg_kern_attachments(kern, list, 4), 1);
	assert_int_equal(list[0].link_id, first.link_id);
	assert_int_not_equal(list[0].prog_id, first.prog_id);
	assert_true(list[0].adopted);
	second = attach(kern, "lgk0", LG_HOOK_XDP, LG_MODE_XDP_NATIVE);
	assert_int_equal(second.link_id, first.link_id);
	assert_int_equal(second.prog_id, list[0].prog_id);
	assert_true(second.adopted);
	assert_int_equal(frames_counted(LG_HOOK_XDP, "lgk1", "lgk0"), FRAMES);
}

/* Starts, attaches at two hooks of lgk0, and dies without a word. */
static int start_and_die(void)
{
	struct lg_kern_options o = options("t");
	struct lg_attachment at;
	struct lg_kern *own;

	if (lg_kern_open(&o, &own, &fail, &complaint) < 0)
		return 1;
	if (lg_kern_attach(own, "lgk0", LG_HOOK_XDP, LG_MODE_XDP_NATIVE, &at, &fail, &complaint) < 0)
		return 2;
	if (lg_kern_attach(own, "lgk0", LG_HOOK_TC_INGRESS, LG_MODE_NONE, &at, &fail, &complaint) < 0)
		return 3;
	return 0;
}

static void starts_that_die_leave_one_program_per_hook_and_it_counts_without_a_process(void **state)
{
	uint64_t xdp_before = counted(LG_HOOK_XDP), tc_before = counted(LG_HOOK_TC_INGRESS);
	struct lg_attachment list[4];

	(void)state;
	kern = lg_kern_free(kern);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(in_child(start_and_die), 0);
		assert_int_equal(n_links_pinned(), 2);
	}
	send_frames("lgk1", "lgk0", FRAMES);
	reopen();
	assert_int_equal(lg_kern_attachments(kern, list, 4), 2);
	assert_int_equal(counted(LG_HOOK_XDP) - xdp_before, FRAMES);
	send_frames("lgk1", "lgk0", FRAMES);
	assert_int_equal(counted(LG_HOOK_XDP) - xdp_before, 2 * FRAMES);
	assert_int_equal(counted(LG_HOOK_TC_INGRESS) - tc_before, 2 * FRAMES);
}

static void an_instance_belongs_to_one_daemon_at_a_time(void **state)
{
	struct lg_kern_options o = options("t");
	struct lg_kern *second = NULL;

	(void)state;
	assert_int_equal(lg_kern_open(&o, &second, &fail, &complaint), -EBUSY);
	assert_int_equal(fail, LG_KERN_REFUSED);
	assert_text_has("'t' is in use");
	assert_null(second);
	assert_int_equal(lg_kern_detach_all("t", root, &fail, &complaint), -EBUSY);
	assert_int_equal(fail, LG_KERN_REFUSED);
	assert_text_has("stop its daemon");
	assert_true(is_pinned(VERSION_DIR "/control"));
}

static void names_and_sizes_are_checked(void **state)
{
	static const char *const good[] = { "a", "0_-z", "012345678901234567890123456789012345678901234567890123456789012" };
	static const char *const bad[] = { "", "-a", "_a", "A", "a/b", "..", "a.b",
					   "0123456789012345678901234567890123456789012345678901234567890123" };
	struct lg_kern_options o = options("t");
	struct lg_kern *none = NULL;

	(void)state;
	for (size_t i = 0; i < N_ELEMS(good); i++)
		assert_int_equal(lg_kern_open_pins(good[i], root, &none, &fail, &complaint), -ENOENT);
	for (size_t i = 0; i < N_ELEMS(bad); i++) {
		o.instance = bad[i];
		assert_int_equal(lg_kern_open_pins(bad[i], root, &none, &fail, &complaint), -EINVAL);
		assert_int_equal(lg_kern_detach_all(bad[i], root, &fail, &complaint), -EINVAL);
		assert_int_equal(lg_kern_open(&o, &none, &fail, &complaint), -EINVAL);
		assert_int_equal(fail, LG_KERN_REFUSED);
	}
	o = options("new");
	o.max_keys = LG_KEYS_LIMIT + 1;
	assert_int_equal(lg_kern_open(&o, &none, &fail, &complaint), -EINVAL);
	o = options("new");
	o.root = "relative/path";
	assert_int_equal(lg_kern_open(&o, &none, &fail, &complaint), -EINVAL);
	assert_int_equal(n_entries(root), 1);
	assert_null(none);
}

static void a_root_that_is_no_bpf_file_system_is_refused_and_left_empty(void **state)
{
	static const char *const tails[] = { "", "/leasegate", "/not/there/yet" };
	char dir[] = "/tmp/lg-kern-tmpfs-XXXXXX";
	struct lg_kern_options o = options("t");
	struct lg_kern *none = NULL;
	char path[128];

	(void)state;
	assert_non_null(mkdtemp(dir));
	assert_int_equal(mount("tmpfs", dir, "tmpfs", 0, NULL), 0);
	for (size_t i = 0; i < N_ELEMS(tails); i++) {
		snprintf(path, sizeof(path), "%s%s", dir, tails[i]);
		o.root = path;
		assert_int_equal(lg_kern_open(&o, &none, &fail, &complaint), -ENODEV);
		assert_int_equal(fail, LG_KERN_NO_BPFFS);
		assert_text_has("mount -t bpf");
		assert_int_equal(lg_kern_open_pins("t", path, &none, &fail, &complaint), -ENODEV);
		assert_int_equal(fail, LG_KERN_NO_BPFFS);
		assert_int_equal(lg_kern_detach_all("t", path, &fail, &complaint), -ENODEV);
		assert_int_equal(fail, LG_KERN_NO_BPFFS);
	}
	assert_int_equal(n_entries(dir), 0);
	umount(dir);
	rmdir(dir);
}

/* ---- pins that do not fit ---- */

struct odd_map {
	enum bpf_map_type type;
	uint32_t key_bytes, value_bytes, max_entries, flags;
	const char *says;
};

static void replace_pin(const char *name, const struct odd_map *odd)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = odd->flags);
	char path[256], tail[64];
	int fd;

	snprintf(tail, sizeof(tail), "v%d/%s", LG_ABI_VERSION, name);
	if (is_pinned(tail))
		unpin(tail);
	pin_path(path, tail);
	fd = bpf_map_create(odd->type, name, odd->key_bytes, odd->value_bytes, odd->max_entries, &opts);
	assert_true(fd >= 0);
	assert_int_equal(bpf_obj_pin(fd, path), 0);
	close(fd);
}

static void a_pinned_map_that_does_not_fit_is_named_field_by_field_and_left(void **state)
{
	static const struct odd_map rows[] = {
		{ BPF_MAP_TYPE_ARRAY, 4, 48, 1, 0, "'bypass' is another than this build needs (value size 48, needed 16)" },
		{ BPF_MAP_TYPE_ARRAY, 4, sizeof(struct lg_bypass), 3, 0, "(max entries 3, needed 1)" },
		{ BPF_MAP_TYPE_ARRAY, 4, sizeof(struct lg_bypass), 1, BPF_F_MMAPABLE, "(flags 1024, needed 0)" },
		{ BPF_MAP_TYPE_HASH, 8, sizeof(struct lg_bypass), 1, 0, "(type 1, needed 2; key size 8, needed 4)" },
	};
	uint32_t buckets_id = pinned_map_id("buckets");
	struct lg_kern_options o = options("t");
	struct lg_attachment at;

	(void)state;
	at = attach(kern, "lgk0", LG_HOOK_XDP, LG_MODE_XDP_GENERIC);
	kern = lg_kern_free(kern);
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		uint32_t odd_id;

		replace_pin("bypass", &rows[i]);
		odd_id = pinned_map_id("bypass");
		assert_int_equal(lg_kern_open(&o, &kern, &fail, &complaint), -EPROTONOSUPPORT);
		assert_int_equal(fail, LG_KERN_REFUSED);
		assert_text_has(rows[i].says);
		assert_int_equal(pinned_map_id("bypass"), odd_id);
		assert_int_equal(pinned_map_id("buckets"), buckets_id);
		assert_int_equal(xdp_prog_id("lgk0"), at.prog_id);
	}
	/* The tool says so, too. */
	replace_pin("bypass", &rows[0]);
	assert_int_equal(lg_kern_open_pins("t", root, &kern, &fail, &complaint), -EPROTONOSUPPORT);
	assert_text_has("value size 48, needed 16");
	assert_null(kern);
}

static void a_table_of_another_size_is_adopted_and_said(void **state)
{
	struct lg_kern_options o = options("t");
	uint32_t max, used;

	(void)state;
	kern = lg_kern_free(kern);
	o.max_keys = 2048;
	kern = open_as(&o, 1);
	assert_text_has("stays at 1024 entries, not 2048");
	assert_int_equal(lg_kern_keys_count(kern, &max, &used), 0);
	assert_int_equal(max, 1024);
}

static void pins_of_a_start_that_crashed_are_made_anew(void **state)
{
	uint32_t buckets_id = pinned_map_id("buckets");
	struct lg_kern_options o = options("t");
	struct lg_control control;

	(void)state;
	kern = lg_kern_free(kern);
	unpin(VERSION_DIR "/rule_names");
	o.incarnation = 9;
	kern = open_as(&o, 0);
	assert_int_not_equal(pinned_map_id("buckets"), buckets_id);
	assert_true(is_pinned(VERSION_DIR "/rule_names"));
	assert_int_equal(lg_kern_control_read(kern, &control), 0);
	assert_int_equal(control.incarnation, 9);
}

static void lost_pins_are_fetched_from_the_attached_program(void **state)
{
	uint32_t buckets_id = pinned_map_id("buckets"), control_id = pinned_map_id("control");
	struct lg_control before, after;

	(void)state;
	assert_int_equal(lg_kern_control_read(kern, &before), 0);
	attach(kern, "lgk0", LG_HOOK_XDP, LG_MODE_XDP_GENERIC);
	kern = lg_kern_free(kern);
	unpin(VERSION_DIR "/buckets");
	unpin(VERSION_DIR "/control");
	unpin(VERSION_DIR "/ops"); /* no packet uses it: made anew, nothing is lost */
	reopen();
	assert_int_equal(pinned_map_id("buckets"), buckets_id);
	assert_int_equal(pinned_map_id("control"), control_id);
	assert_true(is_pinned(VERSION_DIR "/ops"));
	assert_int_equal(lg_kern_control_read(kern, &after), 0);
	assert_memory_equal(&before, &after, sizeof(before));
}

static void attached_programs_of_another_abi_version_stop_the_start(void **state)
{
	struct lg_kern_options o = options("t");
	char from[256], to[256];

	(void)state;
	attach(kern, "lgk0", LG_HOOK_XDP, LG_MODE_XDP_GENERIC);
	kern = lg_kern_free(kern);
	pin_path(from, VERSION_DIR);
	pin_path(to, "v4294967295");
	assert_int_equal(rename(from, to), 0);
	assert_int_equal(lg_kern_open(&o, &kern, &fail, &complaint), -EPROTONOSUPPORT);
	assert_int_equal(fail, LG_KERN_REFUSED);
	assert_text_has("maps of ABI version 4294967295 are in force, this build speaks version " TEXT_OF(LG_ABI_VERSION));
	assert_false(is_pinned(VERSION_DIR));
	assert_int_not_equal(xdp_prog_id("lgk0"), 0);
	assert_int_equal(lg_kern_open_pins("t", root, &kern, &fail, &complaint), -EPROTONOSUPPORT);
	assert_text_has("use the tool of that build");
	assert_null(kern);
	/* `detach` knows every version's pins. */
	assert_int_equal(lg_kern_detach_all("t", root, &fail, &complaint), 1);
	assert_int_equal(xdp_prog_id("lgk0"), 0);
	assert_int_equal(n_entries(base), 0);
}

/* ---- the tool's view ---- */

static void the_tool_reads_pins_without_programs_and_beside_a_daemon(void **state)
{
	struct lg_kern *tool = NULL;
	struct lg_bypass bypass = { .until_ns = 12345, .from_ns = 678 };
	struct lg_attachment at;
	struct lg_op op = { 0 };

	(void)state;
	assert_int_equal(lg_kern_open_pins("t", root, &tool, &fail, &complaint), 0);
	assert_int_equal(fail, LG_KERN_OK);
	assert_int_equal(lg_kern_bypass_set(tool, &bypass), 0);
	bypass = (struct lg_bypass){ 0 };
	assert_int_equal(lg_kern_bypass_read(kern, &bypass), 0);
	assert_int_equal(bypass.until_ns, 12345);
	assert_int_equal(bypass.from_ns, 678);
	assert_false(lg_kern_bypass_is_on(&bypass, 677));
	assert_true(lg_kern_bypass_is_on(&bypass, 678));
	assert_true(lg_kern_bypass_is_on(&bypass, 12344));
	assert_false(lg_kern_bypass_is_on(&bypass, 12345));
	assert_int_equal(lg_kern_grant(tool, &op, 1), -EOPNOTSUPP);
	assert_int_equal(lg_kern_events_fd(tool), -EOPNOTSUPP);
	assert_int_equal(lg_kern_attach(tool, "lgk0", LG_HOOK_XDP, LG_MODE_XDP_NATIVE, &at, &fail, &complaint), -EOPNOTSUPP);
	assert_int_equal(lg_kern_bypass_set(tool, &(struct lg_bypass){ 0 }), 0);
	tool = lg_kern_free(tool);
	assert_int_equal(lg_kern_open_pins("nobody", root, &tool, &fail, &complaint), -ENOENT);
	assert_int_equal(fail, LG_KERN_REFUSED);
	assert_text_has("'nobody' has no whole set of pins");
	assert_null(tool);
}

/* ---- privileges ---- */

static void drop_cap(cap_value_t cap)
{
	cap_t caps = cap_get_proc();

	if (!caps || cap_set_flag(caps, CAP_EFFECTIVE, 1, &cap, CAP_CLEAR) ||
	    cap_set_flag(caps, CAP_PERMITTED, 1, &cap, CAP_CLEAR) || cap_set_proc(caps))
		_exit(99);
	cap_free(caps);
}

/* 0 when opening fails for want of privilege with a text that has `part`, and leaves none of the directories it
 * made. */
static int open_without(const char *part)
{
	struct lg_kern_options o = options("new");
	struct lg_kern *own;
	char deep[128];
	int r;

	snprintf(deep, sizeof(deep), "%s/not/there/yet", base);
	o.root = deep;
	r = lg_kern_open(&o, &own, &fail, &complaint);
	if (r >= 0 || fail != LG_KERN_PRIVILEGE || !strstr(complaint.text, part)) {
		print_error("r %d, fail %d, '%s'\n", r, fail, complaint.text);
		return 1;
	}
	return n_entries(base) == 1 ? 0 : 2;
}

static int child_without_bpf(void)
{
	drop_cap(CAP_SYS_ADMIN);
	drop_cap(CAP_BPF);
	return open_without("missing CAP_BPF;");
}

static int child_without_net_admin(void)
{
	drop_cap(CAP_SYS_ADMIN);
	drop_cap(CAP_NET_ADMIN);
	return open_without("missing CAP_NET_ADMIN;");
}

static int child_without_any(void)
{
	cap_t none = cap_init();

	if (cap_set_proc(none))
		return 99;
	return open_without("missing CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON;");
}

static int child_with_least(void)
{
	struct lg_kern_options o = options("least");
	struct lg_attachment at;
	struct lg_kern *own;
	int r;

	drop_cap(CAP_SYS_ADMIN);
	r = lg_kern_open(&o, &own, &fail, &complaint);
	if (r == 0)
		r = lg_kern_attach(own, "lgk0", LG_HOOK_XDP, LG_MODE_XDP_NATIVE, &at, &fail, &complaint);
	if (r == 0)
		r = lg_kern_attach(own, "lgk0", LG_HOOK_TC_INGRESS, LG_MODE_NONE, &at, &fail, &complaint);
	if (r == 0)
		r = lg_kern_attach(own, "lgk0", LG_HOOK_TC_EGRESS, LG_MODE_CLSACT, &at, &fail, &complaint);
	if (r < 0)
		print_error("%d: %s\n", r, complaint.text);
	return r < 0;
}

static int child_attaches_without_net_admin(void)
{
	struct lg_attachment at;

	drop_cap(CAP_SYS_ADMIN);
	drop_cap(CAP_NET_ADMIN);
	if (lg_kern_attach(kern, "lgk0", LG_HOOK_TC_INGRESS, LG_MODE_NONE, &at, &fail, &complaint) == 0)
		return 2;
	if (fail != LG_KERN_PRIVILEGE || !strstr(complaint.text, "lgk0") ||
	    !strstr(complaint.text, "missing CAP_NET_ADMIN;")) {
		print_error("fail %d, '%s'\n", fail, complaint.text);
		return 3;
	}
	return 0;
}

/* A container manager's filter: bpf() answers EPERM whatever the capabilities. */
static int child_with_filter(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_bpf, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { .len = N_ELEMS(code), .filter = code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
		return 99;
	return open_without("although no capability is missing: a seccomp filter");
}

static void what_is_missing_is_named_and_nothing_is_left_behind(void **state)
{
	(void)state;
	assert_int_equal(in_child(child_without_bpf), 0);
	assert_int_equal(in_child(child_without_net_admin), 0);
	assert_int_equal(in_child(child_without_any), 0);
	assert_int_equal(in_child(child_with_filter), 0);
	assert_int_equal(in_child(child_attaches_without_net_admin), 0);
}

static void bpf_net_admin_and_perfmon_are_enough(void **state)
{
	(void)state;
	assert_int_equal(in_child(child_with_least), 0);
	assert_int_equal(lg_kern_detach_all("least", root, &fail, &complaint), 3);
}

static void programs_load_without_the_kernels_type_information(void **state)
{
	struct lg_kern_options o = options("nobtf");
	char dir[] = "/tmp/lg-kern-nobtf-XXXXXX";
	struct lg_kern *own;

	(void)state;
	assert_non_null(mkdtemp(dir));
	if (access("/sys/kernel/btf", F_OK) == 0)
		assert_int_equal(mount(dir, "/sys/kernel/btf", NULL, MS_BIND, NULL), 0);
	assert_int_not_equal(access("/sys/kernel/btf/vmlinux", F_OK), 0);
	own = open_as(&o, 0);
	attach(own, "lgk0", LG_HOOK_XDP, LG_MODE_XDP_NATIVE);
	lg_kern_free(own);
	umount("/sys/kernel/btf");
	rmdir(dir);
	assert_int_equal(lg_kern_detach_all("nobtf", root, &fail, &complaint), 1);
}

/* ---- words ---- */

static void words_are_set_one_by_one(void **state)
{
	struct lg_control before, after;
	struct lg_rule_counts counts;
	const uint8_t nat64[16] = { 0, 0x64, 0xff, 0x9b };
	struct lg_shared shared;

	(void)state;
	assert_int_equal(lg_kern_control_read(kern, &before), 0);
	assert_int_equal(lg_kern_control_set(kern, true, false, nat64), 0);
	assert_int_equal(lg_kern_control_read(kern, &after), 0);
	assert_int_equal(after.unparsable_drop, 1);
	assert_memory_equal(after.nat64, nat64, sizeof(nat64));
	assert_int_equal(after.reachable, 0);
	assert_int_equal(after.hash_seed, before.hash_seed);
	assert_int_equal(lg_kern_control_set(kern, false, true, nat64), 0);
	assert_int_equal(lg_kern_control_read(kern, &after), 0);
	assert_int_equal(after.unparsable_drop, 0);
	assert_int_equal(after.reachable, 1);
	assert_int_equal(lg_kern_shared_read(kern, &shared), 0);
	assert_int_equal(shared.map_full, 0);
	assert_int_equal(lg_kern_rule_counts_read(kern, LG_RULES_DEFAULT, &counts), 0);
	assert_int_equal(lg_kern_rule_counts_read(kern, 0, &counts), -EINVAL);
	assert_int_equal(lg_kern_rule_counts_read(kern, LG_RULES_DEFAULT + 1, &counts), -EINVAL);
}

static void counters_are_summed_over_cpus(void **state)
{
	int n_cpus = libbpf_num_possible_cpus();
	struct lg_rule_counts *values = calloc((size_t)n_cpus, sizeof(*values));
	struct lg_rule_counts sum;
	int fd = map_fd("rule_counts");
	__u32 id = 5;

	(void)state;
	assert_non_null(values);
	for (int cpu = 0; cpu < n_cpus; cpu++) {
		values[cpu].by_reason[LG_PASS_ADMITTED].packets = 10;
		values[cpu].by_reason[LG_DROP_LIMIT].bytes = (uint64_t)cpu;
	}
	assert_int_equal(bpf_map_update_elem(fd, &id, values, BPF_ANY), 0);
	assert_int_equal(lg_kern_rule_counts_read(kern, 5, &sum), 0);
	assert_int_equal(sum.by_reason[LG_PASS_ADMITTED].packets, 10 * n_cpus);
	assert_int_equal(sum.by_reason[LG_DROP_LIMIT].bytes, n_cpus * (n_cpus - 1) / 2);
	assert_int_equal(sum.by_reason[LG_DROP_LIMIT].packets, 0);
	close(fd);
	free(values);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_first_start_makes_and_pins_every_map),
		T(a_second_start_adopts_words_counters_and_the_same_link),
		T(starts_that_die_leave_one_program_per_hook_and_it_counts_without_a_process),
		T(an_instance_belongs_to_one_daemon_at_a_time),
		T(names_and_sizes_are_checked),
		T(a_root_that_is_no_bpf_file_system_is_refused_and_left_empty),
		T(a_pinned_map_that_does_not_fit_is_named_field_by_field_and_left),
		T(a_table_of_another_size_is_adopted_and_said),
		T(pins_of_a_start_that_crashed_are_made_anew),
		T(lost_pins_are_fetched_from_the_attached_program),
		T(attached_programs_of_another_abi_version_stop_the_start),
		T(the_tool_reads_pins_without_programs_and_beside_a_daemon),
		T(what_is_missing_is_named_and_nothing_is_left_behind),
		T(bpf_net_admin_and_perfmon_are_enough),
		T(programs_load_without_the_kernels_type_information),
		T(words_are_set_one_by_one),
		T(counters_are_summed_over_cpus),
	};

	return cmocka_run_group_tests_name("kern", tests, group_setup, group_teardown);
}
