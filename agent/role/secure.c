// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "role/secure.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "net/address.h"

#define LOOK_PERIOD_NS (5 * LG_NS_PER_S)
#define EXPIRY_WARN_S (7 * 24 * 3600u)

static void tell_expiry(const struct lg_tls *tls)
{
	uint64_t now_s = lg_clock_unix_ns() / LG_NS_PER_S, end_s = lg_tls_not_after_s(tls);

	if (end_s < now_s + EXPIRY_WARN_S)
		lg_warn("tls: the certificate ends in %llu hours", (unsigned long long)(end_s > now_s ? (end_s - now_s) / 3600 : 0));
}

void lg_secure_look(struct lg_secure *secure)
{
	struct lg_complaint c = { 0 };
	char text[1024];
	int r;

	if (!secure->tls)
		return;
	r = lg_tls_reload(secure->tls, &c);
	if (r < 0) {
		lg_complaint_format(&c, text, sizeof(text));
		lg_error("tls: %s; what was read before stays in force", text);
	} else if (r) {
		lg_info("tls: new files are in force for new connections");
		tell_expiry(secure->tls);
	}
}

static void on_look(void *arg)
{
	lg_secure_look(arg);
}

/* Addresses of this machine alone, where nobody else listens in. */
static bool is_loopback(const char *address)
{
	struct lg_complaint c;
	struct lg_address a;

	return lg_address_parse(address, false, &a, &c) == 0 &&
	       (strncmp(a.host, "127.", 4) == 0 || strcmp(a.host, "::1") == 0 || strcmp(a.host, "localhost") == 0);
}

int lg_secure_start(struct lg_secure *secure, const struct lg_config *config, const char *node, struct lg_loop *loop,
		    struct lg_complaint *c)
{
	const char *address = node[0] ? config->upstream : config->listen;
	struct lg_tls_name self = { 0 };
	struct lg_tls_files files;
	int r;

	if (!config->tls.ca[0]) {
		if (address[0] && !is_loopback(address))
			lg_warn("tls: there is none: leases go to and from %s in clear text, and whoever reaches it may take tokens", address);
		return 0;
	}
	snprintf(files.ca, sizeof(files.ca), "%s", config->tls.ca);
	snprintf(files.certificate, sizeof(files.certificate), "%s", config->tls.certificate);
	snprintf(files.key, sizeof(files.key), "%s", config->tls.key);
	snprintf(self.region, sizeof(self.region), "%s", config->region);
	snprintf(self.node, sizeof(self.node), "%s", node);
	r = lg_tls_new(&files, &self, &secure->tls, c);
	if (r < 0)
		return r;
	tell_expiry(secure->tls);
	return lg_loop_add_ticker(loop, LOOK_PERIOD_NS, on_look, secure, &secure->ticker);
}

void lg_secure_stop(struct lg_secure *secure)
{
	secure->ticker = lg_source_free(secure->ticker);
	secure->tls = lg_tls_free(secure->tls);
}

void lg_secure_metrics(const struct lg_secure *secure, struct lg_metrics *m)
{
	if (secure->tls)
		lg_metrics_add(m, LG_METRIC_CERTIFICATE_END, (double)lg_tls_not_after_s(secure->tls), NULL);
}

bool lg_secure_speaks_for(const struct lg_tls_name *peer, const char *region, const char *node, char *why)
{
	if (strcmp(peer->region, region) == 0 && strcmp(peer->node, node) == 0 && !peer->operator_name[0])
		return true;
	if (peer->operator_name[0])
		snprintf(why, 128, "its certificate is that of operator %.40s of region %.40s", peer->operator_name, peer->region);
	else if (peer->node[0])
		snprintf(why, 128, "its certificate is that of %.40s in region %.40s", peer->node, peer->region);
	else
		snprintf(why, 128, "its certificate is that of the server of region %.40s", peer->region);
	return false;
}
