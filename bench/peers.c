// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What a packet costs on its way through a veth pair into a socket, and what limiters add to that: ours at three hooks beside
 * iptables' hashlimit and nftables' dynamic sets, all with a limit of 1,000 packets a second for each source.
 *
 *   build/bench-peers [--json] [--quick] [--rounds N] [--packets N] [--only CASE,...]
 *
 * Method. A generator runs in the kernel on live frames (BPF_PROG_TEST_RUN) and redirects them into one end of the pair; on the same CPU
 * the other end's NAPI takes them in, builds packets, with GRO as a NIC's driver would, and hands them to the filter and to a UDP socket
 * that nobody reads. So no packet is lost between, and the cost of one is the CPU time of the thread and of its ksoftirqd, over
 * the packets sent. What the generator takes by itself, with frames that end in it, is measured in each round and subtracted. All cases
 * of a round run in shuffled order, each after a warm-up that is not counted; results are medians over the rounds. Ratios between cases
 * of one run mean something, absolute figures belong to the machine.
 *
 * Ours has 64 rules in force, of which each packet matches one. The tables of all have about the same room (131,072 sources, ours
 * 262,144 slots); more sources than that show what each does when it is full. Every packet is accounted for: sent = received by the
 * socket's layer + dropped by the filter, or the run fails.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <net/if.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/ethtool.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/ip.h>
#include <linux/sockios.h>
#include <linux/udp.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/mem.h"
#include "kern/kern.h"
#include "rules/compile.h"
#include "rules/yaml.h"
#include "bench/peers.skel.h"
#include "bench_rules.h"
#include "bench_run.h"
#include "peers.h"

#define ROUNDS_MAX 51
#define PORT 9999
#define PORT_TEXT "9999"
#define TABLE_SIZE "131072"
#define LIVE_BATCH 64
#define SENDER "lgpa"
#define RECEIVER "lgpb"
#define N_RULES 64

enum filter { FILTER_GENERATOR,
	      FILTER_NONE,
	      FILTER_XDP_PASS,
	      FILTER_XDP,
	      FILTER_XDP_GENERIC,
	      FILTER_TCX,
	      FILTER_HASHLIMIT,
	      FILTER_NFT_PRE,
	      FILTER_NFT_INGRESS,
	      _FILTER_N };

static const char *const filter_names[] = { "generator", "none", "xdp_pass", "xdp", "xdp_generic",
					    "tcx", "hashlimit", "nft_pre", "nft_ingress" };

static const struct {
	const char *name;
	uint32_t n;
} workloads[] = { { "64", 64 }, { "100k", 100000 }, { "8m", 8000000 } };

#define N_WORKLOADS N_ELEMS(workloads)
#define N_CASES (_FILTER_N * N_WORKLOADS)

struct sample {
	double ns;
	double admitted_per_s;
};

struct bench {
	struct peers_bpf *gen;
	struct lg_kern *kern;
	int sender_ns;
	int receiver_ns;
	uint32_t sender_ifindex;
	int cpu;
	char ksoftirqd[64]; /* its schedstat */
	struct sample sample[N_CASES][ROUNDS_MAX];
	uint32_t rounds;
	uint32_t packets;
	uint32_t seed;
	bool is_json;
	const char *only;
};

__attribute__((format(printf, 1, 2))) static int fail(const char *fmt, ...)
{
	va_list ap;

	fputs("bench-peers: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return -EPROTO;
}

__attribute__((format(printf, 1, 2))) static int run(const char *fmt, ...)
{
	char command[1024];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(command, sizeof(command), fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(command))
		return fail("a command is too long");
	return system(command) ? fail("this failed: %s", command) : 0;
}

/* The first number that a command prints, or -1. */
static int64_t number_of(const char *command)
{
	char line[64] = "";
	FILE *pipe = popen(command, "r");
	bool any;

	if (!pipe)
		return -1;
	any = fgets(line, sizeof(line), pipe);
	return pclose(pipe) || !any ? -1 : strtoll(line, NULL, 10);
}

/* ---- the world: two network namespaces without names, a mount namespace, a pair between ---- */

static int enter(int ns)
{
	return setns(ns, CLONE_NEWNET) ? fail("entering a network namespace: %s", strerror(errno)) : 0;
}

/* A network namespace of its own, held by the descriptor alone. */
static int make_ns(void)
{
	int fd;

	if (unshare(CLONE_NEWNET))
		return fail("a network namespace (needs root): %s", strerror(errno));
	fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	return fd < 0 ? fail("/proc/thread-self/ns/net: %s", strerror(errno)) : fd;
}

/* Lets packets through that the sender's path would combine, as for frames of a NIC; without it a veth takes no redirected frames. */
static int set_gro(const char *ifname)
{
	struct ethtool_value value = { .cmd = ETHTOOL_SGRO, .data = 1 };
	struct ifreq request = { .ifr_data = (void *)&value };
	_cleanup_fd_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", ifname);
	return fd < 0 || ioctl(fd, SIOCETHTOOL, &request) ? fail("GRO of %s: %s", ifname, strerror(errno)) : 0;
}

/* A bound socket that nobody reads: what is let through ends in a full buffer, with all the work before that done. */
static int open_sink(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), bytes = 2048;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)) || bind(fd, (struct sockaddr *)&at, sizeof(at)))
		return fail("port %d of the receiver: %s", PORT, strerror(errno));
	return fd;
}

static int make_world(struct bench *b)
{
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("bpf", "/sys/fs/bpf", "bpf", 0, NULL))
		return fail("a mount namespace with a bpf file system (needs root): %s", strerror(errno));
	b->receiver_ns = make_ns();
	b->sender_ns = b->receiver_ns < 0 ? -1 : make_ns();
	if (b->sender_ns < 0)
		return -EPROTO;
	if (run("ip link add " SENDER " address 02:00:00:00:00:01 type veth peer name " RECEIVER
		" address 02:00:00:00:00:02 netns /proc/%d/fd/%d && ip addr add 10.77.0.1/8 dev " SENDER " && ip link set " SENDER " up",
		getpid(), b->receiver_ns))
		return -EPROTO;
	b->sender_ifindex = if_nametoindex(SENDER);
	if (enter(b->receiver_ns) ||
	    run("ip link set lo up && ip addr add 10.77.0.2/8 dev " RECEIVER " && ip link set " RECEIVER " up && "
		"echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter && echo 0 >/proc/sys/net/ipv4/conf/" RECEIVER "/rp_filter"))
		return -EPROTO;
	if (set_gro(RECEIVER))
		return -EPROTO;
	return open_sink() < 0 ? -EPROTO : 0;
}

/* ---- ours ---- */

static int load_rules(struct lg_kern *kern)
{
	struct lg_compile_env env = { .now_ns = lg_clock_now_ns(), .max_rules = lg_kern_max_rules(kern) };
	_cleanup_free_ struct lg_classifier *classifier = malloc(sizeof(*classifier));
	uint32_t n_lines;
	_cleanup_free_ struct lg_rule_name *names = calloc(LG_RULES_MAX + 1, sizeof(*names));
	_cleanup_free_ struct lg_ruleset *set = calloc(1, sizeof(*set));
	_cleanup_(lg_rules_free) struct lg_rules *rules = NULL;
	_cleanup_free_ char *text = lg_bench_rules(N_RULES, 4,
						   "    limit: 1000/1s\n    burst: 100\n    key: {source: 32}\n"
						   "    match: {protocol: udp, destination: 10.77.0.2/32, destination_port: " PORT_TEXT "}");
	struct lg_complaint c = { 0 };
	int r;

	if (!names || !set || !classifier || !text)
		return fail("not enough memory");
	if (lg_kern_lines_max(kern, &n_lines) < 0)
		return fail("no table of lines");
	env.n_lines = n_lines;
	if (lg_rules_parse(text, strlen(text), "the bench's rules", &rules, &c) < 0 ||
	    lg_rules_compile(rules, &env, set, classifier, names, &c) < 0)
		return fail("line %u: %s", c.line, c.text);
	r = lg_kern_rules_load(kern, set, classifier, names);
	return r < 0 ? fail("loading rules: %s", strerror(-r)) : 0;
}

static int open_ours(struct bench *b)
{
	struct lg_kern_options options = { .instance = "bench", .max_keys = 131072, .line_keys = LG_LINE_KEYS_ANY, .incarnation = 1 };
	struct lg_complaint c = { 0 };
	enum lg_kern_fail kind;

	if (lg_kern_open(&options, &b->kern, &kind, &c) < 0)
		return fail("loading the programs: %s", c.text);
	return load_rules(b->kern);
}

static int attach_ours(struct bench *b, enum lg_hook hook, enum lg_attach_mode mode)
{
	struct lg_attachment attachment;
	struct lg_complaint c = { 0 };
	enum lg_kern_fail kind;

	return lg_kern_attach(b->kern, RECEIVER, hook, mode, &attachment, &kind, &c) < 0 ? fail("attaching: %s", c.text) : 0;
}

static int64_t drops_of_ours(struct bench *b)
{
	static struct lg_count verdicts[_LG_HOOK_N][LG_REASON_SLOTS];
	int64_t drops = 0;

	if (lg_kern_verdicts_read(b->kern, verdicts) < 0)
		return -1;
	for (int hook = 0; hook < _LG_HOOK_N; hook++)
		drops += (int64_t)(verdicts[hook][LG_DROP_LIMIT].packets + verdicts[hook][LG_DROP_CONTENDED].packets +
				   verdicts[hook][LG_DROP_TABLE_FULL].packets);
	return drops;
}

/* ---- filters, in the receiver's namespace ---- */

#define NFT_SET "set m { type ipv4_addr; flags dynamic,timeout; timeout 10s; size " TABLE_SIZE "; };"
#define NFT_LIMIT "ip protocol udp update @m { ip saddr limit rate over 1000/second burst 100 packets } counter drop;"

static int attach(struct bench *b, enum filter filter)
{
	switch (filter) {
	case FILTER_GENERATOR:
	case FILTER_NONE:
	case _FILTER_N: return 0;
	case FILTER_XDP_PASS:
		return bpf_xdp_attach((int)if_nametoindex(RECEIVER), bpf_program__fd(b->gen->progs.peers_pass), XDP_FLAGS_DRV_MODE, NULL) < 0 ?
			       fail("attaching the program that does nothing") :
			       0;
	case FILTER_XDP: return attach_ours(b, LG_HOOK_XDP, LG_MODE_XDP_NATIVE);
	case FILTER_XDP_GENERIC: return attach_ours(b, LG_HOOK_XDP, LG_MODE_XDP_GENERIC);
	case FILTER_TCX: return attach_ours(b, LG_HOOK_TC_INGRESS, LG_MODE_NONE);
	case FILTER_HASHLIMIT:
		return run("iptables-legacy -w -t raw -A PREROUTING -i " RECEIVER " -p udp -m hashlimit --hashlimit-above 1000/sec "
			   "--hashlimit-burst 100 --hashlimit-mode srcip --hashlimit-name bench --hashlimit-htable-size " TABLE_SIZE
			   " --hashlimit-htable-max " TABLE_SIZE " -j DROP");
	case FILTER_NFT_PRE:
		return run("nft 'table ip bench { " NFT_SET " chain c { type filter hook prerouting priority raw; " NFT_LIMIT " }; }'");
	case FILTER_NFT_INGRESS:
		return run("nft 'table netdev bench { " NFT_SET " chain c { type filter hook ingress device \"" RECEIVER
			   "\" priority 0; " NFT_LIMIT " }; }'");
	}
	return 0;
}

static int detach(struct bench *b, enum filter filter)
{
	switch (filter) {
	case FILTER_GENERATOR:
	case FILTER_NONE:
	case _FILTER_N: return 0;
	case FILTER_XDP_PASS: return bpf_xdp_detach((int)if_nametoindex(RECEIVER), XDP_FLAGS_DRV_MODE, NULL);
	case FILTER_XDP:
	case FILTER_XDP_GENERIC: return lg_kern_detach(b->kern, RECEIVER, LG_HOOK_XDP);
	case FILTER_TCX: return lg_kern_detach(b->kern, RECEIVER, LG_HOOK_TC_INGRESS);
	case FILTER_HASHLIMIT: return run("iptables-legacy -w -t raw -F PREROUTING");
	case FILTER_NFT_PRE:
	case FILTER_NFT_INGRESS: return run("nft flush ruleset");
	}
	return 0;
}

/* Packets that the filter has dropped so far, or -1. */
static int64_t drops_of(struct bench *b, enum filter filter)
{
	switch (filter) {
	case FILTER_GENERATOR:
	case FILTER_NONE:
	case FILTER_XDP_PASS:
	case _FILTER_N: return 0;
	case FILTER_XDP:
	case FILTER_XDP_GENERIC:
	case FILTER_TCX: return drops_of_ours(b);
	case FILTER_HASHLIMIT: return number_of("iptables-legacy -w -t raw -L PREROUTING -v -n -x | awk 'NR == 3 { print $1 }'");
	case FILTER_NFT_PRE:
	case FILTER_NFT_INGRESS:
		return number_of("nft list ruleset | sed -n 's/.*counter packets \\([0-9]*\\).*/\\1/p'");
	}
	return -1;
}

/* Datagrams that came as far as the receiver's UDP, read or not. */
static int64_t udp_of(void)
{
	FILE *file = fopen("/proc/thread-self/net/snmp", "re");
	unsigned long long in, no_port, errors;
	int64_t all = -1;
	char line[512];

	if (!file)
		return -1;
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "Udp: %llu %llu %llu", &in, &no_port, &errors) == 3)
			all = (int64_t)(in + no_port + errors);
	}
	fclose(file);
	return all;
}

/* ---- one measurement ---- */

static double ksoftirqd_ns(const struct bench *b)
{
	FILE *file = b->ksoftirqd[0] ? fopen(b->ksoftirqd, "re") : NULL;
	double ns = 0;

	if (!file)
		return 0;
	if (fscanf(file, "%lf", &ns) != 1)
		ns = 0;
	fclose(file);
	return ns;
}

/* In a PID namespace of one's own there is none to be seen. */
static void find_ksoftirqd(struct bench *b)
{
	char command[128];
	int64_t pid;

	snprintf(command, sizeof(command), "grep -lsx ksoftirqd/%d /proc/[0-9]*/comm | cut -d/ -f3", b->cpu);
	pid = number_of(command);
	if (pid > 0)
		snprintf(b->ksoftirqd, sizeof(b->ksoftirqd), "/proc/%" PRId64 "/schedstat", pid);
	else
		fprintf(stderr, "bench-peers: ksoftirqd/%d cannot be seen from here: what it works for us is left out\n", b->cpu);
}

static void make_frame(uint8_t frame[64])
{
	struct ethhdr *eth = (struct ethhdr *)frame;
	struct iphdr *ip = (struct iphdr *)(eth + 1);
	struct udphdr *udp = (struct udphdr *)(ip + 1);

	memset(frame, 0, 64);
	eth->h_dest[0] = eth->h_source[0] = 2;
	eth->h_dest[5] = 2;
	eth->h_source[5] = 1;
	eth->h_proto = htons(ETH_P_IP);
	ip->version = 4;
	ip->ihl = 5;
	ip->ttl = 64;
	ip->protocol = IPPROTO_UDP;
	ip->tot_len = htons(64 - sizeof(*eth));
	ip->daddr = htonl(0x0a4d0002);
	udp->source = htons(4000);
	udp->dest = htons(PORT);
	udp->len = htons(64 - sizeof(*eth) - sizeof(*ip));
}

/* Sends n packets, from the sender's namespace. */
static int generate(struct bench *b, uint32_t n)
{
	uint8_t frame[64];
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = frame, .data_size_in = sizeof(frame), .repeat = (int)n,
		    .flags = BPF_F_TEST_XDP_LIVE_FRAMES, .batch_size = LIVE_BATCH);
	int r;

	make_frame(frame);
	r = bpf_prog_test_run_opts(bpf_program__fd(b->gen->progs.peers_generate), &opts);
	return r < 0 ? fail("running the generator: %s", strerror(-r)) : 0;
}

static int measure(struct bench *b, enum filter filter, struct sample *ret)
{
	int64_t drops, udp, drops_after, udp_after;
	double start_ns, cpu_ns;
	uint64_t wall_ns;

	if (enter(b->sender_ns) || generate(b, b->packets / 4 + 1) || enter(b->receiver_ns))
		return -EPROTO;
	drops = drops_of(b, filter);
	udp = udp_of();
	if (enter(b->sender_ns))
		return -EPROTO;
	wall_ns = lg_clock_now_ns();
	start_ns = lg_bench_thread_ns() + ksoftirqd_ns(b);
	if (generate(b, b->packets))
		return -EPROTO;
	cpu_ns = lg_bench_thread_ns() + ksoftirqd_ns(b) - start_ns;
	wall_ns = lg_clock_now_ns() - wall_ns;
	if (enter(b->receiver_ns))
		return -EPROTO;
	drops_after = drops_of(b, filter);
	udp_after = udp_of();
	if (drops < 0 || udp < 0 || drops_after < 0 || udp_after < 0)
		return fail("%s: no counters", filter_names[filter]);
	ret->ns = cpu_ns / b->packets;
	ret->admitted_per_s = (double)(udp_after - udp) * 1e9 / (double)wall_ns;
	if (filter == FILTER_GENERATOR || drops_after - drops + udp_after - udp == b->packets)
		return 0;
	/* hashlimit's full table drops before the rule can count it. */
	if (filter == FILTER_HASHLIMIT && drops_after - drops + udp_after - udp < b->packets)
		return 0;
	return fail("%s: of %u packets %" PRId64 " were dropped and %" PRId64 " arrived", filter_names[filter], b->packets,
		    drops_after - drops, udp_after - udp);
}

static int run_case(struct bench *b, size_t i, struct sample *ret)
{
	enum filter filter = i / N_WORKLOADS;
	int r;

	b->gen->data->gen_sources = workloads[i % N_WORKLOADS].n;
	b->gen->data->gen_state = lg_bench_random(&b->seed);
	b->gen->bss->gen_ifindex = filter == FILTER_GENERATOR ? 0 : b->sender_ifindex;
	if (enter(b->receiver_ns) || attach(b, filter))
		return -EPROTO;
	r = measure(b, filter, ret);
	if (enter(b->receiver_ns) || detach(b, filter) < 0)
		return fail("detaching %s", filter_names[filter]);
	return r;
}

/* ---- the run ---- */

static bool is_wanted(const struct bench *b, size_t i)
{
	char name[32];

	snprintf(name, sizeof(name), "%s_%s", filter_names[i / N_WORKLOADS], workloads[i % N_WORKLOADS].name);
	return i / N_WORKLOADS == FILTER_GENERATOR || lg_bench_is_listed(b->only, name);
}

static int run_rounds(struct bench *b)
{
	size_t order[N_CASES], i;

	for (i = 0; i < N_CASES; i++)
		order[i] = i;
	for (uint32_t round = 0; round < b->rounds; round++) {
		lg_bench_shuffle(&b->seed, order, N_CASES);
		for (i = 0; i < N_CASES; i++) {
			if (is_wanted(b, order[i]) && run_case(b, order[i], &b->sample[order[i]][round]))
				return -EPROTO;
		}
		if (isatty(STDERR_FILENO))
			fprintf(stderr, "\rround %u of %u", round + 1, b->rounds);
	}
	if (isatty(STDERR_FILENO))
		fputc('\n', stderr);
	return 0;
}

static int by_ns(const void *a, const void *b)
{
	const struct sample *x = a, *y = b;

	return (x->ns > y->ns) - (x->ns < y->ns);
}

static void print_results(struct bench *b)
{
	for (size_t i = 0; i < N_CASES; i++)
		qsort(b->sample[i], b->rounds, sizeof(b->sample[i][0]), by_ns);
	for (size_t i = N_WORKLOADS; i < N_CASES; i++) {
		const struct sample *s = b->sample[i];
		double gen_ns = b->sample[i % N_WORKLOADS][b->rounds / 2].ns, ns = s[b->rounds / 2].ns - gen_ns;

		if (!is_wanted(b, i))
			continue;
		if (b->is_json)
			printf("{\"case\":\"%s_%s\",\"ns\":%.1f,\"admitted_per_s\":%.0f,\"min_ns\":%.1f,\"max_ns\":%.1f,\"rounds\":%u}\n",
			       filter_names[i / N_WORKLOADS], workloads[i % N_WORKLOADS].name, ns, s[b->rounds / 2].admitted_per_s,
			       s[0].ns - gen_ns, s[b->rounds - 1].ns - gen_ns, b->rounds);
		else
			printf("%-12s %-5s %8.1f ns   [%.1f - %.1f]   %11.0f admitted/s\n", filter_names[i / N_WORKLOADS],
			       workloads[i % N_WORKLOADS].name, ns, s[0].ns - gen_ns, s[b->rounds - 1].ns - gen_ns,
			       s[b->rounds / 2].admitted_per_s);
	}
}

static int bench_run(struct bench *b)
{
	cpu_set_t one;

	b->cpu = sched_getcpu();
	CPU_ZERO(&one);
	CPU_SET(b->cpu, &one);
	if (b->cpu < 0 || sched_setaffinity(0, sizeof(one), &one))
		return fail("one CPU: %s", strerror(errno));
	if (system("command -v iptables-legacy nft ip >/dev/null"))
		return fail("needs the packages iptables, nftables and iproute2");
	find_ksoftirqd(b);
	if (make_world(b) || open_ours(b))
		return -EPROTO;
	b->gen = peers_bpf__open_and_load();
	if (!b->gen)
		return fail("loading the generator: %s", strerror(errno));
	/* Held attached, for else each run would change the XDP dispatcher twice and wait for the kernel to settle. */
	if (enter(b->sender_ns) || bpf_xdp_attach(1, bpf_program__fd(b->gen->progs.peers_generate), XDP_FLAGS_SKB_MODE, NULL) < 0)
		return fail("holding the generator");
	return run_rounds(b);
}

static int parse_args(struct bench *b, int argc, char **argv)
{
	uint32_t *number;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--json")) {
			b->is_json = true;
			continue;
		}
		if (!strcmp(argv[i], "--quick")) {
			b->rounds = 1;
			b->packets = 20000;
			continue;
		}
		if (!strcmp(argv[i], "--only") && i + 1 < argc) {
			b->only = argv[++i];
			continue;
		}
		number = !strcmp(argv[i], "--rounds") ? &b->rounds : !strcmp(argv[i], "--packets") ? &b->packets
												   : NULL;
		if (!number || i + 1 == argc)
			return -EINVAL;
		*number = (uint32_t)strtoul(argv[++i], NULL, 10);
	}
	return b->rounds && b->rounds <= ROUNDS_MAX && b->packets >= LIVE_BATCH && b->packets <= 100000000 ? 0 : -EINVAL;
}

int main(int argc, char **argv)
{
	_cleanup_free_ struct bench *b = calloc(1, sizeof(*b));
	int r;

	if (!b)
		return 1;
	b->rounds = 9;
	b->packets = 500000;
	b->seed = (uint32_t)time(NULL);
	if (parse_args(b, argc, argv) < 0) {
		fprintf(stderr, "usage: bench-peers [--json] [--quick] [--rounds 1..%d] [--packets N] [--only CASE,...]\n", ROUNDS_MAX);
		return 2;
	}
	r = bench_run(b);
	if (!r)
		print_results(b);
	peers_bpf__destroy(b->gen);
	lg_kern_free(b->kern);
	return r ? 1 : 0;
}
