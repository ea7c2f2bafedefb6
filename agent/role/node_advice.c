// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What `leasegate preflight` would warn of, said by the node in one line for each interface: what rules say there does not quite hold. */
#include "role/node.h"

#include <xxhash.h>

#include "base/log.h"
#include "base/text.h"
#include "kern/judge.h"

static void advice_add(struct lg_text *text, const struct lg_finding *finding)
{
	const struct lg_finding_kind *kind = &lg_finding_kinds[finding->id];
	char action[LG_ACTION_LEN];

	if (!kind->at_start || finding->severity < LG_SEVERITY_WARNING)
		return;
	lg_finding_action(finding, action, sizeof(action));
	lg_text_addf(text, "%s%s: %s (%s)", text->len ? "; " : "", finding->text, kind->why, action);
}

/* The configuration, and for XDP what came of it. */
static struct lg_interface_wants wants_of(const struct lg_node *n, const struct lg_node_interface *i)
{
	struct lg_interface_wants w = lg_interface_wants_of(i->config, i->name, n->rules);

	if (i->mode[LG_HOOK_XDP] == LG_MODE_XDP_GENERIC || i->mode[LG_HOOK_XDP] == LG_MODE_SHARED_GENERIC) {
		w.xdp_native = false;
		w.xdp_generic = true;
	}
	return w;
}

void lg_node_advise(struct lg_node *n, struct lg_node_interface *i)
{
	static const struct lg_machine_facts none; /* nothing that is said here depends on it */
	struct lg_interface_wants w = wants_of(n, i);
	_cleanup_text_ struct lg_text text = { 0 };
	struct lg_findings findings = { 0 };
	struct lg_interface_facts facts;
	uint64_t advice;

	lg_probe_interface(i->name, false, &facts);
	lg_judge_interface(&none, &facts, &w, &findings);
	for (size_t k = 0; k < findings.n; k++)
		advice_add(&text, &findings.v[k]);
	lg_findings_fini(&findings);
	advice = text.len ? XXH3_64bits(text.s, text.len) : 0;
	if (!lg_text_ok(&text) || advice == i->advice)
		return;
	if (text.len)
		lg_warn("%s: %s", i->name, text.s);
	else
		lg_info("%s: what was warned of there is over", i->name);
	i->advice = advice;
}
