// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The journal against what befalls files: lives that end in any way, torn ends, full disks, readers anywhere in it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "store/journal.h"
#include "store/journal_file.h"

/* Found before that of the C library. */
static unsigned int n_syncs;

int fdatasync(int fd)
{
	n_syncs++;
	return (int)syscall(SYS_fdatasync, fd);
}

#define ENTRIES_MAX 100000
#define GAP_REBOOT 1000000000ull

struct fixture {
	char parent[64], folder[80];
	struct lg_journal_options options;
};

struct seen {
	struct lg_journal_entry v[ENTRIES_MAX];
	uint64_t values[ENTRIES_MAX];
	size_t n, stop_at;
};

static struct seen seen;

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	snprintf(f->parent, sizeof(f->parent), "/tmp/lg-journal-XXXXXX");
	assert_non_null(mkdtemp(f->parent));
	snprintf(f->folder, sizeof(f->folder), "%s/journal", f->parent);
	f->options = (struct lg_journal_options){ .folder = f->folder, .size_bytes = 1 << 20, .segment_bytes = 1 << 16,
						  .pending_bytes = 1 << 16, .boot = "boot-1" };
	*state = f;
	return 0;
}

static void files_each(const struct fixture *f, void (*fn)(const char *path, void *arg), void *arg)
{
	struct dirent *e;
	char path[400];
	DIR *dir = opendir(f->folder);

	while (dir && (e = readdir(dir))) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", f->folder, e->d_name);
		fn(path, arg);
	}
	if (dir)
		closedir(dir);
}

static void file_remove(const char *path, void *arg)
{
	(void)arg;
	unlink(path);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	files_each(f, file_remove, NULL);
	rmdir(f->folder);
	rmdir(f->parent);
	free(f);
	return 0;
}

static struct lg_journal *begin(const struct fixture *f)
{
	struct lg_complaint c = { 0 };
	struct lg_journal *j = NULL;

	if (lg_journal_open(&f->options, &j, &c) < 0)
		fail_msg("%s", c.text);
	return j;
}

/* Records whose data is their value; written when this returns. */
static void add(struct lg_journal *j, uint64_t first, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t value = first + i;

		while (!lg_journal_add(j, 1000 + value, &value, sizeof(value)))
			fail_msg("no room for record %zu of %zu", i, n);
		if (i % 1000 == 999)
			lg_journal_settle(j);
	}
	lg_journal_settle(j);
}

static int take(void *arg, const struct lg_journal_entry *entry)
{
	struct seen *s = arg;

	if (s->stop_at && s->n == s->stop_at)
		return 1;
	assert_true(s->n < ENTRIES_MAX);
	s->values[s->n] = 0;
	if (!entry->cause)
		memcpy(&s->values[s->n], entry->data, sizeof(uint64_t));
	s->v[s->n++] = *entry;
	return 0;
}

/* All from a number on, by pages of at most page_bytes and stop_at entries. Returns where it ended. */
static uint64_t read_all(struct lg_journal *j, uint64_t from_seq, size_t page_bytes, size_t per_page)
{
	struct lg_journal_stats stats;
	uint64_t next = from_seq;
	size_t before;

	lg_journal_stats(j, &stats);
	seen.n = 0;
	do {
		before = seen.n;
		seen.stop_at = per_page ? seen.n + per_page : 0;
		assert_int_equal(lg_journal_read(j, next, 0, page_bytes, take, &seen, &next), 0);
	} while (next < stats.next_seq && seen.n > before);
	return next;
}

/* What was read has no hole and nothing twice: each entry begins where the one before ended. */
static void assert_joined(uint64_t from_seq, uint64_t next_seq)
{
	uint64_t seq = from_seq;

	for (size_t i = 0; i < seen.n; i++) {
		assert_int_equal(seen.v[i].seq, seq);
		seq += seen.v[i].cause ? seen.v[i].n_lost : 1;
	}
	assert_int_equal(seq, next_seq);
}

static void records_come_back_in_order_with_their_numbers_and_times(void **state)
{
	struct lg_journal *j = begin(*state);

	assert_int_equal(read_all(j, 0, 1 << 20, 0), 1);
	assert_int_equal(seen.n, 0);
	add(j, 1, 2500);
	assert_int_equal(read_all(j, 0, 1 << 20, 0), 2501);
	assert_int_equal(seen.n, 2500);
	assert_joined(1, 2501);
	for (size_t i = 0; i < seen.n; i++) {
		assert_int_equal(seen.values[i], i + 1);
		assert_int_equal(seen.v[i].time_ms, 1000 + i + 1);
	}
	lg_journal_close(j);
}

static void what_is_not_written_yet_is_not_read(void **state)
{
	struct lg_journal *j = begin(*state);
	uint64_t value = 1, next;

	assert_true(lg_journal_add(j, 1, &value, sizeof(value)));
	seen = (struct seen){ 0 };
	assert_int_equal(lg_journal_read(j, 0, 0, 1 << 20, take, &seen, &next), 0);
	assert_int_equal(seen.n, 0);
	assert_int_equal(next, 1);
	lg_journal_settle(j);
	assert_int_equal(read_all(j, next, 1 << 20, 0), 2);
	assert_int_equal(seen.n, 1);
	lg_journal_close(j);
}

static void a_reader_goes_on_exactly_where_it_stopped(void **state)
{
	static const size_t pages[][2] = { { 1 << 20, 1 }, { 1 << 20, 7 }, { 1, 0 }, { 5000, 0 }, { 100, 3 } };
	struct lg_journal *j = begin(*state);

	add(j, 1, 9000);	/* several files */
	for (size_t i = 0; i < N_ELEMS(pages); i++) {
		for (uint64_t from = 1; from <= 9000; from += 2999) {
			assert_int_equal(read_all(j, from, pages[i][0], pages[i][1]), 9001);
			assert_joined(from, 9001);
			assert_int_equal(seen.values[0], from);
			assert_int_equal(seen.values[seen.n - 1], 9000);
		}
	}
	assert_int_equal(read_all(j, 9001, 1 << 20, 0), 9001);
	assert_int_equal(seen.n, 0);
	lg_journal_close(j);
}

static void numbers_go_on_over_restarts(void **state)
{
	struct fixture *f = *state;
	struct lg_journal *j;

	for (uint64_t life = 0; life < 5; life++) {
		j = begin(f);
		add(j, life * 100 + 1, life == 3 ? 0 : 100);
		lg_journal_close(j);
	}
	f->options.boot = "boot-2";	/* an orderly end holds over a reboot too */
	j = begin(f);
	add(j, 1, 1);
	assert_int_equal(read_all(j, 0, 1 << 20, 0), 402);
	assert_joined(1, 402);
	for (size_t i = 0; i < seen.n; i++)
		assert_int_equal(seen.v[i].cause, LG_JOURNAL_RECORD);
	lg_journal_close(j);
}

/* Another process adds, settles and is killed; then `cut` bytes are missing, or junk stands at the end. */
static void life_killed(const struct fixture *f, uint64_t first, size_t n)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		struct lg_complaint c;
		struct lg_journal *j;

		if (lg_journal_open(&f->options, &j, &c) < 0)
			_exit(1);
		for (size_t i = 0; i < n; i++) {
			uint64_t value = first + i;

			if (!lg_journal_add(j, 1000 + value, &value, sizeof(value)))
				_exit(2);
		}
		lg_journal_settle(j);
		raise(SIGKILL);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* What happens to the end of the newest file behind its process's back. */
struct tearing {
	long cut;		/* bytes taken off */
	const void *junk;	/* bytes appended */
	size_t n_junk;
};

static void newest_find(const char *path, void *arg)
{
	char *newest = arg;

	if (strcmp(path, newest) > 0)
		snprintf(newest, 400, "%s", path);
}

static void tear(const struct fixture *f, const struct tearing *t)
{
	char path[400] = "";
	struct stat st;
	int fd;

	files_each(f, newest_find, path);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(truncate(path, st.st_size - t->cut), 0);
	fd = open(path, O_WRONLY | O_APPEND);
	assert_int_equal(write(fd, t->junk, t->n_junk), (ssize_t)t->n_junk);
	close(fd);
}

static void a_torn_record_at_the_end_is_cut_off_and_its_number_used_again(void **state)
{
	static const uint8_t zeros[300], ones[5] = { 1, 1, 1, 1, 1 };
	uint8_t stale[24];
	uint64_t value = 3;
	const struct tearing tearings[] = {
		{ 0, "", 0 }, { 0, ones, sizeof(ones) }, { 0, zeros, sizeof(zeros) },
		{ 1, "", 0 }, { 23, "", 0 }, { 8, zeros, 8 }, { 0, stale, sizeof(stale) },
	};
	struct fixture *f = *state;

	/* A whole frame, but of another number. */
	lg_journal_frame_put(stale, 7, LG_FRAME_RECORD, 1, &value, sizeof(value));
	for (size_t i = 0; i < N_ELEMS(tearings); i++) {
		uint64_t n = 20 - (tearings[i].cut > 0);
		struct lg_journal *j;

		life_killed(f, 1, 20);
		tear(f, &tearings[i]);
		j = begin(f);
		assert_int_equal(read_all(j, 0, 1 << 20, 0), n + 1);
		add(j, 100, 2);
		assert_int_equal(read_all(j, 0, 1 << 20, 0), n + 3);
		assert_joined(1, n + 3);
		assert_int_equal(seen.values[n - 1], n);
		assert_int_equal(seen.values[n], 100);
		lg_journal_close(j);
		files_each(f, file_remove, NULL);
	}
}

static void a_torn_head_of_a_new_file_is_as_no_file(void **state)
{
	struct fixture *f = *state;
	struct lg_journal *j = begin(f);
	char path[400];
	int fd;

	add(j, 1, 3);
	lg_journal_close(j);
	lg_segment_path(f->folder, 4, path, sizeof(path));
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	assert_int_equal(write(fd, "lgjrnl1\n", 8), 8);
	close(fd);
	j = begin(f);
	add(j, 4, 3);
	assert_int_equal(read_all(j, 0, 1 << 20, 0), 7);
	assert_joined(1, 7);
	assert_int_equal(seen.values[5], 6);
	lg_journal_close(j);
}

static void after_a_kill_in_the_same_run_of_the_machine_nothing_is_missing(void **state)
{
	struct fixture *f = *state;
	struct lg_journal *j;

	life_killed(f, 1, 50);
	life_killed(f, 51, 50);
	j = begin(f);
	assert_int_equal(read_all(j, 0, 1 << 20, 0), 101);
	assert_int_equal(seen.n, 100);
	assert_int_equal(seen.values[99], 100);
	lg_journal_close(j);
}

static void after_the_machine_went_down_no_number_is_used_again(void **state)
{
	struct fixture *f = *state;
	struct lg_journal *j;

	life_killed(f, 1, 50);
	tear(f, &(struct tearing){ .cut = 24 * 30, .junk = "" });	/* never reached the disk, but had been read */
	f->options.boot = "boot-2";
	j = begin(f);
	lg_journal_settle(j);
	assert_int_equal(read_all(j, 51, 1 << 20, 0), 21 + GAP_REBOOT);
	assert_int_equal(seen.n, 1);
	assert_int_equal(seen.v[0].cause, LG_JOURNAL_REBOOT);
	add(j, 500, 1);
	assert_int_equal(read_all(j, 0, 1 << 20, 0), 22 + GAP_REBOOT);
	assert_joined(1, 22 + GAP_REBOOT);
	assert_int_equal(seen.n, 22);
	assert_int_equal(seen.v[20].cause, LG_JOURNAL_REBOOT);
	assert_int_equal(seen.values[21], 500);
	lg_journal_close(j);
	/* The second life began a file in its own run: another kill in it is no gap. */
	life_killed(f, 501, 1);
	j = begin(f);
	assert_int_equal(read_all(j, 0, 1 << 20, 0), 23 + GAP_REBOOT);
	assert_int_equal(seen.n, 23);
	lg_journal_close(j);
}

static void bytes_sum(const char *path, void *arg)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	*(uint64_t *)arg += (uint64_t)st.st_size;
}

static void the_oldest_file_goes_and_the_size_holds(void **state)
{
	struct fixture *f = *state;
	struct lg_journal_stats stats;
	uint64_t bytes = 0;
	struct lg_journal *j;

	f->options.size_bytes = 200000;
	f->options.segment_bytes = 50000;
	j = begin(f);
	add(j, 1, 30000);	/* 24 bytes each */
	lg_journal_stats(j, &stats);
	files_each(f, bytes_sum, &bytes);
	assert_true(bytes <= 200000 && bytes > 100000);
	assert_int_equal(stats.bytes, bytes);
	assert_true(stats.first_seq > 20000 && stats.first_seq < 28000);
	assert_int_equal(stats.next_seq, 30001);
	assert_int_equal(stats.n_dropped, 0);
	assert_int_equal(read_all(j, 0, 1 << 20, 0), 30001);
	assert_joined(stats.first_seq, 30001);
	assert_int_equal(read_all(j, 100, 1 << 20, 0), 30001);
	assert_joined(100, 30001);
	assert_int_equal(seen.v[0].cause, LG_JOURNAL_AGED);
	assert_int_equal(seen.v[0].n_lost, stats.first_seq - 100);
	assert_int_equal(seen.values[1], stats.first_seq);
	lg_journal_close(j);
	j = begin(f);
	assert_int_equal(read_all(j, 0, 1 << 20, 0), 30001);
	assert_joined(stats.first_seq, 30001);
	lg_journal_close(j);
}

static void what_finds_no_room_is_dropped_counted_and_told_of(void **state)
{
	struct fixture *f = *state;
	struct lg_journal_stats stats;
	struct lg_journal *j;
	uint64_t n = 0, value;

	f->options.pending_bytes = 4096;
	j = begin(f);
	for (value = 1; lg_journal_add(j, value, &value, sizeof(value)); value++)
		n++;
	assert_true(n > 100 && n < 4096 / 24);
	for (int i = 0; i < 9; i++)
		assert_false(lg_journal_add(j, value, &value, sizeof(value)));
	lg_journal_settle(j);
	value = n + 11;
	assert_true(lg_journal_add(j, value, &value, sizeof(value)));
	lg_journal_settle(j);
	lg_journal_stats(j, &stats);
	assert_int_equal(stats.n_added, n + 1);
	assert_int_equal(stats.n_dropped, 10);
	assert_int_equal(read_all(j, 0, 1 << 20, 0), n + 12);
	assert_joined(1, n + 12);
	assert_int_equal(seen.n, n + 2);
	assert_int_equal(seen.v[n].cause, LG_JOURNAL_OVERLOAD);
	assert_int_equal(seen.v[n].n_lost, 10);
	assert_int_equal(seen.values[n + 1], n + 11);
	/* A reader in the middle of the gap is told of the rest of it. */
	assert_int_equal(read_all(j, n + 4, 1 << 20, 0), n + 12);
	assert_joined(n + 4, n + 12);
	assert_int_equal(seen.v[0].n_lost, 7);
	lg_journal_close(j);
}

static void a_record_too_long_or_empty_is_dropped_like_any_other(void **state)
{
	static const uint8_t data[LG_JOURNAL_RECORD_MAX + 1];
	struct lg_journal *j = begin(*state);

	assert_false(lg_journal_add(j, 1, data, 0));
	assert_true(lg_journal_add(j, 1, data, LG_JOURNAL_RECORD_MAX));
	assert_false(lg_journal_add(j, 1, data, LG_JOURNAL_RECORD_MAX + 1));
	lg_journal_settle(j);
	assert_int_equal(read_all(j, 0, 1 << 20, 0), 4);
	assert_joined(1, 4);
	assert_int_equal(seen.v[1].len, LG_JOURNAL_RECORD_MAX);
	assert_int_equal(seen.v[2].n_lost, 1);
	lg_journal_close(j);
}

static void when_the_disk_is_full_records_are_counted_and_the_next_ones_go_on(void **state)
{
	struct rlimit before, small;
	struct fixture *f = *state;
	struct lg_journal_stats stats;
	struct lg_journal *j = begin(f);

	signal(SIGXFSZ, SIG_IGN);
	add(j, 1, 10);
	getrlimit(RLIMIT_FSIZE, &before);
	small = before;
	small.rlim_cur = sizeof(struct lg_journal_head) + 24 * 15 + 5;
	setrlimit(RLIMIT_FSIZE, &small);
	add(j, 11, 10);		/* the first five and a bit would fit */
	add(j, 21, 2);
	lg_journal_stats(j, &stats);
	setrlimit(RLIMIT_FSIZE, &before);
	assert_int_equal(stats.n_dropped, 10);
	assert_int_equal(stats.error, 0);
	add(j, 23, 3);
	assert_int_equal(read_all(j, 0, 1 << 20, 0), 26);
	assert_joined(1, 26);
	assert_int_equal(seen.v[10].cause, LG_JOURNAL_ERROR);
	assert_int_equal(seen.v[10].n_lost, 10);
	assert_int_equal(seen.values[11], 21);
	lg_journal_close(j);
	j = begin(f);
	assert_int_equal(read_all(j, 0, 1 << 20, 0), 26);
	assert_joined(1, 26);
	lg_journal_close(j);
}

static void an_error_of_the_disk_is_said_until_a_write_succeeds(void **state)
{
	struct rlimit before, small;
	struct lg_journal_stats stats;
	struct lg_journal *j = begin(*state);

	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &before);
	small = before;
	small.rlim_cur = 10;	/* not even a head */
	setrlimit(RLIMIT_FSIZE, &small);
	add(j, 1, 3);
	lg_journal_stats(j, &stats);
	assert_int_equal(stats.error, -EFBIG);
	assert_int_equal(stats.n_dropped, 3);
	setrlimit(RLIMIT_FSIZE, &before);
	add(j, 4, 3);
	lg_journal_stats(j, &stats);
	assert_int_equal(stats.error, 0);
	assert_int_equal(read_all(j, 0, 1 << 20, 0), 7);
	assert_joined(1, 7);
	assert_int_equal(seen.v[0].n_lost, 3);
	lg_journal_close(j);
}

static void damage_in_an_old_file_is_a_gap_up_to_the_next_one(void **state)
{
	struct lg_segment second = { .first_seq = 0 };
	struct fixture *f = *state;
	struct lg_journal_stats stats;
	struct lg_journal *j = begin(f);
	uint8_t junk = 0xff;
	char path[400];
	size_t i;
	int fd;

	add(j, 1, 9000);
	lg_segment_path(f->folder, 1, path, sizeof(path));
	fd = open(path, O_WRONLY);
	assert_int_equal(pwrite(fd, &junk, 1, sizeof(struct lg_journal_head) + 24 * 100 + 20), 1);
	close(fd);
	assert_int_equal(read_all(j, 0, 1 << 20, 0), 9001);
	assert_joined(1, 9001);
	assert_int_equal(seen.v[100].cause, LG_JOURNAL_DAMAGED);
	assert_int_equal(seen.v[100].seq, 101);
	second.first_seq = seen.v[101].seq;
	assert_true(second.first_seq > 1000 && second.first_seq < 4000);
	/* A file that somebody has removed. */
	lg_segment_path(f->folder, second.first_seq, path, sizeof(path));
	assert_int_equal(unlink(path), 0);
	assert_int_equal(read_all(j, 200, 1 << 20, 0), 9001);
	assert_joined(200, 9001);
	for (i = 0; seen.v[i].cause == LG_JOURNAL_DAMAGED; i++)
		;
	assert_int_equal(i, 2);
	lg_journal_stats(j, &stats);
	assert_int_equal(stats.first_seq, 1);
	lg_journal_close(j);
}

static void files_that_end_before_a_time_are_not_read(void **state)
{
	struct lg_journal *j = begin(*state);
	uint64_t next;

	add(j, 1, 9000);	/* at 1001 .. 10000 ms */
	seen = (struct seen){ 0 };
	assert_int_equal(lg_journal_read(j, 0, 9500, 1 << 20, take, &seen, &next), 0);
	assert_int_equal(next, 9001);
	assert_true(seen.v[0].time_ms > 4000 && seen.v[0].time_ms <= 9500);
	assert_joined(seen.v[0].seq, 9001);
	seen = (struct seen){ 0 };
	assert_int_equal(lg_journal_read(j, 0, 99999, 1 << 20, take, &seen, &next), 0);
	assert_true(seen.n > 0 && seen.n < 4000);
	assert_int_equal(next, 9001);
	lg_journal_close(j);
}

static void a_folder_that_cannot_be_used_is_refused_in_words(void **state)
{
	struct fixture *f = *state;
	struct lg_complaint c = { 0 };
	struct lg_journal *j = NULL;
	char path[400];
	int fd;

	snprintf(path, sizeof(path), "%s/file", f->parent);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	close(fd);
	f->options.folder = path;
	assert_int_equal(lg_journal_open(&f->options, &j, &c), -ENOTDIR);
	assert_non_null(strstr(c.text, path));
	assert_null(j);
	unlink(path);
	snprintf(path, sizeof(path), "%s/none/journal", f->parent);
	assert_int_equal(lg_journal_open(&f->options, &j, &c), -ENOENT);
	f->options.folder = f->folder;
}

static void the_disk_is_waited_for_only_when_that_is_wanted_and_at_an_orderly_end(void **state)
{
	struct fixture *f = *state;
	struct lg_journal *j;

	for (int sync = 0; sync < 2; sync++) {
		f->options.sync = sync;
		j = begin(f);
		n_syncs = 0;
		add(j, 1, 9000);	/* three files more, and each is durable before the next one begins */
		if (sync)
			assert_true(n_syncs >= 3);
		else
			assert_int_equal(n_syncs, 0);
		n_syncs = 0;
		lg_journal_close(j);
		assert_true(n_syncs >= 2);
	}
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(records_come_back_in_order_with_their_numbers_and_times),
		T(what_is_not_written_yet_is_not_read),
		T(a_reader_goes_on_exactly_where_it_stopped),
		T(numbers_go_on_over_restarts),
		T(a_torn_record_at_the_end_is_cut_off_and_its_number_used_again),
		T(a_torn_head_of_a_new_file_is_as_no_file),
		T(after_a_kill_in_the_same_run_of_the_machine_nothing_is_missing),
		T(after_the_machine_went_down_no_number_is_used_again),
		T(the_oldest_file_goes_and_the_size_holds),
		T(what_finds_no_room_is_dropped_counted_and_told_of),
		T(a_record_too_long_or_empty_is_dropped_like_any_other),
		T(when_the_disk_is_full_records_are_counted_and_the_next_ones_go_on),
		T(an_error_of_the_disk_is_said_until_a_write_succeeds),
		T(damage_in_an_old_file_is_a_gap_up_to_the_next_one),
		T(files_that_end_before_a_time_are_not_read),
		T(a_folder_that_cannot_be_used_is_refused_in_words),
		T(the_disk_is_waited_for_only_when_that_is_wanted_and_at_an_orderly_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
