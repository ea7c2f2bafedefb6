// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The daemon's end of the operator's socket. A lock on a file beside the socket says who may use the path, so that two daemons that start
 * at once cannot both find a dead socket and replace each other's. Whoever holds the lock may remove whatever socket he finds.
 */
#include "api/admin.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/clock.h"
#include "loop/loop.h"

#define CLIENTS_MAX 64
#define BACKLOG 64
#define SILENCE_S 30	/* a client that neither asks nor reads */

struct client {
	LIST_ENTRY(client) link;
	struct lg_admin *admin;
	struct bufferevent *bev;
	bool closing;	/* once what is written has left */
};

struct lg_admin {
	struct event_base *base;
	json_t *(*fn)(void *arg, const json_t *request);
	void *arg;
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	int lock_fd;
	bool bound;		/* the socket file is ours to remove */
	struct evconnlistener *listener;
	struct lg_source *resume;	/* accepts again after being out of descriptors */
	LIST_HEAD(, client) clients;
	unsigned int n_clients;
};

/* ---- clients ---- */

static void client_free(struct client *client)
{
	LIST_REMOVE(client, link);
	client->admin->n_clients--;
	bufferevent_free(client->bev);
	free(client);
}

static int reply(struct client *client, const json_t *object)
{
	struct evbuffer *out = bufferevent_get_output(client->bev);
	char *line;
	int r = 0;

	line = json_dumps(object, JSON_COMPACT);
	if (!line)
		return -ENOMEM;
	if (evbuffer_add(out, line, strlen(line)) < 0 || evbuffer_add(out, "\n", 1) < 0)
		r = -ENOMEM;
	free(line);
	return r;
}

static int reply_error(struct client *client, const char *text)
{
	json_t *object = json_pack("{s:s}", "error", text);
	int r = object ? reply(client, object) : -ENOMEM;

	json_decref(object);
	return r;
}

static int answer(struct client *client, const char *line, size_t len)
{
	json_error_t error;
	json_t *request, *object;
	int r;

	request = json_loadb(line, len, JSON_REJECT_DUPLICATES, &error);
	if (!request)
		return reply_error(client, error.text);
	if (!json_is_object(request)) {
		json_decref(request);
		return reply_error(client, "a request is an object");
	}
	object = client->admin->fn(client->admin->arg, request);
	json_decref(request);
	r = object ? reply(client, object) : -ENOMEM;
	json_decref(object);
	return r;
}

/* One request at a time: the next one waits in the socket until this answer has been read. */
static int take_line(struct client *client)
{
	struct evbuffer *in = bufferevent_get_input(client->bev);
	size_t len;
	char *line;
	int r;

	line = evbuffer_readln(in, &len, EVBUFFER_EOL_LF);
	if (!line) {
		if (evbuffer_get_length(in) < LG_ADMIN_LINE_MAX)
			return 0;
		client->closing = true;
		evbuffer_drain(in, evbuffer_get_length(in));
		return reply_error(client, "the request is longer than 4 MiB");
	}
	r = answer(client, line, len);
	free(line);
	return r < 0 ? r : 1;
}

static void on_progress(struct bufferevent *bev, void *arg)
{
	struct client *client = arg;
	int r = 1;

	while (r > 0 && !client->closing && !evbuffer_get_length(bufferevent_get_output(bev)))
		r = take_line(client);
	if (r < 0 || (client->closing && !evbuffer_get_length(bufferevent_get_output(bev))))
		client_free(client);
}

/* Closed, broken or silent. A client may close its half right after asking and still wants the answer. */
static void on_event(struct bufferevent *bev, short what, void *arg)
{
	struct client *client = arg;

	client->closing = true;
	if (!(what & BEV_EVENT_EOF) || !evbuffer_get_length(bufferevent_get_output(bev)))
		client_free(client);
}

/* ---- the socket ---- */

static bool may_ask(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && (peer.uid == 0 || peer.uid == geteuid());
}

/* Takes fd, whatever comes of it. */
static void admit(struct lg_admin *admin, int fd)
{
	const struct timeval silence = { .tv_sec = SILENCE_S };
	struct client *client;

	client = calloc(1, sizeof(*client));
	if (client)
		client->bev = bufferevent_socket_new(admin->base, fd, BEV_OPT_CLOSE_ON_FREE);
	if (!client || !client->bev) {
		free(client);
		close(fd);
		return;
	}
	client->admin = admin;
	LIST_INSERT_HEAD(&admin->clients, client, link);
	admin->n_clients++;
	bufferevent_setcb(client->bev, on_progress, on_progress, on_event, client);
	bufferevent_setwatermark(client->bev, EV_READ, 0, LG_ADMIN_LINE_MAX);
	bufferevent_set_timeouts(client->bev, &silence, &silence);
	if (bufferevent_enable(client->bev, EV_READ | EV_WRITE) < 0)
		client_free(client);
}

static void refuse(int fd, const char *line)
{
	send(fd, line, strlen(line), MSG_NOSIGNAL | MSG_DONTWAIT);
	close(fd);
}

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *sa, int len, void *arg)
{
	struct lg_admin *admin = arg;

	(void)listener;
	(void)sa;
	(void)len;
	if (!may_ask(fd))
		refuse(fd, "{\"error\":\"only root and the daemon's user may ask\"}\n");
	else if (admin->n_clients >= CLIENTS_MAX)
		refuse(fd, "{\"error\":\"too many clients at once\"}\n");
	else
		admit(admin, fd);
}

static void on_accept_error(struct evconnlistener *listener, void *arg)
{
	struct lg_admin *admin = arg;

	evconnlistener_disable(listener);
	lg_source_arm(admin->resume, LG_NS_PER_S);
}

static void on_resume(void *arg)
{
	struct lg_admin *admin = arg;

	evconnlistener_enable(admin->listener);
}

static int lock_path(struct lg_admin *admin, struct lg_complaint *c)
{
	char path[sizeof(admin->path) + 8];

	snprintf(path, sizeof(path), "%s.lock", admin->path);
	admin->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (admin->lock_fd < 0) {
		int error = errno;

		lg_complain(c, "cannot open %s: %s", path, strerror(error));
		return -error;
	}
	if (flock(admin->lock_fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	lg_complain(c, "already running: another daemon answers on %s", admin->path);
	return -EADDRINUSE;
}

/* With the lock held a socket of this name belongs to nobody, or to a daemon that does not lock and answers. */
static int remove_stale(struct lg_admin *admin, const struct sockaddr_un *sa, struct lg_complaint *c)
{
	_cleanup_fd_ int fd = -1;
	struct stat st;

	if (lstat(admin->path, &st) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode)) {
		lg_complain(c, "%s is in the way and is no socket: remove it", admin->path);
		return -EEXIST;
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)sa, sizeof(*sa)) == 0 || errno == EAGAIN) {
		lg_complain(c, "already running: another daemon answers on %s", admin->path);
		return -EADDRINUSE;
	}
	if (errno != ECONNREFUSED)
		return -errno;
	return unlink(admin->path) < 0 && errno != ENOENT ? -errno : 0;
}

static int bind_path(struct lg_admin *admin, const struct sockaddr_un *sa, int *ret_fd)
{
	_cleanup_fd_ int fd = -1;
	mode_t before;
	int r;

	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	/* Mode 0600 from the first moment on; a chmod() afterwards would leave a gap. */
	before = umask(0177);
	r = bind(fd, (const struct sockaddr *)sa, sizeof(*sa)) < 0 ? -errno : 0;
	umask(before);
	if (r < 0)
		return r;
	admin->bound = true;
	if (listen(fd, BACKLOG) < 0)
		return -errno;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int open_socket(struct lg_admin *admin, int *ret_fd, struct lg_complaint *c)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int r;

	c->text[0] = '\0';
	memcpy(sa.sun_path, admin->path, sizeof(sa.sun_path));
	r = lock_path(admin, c);
	if (r == 0)
		r = remove_stale(admin, &sa, c);
	if (r == 0)
		r = bind_path(admin, &sa, ret_fd);
	if (r < 0 && !c->text[0])
		lg_complain(c, "cannot listen on %s: %s", admin->path, strerror(-r));
	return r;
}

int lg_admin_start(struct lg_loop *loop, const char *path, json_t *(*fn)(void *arg, const json_t *request), void *arg,
		   struct lg_admin **ret_admin, struct lg_complaint *c)
{
	_cleanup_(lg_admin_free) struct lg_admin *admin = NULL;
	_cleanup_fd_ int fd = -1;
	int r;

	admin = calloc(1, sizeof(*admin));
	if (!admin)
		return -ENOMEM;
	admin->base = lg_loop_base(loop);
	admin->fn = fn;
	admin->arg = arg;
	admin->lock_fd = -1;
	LIST_INIT(&admin->clients);
	if (strlen(path) >= sizeof(admin->path)) {
		lg_complain(c, "%s is longer than %zu characters, too long for a socket", path, sizeof(admin->path) - 1);
		return -ENAMETOOLONG;
	}
	snprintf(admin->path, sizeof(admin->path), "%s", path);
	r = lg_loop_add_timer(loop, on_resume, admin, &admin->resume);
	if (r < 0)
		return r;
	r = open_socket(admin, &fd, c);
	if (r < 0)
		return r;
	admin->listener = evconnlistener_new(admin->base, on_accept, admin, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0, fd);
	if (!admin->listener)
		return -ENOMEM;
	fd = -1;
	evconnlistener_set_error_cb(admin->listener, on_accept_error);
	/* It was enabled already, but whether that worked is said only here. */
	if (evconnlistener_enable(admin->listener) < 0)
		return -ENOMEM;
	*ret_admin = TAKE(admin);
	return 0;
}

struct lg_admin *lg_admin_free(struct lg_admin *admin)
{
	if (!admin)
		return NULL;
	while (!LIST_EMPTY(&admin->clients))
		client_free(LIST_FIRST(&admin->clients));
	if (admin->listener)
		evconnlistener_free(admin->listener);
	lg_source_free(admin->resume);
	if (admin->bound)
		unlink(admin->path);
	/* The lock file stays: removing it would let two daemons lock two files of one name. */
	if (admin->lock_fd >= 0)
		close(admin->lock_fd);
	free(admin);
	return NULL;
}
