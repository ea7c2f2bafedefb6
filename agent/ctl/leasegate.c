// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* main() of the tool: global flags, then a command. */
#include "ctl/ctl.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "api/remote.h"
#include "base/log.h"
#include "base/version.h"
#include "net/tls.h"

static void usage(FILE *to)
{
	fputs("leasegate: look at and steer the rate limits of this machine\n\n"
	      "usage: leasegate [--instance NAME] [--json] COMMAND\n\ncommands:\n",
	      to);
	for (const struct lg_ctl_command *c = lg_ctl_commands; c->name; c++)
		fprintf(to, "  %-9s %s\n", c->name, c->help);
	fputs("\noptions:\n"
	      "  --instance NAME  which instance on this machine (default: default)\n"
	      "  --run-dir PATH   where its sockets are (default: /run/leasegate/NAME)\n"
	      "  --json           print JSON\n"
	      "  --server ADDRESS --region NAME --tls PREFIX\n"
	      "                   ask the server of that region there, over mutual TLS, as whom PREFIX.pem and PREFIX.key say;\n"
	      "                   the authority is ca.pem beside them\n"
	      "  --help           this text; after a command: its own\n"
	      "  --version        version, ABI of the maps and licence\n\n"
	      "exit codes: 0 good, 1 refused or failed, 2 usage, 3 missing privilege, 4 kernel lacks a feature, 5 no bpffs\n",
	      to);
}

static const struct lg_ctl_command *command_find(const char *name)
{
	for (const struct lg_ctl_command *c = lg_ctl_commands; c->name; c++)
		if (strcmp(c->name, name) == 0)
			return c;
	return NULL;
}

static int command_help(const struct lg_ctl_command *c)
{
	printf("usage: leasegate [--instance NAME] [--json] %s%s%s\n\n%s\n", c->name, c->arguments[0] ? " " : "", c->arguments,
	       c->help);
	if (c->details)
		printf("\n%s", c->details);
	return LG_CTL_OK;
}

static int version(const struct lg_ctl *ctl)
{
	if (ctl->json)
		return lg_ctl_print(json_pack("{s:s, s:s, s:i, s:s}", "program", "leasegate", "version", LG_VERSION, "abi", LG_ABI_VERSION,
					      "licence", LG_LICENCE));
	fputs(LG_VERSION_TEXT("leasegate"), stdout);
	return LG_CTL_OK;
}

/* What stands before the command, or behind it. */
struct globals {
	const char *run_dir, *server, *region, *tls;
};

/* Takes them out of argv. */
static int globals_take(struct lg_ctl *ctl, int argc, char **argv, struct globals *g)
{
	const struct {
		const char *name;
		const char **value;
	} options[] = { { "--instance", &ctl->instance }, { "--run-dir", &g->run_dir }, { "--server", &g->server }, { "--region", &g->region },
			{ "--tls", &g->tls } };
	int out = 1;

	for (int i = 1; i < argc; i++) {
		bool is_taken = strcmp(argv[i], "--json") == 0;

		ctl->json |= is_taken;
		for (size_t k = 0; !is_taken && k < N_ELEMS(options) && i + 1 < argc; k++) {
			is_taken = strcmp(argv[i], options[k].name) == 0;
			if (is_taken)
				*options[k].value = argv[++i];
		}
		if (!is_taken)
			argv[out++] = argv[i];
	}
	argv[out] = NULL;
	return out;
}

/* PREFIX.pem and PREFIX.key, and ca.pem in their folder. 0, or an exit code. */
static int remote_open(struct lg_ctl *ctl, const struct globals *g)
{
	struct lg_complaint c = { 0 };
	struct lg_tls_files files;
	const char *slash;
	char text[1024];

	if (!g->server && !g->region && !g->tls)
		return 0;
	if (!g->server || !g->region || !g->tls)
		return lg_ctl_fail(ctl, LG_CTL_USAGE, "--server ADDRESS, --region NAME and --tls PREFIX belong together: who is asked, whose "
						      "server that must be, and who asks");
	if (strlen(g->tls) + sizeof(".pem") > sizeof(files.ca))
		return lg_ctl_fail(ctl, LG_CTL_USAGE, "--tls %s: this path is too long", g->tls);
	slash = strrchr(g->tls, '/');
	snprintf(files.ca, sizeof(files.ca), "%.*sca.pem", slash ? (int)(slash + 1 - g->tls) : 0, g->tls);
	snprintf(files.certificate, sizeof(files.certificate), "%s.pem", g->tls);
	snprintf(files.key, sizeof(files.key), "%s.key", g->tls);
	ctl->server = g->server;
	if (lg_remote_new(g->server, g->region, &files, &ctl->remote, &c) == 0)
		return 0;
	lg_complaint_format(&c, text, sizeof(text));
	return lg_ctl_fail(ctl, LG_CTL_REFUSED, "%s", text);
}

static bool is_instance(const char *name)
{
	size_t len = strlen(name);

	return len > 0 && len < LG_NAME_LEN && name[0] != '-' && name[0] != '_' &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") == len;
}

int main(int argc, char **argv)
{
	struct lg_ctl ctl = { .instance = "default" };
	const struct lg_ctl_command *command;
	struct globals g = { NULL };
	char path[512];
	int code;

	lg_log_init("leasegate", LG_LOG_WARN);
	argc = globals_take(&ctl, argc, argv, &g);
	if (!is_instance(ctl.instance))
		return lg_ctl_fail(&ctl, LG_CTL_USAGE,
				   "instance '%s': a name is 1 to %d of a-z, 0-9, '-' and '_', and begins with a letter or digit",
				   ctl.instance, LG_NAME_LEN - 1);
	snprintf(path, sizeof(path), "/run/leasegate/%s", ctl.instance);
	ctl.run_dir = g.run_dir ? g.run_dir : path;
	if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
		usage(stdout);
		return LG_CTL_OK;
	}
	if (argc >= 2 && strcmp(argv[1], "--version") == 0)
		return version(&ctl);
	if (argc < 2)
		return lg_ctl_fail(&ctl, LG_CTL_USAGE, "a command is needed (try leasegate --help)");
	command = command_find(argv[1]);
	if (!command)
		return lg_ctl_fail(&ctl, LG_CTL_USAGE, "%s is no command (try leasegate --help)", argv[1]);
	for (int i = 2; i < argc; i++)
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			return command_help(command);
	code = remote_open(&ctl, &g);
	if (code == LG_CTL_OK)
		code = command->run(&ctl, argc - 1, argv + 1);
	lg_remote_free(ctl.remote);
	return code;
}
