// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The programs on a veth pair, for what test runs cannot show: tags that TC holds apart, skbs whose headers lie in
 * pages, and superframes of real TCP. Two network namespaces, this process's own and a child's; both end with them.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "progs_shared.h"

static pid_t child;
static int ns_near = -1, ns_far = -1;

__attribute__((format(printf, 1, 2))) static void run(const char *fmt, ...)
{
	char command[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(command, sizeof(command), fmt, ap);
	va_end(ap);
	if (system(command))
		fail_msg("failed: %s", command);
}

static int open_ns(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* A child in a network namespace of its own, which only waits; it tells by a byte that it is there. */
static void start_child(void)
{
	int ready[2];
	char byte;

	assert_int_equal(pipe(ready), 0);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		if (unshare(CLONE_NEWNET) || write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
}

static void make_world(uint32_t mtu)
{
	assert_int_equal(unshare(CLONE_NEWNET), 0);
	start_child();
	ns_near = open_ns(getpid());
	ns_far = open_ns(child);
	assert_true(ns_near >= 0 && ns_far >= 0);
	run("ip link add lgh0 mtu %u type veth peer name lgh1 mtu %u netns %d", mtu, mtu, (int)child);
	run("ip addr add 10.77.0.1/24 dev lgh0 && ip link set lgh0 up");
	run("nsenter --net=/proc/%d/ns/net sh -c 'ip addr add 10.77.0.2/24 dev lgh1 && ip link set lgh1 up'", (int)child);
	progs_reset(p);
}

static int end_world(void **state)
{
	(void)state;
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(ns_near);
	close(ns_far);
	return 0;
}

static void enter(int ns)
{
	assert_int_equal(setns(ns, CLONE_NEWNET), 0);
}

static void attach_xdp(int ns, const char *name)
{
	enter(ns);
	assert_int_equal(bpf_xdp_attach((int)if_nametoindex(name), progs_fd(p, LG_HOOK_XDP), XDP_FLAGS_DRV_MODE, NULL), 0);
	enter(ns_near);
}

static void attach_tc(int ns, const char *name, enum lg_hook hook)
{
	LIBBPF_OPTS(bpf_tc_hook, where, .attach_point = hook == LG_HOOK_TC_INGRESS ? BPF_TC_INGRESS : BPF_TC_EGRESS);
	LIBBPF_OPTS(bpf_tc_opts, opts, .handle = 1, .priority = 1, .prog_fd = progs_fd(p, hook));

	enter(ns);
	where.ifindex = (int)if_nametoindex(name);
	assert_int_equal(bpf_tc_hook_create(&where), 0);
	assert_int_equal(bpf_tc_attach(&where, &opts), 0);
	enter(ns_near);
}

/* Sends a frame as it is out of lgh0. */
static void send_frame(const struct lg_pkt_buf *pkt)
{
	struct sockaddr_ll to = { .sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex("lgh0"), .sll_halen = 6 };
	_cleanup_fd_ int fd = socket(AF_PACKET, SOCK_RAW, 0);

	assert_true(fd >= 0);
	assert_int_equal(sendto(fd, pkt->data, pkt->len, 0, (struct sockaddr *)&to, sizeof(to)), pkt->len);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * S + (uint64_t)t.tv_nsec;
}

/* What a hook has counted under a reason, once it is n packets: they come through the other end's softirq a moment later. */
static struct lg_count await(enum lg_hook hook, enum lg_reason reason, uint64_t n)
{
	uint64_t deadline_ns = now_ns() + 10 * S;
	struct lg_count count;

	do {
		count = progs_verdicts(p, hook, reason);
	} while (count.packets < n && now_ns() < deadline_ns);
	assert_int_equal(count.packets, n);
	return count;
}

static void both_hooks_charge_the_same_bytes_for_tagged_frames(void **state)
{
	struct lg_pkt_buf pkt;
	uint64_t bytes = 0;

	(void)state;
	make_world(1500);
	attach_xdp(ns_far, "lgh1");
	attach_tc(ns_far, "lgh1", LG_HOOK_TC_INGRESS);
	progs_port(p, progs_rule(p, 1000), 53);
	progs_publish(p);
	for (int tags = 0; tags < 3; tags++) {
		lg_pkt_init(&pkt);
		if (tags == 2)
			lg_pkt_vlan(&pkt, 0x88a8, 208 | 5 << 13);
		if (tags)
			lg_pkt_vlan(&pkt, 0x8100, 4);
		lg_pkt_ip4(&pkt, "10.0.0.1", "192.0.2.1", 0);
		lg_pkt_udp(&pkt, 40000, 53);
		lg_pkt_payload(&pkt, 100, 0);
		lg_pkt_done(&pkt);
		send_frame(&pkt);
		bytes += pkt.len;
	}
	assert_int_equal(await(LG_HOOK_XDP, LG_PASS_ADMITTED, 3).bytes, bytes);
	assert_int_equal(await(LG_HOOK_TC_INGRESS, LG_PASS_ADMITTED, 3).bytes, bytes);

	/* Three tags: XDP sees all of them, TC one apart and two in the frame. */
	lg_pkt_init(&pkt);
	for (uint16_t i = 1; i <= 3; i++)
		lg_pkt_vlan(&pkt, 0x8100, i);
	lg_pkt_ip4(&pkt, "10.0.0.1", "192.0.2.1", 0);
	lg_pkt_udp(&pkt, 40000, 53);
	lg_pkt_done(&pkt);
	send_frame(&pkt);
	assert_int_equal(await(LG_HOOK_XDP, LG_PASS_UNPARSABLE, 1).bytes, pkt.len);
	assert_int_equal(await(LG_HOOK_TC_INGRESS, LG_PASS_UNPARSABLE, 1).bytes, pkt.len);
}

/* A frame beyond a page has only its MAC header in the skb's linear part; the ports lie 4 KiB behind. */
static void headers_in_an_skb_s_pages_are_read(void **state)
{
	struct lg_pkt_buf pkt;
	struct lg_rule *rule;

	(void)state;
	make_world(9000);
	attach_tc(ns_far, "lgh1", LG_HOOK_TC_INGRESS);
	rule = progs_rule(p, 0);
	progs_port(p, rule, 53);
	progs_publish(p);
	lg_pkt_init(&pkt);
	lg_pkt_ip6(&pkt, "2001:db8::1", "2001:db8::2");
	lg_pkt_ext(&pkt, 0, 255);
	lg_pkt_ext(&pkt, 60, 255);
	lg_pkt_udp(&pkt, 40000, 53);
	lg_pkt_payload(&pkt, 4000, 0);
	lg_pkt_done(&pkt);
	send_frame(&pkt);
	assert_int_equal(await(LG_HOOK_TC_INGRESS, LG_DROP_LIMIT, 1).bytes, pkt.len);
	lg_pkt_udp4(&pkt, "10.0.0.1", "192.0.2.1", 53, 6000);
	send_frame(&pkt);
	await(LG_HOOK_TC_INGRESS, LG_DROP_LIMIT, 2);
}

static uint64_t runs(enum lg_hook hook)
{
	struct bpf_prog_info info = { 0 };
	uint32_t len = sizeof(info);

	assert_int_equal(bpf_obj_get_info_by_fd(progs_fd(p, hook), &info, &len), 0);
	return info.run_cnt;
}

/* TCP from the near to the far end. The send buffer is small, so that the far end's ring never overflows. */
static void transfer(uint32_t len)
{
	struct sockaddr_in far_end = { .sin_family = AF_INET, .sin_port = htons(7777) };
	_cleanup_fd_ int listener = -1, in = -1, out = -1;
	static char buf[1 << 16];
	int small = 1 << 15;
	ssize_t n;

	far_end.sin_addr.s_addr = inet_addr("10.77.0.2");
	enter(ns_far);
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&far_end, sizeof(far_end)), 0);
	assert_int_equal(listen(listener, 1), 0);
	enter(ns_near);
	out = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(setsockopt(out, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
	assert_int_equal(connect(out, (struct sockaddr *)&far_end, sizeof(far_end)), 0);
	in = accept(listener, NULL, NULL);
	assert_true(in >= 0);
	for (uint32_t sent = 0, got = 0; got < len;) {
		n = sent < len ? send(out, buf, sizeof(buf) < len - sent ? sizeof(buf) : len - sent, MSG_DONTWAIT) : 0;
		sent += n > 0 ? (uint32_t)n : 0;
		n = recv(in, buf, sizeof(buf), sent < len ? MSG_DONTWAIT : 0);
		got += n > 0 ? (uint32_t)n : 0;
	}
	/* To the last FIN, so that nothing is under way when the counts are compared. */
	shutdown(out, SHUT_WR);
	assert_int_equal(recv(in, buf, sizeof(buf), 0), 0);
	shutdown(in, SHUT_WR);
	assert_int_equal(recv(out, buf, sizeof(buf), 0), 0);
}

/* Egress at the near end sees TCP's superframes before they are cut, XDP at the far end what became of them on the wire. */
static void superframes_are_charged_as_what_they_become_on_the_wire(void **state)
{
	struct lg_count before, after;
	struct lg_rule *rule;
	uint64_t n_runs;
	_cleanup_fd_ int stats = bpf_enable_stats(BPF_STATS_RUN_TIME);

	(void)state;
	assert_true(stats >= 0);
	make_world(1500);
	attach_xdp(ns_far, "lgh1");
	attach_tc(ns_near, "lgh0", LG_HOOK_TC_EGRESS);
	rule = progs_rule(p, 1u << 30); /* counts the TCP packets to the far end and nothing else */
	progs_port(p, rule, 7777);
	progs_publish(p);
	n_runs = runs(LG_HOOK_TC_EGRESS);
	transfer(4u << 20);
	n_runs = runs(LG_HOOK_TC_EGRESS) - n_runs;
	before = progs_verdicts(p, LG_HOOK_TC_EGRESS, LG_PASS_ADMITTED);
	after = await(LG_HOOK_XDP, LG_PASS_ADMITTED, before.packets);
	print_message("%llu packets of %llu bytes in %llu skbs\n", (unsigned long long)before.packets,
		      (unsigned long long)before.bytes, (unsigned long long)n_runs);
	assert_int_equal(after.bytes, before.bytes);
	assert_true(before.bytes > 4u << 20);
	assert_true(n_runs < before.packets / 2);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(both_hooks_charge_the_same_bytes_for_tagged_frames, end_world),
		cmocka_unit_test_teardown(headers_in_an_skb_s_pages_are_read, end_world),
		cmocka_unit_test_teardown(superframes_are_charged_as_what_they_become_on_the_wire, end_world),
	};

	return cmocka_run_group_tests(tests, load, unload);
}
