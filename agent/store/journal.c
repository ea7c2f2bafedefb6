// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The journal: two buffers, one that is being filled and one that is with the writer's thread. They change places when the writer is idle;
 * while it is not, the first one fills up, and what no longer fits is counted and becomes a gap before the next record that does.
 *
 * The list of files and how far each is written are shared, under a lock that nobody holds over a system call on a file. Only the writer
 * makes, writes and removes files. Readers open them by name; one that was removed meanwhile is a gap.
 *
 * Killed processes lose nothing that was written: it is in the kernel's cache. When the machine itself goes down, the last records may be
 * missing though somebody has read them already; so that no number is ever used for two records, the next life leaves a wide gap then.
 */
#include "store/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "store/journal_file.h"

#define REBOOT_GAP 1000000000ull	/* numbers: more than could be written before the kernel brings its cache to the disk */
#define SYNC_PERIOD_NS LG_NS_PER_S
#define READ_BYTES (256u << 10)	/* of one read from a file; a frame is shorter */
#define CURSORS 16

struct batch {
	uint8_t *data;
	size_t len;
	uint64_t first_seq;
	uint64_t n;		/* numbers, gaps included */
	uint64_t n_records;
	uint64_t last_ms;
};

/* Where a record stands: readers mostly go on where one of them has stopped. */
struct cursor {
	uint64_t seq;
	uint64_t first_seq;	/* of its file */
	uint64_t at;
};

struct lg_journal {
	struct lg_journal_options options;
	char folder[400];
	char boot[LG_JOURNAL_BOOT_LEN + 1];

	/* of the thread that adds and reads */
	struct batch fill;
	uint64_t next_seq;
	uint64_t n_lost;		/* numbers used up right before next_seq, without a record */
	enum lg_journal_cause why_lost;
	uint64_t last_ms;
	uint64_t n_added, n_overload;
	struct cursor cursors[CURSORS];
	size_t next_cursor;
	uint8_t *read_buf;

	/* shared, under the lock */
	pthread_mutex_t lock;
	pthread_cond_t wake, idle;
	struct batch work;
	bool busy, stop;
	struct lg_segments segments;
	uint64_t written_seq;		/* readers see what is below */
	uint64_t n_failed;		/* records */
	int error;

	/* of the writer */
	pthread_t thread;
	bool started, locks;
	int fd;
	uint64_t unwritten;		/* numbers of batches that the disk refused, before the next one */
	uint64_t sync_due_ns;		/* 0: all is durable */
	bool begin;			/* the next batch begins a file */
};

/* ---- adding ---- */

static bool has_room(const struct lg_journal *j, size_t len)
{
	/* One gap always fits behind. */
	return j->fill.len + sizeof(struct lg_journal_frame) + len + 2 * LG_FRAME_GAP_BYTES <= j->options.pending_bytes;
}

static void lost_put(struct lg_journal *j)
{
	struct batch *b = &j->fill;

	if (!j->n_lost)
		return;
	if (!b->len)
		b->first_seq = j->next_seq - j->n_lost;
	b->len += lg_journal_gap_put(b->data + b->len, j->next_seq - j->n_lost, j->n_lost, j->why_lost, j->last_ms);
	b->n += j->n_lost;
	b->last_ms = j->last_ms;
	j->n_lost = 0;
}

bool lg_journal_add(struct lg_journal *j, uint64_t time_ms, const void *data, size_t len)
{
	struct batch *b = &j->fill;

	j->last_ms = time_ms;
	if (!len || len > LG_JOURNAL_RECORD_MAX || !has_room(j, len)) {
		j->n_lost++;
		j->why_lost = LG_JOURNAL_OVERLOAD;
		j->next_seq++;
		j->n_overload++;
		return false;
	}
	lost_put(j);
	if (!b->len)
		b->first_seq = j->next_seq;
	b->len += lg_journal_frame_put(b->data + b->len, j->next_seq++, LG_FRAME_RECORD, time_ms, data, len);
	b->n++;
	b->n_records++;
	b->last_ms = time_ms;
	j->n_added++;
	return true;
}

void lg_journal_flush(struct lg_journal *j)
{
	uint8_t *spare;

	if (!j->fill.len && !j->n_lost)
		return;
	pthread_mutex_lock(&j->lock);
	if (!j->busy) {
		lost_put(j);
		spare = j->work.data;
		j->work = j->fill;
		j->fill = (struct batch){ .data = spare };
		j->busy = true;
		pthread_cond_signal(&j->wake);
	}
	pthread_mutex_unlock(&j->lock);
}

void lg_journal_settle(struct lg_journal *j)
{
	do {
		lg_journal_flush(j);
		pthread_mutex_lock(&j->lock);
		while (j->busy)
			pthread_cond_wait(&j->idle, &j->lock);
		pthread_mutex_unlock(&j->lock);
	} while (j->fill.len || j->n_lost);
}

/* ---- the writer ---- */

/* All of it, or as if nothing had been written: what stands behind the end is overwritten by the next one. */
static int write_at(int fd, const uint8_t *data, size_t len, uint64_t at)
{
	while (len) {
		ssize_t n = pwrite(fd, data, len, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data += n;
		len -= (size_t)n;
		at += (uint64_t)n;
	}
	return 0;
}

static int folder_sync(const struct lg_journal *j)
{
	_cleanup_fd_ int fd = open(j->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

static int file_sync(struct lg_journal *j)
{
	j->sync_due_ns = 0;
	return j->options.sync && j->fd >= 0 && fdatasync(j->fd) < 0 ? -errno : 0;
}

/* A file for what comes from first_seq on. The one before it is whole and durable then. */
static int file_begin(struct lg_journal *j, uint64_t first_seq, uint64_t first_ms)
{
	struct lg_segment segment = { .first_seq = first_seq, .first_ms = first_ms, .bytes = sizeof(struct lg_journal_head) };
	uint8_t head[sizeof(struct lg_journal_head)];
	_cleanup_fd_ int fd = -1;
	char path[512];
	int r;

	r = file_sync(j);
	if (r < 0)
		return r;
	lg_segment_path(j->folder, first_seq, path, sizeof(path));
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	lg_journal_head_put(head, first_seq, first_ms, j->boot);
	r = write_at(fd, head, sizeof(head), 0);
	if (r == 0 && j->options.sync)
		r = folder_sync(j);
	if (r < 0)
		return r;
	pthread_mutex_lock(&j->lock);
	r = lg_segments_add(&j->segments, &segment);
	pthread_mutex_unlock(&j->lock);
	if (r < 0)
		return r;
	if (j->fd >= 0)
		close(j->fd);
	j->fd = TAKE_FD(fd);
	j->begin = false;
	return 0;
}

/* The oldest ones go until there is room; never the one that is being written. */
static void room_make(struct lg_journal *j, size_t len)
{
	uint64_t first_seq;
	char path[512];

	while (j->segments.n > 1 && j->segments.bytes + len > j->options.size_bytes) {
		pthread_mutex_lock(&j->lock);
		first_seq = j->segments.v[0].first_seq;
		lg_segments_drop_first(&j->segments);
		pthread_mutex_unlock(&j->lock);
		lg_segment_path(j->folder, first_seq, path, sizeof(path));
		unlink(path);
	}
}

/* The writer alone changes the list, so it may look at it without the lock. next_seq is the number behind what is written here. */
static int append(struct lg_journal *j, const uint8_t *data, size_t len, uint64_t next_seq)
{
	struct lg_segment *last = &j->segments.v[j->segments.n - 1];
	int r = write_at(j->fd, data, len, last->bytes);

	if (r < 0)
		return r;
	if (j->options.sync && !j->sync_due_ns)
		j->sync_due_ns = lg_clock_now_ns() + SYNC_PERIOD_NS;
	pthread_mutex_lock(&j->lock);
	last->bytes += len;
	j->segments.bytes += len;
	j->written_seq = next_seq;
	pthread_mutex_unlock(&j->lock);
	return 0;
}

static int batch_write(struct lg_journal *j, const struct batch *b)
{
	uint64_t first_seq = b->first_seq - j->unwritten;
	uint8_t gap[LG_FRAME_GAP_BYTES];
	int r = 0;

	room_make(j, b->len + sizeof(gap) + sizeof(struct lg_journal_head));
	if (j->begin || j->segments.v[j->segments.n - 1].bytes + b->len > j->options.segment_bytes)
		r = file_begin(j, first_seq, b->last_ms);
	if (r == 0 && j->unwritten)
		r = append(j, gap, lg_journal_gap_put(gap, first_seq, j->unwritten, LG_JOURNAL_ERROR, b->last_ms), b->first_seq);
	if (r < 0)
		return r;
	j->unwritten = 0;
	return append(j, b->data, b->len, b->first_seq + b->n);
}

static bool sync_is_due(const struct lg_journal *j)
{
	return j->sync_due_ns && lg_clock_now_ns() >= j->sync_due_ns;
}

/* With the lock held. */
static void work_await(struct lg_journal *j)
{
	struct timespec until;

	while (!j->busy && !j->stop && !sync_is_due(j)) {
		until = lg_clock_deadline(j->sync_due_ns);
		if (j->sync_due_ns)
			pthread_cond_timedwait(&j->wake, &j->lock, &until);
		else
			pthread_cond_wait(&j->wake, &j->lock);
	}
}

/* With the lock held, which it gives up over the writing. */
static void work_do(struct lg_journal *j)
{
	int written = 0, synced = 0;

	pthread_mutex_unlock(&j->lock);
	if (j->work.len)
		written = batch_write(j, &j->work);
	if (written < 0)
		j->unwritten += j->work.n;
	if (sync_is_due(j))
		synced = file_sync(j);
	pthread_mutex_lock(&j->lock);
	if (written < 0)
		j->n_failed += j->work.n_records;
	j->error = written < 0 ? written : synced;
}

static void *writer(void *arg)
{
	struct lg_journal *j = arg;

	pthread_mutex_lock(&j->lock);
	for (;;) {
		work_await(j);
		if (!j->busy && j->stop)
			break;
		work_do(j);
		j->work = (struct batch){ .data = j->work.data };
		j->busy = false;
		pthread_cond_broadcast(&j->idle);
	}
	pthread_mutex_unlock(&j->lock);
	return NULL;
}

/* ---- reading ---- */

/* One call of lg_journal_read(). */
struct reading {
	struct lg_journal *j;
	int (*fn)(void *arg, const struct lg_journal_entry *entry);
	void *arg;
	uint64_t seq;		/* the next one to tell of */
	size_t left;		/* bytes that may still be read */
};

/* The file that has r->seq or would have it. */
struct place {
	struct lg_segment segment;
	uint64_t behind_seq;	/* first one of the file behind it; 0: it is the last one */
	uint64_t written_seq;
};

static int tell_gap(struct reading *r, uint64_t until_seq, enum lg_journal_cause cause)
{
	const struct lg_journal_entry gap = { .cause = cause, .seq = r->seq, .n_lost = until_seq - r->seq };
	int told = r->fn(r->arg, &gap);

	if (told == 0)
		r->seq = until_seq;
	return told;
}

/* Of files that end before that time none is looked at. */
static uint64_t since_seq(const struct lg_segments *s, uint64_t since_ms)
{
	size_t i = 0;

	while (i + 1 < s->n && s->v[i + 1].first_ms < since_ms)
		i++;
	return s->v[i].first_seq;
}

/* False when there is no file. */
static bool place_find(struct reading *r, uint64_t since_ms, struct place *ret)
{
	struct lg_journal *j = r->j;
	const struct lg_segments *s = &j->segments;
	size_t i = 0;
	bool found;

	pthread_mutex_lock(&j->lock);
	found = s->n;
	if (found) {
		if (!r->seq)
			r->seq = since_seq(s, since_ms);
		while (i + 1 < s->n && s->v[i + 1].first_seq <= r->seq)
			i++;
		ret->segment = s->v[i];
		ret->behind_seq = i + 1 < s->n ? s->v[i + 1].first_seq : 0;
		ret->written_seq = j->written_seq;
	} else if (!r->seq) {
		r->seq = j->written_seq;
	}
	pthread_mutex_unlock(&j->lock);
	return found;
}

static struct cursor cursor_find(const struct lg_journal *j, uint64_t first_seq, uint64_t seq)
{
	struct cursor best = { .seq = first_seq, .first_seq = first_seq, .at = sizeof(struct lg_journal_head) };

	for (size_t i = 0; i < CURSORS; i++) {
		const struct cursor *c = &j->cursors[i];

		if (c->first_seq == first_seq && c->seq <= seq && c->seq > best.seq)
			best = *c;
	}
	return best;
}

static void cursor_keep(struct lg_journal *j, const struct cursor *at)
{
	j->cursors[j->next_cursor] = *at;
	j->next_cursor = (j->next_cursor + 1) % CURSORS;
}

/* Tells of a frame unless it lies before what was asked for; of a gap that began before, the rest. */
static int frame_tell(struct reading *r, struct lg_journal_entry *entry, uint64_t behind_seq)
{
	int told;

	if (behind_seq <= r->seq)
		return 0;
	if (entry->n_lost)
		entry->n_lost = behind_seq - r->seq;
	entry->seq = r->seq;
	told = r->fn(r->arg, entry);
	if (told == 0)
		r->seq = behind_seq;
	return told;
}

/* The frames in the first len bytes of the buffer; c moves behind those that were told of. 1: fn wants no more; -EBADMSG: one is none. */
static int frames_tell(struct reading *r, struct cursor *c, size_t len)
{
	struct lg_journal_entry entry;
	uint64_t behind_seq;
	size_t at = 0;
	bool end;
	int n, told;

	while ((n = lg_journal_frame_get(r->j->read_buf + at, len - at, c->seq, &entry, &end, &behind_seq)) > 0) {
		told = end ? 0 : frame_tell(r, &entry, behind_seq);
		if (told)
			return told;
		at += (size_t)n;
		c->seq = behind_seq;
		c->at += (uint64_t)n;
	}
	return n < 0 ? n : at ? 0 : -EBADMSG;
}

/* Reads a file from the place of r->seq on. 1: fn wants no more, or enough was read; -EBADMSG: something in it cannot be read. */
static int file_tell(struct reading *r, const struct lg_segment *segment)
{
	struct cursor c = cursor_find(r->j, segment->first_seq, r->seq);
	_cleanup_fd_ int fd = -1;
	char path[512];
	int told = 0;

	lg_segment_path(r->j->folder, segment->first_seq, path, sizeof(path));
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	while (told == 0 && c.at < segment->bytes) {
		size_t len = segment->bytes - c.at < READ_BYTES ? (size_t)(segment->bytes - c.at) : READ_BYTES;
		bool wanted = c.seq >= r->seq;
		ssize_t n;

		if (wanted && !r->left) {
			told = 1;
			break;
		}
		n = fd < 0 ? -1 : pread(fd, r->j->read_buf, len, (off_t)c.at);
		if (n <= 0)
			return -EBADMSG;
		told = frames_tell(r, &c, (size_t)n);
		/* What is only passed over is not counted: a page must get on. */
		if (wanted)
			r->left -= (size_t)n < r->left ? (size_t)n : r->left;
	}
	cursor_keep(r->j, &c);
	return told;
}

/* A file that could not be read: was it removed for its age meanwhile? */
static bool is_gone(struct lg_journal *j, uint64_t first_seq)
{
	bool gone;

	pthread_mutex_lock(&j->lock);
	gone = !j->segments.n || j->segments.v[0].first_seq > first_seq;
	pthread_mutex_unlock(&j->lock);
	return gone;
}

/* One file further. 1: there is no more, or fn wants no more. */
static int reading_step(struct reading *r, uint64_t since_ms)
{
	struct place p;
	uint64_t until_seq;
	int told;

	if (!place_find(r, since_ms, &p))
		return 1;
	if (r->seq < p.segment.first_seq)
		return tell_gap(r, p.segment.first_seq, LG_JOURNAL_AGED);
	told = file_tell(r, &p.segment);
	if (told == -EBADMSG && is_gone(r->j, p.segment.first_seq))
		return 0;
	if (told && told != -EBADMSG)
		return told;
	until_seq = p.behind_seq ? p.behind_seq : r->seq;
	if (told == -EBADMSG && !p.behind_seq)
		until_seq = p.written_seq;
	if (r->seq < until_seq)
		return tell_gap(r, until_seq, LG_JOURNAL_DAMAGED);
	return p.behind_seq ? 0 : 1;
}

int lg_journal_read(struct lg_journal *j, uint64_t from_seq, uint64_t since_ms, size_t max_bytes,
		    int (*fn)(void *arg, const struct lg_journal_entry *entry), void *arg, uint64_t *ret_next)
{
	struct reading r = { .j = j, .fn = fn, .arg = arg, .seq = from_seq, .left = max_bytes };
	int told = 0;

	while (told == 0)
		told = reading_step(&r, since_ms);
	*ret_next = r.seq;
	return told < 0 ? told : 0;
}

/* ---- begin and end ---- */

static int boot_read(struct lg_journal *j, const char *given)
{
	_cleanup_fd_ int fd = -1;
	ssize_t n;

	if (given) {
		snprintf(j->boot, sizeof(j->boot), "%s", given);
		return 0;
	}
	fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = read(fd, j->boot, LG_JOURNAL_BOOT_LEN);
	return n == LG_JOURNAL_BOOT_LEN ? 0 : n < 0 ? -errno : -EIO;
}

static int files_start(struct lg_journal *j, struct lg_complaint *c)
{
	struct lg_journal_tail tail;
	char path[512];
	int r;

	r = lg_segments_load(j->folder, j->boot, &j->segments, &tail, c);
	if (r < 0)
		return r;
	j->next_seq = j->written_seq = tail.next_seq;
	j->last_ms = tail.last_ms;
	j->begin = !j->segments.n || !tail.same_boot;
	if (!tail.orderly) {
		j->n_lost = REBOOT_GAP;
		j->why_lost = LG_JOURNAL_REBOOT;
		j->next_seq += REBOOT_GAP;
	}
	if (j->begin)
		return 0;
	lg_segment_path(j->folder, j->segments.v[j->segments.n - 1].first_seq, path, sizeof(path));
	j->fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	return j->fd < 0 ? -errno : 0;
}

static int buffers_start(struct lg_journal *j)
{
	j->fill.data = malloc(j->options.pending_bytes);
	j->work.data = malloc(j->options.pending_bytes);
	j->read_buf = malloc(READ_BYTES);
	return j->fill.data && j->work.data && j->read_buf ? 0 : -ENOMEM;
}

/* Signals are the other thread's. */
static int writer_start(struct lg_journal *j)
{
	pthread_condattr_t clock;
	sigset_t all, before;
	int r;

	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_mutex_init(&j->lock, NULL);
	pthread_cond_init(&j->wake, &clock);
	pthread_cond_init(&j->idle, NULL);
	pthread_condattr_destroy(&clock);
	j->locks = true;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = -pthread_create(&j->thread, NULL, writer, j);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	j->started = r == 0;
	return r;
}

int lg_journal_open(const struct lg_journal_options *options, struct lg_journal **ret_journal, struct lg_complaint *c)
{
	_cleanup_(lg_journal_close) struct lg_journal *j = NULL;
	int r;

	j = calloc(1, sizeof(*j));
	if (!j)
		return -ENOMEM;
	j->fd = -1;
	j->options = *options;
	c->text[0] = '\0';
	if (snprintf(j->folder, sizeof(j->folder), "%s", options->folder) >= (int)sizeof(j->folder))
		return -ENAMETOOLONG;
	r = buffers_start(j);
	if (r == 0)
		r = boot_read(j, options->boot);
	if (r == 0)
		r = files_start(j, c);
	if (r == 0)
		r = writer_start(j);
	if (r < 0) {
		if (!c->text[0])
			lg_complain(c, "cannot open the journal in %s: %s", j->folder, strerror(-r));
		return r;
	}
	*ret_journal = TAKE(j);
	return 0;
}

/* What is told of an orderly end must be on the disk, whatever the options say: else it would not be one. */
static void end_put(struct lg_journal *j)
{
	uint8_t frame[sizeof(struct lg_journal_frame)];
	size_t len = lg_journal_frame_put(frame, j->written_seq, LG_FRAME_END, j->last_ms, NULL, 0);

	if (j->begin || j->unwritten)
		return;
	if (fdatasync(j->fd) == 0 && append(j, frame, len, j->written_seq) == 0)
		fdatasync(j->fd);
}

struct lg_journal *lg_journal_close(struct lg_journal *j)
{
	if (!j)
		return NULL;
	if (j->started) {
		lg_journal_settle(j);
		pthread_mutex_lock(&j->lock);
		j->stop = true;
		pthread_cond_signal(&j->wake);
		pthread_mutex_unlock(&j->lock);
		pthread_join(j->thread, NULL);
		end_put(j);
	}
	if (j->locks) {
		pthread_mutex_destroy(&j->lock);
		pthread_cond_destroy(&j->wake);
		pthread_cond_destroy(&j->idle);
	}
	if (j->fd >= 0)
		close(j->fd);
	free(j->fill.data);
	free(j->work.data);
	free(j->read_buf);
	free(j->segments.v);
	free(j);
	return NULL;
}

void lg_journal_stats(struct lg_journal *j, struct lg_journal_stats *ret_stats)
{
	const struct lg_segments *s = &j->segments;

	pthread_mutex_lock(&j->lock);
	*ret_stats = (struct lg_journal_stats){ .first_seq = s->n ? s->v[0].first_seq : j->written_seq,
						.first_ms = s->n ? s->v[0].first_ms : 0,
						.next_seq = j->written_seq,
						.n_added = j->n_added,
						.n_dropped = j->n_overload + j->n_failed,
						.bytes = s->bytes,
						.error = j->error };
	pthread_mutex_unlock(&j->lock);
}
