// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "store/journal_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <xxhash.h>

#define MAGIC "lgjrnl1\n"
#define SUFFIX ".journal"
#define NAME_DIGITS 20

void lg_segment_path(const char *folder, uint64_t first_seq, char *buf, size_t len)
{
	snprintf(buf, len, "%s/%0*" PRIu64 SUFFIX, folder, NAME_DIGITS, first_seq);
}

/* ---- heads and frames ---- */

void lg_journal_head_put(void *buf, uint64_t first_seq, uint64_t first_ms, const char *boot)
{
	struct lg_journal_head head = { .magic = MAGIC, .first_seq = first_seq, .first_ms = first_ms };

	memcpy(head.boot, boot, strnlen(boot, sizeof(head.boot)));
	head.sum = XXH3_64bits(&head, offsetof(struct lg_journal_head, sum));
	memcpy(buf, &head, sizeof(head));
}

static bool head_is_good(const struct lg_journal_head *head, uint64_t first_seq)
{
	return memcmp(head->magic, MAGIC, sizeof(head->magic)) == 0 && head->first_seq == first_seq &&
	       head->sum == XXH3_64bits(head, offsetof(struct lg_journal_head, sum));
}

static uint32_t frame_sum(const uint8_t *frame, size_t len, uint64_t seq)
{
	return (uint32_t)XXH3_64bits_withSeed(frame + sizeof(uint32_t), len - sizeof(uint32_t), seq);
}

size_t lg_journal_frame_put(void *buf, uint64_t seq, enum lg_journal_frame_kind kind, uint64_t time_ms, const void *data, size_t len)
{
	struct lg_journal_frame frame = { .len = (uint16_t)len, .kind = (uint16_t)kind, .time_ms = time_ms };

	if (len)
		memcpy((uint8_t *)buf + sizeof(frame), data, len);
	memcpy(buf, &frame, sizeof(frame));
	frame.sum = frame_sum(buf, sizeof(frame) + len, seq);
	memcpy(buf, &frame.sum, sizeof(frame.sum));
	return sizeof(frame) + len;
}

size_t lg_journal_gap_put(void *buf, uint64_t seq, uint64_t n, enum lg_journal_cause cause, uint64_t time_ms)
{
	struct lg_journal_gap gap = { .n = n, .cause = cause };

	return lg_journal_frame_put(buf, seq, LG_FRAME_GAP, time_ms, &gap, sizeof(gap));
}

static bool gap_get(struct lg_journal_entry *entry)
{
	struct lg_journal_gap gap;

	if (entry->len != sizeof(gap))
		return false;
	memcpy(&gap, entry->data, sizeof(gap));
	if (!gap.n || gap.n > UINT64_MAX - entry->seq || gap.cause <= LG_JOURNAL_RECORD || gap.cause >= _LG_JOURNAL_N)
		return false;
	entry->cause = (enum lg_journal_cause)gap.cause;
	entry->n_lost = gap.n;
	entry->data = NULL;
	entry->len = 0;
	return true;
}

int lg_journal_frame_get(const uint8_t *data, size_t len, uint64_t seq, struct lg_journal_entry *ret_entry, bool *ret_end,
			 uint64_t *ret_next)
{
	struct lg_journal_frame frame;
	size_t total;

	if (len < sizeof(frame))
		return 0;
	memcpy(&frame, data, sizeof(frame));
	total = sizeof(frame) + frame.len;
	if (frame.len > LG_JOURNAL_RECORD_MAX || frame.kind < LG_FRAME_RECORD || frame.kind > LG_FRAME_END)
		return -EBADMSG;
	if (len < total)
		return 0;
	if (frame.sum != frame_sum(data, total, seq))
		return -EBADMSG;
	*ret_entry = (struct lg_journal_entry){ .seq = seq, .time_ms = frame.time_ms, .data = data + sizeof(frame), .len = frame.len };
	if (frame.kind == LG_FRAME_GAP && !gap_get(ret_entry))
		return -EBADMSG;
	*ret_end = frame.kind == LG_FRAME_END;
	*ret_next = *ret_end ? seq : seq + (ret_entry->n_lost ? ret_entry->n_lost : 1);
	return (int)total;
}

/* ---- the list of files ---- */

int lg_segments_add(struct lg_segments *s, const struct lg_segment *segment)
{
	struct lg_segment *more;

	if (s->n == s->size) {
		more = realloc(s->v, (s->size + 64) * sizeof(*more));
		if (!more)
			return -ENOMEM;
		s->v = more;
		s->size += 64;
	}
	s->v[s->n++] = *segment;
	s->bytes += segment->bytes;
	return 0;
}

void lg_segments_drop_first(struct lg_segments *s)
{
	s->bytes -= s->v[0].bytes;
	s->n--;
	memmove(s->v, s->v + 1, s->n * sizeof(*s->v));
}

static int by_number(const void *a, const void *b)
{
	const struct lg_segment *x = a, *y = b;

	return x->first_seq < y->first_seq ? -1 : x->first_seq > y->first_seq;
}

/* Is it the name of one of our files? */
static bool name_parse(const char *name, uint64_t *ret_seq)
{
	char *end;

	if (strlen(name) != NAME_DIGITS + strlen(SUFFIX) || strspn(name, "0123456789") != NAME_DIGITS)
		return false;
	*ret_seq = strtoull(name, &end, 10);
	return strcmp(end, SUFFIX) == 0 && *ret_seq;
}

static int head_read(const char *path, uint64_t first_seq, struct lg_journal_head *ret_head, uint64_t *ret_bytes)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	n = pread(fd, ret_head, sizeof(*ret_head), 0);
	if (n < 0)
		return -errno;
	if (n < (ssize_t)sizeof(*ret_head) || !head_is_good(ret_head, first_seq))
		return -EBADMSG;
	*ret_bytes = (uint64_t)st.st_size;
	return 0;
}

/* A file without a good head was begun when the machine went down; nothing in it has ever been read. */
static int file_load(const char *folder, uint64_t first_seq, struct lg_segments *s)
{
	struct lg_segment segment = { .first_seq = first_seq };
	struct lg_journal_head head;
	char path[512];
	int r;

	lg_segment_path(folder, first_seq, path, sizeof(path));
	r = head_read(path, first_seq, &head, &segment.bytes);
	if (r == -EBADMSG)
		return unlink(path) < 0 ? -errno : 0;
	segment.first_ms = head.first_ms;
	return r < 0 ? r : lg_segments_add(s, &segment);
}

static int folder_load(const char *folder, struct lg_segments *s)
{
	DIR *dir = opendir(folder);
	struct dirent *e;
	uint64_t seq;
	int r = 0;

	if (!dir)
		return -errno;
	while (r == 0 && (errno = 0, e = readdir(dir)))
		if (name_parse(e->d_name, &seq))
			r = file_load(folder, seq, s);
	if (r == 0)
		r = -errno;
	closedir(dir);
	if (s->n)
		qsort(s->v, s->n, sizeof(*s->v), by_number);
	return r;
}

/* ---- the end of the last file ---- */

static int whole_read(const char *path, int *ret_fd, uint8_t **ret_data, size_t *ret_len)
{
	_cleanup_fd_ int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	_cleanup_free_ uint8_t *data = NULL;
	struct stat st;
	size_t len = 0;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	data = malloc((size_t)st.st_size + 1);
	if (!data)
		return -ENOMEM;
	while (len < (size_t)st.st_size) {
		n = pread(fd, data + len, (size_t)st.st_size - len, (off_t)len);
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		len += (size_t)n;
	}
	*ret_fd = TAKE_FD(fd);
	*ret_data = TAKE(data);
	*ret_len = len;
	return 0;
}

static int tail_load(const char *folder, const char *boot, struct lg_segments *s, struct lg_journal_tail *tail)
{
	struct lg_segment *last = &s->v[s->n - 1];
	struct lg_journal_entry entry;
	_cleanup_free_ uint8_t *data = NULL;
	_cleanup_fd_ int fd = -1;
	const struct lg_journal_head *head;
	size_t len = 0, at = sizeof(*head);
	bool end = false;
	char path[512];
	int r;

	lg_segment_path(folder, last->first_seq, path, sizeof(path));
	r = whole_read(path, &fd, &data, &len);
	if (r < 0)
		return r;
	head = (const struct lg_journal_head *)(const void *)data;
	tail->same_boot = strncmp(head->boot, boot, sizeof(head->boot)) == 0;
	tail->next_seq = last->first_seq;
	tail->last_ms = last->first_ms;
	while ((r = lg_journal_frame_get(data + at, len - at, tail->next_seq, &entry, &end, &tail->next_seq)) > 0) {
		at += (size_t)r;
		tail->last_ms = entry.time_ms;
	}
	tail->orderly = tail->same_boot || (end && at == len);
	s->bytes -= last->bytes - at;
	last->bytes = at;
	return at < len && ftruncate(fd, (off_t)at) < 0 ? -errno : 0;
}

int lg_segments_load(const char *folder, const char *boot, struct lg_segments *s, struct lg_journal_tail *ret_tail,
		     struct lg_complaint *c)
{
	int r = 0;

	*ret_tail = (struct lg_journal_tail){ .next_seq = 1, .orderly = true };
	if (mkdir(folder, 0700) < 0 && errno != EEXIST)
		r = -errno;
	if (r == 0)
		r = folder_load(folder, s);
	if (r == 0 && s->n)
		r = tail_load(folder, boot, s, ret_tail);
	if (r < 0)
		lg_complain(c, "cannot read the journal in %s: %s", folder, strerror(-r));
	return r;
}
