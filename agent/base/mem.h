/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * Ownership in one function's view: tag an owner with _cleanup_(), hand it over with TAKE(). */
#pragma once

#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(fn) __attribute__((cleanup(fn##_p)))

/* Declares fn##_p for _cleanup_(fn); stands below the prototype of fn. */
#define LG_CLEANUP(type, fn)                                                                                          \
	static inline void fn##_p(type **p)                                                                           \
	{                                                                                                             \
		if (*p)                                                                                               \
			fn(*p);                                                                                       \
	}

#define TAKE(p)                                                                                                       \
	({                                                                                                            \
		__typeof__(p) _taken = (p);                                                                           \
		(p) = NULL;                                                                                           \
		_taken;                                                                                               \
	})

#define TAKE_FD(fd)                                                                                                   \
	({                                                                                                            \
		int _taken_fd = (fd);                                                                                 \
		(fd) = -1;                                                                                            \
		_taken_fd;                                                                                            \
	})

#define N_ELEMS(a) (sizeof(a) / sizeof((a)[0]))

static inline void lg_mem_free_p(void *p)
{
	free(*(void **)p);
}
#define _cleanup_free_ __attribute__((cleanup(lg_mem_free_p)))

static inline void lg_fd_close_p(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}
#define _cleanup_fd_ __attribute__((cleanup(lg_fd_close_p)))
