/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * The world in which the kernel part is tested: a network and a mount namespace of the test's process, a bpf file
 * system mounted for it, and a veth pair lgk0 - lgk1 made anew for each test. Nothing outside is touched and nothing is
 * left behind.
 */
#pragma once

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "kern/kern.h"
#include "rules/vectors.h"

#define TEST_ETHERTYPE 0x88b5 /* for experiments: nothing else sends it */
#define FRAMES 20

#define TEXT_OF_(x) #x
#define TEXT_OF(x) TEXT_OF_(x)
#define VERSION_DIR "v" TEXT_OF(LG_ABI_VERSION) /* where the maps are pinned */

static char base[] = "/tmp/lg-kern-test-XXXXXX"; /* a bpf file system is mounted here */
static char root[64];
static struct lg_complaint complaint;
static enum lg_kern_fail fail;

/*
 * The instance "t". Loading the programs takes most of a test's time, so it goes from test to test, with nothing
 * attached. A test that breaks it frees it and leaves NULL: the next one begins with an instance made anew.
 */
static struct lg_kern *kern;

/* ---- small helpers ---- */

__attribute__((format(printf, 1, 2))) static inline int try_run(const char *fmt, ...)
{
	char command[512];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(command, sizeof(command), fmt, ap);
	va_end(ap);
	assert_in_range(n, 1, sizeof(command) - 1);
	return system(command);
}

#define run(...) assert_int_equal(try_run(__VA_ARGS__), 0)

static inline struct lg_kern_options options(const char *instance)
{
	return (struct lg_kern_options){ .instance = instance, .root = root, .max_keys = 1024, .incarnation = 7 };
}

/* Loads a set with a classifier by which every packet matches all its rules. */
static inline int load_set(const struct lg_ruleset *set, const struct lg_rule_name *names)
{
	static struct lg_classifier classifier;
	const struct lg_match *matches[LG_RULES_MAX];
	static const struct lg_match any;
	struct lg_complaint c;

	for (uint32_t i = 0; i < LG_RULES_MAX; i++)
		matches[i] = &any;
	assert_int_equal(lg_vectors_build(matches, set->n_rules <= LG_RULES_MAX ? set->n_rules : LG_RULES_MAX,
					  (const char(*)[16])set->interfaces, &classifier, &c),
			 0);
	return lg_kern_rules_load(kern, set, &classifier, names);
}

static inline struct lg_kern *open_as(const struct lg_kern_options *o, int want)
{
	struct lg_kern *opened = NULL;
	int r;

	r = lg_kern_open(o, &opened, &fail, &complaint);
	if (r != want)
		print_error("lg_kern_open: %d (%s), wanted %d\n", r, complaint.text, want);
	assert_int_equal(r, want);
	assert_int_equal(fail, LG_KERN_OK);
	return opened;
}

/* As another process would after this one's end. */
static inline void reopen(void)
{
	struct lg_kern_options o = options("t");

	kern = lg_kern_free(kern);
	kern = open_as(&o, 1);
}

static inline struct lg_attachment attach(struct lg_kern *to, const char *ifname, enum lg_hook hook,
					  enum lg_attach_mode mode)
{
	struct lg_attachment at;
	int r;

	r = lg_kern_attach(to, ifname, hook, mode, &at, &fail, &complaint);
	if (r)
		print_error("lg_kern_attach: %d (%s)\n", r, complaint.text);
	assert_int_equal(r, 0);
	assert_string_equal(at.ifname, ifname);
	assert_int_equal(at.ifindex, if_nametoindex(ifname));
	assert_int_equal(at.hook, hook);
	return at;
}

static inline void assert_text_has(const char *part)
{
	if (!strstr(complaint.text, part))
		fail_msg("the complaint '%s' does not say '%s'", complaint.text, part);
}

static inline void pin_path(char ret[256], const char *tail)
{
	snprintf(ret, 256, "%s/t/%s", root, tail);
}

static inline bool is_pinned(const char *tail)
{
	char path[256];

	pin_path(path, tail);
	return access(path, F_OK) == 0;
}

static inline int map_fd(const char *name)
{
	char path[256], tail[64];
	int fd;

	snprintf(tail, sizeof(tail), "v%d/%s", LG_ABI_VERSION, name);
	pin_path(path, tail);
	fd = bpf_obj_get(path);
	assert_true(fd >= 0);
	return fd;
}

/* Entries of a directory, but the kernel's own (maps.debug) of a fresh bpf file system; -1 when it does not exist. */
static inline int n_entries(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;
	int n = 0;

	if (!d)
		return -1;
	while ((e = readdir(d)))
		n += e->d_name[0] != '.' && !strstr(e->d_name, ".debug");
	closedir(d);
	return n;
}

static inline int n_links_pinned(void)
{
	char path[256];

	pin_path(path, "links");
	return n_entries(path);
}

static inline uint32_t xdp_prog_id(const char *ifname)
{
	LIBBPF_OPTS(bpf_xdp_query_opts, q);

	assert_int_equal(bpf_xdp_query((int)if_nametoindex(ifname), 0, &q), 0);
	return q.drv_prog_id ? q.drv_prog_id : q.skb_prog_id;
}

/* ---- traffic ---- */

static inline int packet_socket(const char *ifname, uint16_t protocol)
{
	struct sockaddr_ll to = { .sll_family = AF_PACKET, .sll_protocol = htons(protocol) };
	struct timeval patience = { .tv_sec = 10 };
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	to.sll_ifindex = (int)if_nametoindex(ifname);
	assert_int_equal(bind(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
	return fd;
}

/*
 * Sends frames from one end of the pair to the other and returns when the last was received. The receiver stands behind
 * XDP and TC, so by then all of them are counted.
 */
static inline void send_frames(const char *from, const char *to, int n)
{
	int rx = packet_socket(to, TEST_ETHERTYPE);
	int tx = packet_socket(from, 0);
	char frame[60] = { 0 };

	memset(frame, 0xff, ETH_ALEN);
	frame[ETH_ALEN] = 2;
	*(uint16_t *)(frame + 2 * ETH_ALEN) = htons(TEST_ETHERTYPE);
	for (int i = 0; i < n; i++) {
		assert_int_equal(send(tx, frame, sizeof(frame), 0), sizeof(frame));
		assert_int_equal(recv(rx, frame, sizeof(frame), 0), sizeof(frame));
	}
	close(tx);
	close(rx);
}

static inline uint64_t counted(enum lg_hook hook)
{
	struct lg_count counts[_LG_HOOK_N][LG_REASON_SLOTS];
	uint64_t n = 0;

	assert_int_equal(lg_kern_verdicts_read(kern, counts), 0);
	for (int i = 0; i < LG_REASON_SLOTS; i++)
		n += counts[hook][i].packets;
	return n;
}

/* How many of the frames are counted that go from one end to the other. */
static inline uint64_t frames_counted(enum lg_hook hook, const char *from, const char *to)
{
	uint64_t before = counted(hook);

	send_frames(from, to, FRAMES);
	return counted(hook) - before;
}

/* ---- a child that may end as it likes ---- */

/* Runs fn in a child; returns its exit status, without its test's clean-up having run. */
static inline int in_child(int (*fn)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(fn());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* ---- the world of the tests ---- */

static inline int group_setup(void **state)
{
	(void)state;
	assert_int_equal(unshare(CLONE_NEWNET | CLONE_NEWNS), 0);
	assert_int_equal(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	assert_non_null(mkdtemp(base));
	assert_int_equal(mount("bpf", base, "bpf", 0, NULL), 0);
	snprintf(root, sizeof(root), "%s/leasegate", base);
	/* Frames that nobody sent would be counted, too. */
	try_run("echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6; echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6");
	return 0;
}

static inline int group_teardown(void **state)
{
	(void)state;
	kern = lg_kern_free(kern);
	assert_in_range(lg_kern_detach_all("t", root, &fail, &complaint) + 1, 1, 4);
	assert_int_equal(n_entries(base), 0);
	umount2(base, MNT_DETACH);
	rmdir(base);
	return 0;
}

static inline int setup(void **state)
{
	struct lg_kern_options o = options("t");

	(void)state;
	memset(&complaint, 0, sizeof(complaint));
	try_run("ip link del lgk0 2>/dev/null"); /* of a test that was cut short */
	run("ip link add lgk0 type veth peer name lgk1 && ip link set lgk0 up && ip link set lgk1 up");
	if (!kern)
		kern = open_as(&o, 0);
	return 0;
}

static inline int teardown(void **state)
{
	static const char *const used[] = { "lgk0", "lgk1", "lgk2", "lo", "lg.k-2~.100" };

	(void)state;
	try_run("ip link del lgk0 2>/dev/null; ip link del lgk2 2>/dev/null");
	for (size_t i = 0; kern && i < N_ELEMS(used); i++)
		for (enum lg_hook hook = 0; hook < _LG_HOOK_N; hook++)
			assert_int_equal(lg_kern_detach(kern, used[i], hook), 0);
	if (!kern)
		assert_in_range(lg_kern_detach_all("t", root, &fail, &complaint) + 1, 1, 4);
	assert_in_range(n_links_pinned() + 1, 0, 1);
	return 0;
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
