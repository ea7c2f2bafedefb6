// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The watcher of interfaces, in a network namespace of its own. Commands of ip(8) return when the kernel has queued its
 * news, so reading until nothing waits is enough: no test waits for time to pass.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sock_diag.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "kern/kern.h"

#define SEEN_MAX 4096

/* What the watcher told: the interfaces that are there by its word, and how often it said what. */
struct told {
	struct {
		char name[16];
		uint32_t ifindex;
	} there[SEEN_MAX];
	size_t n_there;
	unsigned int n_up, n_gone;
	struct {
		char name[16];
		bool up;
	} last; /* said last */
};

static struct told told;

static int find_told(uint32_t ifindex)
{
	for (size_t i = 0; i < told.n_there; i++)
		if (told.there[i].ifindex == ifindex)
			return (int)i;
	return -1;
}

static void on_news(void *arg, const char *ifname, uint32_t ifindex, bool up)
{
	int at = find_told(ifindex);

	assert_ptr_equal(arg, &told);
	snprintf(told.last.name, sizeof(told.last.name), "%s", ifname);
	told.last.up = up;
	if (!up) {
		told.n_gone++;
		/* Gone is only what was there, and by the name it had. */
		assert_true(at >= 0);
		assert_string_equal(told.there[at].name, ifname);
		told.there[at] = told.there[--told.n_there];
		return;
	}
	told.n_up++;
	if (at >= 0)
		return;
	assert_true(told.n_there < SEEN_MAX);
	snprintf(told.there[told.n_there].name, sizeof(told.there[0].name), "%s", ifname);
	told.there[told.n_there++].ifindex = ifindex;
}

/* What the watcher says is what the kernel says. */
static void assert_told_is_true(void)
{
	struct if_nameindex *now = if_nameindex();
	size_t n = 0;

	assert_non_null(now);
	for (; now[n].if_index; n++) {
		int at = find_told(now[n].if_index);

		if (at < 0)
			fail_msg("%s was not told", now[n].if_name);
		assert_string_equal(told.there[at].name, now[n].if_name);
	}
	assert_int_equal(told.n_there, n);
	if_freenameindex(now);
}

static struct lg_links *watch(void)
{
	struct lg_links *links = NULL;

	memset(&told, 0, sizeof(told));
	assert_int_equal(lg_links_new(on_news, &told, &links), 0);
	return links;
}

static int read_news(struct lg_links *links)
{
	int r = lg_links_read(links);

	assert_true(r >= 0);
	return r;
}

static bool is_readable(struct lg_links *links)
{
	struct pollfd p = { .fd = lg_links_fd(links), .events = POLLIN };

	assert_true(poll(&p, 1, 0) >= 0);
	return p.revents;
}

static void run(const char *command)
{
	assert_int_equal(system(command), 0);
}

/* n pairs made, or deleted, by one run of ip. */
static void pairs(const char *what, unsigned int n)
{
	FILE *f = popen("ip -batch -", "w");

	assert_non_null(f);
	for (unsigned int i = 0; i < n; i++) {
		if (strcmp(what, "add") == 0)
			fprintf(f, "link add lga%u type veth peer name lgb%u\n", i, i);
		else
			fprintf(f, "link del lga%u\n", i);
	}
	assert_int_equal(pclose(f), 0);
}

static int setup(void **state)
{
	(void)state;
	/* Each test begins with lo alone. */
	return unshare(CLONE_NEWNET);
}

static void what_is_there_at_the_start_is_told(void **state)
{
	struct lg_links *links;

	(void)state;
	run("ip link add lga0 type veth peer name lgb0");
	links = watch();
	assert_true(is_readable(links));
	assert_int_equal(read_news(links), 3);
	assert_told_is_true();
	assert_false(is_readable(links));
	assert_int_equal(read_news(links), 0);
	lg_links_free(links);
}

static void news_come_once_for_each_appearing_coming_up_and_going(void **state)
{
	static const struct {
		const char *command;
		unsigned int n_up, n_gone;
		const char *last;
		bool up;
	} rows[] = {
		{ "ip link add lga0 type veth peer name lgb0", 2, 0, NULL, true },
		{ "ip link set lga0 up", 1, 0, "lga0", true },
		{ "ip link set lga0 up", 0, 0, NULL, true }, /* is up */
		{ "ip link set lga0 mtu 1400", 0, 0, NULL, true },
		{ "ip link set lga0 down", 0, 0, NULL, true }, /* still there */
		{ "ip link set lga0 up", 1, 0, "lga0", true },
		{ "ip link set lgb0 name lgc0", 1, 1, "lgc0", true },
		{ "ip link del lga0", 0, 2, NULL, false },
	};
	struct lg_links *links = watch();

	(void)state;
	read_news(links);
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		told.n_up = told.n_gone = 0;
		run(rows[i].command);
		assert_int_equal(read_news(links), rows[i].n_up + rows[i].n_gone);
		assert_int_equal(told.n_up, rows[i].n_up);
		assert_int_equal(told.n_gone, rows[i].n_gone);
		if (rows[i].last) {
			assert_string_equal(told.last.name, rows[i].last);
			assert_int_equal(told.last.up, rows[i].up);
		}
		assert_told_is_true();
	}
	lg_links_free(links);
}

static void an_interface_that_leaves_a_bridge_is_not_gone(void **state)
{
	struct lg_links *links;

	(void)state;
	if (system("ip link add lgbr type bridge 2>/dev/null"))
		skip(); /* no bridges in this kernel */
	run("ip link add lga0 type veth peer name lgb0 && ip link set lga0 master lgbr");
	links = watch();
	read_news(links);
	told.n_gone = 0;
	run("ip link set lga0 nomaster");
	read_news(links);
	assert_int_equal(told.n_gone, 0);
	assert_told_is_true();
	lg_links_free(links);
}

static bool note_below(void *arg, const char *ifname)
{
	char *names = arg, *at = names, after[256];

	while (*at && strcmp(at, ifname) < 0)
		at = strchr(at, ' ') + 1;
	snprintf(after, sizeof(after), "%s", at);
	snprintf(at, 256 - (size_t)(at - names), "%s %s", ifname, after);
	return false;
}

/* Names of what is below an interface, in the order of the alphabet. */
static const char *below(struct lg_links *links, const char *ifname)
{
	static char names[256];

	names[0] = '\0';
	assert_false(lg_links_below(links, if_nametoindex(ifname), note_below, names));
	return names;
}

static void it_is_known_whose_packets_come_through_whom(void **state)
{
	struct lg_links *links = watch();

	(void)state;
	if (system("ip link add lgbr type bridge 2>/dev/null"))
		skip(); /* no bridges in this kernel */
	run("ip link add lga0 type veth peer name lgb0 && ip link add lga1 type veth peer name lgb1");
	read_news(links);
	/* The other end of a pair is not below. */
	assert_string_equal(below(links, "lga0"), "");
	assert_string_equal(below(links, "lgbr"), "");
	run("ip link set lga1 master lgbr && ip link set lga0 master lgbr");
	read_news(links);
	assert_string_equal(below(links, "lgbr"), "lga0 lga1 ");
	assert_string_equal(below(links, "lga0"), "");
	/* Devices upon devices, where the kernel has them. */
	if (system("ip link add link lgbr name lgbr.7 type vlan id 7 2>/dev/null") == 0) {
		run("ip link add lgbond type bond && ip link set lgb0 down && ip link set lgb0 master lgbond");
		run("ip link add link lgbond name lgbond.8 type vlan id 8");
		read_news(links);
		assert_string_equal(below(links, "lgbr.7"), "lga0 lga1 lgbr ");
		assert_string_equal(below(links, "lgbond.8"), "lgb0 lgbond ");
	}
	run("ip link set lga0 nomaster");
	read_news(links);
	assert_string_equal(below(links, "lgbr"), "lga1 ");
	run("ip link del lga1");
	read_news(links);
	assert_string_equal(below(links, "lgbr"), "");
	lg_links_free(links);
}

/* A process in a network namespace of its own; it ends when *ret_stop is closed. */
static pid_t elsewhere(int *ret_stop)
{
	int ready[2], stop[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	assert_int_equal(pipe2(stop, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(stop[1]);
		if (unshare(CLONE_NEWNET) || write(ready[1], "", 1) != 1)
			_exit(1);
		_exit(read(stop[0], &byte, 1) != 0);
	}
	close(ready[1]);
	close(stop[0]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	*ret_stop = stop[1];
	return pid;
}

static void an_interface_that_moves_to_another_namespace_is_gone(void **state)
{
	struct lg_links *links;
	char command[64];
	int stop;
	pid_t pid;

	(void)state;
	pid = elsewhere(&stop);
	run("ip link add lga0 type veth peer name lgb0");
	links = watch();
	read_news(links);
	told.n_gone = 0;
	snprintf(command, sizeof(command), "ip link set lgb0 netns %d", pid);
	run(command);
	assert_int_equal(read_news(links), 1);
	assert_int_equal(told.n_gone, 1);
	assert_told_is_true();
	close(stop);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	lg_links_free(links);
}

static void fifty_pairs_made_and_deleted_are_all_told(void **state)
{
	struct lg_links *links = watch();

	(void)state;
	read_news(links);
	pairs("add", 50);
	read_news(links);
	assert_told_is_true();
	assert_int_equal(told.n_there, 101);
	pairs("del", 50);
	read_news(links);
	assert_told_is_true();
	assert_int_equal(told.n_there, 1);
	lg_links_free(links);
}

static void an_interface_made_again_has_its_new_index(void **state)
{
	struct lg_links *links = watch();

	(void)state;
	read_news(links);
	for (int i = 0; i < 5; i++) {
		pairs("add", 1);
		pairs("del", 1);
		pairs("add", 1);
		read_news(links);
		assert_told_is_true();
		pairs("del", 1);
	}
	read_news(links);
	assert_told_is_true();
	lg_links_free(links);
}

/* How many news the socket lost. */
static uint32_t n_lost(struct lg_links *links)
{
	uint32_t mem[SK_MEMINFO_VARS];
	socklen_t len = sizeof(mem);

	assert_int_equal(getsockopt(lg_links_fd(links), SOL_SOCKET, SO_MEMINFO, mem, &len), 0);
	return mem[SK_MEMINFO_DROPS];
}

/* The smallest buffer the kernel gives holds a handful of news. */
static struct lg_links *watch_with_little_room(void)
{
	struct lg_links *links = watch();
	int bytes = 1;

	assert_int_equal(setsockopt(lg_links_fd(links), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)), 0);
	return links;
}

static void lost_news_are_made_good_by_listing_again(void **state)
{
	struct lg_links *links = watch_with_little_room();

	(void)state;
	read_news(links);
	/* Made: the list brings what was lost. */
	pairs("add", 50);
	assert_true(n_lost(links) > 0);
	read_news(links);
	assert_told_is_true();
	assert_int_equal(told.n_there, 101);
	/* Gone: nobody says so but the list that lacks them. */
	pairs("del", 50);
	read_news(links);
	assert_told_is_true();
	assert_int_equal(told.n_there, 1);
	/* Made and gone in one go, and others made instead. */
	pairs("add", 50);
	pairs("del", 50);
	pairs("add", 30);
	read_news(links);
	assert_told_is_true();
	assert_int_equal(told.n_there, 61);
	lg_links_free(links);
}

/* A list that is under way when the socket overruns cannot be begun again at once: the kernel refuses a second one. */
static void news_lost_while_listing_are_made_good(void **state)
{
	struct lg_links *links;

	(void)state;
	pairs("add", 50);
	links = watch_with_little_room();
	/* The first list waits to be read. */
	pairs("del", 50);
	pairs("add", 20);
	assert_true(n_lost(links) > 0);
	read_news(links);
	assert_told_is_true();
	assert_int_equal(told.n_there, 41);
	assert_false(is_readable(links));
	lg_links_free(links);
}

#define T(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(what_is_there_at_the_start_is_told),
		T(news_come_once_for_each_appearing_coming_up_and_going),
		T(an_interface_that_leaves_a_bridge_is_not_gone),
		T(it_is_known_whose_packets_come_through_whom),
		T(an_interface_that_moves_to_another_namespace_is_gone),
		T(fifty_pairs_made_and_deleted_are_all_told),
		T(an_interface_made_again_has_its_new_index),
		T(lost_news_are_made_good_by_listing_again),
		T(news_lost_while_listing_are_made_good),
	};

	return cmocka_run_group_tests_name("links", tests, NULL, NULL);
}
