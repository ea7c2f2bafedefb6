// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "api/admin.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "tests/unit/net/net_test.h"

struct fixture {
	struct net_loop n;
	struct lg_admin *admin;
	char dir[64];
	char path[96];
	unsigned int n_asked;
};

/* Echoes the request; {"pad": n} gets n bytes, {"null": true} no memory. */
static json_t *on_request(void *arg, const json_t *request)
{
	struct fixture *f = arg;
	const json_t *pad = json_object_get(request, "pad");
	json_t *reply;
	char *text;

	f->n_asked++;
	if (json_object_get(request, "null"))
		return NULL;
	if (!pad)
		return json_pack("{s:O}", "echo", request);
	text = malloc((size_t)json_integer_value(pad) + 1);
	memset(text, 'p', (size_t)json_integer_value(pad));
	text[json_integer_value(pad)] = '\0';
	reply = json_pack("{s:s}", "pad", text);
	free(text);
	return reply;
}

static void make_dir(struct fixture *f)
{
	*f = (struct fixture){ .n = net_loop_new(), .dir = "/tmp/lg-admin-test-XXXXXX" };
	assert_non_null(mkdtemp(f->dir));
	snprintf(f->path, sizeof(f->path), "%s/node.sock", f->dir);
}

static void start(struct fixture *f)
{
	struct lg_complaint c = { 0 };

	if (lg_admin_start(f->n.loop, f->path, on_request, f, &f->admin, &c) < 0)
		fail_msg("%s", c.text);
}

static void begin(struct fixture *f)
{
	make_dir(f);
	start(f);
}

static void end(struct fixture *f)
{
	char lock[128];

	lg_admin_free(f->admin);
	net_loop_free(&f->n);
	assert_int_equal(access(f->path, F_OK), -1);
	snprintf(lock, sizeof(lock), "%s.lock", f->path);
	unlink(lock);
	assert_int_equal(rmdir(f->dir), 0);
}

/* lg_admin_call() blocks, so it runs beside the loop. */
struct call {
	const char *path;
	json_t *request, *reply;
	unsigned int timeout_ms;
	int r;
	struct lg_complaint c;
	int done;
};

static void *call_thread(void *arg)
{
	struct call *call = arg;

	call->r = lg_admin_call(call->path, call->request, call->timeout_ms, &call->reply, &call->c);
	__atomic_store_n(&call->done, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void call(struct fixture *f, json_t *request, struct call *call)
{
	pthread_t thread;

	*call = (struct call){ .path = f->path, .request = request, .timeout_ms = 10000 };
	assert_int_equal(pthread_create(&thread, NULL, call_thread, call), 0);
	WAIT_FOR(f->n.loop, __atomic_load_n(&call->done, __ATOMIC_ACQUIRE));
	pthread_join(thread, NULL);
	json_decref(request);
}

static int connect_raw(const struct fixture *f)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", f->path);
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	return fd;
}

/* What has come on fd: true once `lines` lines are there or it is closed. */
struct input {
	char buf[4096];
	size_t len;
	bool eof;
};

static bool has_lines(int fd, struct input *in, size_t lines)
{
	ssize_t n = recv(fd, in->buf + in->len, sizeof(in->buf) - 1 - in->len, 0);
	size_t seen = 0;

	if (n > 0)
		in->len += (size_t)n;
	else if (n == 0)
		in->eof = true;
	in->buf[in->len] = '\0';
	for (const char *p = in->buf; (p = strchr(p, '\n')); p++)
		seen++;
	return seen >= lines || in->eof;
}

static void a_question_gets_its_answer(void **state)
{
	struct fixture f;
	struct call c;

	(void)state;
	begin(&f);
	call(&f, json_pack("{s:s,s:i}", "op", "status", "n", 7), &c);
	assert_int_equal(c.r, 0);
	assert_string_equal(json_string_value(json_object_get(json_object_get(c.reply, "echo"), "op")), "status");
	json_decref(c.reply);
	end(&f);
}

static void questions_and_answers_may_be_long(void **state)
{
	char *text = malloc(4000001);
	struct fixture f;
	struct call c;

	(void)state;
	begin(&f);
	memset(text, 't', 4000000);
	text[4000000] = '\0';
	call(&f, json_pack("{s:s}", "text", text), &c);
	assert_int_equal(c.r, 0);
	assert_int_equal(json_string_length(json_object_get(json_object_get(c.reply, "echo"), "text")), 4000000);
	json_decref(c.reply);
	call(&f, json_pack("{s:i}", "pad", 30000000), &c);
	assert_int_equal(c.r, 0);
	assert_int_equal(json_string_length(json_object_get(c.reply, "pad")), 30000000);
	json_decref(c.reply);
	end(&f);
	free(text);
}

static void a_question_of_4_mib_is_refused(void **state)
{
	char *text = malloc(LG_ADMIN_LINE_MAX + 1);
	struct fixture f;
	struct call c;

	(void)state;
	begin(&f);
	memset(text, 't', LG_ADMIN_LINE_MAX);
	text[LG_ADMIN_LINE_MAX] = '\0';
	call(&f, json_pack("{s:s}", "text", text), &c);
	assert_int_equal(c.r, 0);
	assert_string_equal(json_string_value(json_object_get(c.reply, "error")), "the request is longer than 4 MiB");
	assert_int_equal(f.n_asked, 0);
	json_decref(c.reply);
	end(&f);
	free(text);
}

static void lines_that_are_no_requests_are_answered_with_what_is_wrong(void **state)
{
	static const struct {
		const char *line;
		const char *error;
	} rows[] = {
		{ "\n", "'[' or '{' expected near end of file" },
		{ "nonsense\n", "'[' or '{' expected near 'nonsense'" },
		{ "[1]\n", "a request is an object" },
		{ "{\"a\":1,\"a\":2}\n", "duplicate object key" },
		{ "{\"a\":1} x\n", "end of file expected near 'x'" },
		{ "{\"a\":\"\\u0000\"}\n", "\\u0000 is not allowed" },
	};
	struct fixture f;
	int fd;

	(void)state;
	begin(&f);
	fd = connect_raw(&f);
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		struct input in = { 0 };
		json_t *reply;

		assert_true(send(fd, rows[i].line, strlen(rows[i].line), MSG_NOSIGNAL) > 0);
		WAIT_FOR(f.n.loop, has_lines(fd, &in, 1));
		reply = json_loads(in.buf, 0, NULL);
		assert_non_null(reply);
		if (!strstr(json_string_value(json_object_get(reply, "error")), rows[i].error))
			fail_msg("%s", in.buf);
		json_decref(reply);
	}
	assert_int_equal(f.n_asked, 0);
	close(fd);
	end(&f);
}

static void questions_sent_together_are_answered_in_order(void **state)
{
	static const char lines[] = "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n";
	struct input in = { 0 };
	struct fixture f;
	int fd;

	(void)state;
	begin(&f);
	fd = connect_raw(&f);
	assert_int_equal(send(fd, lines, sizeof(lines) - 1, MSG_NOSIGNAL), sizeof(lines) - 1);
	WAIT_FOR(f.n.loop, has_lines(fd, &in, 3));
	assert_string_equal(in.buf, "{\"echo\":{\"n\":1}}\n{\"echo\":{\"n\":2}}\n{\"echo\":{\"n\":3}}\n");
	close(fd);
	end(&f);
}

static void a_client_that_closes_its_half_still_gets_its_answer(void **state)
{
	struct input in = { 0 };
	struct fixture f;
	int fd;

	(void)state;
	begin(&f);
	fd = connect_raw(&f);
	assert_int_equal(send(fd, "{}\n", 3, MSG_NOSIGNAL), 3);
	shutdown(fd, SHUT_WR);
	WAIT_FOR(f.n.loop, has_lines(fd, &in, 2));
	assert_true(in.eof);
	assert_string_equal(in.buf, "{\"echo\":{}}\n");
	close(fd);
	end(&f);
}

static void a_line_in_pieces_is_one_line(void **state)
{
	static const char line[] = "{\"n\":1}\n";
	struct input in = { 0 };
	struct fixture f;
	int fd;

	(void)state;
	begin(&f);
	fd = connect_raw(&f);
	for (size_t i = 0; i < sizeof(line) - 1; i++) {
		assert_int_equal(f.n_asked, 0);
		assert_int_equal(send(fd, line + i, 1, MSG_NOSIGNAL), 1);
		event_base_loop(lg_loop_base(f.n.loop), EVLOOP_ONCE);
		event_base_loop(lg_loop_base(f.n.loop), EVLOOP_ONCE);
	}
	WAIT_FOR(f.n.loop, has_lines(fd, &in, 1));
	assert_string_equal(in.buf, "{\"echo\":{\"n\":1}}\n");
	close(fd);
	end(&f);
}

static void the_65th_client_at_once_is_turned_away(void **state)
{
	struct input in = { 0 };
	struct fixture f;
	int fds[64], fd;

	(void)state;
	begin(&f);
	for (size_t i = 0; i < N_ELEMS(fds); i++)
		fds[i] = connect_raw(&f);
	fd = connect_raw(&f);
	WAIT_FOR(f.n.loop, has_lines(fd, &in, 1));
	assert_string_equal(in.buf, "{\"error\":\"too many clients at once\"}\n");
	close(fd);
	/* Those that were admitted are served, and when one leaves another may come. */
	in = (struct input){ 0 };
	assert_int_equal(send(fds[0], "{}\n", 3, MSG_NOSIGNAL), 3);
	WAIT_FOR(f.n.loop, has_lines(fds[0], &in, 1));
	close(fds[0]);
	for (int i = 0; i < 5; i++)
		event_base_loop(lg_loop_base(f.n.loop), EVLOOP_ONCE);
	in = (struct input){ 0 };
	fd = connect_raw(&f);
	assert_int_equal(send(fd, "{}\n", 3, MSG_NOSIGNAL), 3);
	WAIT_FOR(f.n.loop, has_lines(fd, &in, 1));
	assert_string_equal(in.buf, "{\"echo\":{}}\n");
	close(fd);
	for (size_t i = 1; i < N_ELEMS(fds); i++)
		close(fds[i]);
	end(&f);
}

static void only_the_owner_may_open_the_socket(void **state)
{
	struct fixture f;
	struct stat st;

	(void)state;
	begin(&f);
	assert_int_equal(stat(f.path, &st), 0);
	assert_true(S_ISSOCK(st.st_mode));
	assert_int_equal(st.st_mode & 0777, 0600);
	end(&f);
}

/* Somebody passed it on, or the mode was changed: the peer's credentials decide. */
static void another_user_is_turned_away(void **state)
{
	struct input in = { 0 };
	struct fixture f;
	int pair[2], status, fd;
	pid_t pid;

	(void)state;
	if (geteuid() != 0)
		skip();
	begin(&f);
	assert_int_equal(chmod(f.dir, 0755), 0);
	assert_int_equal(chmod(f.path, 0666), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	pid = fork();
	if (pid == 0) {
		if (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0)
			_exit(1);
		fd = connect_raw(&f);
		while (!has_lines(fd, &in, 1))
			usleep(1000);
		_exit(strcmp(in.buf, "{\"error\":\"only root and the daemon's user may ask\"}\n") == 0 ? 0 : 2);
	}
	WAIT_FOR(f.n.loop, waitpid(pid, &status, WNOHANG) == pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	close(pair[0]);
	close(pair[1]);
	end(&f);
}

static void a_socket_left_by_a_dead_daemon_is_replaced(void **state)
{
	struct fixture f;
	struct call c;
	pid_t pid;
	int status;

	(void)state;
	make_dir(&f);
	pid = fork();
	if (pid == 0) {
		start(&f);
		_exit(0);	/* without lg_admin_free(): as a crash leaves it */
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(access(f.path, F_OK), 0);
	start(&f);
	call(&f, json_object(), &c);
	assert_int_equal(c.r, 0);
	json_decref(c.reply);
	end(&f);
}

static void a_socket_that_answers_is_left_alone(void **state)
{
	struct lg_complaint c = { 0 };
	struct lg_admin *other;
	struct fixture f;
	struct call asked;

	(void)state;
	begin(&f);
	assert_int_equal(lg_admin_start(f.n.loop, f.path, on_request, &f, &other, &c), -EADDRINUSE);
	assert_non_null(strstr(c.text, "already running"));
	assert_non_null(strstr(c.text, f.path));
	call(&f, json_object(), &asked);
	assert_int_equal(asked.r, 0);
	json_decref(asked.reply);
	end(&f);
}

static void a_daemon_whose_socket_was_removed_still_runs(void **state)
{
	struct lg_complaint c = { 0 };
	struct lg_admin *other;
	struct fixture f;

	(void)state;
	begin(&f);
	unlink(f.path);
	assert_int_equal(lg_admin_start(f.n.loop, f.path, on_request, &f, &other, &c), -EADDRINUSE);
	assert_non_null(strstr(c.text, "already running"));
	end(&f);
}

/* A daemon that does not know the lock but answers counts as running, too. */
static void a_foreign_socket_that_answers_is_left_alone(void **state)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	struct lg_complaint c = { 0 };
	struct fixture f;
	int fd;

	(void)state;
	make_dir(&f);
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", f.path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(lg_admin_start(f.n.loop, f.path, on_request, &f, &f.admin, &c), -EADDRINUSE);
	assert_non_null(strstr(c.text, "already running"));
	close(fd);
	start(&f);
	end(&f);
}

static void a_file_in_the_way_is_not_removed(void **state)
{
	struct lg_complaint c = { 0 };
	struct fixture f;
	int fd;

	(void)state;
	make_dir(&f);
	fd = open(f.path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(lg_admin_start(f.n.loop, f.path, on_request, &f, &f.admin, &c), -EEXIST);
	assert_non_null(strstr(c.text, "is no socket: remove it"));
	assert_int_equal(access(f.path, F_OK), 0);
	unlink(f.path);
	end(&f);
}

static void a_folder_that_is_missing_is_named(void **state)
{
	struct lg_complaint c = { 0 };
	struct lg_admin *admin;
	struct net_loop n = net_loop_new();
	char path[200];

	(void)state;
	assert_int_equal(lg_admin_start(n.loop, "/nonexistent/a.sock", on_request, NULL, &admin, &c), -ENOENT);
	assert_non_null(strstr(c.text, "/nonexistent/a.sock"));
	memset(path, 'p', sizeof(path));
	path[199] = '\0';
	assert_int_equal(lg_admin_start(n.loop, path, on_request, NULL, &admin, &c), -ENAMETOOLONG);
	net_loop_free(&n);
}

static void callers_are_told_what_keeps_them_from_an_answer(void **state)
{
	struct fixture f;
	struct call c;

	(void)state;
	make_dir(&f);
	call(&f, json_object(), &c);
	assert_int_equal(c.r, -ENOENT);
	assert_non_null(strstr(c.c.text, "no daemon listens on"));
	start(&f);
	call(&f, json_pack("{s:b}", "null", 1), &c);
	assert_int_equal(c.r, -EPIPE);
	assert_non_null(strstr(c.c.text, "closed the connection without an answer"));
	end(&f);
}

static void a_daemon_that_hangs_is_given_up_in_time(void **state)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	struct lg_complaint c = { 0 };
	json_t *request = json_object(), *reply;
	struct fixture f;
	int fd;

	(void)state;
	make_dir(&f);
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", f.path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(fd, 0), 0);
	/* The first is accepted by the kernel and never answered, the others do not even get so far. */
	for (int i = 0; i < 3; i++) {
		assert_int_equal(lg_admin_call(f.path, request, 50, &reply, &c), -ETIMEDOUT);
		assert_non_null(strstr(c.text, "no answer within 50 ms"));
	}
	close(fd);
	assert_int_equal(lg_admin_call(f.path, request, 50, &reply, &c), -ECONNREFUSED);
	json_decref(request);
	unlink(f.path);
	end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_question_gets_its_answer),
		cmocka_unit_test(questions_and_answers_may_be_long),
		cmocka_unit_test(a_question_of_4_mib_is_refused),
		cmocka_unit_test(lines_that_are_no_requests_are_answered_with_what_is_wrong),
		cmocka_unit_test(questions_sent_together_are_answered_in_order),
		cmocka_unit_test(a_client_that_closes_its_half_still_gets_its_answer),
		cmocka_unit_test(a_line_in_pieces_is_one_line),
		cmocka_unit_test(the_65th_client_at_once_is_turned_away),
		cmocka_unit_test(only_the_owner_may_open_the_socket),
		cmocka_unit_test(another_user_is_turned_away),
		cmocka_unit_test(a_socket_left_by_a_dead_daemon_is_replaced),
		cmocka_unit_test(a_socket_that_answers_is_left_alone),
		cmocka_unit_test(a_daemon_whose_socket_was_removed_still_runs),
		cmocka_unit_test(a_foreign_socket_that_answers_is_left_alone),
		cmocka_unit_test(a_file_in_the_way_is_not_removed),
		cmocka_unit_test(a_folder_that_is_missing_is_named),
		cmocka_unit_test(callers_are_told_what_keeps_them_from_an_answer),
		cmocka_unit_test(a_daemon_that_hangs_is_given_up_in_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
