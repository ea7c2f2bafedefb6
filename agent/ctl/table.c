// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ctl/ctl.h"

#include <stddef.h>

const struct lg_ctl_command lg_ctl_commands[] = {
	{ "preflight", "[--config FILE] [--quick] [INTERFACE...]",
	  "whether this machine can run leasegate, and what attaching will do; loads nothing that stays",
	  "  --config FILE  the tables, rules and interfaces of a node's configuration\n"
	  "  --quick        without trying whether the programs load, for which the kernel's verifier takes a second or two\n"
	  "  INTERFACE      others too, as they would be limited at TC; what XDP would meet there is told as notes\n"
	  "Each finding has a name that does not change, and says why it matters and what to do; docs/preflight.md lists them. Without root\n"
	  "it says what it could not look at. Exit code 0 when nothing is in the way, warnings or not; else 3 a privilege is missing, 5 no\n"
	  "bpf file system, 4 the kernel lacks a feature, 1 refused: the first of these that holds.\n",
	  lg_ctl_preflight },
	{ "status", "", "roles, interfaces and how they are attached, rules in force, leases, upstream",
	  "Exit code 1 when neither a daemon runs nor anything is in the kernel.\n", lg_ctl_status },
	{ "keys", "[--rule NAME] [--key KEY] [--source ADDRESS] [--limit N | --top N] [--by denied|spent]",
	  "buckets in the kernel: who has spent what, and what is left",
	  "  --rule NAME       only keys of this rule\n"
	  "  --key KEY         only the key that is printed so: an address, \"source 10.0.0.1, vlan 7\", \"*\"\n"
	  "  --source ADDRESS  only keys whose address is this one (or lies in the key's prefix)\n"
	  "  --limit N         at most N keys, those with most spent first (default 100, 0: all)\n"
	  "  --top N           at most N keys, those that were denied most first (0: all)\n"
	  "  --by WHAT         which come first: those with most denied or with most spent\n",
	  lg_ctl_keys },
	{ "rules", "[apply FILE [--canary N% | --to LABEL=VALUE] [--yes] | set RULE [limit=L] [burst=B] [--for TIME] | "
		   "disable RULE [--for TIME] | shadow RULE [--for TIME] | reset RULE | promote | rollback [VERSION] | history | "
		   "show [VERSION] | status | diff]",
	  "the rules as the kernel has them, with what each has counted; and rules at run time, for all nodes of all regions",
	  "On a machine with a region server, whose nodes have `rules_from: region`; a change at one region is one for all of them:\n"
	  "  apply FILE        a new version; a file that cannot be used changes nothing. --canary 10%: for a tenth of the nodes only, --to\n"
	  "                    LABEL=VALUE: for those with this label; limits of global rules stay as they are then. --yes: whoever is cut\n"
	  "                    off\n"
	  "  promote           what only some nodes have is for all\n"
	  "  set, disable, shadow   of one rule, in spite of the file: --for 30m, then what the file says comes back by itself; without it\n"
	  "                    until the next apply\n"
	  "  reset RULE        takes that back\n"
	  "  rollback          to the version before, or to the one that is named, as a new version\n"
	  "  history, show, status  the last versions; one of them; how many nodes run which, and who refuses it and why\n"
	  "On a machine with a node:\n"
	  "  diff              what the kernel has against what was asked for; exit 1 if that differs\n",
	  lg_ctl_rules },
	{ "regions", "[show | history | add NAME --address HOST:PORT [--hosts N] | drain NAME [--lost] | undrain NAME | remove NAME [--lost]] "
		     "[--dry-run] [--yes]",
	  "the list of regions, and changes of it while all goes on",
	  "On a machine with a region server; a change at one region is one for all of them:\n"
	  "  add NAME          the keys whose home it becomes begin there empty. Its own configuration names it and one other at least\n"
	  "  drain NAME        its keys get other homes; its hosts lease as before. --lost: it is gone for good, and is not waited for\n"
	  "  undrain NAME      it is a home of keys again\n"
	  "  remove NAME       once it drains; what its hosts hold runs out\n"
	  "  history           the versions, who made them and why\n"
	  "  --dry-run         says what would be, and changes nothing\n",
	  lg_ctl_regions },
	{ "leases", "[--history [--key KEY] [--rule NAME] [--since DURATION]]",
	  "the leases the running daemons hold and have given, tier by tier; and what has happened to them",
	  "  --history         what the region server has noted: grants, reports, returns, lapses, refusals, oldest first\n"
	  "  --key KEY         only of this key: an address or prefix, '*' for a rule's one key, 'overflow N'\n"
	  "  --rule NAME       only of this rule\n"
	  "  --since DURATION  only what is not older, such as 10m\n"
	  "TOKENS is what a line is about, OUT what the holder has outstanding after it. In tier region hosts lease from this region, in\n"
	  "tier home regions lease from this home. Records that are missing, too old or dropped, are told of.\n",
	  lg_ctl_leases },
	{ "usage", "[--follow] [--from SEQ] [--rule NAME] [--tier region|home]",
	  "what holders have reported as spent, as a stream of JSON lines",
	  "  --follow     go on, also over a restart of the region server, until interrupted\n"
	  "  --from SEQ   go on right behind the line with this seq, the last one you have (0: from the first one there ever was)\n"
	  "  --rule NAME  only of this rule\n"
	  "  --tier TIER  region: what hosts report to this region (default); home: what regions report to this home. The same tokens pass\n"
	  "               through both: do not add the two up\n"
	  "One line for each report: consumed_tok is what it adds, total_tok the total of that lease (epoch, generation). A line with `gap`\n"
	  "stands for so many records, of any kind, up to its seq that are not there, and says why. The numbers of one region only grow, over\n"
	  "restarts too. Errors go to stderr.\n",
	  lg_ctl_usage_run },
	{ "explain", "RULES.yaml [--config FILE | --regions N --hosts N --rtt TIME]",
	  "what each rule matches and the most it can ever admit, in words; of global ones what their leases serve, cost and strand",
	  "  --config FILE   take regions and hosts from a daemon's configuration\n"
	  "  --regions N     number of regions (default 1)\n"
	  "  --hosts N       number of hosts over all regions (default 1)\n"
	  "  --rtt TIME      largest round trip between two regions (default 150ms)\n"
	  "The forecasts hold for steady traffic. Asked through the request interface, the home of a sync key is asked each time;\n"
	  "packets cannot wait for that and spend short leases.\n",
	  lg_ctl_explain },
	{ "curve", "RULE [--live] [--svg FILE] | [RULE] --data FILE [--svg FILE]",
	  "what a rule's coordination costs against what it leaves out, beside the law",
	  "  --live       as the running region server, home of the rule's keys, measured in the last minute (default)\n"
	  "  --data FILE  as build/bench-lease-scale --curve FILE wrote it\n"
	  "  --svg FILE   draw it into FILE, too\n"
	  "Reports per second at the home times the most tokens out at once is at least arrivals times active regions: halving the one\n"
	  "doubles the other. Messages are counted on the wire; with many keys, active regions are counted for each key.\n",
	  lg_ctl_curve },
	{ "reload", "[--yes] [--confirm-timeout DURATION] | --confirm",
	  "the running daemons read their rules again; a bad file changes nothing",
	  "  --yes                       also if that cuts off somebody who is logged in over SSH\n"
	  "  --confirm-timeout DURATION  the rules before these come back by themselves, unless they are confirmed in time\n"
	  "  --confirm                   keep the rules in force, which wait for it\n"
	  "Looked at are the session of the caller and those established at the port of sshd. They are cut off by the deny list, by a rule\n"
	  "that denies everything, or by one that admits less than 10 packets or 1500 bytes a second. While rules wait to be confirmed\n"
	  "a daemon that starts anew takes those before them.\n",
	  lg_ctl_reload },
	{ "lists", "[list | add PREFIX --allow|--deny [--for DURATION] [--yes] | remove PREFIX | test ADDRESS]",
	  "addresses that pass or are refused before any rule, with or without a daemon",
	  "  list            all of them, those of the rules file too (default)\n"
	  "  add PREFIX      put an address or prefix on a list, in place of what the rules file says of just this prefix\n"
	  "  --for DURATION  such as 10m; then it is off the list by itself\n"
	  "  --yes           also if --deny cuts off somebody who is logged in over SSH\n"
	  "  remove PREFIX   take back what was added\n"
	  "  test ADDRESS    what the lists say of an address, and by which prefix\n"
	  "The longest prefix decides. What is added stays over reloads and restarts, and over a reboot once a node has seen it.\n",
	  lg_ctl_lists },
	{ "bans", "[list [--rule NAME] | add RULE KEY --for DURATION | remove RULE KEY]",
	  "keys that their rule shuts out, with or without a daemon",
	  "  list         all of them, and until when (default)\n"
	  "  add          shut a key out by hand: an address or prefix as the rule has for its keys. The rule must have `ban`\n"
	  "  remove       let a key in again; KEY as it is listed\n"
	  "  --rule NAME  only of this rule\n",
	  lg_ctl_bans },
	{ "bypass", "[on [--for DURATION] | off [--confirm-timeout DURATION]]", "let everything through at once, with or without a daemon",
	  "  on                          until switched off\n"
	  "  --for DURATION              such as 10m; then limits apply again by themselves\n"
	  "  off                         limits apply again\n"
	  "  --confirm-timeout DURATION  such as 60s; then bypass is on again by itself, unless `leasegate bypass off` is said until then\n"
	  "Without an argument it says what is set.\n",
	  lg_ctl_bypass },
	{ "detach", "", "remove every link and pin of the instance, daemon or not; nobody else's is touched",
	  "A running node is told to end first: it would attach again.\n", lg_ctl_detach },
	{ NULL, NULL, NULL, NULL, NULL },
};
