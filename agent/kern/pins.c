// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Where things are pinned. bpffs holds maps, programs, links and directories, no files, and refuses names with a dot:
 * names of interfaces are escaped, and what has no object to pin (a clsact filter) is recorded as a directory.
 *
 * The instance's directory is locked (flock) while a daemon or `detach` works on it. The kernel drops the lock with the
 * process, so there is nothing stale to clear after a crash.
 */
#include "kern/internal.h"
#include "kern/facts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

static const char *const map_names[_LG_MAP_N] = {
	[LG_MAP_BYPASS] = "bypass",
	[LG_MAP_BUCKETS] = "buckets",
	[LG_MAP_PRODUCTS] = "products",
	[LG_MAP_WIDE_KEYS] = "wide_keys",
	[LG_MAP_INTERFACES] = "interfaces",
	[LG_MAP_LISTS] = "lists",
	[LG_MAP_BANS] = "bans",
	[LG_MAP_STRIKES] = "strikes",
	[LG_MAP_OVERFLOW] = "overflow",
	[LG_MAP_LINES] = "lines",
	[LG_MAP_LINE_KEYS] = "line_keys",
	[LG_MAP_LOGS] = "logs",
	[LG_MAP_RULES] = "rules",
	[LG_MAP_CLASSIFIERS] = "classifiers",
	[LG_MAP_RULE_NAMES] = "rule_names",
	[LG_MAP_VERDICTS] = "verdicts",
	[LG_MAP_LATER_FRAGMENTS] = "later_fragments",
	[LG_MAP_RULE_COUNTS] = "rule_counts",
	[LG_MAP_EVENTS] = "events",
	[LG_MAP_OPS] = "ops",
	[LG_MAP_CHECKS] = "checks",
	[LG_MAP_SHARED] = "shared",
	[LG_MAP_DENIALS] = "denials",
	[LG_MAP_CONNS] = "conns",
	[LG_MAP_INITIATED] = "initiated",
	[LG_MAP_CONN_TERMS] = "conn_terms",
	[LG_MAP_CONN_OPS] = "conn_ops",
	[LG_MAP_TEST_CLOCK] = "test_clock",
	[LG_MAP_CONTROL] = "control",
};

const char *lg_map_name(enum lg_map map)
{
	return map_names[map];
}

static bool instance_is_valid(const char *s)
{
	size_t n = strlen(s);

	if (n == 0 || n >= LG_NAME_LEN || s[0] == '-' || s[0] == '_')
		return false;
	return strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_-") == n;
}

int lg_kern_new(const char *instance, const char *root, struct lg_kern **ret_kern, struct lg_complaint *c)
{
	_cleanup_(lg_kern_free) struct lg_kern *kern = NULL;
	size_t len;

	lg_print_hook();
	if (!root)
		root = LG_KERN_ROOT;
	if (!instance || !instance_is_valid(instance))
		return lg_complain(c,
				   "instance '%s': a name is 1 to %d of a-z, 0-9, '-' and '_', and begins with a letter "
				   "or digit",
				   instance ? instance : "", LG_NAME_LEN - 1);
	len = strlen(root);
	while (len > 1 && root[len - 1] == '/')
		len--;
	if (root[0] != '/' || len < 2 || len >= LG_ROOT_LEN)
		return lg_complain(c, "root of the pins '%s': an absolute path shorter than %d bytes is needed", root,
				   LG_ROOT_LEN);
	kern = calloc(1, sizeof(*kern));
	if (!kern) {
		lg_complain(c, "out of memory");
		return -ENOMEM;
	}
	kern->lock_fd = -1;
	memset(kern->map_fd, -1, sizeof(kern->map_fd));
	memset(kern->prog_fd, -1, sizeof(kern->prog_fd));
	snprintf(kern->instance, sizeof(kern->instance), "%s", instance);
	memcpy(kern->root, root, len);
	snprintf(kern->dir, sizeof(kern->dir), "%s/%s", kern->root, kern->instance);
	lg_versions_begin(kern, 'v');
	*ret_kern = TAKE(kern);
	return 0;
}

/* Cuts the last name off a path; false at the root directory. */
static bool path_up(char *path)
{
	char *slash = strrchr(path, '/');

	if (!slash || (slash == path && !path[1]))
		return false;
	slash[slash == path] = '\0';
	return true;
}

static int check_root(const struct lg_kern *kern, struct lg_complaint *c)
{
	char at[LG_ROOT_LEN], name[24];
	bool read_only;
	int r;

	r = lg_probe_file_system(kern->root, at, sizeof(at), name, sizeof(name), &read_only);
	if (r < 0) {
		lg_complain(c, "%s: %s", at, strerror(-r));
		return r;
	}
	if (strcmp(name, "bpf") == 0)
		return 0;
	lg_complain(c,
		    "no bpf file system at %s, which is on %s: pins made there would be lost with the process; mount one (mount -t bpf bpf "
		    "/sys/fs/bpf), in a container as a volume of the host's",
		    at, name);
	return -ENODEV;
}

int lg_pins_new(const char *instance, const char *root, struct lg_kern **ret_kern, enum lg_kern_fail *ret_fail, struct lg_complaint *c)
{
	_cleanup_(lg_kern_free) struct lg_kern *kern = NULL;
	int r;

	*ret_fail = LG_KERN_REFUSED;
	r = lg_kern_new(instance, root, &kern, c);
	if (r < 0)
		return r;
	r = check_root(kern, c);
	if (r == -ENODEV)
		*ret_fail = LG_KERN_NO_BPFFS;
	if (r == 0)
		*ret_kern = TAKE(kern);
	return r;
}

int lg_pins_mkdir(const char *path)
{
	return mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

/* Makes what is missing of a path, from the top; counts what it made. */
static int make_path(const char *path, uint32_t *ret_made)
{
	char up[LG_KPATH_LEN];
	int r;

	if (mkdir(path, 0700) == 0) {
		++*ret_made;
		return 0;
	}
	if (errno == EEXIST)
		return 0;
	if (errno != ENOENT)
		return -errno;
	snprintf(up, sizeof(up), "%s", path);
	if (!path_up(up))
		return -ENOENT;
	r = make_path(up, ret_made);
	if (r < 0)
		return r;
	if (mkdir(path, 0700) < 0)
		return errno == EEXIST ? 0 : -errno;
	++*ret_made;
	return 0;
}

int lg_pins_lock(struct lg_kern *kern)
{
	_cleanup_fd_ int fd = -1;
	struct stat of_fd, of_path;

	fd = open(kern->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EBUSY : -errno;
	/* Between open and flock the holder before us may have removed the directory: then the lock is of nothing. */
	if (fstat(fd, &of_fd) < 0 || stat(kern->dir, &of_path) < 0)
		return -errno;
	if (of_fd.st_ino != of_path.st_ino || of_fd.st_dev != of_path.st_dev)
		return -EBUSY;
	kern->lock_fd = TAKE_FD(fd);
	return 0;
}

int lg_pins_make(struct lg_kern *kern, enum lg_kern_fail *ret_fail, struct lg_complaint *c)
{
	int r;

	r = make_path(kern->dir, &kern->n_dirs_made);
	if (r == 0)
		r = lg_pins_lock(kern);
	if (r == -EBUSY) {
		*ret_fail = LG_KERN_REFUSED;
		lg_complain(c, "instance '%s' is in use: another process holds %s", kern->instance, kern->dir);
	} else if (r < 0) {
		*ret_fail = lg_why(LG_WHY_PIN, kern->dir, r, NULL, c);
	}
	return r;
}

void lg_pins_unmake(struct lg_kern *kern)
{
	char path[LG_KPATH_LEN];

	if (kern->vdir_made) {
		lg_pins_map_path(kern, "", path, sizeof(path));
		rmdir(path);
	}
	memcpy(path, kern->dir, sizeof(path));
	for (; kern->n_dirs_made; kern->n_dirs_made--) {
		rmdir(path);
		if (!path_up(path))
			break;
	}
}

void lg_pins_map_path(const struct lg_kern *kern, const char *map, char *ret, size_t len)
{
	snprintf(ret, len, "%s/%s/%s%s%s", kern->root, kern->instance, kern->maps_dir, map[0] ? "/" : "", map);
}

void lg_pins_sub_path(const struct lg_kern *kern, const char *sub, char *ret, size_t len)
{
	snprintf(ret, len, "%s/%s/%s", kern->root, kern->instance, sub);
}

static bool plain(char ch)
{
	return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') || strchr("_-@", ch);
}

/* bpffs refuses names with a dot (eth0.100); whatever is not plain becomes %xx. */
static void escape(const char *ifname, char ret[3 * 16])
{
	for (size_t i = 0; i < 15 && ifname[i]; i++)
		ret += plain(ifname[i]) ? (*ret = ifname[i], 1) : sprintf(ret, "%%%02x", (unsigned char)ifname[i]);
	*ret = '\0';
}

void lg_pins_link_path(const struct lg_kern *kern, const char *ifname, enum lg_hook hook, char *ret, size_t len)
{
	char escaped[3 * 16];

	escape(ifname, escaped);
	snprintf(ret, len, "%s/%s/links/%s-%s", kern->root, kern->instance, escaped, lg_hook_name(hook));
}

bool lg_pins_link_parse(const char *name, char *ret_ifname, enum lg_hook *ret_hook)
{
	const char *dash = strrchr(name, '-');
	size_t n = 0;

	if (!dash)
		return false;
	for (const char *s = name; s < dash; n++) {
		unsigned int ch = (unsigned char)*s;

		if (n == 15 || (ch == '%' && sscanf(s + 1, "%2x", &ch) != 1))
			return false;
		s += *s == '%' ? 3 : 1;
		ret_ifname[n] = (char)ch;
	}
	ret_ifname[n] = '\0';
	for (enum lg_hook hook = 0; hook < _LG_HOOK_N; hook++) {
		if (strcmp(dash + 1, lg_hook_name(hook)) == 0) {
			*ret_hook = hook;
			return n > 0;
		}
	}
	return false;
}

/* The names in a directory, each malloc'd. */
static int list_names(const char *dir, char ***ret_names, size_t *ret_n)
{
	struct dirent *e;
	int r = 0;
	DIR *d;

	d = opendir(dir);
	if (!d)
		return errno == ENOENT ? 0 : -errno;
	while (r == 0 && (e = readdir(d))) {
		char **grown;

		if (e->d_name[0] == '.')
			continue;
		grown = reallocarray(*ret_names, *ret_n + 1, sizeof(**ret_names));
		if (grown)
			*ret_names = grown;
		if (!grown || !(grown[*ret_n] = strdup(e->d_name)))
			r = -ENOMEM;
		else
			++*ret_n;
	}
	closedir(d);
	return r;
}

int lg_pins_each(const char *dir, int (*fn)(void *arg, const char *path, const char *name), void *arg)
{
	char path[LG_KPATH_LEN];
	char **names = NULL;
	size_t n = 0;
	int r;

	r = list_names(dir, &names, &n);
	for (size_t i = 0; i < n && r == 0; i++)
		if (snprintf(path, sizeof(path), "%s/%s", dir, names[i]) < (int)sizeof(path))
			r = fn(arg, path, names[i]);
	for (size_t i = 0; i < n; i++)
		free(names[i]);
	free(names);
	return r;
}

uint32_t lg_pins_abi(const char *name)
{
	unsigned int version;
	int end = 0;

	if (!strchr("vmdo", name[0]) || sscanf(name + 1, "%u%n", &version, &end) != 1 || name[end + 1])
		return 0;
	return version;
}
