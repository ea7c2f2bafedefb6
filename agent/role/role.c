// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "role/role.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "api/lease_rpc.h"
#include "base/log.h"
#include "loop/loop.h"
#include "role/last_rules.h"
#include "rules/document.h"
#include "rules/explain.h"
#include "rules/yaml.h"

#define FAR_NS (3600 * LG_NS_PER_S)	/* a timer is armed again at least so often */

const struct lg_role lg_roles[] = {
	{ "node", "limit this host's traffic, with leases from its region", lg_node_run },
	{ "region", "lease to this region's hosts, and be the home of a share of the keys", lg_server_run },
	{ 0 },
};

static void log_complaint(const struct lg_complaint *c)
{
	char text[1024];

	lg_complaint_format(c, text, sizeof(text));
	lg_error("%s", text);
}

void lg_role_warn(const struct lg_rules *rules, const struct lg_config *config)
{
	struct lg_explain_env env = { .n_regions = (uint32_t)config->n_regions, .hosts = lg_config_hosts(config) };
	char text[512];

	for (size_t i = 0; lg_rules_warning(rules, &env, i, text, sizeof(text)) == 0; i++)
		lg_warn("%s", text);
}

void lg_role_await_end(struct lg_source *ender, const struct lg_rules_doc *doc)
{
	uint64_t now_ns = lg_clock_now_ns(), end_ns = doc ? lg_rules_doc_end_ns(doc, now_ns) : 0;

	if (end_ns)
		lg_source_arm(ender, end_ns - now_ns < FAR_NS ? end_ns - now_ns : FAR_NS);
}

/* A list that was made at run time counts if it is newer than the one of the file. */
static int regions_kept(enum lg_config_role role, struct lg_config *config, struct lg_complaint *c)
{
	_cleanup_free_ struct lg_config *kept = calloc(1, sizeof(*kept));
	struct lg_rules_text text = { 0 };
	int r;

	if (!config->region[0])
		return 0;
	if (!kept)
		return -ENOMEM;
	r = lg_rules_text_load(config->state_dir, LG_REGIONS_KEPT(role), LG_REGION_LIST_BYTES_MAX, &text, c);
	if (r == -ENOENT) {
		*c = (struct lg_complaint){ 0 };
		return 0;
	}
	if (r == 0)
		r = lg_config_regions_parse(text.text, text.len, LG_REGIONS_KEPT(role), kept, c);
	lg_rules_text_fini(&text);
	if (r == 0 && kept->regions_version == config->regions_version && lg_config_regions_names(kept) != lg_config_regions_names(config))
		return lg_complain(c, "regions: version %" PRIu64 " of the list was put into force at run time with other regions: write them "
				      "(`leasegate regions history` has them), or a higher version", kept->regions_version);
	if (r < 0 || kept->regions_version <= config->regions_version)
		return r;
	lg_info("regions: version %" PRIu64 " of the list, as it was put into force at run time, is newer than version %" PRIu64
		" of the configuration", kept->regions_version, config->regions_version);
	return lg_config_regions_take(config, kept, c);
}

bool lg_role_read(const struct lg_role_args *args, enum lg_config_role role, struct lg_config *ret_config,
		  struct lg_rules **ret_rules)
{
	struct lg_complaint c = { 0 };

	if (lg_config_read(args->config_path, role, ret_config, &c) < 0 || regions_kept(role, ret_config, &c) < 0) {
		log_complaint(&c);
		return false;
	}
	if (args->instance && strcmp(args->instance, ret_config->instance) != 0) {
		lg_error("instance: the configuration says %s, the command line %s: make them agree",
			 ret_config->instance, args->instance);
		return false;
	}
	if (args->rules_path)
		snprintf(ret_config->rules, sizeof(ret_config->rules), "%s", args->rules_path);
	if (!ret_rules)
		return true;
	/* Whether a file counts then only the store knows: lg_role_rules_first(). */
	if (ret_config->rules_from_region)
		return lg_rules_parse(LG_RULES_NONE, strlen(LG_RULES_NONE), "", ret_rules, &c) == 0;
	if (lg_rules_read(ret_config->rules, ret_rules, &c) < 0) {
		log_complaint(&c);
		return false;
	}
	lg_role_warn(*ret_rules, ret_config);
	return true;
}

int lg_role_rules_first(const struct lg_config *config, char why[512], struct lg_rules **ret_rules, struct lg_complaint *c)
{
	struct lg_complaint of_file = { 0 };

	why[0] = '\0';
	if (config->rules[0] && lg_rules_read(config->rules, ret_rules, &of_file) == 0) {
		lg_role_warn(*ret_rules, config);
		return 0;
	}
	if (config->rules[0]) {
		lg_complaint_format(&of_file, why, 512);
		lg_error("%s; it counts until there is a version of the region's rules: without either no rule is in force", why);
	}
	return lg_rules_parse(LG_RULES_NONE, strlen(LG_RULES_NONE), "", ret_rules, c);
}

int lg_role_no_reload(const struct lg_config *config, const struct lg_rules_doc *doc, struct lg_complaint *ret_note)
{
	if (doc)
		lg_complain(ret_note, "no file was read: the rules are version %" PRIu64 " of region %s, and `leasegate rules apply FILE` "
				      "there makes another one", doc->stamp.counter, config->region);
	else
		lg_complain(ret_note, "no file was read: there is no version of the rules of region %s yet, and `leasegate rules apply "
				      "FILE` there makes the first one", config->region);
	return 1;
}

int lg_role_keeper_start(const struct lg_config *config, struct lg_http_keeper **ret_keeper, struct lg_complaint *c)
{
	return strcmp(config->metrics, "off") == 0 ? 0 : lg_http_keeper_start(ret_keeper, c);
}

int lg_role_secret_read(const struct lg_config *config, struct lg_secret *ret_secret, struct lg_complaint *c)
{
	int r = lg_secret_read(config->secret_file, ret_secret, c);

	if (r == 0 && ret_secret->is_open)
		lg_warn("%s: others than its owner can read the secret: chmod 600 it", config->secret_file);
	return r;
}

void lg_role_http_trouble(void *arg, const char *text)
{
	(void)arg;
	lg_error("%s", text);
}

enum lg_exit lg_role_exit(int err)
{
	return err == -EACCES || err == -EPERM ? LG_EXIT_PRIVILEGE : LG_EXIT_REFUSED;
}

static int make_folder(const char *path, mode_t mode)
{
	char part[256];

	if (snprintf(part, sizeof(part), "%s", path) >= (int)sizeof(part))
		return -ENAMETOOLONG;
	for (char *p = part + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = '\0';
		if (mkdir(part, 0755) < 0 && errno != EEXIST)
			return -errno;
		*p = '/';
	}
	return mkdir(part, mode) < 0 && errno != EEXIST ? -errno : 0;
}

int lg_role_lock(const struct lg_config *config, const char *role, int *ret_fd, struct lg_complaint *c)
{
	const char *const folders[] = { config->run_dir, config->state_dir };
	_cleanup_fd_ int fd = -1;
	char path[512];
	int r;

	for (size_t i = 0; i < N_ELEMS(folders); i++) {
		r = make_folder(folders[i], 0700);
		if (r < 0) {
			lg_complain(c, "cannot make folder %s: %s", folders[i], strerror(-r));
			return r;
		}
	}
	snprintf(path, sizeof(path), "%s/%s.lock", config->run_dir, role);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0) {
		r = -errno;
		lg_complain(c, "cannot open %s: %s", path, strerror(-r));
		return r;
	}
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		r = -errno;
		lg_complain(c, "instance %s: a %s is already running (it holds %s); stop it first or choose another instance",
			    config->instance, role, path);
		return r;
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

bool lg_life_read(const char *path, struct lg_life *ret_life)
{
	struct lg_life life = { 0 };
	unsigned had = 0;
	FILE *f;
	int n;

	f = fopen(path, "re");
	if (!f)
		return false;
	n = fscanf(f, "%" SCNu64 " %" SCNu64 " %u", &life.incarnation, &life.made_ns, &had);
	fclose(f);
	life.had_earlier = had;
	if (n == 3)
		*ret_life = life;
	return n == 3;
}

int lg_life_store(const char *path, const struct lg_life *life, struct lg_complaint *c)
{
	_cleanup_fd_ int fd = -1;
	char text[80], temp[512];
	int n, r;

	snprintf(temp, sizeof(temp), "%s.new", path);
	n = snprintf(text, sizeof(text), "%" PRIu64 " %" PRIu64 " %u\n", life->incarnation, life->made_ns, life->had_earlier);
	fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, text, (size_t)n) != n || fsync(fd) < 0 || rename(temp, path) < 0) {
		r = errno ? -errno : -EIO;
		lg_complain(c, "cannot write %s: %s", path, strerror(-r));
		return r;
	}
	return 0;
}
