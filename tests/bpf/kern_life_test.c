// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * An instance through its life: rules swapped under a flood, a build with another layout of the maps and back, and processes that die
 * between any two steps of start, reload, takeover and detach. With LIFE=PATTERN in the environment the long tests of these names run
 * instead, some tens of minutes for LIFE='*': at every step (from LIFE_FIRST on every LIFE_STRIDE-th), and LIFE_KILLS (1,000) times each
 * at a random step of a random one and at any time (SEED).
 */
#include "tests/bpf/kern_world.h"

#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "kern/internal.h"
#include "leasegate.skel.h"
#include "rules/compile.h"
#include "rules/yaml.h"
#include "tests/lib/killer.h"
#include "tests/lib/pkt.h"

#define HOST_BURST 50
#define GRANTED 100

static bool all_points;
static uint32_t first = 1, stride = 1;

static struct lg_kern_options life_options(void)
{
	struct lg_kern_options o = options("t");

	o.line_keys = 8192;
	/* Programs are loaded as late as can be: then there are more steps to die between, and fewer of them wait for the verifier. */
	o.unused_hooks = 1u << LG_HOOK_XDP | 1u << LG_HOOK_TC_INGRESS | 1u << LG_HOOK_TC_EGRESS;
	return o;
}

static void start_again(void)
{
	struct lg_kern_options o = life_options();

	kern = lg_kern_free(kern);
	kern = open_as(&o, 1);
}

/* ---- rules ---- */

#define BASE_RULES                                                                                                                        \
	"rules:\n"                                                                                                                        \
	"  - {name: host, scope: host, match: {protocol: udp}, limit: 1/31d, burst: 50, table: exact}\n"                         \
	"  - {name: source, scope: host, match: {protocol: udp, destination_port: 53}, key: {source: 32}, limit: 1/31d, burst: 60, "      \
	"table: exact}\n"                                                                                                                 \
	"  - {name: lines, scope: host, match: {protocol: udp, destination_port: 1-99}, key: {source: 32}, limit: 1/31d, burst: 70, "     \
	"table: lines}\n"                                                                                                                 \
	"  - {name: leased, scope: global, match: {protocol: udp, destination_port: 50-60}, key: {source: 32}, limit: 1000/1h, "          \
	"burst: 1000, fallback: deny}\n"

/* Puts rules into force as a node does, with `n` more that no datagram matches. */
static int rules_load(const char *base_rules, uint32_t n)
{
	static struct lg_rule_name old_names[LG_RULES_MAX + 1], names[LG_RULES_MAX + 1];
	struct lg_compile_env env = { .now_ns = lg_clock_now_ns(), .n_regions = 1, .hosts_in_region = 1, .grace_ns = LG_NS_PER_S,
				      .max_rules = lg_kern_max_rules(kern) };
	static struct lg_ruleset old_set, set;
	static struct lg_classifier classifier;
	_cleanup_(lg_rules_free) struct lg_rules *rules = NULL;
	char text[8192];
	size_t len;
	int r;

	len = (size_t)snprintf(text, sizeof(text), "%s", base_rules);
	for (uint32_t i = 0; i < n; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len,
					"  - {name: other-%u, scope: host, match: {protocol: tcp, destination_port: %u}, limit: 0/1s}\n", i,
					1000 + i);
	r = lg_rules_parse(text, len, "r.yaml", &rules, &complaint);
	if (r == 0)
		r = lg_kern_rules_read(kern, &old_set, old_names);
	if (r == 0)
		r = lg_kern_lines_max(kern, &env.n_lines);
	env.old_set = &old_set;
	env.old_names = old_names;
	if (r == 0)
		r = lg_rules_compile(rules, &env, &set, &classifier, names, &complaint);
	return r == 0 ? lg_kern_rules_load(kern, &set, &classifier, names) : r;
}

static void rules_load_ok(const char *base_rules, uint32_t n)
{
	int r = rules_load(base_rules, n);

	if (r)
		fail_msg("%d: %u: %s", r, complaint.line, complaint.text);
}

static uint32_t rule_id(const char *name)
{
	static struct lg_rule_name names[LG_RULES_MAX + 1];
	static struct lg_ruleset set;

	assert_int_equal(lg_kern_rules_read(kern, &set, names), 0);
	for (uint32_t i = 0; i < set.n_rules; i++)
		if (strcmp(names[set.rules[i].rule_id].name, name) == 0)
			return set.rules[i].rule_id;
	fail_msg("no rule '%s' is in force", name);
	return 0;
}

static struct lg_key key_of(const char *name)
{
	return (struct lg_key){ .rule_id = rule_id(name), .form = LG_FORM_SOURCE, .a = { [10] = 0xff, 0xff, 10, 0, 0, 1 } };
}

static struct lg_op op_run(const char *name, enum lg_op_code code, uint64_t tok)
{
	struct lg_op op = { .key = key_of(name), .code = code, .tok = tok, .low_water_tok = ~0ull, .epoch = 5, .generation = 3,
			    .expires_ns = lg_clock_now_ns() + 3600 * LG_NS_PER_S };

	assert_int_equal(code == LG_OP_READ ? lg_kern_collect(kern, &op, 1) : lg_kern_grant(kern, &op, 1), 0);
	assert_int_equal(op.result, 0);
	return op;
}

/* ---- traffic: datagrams from 10.0.0.1 to port 53, over the wire ---- */

struct flood {
	pthread_t thread;
	atomic_bool stop;
	atomic_ullong n_sent;
};

static int open_sender(struct lg_pkt_buf *pkt)
{
	lg_pkt_udp4(pkt, "10.0.0.1", "192.0.2.1", 53, 20);
	return packet_socket("lgk1", 0);
}

static void *flood_run(void *arg)
{
	struct flood *f = arg;
	struct lg_pkt_buf pkt;
	int tx = open_sender(&pkt);

	while (!atomic_load(&f->stop))
		if (send(tx, pkt.data, pkt.len, 0) == (ssize_t)pkt.len)
			atomic_fetch_add(&f->n_sent, 1);
	close(tx);
	return NULL;
}

static void flood_start(struct flood *f)
{
	atomic_store(&f->stop, false);
	atomic_store(&f->n_sent, 0);
	assert_int_equal(pthread_create(&f->thread, NULL, flood_run, f), 0);
}

/* Once more packets have come than could pass. */
static uint64_t flood_stop(struct flood *f)
{
	uint64_t enough = atomic_load(&f->n_sent) + 1000, deadline_ns = lg_clock_now_ns() + 30 * LG_NS_PER_S;

	while (atomic_load(&f->n_sent) < enough && lg_clock_now_ns() < deadline_ns)
		sched_yield();
	atomic_store(&f->stop, true);
	assert_int_equal(pthread_join(f->thread, NULL), 0);
	return atomic_load(&f->n_sent);
}

/* Counts what came through to lgk0. A frame of another kind, which nothing limits, comes after all that was sent before it. */
struct receiver {
	int data, marker;
	uint32_t n;
};

static struct receiver receiver_open(void)
{
	int size = 32 << 20;
	struct receiver r = { packet_socket("lgk0", ETH_P_IP), packet_socket("lgk0", TEST_ETHERTYPE), 0 };

	setsockopt(r.data, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	return r;
}

/* Takes what has come: a minute's worth of packets has room in the socket. */
static void receiver_drain(struct receiver *r)
{
	char frame[2048];

	while (recv(r->data, frame, sizeof(frame), MSG_DONTWAIT) > 0)
		r->n++;
}

static uint32_t receiver_close(struct receiver *r)
{
	char frame[2048] = { 0 };
	int tx = packet_socket("lgk1", 0);

	memset(frame, 0xff, ETH_ALEN);
	*(uint16_t *)(frame + 2 * ETH_ALEN) = htons(TEST_ETHERTYPE);
	assert_int_equal(send(tx, frame, 60, 0), 60);
	assert_int_equal(recv(r->marker, frame, sizeof(frame), 0), 60);
	receiver_drain(r);
	close(tx);
	close(r->data);
	close(r->marker);
	return r->n;
}

/* Sends n; returns how many came through. */
static uint32_t pass(uint32_t n)
{
	struct receiver r = receiver_open();
	struct lg_pkt_buf pkt;
	int tx = open_sender(&pkt);

	while (n--)
		assert_int_equal(send(tx, pkt.data, pkt.len, 0), pkt.len);
	close(tx);
	return receiver_close(&r);
}

/* ---- the instance ---- */

struct link_facts {
	uint32_t id, prog_id;
};

static struct link_facts link_facts(void)
{
	struct lg_link_facts facts;
	char path[256];
	int fd;

	pin_path(path, "links/lgk0-xdp");
	assert_int_equal(lg_link_open(path, LG_HOOK_XDP, &facts, &fd), 0);
	close(fd);
	return (struct link_facts){ facts.id, facts.prog_id };
}

#define SPENT 35

/* What is spent of each: so 15 of 50, 25 of 60 and 35 of 70 are left of buckets, and 30 of 100 of a lease. */
static void prepare(void)
{
	rules_load_ok(BASE_RULES, 0);
	attach(kern, "lgk0", LG_HOOK_XDP, LG_MODE_XDP_NATIVE);
	op_run("leased", LG_OP_GRANT, GRANTED);
	assert_int_equal(pass(SPENT), SPENT);
	op_run("leased", LG_OP_TAKE, SPENT);
}

struct level {
	uint64_t spent_tok, full_at_vt;
};

static struct level level_of(const char *name, bool by_source)
{
	struct lg_op op = { .key = key_of(name), .code = LG_OP_READ };

	if (!by_source) {
		op.key.form = LG_FORM_RULE;
		memset(op.key.a, 0, sizeof(op.key.a));
	}
	assert_int_equal(lg_kern_collect(kern, &op, 1), 0);
	assert_int_equal(op.result, 0);
	return (struct level){ op.after.spent_tok, op.after.full_at_vt };
}

static uint64_t lines_spent(void)
{
	static struct lg_rule_name names[LG_RULES_MAX + 1];
	static struct lg_ruleset set;
	uint32_t n = 0;

	assert_int_equal(lg_kern_rules_read(kern, &set, names), 0);
	assert_int_equal(lg_kern_lines_count(kern, lg_ruleset_find(&set, rule_id("lines")), lg_clock_now_ns(), &n), 0);
	return n;
}

/* Everything as prepare() and `more` packets left it. */
static void check_levels(uint32_t more)
{
	assert_int_equal(level_of("host", false).spent_tok, SPENT + more);
	assert_int_equal(level_of("source", true).spent_tok, SPENT + more);
	assert_int_equal(level_of("leased", true).spent_tok, 2 * SPENT + more);
	assert_int_equal(lines_spent(), 1);
}

static uint32_t n_maps_pinned(const char *dir)
{
	char path[256];
	int n;

	pin_path(path, dir);
	n = n_entries(path);
	return n < 0 ? 0 : (uint32_t)n;
}

static uint32_t n_maps(void)
{
	static uint32_t n;
	struct leasegate_bpf *skel;
	struct bpf_map *map;

	if (n)
		return n;
	skel = leasegate_bpf__open();
	assert_non_null(skel);
	bpf_object__for_each_map(map, skel->obj)
		n += !bpf_map__is_internal(map);
	leasegate_bpf__destroy(skel);
	return n;
}

/* One link, one program, no pin that is none of this version's maps. */
static void check_pins(uint32_t version)
{
	char dir[16], path[256];

	snprintf(dir, sizeof(dir), "v%u", version);
	assert_int_equal(n_maps_pinned(dir), n_maps());
	pin_path(path, "");
	assert_int_equal(n_entries(path), 2);
	assert_int_equal(n_links_pinned(), 1);
	assert_int_equal(xdp_prog_id("lgk0"), link_facts().prog_id);
}

static void nothing_left(void)
{
	kern = lg_kern_free(kern);
	assert_true(lg_kern_detach_all("t", root, &fail, &complaint) >= 0);
	assert_int_equal(xdp_prog_id("lgk0"), 0);
	assert_int_equal(n_entries(base), 0);
}

static void start_anew(void)
{
	struct lg_kern_options o = life_options();

	if (kern)
		lg_kern_free(kern);
	kern = NULL;
	assert_true(lg_kern_detach_all("t", root, &fail, &complaint) >= 0);
	kern = open_as(&o, 0);
	prepare();
}

/* ---- the other build: this one's code, with another layout and the next version ---- */

static char said[8192]; /* what it printed last */

static void next_path(char ret[PATH_MAX])
{
	char exe[PATH_MAX] = "";

	assert_true(readlink("/proc/self/exe", exe, sizeof(exe) - 1) > 0);
	snprintf(ret, PATH_MAX, "%.3000s/kern-start", dirname(exe));
	if (access(ret, X_OK) < 0)
		snprintf(ret, PATH_MAX, "%.3000s/../../next/kern-start", exe);
	assert_int_equal(access(ret, X_OK), 0);
}

/* Starts it; returns its exit code. */
static int next(const char *mode)
{
	char path[PATH_MAX], command[PATH_MAX + 256];
	size_t n;
	FILE *f;
	int r;

	next_path(path);
	snprintf(command, sizeof(command), "%s %s t %s lgk0", path, root, mode);
	f = popen(command, "re");
	assert_non_null(f);
	n = fread(said, 1, sizeof(said) - 1, f);
	said[n] = '\0';
	r = pclose(f);
	assert_true(WIFEXITED(r));
	return WEXITSTATUS(r);
}

static void next_ok(const char *mode)
{
	if (next(mode))
		fail_msg("the other build says: %s", said);
}

static uint64_t said_number(const char *name)
{
	char line[64];
	const char *at;

	snprintf(line, sizeof(line), "\n%s ", name);
	at = strstr(said, line);
	if (!at)
		fail_msg("the other build does not say '%s': %s", name, said);
	return strtoull(at + strlen(line), NULL, 10);
}

static uint64_t said_of(const char *what, uint32_t id, uint32_t key)
{
	char name[64];

	snprintf(name, sizeof(name), "%s.%u.%u", what, id, key);
	return said_number(name);
}

static int exec_next(void *mode)
{
	char path[PATH_MAX];
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	next_path(path);
	dup2(null, STDOUT_FILENO);
	execl(path, path, root, "t", (char *)mode, "lgk0", NULL);
	return 126;
}

/* ---- tests ---- */

static int life_setup(void **state)
{
	struct lg_kern_options o = life_options();

	(void)state;
	memset(&complaint, 0, sizeof(complaint));
	try_run("ip link del lgk0 2>/dev/null"); /* of a test that was cut short */
	run("ip link add lgk0 type veth peer name lgk1 && ip link set lgk0 up && ip link set lgk1 up");
	if (!kern)
		kern = open_as(&o, 0);
	return 0;
}

static void a_hundred_reloads_under_a_flood_admit_what_the_rate_gives_and_one_burst(void **state)
{
	static const char *const rules[] = { "rules:\n  - {name: a, scope: host, match: {protocol: udp}, key: {source: 32}, limit: 20000/1s, "
					     "burst: 500, table: exact}\n",
					     "rules:\n  - {name: a, scope: host, match: {protocol: udp}, key: {source: 32}, limit: 10000/1s, "
					     "burst: 300, table: exact}\n" };
	struct receiver r = receiver_open();
	uint64_t start_ns, took_ns, n_sent;
	struct flood f;
	uint32_t n;

	(void)state;
	rules_load_ok(rules[0], 0);
	attach(kern, "lgk0", LG_HOOK_XDP, LG_MODE_XDP_NATIVE);
	start_ns = lg_clock_now_ns();
	flood_start(&f);
	for (uint32_t i = 0; i < 100; i++)
		rules_load_ok(rules[i & 1], i % 7);
	n_sent = flood_stop(&f);
	took_ns = lg_clock_now_ns() - start_ns;
	n = receiver_close(&r);
	print_message("%u of %llu in %llu ms\n", n, (unsigned long long)n_sent, (unsigned long long)(took_ns / LG_NS_PER_MS));
	assert_true(n <= 500 + 20000 * took_ns / LG_NS_PER_S);
	assert_true(n_sent > n && n > 500);
}

/* ---- a build with another layout ---- */

/* Maps of another layout are named member by member, and go on. */
static void check_refused(void)
{
	struct link_facts before = link_facts();

	assert_int_equal(next("refuse"), LG_KERN_REFUSED);
	assert_non_null(strstr(said, "maps of ABI version " TEXT_OF(LG_ABI_VERSION) " are in force, this build speaks version"));
	assert_non_null(strstr(said, "the pinned map 'control' is another than this build needs (value size "));
	assert_non_null(strstr(said, "; next_word: not there, needed at offset 8, 8 bytes; incarnation: offset 8, 8 bytes, needed offset 16, 8 "
				     "bytes"));
	assert_non_null(strstr(said, "more differences in"));
	assert_non_null(strstr(said, "start once with --migrate"));
	assert_int_equal(link_facts().prog_id, before.prog_id);
	check_pins(LG_ABI_VERSION);
}

static void check_carried_levels(uint32_t host, uint32_t source, uint32_t leased, uint32_t more)
{
	assert_int_equal(said_of("spent", host, 0), SPENT + more);
	assert_int_equal(said_of("spent", source, 1), SPENT + more);
	assert_int_equal(said_of("granted", leased, 1), GRANTED);
	assert_int_equal(said_of("spent", leased, 1), 2 * SPENT + more);
}

static void check_carried(uint32_t host, uint32_t source, uint32_t leased, uint32_t more, bool is_whole)
{
	check_carried_levels(host, source, leased, more);
	assert_int_equal(said_of("epoch", leased, 1), 5);
	/* A process that died behind the takeover's last step but one leaves limits of 0, until the node loads its rules. */
	assert_true(said_number("limit.host") == HOST_BURST || (!is_whole && said_number("limit.host") == 0));
	assert_int_equal(said_number("rules"), 4);
	assert_int_equal(said_number("abi"), LG_ABI_VERSION + 1);
}

/* No packet finds the hook empty or a bucket full again: of a flood exactly what was left comes through. */
static void check_takeover(void)
{
	uint32_t host = rule_id("host"), source = rule_id("source"), leased = rule_id("leased");
	struct link_facts before = link_facts(), after;
	struct lg_control control;
	struct level was = level_of("source", true);
	struct receiver r;
	struct flood f;
	uint64_t n_sent, moved_vt;

	assert_int_equal(lg_kern_control_read(kern, &control), 0);
	kern = lg_kern_free(kern);
	check_refused();
	r = receiver_open();
	flood_start(&f);
	next_ok("migrate");
	n_sent = flood_stop(&f);
	assert_int_equal(receiver_close(&r), HOST_BURST - SPENT);
	print_message("%llu sent meanwhile\n", (unsigned long long)n_sent);
	assert_true(n_sent > 1000);
	check_carried(host, source, leased, HOST_BURST - SPENT, true);
	moved_vt = said_of("full_at", source, 1) - was.full_at_vt;
	assert_true(moved_vt > 0 && moved_vt % (HOST_BURST - SPENT) == 0);
	assert_int_equal(said_number("incarnation"), control.incarnation);
	assert_int_equal(said_number("seed"), control.hash_seed);
	assert_true(said_number("packets") > SPENT);
	assert_non_null(strstr(said, "maps were carried over from ABI version "));
	after = link_facts();
	assert_int_equal(after.id, before.id);
	assert_int_not_equal(after.prog_id, before.prog_id);
	check_pins(LG_ABI_VERSION + 1);
	assert_int_equal(pass(20), 0);
}

static void check_return(void)
{
	struct lg_kern_options o = life_options();
	struct link_facts before = link_facts();
	struct receiver r;
	struct flood f;

	for (int i = 0; i < 2; i++) {
		o.misfit = i ? LG_MISFIT_MIGRATE : LG_MISFIT_REFUSE;
		assert_int_equal(lg_kern_open(&o, &kern, &fail, &complaint), -EPROTONOSUPPORT);
		assert_int_equal(fail, LG_KERN_REFUSED);
		assert_text_has("run the newer build, or start once with --discard-state");
	}
	assert_int_equal(link_facts().prog_id, before.prog_id);
	check_pins(LG_ABI_VERSION + 1);
	r = receiver_open();
	flood_start(&f);
	o.misfit = LG_MISFIT_DISCARD;
	kern = open_as(&o, 2);
	assert_int_equal(link_facts().prog_id, before.prog_id);
	rules_load_ok(BASE_RULES, 0);
	op_run("leased", LG_OP_GRANT, GRANTED);
	assert_int_equal(lg_kern_settle(kern), 0);
	assert_int_equal(lg_kern_settle(kern), 0);
	flood_stop(&f);
	assert_int_equal(receiver_close(&r), HOST_BURST); /* new buckets are full */
	assert_int_equal(link_facts().id, before.id);
	assert_int_not_equal(link_facts().prog_id, before.prog_id);
	check_pins(LG_ABI_VERSION);
}

static void a_newer_build_takes_over_all_levels_and_an_older_one_begins_anew_without_a_gap(void **state)
{
	(void)state;
	start_anew();
	check_takeover();
	check_return();
}

static void a_start_that_begins_anew_and_fails_leaves_what_was_in_force(void **state)
{
	struct lg_kern_options o = life_options();
	struct link_facts before;

	(void)state;
	start_anew();
	kern = lg_kern_free(kern);
	next_ok("migrate");
	before = link_facts();
	o.misfit = LG_MISFIT_DISCARD;
	kern = open_as(&o, 2);
	kern = lg_kern_free(kern);
	assert_int_equal(link_facts().prog_id, before.prog_id);
	check_pins(LG_ABI_VERSION + 1);
	nothing_left();
}

static void a_table_grows_with_its_levels(void **state)
{
	struct lg_kern_options o = life_options();
	uint32_t max, used;

	(void)state;
	start_anew();
	kern = lg_kern_free(kern);
	o.max_keys = 4096;
	o.max_rules = 128;
	o.line_keys = 16384;
	o.misfit = LG_MISFIT_MIGRATE;
	kern = open_as(&o, 1);
	assert_text_has(" made anew (");
	assert_text_has("buckets, ");
	assert_int_equal(lg_kern_max_rules(kern), 128);
	assert_int_equal(lg_kern_lines_max(kern, &max), 0);
	assert_int_equal(max, 16384 / LG_LINE_SLOTS);
	assert_int_equal(lg_kern_keys_count(kern, &max, &used), 0);
	assert_int_equal(max, 4096);
	assert_int_equal(used, 3);
	check_levels(0);
	check_pins(LG_ABI_VERSION);
	assert_int_equal(pass(40), HOST_BURST - SPENT);
	/* It does not shrink. */
	kern = lg_kern_free(kern);
	o.max_keys = 1024;
	kern = open_as(&o, 1);
	assert_text_has("stays at 4096 entries, not 1024");
	check_levels(HOST_BURST - SPENT);
}

/* ---- a process dies between two steps ---- */

static int child_reload(void *arg)
{
	(void)arg;
	return rules_load(BASE_RULES, 5) ? 1 : 0;
}

static void a_reload_that_dies_at_any_step_leaves_one_whole_set_and_all_levels(void **state)
{
	static struct lg_rule_name names[LG_RULES_MAX + 1];
	static struct lg_ruleset set;
	struct lg_killed k;

	(void)state;
	prepare();
	for (uint32_t at = 1;; at++) {
		lg_kill_at(child_reload, NULL, at, all_points, &k);
		if (k.ended)
			break;
		assert_int_equal(lg_kern_rules_read(kern, &set, names), 0);
		if (set.n_rules != 4 && set.n_rules != 9)
			fail_msg("before '%s' (%u): %u rules are in force", k.at, at, set.n_rules);
		assert_int_equal(pass(1), at <= HOST_BURST - SPENT);
		rules_load_ok(BASE_RULES, 0);
		check_levels(at <= HOST_BURST - SPENT ? at : HOST_BURST - SPENT);
	}
	print_message("%u steps\n", k.n);
	assert_int_equal(k.status, 0);
	assert_true(k.n >= 3);
	check_pins(LG_ABI_VERSION);
}

static int child_start(void *arg)
{
	struct lg_kern_options o = life_options();
	struct lg_attachment at;

	(void)arg;
	if (lg_kern_open(&o, &kern, &fail, &complaint) < 0)
		return 1;
	return lg_kern_attach(kern, "lgk0", LG_HOOK_XDP, LG_MODE_XDP_NATIVE, &at, &fail, &complaint) < 0 ? 2 : 0;
}

static void a_start_that_dies_at_any_step_is_made_good_by_the_next(void **state)
{
	struct lg_kern_options o = life_options();
	struct lg_killed k;

	(void)state;
	nothing_left();
	for (uint32_t at = first;; at += stride) {
		lg_kill_at(child_start, NULL, at, true, &k);
		if (k.ended)
			break;
		assert_true(lg_kern_open(&o, &kern, &fail, &complaint) >= 0);
		attach(kern, "lgk0", LG_HOOK_XDP, LG_MODE_XDP_NATIVE);
		check_pins(LG_ABI_VERSION);
		assert_int_equal(frames_counted(LG_HOOK_XDP, "lgk1", "lgk0"), FRAMES);
		nothing_left();
	}
	print_message("%u steps\n", k.n);
	assert_int_equal(k.status, 0);
	assert_true(k.n > n_maps());
	nothing_left();
}

/* A second start, of what is whole and attached, which updates the link. */
static void a_restart_that_dies_at_any_step_changes_nothing(void **state)
{
	struct link_facts link;
	struct lg_killed k;

	(void)state;
	start_anew();
	link = link_facts();
	kern = lg_kern_free(kern);
	for (uint32_t at = first;; at += stride) {
		lg_kill_at(child_start, NULL, at, true, &k);
		assert_int_equal(link_facts().id, link.id);
		check_pins(LG_ABI_VERSION);
		if (k.ended)
			break;
	}
	print_message("%u steps\n", k.n);
	assert_int_equal(k.status, 0);
	start_again();
	check_levels(0);
	assert_int_equal(pass(20), HOST_BURST - SPENT);
}

/* What the other build found, then back to where it began. */
static void end_by_next(const char *mode, uint32_t host, uint32_t source, uint32_t leased)
{
	next_ok(mode);
	check_carried(host, source, leased, 0, false);
	check_pins(LG_ABI_VERSION + 1);
	start_anew();
	kern = lg_kern_free(kern);
}

/*
 * Every other time the build that died ends what it had begun, whatever its command line says; else the older one takes back what is
 * its own, as long as that counts.
 */
static void a_takeover_that_dies_at_any_step_is_ended_or_taken_back(void **state)
{
	struct lg_kern_options o = life_options();
	uint32_t host, source, leased, n_back = 0, n_ended = 0, n_refused = 0;
	struct link_facts link;
	struct lg_killed k;

	(void)state;
	start_anew();
	host = rule_id("host");
	source = rule_id("source");
	leased = rule_id("leased");
	kern = lg_kern_free(kern);
	for (uint32_t at = first;; at += stride) {
		link = link_facts();
		lg_kill_at(exec_next, "migrate", at, false, &k);
		assert_int_equal(link_facts().id, link.id);
		assert_int_equal(xdp_prog_id("lgk0"), link_facts().prog_id);
		if (k.ended)
			break;
		if (at / stride % 2 && lg_kern_open(&o, &kern, &fail, &complaint) >= 0) {
			check_pins(LG_ABI_VERSION);
			rules_load_ok(BASE_RULES, 0);
			check_levels(0);
			kern = lg_kern_free(kern);
			n_back++;
			continue;
		}
		n_refused += at / stride % 2;
		if (next("refuse") == 0)
			n_ended++;
		end_by_next("migrate", host, source, leased);
	}
	print_message("%u steps: %u taken back, %u ended without being told to, %u times the older build was refused\n", k.n, n_back, n_ended,
		      n_refused);
	assert_int_equal(k.status, 0);
	assert_true(stride > 1 || (n_back > 5 && n_ended > 5 && n_refused > 0));
	nothing_left();
}

static void a_start_anew_in_the_place_of_others_dies_at_any_step(void **state)
{
	struct lg_kern_options o = life_options();
	struct link_facts link;
	struct lg_killed k;

	(void)state;
	start_anew();
	kern = lg_kern_free(kern);
	for (uint32_t at = first;; at += stride) {
		link = link_facts();
		lg_kill_at(exec_next, "discard", at, false, &k);
		assert_int_equal(link_facts().id, link.id);
		assert_int_equal(xdp_prog_id("lgk0"), link_facts().prog_id);
		if (k.ended)
			break;
		if (lg_kern_open(&o, &kern, &fail, &complaint) >= 0) {
			check_pins(LG_ABI_VERSION);
			check_levels(0);
			kern = lg_kern_free(kern);
			continue;
		}
		next_ok("refuse");
		check_pins(LG_ABI_VERSION + 1);
		start_anew();
		kern = lg_kern_free(kern);
	}
	print_message("%u steps\n", k.n);
	assert_int_equal(k.status, 0);
	check_pins(LG_ABI_VERSION + 1);
	nothing_left();
}

static int child_detach(void *arg)
{
	(void)arg;
	return lg_kern_detach_all("t", root, &fail, &complaint) == 1 ? 0 : 1;
}

static void a_detach_that_dies_at_any_step_is_ended_by_the_next_or_by_a_start(void **state)
{
	struct lg_kern_options o = life_options();
	struct lg_killed k;

	(void)state;
	for (uint32_t at = first;; at += stride) {
		start_anew();
		kern = lg_kern_free(kern);
		lg_kill_at(child_detach, NULL, at, true, &k);
		if (k.ended)
			break;
		if (at / stride % 2) {
			assert_true(lg_kern_open(&o, &kern, &fail, &complaint) >= 0);
			attach(kern, "lgk0", LG_HOOK_XDP, LG_MODE_XDP_NATIVE);
			check_pins(LG_ABI_VERSION);
		}
		nothing_left();
	}
	print_message("%u steps\n", k.n);
	assert_int_equal(k.status, 0);
	nothing_left();
}

/* ---- any of them, one after the other ---- */

static int child_start_and_reload(void *arg)
{
	int r = child_start(arg);

	return r ? r : rules_load(BASE_RULES, 5);
}

static struct deed {
	const char *name;
	int (*run)(void *arg);
	void *arg;
	bool loses_levels, loses_link;
	uint32_t n_points; /* as far as is known */
} deeds[] = {
	{ "reload", child_start_and_reload, NULL, false, false, 60 }, { "reload", child_start_and_reload, NULL, false, false, 60 },
	{ "start", child_start, NULL, false, false, 40 },             { "start", child_start, NULL, false, false, 40 },
	{ "upgrade", exec_next, "migrate", false, false, 90 },        { "upgrade", exec_next, "migrate", false, false, 90 },
	{ "start anew", exec_next, "discard", true, false, 74 },      { "detach", child_detach, NULL, true, true, 38 },
};

/* One of the deeds is done up to a step of it. Returns whether it died there. */
static bool die_somewhere(struct deed *d)
{
	struct lg_killed k;

	lg_kill_at(d->run, d->arg, 1 + (uint32_t)random() % d->n_points, false, &k);
	print_message("%s %s '%s'\n", d->name, k.ended ? "ended after" : "died before", k.at);
	if (k.ended && k.n)
		d->n_points = k.n;
	return !k.ended;
}

/* The next start, of this build or, where that is refused, of the other one. Returns which. */
static bool made_good_by_this_build(void)
{
	struct lg_kern_options o = life_options();

	if (lg_kern_open(&o, &kern, &fail, &complaint) >= 0) {
		attach(kern, "lgk0", LG_HOOK_XDP, LG_MODE_XDP_NATIVE);
		rules_load_ok(BASE_RULES, 0);
		check_pins(LG_ABI_VERSION);
		return true;
	}
	if (next("refuse"))
		next_ok("migrate");
	check_pins(LG_ABI_VERSION + 1);
	return false;
}

/* One to three deaths without a start between them, and a start, which finds all levels as they were. Returns how many died. */
static uint32_t a_few_deaths(uint32_t *more, const uint32_t ids[3])
{
	bool has_levels = true, has_link = true;
	struct link_facts link = link_facts();
	uint32_t n_died = 0;

	kern = lg_kern_free(kern);
	for (uint32_t n = 1 + (uint32_t)random() % 3; n; n--) {
		struct deed *d = &deeds[(size_t)random() % N_ELEMS(deeds)];

		n_died += die_somewhere(d);
		has_levels &= !d->loses_levels;
		has_link &= !d->loses_link;
		if (!has_link)
			continue;
		assert_int_equal(link_facts().id, link.id);
		assert_int_equal(xdp_prog_id("lgk0"), link_facts().prog_id);
	}
	if (!made_good_by_this_build()) {
		if (has_levels)
			check_carried_levels(ids[0], ids[1], ids[2], *more);
		has_levels = false;
	} else if (has_levels) {
		check_levels(*more);
		assert_int_equal(pass(1), *more < HOST_BURST - SPENT);
		*more += *more < HOST_BURST - SPENT;
	}
	if (has_levels)
		return n_died;
	start_anew();
	*more = 0;
	return n_died;
}

static void whatever_dies_at_any_step_the_next_start_has_one_link_and_all_levels(void **state)
{
	const char *kills = getenv("LIFE_KILLS"), *seed = getenv("SEED");
	uint32_t n_kills = kills ? (uint32_t)atoi(kills) : 1000, n = 0, n_starts = 0, more = 0, ids[3];
	unsigned with = seed ? (unsigned)atoi(seed) : (unsigned)time(NULL);

	(void)state;
	srandom(with);
	print_message("%u kills, SEED=%u\n", n_kills, with);
	start_anew();
	ids[0] = rule_id("host");
	ids[1] = rule_id("source");
	ids[2] = rule_id("leased");
	for (; n < n_kills; n_starts++)
		n += a_few_deaths(&more, ids);
	print_message("%u died, %u starts made it good\n", n, n_starts);
	nothing_left();
}

/* ---- and at any time ---- */

#define KILL_RULES \
	"rules:\n  - {name: a, scope: host, match: {protocol: udp}, key: {source: 32}, limit: 1000/1s, burst: 500, table: exact}\n"

static int child_live(void *arg)
{
	uint32_t i = 0;
	int r = arg ? child_start(NULL) : 0;

	while (r == 0)
		r = rules_load(KILL_RULES, ++i % 9);
	return r;
}

/* Kills a child after a while of up to most_us. */
static void kill_after_a_while(void *arg, uint32_t most_us)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(child_live(arg));
	usleep((useconds_t)(random() % most_us));
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
}

/* Seven of eight die while rules are swapped, the others while they start. */
static void whenever_a_process_dies_no_more_is_admitted_than_rate_and_one_burst(void **state)
{
	const char *kills = getenv("LIFE_KILLS"), *seed = getenv("SEED");
	uint32_t n_kills = kills ? (uint32_t)atoi(kills) : 1000, n;
	static struct lg_rule_name names[LG_RULES_MAX + 1];
	struct receiver r = receiver_open();
	static struct lg_ruleset set;
	uint64_t start_ns, took_ns;
	struct link_facts link;
	struct flood f;

	(void)state;
	srandom(seed ? (unsigned)atoi(seed) : (unsigned)time(NULL));
	print_message("%u kills\n", n_kills);
	nothing_left();
	assert_int_equal(child_start(NULL), 0);
	rules_load_ok(KILL_RULES, 0);
	link = link_facts();
	start_ns = lg_clock_now_ns();
	flood_start(&f);
	for (uint32_t i = 0; i < n_kills; i++) {
		bool starts = i % 8 == 7;

		if (starts)
			kern = lg_kern_free(kern);
		kill_after_a_while(starts ? &f : NULL, starts ? 2000000 : 30000);
		if (starts)
			start_again();
		assert_int_equal(lg_kern_rules_read(kern, &set, names), 0);
		assert_in_range(set.n_rules, 1, 9);
		rules_load_ok(KILL_RULES, 0);
		assert_int_equal(link_facts().id, link.id);
		check_pins(LG_ABI_VERSION);
		receiver_drain(&r);
	}
	flood_stop(&f);
	took_ns = lg_clock_now_ns() - start_ns;
	n = receiver_close(&r);
	print_message("%u admitted in %llu ms\n", n, (unsigned long long)(took_ns / LG_NS_PER_MS));
	assert_true(n <= 500 + 1000 * took_ns / LG_NS_PER_S);
	assert_true(n >= 900 * took_ns / LG_NS_PER_S);
	nothing_left();
}

#define L(name) cmocka_unit_test_setup_teardown(name, life_setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		L(a_hundred_reloads_under_a_flood_admit_what_the_rate_gives_and_one_burst),
		L(a_reload_that_dies_at_any_step_leaves_one_whole_set_and_all_levels),
		L(a_newer_build_takes_over_all_levels_and_an_older_one_begins_anew_without_a_gap),
	};
	const struct CMUnitTest long_tests[] = {
		L(a_start_that_begins_anew_and_fails_leaves_what_was_in_force),
		L(a_table_grows_with_its_levels),
		L(a_start_that_dies_at_any_step_is_made_good_by_the_next),
		L(a_restart_that_dies_at_any_step_changes_nothing),
		L(a_takeover_that_dies_at_any_step_is_ended_or_taken_back),
		L(a_start_anew_in_the_place_of_others_dies_at_any_step),
		L(a_detach_that_dies_at_any_step_is_ended_by_the_next_or_by_a_start),
		L(whatever_dies_at_any_step_the_next_start_has_one_link_and_all_levels),
		L(whenever_a_process_dies_no_more_is_admitted_than_rate_and_one_burst),
	};

	if (!getenv("LIFE"))
		return cmocka_run_group_tests_name("life", tests, group_setup, group_teardown);
	all_points = true;
	if (getenv("LIFE_FIRST"))
		first = (uint32_t)atoi(getenv("LIFE_FIRST"));
	if (getenv("LIFE_STRIDE"))
		stride = (uint32_t)atoi(getenv("LIFE_STRIDE"));
	cmocka_set_test_filter(getenv("LIFE"));
	return cmocka_run_group_tests_name("long life", long_tests, group_setup, group_teardown);
}
