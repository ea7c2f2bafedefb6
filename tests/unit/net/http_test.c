// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "net/http.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "net/address.h"
#include "net/http_child.h"
#include "net/http_keeper.h"
#include "net/syscalls.h"
#include "tests/unit/net/net_test.h"

#define BODY_MAX (16u << 20) /* the longest body, as net/http_child.h says */

struct fixture {
	struct net_loop n;
	struct lg_http_keeper *keeper;
	struct lg_http *http;
	unsigned int n_requests;
	char trouble[256];
	char method[8];
	char path[1100];
	size_t page_bytes;	/* of the page "/page" */
};

static void on_request(void *arg, const struct lg_http_request *request, struct lg_http_reply *reply)
{
	struct fixture *f = arg;

	f->n_requests++;
	snprintf(f->method, sizeof(f->method), "%s", request->method);
	snprintf(f->path, sizeof(f->path), "%s", request->path);
	reply->status = 200;
	reply->content_type = "text/plain; version=0.0.4";
	if (strcmp(request->path, "/page") == 0)
		for (size_t i = 0; i < f->page_bytes; i += 16)
			lg_text_add(&reply->body, "0123456789abcdef", f->page_bytes - i < 16 ? f->page_bytes - i : 16);
	else if (strcmp(request->path, "/broken") == 0)
		reply->body.failed = true;
	else if (strcmp(request->path, "/nothing") == 0)
		reply->status = 0;
	else if (strcmp(request->path, "/empty") == 0)
		reply->status = 204;
	else if (strncmp(request->path, "/hello", 6) == 0)
		lg_text_addf(&reply->body, "hello\n");
	else
		reply->status = 404;
}

static void on_trouble(void *arg, const char *text)
{
	struct fixture *f = arg;

	snprintf(f->trouble, sizeof(f->trouble), "%s", text);
}

static const struct lg_http_handlers handlers = { on_request, on_trouble };

static void begin(struct fixture *f)
{
	struct lg_complaint c = { 0 };

	*f = (struct fixture){ .n = net_loop_new() };
	if (lg_http_keeper_start(&f->keeper, &c) < 0 || lg_http_start(f->n.loop, f->keeper, "127.0.0.1:0", &handlers, f, &f->http, &c) < 0)
		fail_msg("%s", c.text);
}

static void end(struct fixture *f)
{
	lg_http_free(f->http);
	lg_http_keeper_free(f->keeper);
	net_loop_free(&f->n);
}

static int connect_to(const struct fixture *f)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons((uint16_t)lg_http_port(f->http)) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	inet_pton(AF_INET, "127.0.0.1", &sa.sin_addr);
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	return fd;
}

/* What has come so far; the connection is over when recv() says so. */
struct answer {
	struct lg_text text;
	bool eof;
};

static bool receive(int fd, struct answer *a)
{
	static char buf[65536];
	ssize_t n = recv(fd, buf, sizeof(buf), 0);

	if (n > 0)
		lg_text_add(&a->text, buf, (size_t)n);
	if (n == 0 || (n < 0 && errno == ECONNRESET))
		a->eof = true;
	return a->eof;
}

/* Sends bytes, reads until the server closes. */
static void exchange(struct fixture *f, const char *bytes, size_t len, struct answer *a)
{
	int fd = connect_to(f);

	*a = (struct answer){ 0 };
	assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
	WAIT_FOR(f->n.loop, receive(fd, a));
	close(fd);
	lg_text_add(&a->text, "", 0);
}

static void request(struct fixture *f, const char *line, struct answer *a)
{
	char bytes[4096];

	snprintf(bytes, sizeof(bytes), "%s\r\nHost: a\r\nConnection: close\r\n\r\n", line);
	exchange(f, bytes, strlen(bytes), a);
}

static int status_of(const struct answer *a)
{
	int status = 0;

	if (a->text.len)
		sscanf(a->text.s, "HTTP/1.%*d %d", &status);
	return status;
}

static const char *body_of(const struct answer *a)
{
	const char *body = strstr(a->text.s, "\r\n\r\n");

	return body ? body + 4 : "";
}

static void a_page_is_made_by_the_parent_and_served_by_the_child(void **state)
{
	struct fixture f;
	struct answer a;

	(void)state;
	begin(&f);
	request(&f, "GET /hello?x=y&z HTTP/1.1", &a);
	assert_int_equal(status_of(&a), 200);
	assert_string_equal(body_of(&a), "hello\n");
	assert_non_null(strstr(a.text.s, "Content-Type: text/plain; version=0.0.4\r\n"));
	assert_non_null(strstr(a.text.s, "Content-Length: 6\r\n"));
	assert_non_null(strstr(a.text.s, "X-Content-Type-Options: nosniff\r\n"));
	assert_string_equal(f.method, "GET");
	assert_string_equal(f.path, "/hello");
	lg_text_fini(&a.text);
	end(&f);
}

static void head_has_the_length_and_no_body(void **state)
{
	struct fixture f;
	struct answer a;

	(void)state;
	begin(&f);
	request(&f, "HEAD /hello HTTP/1.1", &a);
	assert_int_equal(status_of(&a), 200);
	assert_non_null(strstr(a.text.s, "Content-Length: 6\r\n"));
	assert_string_equal(body_of(&a), "");
	assert_string_equal(f.method, "HEAD");
	lg_text_fini(&a.text);
	end(&f);
}

static void each_request_gets_its_status(void **state)
{
	static char longest[1100], too_long[1100];
	static const struct {
		const char *line;
		int status;
		unsigned int asked;	/* the parent was */
	} rows[] = {
		{ "GET /hello HTTP/1.1", 200, 1 },
		{ "GET /hello HTTP/1.0", 200, 1 },
		{ "GET http://elsewhere/hello HTTP/1.1", 200, 1 },
		{ "GET /unknown HTTP/1.1", 404, 1 },
		{ "GET / HTTP/1.1", 404, 1 },
		{ "GET /../hello HTTP/1.1", 404, 1 },
		{ "GET /broken HTTP/1.1", 500, 1 },
		{ "GET /nothing HTTP/1.1", 500, 1 },
		{ "GET /empty HTTP/1.1", 204, 1 },
		{ longest, 200, 1 },
		{ too_long, 414, 0 },
		{ "POST /hello HTTP/1.1", 405, 0 },
		{ "PUT /hello HTTP/1.1", 405, 0 },
		{ "DELETE /hello HTTP/1.1", 405, 0 },
		{ "OPTIONS /hello HTTP/1.1", 405, 0 },
		{ "PATCH /hello HTTP/1.1", 405, 0 },
		{ "TRACE /hello HTTP/1.1", 405, 0 },
		{ "BREW /hello HTTP/1.1", 501, 0 },
		{ "GET /hello", 400, 0 },
		{ "GET hello HTTP/1.1", 400, 0 },
	};
	struct fixture f;

	(void)state;
	/* Paths of 1023 and 1024 bytes. */
	snprintf(longest, sizeof(longest), "GET /hello%01017d HTTP/1.1", 0);
	snprintf(too_long, sizeof(too_long), "GET /hello%01018d HTTP/1.1", 0);
	begin(&f);
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		unsigned int before = f.n_requests;
		struct answer a;

		request(&f, rows[i].line, &a);
		if (status_of(&a) != rows[i].status)
			fail_msg("%s: %s", rows[i].line, a.text.s);
		assert_int_equal(f.n_requests - before, rows[i].asked);
		if (rows[i].status == 405)
			assert_non_null(strstr(a.text.s, "Allow: GET, HEAD\r\n"));
		lg_text_fini(&a.text);
	}
	end(&f);
}

static void bytes_that_do_not_print_never_reach_the_parent(void **state)
{
	static const char *const lines[] = { "GET /a\x01 HTTP/1.1", "GET /a\xff HTTP/1.1", "GET /a\x7f HTTP/1.1" };
	struct fixture f;

	(void)state;
	begin(&f);
	for (size_t i = 0; i < N_ELEMS(lines); i++) {
		struct answer a;

		request(&f, lines[i], &a);
		assert_int_equal(status_of(&a), 400);
		lg_text_fini(&a.text);
	}
	assert_int_equal(f.n_requests, 0);
	end(&f);
}

static void headers_and_bodies_are_bounded(void **state)
{
	struct fixture f;
	struct answer a;
	char *big = malloc(20000);

	(void)state;
	begin(&f);
	memset(big, 'h', 20000);
	memcpy(big, "GET /hello HTTP/1.1\r\nX: ", 24);
	exchange(&f, big, 20000, &a);
	assert_int_not_equal(status_of(&a), 200);
	lg_text_fini(&a.text);
	request(&f, "POST /hello HTTP/1.1\r\nContent-Length: 5000", &a);
	assert_int_equal(status_of(&a), 413);
	lg_text_fini(&a.text);
	request(&f, "GET /hello HTTP/1.1", &a);
	assert_int_equal(status_of(&a), 200);
	lg_text_fini(&a.text);
	assert_int_equal(lg_http_restarts(f.http), 0);
	end(&f);
	free(big);
}

static void a_page_may_have_16_mib_and_no_more(void **state)
{
	static const size_t sizes[] = { 1 << 20, BODY_MAX, BODY_MAX + 1 };
	struct fixture f;

	(void)state;
	begin(&f);
	for (size_t i = 0; i < N_ELEMS(sizes); i++) {
		struct answer a;

		f.page_bytes = sizes[i];
		request(&f, "GET /page HTTP/1.1", &a);
		assert_int_equal(status_of(&a), i < 2 ? 200 : 500);
		if (i < 2)
			assert_int_equal(a.text.s + a.text.len - body_of(&a), sizes[i]);
		lg_text_fini(&a.text);
	}
	end(&f);
}

/* The text of a file of /proc. */
static void read_proc(int pid, const char *name, char *buf, size_t len)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	n = read(fd, buf, len - 1);
	assert_true(n > 0);
	buf[n] = '\0';
	close(fd);
}

static void check_line(const char *text, const char *line)
{
	if (!strstr(text, line))
		fail_msg("%s is not in:\n%s", line, text);
}

static void the_child_has_no_capability_and_no_way_to_get_one(void **state)
{
	char text[4096], keeper[4096], want[64];
	struct fixture f;
	int pid, parent;

	(void)state;
	if (geteuid() != 0)
		skip();
	begin(&f);
	pid = lg_http_pid(f.http);
	assert_true(pid > 0);
	read_proc(pid, "status", text, sizeof(text));
	check_line(text, "\nUid:\t65534\t65534\t65534\t65534\n");
	check_line(text, "\nGid:\t65534\t65534\t65534\t65534\n");
	check_line(text, "\nGroups:\t \n");
	check_line(text, "\nCapInh:\t0000000000000000\n");
	check_line(text, "\nCapPrm:\t0000000000000000\n");
	check_line(text, "\nCapEff:\t0000000000000000\n");
	check_line(text, "\nCapBnd:\t0000000000000000\n");
	check_line(text, "\nCapAmb:\t0000000000000000\n");
	check_line(text, "\nNoNewPrivs:\t1\n");
	/* Its keeper is our child, and has no more than it has. */
	assert_int_equal(sscanf(strstr(text, "\nPPid:"), "\nPPid: %d", &parent), 1);
	read_proc(parent, "status", keeper, sizeof(keeper));
	snprintf(want, sizeof(want), "\nPPid:\t%d\n", getpid());
	check_line(keeper, want);
	check_line(keeper, "\nUid:\t65534\t65534\t65534\t65534\n");
	check_line(keeper, "\nCapPrm:\t0000000000000000\n");
	check_line(keeper, "\nCapBnd:\t0000000000000000\n");
	check_line(keeper, "\nNoNewPrivs:\t1\n");
	check_line(text, lg_syscalls_filtered() ? "\nSeccomp:\t2\n" : "\nSeccomp:\t0\n");
	read_proc(pid, "limits", text, sizeof(text));
	check_line(text, "Max processes             0                    0");
	check_line(text, "Max core file size        0                    0");
	check_line(text, "Max file size             0                    0");
	end(&f);
}

/* A daemon that runs as a user of its own with a few capabilities: there is no change of user that would take them away. */
static void a_child_of_a_parent_that_is_not_root_has_no_capability_either(void **state)
{
	char text[4096];
	struct fixture f;
	int status;
	pid_t pid;

	(void)state;
	if (geteuid() != 0)
		skip();
	pid = fork();
	if (pid == 0) {
		struct { uint32_t version; int pid; } head = { 0x20080522, 0 };
		struct { uint32_t effective, permitted, inheritable; } caps[2] = { { 1 << CAP_NET_ADMIN, 1 << CAP_NET_ADMIN, 0 } };

		if (prctl(PR_SET_KEEPCAPS, 1) < 0 || setresuid(65533, 65533, 65533) < 0 || syscall(SYS_capset, &head, caps) < 0)
			_exit(1);
		begin(&f);
		read_proc(lg_http_pid(f.http), "status", text, sizeof(text));
		end(&f);
		_exit(strstr(text, "\nCapPrm:\t0000000000000000\n") && strstr(text, "\nCapEff:\t0000000000000000\n") &&
				      strstr(text, "\nNoNewPrivs:\t1\n") && strstr(text, "\nUid:\t65533\t65533\t65533\t65533\n")
			      ? 0
			      : 2);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void the_child_holds_no_descriptor_of_its_parent(void **state)
{
	int secrets[4];
	char path[64], target[64], ours[N_ELEMS(secrets)][64] = { 0 };
	unsigned int n_fds = 0;
	struct fixture f;
	struct dirent *e;
	DIR *dir;

	(void)state;
	secrets[0] = open("/etc/passwd", O_RDONLY);
	secrets[1] = socket(AF_INET, SOCK_DGRAM, 0);
	assert_int_equal(pipe(secrets + 2), 0);
	for (size_t i = 0; i < N_ELEMS(secrets); i++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", secrets[i]);
		assert_true(readlink(path, ours[i], sizeof(ours[i]) - 1) > 0);
	}
	begin(&f);
	snprintf(path, sizeof(path), "/proc/%d/fd", lg_http_pid(f.http));
	dir = opendir(path);
	if (!dir && errno == EACCES) {
		end(&f);
		skip();
	}
	assert_non_null(dir);
	while ((e = readdir(dir))) {
		ssize_t n = readlinkat(dirfd(dir), e->d_name, target, sizeof(target) - 1);

		if (n < 0)
			continue;
		target[n] = '\0';
		for (size_t i = 0; i < N_ELEMS(secrets); i++)
			if (strcmp(target, ours[i]) == 0)
				fail_msg("fd %s is %s", e->d_name, target);
		/* The pair and the listener, what a loop needs, and nothing to write warnings into. */
		if (strncmp(target, "socket:", 7) != 0 && strncmp(target, "anon_inode:", 11) != 0 &&
		    strncmp(target, "pipe:", 5) != 0 && strcmp(target, "/dev/null") != 0)
			fail_msg("fd %s is %s", e->d_name, target);
		n_fds++;
	}
	assert_true(n_fds >= 5 && n_fds <= 10);
	closedir(dir);
	end(&f);
	for (size_t i = 0; i < N_ELEMS(secrets); i++)
		close(secrets[i]);
}

static void a_child_that_dies_is_started_again_within_seconds(void **state)
{
	struct fixture f;
	struct answer a;
	int first;

	(void)state;
	begin(&f);
	first = lg_http_pid(f.http);
	assert_int_equal(lg_http_restarts(f.http), 0);
	kill(first, SIGKILL);
	WAIT_FOR(f.n.loop, lg_http_restarts(f.http) == 1 && lg_http_pid(f.http));
	assert_int_not_equal(lg_http_pid(f.http), first);
	assert_int_equal(kill(first, 0), -1);
	request(&f, "GET /hello HTTP/1.1", &a);
	assert_int_equal(status_of(&a), 200);
	lg_text_fini(&a.text);
	end(&f);
}

static void signals_meant_for_the_parent_leave_the_child_alone(void **state)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE };
	struct fixture f;
	struct answer a;

	(void)state;
	if (geteuid() != 0)
		skip();
	begin(&f);
	for (size_t i = 0; i < N_ELEMS(signals); i++)
		kill(lg_http_pid(f.http), signals[i]);
	request(&f, "GET /hello HTTP/1.1", &a);
	assert_int_equal(status_of(&a), 200);
	assert_int_equal(lg_http_restarts(f.http), 0);
	lg_text_fini(&a.text);
	end(&f);
}

static void the_child_ends_with_its_parent(void **state)
{
	int report[2], child = 0, pidfd, status;
	struct fixture f;
	pid_t parent;

	(void)state;
	assert_int_equal(pipe(report), 0);
	parent = fork();
	if (parent == 0) {
		begin(&f);
		child = lg_http_pid(f.http);
		if (write(report[1], &child, sizeof(child)) != sizeof(child))
			_exit(1);
		pause();
	}
	assert_int_equal(read(report[0], &child, sizeof(child)), sizeof(child));
	pidfd = pidfd_open(child, 0);
	assert_true(pidfd >= 0);
	/* Stopped, it cannot notice anything by itself: the kernel has to end it. */
	kill(child, SIGSTOP);
	kill(parent, SIGKILL);
	assert_int_equal(waitpid(parent, &status, 0), parent);
	/* It is nobody's child of ours: only its end can be seen. */
	begin(&f);
	WAIT_FOR(f.n.loop, syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0) < 0 && errno == ESRCH);
	end(&f);
	close(pidfd);
	close(report[0]);
	close(report[1]);
}

/* The child's end of the pair, taken from it: what a broken child could say. */
static int steal_pair(const struct fixture *f)
{
	int pidfd = pidfd_open(lg_http_pid(f->http), 0), fd;

	assert_true(pidfd >= 0);
	fd = pidfd_getfd(pidfd, 3, 0);
	close(pidfd);
	return fd;
}

static void a_child_that_breaks_the_format_is_killed_and_replaced(void **state)
{
	static const struct {
		uint32_t is_head;
		uint32_t path_len;
		char path[8];
	} rows[] = {
		{ 2, 6, "/hello" },
		{ 0, 0, "" },
		{ 0, 1024, "/hello" },
		{ 0, UINT32_MAX, "/hello" },
		{ 0, 5, "hello" },
		{ 0, 6, "/a\nb c" },
		{ 0, 6, "/a\0bcd" },
		{ 0, 6, "/a\xff""bcd" },
	};
	struct fixture f;

	(void)state;
	if (geteuid() != 0)
		skip();
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		int fd;

		begin(&f);
		fd = steal_pair(&f);
		assert_true(fd >= 0);
		assert_int_equal(send(fd, &rows[i], sizeof(rows[i]), MSG_NOSIGNAL), sizeof(rows[i]));
		WAIT_FOR(f.n.loop, lg_http_restarts(f.http) == 1);
		assert_int_equal(f.n_requests, 0);
		close(fd);
		end(&f);
	}
}

static void a_child_that_was_made_to_do_something_else_ends_and_is_told_of(void **state)
{
	static const struct {
		uint32_t is_head, path_len;
	} last = { LG_HTTP_REFUSED, SYS_execve };
	struct fixture f;
	int fd;

	(void)state;
	if (geteuid() != 0)
		skip();
	begin(&f);
	fd = steal_pair(&f);
	assert_int_equal(send(fd, &last, sizeof(last), MSG_NOSIGNAL), sizeof(last));
	WAIT_FOR(f.n.loop, lg_http_restarts(f.http) == 1);
	assert_non_null(strstr(f.trouble, "(execve), which it may not"));
	close(fd);
	end(&f);
}

/* Nothing is asked of it while a child runs, and a daemon that enforces goes on without a page. */
static void a_keeper_that_ended_is_told_of_once(void **state)
{
	struct fixture f;
	char text[4096];
	int keeper;

	(void)state;
	begin(&f);
	read_proc(lg_http_pid(f.http), "status", text, sizeof(text));
	assert_int_equal(sscanf(strstr(text, "\nPPid:"), "\nPPid: %d", &keeper), 1);
	kill(keeper, SIGKILL);
	WAIT_FOR(f.n.loop, f.trouble[0]);
	assert_non_null(strstr(f.trouble, "until this daemon is restarted"));
	assert_int_equal(lg_http_restarts(f.http), 0);
	assert_int_equal(lg_http_pid(f.http), 0);
	end(&f);
}

static void a_child_that_floods_is_answered_no_more_than_200_times_a_second(void **state)
{
	static const struct {
		uint32_t is_head, path_len;
		char path[8];
	} question = { 0, 8, "/hello/x" };
	struct fixture f;
	struct answer a = { 0 };
	uint64_t begun_ns;
	int fd, sent = 0;

	(void)state;
	if (geteuid() != 0)
		skip();
	begin(&f);
	fd = steal_pair(&f);
	/* It must not be surprised by answers that it did not ask for. */
	kill(lg_http_pid(f.http), SIGSTOP);
	begun_ns = lg_clock_now_ns();
	while (sent < 2000) {
		if (send(fd, &question, sizeof(question), MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(question))
			sent++;
		event_base_loop(lg_loop_base(f.n.loop), EVLOOP_NONBLOCK);
		receive(fd, &a);
	}
	assert_true(f.n_requests >= 200);
	assert_true(f.n_requests <= 200 * (2 + (lg_clock_now_ns() - begun_ns) / LG_NS_PER_S));
	assert_non_null(strstr(a.text.s + 12, "hello"));
	lg_text_fini(&a.text);
	close(fd);
	end(&f);
}

static void connections_beyond_the_limit_wait_and_old_ones_leave(void **state)
{
	static int idle[400];
	struct fixture f;
	struct answer a;

	(void)state;
	begin(&f);
	for (size_t i = 0; i < N_ELEMS(idle); i++)
		idle[i] = connect_to(&f);
	for (int i = 0; i < 20; i++)
		event_base_loop(lg_loop_base(f.n.loop), EVLOOP_ONCE);
	/* Room again: whoever waited is served. */
	for (size_t i = 0; i < N_ELEMS(idle); i++)
		close(idle[i]);
	request(&f, "GET /hello HTTP/1.1", &a);
	assert_int_equal(status_of(&a), 200);
	assert_int_equal(lg_http_restarts(f.http), 0);
	lg_text_fini(&a.text);
	end(&f);
}

static void a_port_in_use_is_an_error_at_start(void **state)
{
	struct lg_complaint c = { 0 };
	struct lg_http *other;
	struct fixture f;
	char address[64];

	(void)state;
	begin(&f);
	snprintf(address, sizeof(address), "127.0.0.1:%d", lg_http_port(f.http));
	assert_int_equal(lg_http_start(f.n.loop, f.keeper, address, &handlers, &f, &other, &c), -EADDRINUSE);
	assert_non_null(strstr(c.text, address));
	assert_int_equal(lg_http_start(f.n.loop, f.keeper, "127.0.0.1", &handlers, &f, &other, &c), -EINVAL);
	end(&f);
}

/* As that of a daemon that was killed is, moments after it. */
static void a_port_is_waited_for_whose_process_is_about_to_end(void **state)
{
	struct lg_complaint c = { 0 };
	struct fixture f;
	char address[64];
	int fd, status;
	pid_t pid;

	(void)state;
	begin(&f);
	f.http = lg_http_free(f.http);
	assert_int_equal(lg_address_listen("127.0.0.1:0", &fd, &c), 0);
	snprintf(address, sizeof(address), "127.0.0.1:%d", lg_address_port(fd));
	pid = fork();
	if (pid == 0) {
		poll(NULL, 0, 100);
		_exit(0);
	}
	close(fd);
	assert_int_equal(lg_http_start(f.n.loop, f.keeper, address, &handlers, &f, &f.http, &c), 0);
	assert_string_equal(c.text, "");
	assert_int_equal(waitpid(pid, &status, 0), pid);
	end(&f);
}

/* A parent that may not change its user cannot confine a child: better no page than one served by root. */
static void a_child_that_cannot_be_confined_is_an_error_at_start(void **state)
{
	struct lg_complaint c = { 0 };
	struct lg_http_keeper *keeper;
	int status;
	pid_t pid;

	(void)state;
	if (geteuid() != 0)
		skip();
	pid = fork();
	if (pid == 0) {
		struct { uint32_t version; int pid; } head = { 0x20080522, 0 };
		struct { uint32_t effective, permitted, inheritable; } caps[2] = { 0 };

		if (syscall(SYS_capset, &head, caps) < 0)
			_exit(1);
		_exit(lg_http_keeper_start(&keeper, &c) == -EPERM && strstr(c.text, "CAP_SETUID") ? 0 : 2);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_page_is_made_by_the_parent_and_served_by_the_child),
		cmocka_unit_test(head_has_the_length_and_no_body),
		cmocka_unit_test(each_request_gets_its_status),
		cmocka_unit_test(bytes_that_do_not_print_never_reach_the_parent),
		cmocka_unit_test(headers_and_bodies_are_bounded),
		cmocka_unit_test(a_page_may_have_16_mib_and_no_more),
		cmocka_unit_test(the_child_has_no_capability_and_no_way_to_get_one),
		cmocka_unit_test(a_child_of_a_parent_that_is_not_root_has_no_capability_either),
		cmocka_unit_test(the_child_holds_no_descriptor_of_its_parent),
		cmocka_unit_test(a_child_that_dies_is_started_again_within_seconds),
		cmocka_unit_test(signals_meant_for_the_parent_leave_the_child_alone),
		cmocka_unit_test(the_child_ends_with_its_parent),
		cmocka_unit_test(a_child_that_breaks_the_format_is_killed_and_replaced),
		cmocka_unit_test(a_child_that_was_made_to_do_something_else_ends_and_is_told_of),
		cmocka_unit_test(a_keeper_that_ended_is_told_of_once),
		cmocka_unit_test(a_child_that_floods_is_answered_no_more_than_200_times_a_second),
		cmocka_unit_test(connections_beyond_the_limit_wait_and_old_ones_leave),
		cmocka_unit_test(a_port_in_use_is_an_error_at_start),
		cmocka_unit_test(a_port_is_waited_for_whose_process_is_about_to_end),
		cmocka_unit_test(a_child_that_cannot_be_confined_is_an_error_at_start),
	};

	net_alone();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
