// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "rules/config.h"

#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/num.h"
#include "rules/fields.h"
#include "rules/tree.h"

#define CONFIG_BYTES_MAX (1u << 20)
#define EXPECT "a configuration names at least `rules`, and for a node `interfaces`"

struct reader {
	struct lg_field_at at[_LG_CF_N];
	const struct lg_node *root;
	const char *file;
	enum lg_config_role role;
	struct lg_config *config;
	struct lg_complaint *c;
};

static bool is_written(const struct lg_field_at *at, enum lg_config_field id)
{
	return at[id].node != NULL;
}

__attribute__((format(printf, 4, 5))) static int complain(struct reader *r, const struct lg_field_at *at,
							  enum lg_config_field id, const char *fmt, ...)
{
	char why[sizeof(r->c->text)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	return lg_field_complain(&lg_config_fields[id], at[id].node, r->c, "%s", why);
}

/* Lengths are checked when keys are collected; buf has room for what is written or for the default. */
static void text_copy(const struct lg_field_at *at, enum lg_config_field id, const char *def, char *buf, size_t len)
{
	snprintf(buf, len, "%s", is_written(at, id) ? at[id].node->text : def);
}

/* A list's item as a mapping whose keys are those below prefix. */
static int item_collect(struct reader *r, const struct lg_node *item, const char *prefix, struct lg_field_at *at)
{
	if (item->kind != LG_NODE_MAP)
		return lg_node_complain(item, r->c, "an item of this list is a mapping, beginning with `- name:`");
	return lg_fields_collect(lg_config_fields, _LG_CF_N, prefix,
				 r->role == LG_CONFIG_NODE ? LG_FIELD_NODE : LG_FIELD_REGION, item, at, r->c);
}

/* ---- regions ---- */

const struct lg_region_def *lg_config_region(const struct lg_config *config, const char *name)
{
	for (size_t i = 0; i < config->n_regions; i++)
		if (strcmp(config->regions[i].name, name) == 0)
			return &config->regions[i];
	return NULL;
}

static int region_item_read(struct reader *r, const struct lg_node *item)
{
	struct lg_config *config = r->config;
	struct lg_region_def *region = &config->regions[config->n_regions];
	struct lg_field_at at[_LG_CF_N];
	int err;

	err = item_collect(r, item, "regions.list[]", at);
	if (err < 0)
		return err;
	text_copy(at, LG_CF_REGION_NAME, "", region->name, sizeof(region->name));
	text_copy(at, LG_CF_REGION_ADDRESS, "", region->address, sizeof(region->address));
	region->hosts = (uint32_t)at[LG_CF_REGION_HOSTS].num;
	region->is_draining = at[LG_CF_REGION_DRAINING].num;
	if (lg_config_region(config, region->name))
		return complain(r, at, LG_CF_REGION_NAME, "region \"%s\" is listed twice", region->name);
	for (size_t i = 0; i < config->n_regions; i++)
		if (strcmp(config->regions[i].address, region->address) == 0)
			return complain(r, at, LG_CF_REGION_ADDRESS, "region \"%s\" has this address too",
					config->regions[i].name);
	config->n_regions++;
	return 0;
}

/* Which keys about regions go together. */
static int region_keys_check(struct reader *r)
{
	if (!is_written(r->at, LG_CF_REGION)) {
		if (r->role == LG_CONFIG_REGION)
			return lg_node_complain(r->root, r->c, "region is missing: name the region that this server serves");
		if (is_written(r->at, LG_CF_UPSTREAM))
			return complain(r, r->at, LG_CF_UPSTREAM, "needs `region` and `regions`: leases are asked for by region");
		if (is_written(r->at, LG_CF_REGIONS))
			return complain(r, r->at, LG_CF_REGIONS, "needs `region`: say which of them this host is in");
		return 0;
	}
	if (!is_written(r->at, LG_CF_REGIONS))
		return complain(r, r->at, LG_CF_REGION, "needs `regions`: list all regions, this one among them");
	return 0;
}

static int list_read(struct reader *r)
{
	struct lg_config *config = r->config;
	size_t n_homes = 0;
	int err;

	config->regions_version = r->at[LG_CF_VERSION].num;
	config->far_rtt_ns = r->at[LG_CF_RTT].num;
	for (const struct lg_node *item = r->at[LG_CF_LIST].node->child; item; item = item->next) {
		err = region_item_read(r, item);
		if (err < 0)
			return err;
	}
	for (size_t i = 0; i < config->n_regions; i++)
		n_homes += !config->regions[i].is_draining;
	return n_homes ? 0 : complain(r, r->at, LG_CF_LIST, "every region is draining: at least one must be the home of keys");
}

static int regions_read(struct reader *r)
{
	struct lg_config *config = r->config;
	const struct lg_region_def *own;
	int err;

	err = region_keys_check(r);
	if (err < 0 || !is_written(r->at, LG_CF_REGION))
		return err;
	err = list_read(r);
	if (err < 0)
		return err;
	text_copy(r->at, LG_CF_REGION, "", config->region, sizeof(config->region));
	own = lg_config_region(config, config->region);
	if (!own)
		return complain(r, r->at, LG_CF_REGION, "\"%s\" is not in the list of regions", config->region);
	if (r->role == LG_CONFIG_NODE)
		text_copy(r->at, LG_CF_UPSTREAM, own->address, config->upstream, sizeof(config->upstream));
	else
		text_copy(r->at, LG_CF_LISTEN, own->address, config->listen, sizeof(config->listen));
	text_copy(r->at, LG_CF_ADVERTISE, config->listen, config->advertise, sizeof(config->advertise));
	return 0;
}

static int dial_via_read(struct reader *r)
{
	struct lg_config *config = r->config;
	struct lg_complaint why = { 0 };

	if (!is_written(r->at, LG_CF_DIAL_VIA))
		return 0;
	for (const struct lg_node *node = r->at[LG_CF_DIAL_VIA].node->child; node; node = node->next) {
		if (!lg_config_region(config, node->key))
			return lg_node_key_complain(node, r->c, "test.dial_via: \"%.64s\" is not in the list of regions", node->key);
		if (node->kind != LG_NODE_SCALAR)
			return lg_node_complain(node, r->c, "test.dial_via: expected an address such as 192.0.2.1:7400");
		if (lg_address_check(node->text, &why) < 0)
			return lg_node_complain(node, r->c, "test.dial_via: %.400s", why.text);
		snprintf(config->dial_via[config->n_dial_via].name, LG_NAME_LEN, "%s", node->key);
		snprintf(config->dial_via[config->n_dial_via].address, LG_ADDRESS_LEN, "%s", node->text);
		config->n_dial_via++;
	}
	return 0;
}

/* ---- interfaces ---- */

static int interface_read(struct reader *r, const struct lg_node *item)
{
	struct lg_config *config = r->config;
	struct lg_interface *interface = &config->interfaces[config->n_interfaces];
	struct lg_field_at at[_LG_CF_N];
	int err;

	err = item_collect(r, item, "interfaces[]", at);
	if (err < 0)
		return err;
	text_copy(at, LG_CF_IF_NAME, "", interface->name, sizeof(interface->name));
	interface->is_pattern = lg_ifname_is_pattern(interface->name);
	interface->wait = is_written(at, LG_CF_IF_WAIT) ? at[LG_CF_IF_WAIT].num : interface->is_pattern;
	interface->xdp = (enum lg_xdp_choice)at[LG_CF_IF_XDP].num;
	interface->shared = at[LG_CF_IF_ATTACH].num;
	interface->require_native = at[LG_CF_IF_REQUIRE_NATIVE].num;
	interface->tc = is_written(at, LG_CF_IF_TC) ? at[LG_CF_IF_TC].num : interface->xdp == LG_XDP_OFF;
	interface->tc_egress = at[LG_CF_IF_TC_EGRESS].num;
	if (interface->tc && interface->xdp != LG_XDP_OFF)
		return complain(r, at, LG_CF_IF_TC, "xdp is on as well: both would charge each packet, so choose one");
	if (!interface->tc && !interface->tc_egress && interface->xdp == LG_XDP_OFF)
		return complain(r, at, LG_CF_IF_TC, "xdp is off as well: nothing would be enforced on \"%s\", so leave it out",
				interface->name);
	if (interface->require_native && interface->xdp != LG_XDP_NATIVE && interface->xdp != LG_XDP_AUTO)
		return complain(r, at, LG_CF_IF_REQUIRE_NATIVE, "needs `xdp: native`, and xdp is %s here",
				interface->xdp == LG_XDP_OFF ? "off" : "generic");
	if (interface->shared && interface->xdp == LG_XDP_OFF)
		return complain(r, at, LG_CF_IF_ATTACH, "is about XDP, and xdp is off here: at tc there is room for all");
	if (interface->is_pattern && !interface->wait)
		return complain(r, at, LG_CF_IF_WAIT, "\"%s\" is a pattern, which any number of interfaces may fit, none too",
				interface->name);
	for (size_t i = 0; i < config->n_interfaces; i++)
		if (strcmp(config->interfaces[i].name, interface->name) == 0)
			return complain(r, at, LG_CF_IF_NAME, "\"%s\" is listed twice", interface->name);
	config->n_interfaces++;
	return 0;
}

static int interfaces_read(struct reader *r)
{
	int err;

	if (r->role != LG_CONFIG_NODE)
		return 0;
	if (!is_written(r->at, LG_CF_INTERFACES))
		return lg_node_complain(r->root, r->c, "interfaces is missing: list where to enforce, or write `interfaces: []`");
	for (const struct lg_node *item = r->at[LG_CF_INTERFACES].node->child; item; item = item->next) {
		err = interface_read(r, item);
		if (err < 0)
			return err;
	}
	return 0;
}

/* ---- names and paths ---- */

/* A path that is not absolute begins in the folder of the configuration file. */
static int path_read(struct reader *r, enum lg_config_field id, const char *def, char *buf, size_t len)
{
	const char *slash = strrchr(r->file, '/');
	int folder_len = slash ? (int)(slash - r->file) + 1 : 0;
	int n;

	if (!is_written(r->at, id))
		n = snprintf(buf, len, "%s", def);
	else if (r->at[id].node->text[0] == '/')
		n = snprintf(buf, len, "%s", r->at[id].node->text);
	else
		n = snprintf(buf, len, "%.*s%s", folder_len, r->file, r->at[id].node->text);
	if (n < (int)len)
		return 0;
	return complain(r, r->at, id, "longer than %zu bytes with the folder of this file before it", len - 1);
}

/* Written, or what follows from whether there is a file. */
static int rules_from_read(struct reader *r)
{
	struct lg_config *config = r->config;
	bool has_file = is_written(r->at, LG_CF_RULES);

	config->rules_from_region = is_written(r->at, LG_CF_RULES_FROM) ? r->at[LG_CF_RULES_FROM].num : !has_file;
	if (!config->rules_from_region && !has_file)
		return complain(r, r->at, LG_CF_RULES_FROM, "file needs `rules`: name the file");
	if (config->rules_from_region && !is_written(r->at, LG_CF_REGION))
		return is_written(r->at, LG_CF_RULES_FROM) ?
			       complain(r, r->at, LG_CF_RULES_FROM, "region needs `region`: say which one this host is in") :
			       lg_node_complain(r->root, r->c, "rules is missing: write a path");
	return 0;
}

static int labels_read(struct reader *r)
{
	struct lg_config *config = r->config;

	if (!is_written(r->at, LG_CF_LABELS))
		return 0;
	for (const struct lg_node *node = r->at[LG_CF_LABELS].node->child; node; node = node->next) {
		struct lg_label *label = &config->labels[config->n_labels++];

		if (!lg_name_is_valid(node->key) || node->kind != LG_NODE_SCALAR || !lg_name_is_valid(node->text))
			return lg_node_key_complain(node, r->c, "labels: expected a name and its value such as `tier: canary`, each 1 to 63 of "
								"A-Z a-z 0-9 . _ -");
		snprintf(label->name, sizeof(label->name), "%s", node->key);
		snprintf(label->value, sizeof(label->value), "%s", node->text);
	}
	return 0;
}

static int tls_read(struct reader *r)
{
	struct lg_config *config = r->config;
	int err;

	err = path_read(r, LG_CF_TLS_CA, "", config->tls.ca, sizeof(config->tls.ca));
	if (err == 0)
		err = path_read(r, LG_CF_TLS_CERTIFICATE, "", config->tls.certificate, sizeof(config->tls.certificate));
	if (err == 0)
		err = path_read(r, LG_CF_TLS_KEY, "", config->tls.key, sizeof(config->tls.key));
	return err;
}

static int paths_read(struct reader *r)
{
	struct lg_config *config = r->config;
	char state_dir[256], run_dir[256];
	int err;

	snprintf(state_dir, sizeof(state_dir), "/var/lib/leasegate/%s", config->instance);
	snprintf(run_dir, sizeof(run_dir), "/run/leasegate/%s", config->instance);
	err = path_read(r, LG_CF_RULES, "", config->rules, sizeof(config->rules));
	if (err == 0)
		err = path_read(r, LG_CF_STATE_DIR, state_dir, config->state_dir, sizeof(config->state_dir));
	if (err == 0)
		err = path_read(r, LG_CF_RUN_DIR, run_dir, config->run_dir, sizeof(config->run_dir));
	if (err == 0 && is_written(r->at, LG_CF_SECRET_FILE))
		err = path_read(r, LG_CF_SECRET_FILE, "", config->secret_file, sizeof(config->secret_file));
	if (err == 0 && is_written(r->at, LG_CF_TLS))
		err = tls_read(r);
	return err;
}

/* A node is known to its lessors by name: what is written, else the name of the host. */
static int name_read(struct reader *r)
{
	struct lg_config *config = r->config;
	char host[256] = "";

	if (r->role != LG_CONFIG_NODE)
		return 0;
	if (!is_written(r->at, LG_CF_NAME) && (gethostname(host, sizeof(host) - 1) < 0 || !lg_name_is_valid(host)))
		return lg_node_complain(r->root, r->c, "name is missing, and the host name \"%.64s\" cannot stand for it: write name",
					host);
	text_copy(r->at, LG_CF_NAME, host, config->name, sizeof(config->name));
	return 0;
}

static int nat64_read(struct reader *r)
{
	struct lg_complaint why = { 0 };
	uint8_t addr[16], family, len;

	if (!is_written(r->at, LG_CF_NAT64))
		return 0;
	if (lg_prefix_parse(r->at[LG_CF_NAT64].node->text, addr, &family, &len, &why) < 0)
		return complain(r, r->at, LG_CF_NAT64, "%s", why.text);
	if (family != 6 || len != 96)
		return complain(r, r->at, LG_CF_NAT64, "only a /96 of IPv6 is supported, such as 64:ff9b::/96");
	memcpy(r->config->nat64, addr, sizeof(addr));
	return 0;
}

static int etcd_read(struct reader *r)
{
	struct lg_config *config = r->config;
	struct lg_complaint why = { 0 };
	bool is_etcd = strcmp(config->store, "etcd") == 0;

	if (is_etcd && !is_written(r->at, LG_CF_ETCD))
		return complain(r, r->at, LG_CF_STORE, "etcd needs the key `etcd`: name the cluster's endpoints");
	if (!is_etcd && is_written(r->at, LG_CF_ETCD))
		return complain(r, r->at, LG_CF_ETCD, "is for `store: etcd`, and store is %s", config->store);
	if (!is_etcd)
		return 0;
	for (const struct lg_node *node = r->at[LG_CF_ETCD_ENDPOINTS].node->child; node; node = node->next) {
		if (node->kind != LG_NODE_SCALAR)
			return lg_node_complain(node, r->c, "etcd.endpoints: expected an address such as 192.0.2.1:2379");
		if (lg_address_check(node->text, &why) < 0)
			return lg_node_complain(node, r->c, "etcd.endpoints: %.400s", why.text);
		snprintf(config->etcd.endpoints[config->etcd.n_endpoints++], LG_ADDRESS_LEN, "%s", node->text);
	}
	text_copy(r->at, LG_CF_ETCD_PREFIX, lg_config_fields[LG_CF_ETCD_PREFIX].def, config->etcd.prefix, sizeof(config->etcd.prefix));
	text_copy(r->at, LG_CF_ETCD_USER, "", config->etcd.user, sizeof(config->etcd.user));
	config->etcd.tls = r->at[LG_CF_ETCD_TLS].num;
	if (config->etcd.tls && !is_written(r->at, LG_CF_TLS))
		return complain(r, r->at, LG_CF_ETCD_TLS, "on needs the key `tls`: the certificate to show");
	if (config->etcd.user[0] && !is_written(r->at, LG_CF_ETCD_PASSWORD))
		return complain(r, r->at, LG_CF_ETCD_USER, "needs `password_file`");
	return path_read(r, LG_CF_ETCD_PASSWORD, "", config->etcd.password_file, sizeof(config->etcd.password_file));
}

static int tree_read(struct reader *r)
{
	struct lg_config *config = r->config;
	bool node = r->role == LG_CONFIG_NODE;
	int err;

	err = lg_fields_collect(lg_config_fields, _LG_CF_N, "", node ? LG_FIELD_NODE : LG_FIELD_REGION, r->root, r->at, r->c);
	if (err < 0)
		return err;
	text_copy(r->at, LG_CF_INSTANCE, lg_config_fields[LG_CF_INSTANCE].def, config->instance, sizeof(config->instance));
	text_copy(r->at, LG_CF_METRICS, node ? "127.0.0.1:9464" : "127.0.0.1:9465", config->metrics, sizeof(config->metrics));
	if (!node)
		text_copy(r->at, LG_CF_STORE, lg_config_fields[LG_CF_STORE].def, config->store, sizeof(config->store));
	config->journal_bytes = node ? 0 : r->at[LG_CF_JOURNAL_SIZE].num;
	config->journal_sync = r->at[LG_CF_JOURNAL_FSYNC].num;
	config->max_keys = (uint32_t)r->at[LG_CF_MAX_KEYS].num;
	config->line_keys = (uint32_t)r->at[LG_CF_LINE_KEYS].num;
	config->log_keys = (uint32_t)r->at[LG_CF_LOG_KEYS].num;
	config->max_rules = (uint32_t)r->at[LG_CF_MAX_RULES].num;
	config->ssh_port = (uint16_t)r->at[LG_CF_SSH_PORT].num;
	config->max_conns = (uint32_t)r->at[LG_CF_MAX_CONNECTIONS].num;
	config->conn_terms = (struct lg_conn_terms){
		.handshake_ns = r->at[LG_CF_CONN_HANDSHAKE].num,
		.closing_ns = r->at[LG_CF_CONN_CLOSING].num,
		.established_ns = r->at[LG_CF_CONN_ESTABLISHED].num,
		.datagram_ns = r->at[LG_CF_CONN_DATAGRAM].num,
	};
	config->unparsable_drop = r->at[LG_CF_UNPARSABLE].num;

	err = rules_from_read(r);
	if (err == 0)
		err = name_read(r);
	if (err == 0)
		err = labels_read(r);
	if (err == 0)
		err = regions_read(r);
	if (err == 0 && !node)
		err = etcd_read(r);
	if (err == 0)
		err = dial_via_read(r);
	if (err == 0)
		err = nat64_read(r);
	if (err == 0)
		err = interfaces_read(r);
	return err < 0 ? err : paths_read(r);
}

int lg_config_parse(const char *text, size_t len, const char *name, enum lg_config_role role,
		    struct lg_config *ret_config, struct lg_complaint *c)
{
	_cleanup_(lg_tree_free) struct lg_tree *tree = NULL;
	_cleanup_free_ struct lg_config *config = calloc(1, sizeof(*config));
	struct reader r = { .file = name, .role = role, .config = config, .c = c };
	int err;

	err = config ? lg_tree_parse(text, len, name, CONFIG_BYTES_MAX, EXPECT, &tree, c) : -ENOMEM;
	if (err == 0) {
		r.root = tree->root;
		err = tree_read(&r);
	}
	if (err == -ENOMEM)
		lg_complain(c, "not enough memory to read it");
	if (err == 0)
		*ret_config = *config;
	return err;
}

int lg_config_regions_parse(const char *text, size_t len, const char *name, struct lg_config *config, struct lg_complaint *c)
{
	_cleanup_(lg_tree_free) struct lg_tree *tree = NULL;
	_cleanup_free_ struct lg_config *got = calloc(1, sizeof(*got));
	struct reader r = { .file = name, .role = LG_CONFIG_REGION, .config = got, .c = c };
	int err;

	err = got ? lg_tree_parse(text, len, name, CONFIG_BYTES_MAX, "a list of regions begins with `regions:`", &tree, c) : -ENOMEM;
	if (err == 0) {
		r.root = tree->root;
		err = lg_fields_collect(lg_config_fields, _LG_CF_N, "", LG_FIELD_REGION, tree->root, r.at, c);
	}
	if (err == 0 && (!is_written(r.at, LG_CF_REGIONS) || tree->root->n != 1))
		err = lg_node_complain(tree->root, c, "a list of regions has the key `regions` and no other");
	if (err == 0)
		err = list_read(&r);
	if (err == -ENOMEM)
		lg_complain(c, "not enough memory to read it");
	if (err < 0)
		return err;
	config->regions_version = got->regions_version;
	config->far_rtt_ns = got->far_rtt_ns;
	config->n_regions = got->n_regions;
	memcpy(config->regions, got->regions, sizeof(config->regions));
	return 0;
}

void lg_config_regions_format(const struct lg_config *config, struct lg_text *out)
{
	lg_text_addf(out, "regions:\n  version: %" PRIu64 "\n  rtt: %" PRIu64 "us\n  list:\n", config->regions_version,
		     config->far_rtt_ns / 1000);
	for (size_t i = 0; i < config->n_regions; i++)
		lg_text_addf(out, "    - {name: \"%s\", address: \"%s\", hosts: %u, draining: %s}\n", config->regions[i].name,
			     config->regions[i].address, config->regions[i].hosts, config->regions[i].is_draining ? "true" : "false");
}

static void follow(char address[LG_ADDRESS_LEN], const char *before, const char *now)
{
	if (strcmp(address, before) == 0)
		snprintf(address, LG_ADDRESS_LEN, "%s", now);
}

int lg_config_regions_take(struct lg_config *config, const struct lg_config *from, struct lg_complaint *c)
{
	const struct lg_region_def *before = lg_config_region(config, config->region), *now = lg_config_region(from, config->region);

	if (!now)
		return lg_complain(c, "version %" PRIu64 " of the list of regions does not have region %s", from->regions_version,
				   config->region);
	if (before) {
		char address[LG_ADDRESS_LEN];

		snprintf(address, sizeof(address), "%s", before->address);
		follow(config->upstream, address, now->address);
		follow(config->listen, address, now->address);
		follow(config->advertise, address, now->address);
	}
	config->regions_version = from->regions_version;
	config->far_rtt_ns = from->far_rtt_ns;
	config->n_regions = from->n_regions;
	memmove(config->regions, from->regions, sizeof(config->regions));
	return 0;
}

int lg_config_read(const char *path, enum lg_config_role role, struct lg_config *ret_config, struct lg_complaint *c)
{
	_cleanup_free_ char *text = NULL;
	size_t len;
	int r;

	r = lg_tree_file_read(path, CONFIG_BYTES_MAX, &text, &len, c);
	return r < 0 ? r : lg_config_parse(text, len, path, role, ret_config, c);
}

const char *lg_config_dial(const struct lg_config *config, const char *region)
{
	const struct lg_region_def *def = lg_config_region(config, region);

	for (size_t i = 0; i < config->n_dial_via; i++)
		if (strcmp(config->dial_via[i].name, region) == 0)
			return config->dial_via[i].address;
	return def ? def->address : NULL;
}

const struct lg_interface *lg_config_interface(const struct lg_config *config, const char *ifname)
{
	const struct lg_interface *found = NULL;

	for (size_t i = 0; i < config->n_interfaces; i++) {
		const struct lg_interface *entry = &config->interfaces[i];

		if (!entry->is_pattern && strcmp(entry->name, ifname) == 0)
			return entry;
		if (entry->is_pattern && !found && fnmatch(entry->name, ifname, 0) == 0)
			found = entry;
	}
	return found;
}

uint32_t lg_config_own_hosts(const struct lg_config *config)
{
	const struct lg_region_def *own = lg_config_region(config, config->region);

	return own ? own->hosts : 1;
}

uint64_t lg_config_regions_names(const struct lg_config *config)
{
	uint64_t names = 0;

	for (size_t i = 0; i < config->n_regions; i++)
		names += XXH3_64bits_withSeed(config->regions[i].name, strlen(config->regions[i].name), config->regions[i].is_draining);
	return names;
}

uint32_t lg_config_hosts(const struct lg_config *config)
{
	uint32_t hosts = 0;

	for (size_t i = 0; i < config->n_regions; i++)
		hosts += config->regions[i].hosts;
	return hosts;
}
