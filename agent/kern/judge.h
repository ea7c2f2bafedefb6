/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * From facts to findings: what is well, what to know, what is in the way, each with why and what to do. Pure. `leasegate preflight` shows
 * all of them, a node at its start those that a packet would notice. */
#pragma once

#include "kern/facts.h"

struct lg_interface;
struct lg_rules;

enum lg_severity { LG_SEVERITY_OK, LG_SEVERITY_NOTE, LG_SEVERITY_WARNING, LG_SEVERITY_BLOCKER };

enum lg_finding_scope { LG_ABOUT_MACHINE, LG_ABOUT_FILES, LG_ABOUT_INTERFACE };

enum lg_finding_id {
#define LG_FEATURE(id, ...) LG_FINDING_FEATURE_##id,
#define LG_FINDING(id, ...) LG_FINDING_##id,
#include "kern/findings.def"
	_LG_FINDING_N
};
/* Features come first, so that their numbers are those of their findings. */
_Static_assert((int)LG_FINDING_KERNEL == (int)_LG_FEATURE_N, "findings.def: a feature below the other findings");

/* What is the same of a finding wherever it is made. In `action` IFACE stands for the interface. */
struct lg_finding_kind {
	const char *name;
	enum lg_finding_scope scope;
	enum lg_severity worst;
	enum lg_kern_fail fail;		/* of a blocker; LG_KERN_OK when there is none */
	bool at_start;			/* a node says it, too, when it is a warning */
	const char *why;
	const char *action;
};
extern const struct lg_finding_kind lg_finding_kinds[_LG_FINDING_N];

#define LG_ACTION_LEN 600 /* has room for what to do, with any interface's name */

struct lg_finding {
	enum lg_finding_id id;
	enum lg_severity severity;
	enum lg_kern_fail fail;		/* LG_KERN_OK unless it is a blocker */
	char object[64];		/* "machine", a file, an interface */
	char text[600];			/* what was found */
};

/* Growing; after a failed allocation `failed` is set and what came later is missing. */
struct lg_findings {
	struct lg_finding *v;
	size_t n, size;
	bool failed;
};
void lg_findings_fini(struct lg_findings *f);

/* Adds one; severity is at most the kind's worst. A blocker has the kind's fail. */
__attribute__((format(printf, 5, 6))) struct lg_finding *lg_finding_add(struct lg_findings *f, enum lg_finding_id id,
									enum lg_severity severity, const char *object,
									const char *fmt, ...);

const char *lg_severity_name(enum lg_severity severity);
/* What to do, with the interface's name in its place. */
void lg_finding_action(const struct lg_finding *finding, char *buf, size_t len);
/* The code to exit with: what must be put right first, privilege, bpf file system, feature, then what was refused. */
enum lg_kern_fail lg_findings_fail(const struct lg_findings *f);

/* What a map takes of the kernel's memory when it is full. */
uint64_t lg_map_bytes(const struct lg_map_facts *map, uint32_t n_cpus);
/* Of all maps: as a start makes them, or full. */
uint64_t lg_maps_bytes(const struct lg_machine_facts *m, bool full);

/* What a configuration wants of an interface, under these rules (NULL: none). */
struct lg_interface_wants lg_interface_wants_of(const struct lg_interface *config, const char *ifname, const struct lg_rules *rules);

void lg_judge_machine(const struct lg_machine_facts *m, struct lg_findings *f);
void lg_judge_instance(const struct lg_instance_facts *i, struct lg_findings *f);
/* `m` may be of zeros where nothing is known. */
void lg_judge_interface(const struct lg_machine_facts *m, const struct lg_interface_facts *i, const struct lg_interface_wants *w,
			struct lg_findings *f);
/* An interface whose packets pass another one, of which that is wanted. */
void lg_judge_above(const char *upper, const struct lg_interface_wants *w, const char *lower, const struct lg_interface_wants *lower_w,
		    struct lg_findings *f);
