// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* main() of the tool: global flags, then a command. */
#include "ctl/ctl.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/version.h"

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

/* --json and --instance may also stand behind the command. Takes them out of argv. */
static int globals_take(struct lg_ctl *ctl, int argc, char **argv, const char **run_dir)
{
	int out = 1;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--json") == 0)
			ctl->json = true;
		else if (strcmp(argv[i], "--instance") == 0 && i + 1 < argc)
			ctl->instance = argv[++i];
		else if (strcmp(argv[i], "--run-dir") == 0 && i + 1 < argc)
			*run_dir = argv[++i];
		else
			argv[out++] = argv[i];
	}
	argv[out] = NULL;
	return out;
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
	const char *run_dir = NULL;
	char path[512];

	lg_log_init("leasegate", LG_LOG_WARN);
	argc = globals_take(&ctl, argc, argv, &run_dir);
	if (!is_instance(ctl.instance))
		return lg_ctl_fail(&ctl, LG_CTL_USAGE,
				   "instance '%s': a name is 1 to %d of a-z, 0-9, '-' and '_', and begins with a letter or digit",
				   ctl.instance, LG_NAME_LEN - 1);
	snprintf(path, sizeof(path), "/run/leasegate/%s", ctl.instance);
	ctl.run_dir = run_dir ? run_dir : path;
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
	return command->run(&ctl, argc - 1, argv + 1);
}
