// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/version.h"
#include "net/service.h"
#include "role/role.h"

static void usage(FILE *to)
{
	fputs("leasegated: rate limits in the kernel that hold across hosts and regions\n\n"
	      "usage: leasegated ROLE --config FILE [options]\n\nroles:\n",
	      to);
	for (const struct lg_role *role = lg_roles; role->name; role++)
		fprintf(to, "  %-8s %s\n", role->name, role->help);
	fputs("\noptions:\n"
	      "  --config FILE    the daemon's configuration (YAML)\n"
	      "  --rules FILE     the rules (YAML); default: what the configuration names\n"
	      "  --instance NAME  refuse to start unless the configuration is of this instance\n"
	      "  --migrate        node: where maps of an older build are in force, carry over what they hold\n"
	      "  --discard-state  node: where maps do not fit this build, begin with new ones: buckets full, no leases\n"
	      "  --debug          more lines in the log\n"
	      "  --test-clock     node: take time from map test_clock (for tests only)\n"
	      "  --help           this text\n"
	      "  --version        version, ABI of the maps and licence\n\n"
	      "signals: SIGHUP reads the rules again, SIGTERM and SIGINT end the daemon in order; enforcement goes on.\n"
	      "exit codes: 0 good, 1 refused or failed, 2 usage, 3 missing privilege, 4 kernel lacks a feature, 5 no bpffs\n",
	      to);
}

static const struct lg_role *role_find(const char *name)
{
	for (const struct lg_role *role = lg_roles; role->name; role++)
		if (strcmp(role->name, name) == 0)
			return role;
	return NULL;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "config", required_argument, NULL, 'c' },	{ "rules", required_argument, NULL, 'r' },
		{ "instance", required_argument, NULL, 'i' },	{ "debug", no_argument, NULL, 'd' },
		{ "test-clock", no_argument, NULL, 't' },	{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'v' },		{ "migrate", no_argument, NULL, 'm' },
		{ "discard-state", no_argument, NULL, 'D' },	{ 0 },
	};
	enum lg_log_level level = LG_LOG_INFO;
	struct lg_role_args args = { 0 };
	struct lg_complaint c = { 0 };
	const struct lg_role *role;
	int o, code;

	while ((o = getopt_long(argc, argv, "c:r:i:dh", options, NULL)) != -1) {
		switch (o) {
		case 'c': args.config_path = optarg; break;
		case 'r': args.rules_path = optarg; break;
		case 'i': args.instance = optarg; break;
		case 'd': level = LG_LOG_DEBUG; break;
		case 'm': args.migrate = true; break;
		case 'D': args.discard_state = true; break;
		case 't': args.test_clock = true; break;
		case 'h': usage(stdout); return LG_EXIT_OK;
		case 'v': fputs(LG_VERSION_TEXT("leasegated"), stdout); return LG_EXIT_OK;
		default: fputs("try leasegated --help\n", stderr); return LG_EXIT_USAGE;
		}
	}
	lg_log_init("leasegated", level);
	if (optind + 1 != argc) {
		fputs("leasegated: one role is needed: node or region (try leasegated --help)\n", stderr);
		return LG_EXIT_USAGE;
	}
	role = role_find(argv[optind]);
	if (!role) {
		fprintf(stderr, "leasegated: no role is called %s: node or region (try leasegated --help)\n", argv[optind]);
		return LG_EXIT_USAGE;
	}
	if (args.migrate && args.discard_state) {
		fputs("leasegated: --migrate and --discard-state exclude each other (try leasegated --help)\n", stderr);
		return LG_EXIT_USAGE;
	}
	if (!args.config_path) {
		fprintf(stderr, "leasegated: %s needs --config FILE (try leasegated --help)\n", role->name);
		return LG_EXIT_USAGE;
	}
	signal(SIGPIPE, SIG_IGN);
	if (lg_service_begin(&c) < 0)
		lg_warn("%s", c.text);
	code = role->run(&args);
	lg_service_end();
	return code;
}
