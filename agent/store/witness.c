// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "store/witness.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What is in the file, whole or not at all: a process that is killed leaves no half of so few bytes. */
struct words {
	uint64_t revision;
	uint64_t is_doubted;
};

/* One that cannot be written says too little, which doubts too little; the store itself does not suffer. */
static void write_words(const struct lg_witness *w)
{
	const struct words words = { w->revision, w->is_doubted };
	ssize_t n = w->fd >= 0 ? pwrite(w->fd, &words, sizeof(words), 0) : 0;

	(void)n;
}

int lg_witness_open(struct lg_witness *w, const char *path, uint64_t revision, struct lg_complaint *c)
{
	struct words words = { 0 };
	ssize_t n;
	int r;

	*w = (struct lg_witness){ 0 };
	w->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	n = w->fd < 0 ? -1 : pread(w->fd, &words, sizeof(words), 0);
	if (n < 0) {
		r = -errno;
		lg_complain(c, "cannot use %s, which tells an older store from the newest: %s", path, strerror(-r));
		lg_witness_close(w);
		return r;
	}
	if (n == sizeof(words)) {
		w->revision = words.revision;
		w->is_doubted = words.is_doubted || words.revision > revision;
	}
	lg_witness_note(w, revision);
	return 0;
}

void lg_witness_close(struct lg_witness *w)
{
	if (w->fd >= 0)
		close(w->fd);
	w->fd = -1;
}

void lg_witness_note(struct lg_witness *w, uint64_t revision)
{
	if (revision > w->revision)
		w->revision = revision;
	write_words(w);
}

void lg_witness_trust(struct lg_witness *w)
{
	w->is_doubted = false;
	write_words(w);
}
