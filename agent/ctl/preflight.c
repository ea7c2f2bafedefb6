// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Whether this machine can run leasegate, and what attaching will do, before anything is loaded. */
#include "ctl/preflight.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "rules/config.h"
#include "rules/yaml.h"

/* Of the command line. */
struct asked {
	const char *config_path;
	const char *names[LG_INTERFACES_MAX];
	size_t n_names;
	bool quick;
};

static int arguments(const struct lg_ctl *ctl, int argc, char **argv, struct asked *asked)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--config") == 0) {
			if (++i == argc)
				return lg_ctl_fail(ctl, LG_CTL_USAGE, "preflight --config: name the file");
			asked->config_path = argv[i];
		} else if (strcmp(argv[i], "--quick") == 0) {
			asked->quick = true;
		} else if (argv[i][0] == '-') {
			return lg_ctl_usage(ctl, "preflight", argv[i]);
		} else if (asked->n_names == LG_INTERFACES_MAX) {
			return lg_ctl_fail(ctl, LG_CTL_USAGE, "preflight: at most %d interfaces", LG_INTERFACES_MAX);
		} else {
			asked->names[asked->n_names++] = argv[i];
		}
	}
	return LG_CTL_OK;
}

/* ---- files ---- */

static void complaint_add(struct lg_findings *f, enum lg_finding_id id, const char *path, const struct lg_complaint *c)
{
	char text[1024];

	lg_complaint_format(c, text, sizeof(text));
	lg_finding_add(f, id, LG_SEVERITY_BLOCKER, path, "%s", text);
}

/* Whether a folder is there, or can be made: by its nearest folder that exists. */
static void folder_look(struct lg_findings *f, const char *what, const char *path)
{
	char at[256], name[24];
	bool read_only;
	int r;

	r = lg_probe_file_system(path, at, sizeof(at), name, sizeof(name), &read_only);
	if (r == 0 && access(at, W_OK | X_OK) < 0)
		r = -errno;
	if (r < 0)
		lg_finding_add(f, LG_FINDING_FOLDER, LG_SEVERITY_BLOCKER, path, "%s cannot be used: %s: %s", what, at, strerror(-r));
	else
		lg_finding_add(f, LG_FINDING_FOLDER, LG_SEVERITY_OK, path, "%s %s", what,
			       strcmp(at, path) == 0 ? "can be written" : "can be made");
}

/* To be called without what is given up after the start: root then is a user like others. */
static bool is_usable(const char *path, int mode, bool as_now)
{
	static const cap_value_t given_up[] = { CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH };
	cap_t had = cap_get_proc(), less = had ? cap_dup(had) : NULL;
	bool usable = false;
	int err = ENOMEM;

	if (less && (as_now || (cap_set_flag(less, CAP_EFFECTIVE, N_ELEMS(given_up), given_up, CAP_CLEAR) == 0 && cap_set_proc(less) == 0))) {
		usable = faccessat(AT_FDCWD, path, mode, AT_EACCESS) == 0;
		err = errno;
		cap_set_proc(had);
	}
	cap_free(less);
	cap_free(had);
	errno = err;
	return usable;
}

/* What is not there yet a node makes itself, or says so when it reads it. */
static void readable_look(struct lg_findings *f, const char *path, int mode, bool is_needed)
{
	if (!path[0])
		return;
	if (!is_usable(path, mode, true)) {
		if (is_needed)
			lg_finding_add(f, LG_FINDING_READABLE, LG_SEVERITY_BLOCKER, path, "cannot be read: %s", strerror(errno));
		return;
	}
	if (is_usable(path, mode, false))
		lg_finding_add(f, LG_FINDING_READABLE, LG_SEVERITY_OK, path, "can be %s once privileges are given up",
			       mode & W_OK ? "written" : "read");
	else
		lg_finding_add(f, LG_FINDING_READABLE, LG_SEVERITY_WARNING, path, "cannot be %s once privileges are given up: %s",
			       mode & W_OK ? "written" : "read", strerror(errno));
}

/* The configuration with its defaults where no file was named. NULL with a finding when there is none to go by. */
static struct lg_config *config_read(const struct lg_ctl *ctl, const struct asked *asked, struct lg_findings *f)
{
	_cleanup_free_ struct lg_config *config = calloc(1, sizeof(*config));
	const char *name = asked->config_path ? asked->config_path : "";
	struct lg_complaint c = { 0 };
	char text[256];
	int r;

	if (!config) {
		lg_finding_add(f, LG_FINDING_CONFIGURATION, LG_SEVERITY_BLOCKER, name, "out of memory");
		return NULL;
	}
	if (asked->config_path) {
		r = lg_config_read(name, LG_CONFIG_NODE, config, &c);
	} else {
		snprintf(text, sizeof(text), "instance: %s\nname: preflight\nrules: none.yaml\ninterfaces: []\n", ctl->instance);
		r = lg_config_parse(text, strlen(text), name, LG_CONFIG_NODE, config, &c);
	}
	if (r < 0) {
		complaint_add(f, LG_FINDING_CONFIGURATION, name, &c);
		return NULL;
	}
	return TAKE(config);
}

static struct lg_rules *files_look(const struct lg_config *config, const char *path, struct lg_findings *f)
{
	struct lg_complaint c = { 0 };
	struct lg_rules *rules = NULL;

	lg_finding_add(f, LG_FINDING_CONFIGURATION, LG_SEVERITY_OK, path, "instance %s, %zu interface%s", config->instance,
		       config->n_interfaces, config->n_interfaces == 1 ? "" : "s");
	if (config->rules_from_region && !config->rules[0])
		lg_finding_add(f, LG_FINDING_RULES, LG_SEVERITY_OK, path, "they come from region %s", config->region);
	else if (lg_rules_read(config->rules, &rules, &c) < 0)
		complaint_add(f, LG_FINDING_RULES, config->rules, &c);
	else
		lg_finding_add(f, LG_FINDING_RULES, LG_SEVERITY_OK, config->rules, "%zu rule%s", rules->n, rules->n == 1 ? "" : "s");
	folder_look(f, "run_dir", config->run_dir);
	folder_look(f, "state_dir", config->state_dir);
	readable_look(f, config->rules, R_OK, false);
	readable_look(f, config->tls.ca, R_OK, true);
	readable_look(f, config->tls.certificate, R_OK, true);
	readable_look(f, config->tls.key, R_OK, true);
	readable_look(f, config->run_dir, R_OK | W_OK | X_OK, false);
	readable_look(f, config->state_dir, R_OK | W_OK | X_OK, false);
	return rules;
}

/* ---- interfaces ---- */

static bool is_known(const struct lg_preflight *p, const char *name)
{
	for (size_t i = 0; i < p->n_interfaces; i++)
		if (strcmp(p->interfaces[i].name, name) == 0)
			return true;
	return false;
}

/* A name that is known already, or one too many, is left out. */
static void interface_look(struct lg_preflight *p, const char *instance, const char *name, const struct lg_interface_wants *wants)
{
	struct lg_interface_facts *facts = &p->interfaces[p->n_interfaces];

	if (p->n_interfaces == LG_ATTACH_MAX || is_known(p, name))
		return;
	lg_probe_interface(name, true, facts);
	if (facts->ifindex && p->machine.bpf_error != LG_BPF_KILLED)
		lg_probe_programs(instance, facts);
	p->wants[p->n_interfaces++] = *wants;
	lg_judge_interface(&p->machine, facts, wants, &p->findings);
}

static void configured_look(struct lg_preflight *p, const struct lg_config *config, const char *name, const struct lg_interface *entry,
			    const struct lg_rules *rules)
{
	struct lg_interface_wants wants = lg_interface_wants_of(entry, name, rules);

	interface_look(p, config->instance, name, &wants);
}

/* Interfaces that are there and fit a pattern. */
static void patterns_look(struct lg_preflight *p, const struct lg_config *config, const struct lg_rules *rules)
{
	struct if_nameindex *list = if_nameindex();

	for (size_t i = 0; list && list[i].if_index; i++) {
		const struct lg_interface *entry = lg_config_interface(config, list[i].if_name);

		if (entry)
			configured_look(p, config, list[i].if_name, entry, rules);
	}
	if (list)
		if_freenameindex(list);
}

struct upper {
	struct lg_preflight *p;
	const char *name;
	const struct lg_interface_wants *wants;
};

static bool below(void *arg, const char *ifname)
{
	const struct upper *u = arg;

	for (size_t i = 0; i < u->p->n_interfaces; i++)
		if (u->p->wants[i].is_configured && strcmp(u->p->interfaces[i].name, ifname) == 0)
			lg_judge_above(u->name, u->wants, ifname, &u->p->wants[i], &u->p->findings);
	return false;
}

static void ignore(void *arg, const char *ifname, uint32_t ifindex, bool up)
{
	(void)arg;
	(void)ifname;
	(void)ifindex;
	(void)up;
}

/* Which of them get their packets through which. */
static void stack_look(struct lg_preflight *p)
{
	_cleanup_(lg_links_free) struct lg_links *links = NULL;

	if (lg_links_new(ignore, NULL, &links) < 0 || lg_links_read(links) < 0)
		return;
	for (size_t i = 0; i < p->n_interfaces; i++) {
		struct upper u = { p, p->interfaces[i].name, &p->wants[i] };

		if (p->wants[i].is_configured)
			lg_links_below(links, p->interfaces[i].ifindex, below, &u);
	}
}

/* Those of the configuration, then those of the command line that are not among them, as if they were limited at TC. */
static void interfaces_look(struct lg_preflight *p, const struct lg_config *config, const struct lg_rules *rules, const struct asked *asked)
{
	static const struct lg_interface_wants only_asked = { .tc = true };

	for (size_t i = 0; i < config->n_interfaces; i++)
		if (!config->interfaces[i].is_pattern)
			configured_look(p, config, config->interfaces[i].name, &config->interfaces[i], rules);
	patterns_look(p, config, rules);
	for (size_t i = 0; i < asked->n_names; i++)
		interface_look(p, config->instance, asked->names[i], &only_asked);
	stack_look(p);
}

static int look(const struct lg_ctl *ctl, const struct asked *asked, struct lg_preflight *p)
{
	_cleanup_(lg_rules_free) struct lg_rules *rules = NULL;
	_cleanup_free_ struct lg_config *config = NULL;
	struct lg_kern_options o = { .instance = ctl->instance, .line_keys = LG_LINE_KEYS_ANY };

	p->interfaces = calloc(LG_ATTACH_MAX, sizeof(*p->interfaces));
	p->wants = calloc(LG_ATTACH_MAX, sizeof(*p->wants));
	if (!p->interfaces || !p->wants)
		return -ENOMEM;
	config = config_read(ctl, asked, &p->findings);
	if (config)
		o = lg_kern_options_of(config);
	lg_probe_machine(&o, !asked->quick, &p->machine);
	p->machine.serves_http = config && strcmp(config->metrics, "off") != 0;
	lg_judge_machine(&p->machine, &p->findings);
	/* What ends whoever asks is not asked. */
	if (p->machine.bpf_error != LG_BPF_KILLED)
		lg_probe_instance(o.instance, &p->instance);
	lg_judge_instance(&p->instance, &p->findings);
	if (config && asked->config_path)
		rules = files_look(config, asked->config_path, &p->findings);
	if (config)
		interfaces_look(p, config, rules, asked);
	return p->findings.failed ? -ENOMEM : 0;
}

int lg_ctl_preflight(const struct lg_ctl *ctl, int argc, char **argv)
{
	_cleanup_free_ struct lg_preflight *p = calloc(1, sizeof(*p));
	struct asked asked = { 0 };
	int code;

	code = arguments(ctl, argc, argv, &asked);
	if (code)
		return code;
	if (!p || look(ctl, &asked, p) < 0)
		code = lg_ctl_fail(ctl, LG_CTL_REFUSED, "preflight: out of memory");
	else
		code = lg_preflight_show(ctl, p);
	if (p) {
		lg_findings_fini(&p->findings);
		free(p->interfaces);
		free(p->wants);
	}
	return code;
}
