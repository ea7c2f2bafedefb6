// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What preflight makes of facts: a good machine has nothing but what is well, and each fact that is not so brings its finding, alone. */
#include "kern/judge.h"

#include <errno.h>
#include <linux/bpf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "rules/config.h"
#include "rules/yaml.h"

#define MIB (UINT64_C(1) << 20)

static struct lg_findings found;
static struct lg_machine_facts m;
static struct lg_interface_facts in;
static struct lg_interface_wants w;

static void machine_good(void)
{
	m = (struct lg_machine_facts){
		.release = "6.12.1", .major = 6, .minor = 12, .n_cpus = 4,
		.caps = LG_CAP_BPF | LG_CAP_NET_ADMIN | LG_CAP_PERFMON | LG_CAP_SYS_ADMIN, .loads = LG_YES, .has_btf = true, .jits = LG_YES,
		.pins_at = "/sys/fs/bpf", .pins_on = "bpf", .memlock_bytes = 64 << 10, .available_bytes = 1000 * MIB,
		.cgroup_bytes = LG_NO_BOUND, .n_maps = 1,
		.maps = { { "t", BPF_MAP_TYPE_ARRAY, 4, 1 << 20, 100, 0 } },
	};
	for (int i = 0; i < _LG_FEATURE_N; i++)
		m.feature[i] = LG_YES;
}

static void interface_good(void)
{
	in = (struct lg_interface_facts){ .name = "eth7", .ifindex = 7, .is_up = true, .mtu = 1500, .rx_queues = 4, .tx_queues = 4,
					  .driver = "ice", .xdp_known = LG_YES, .xdp_features = LG_XDP_BASIC, .lro = LG_NO, .gro = LG_YES,
					  .gro_hw = LG_NO, .udp_gro = LG_NO, .rx_vlan = LG_NO, .programs_known = true };
	w = (struct lg_interface_wants){ .is_configured = true, .tc = true };
}

static int setup(void **state)
{
	(void)state;
	machine_good();
	interface_good();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	lg_findings_fini(&found);
	return 0;
}

/* The finding of a kind, which must not be there twice; NULL. */
static const struct lg_finding *find(enum lg_finding_id id)
{
	const struct lg_finding *at = NULL;

	for (size_t i = 0; i < found.n; i++) {
		if (found.v[i].id != id)
			continue;
		assert_null(at);
		at = &found.v[i];
	}
	return at;
}

/* That this finding is as severe, says all the words, and is the only one that is not well but for `also`. */
static void only(enum lg_finding_id id, enum lg_severity severity, const char *words)
{
	const struct lg_finding *f = find(id);

	if (!f)
		fail_msg("no finding %s", lg_finding_kinds[id].name);
	assert_int_equal(f->severity, severity);
	assert_int_equal(f->fail, severity == LG_SEVERITY_BLOCKER ? lg_finding_kinds[id].fail : LG_KERN_OK);
	if (!strstr(f->text, words))
		fail_msg("'%s' is not in '%s'", words, f->text);
	for (size_t i = 0; i < found.n; i++)
		if (found.v[i].id != id && found.v[i].severity != LG_SEVERITY_OK)
			fail_msg("also %s: %s", lg_finding_kinds[found.v[i].id].name, found.v[i].text);
}

static void machine(void)
{
	lg_findings_fini(&found);
	lg_judge_machine(&m, &found);
}

static void interface(void)
{
	lg_findings_fini(&found);
	lg_judge_interface(&m, &in, &w, &found);
}

#define MACHINE_SAYS(change, id, severity, words)                                                                                         \
	do {                                                                                                                              \
		machine_good();                                                                                                           \
		change;                                                                                                                   \
		machine();                                                                                                                \
		only(LG_FINDING_##id, LG_SEVERITY_##severity, words);                                                                     \
	} while (0)

#define INTERFACE_SAYS(change, id, severity, words)                                                                                       \
	do {                                                                                                                              \
		machine_good();                                                                                                           \
		interface_good();                                                                                                         \
		change;                                                                                                                   \
		interface();                                                                                                              \
		only(LG_FINDING_##id, LG_SEVERITY_##severity, words);                                                                     \
	} while (0)

/* ---- the table of kinds ---- */

static void every_kind_has_a_name_of_its_own_and_says_why_and_what_to_do(void **state)
{
	(void)state;
	for (int i = 0; i < _LG_FINDING_N; i++) {
		const struct lg_finding_kind *kind = &lg_finding_kinds[i];

		assert_int_equal(strspn(kind->name, "abcdefghijklmnopqrstuvwxyz0123456789-"), strlen(kind->name));
		assert_true(strlen(kind->why) > 10 && strlen(kind->action) > 5);
		assert_true((kind->worst == LG_SEVERITY_BLOCKER) == (kind->fail != LG_KERN_OK) || i < (int)_LG_FEATURE_N);
		assert_true(!kind->at_start || kind->scope == LG_ABOUT_INTERFACE);
		for (int k = 0; k < i; k++)
			assert_string_not_equal(kind->name, lg_finding_kinds[k].name);
	}
}

static void a_finding_is_never_worse_than_its_kind(void **state)
{
	(void)state;
	lg_finding_add(&found, LG_FINDING_BTF, LG_SEVERITY_BLOCKER, "x", "t");
	assert_int_equal(found.v[0].severity, LG_SEVERITY_NOTE);
	assert_int_equal(found.v[0].fail, LG_KERN_OK);
	for (int i = 0; i < 200; i++)
		lg_finding_add(&found, LG_FINDING_BPFFS, LG_SEVERITY_BLOCKER, "x", "%d", i);
	assert_int_equal(found.n, 201);
	assert_string_equal(found.v[200].text, "199");
	assert_int_equal(found.v[200].fail, LG_KERN_NO_BPFFS);
}

static void what_to_do_names_the_interface(void **state)
{
	char buf[100], small[12];

	(void)state;
	lg_finding_add(&found, LG_FINDING_XDP_LRO, LG_SEVERITY_WARNING, "eth7", "t");
	lg_finding_action(&found.v[0], buf, sizeof(buf));
	assert_string_equal(buf, "ethtool -K eth7 lro off rx-gro-hw off");
	lg_finding_action(&found.v[0], small, sizeof(small));
	assert_string_equal(small, "ethtool -K ");
}

static void the_exit_code_is_of_what_must_be_put_right_first(void **state)
{
	(void)state;
	assert_int_equal(lg_findings_fail(&found), LG_KERN_OK);
	lg_finding_add(&found, LG_FINDING_JIT, LG_SEVERITY_WARNING, "x", "t");
	assert_int_equal(lg_findings_fail(&found), LG_KERN_OK);
	lg_finding_add(&found, LG_FINDING_INTERFACE, LG_SEVERITY_BLOCKER, "x", "t");
	assert_int_equal(lg_findings_fail(&found), LG_KERN_REFUSED);
	lg_finding_add(&found, LG_FINDING_PROGRAMS, LG_SEVERITY_BLOCKER, "x", "t");
	assert_int_equal(lg_findings_fail(&found), LG_KERN_FEATURE);
	lg_finding_add(&found, LG_FINDING_BPFFS, LG_SEVERITY_BLOCKER, "x", "t");
	assert_int_equal(lg_findings_fail(&found), LG_KERN_NO_BPFFS);
	lg_finding_add(&found, LG_FINDING_SECCOMP, LG_SEVERITY_BLOCKER, "x", "t");
	assert_int_equal(lg_findings_fail(&found), LG_KERN_PRIVILEGE);
}

/* ---- the machine ---- */

static void a_good_machine_has_nothing_to_tell(void **state)
{
	(void)state;
	machine();
	assert_true(found.n > 25);
	for (size_t i = 0; i < found.n; i++)
		if (found.v[i].severity != LG_SEVERITY_OK)
			fail_msg("%s: %s", lg_finding_kinds[found.v[i].id].name, found.v[i].text);
	assert_int_equal(lg_findings_fail(&found), LG_KERN_OK);
}

static void kernels_older_than_the_oldest_tested_are_warned_of(void **state)
{
	(void)state;
	MACHINE_SAYS((m.major = 6, m.minor = 0), KERNEL, WARNING, "older");
	MACHINE_SAYS((m.major = 5, m.minor = 19), KERNEL, WARNING, "6.12.1");
	machine_good();
	m.minor = 1;
	machine();
	assert_int_equal(find(LG_FINDING_KERNEL)->severity, LG_SEVERITY_OK);
}

static void each_missing_capability_is_named(void **state)
{
	const uint32_t least = LG_CAP_BPF | LG_CAP_NET_ADMIN | LG_CAP_PERFMON;

	(void)state;
	MACHINE_SAYS(m.caps = least, CAP_SYS_ADMIN, NOTE, "has it not");
	machine_good();
	m.caps = LG_CAP_SYS_ADMIN | LG_CAP_NET_ADMIN;
	machine();
	assert_int_equal(find(LG_FINDING_CAP_BPF)->severity, LG_SEVERITY_OK);
	assert_non_null(strstr(find(LG_FINDING_CAP_BPF)->text, "CAP_SYS_ADMIN"));
	assert_int_equal(find(LG_FINDING_CAP_PERFMON)->severity, LG_SEVERITY_OK);
	m.caps = LG_CAP_SYS_ADMIN;
	machine();
	assert_int_equal(find(LG_FINDING_CAP_NET_ADMIN)->fail, LG_KERN_PRIVILEGE);
	MACHINE_SAYS((m.is_root = m.serves_http = true, m.caps |= LG_CAP_SETUID), CAP_SETUID, BLOCKER, "root");
	MACHINE_SAYS((m.is_root = m.serves_http = true, m.caps |= LG_CAP_SETGID), CAP_SETUID, BLOCKER, "root");
	for (int i = 0; i < 3; i++) {
		machine_good();
		m.is_root = i != 0;
		m.serves_http = i != 1;
		m.caps |= i == 2 ? LG_CAP_SETUID | LG_CAP_SETGID : 0;
		machine();
		assert_null(find(LG_FINDING_CAP_SETUID));
	}
	m.caps = 0;
	machine();
	assert_int_equal(find(LG_FINDING_CAP_BPF)->fail, LG_KERN_PRIVILEGE);
	assert_int_equal(find(LG_FINDING_CAP_PERFMON)->fail, LG_KERN_PRIVILEGE);
	assert_int_equal(lg_findings_fail(&found), LG_KERN_PRIVILEGE);
}

static void a_user_namespace_is_in_the_way(void **state)
{
	(void)state;
	MACHINE_SAYS(m.in_user_namespace = true, USER_NAMESPACE, BLOCKER, "user namespace");
	/* The refusal that comes with it is no second finding. */
	MACHINE_SAYS((m.in_user_namespace = true, m.bpf_error = -EPERM), USER_NAMESPACE, BLOCKER, "user namespace");
}

static void a_refused_bpf_call_is_a_filter_s_or_the_kernel_s(void **state)
{
	(void)state;
	MACHINE_SAYS((m.bpf_error = -EPERM, m.has_seccomp_filter = true), SECCOMP, BLOCKER, "seccomp filter is in force");
	MACHINE_SAYS(m.bpf_error = -EPERM, SECCOMP, BLOCKER, "no seccomp filter");
	MACHINE_SAYS(m.bpf_error = -EACCES, SECCOMP, BLOCKER, "Permission denied");
	MACHINE_SAYS((m.bpf_error = -ENOSYS, m.has_seccomp_filter = true), SECCOMP, BLOCKER, "seccomp filter is in force");
	MACHINE_SAYS(m.bpf_error = -ENOSYS, BPF_SYSCALL, BLOCKER, "no bpf()");
	MACHINE_SAYS((m.bpf_error = LG_BPF_KILLED, m.has_seccomp_filter = true), SECCOMP, BLOCKER, "ends the process");
	/* A filter that lets bpf() through is no matter. */
	machine_good();
	m.has_seccomp_filter = true;
	machine();
	assert_null(find(LG_FINDING_SECCOMP));
	/* Without capabilities a refusal says nothing of filters. */
	m.caps = 0;
	m.bpf_error = -EPERM;
	machine();
	assert_null(find(LG_FINDING_SECCOMP));
	/* Even so a missing call is one. */
	m.bpf_error = -ENOSYS;
	machine();
	assert_non_null(find(LG_FINDING_SECCOMP));
}

static void pins_belong_on_a_bpf_file_system_that_can_be_written(void **state)
{
	(void)state;
	MACHINE_SAYS(strcpy(m.pins_on, "tmpfs"), BPFFS, BLOCKER, "/sys/fs/bpf: tmpfs");
	MACHINE_SAYS(m.pins_read_only = true, BPFFS, BLOCKER, "read-only");
}

static void locked_memory_counts_before_5_11_alone(void **state)
{
	(void)state;
	/* 100 MiB of tables. */
	machine_good();
	m.major = 5;
	m.minor = 10;
	m.memlock_bytes = 100 * MIB - 1;
	machine();
	assert_int_equal(find(LG_FINDING_MEMLOCK)->fail, LG_KERN_PRIVILEGE);
	assert_non_null(strstr(find(LG_FINDING_MEMLOCK)->text, "100.0 MiB"));
	assert_null(find(LG_FINDING_MEMORY_CGROUP));
	m.memlock_bytes = 100 * MIB;
	machine();
	assert_int_equal(find(LG_FINDING_MEMLOCK)->severity, LG_SEVERITY_OK);
	m.memlock_bytes = LG_NO_BOUND;
	machine();
	assert_int_equal(find(LG_FINDING_MEMLOCK)->severity, LG_SEVERITY_OK);
	m.minor = 11;
	m.memlock_bytes = 0;
	machine();
	assert_int_equal(find(LG_FINDING_MEMLOCK)->severity, LG_SEVERITY_OK);
}

static void tables_must_fit_into_memory(void **state)
{
	(void)state;
	MACHINE_SAYS(m.available_bytes = 100 * MIB - 1, MEMORY, BLOCKER, "more than 100.0 MiB");
	MACHINE_SAYS(m.available_bytes = 100 * MIB, MEMORY, WARNING, "more than half");
	MACHINE_SAYS(m.available_bytes = 200 * MIB - 1, MEMORY, WARNING, "more than half");
	machine_good();
	m.available_bytes = 200 * MIB;
	machine();
	assert_int_equal(find(LG_FINDING_MEMORY)->severity, LG_SEVERITY_OK);
	/* What only grows to its size is no hindrance at start. */
	machine_good();
	m.available_bytes = 100 * MIB;
	m.maps[m.n_maps++] = (struct lg_map_facts){ "g", BPF_MAP_TYPE_ARRAY, 4, 1 << 20, 1000, BPF_F_NO_PREALLOC };
	machine();
	only(LG_FINDING_MEMORY, LG_SEVERITY_WARNING, "full 1100.0 MiB");
	MACHINE_SAYS(m.cgroup_bytes = 64 * MIB, MEMORY_CGROUP, BLOCKER, "64.0 MiB, the limit of the control group");
	MACHINE_SAYS(m.cgroup_bytes = 150 * MIB, MEMORY_CGROUP, WARNING, "half");
}

static void what_only_costs_time_is_a_warning(void **state)
{
	(void)state;
	MACHINE_SAYS(m.jits = LG_NO, JIT, WARNING, "not compiled");
	MACHINE_SAYS(m.jit_harden = 2, JIT_HARDEN, WARNING, "is 2");
	MACHINE_SAYS(m.bpf_stats = 1, BPF_STATS, WARNING, "is 1");
	machine_good();
	m.jit_harden = 1;
	machine();
	assert_int_equal(find(LG_FINDING_JIT_HARDEN)->severity, LG_SEVERITY_OK);
	m.jits = LG_NOT_KNOWN;
	machine();
	assert_string_equal(find(LG_FINDING_JIT)->text, "not known");
}

static void types_of_the_kernel_and_lockdown_are_no_hindrance(void **state)
{
	(void)state;
	MACHINE_SAYS(m.has_btf = false, BTF, NOTE, "vmlinux");
	MACHINE_SAYS(strcpy(m.lockdown, "confidentiality"), LOCKDOWN, NOTE, "confidentiality");
	machine_good();
	strcpy(m.lockdown, "none");
	machine();
	assert_int_equal(find(LG_FINDING_LOCKDOWN)->severity, LG_SEVERITY_OK);
}

static void each_missing_feature_is_in_the_way_but_those_with_another_way(void **state)
{
	(void)state;
	for (int i = 0; i < _LG_FEATURE_N; i++) {
		bool optional = i == LG_FEATURE_TCX || i == LG_FEATURE_FREPLACE;

		machine_good();
		m.feature[i] = LG_NO;
		machine();
		only((enum lg_finding_id)i, optional ? LG_SEVERITY_NOTE : LG_SEVERITY_BLOCKER, "it came with");
		assert_int_equal(lg_findings_fail(&found), optional ? LG_KERN_OK : LG_KERN_FEATURE);
	}
}

static void what_could_not_be_tried_is_said_in_one_finding(void **state)
{
	(void)state;
	machine_good();
	memset(m.feature, 0, sizeof(m.feature));
	m.loads = LG_NOT_KNOWN;
	machine();
	only(LG_FINDING_NOT_LOOKED_AT, LG_SEVERITY_NOTE, "XDP programs, TC programs, ");
	assert_non_null(strstr(find(LG_FINDING_NOT_LOOKED_AT)->text, "tcx, links at TC"));
	assert_null(find(LG_FINDING_PROGRAMS));
}

static void programs_that_do_not_load_are_of_the_kind_that_loading_says(void **state)
{
	(void)state;
	machine_good();
	m.loads = LG_NO;
	m.load_fail = LG_KERN_PRIVILEGE;
	strcpy(m.load_why, "cannot load the programs: no");
	machine();
	assert_int_equal(find(LG_FINDING_PROGRAMS)->fail, LG_KERN_PRIVILEGE);
	assert_string_equal(find(LG_FINDING_PROGRAMS)->text, "cannot load the programs: no");
}

static void an_instance_that_is_in_the_kernel_is_taken_over_or_in_the_way(void **state)
{
	static const struct { enum lg_pinned pinned; uint32_t n_links; enum lg_severity severity; const char *words; } rows[] = {
		{ LG_PINNED_NOTHING, 0, LG_SEVERITY_OK, "x: nothing" },
		{ LG_PINNED_OURS, 1, LG_SEVERITY_OK, "at 1 hook; a start takes it over" },
		{ LG_PINNED_OURS, 2, LG_SEVERITY_OK, "at 2 hooks;" },
		{ LG_PINNED_OTHERS, 0, LG_SEVERITY_NOTE, "version 2" },
		{ LG_PINNED_OTHERS, 1, LG_SEVERITY_BLOCKER, "maps of ABI version 2, attached at 1 hook;" },
		{ LG_PINNED_MISFIT, 0, LG_SEVERITY_NOTE, "x: sizes" },
		{ LG_PINNED_MISFIT, 1, LG_SEVERITY_BLOCKER, "x: sizes" },
	};
	struct lg_instance_facts i = { .name = "x", .other_abi = 2, .why = "sizes" };

	(void)state;
	for (size_t k = 0; k < N_ELEMS(rows); k++) {
		i.pinned = rows[k].pinned;
		i.n_links = rows[k].n_links;
		lg_findings_fini(&found);
		lg_judge_instance(&i, &found);
		only(LG_FINDING_INSTANCE, rows[k].severity, rows[k].words);
	}
	i.pinned = LG_PINNED_NOT_KNOWN;
	lg_findings_fini(&found);
	lg_judge_instance(&i, &found);
	assert_int_equal(found.n, 0);
}

static void maps_take_what_their_type_makes_of_their_size(void **state)
{
	static const struct { struct lg_map_facts map; uint64_t bytes; } rows[] = {
		{ { "", BPF_MAP_TYPE_ARRAY, 4, 12, 10, 0 }, 160 },
		{ { "", BPF_MAP_TYPE_PERCPU_ARRAY, 4, 8, 3, 0 }, 3 * (8 * 4 + 8) },
		{ { "", BPF_MAP_TYPE_RINGBUF, 0, 0, 4096, 0 }, 4096 },
		{ { "", BPF_MAP_TYPE_HASH, 4, 8, 1000, 0 }, 1024 * 16 + 1004 * (48 + 8 + 8) },
		{ { "", BPF_MAP_TYPE_LPM_TRIE, 20, 16, 10, 0 }, 2 * 10 * (40 + 40) },
		{ { "", BPF_MAP_TYPE_LPM_TRIE, 20, 16, 0, 0 }, 0 },
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++)
		assert_int_equal(lg_map_bytes(&rows[i].map, 4), rows[i].bytes);
	assert_int_equal(lg_maps_bytes(&m, false), 100 * MIB);
	m.maps[m.n_maps++] = (struct lg_map_facts){ "g", BPF_MAP_TYPE_LPM_TRIE, 20, 16, 10, BPF_F_NO_PREALLOC };
	assert_int_equal(lg_maps_bytes(&m, false), 100 * MIB);
	assert_int_equal(lg_maps_bytes(&m, true), 100 * MIB + 1600);
}

/* ---- one interface ---- */

static void an_interface_that_is_not_there_is_refused(void **state)
{
	(void)state;
	INTERFACE_SAYS(in.ifindex = 0, INTERFACE, BLOCKER, "no such interface");
	assert_int_equal(found.n, 1);
	INTERFACE_SAYS((in.ifindex = 0, w.may_wait = true), INTERFACE, NOTE, "waits for it");
}

static void a_plain_interface_at_tc_has_nothing_to_tell(void **state)
{
	(void)state;
	interface();
	for (size_t i = 0; i < found.n; i++)
		assert_int_equal(found.v[i].severity, LG_SEVERITY_OK);
	assert_non_null(strstr(find(LG_FINDING_ATTACH)->text, "tcx"));
	assert_null(find(LG_FINDING_XDP_NATIVE));
	m.feature[LG_FEATURE_TCX] = LG_NO;
	interface();
	assert_non_null(strstr(find(LG_FINDING_ATTACH)->text, "clsact"));
	INTERFACE_SAYS(in.is_up = false, INTERFACE_DOWN, NOTE, "down");
}

static void native_xdp_is_known_from_the_kernel_or_from_the_driver(void **state)
{
	static const struct { const char *driver; uint32_t major, minor; enum lg_severity severity; } rows[] = {
		{ "ice", 5, 5, LG_SEVERITY_OK }, { "ice", 5, 4, LG_SEVERITY_BLOCKER }, { "ice", 4, 19, LG_SEVERITY_BLOCKER },
		{ "veth", 4, 19, LG_SEVERITY_OK }, { "e1000e", 6, 12, LG_SEVERITY_BLOCKER }, { "mystery", 6, 12, LG_SEVERITY_WARNING },
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		interface_good();
		w.xdp_native = true;
		in.xdp_known = LG_NOT_KNOWN;
		snprintf(in.driver, sizeof(in.driver), "%s", rows[i].driver);
		m.major = rows[i].major;
		m.minor = rows[i].minor;
		interface();
		assert_int_equal(find(LG_FINDING_XDP_NATIVE)->severity, rows[i].severity);
	}
	INTERFACE_SAYS((w.xdp_native = true, in.xdp_features = 0), XDP_NATIVE, BLOCKER, "driver ice");
	INTERFACE_SAYS((w.xdp_native = w.may_fall_back = true, in.xdp_features = 0), XDP_NATIVE, WARNING, "generic XDP takes its place");
	INTERFACE_SAYS((w.xdp_native = w.may_wait = true, in.xdp_features = 0), XDP_NATIVE, WARNING, "driver ice");
	/* Only asked what would be, the same is a note, and generic XDP does not need it. */
	INTERFACE_SAYS((w.is_configured = false, in.xdp_features = 0), XDP_NATIVE, NOTE, "driver ice");
	machine_good();
	interface_good();
	w.xdp_generic = true;
	in.gro = LG_NO;
	interface();
	assert_null(find(LG_FINDING_XDP_NATIVE));
}

static void drivers_that_reset_their_link_are_named(void **state)
{
	(void)state;
	INTERFACE_SAYS(w.xdp_native = true, XDP_RESET, WARNING, "ice resets");
	INTERFACE_SAYS(w.is_configured = false, XDP_RESET, NOTE, "ice resets");
	INTERFACE_SAYS((w.xdp_native = true, strcpy(in.driver, "virtio_net")), XDP_RESET, NOTE, "for a moment");
	machine_good();
	interface_good();
	w.xdp_native = true;
	strcpy(in.driver, "veth");
	interface();
	assert_int_equal(find(LG_FINDING_XDP_RESET)->severity, LG_SEVERITY_OK);
	/* One that nobody knows is not judged. */
	strcpy(in.driver, "mystery");
	interface();
	assert_null(find(LG_FINDING_XDP_RESET));
}

static void a_frame_must_fit_into_one_buffer_or_the_driver_do_several(void **state)
{
	(void)state;
	strcpy(in.driver, "tun");
	w.xdp_native = true;
	in.mtu = 3498;
	interface();
	assert_int_equal(find(LG_FINDING_XDP_MTU)->severity, LG_SEVERITY_OK);
	in.mtu = 3499;
	interface();
	assert_int_equal(find(LG_FINDING_XDP_MTU)->fail, LG_KERN_FEATURE);
	w.may_fall_back = true;
	interface();
	assert_int_equal(find(LG_FINDING_XDP_MTU)->severity, LG_SEVERITY_WARNING);
	assert_non_null(strstr(find(LG_FINDING_XDP_MTU)->text, "generic"));
	w.may_fall_back = false;
	in.xdp_features |= LG_XDP_RX_SG;
	interface();
	assert_int_equal(find(LG_FINDING_XDP_MTU)->severity, LG_SEVERITY_OK);
	in.xdp_known = LG_NOT_KNOWN;
	interface();
	assert_int_equal(find(LG_FINDING_XDP_MTU)->severity, LG_SEVERITY_WARNING);
	/* TC takes any. */
	w = (struct lg_interface_wants){ .is_configured = true, .tc = true };
	interface();
	assert_null(find(LG_FINDING_XDP_MTU));
}

static void too_few_queues_are_told_by_driver(void **state)
{
	(void)state;
	w.xdp_native = true;
	strcpy(in.driver, "virtio_net");
	in.channels = 4;
	in.channels_max = 8;
	interface();
	assert_int_equal(find(LG_FINDING_XDP_QUEUES)->severity, LG_SEVERITY_OK);
	in.channels = 5;
	interface();
	assert_int_equal(find(LG_FINDING_XDP_QUEUES)->severity, LG_SEVERITY_WARNING);
	strcpy(in.driver, "ena");
	interface();
	assert_int_equal(find(LG_FINDING_XDP_QUEUES)->severity, LG_SEVERITY_WARNING);
	in.channels = 4;
	interface();
	assert_int_equal(find(LG_FINDING_XDP_QUEUES)->severity, LG_SEVERITY_OK);
	in.channels_max = 0;
	interface();
	assert_null(find(LG_FINDING_XDP_QUEUES));
	strcpy(in.driver, "ixgbe");
	m.n_cpus = 64;
	interface();
	assert_null(find(LG_FINDING_XDP_QUEUES));
	m.n_cpus = 65;
	interface();
	assert_int_equal(find(LG_FINDING_XDP_QUEUES)->severity, LG_SEVERITY_WARNING);
}

static void merging_adapters_and_native_xdp_do_not_go_together(void **state)
{
	(void)state;
	strcpy(in.driver, "tun");
	w.xdp_native = true;
	in.lro = LG_YES;
	w.tc = false;
	interface();
	only(LG_FINDING_XDP_LRO, LG_SEVERITY_WARNING, "lro is on");
	in.lro = LG_NO;
	in.gro_hw = LG_YES;
	interface();
	only(LG_FINDING_XDP_LRO, LG_SEVERITY_WARNING, "rx-gro-hw");
	INTERFACE_SAYS(in.lro = LG_YES, LRO, NOTE, "lro");
	INTERFACE_SAYS((w.tc = false, w.xdp_generic = true), XDP_SUPERFRAMES, WARNING, "gro is on");
}

static void tags_taken_off_matter_to_rules_that_look_at_them_at_xdp(void **state)
{
	(void)state;
	strcpy(in.driver, "tun");
	w = (struct lg_interface_wants){ .is_configured = true, .xdp_native = true, .looks_at_vlan = true };
	in.rx_vlan = LG_YES;
	interface();
	only(LG_FINDING_VLAN_OFFLOAD, LG_SEVERITY_WARNING, "rules look at VLAN tags");
	w.looks_at_vlan = false;
	interface();
	only(LG_FINDING_VLAN_OFFLOAD, LG_SEVERITY_NOTE, "is on");
	w = (struct lg_interface_wants){ .is_configured = true, .tc = true, .looks_at_vlan = true };
	interface();
	assert_null(find(LG_FINDING_VLAN_OFFLOAD));
	in.rx_vlan = LG_NO;
	w.xdp_native = true;
	interface();
	assert_null(find(LG_FINDING_VLAN_OFFLOAD));
}

static void glued_datagrams_are_warned_of_at_every_hook(void **state)
{
	(void)state;
	INTERFACE_SAYS(in.udp_gro = LG_YES, UDP_GRO, WARNING, "rx-udp-gro-forwarding");
}

static void rules_that_pace_want_fq(void **state)
{
	(void)state;
	INTERFACE_SAYS((w.paces = true, strcpy(in.queueing, "noqueue")), PACING, WARNING, "its queueing discipline is noqueue");
	interface_good();
	w.paces = in.paces = true;
	strcpy(in.queueing, "fq");
	interface();
	assert_null(find(LG_FINDING_PACING));
	/* What is not known is not warned of, nor what no rule asks for. */
	in.paces = false;
	in.queueing[0] = '\0';
	interface();
	assert_null(find(LG_FINDING_PACING));
	strcpy(in.queueing, "noqueue");
	w.paces = false;
	interface();
	assert_null(find(LG_FINDING_PACING));
}

static void sharing_wants_libxdp_and_a_kernel_that_lets_it(void **state)
{
	(void)state;
	m.has_libxdp = true;
	strcpy(in.driver, "tun");
	w = (struct lg_interface_wants){ .is_configured = true, .xdp_native = true, .shared = true };
	in.n_programs = 1;
	in.programs[0] = (struct lg_program_facts){ .hook = LG_HOOK_XDP, .mode = LG_MODE_XDP_NATIVE, .id = 12, .name = "xdp_dispatcher" };
	interface();
	assert_int_equal(find(LG_FINDING_SHARED)->severity, LG_SEVERITY_OK);
	assert_non_null(strstr(find(LG_FINDING_ATTACH)->text, "in libxdp's dispatcher"));
	assert_int_equal(find(LG_FINDING_FOREIGN_XDP)->severity, LG_SEVERITY_OK);
	strcpy(in.programs[0].name, "other");
	interface();
	assert_int_equal(find(LG_FINDING_FOREIGN_XDP)->fail, LG_KERN_REFUSED);
	m.feature[LG_FEATURE_FREPLACE] = LG_NO;
	interface();
	assert_int_equal(find(LG_FINDING_SHARED)->fail, LG_KERN_FEATURE);
	assert_null(find(LG_FINDING_ATTACH));
	m.has_libxdp = false;
	interface();
	assert_non_null(strstr(find(LG_FINDING_SHARED)->text, "not installed"));
}

static void a_veth_is_better_limited_at_tc(void **state)
{
	(void)state;
	INTERFACE_SAYS((w.xdp_native = true, strcpy(in.driver, "veth"), strcpy(in.kind, "veth")), XDP_VETH, NOTE, "veth");
	INTERFACE_SAYS((w.is_configured = false, strcpy(in.driver, "veth"), strcpy(in.kind, "veth")), XDP_VETH, NOTE, "veth");
}

static void program(enum lg_hook hook, enum lg_attach_mode mode, bool is_ours)
{
	in.n_programs = 1;
	in.programs[0] = (struct lg_program_facts){ .hook = hook, .mode = mode, .id = 12, .is_ours = is_ours, .name = "theirs", .uid = 5,
						    .pid = 77, .process = "owner" };
}

static void programs_of_others_are_named_with_their_owner(void **state)
{
	(void)state;
	INTERFACE_SAYS((program(LG_HOOK_XDP, LG_MODE_XDP_NATIVE, false), w.xdp_generic = true, in.gro = LG_NO), FOREIGN_XDP, BLOCKER,
		       "program 12 (theirs, native, loaded by user 5, held by owner (pid 77))");
	INTERFACE_SAYS(program(LG_HOOK_XDP, LG_MODE_NONE, false), FOREIGN_XDP, NOTE, "offloaded");
	INTERFACE_SAYS(program(LG_HOOK_TC_INGRESS, LG_MODE_TCX, false), FOREIGN_TCX, NOTE, "tc_ingress: program 12 (theirs, tcx");
	INTERFACE_SAYS(program(LG_HOOK_TC_INGRESS, LG_MODE_CLSACT, false), FOREIGN_FILTER, NOTE, "program 12 (theirs, clsact, held");
	INTERFACE_SAYS((program(LG_HOOK_TC_INGRESS, LG_MODE_CLSACT, false), m.feature[LG_FEATURE_TCX] = LG_NO), FOREIGN_FILTER, WARNING,
		       "tc_ingress");
	INTERFACE_SAYS((program(LG_HOOK_TC_EGRESS, LG_MODE_CLSACT, false), m.feature[LG_FEATURE_TCX] = LG_NO), FOREIGN_FILTER, NOTE,
		       "tc_egress");
	INTERFACE_SAYS((program(LG_HOOK_TC_EGRESS, LG_MODE_CLSACT, false), in.programs[0].id = 0, in.programs[0].priority = 3,
			strcpy(in.programs[0].name, "u32")),
		       FOREIGN_FILTER, NOTE, "a filter of kind u32, priority 3");
	INTERFACE_SAYS((program(LG_HOOK_XDP, LG_MODE_XDP_NATIVE, false), in.programs[0].name[0] = '\0', in.programs[0].pid = 0), FOREIGN_XDP,
		       NOTE, "program 12 (name not known, native)");
	INTERFACE_SAYS(in.programs_known = false, HOOKS_UNKNOWN, NOTE, "could not be listed");
}

static void what_is_attached_already_is_taken_over(void **state)
{
	(void)state;
	program(LG_HOOK_XDP, LG_MODE_XDP_NATIVE, true);
	strcpy(in.driver, "tun");
	w = (struct lg_interface_wants){ .is_configured = true, .xdp_native = true, .tc_egress = true };
	interface();
	assert_null(find(LG_FINDING_FOREIGN_XDP));
	for (size_t i = 0, n = 0; i < found.n; i++)
		if (found.v[i].id == LG_FINDING_ATTACH)
			assert_non_null(strstr(found.v[i].text, n++ ? "tc_egress will be attached" : "xdp is attached already (program 12"));
}

/* ---- where it stands ---- */

static void what_stands_on_what_is_said(void **state)
{
	(void)state;
	INTERFACE_SAYS((strcpy(in.master, "bond0"), strcpy(in.port_kind, "bond")), STACKED, NOTE, "bond bond0");
	INTERFACE_SAYS((strcpy(in.master, "br0"), strcpy(in.port_kind, "bridge")), STACKED, NOTE, "a port of bridge br0");
	INTERFACE_SAYS((strcpy(in.kind, "bond"), in.n_ports = 2), STACKED, NOTE, "2 ports");
	INTERFACE_SAYS((strcpy(in.kind, "vlan"), strcpy(in.lower, "eth0")), STACKED, NOTE, "stands on eth0");
	INTERFACE_SAYS((in.n_children = 1, strcpy(in.children[0], "eth7.9")), STACKED, NOTE, "eth7.9 stands on it");
	INTERFACE_SAYS((in.n_children = 2, strcpy(in.children[0], "eth7.9")), STACKED, NOTE, "eth7.9 and others stand on it");
}

static void an_interface_above_one_that_is_limited_gives_way(void **state)
{
	struct lg_interface_wants upper = { .tc = true }, lower = { .xdp_native = true };

	(void)state;
	lg_judge_above("br0", &upper, "eth7", &lower, &found);
	only(LG_FINDING_GIVES_WAY, LG_SEVERITY_WARNING, "what comes in passes eth7");
	assert_string_equal(found.v[0].object, "br0");
	lg_findings_fini(&found);
	upper.is_pattern = true;
	lg_judge_above("br0", &upper, "eth7", &lower, &found);
	only(LG_FINDING_GIVES_WAY, LG_SEVERITY_NOTE, "what comes in passes eth7");
	lg_findings_fini(&found);
	lower = (struct lg_interface_wants){ .tc_egress = true };
	lg_judge_above("br0", &upper, "eth7", &lower, &found);
	assert_int_equal(found.n, 0);
	upper.tc_egress = true;
	lg_judge_above("br0", &upper, "eth7", &lower, &found);
	only(LG_FINDING_GIVES_WAY, LG_SEVERITY_NOTE, "what goes out passes eth7");
}

/* ---- what a configuration wants ---- */

static bool wants_vlan(const char *match, const char *ifname)
{
	_cleanup_(lg_rules_free) struct lg_rules *rules = NULL;
	struct lg_interface interface = { .xdp = LG_XDP_NATIVE };
	struct lg_complaint c = { 0 };
	char text[300];

	snprintf(text, sizeof(text), "rules:\n  - name: r\n    %s\n    limit: 1/1s\n", match);
	if (lg_rules_parse(text, strlen(text), "r.yaml", &rules, &c) < 0)
		fail_msg("%s: %s", match, c.text);
	return lg_interface_wants_of(&interface, ifname, rules).looks_at_vlan;
}

static void rules_look_at_tags_by_what_they_match_and_by_their_key(void **state)
{
	struct lg_interface interface = { .name = "e", .xdp = LG_XDP_GENERIC, .tc_egress = true };
	struct lg_interface_wants wants = lg_interface_wants_of(&interface, "e", NULL);

	(void)state;
	assert_true(wants.is_configured && wants.xdp_generic && !wants.xdp_native && !wants.tc && wants.tc_egress && !wants.looks_at_vlan);
	interface = (struct lg_interface){ .xdp = LG_XDP_AUTO, .wait = true };
	wants = lg_interface_wants_of(&interface, "e", NULL);
	assert_true(wants.xdp_native && wants.may_fall_back && wants.may_wait);
	interface.require_native = true;
	assert_false(lg_interface_wants_of(&interface, "e", NULL).may_fall_back);
	assert_false(wants_vlan("match: {protocol: udp}", "e"));
	assert_true(wants_vlan("match: {vlan: 7}", "e"));
	assert_true(wants_vlan("match: {vlan: none}", "e"));
	assert_true(wants_vlan("match: {inner_vlan: 7}", "e"));
	assert_true(wants_vlan("key: {vlan: true}", "e"));
	assert_true(wants_vlan("key: {inner_vlan: true}", "e"));
	assert_true(wants_vlan("match: {vlan: 7, interface: e}", "e"));
	assert_false(wants_vlan("match: {vlan: 7, interface: other}", "e"));
	assert_false(wants_vlan("match: {vlan: 7, direction: egress}", "e"));
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		T(every_kind_has_a_name_of_its_own_and_says_why_and_what_to_do),
		T(a_finding_is_never_worse_than_its_kind),
		T(what_to_do_names_the_interface),
		T(the_exit_code_is_of_what_must_be_put_right_first),
		T(a_good_machine_has_nothing_to_tell),
		T(kernels_older_than_the_oldest_tested_are_warned_of),
		T(each_missing_capability_is_named),
		T(a_user_namespace_is_in_the_way),
		T(a_refused_bpf_call_is_a_filter_s_or_the_kernel_s),
		T(pins_belong_on_a_bpf_file_system_that_can_be_written),
		T(locked_memory_counts_before_5_11_alone),
		T(tables_must_fit_into_memory),
		T(what_only_costs_time_is_a_warning),
		T(types_of_the_kernel_and_lockdown_are_no_hindrance),
		T(each_missing_feature_is_in_the_way_but_those_with_another_way),
		T(what_could_not_be_tried_is_said_in_one_finding),
		T(programs_that_do_not_load_are_of_the_kind_that_loading_says),
		T(an_instance_that_is_in_the_kernel_is_taken_over_or_in_the_way),
		T(maps_take_what_their_type_makes_of_their_size),
		T(an_interface_that_is_not_there_is_refused),
		T(a_plain_interface_at_tc_has_nothing_to_tell),
		T(native_xdp_is_known_from_the_kernel_or_from_the_driver),
		T(drivers_that_reset_their_link_are_named),
		T(a_frame_must_fit_into_one_buffer_or_the_driver_do_several),
		T(too_few_queues_are_told_by_driver),
		T(merging_adapters_and_native_xdp_do_not_go_together),
		T(tags_taken_off_matter_to_rules_that_look_at_them_at_xdp),
		T(glued_datagrams_are_warned_of_at_every_hook),
		T(rules_that_pace_want_fq),
		T(sharing_wants_libxdp_and_a_kernel_that_lets_it),
		T(a_veth_is_better_limited_at_tc),
		T(programs_of_others_are_named_with_their_owner),
		T(what_is_attached_already_is_taken_over),
		T(what_stands_on_what_is_said),
		T(an_interface_above_one_that_is_limited_gives_way),
		T(rules_look_at_tags_by_what_they_match_and_by_their_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
