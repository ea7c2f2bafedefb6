/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Inside of net/: what the two halves of the HTTP server say to each other over their socket pair, and the child's half. Host byte order,
 * since both are one program. The child says hello once, then asks one question at a time and waits for its answer. The parent believes
 * nothing: a child that breaks the format is killed.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#define LG_HTTP_PATH_MAX 1023		/* bytes of a path */
#define LG_HTTP_TYPE_MAX 127		/* of a content type */
#define LG_HTTP_BODY_MAX (16u << 20)	/* of a body */
#define LG_HTTP_ANSWER_MS 5000		/* a parent that takes longer is hung: the child ends itself */

#define LG_HTTP_CONNECTIONS_MAX 256
#define LG_HTTP_FDS_MAX (LG_HTTP_CONNECTIONS_MAX + 16)	/* and those of the event base, the pair, the listener */

struct lg_http_hello {
	int32_t error;		/* 0, or the negative errno of a step that failed; the child then exits */
	int32_t pid;		/* of the child */
	char step[120];		/* which one */
};
_Static_assert(sizeof(struct lg_http_hello) == 128, "lg_http_hello has no padding");

#define LG_HTTP_REFUSED UINT32_MAX	/* is_head of a last word: the child made the system call `path_len`, which it may not, and ends */

struct lg_http_question {	/* then the path */
	uint32_t is_head;	/* 0 or 1 */
	uint32_t path_len;	/* 1 .. LG_HTTP_PATH_MAX */
};

struct lg_http_answer {		/* then content type and body */
	uint32_t status;
	uint32_t type_len;
	uint32_t body_len;
};

/* The child, from its first instruction after the keeper's fork() on. pair and listener are descriptors of the parent. */
_Noreturn void lg_http_child_run(int pair, int listener, pid_t parent);
