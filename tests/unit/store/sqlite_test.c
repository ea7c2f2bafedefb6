// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What a file on disk adds to the contract: it outlives the process, and a file that cannot serve is refused in words. */
#include "store/store.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/unit/store/store_test.h"

#define ANY LG_STORE_REVISION_ANY

/* Found before those of the C library, also by SQLite. */
static unsigned int n_syncs;

int fsync(int fd)
{
	n_syncs++;
	return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
	n_syncs++;
	return (int)syscall(SYS_fdatasync, fd);
}

struct fixture {
	char dir[40];
	char path[64];
};

/* A loop of this process: one that forked has its own. */
static struct net_loop *loop(void)
{
	static struct net_loop n;
	static pid_t owner;

	if (owner != getpid())
		n = net_loop_new();
	owner = getpid();
	return &n;
}

static int try_open(const char *path, struct lg_store **ret_store, struct lg_complaint *c)
{
	const struct lg_store_options options = { .driver = "sqlite", .path = path };

	memset(c, 0, sizeof(*c));
	return lg_store_open(loop()->loop, &options, store_changed, NULL, ret_store, c);
}

static struct lg_store *open_ok(const char *path)
{
	struct lg_store *store = NULL;
	struct lg_complaint c;

	if (try_open(path, &store, &c) < 0)
		fail_msg("%s: %s", c.file, c.text);
	return store;
}

static int put(struct lg_store *store, const char *key, const void *value, size_t len)
{
	struct lg_store_write write = { .key = key, .value = value, .len = len, .if_revision = ANY };

	return store_commit(loop(), store, &write, 1);
}

static void sql(const char *path, const char *text)
{
	sqlite3 *db = NULL;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
}

static void what_was_committed_is_there_after_reopening(void **state)
{
	struct fixture *f = *state;
	uint64_t revision = 0, again = 0;
	struct lg_store *store;
	char buf[8];
	size_t len;

	store = open_ok(f->path);
	assert_int_equal(put(store, "a", "one", 3), 0);
	assert_int_equal(lg_store_get(store, "a", buf, sizeof(buf), &len, &revision), 0);
	lg_store_free(store);

	store = open_ok(f->path);
	assert_int_equal(lg_store_get(store, "a", buf, sizeof(buf), &len, &again), 0);
	assert_int_equal(len, 3);
	assert_memory_equal(buf, "one", 3);
	assert_int_equal(again, revision);
	/* Revisions go on: one that was given before the restart is not given again. */
	assert_int_equal(put(store, "a", NULL, 0), 0);
	assert_int_equal(put(store, "a", "two", 3), 0);
	assert_int_equal(lg_store_get(store, "a", buf, sizeof(buf), &len, &again), 0);
	assert_true(again > revision);
	lg_store_free(store);
}

static int count_one(void *arg, const char *key, const void *value, size_t len, uint64_t revision)
{
	(void)key, (void)value, (void)len, (void)revision;
	++*(unsigned int *)arg;
	return 0;
}

/* Commits pairs until killed, and says after each how many are done. */
static void commit_for_ever(const char *path, int out)
{
	struct lg_store *store = open_ok(path);

	for (unsigned int i = 0;; i++) {
		char a[16], b[16];
		struct lg_store_write writes[] = { { a, &i, sizeof(i), 0, 0 }, { b, &i, sizeof(i), 0, 0 } };

		snprintf(a, sizeof(a), "a%08u", i);
		snprintf(b, sizeof(b), "b%08u", i);
		if (store_commit(loop(), store, writes, 2) != 0 || write(out, &i, sizeof(i)) != sizeof(i))
			_exit(1);
	}
}

static void a_killed_process_loses_nothing_it_was_told_was_written(void **state)
{
	struct fixture *f = *state;
	unsigned int acknowledged = 0, expect = 0;

	for (int round = 0; round < 5; round++) {
		unsigned int n_a = 0, n_b = 0, i;
		struct lg_store *store;
		int fds[2], status;
		pid_t pid;

		snprintf(f->path, sizeof(f->path), "%s/store%d.db", f->dir, round);
		assert_int_equal(pipe(fds), 0);
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0)
			commit_for_ever(f->path, fds[1]);
		close(fds[1]);
		expect = 20 + (unsigned int)round * 13;
		while (read(fds[0], &i, sizeof(i)) == sizeof(i) && i < expect)
			;
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		acknowledged = i;
		while (read(fds[0], &i, sizeof(i)) == sizeof(i))
			acknowledged = i;
		close(fds[0]);
		assert_true(acknowledged >= expect);

		store = open_ok(f->path);
		assert_int_equal(lg_store_each(store, "a", count_one, &n_a), 0);
		assert_int_equal(lg_store_each(store, "b", count_one, &n_b), 0);
		assert_int_equal(n_a, n_b); /* pairs are whole */
		assert_true(n_a == acknowledged + 1 || n_a == acknowledged + 2);
		lg_store_free(store);
	}
}

static void a_disk_that_is_full_fails_the_commit_and_keeps_the_rest(void **state)
{
	static char value[LG_STORE_VALUE_MAX];
	struct fixture *f = *state;
	struct lg_store *store = open_ok(f->path);
	struct rlimit was, small = { .rlim_cur = 256 * 1024 };
	uint64_t revision;
	int r = 0, n = 0;
	size_t len;
	char key[16];

	memset(value, 'v', sizeof(value));
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	small.rlim_max = was.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	for (; r == 0 && n < 100; n++) {
		snprintf(key, sizeof(key), "k%d", n);
		r = put(store, key, value, sizeof(value));
	}
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
	assert_true(r < 0);
	assert_in_range(n, 2, 99);

	assert_int_equal(lg_store_get(store, key, value, sizeof(value), &len, &revision), 1);
	assert_int_equal(lg_store_get(store, "k0", value, sizeof(value), &len, &revision), 0);
	assert_int_equal(put(store, key, value, sizeof(value)), 0); /* there is room again */
	lg_store_free(store);
	store = open_ok(f->path);
	assert_int_equal(lg_store_get(store, key, value, sizeof(value), &len, &revision), 0);
	lg_store_free(store);
}

static void refused(const char *path, int want, const char *why)
{
	struct lg_store *store = NULL;
	struct lg_complaint c;

	assert_int_equal(try_open(path, &store, &c), want);
	assert_null(store);
	assert_string_equal(c.text, why);
	assert_string_equal(c.file, path);
}

static void a_path_that_can_be_no_store_is_refused(void **state)
{
	struct fixture *f = *state;
	char path[96];

	refused(f->dir, -EISDIR, "this is a folder: the store is a file");
	refused("/dev/null", -EINVAL, "the store must be a regular file");
	refused("", -EINVAL, "\"\" names no file for the store");
	refused(":memory:", -EINVAL, "\":memory:\" names no file for the store");
	snprintf(path, sizeof(path), "%s/absent/store.db", f->dir);
	refused(path, -ENOENT, "cannot open the store: No such file or directory");
	refused("/proc/lg-store.db", -ENOENT, "cannot open the store: No such file or directory");
}

/* As somebody who is not root. Returns the errno of opening, with the text in shared memory of the pipe. */
static void as_nobody(const char *path, int *ret_r, char *text, size_t len)
{
	struct lg_store *store = NULL;
	struct lg_complaint c;
	int fds[2], r, status;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (geteuid() == 0 && setresuid(65534, 65534, 65534) < 0)
			_exit(1);
		r = try_open(path, &store, &c);
		_exit(write(fds[1], &r, sizeof(r)) != sizeof(r) ||
		      write(fds[1], c.text, sizeof(c.text)) != sizeof(c.text));
	}
	close(fds[1]);
	assert_int_equal(read(fds[0], ret_r, sizeof(*ret_r)), sizeof(*ret_r));
	assert_true(read(fds[0], text, len) > 0);
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void a_file_one_may_not_write_is_refused(void **state)
{
	struct fixture *f = *state;
	char text[sizeof(((struct lg_complaint *)0)->text)];
	int r;

	lg_store_free(open_ok(f->path));
	assert_int_equal(chmod(f->dir, 0555), 0);
	assert_int_equal(chmod(f->path, 0444), 0);
	as_nobody(f->path, &r, text, sizeof(text));
	assert_int_equal(r, -EROFS);
	assert_string_equal(text, "the store cannot be written: check the permissions of the file and its folder");
	assert_int_equal(chmod(f->path, 0), 0);
	as_nobody(f->path, &r, text, sizeof(text));
	assert_int_equal(r, -EACCES);
	assert_string_equal(text, "cannot open the store: Permission denied");
	assert_int_equal(chmod(f->dir, 0755), 0);
}

static void a_file_that_is_none_of_ours_is_left_as_it_is(void **state)
{
	struct fixture *f = *state;
	struct stat before, after;
	FILE *file = fopen(f->path, "w");

	assert_non_null(file);
	for (int i = 0; i < 300; i++)
		fputs("this is a letter\n", file);
	fclose(file);
	assert_int_equal(stat(f->path, &before), 0);
	refused(f->path, -EBADMSG,
		"this is no store: not an SQLite file: restore it from a copy, or move it away to begin with an empty "
		"store");
	assert_int_equal(stat(f->path, &after), 0);
	assert_memory_equal(&before.st_mtim, &after.st_mtim, sizeof(before.st_mtim));
	assert_int_equal(before.st_size, after.st_size);

	unlink(f->path);
	sql(f->path, "CREATE TABLE books (title TEXT)");
	refused(f->path, -EEXIST, "this is an SQLite file of another program, not a store: name another file");
	sql(f->path, "INSERT INTO books VALUES ('still here')");
	sql(f->path, "DROP TABLE books; VACUUM; PRAGMA application_id = 7");
	refused(f->path, -EEXIST, "this is an SQLite file of another program, not a store: name another file");
}

static void a_newer_schema_is_left_to_the_newer_version(void **state)
{
	struct fixture *f = *state;

	lg_store_free(open_ok(f->path));
	sql(f->path, "PRAGMA user_version = 2");
	refused(f->path, -EPROTO,
		"the store has schema 2, written by a newer version, and this one knows 1: run the newer version");
	sql(f->path, "PRAGMA user_version = 1");
	lg_store_free(open_ok(f->path));
}

/* Overwrites a page in the middle of the file. */
static void page_damage(const char *path, off_t at, int byte)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	char junk[4096];

	assert_true(fd >= 0);
	memset(junk, byte, sizeof(junk));
	assert_int_equal(pwrite(fd, junk, sizeof(junk), at), sizeof(junk));
	close(fd);
}

static void a_damaged_file_is_refused_and_not_made_worse(void **state)
{
	static char value[4000];
	struct fixture *f = *state;
	struct lg_complaint c;
	struct lg_store *store = open_ok(f->path);
	char key[16];

	memset(value, 'v', sizeof(value));
	for (int i = 0; i < 40; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		assert_int_equal(put(store, key, value, sizeof(value)), 0);
	}
	lg_store_free(store);
	page_damage(f->path, 4096, 0x77); /* the root of the entries */
	store = NULL;
	assert_int_equal(try_open(f->path, &store, &c), -EBADMSG);
	assert_string_equal(c.file, f->path);
	assert_non_null(strstr(c.text, "the store is damaged"));
	assert_non_null(strstr(c.text, "restore it from a copy, or move it away to begin with an empty store"));
	assert_null(strchr(c.text, '\n'));

	page_damage(f->path, 0, 0); /* the head of the file */
	assert_int_equal(try_open(f->path, &store, &c), -EBADMSG);
	assert_non_null(strstr(c.text, "not an SQLite file"));
	assert_null(store);
}

static void a_locked_file_is_waited_for_and_then_refused(void **state)
{
	struct fixture *f = *state;
	struct lg_store *store = open_ok(f->path);
	uint64_t revision;
	sqlite3 *db = NULL;
	char buf[8];
	size_t len;

	assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(put(store, "a", "x", 1), -EBUSY);
	assert_int_equal(lg_store_get(store, "a", buf, sizeof(buf), &len, &revision), 1); /* readers go on */
	assert_int_equal(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
	assert_int_equal(put(store, "a", "x", 1), 0);
	lg_store_free(store);
}

static void each_commit_is_written_ahead_and_synchronised(void **state)
{
	struct fixture *f = *state;
	struct lg_store *store = open_ok(f->path);
	unsigned int before;
	char wal[80];
	struct stat st;

	snprintf(wal, sizeof(wal), "%s-wal", f->path);
	assert_int_equal(put(store, "a", "x", 1), 0);
	assert_int_equal(stat(wal, &st), 0);
	assert_true(st.st_size > 0);
	for (int i = 0; i < 3; i++) {
		before = n_syncs;
		assert_int_equal(put(store, "a", &i, 1), 0);
		assert_true(n_syncs > before);
	}
	lg_store_free(store);
	assert_int_equal(stat(wal, &st), -1); /* closed in good order */
}

/* ---- copies ---- */

static struct lg_store *witnessed_open(const struct fixture *f)
{
	char witness[80];
	const struct lg_store_options options = { .driver = "sqlite", .path = f->path, .witness = witness };

	snprintf(witness, sizeof(witness), "%s/witness", f->dir);
	return store_open(loop(), &options);
}

/* The file as it is, once the store is closed. */
static void copy(const char *from, const char *to)
{
	char command[200];

	snprintf(command, sizeof(command), "cp %s %s", from, to);
	assert_int_equal(system(command), 0);
}

static void assert_revision_is_new(struct lg_store *store, uint64_t than)
{
	uint64_t revision;
	char buf[8];
	size_t len;

	assert_int_equal(put(store, "next", "x", 1), 0);
	assert_int_equal(lg_store_get(store, "next", buf, sizeof(buf), &len, &revision), 0);
	assert_true(revision > than);
}

static void an_older_copy_is_doubted_over_all_lives_until_it_is_trusted(void **state)
{
	struct fixture *f = *state;
	struct lg_store *store = witnessed_open(f);
	uint64_t revision;
	char buf[8], old[80];
	size_t len;

	snprintf(old, sizeof(old), "%s/store0.db", f->dir);
	assert_false(lg_store_is_doubted(store));
	assert_int_equal(put(store, "a", "1", 1), 0);
	lg_store_free(store);
	copy(f->path, old);
	store = witnessed_open(f);
	assert_false(lg_store_is_doubted(store)); /* as far as it was */
	assert_int_equal(put(store, "a", "2", 1), 0);
	assert_int_equal(lg_store_get(store, "a", buf, sizeof(buf), &len, &revision), 0);
	lg_store_free(store);

	copy(old, f->path);
	store = witnessed_open(f);
	assert_true(lg_store_is_doubted(store));
	assert_revision_is_new(store, revision);
	lg_store_free(store);
	store = witnessed_open(f);
	assert_true(lg_store_is_doubted(store));
	lg_store_trust(store);
	assert_false(lg_store_is_doubted(store));
	lg_store_free(store);
	store = witnessed_open(f);
	assert_false(lg_store_is_doubted(store));
	lg_store_free(store);
}

static void a_store_that_is_gone_is_doubted_too(void **state)
{
	struct fixture *f = *state;
	struct lg_store *store = witnessed_open(f);

	assert_int_equal(put(store, "a", "1", 1), 0);
	lg_store_free(store);
	assert_int_equal(unlink(f->path), 0);
	store = witnessed_open(f);
	assert_true(lg_store_is_doubted(store));
	lg_store_free(store);
}

static void without_a_witness_nothing_is_doubted(void **state)
{
	struct fixture *f = *state;
	struct lg_store *store = witnessed_open(f);
	char witness[80];

	snprintf(witness, sizeof(witness), "%s/witness", f->dir);
	assert_int_equal(put(store, "a", "1", 1), 0);
	lg_store_free(store);
	assert_int_equal(unlink(f->path), 0);
	assert_int_equal(unlink(witness), 0);
	store = witnessed_open(f);
	assert_false(lg_store_is_doubted(store));
	lg_store_free(store);
	store = open_ok(f->path);
	assert_false(lg_store_is_doubted(store));
	lg_store_free(store);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	strcpy(f->dir, "/tmp/lg-sqlite-test-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	assert_int_equal(chmod(f->dir, 0755), 0);
	snprintf(f->path, sizeof(f->path), "%s/store.db", f->dir);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	static const char *const ends[] = { "", "-wal", "-shm", "-journal" };
	struct fixture *f = *state;
	char path[96];

	for (size_t i = 0; i < N_ELEMS(ends); i++) {
		snprintf(path, sizeof(path), "%s/store.db%s", f->dir, ends[i]);
		unlink(path);
		for (int round = 0; round < 5; round++) {
			snprintf(path, sizeof(path), "%s/store%d.db%s", f->dir, round, ends[i]);
			unlink(path);
		}
	}
	snprintf(path, sizeof(path), "%s/witness", f->dir);
	unlink(path);
	assert_int_equal(rmdir(f->dir), 0);
	free(f);
	return 0;
}

#define ROW(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		ROW(what_was_committed_is_there_after_reopening),
		ROW(a_killed_process_loses_nothing_it_was_told_was_written),
		ROW(a_disk_that_is_full_fails_the_commit_and_keeps_the_rest),
		ROW(a_path_that_can_be_no_store_is_refused),
		ROW(a_file_one_may_not_write_is_refused),
		ROW(a_file_that_is_none_of_ours_is_left_as_it_is),
		ROW(a_newer_schema_is_left_to_the_newer_version),
		ROW(a_damaged_file_is_refused_and_not_made_worse),
		ROW(a_locked_file_is_waited_for_and_then_refused),
		ROW(each_commit_is_written_ahead_and_synchronised),
		ROW(an_older_copy_is_doubted_over_all_lives_until_it_is_trusted),
		ROW(a_store_that_is_gone_is_doubted_too),
		ROW(without_a_witness_nothing_is_doubted),
	};

	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	net_loop_free(loop());
	return failed;
}
