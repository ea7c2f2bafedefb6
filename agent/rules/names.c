// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "rules/names.h"

#include <errno.h>
#include <linux/if_ether.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"

static const struct {
	const char *word;
	const char *name;
	uint8_t number;
} protocols[] = {
	{ "icmp", "ICMP", 1 },
	{ "igmp", "IGMP", 2 },
	{ "tcp", "TCP", 6 },
	{ "udp", "UDP", 17 },
	{ "icmpv6", "ICMPv6", 58 },
	{ "sctp", "SCTP", 132 },
};

int lg_protocol_parse(const char *text)
{
	struct lg_complaint unused;
	uint64_t number;

	for (size_t i = 0; i < N_ELEMS(protocols); i++)
		if (strcmp(protocols[i].word, text) == 0)
			return protocols[i].number;
	return lg_num_parse(text, 0, 255, &number, &unused) < 0 ? -EINVAL : (int)number;
}

const char *lg_protocol_name(uint8_t protocol)
{
	for (size_t i = 0; i < N_ELEMS(protocols); i++)
		if (protocols[i].number == protocol)
			return protocols[i].name;
	return NULL;
}

/* ---- EtherTypes ---- */

static const struct {
	const char *word;
	const char *name;
	uint16_t number;
} ethertypes[] = {
	{ "ip", "IPv4", ETH_P_IP },
	{ "ipv6", "IPv6", ETH_P_IPV6 },
	{ "arp", "ARP", ETH_P_ARP },
	{ "lldp", "LLDP", ETH_P_LLDP },
	{ "llc", "802.3", 0 },
};

int lg_ethertype_parse(const char *text)
{
	uint64_t number = 0;
	struct lg_complaint unused;
	size_t n_hex = strncmp(text, "0x", 2) == 0 ? strspn(text + 2, "0123456789abcdefABCDEF") : 0;

	for (size_t i = 0; i < N_ELEMS(ethertypes); i++)
		if (strcmp(ethertypes[i].word, text) == 0)
			return ethertypes[i].number;
	if (n_hex && n_hex <= 4 && !text[2 + n_hex])
		number = strtoul(text + 2, NULL, 16);
	else if (n_hex || lg_num_parse(text, 0, 65535, &number, &unused) < 0)
		return -EINVAL;
	return number >= ETH_P_802_3_MIN ? (int)number : -EINVAL;
}

const char *lg_ethertype_name(uint16_t ethertype)
{
	for (size_t i = 0; i < N_ELEMS(ethertypes); i++)
		if (ethertypes[i].number == ethertype)
			return ethertypes[i].name;
	return NULL;
}

/* ---- TCP flags ---- */

static const char *const flag_names[8] = { "fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr" };

/* The bit of a name of len letters, 0: none. */
static uint8_t flag_find(const char *name, size_t len)
{
	for (unsigned int i = 0; i < N_ELEMS(flag_names); i++)
		if (strlen(flag_names[i]) == len && strncmp(flag_names[i], name, len) == 0)
			return (uint8_t)(1u << i);
	return 0;
}

int lg_tcp_flags_parse(const char *text, uint8_t *ret_mask, uint8_t *ret_value)
{
	uint8_t mask = 0, value = 0, bit;
	const char *at = text;
	bool is_clear;
	size_t len;

	for (;;) {
		at += strspn(at, " ");
		is_clear = *at == '!';
		at += is_clear;
		len = strcspn(at, ", ");
		bit = flag_find(at, len);
		if (!bit || mask & bit)
			return -EINVAL;
		mask |= bit;
		value |= is_clear ? 0 : bit;
		at += len;
		at += strspn(at, " ");
		if (!*at)
			break;
		if (*at++ != ',')
			return -EINVAL;
	}
	*ret_mask = mask;
	*ret_value = value;
	return 0;
}

void lg_tcp_flags_format(uint8_t mask, uint8_t value, char *buf, size_t len)
{
	size_t n = 0;

	buf[0] = '\0';
	for (unsigned int i = 0; i < N_ELEMS(flag_names); i++)
		if (mask >> i & 1 && n < len)
			n += (size_t)snprintf(buf + n, len - n, "%s%s%s", n ? "," : "", value >> i & 1 ? "" : "!", flag_names[i]);
}

/* ---- ICMP ---- */

#define ANY_CODE (-1)

static const struct icmp_name {
	const char *name;
	uint8_t family;
	uint8_t type;
	int code;
} icmp_names[] = {
	{ "echo-reply", 4, 0, ANY_CODE },
	{ "destination-unreachable", 4, 3, ANY_CODE },
	{ "network-unreachable", 4, 3, 0 },
	{ "host-unreachable", 4, 3, 1 },
	{ "port-unreachable", 4, 3, 3 },
	{ "fragmentation-needed", 4, 3, 4 },
	{ "redirect", 4, 5, ANY_CODE },
	{ "echo-request", 4, 8, ANY_CODE },
	{ "router-advertisement", 4, 9, ANY_CODE },
	{ "router-solicitation", 4, 10, ANY_CODE },
	{ "time-exceeded", 4, 11, ANY_CODE },
	{ "parameter-problem", 4, 12, ANY_CODE },
	{ "timestamp-request", 4, 13, ANY_CODE },
	{ "timestamp-reply", 4, 14, ANY_CODE },
	{ "destination-unreachable", 6, 1, ANY_CODE },
	{ "port-unreachable", 6, 1, 4 },
	{ "packet-too-big", 6, 2, ANY_CODE },
	{ "time-exceeded", 6, 3, ANY_CODE },
	{ "parameter-problem", 6, 4, ANY_CODE },
	{ "echo-request", 6, 128, ANY_CODE },
	{ "echo-reply", 6, 129, ANY_CODE },
	{ "listener-query", 6, 130, ANY_CODE },
	{ "listener-report", 6, 131, ANY_CODE },
	{ "listener-done", 6, 132, ANY_CODE },
	{ "router-solicitation", 6, 133, ANY_CODE },
	{ "router-advertisement", 6, 134, ANY_CODE },
	{ "neighbour-solicitation", 6, 135, ANY_CODE },
	{ "neighbour-advertisement", 6, 136, ANY_CODE },
	{ "redirect", 6, 137, ANY_CODE },
	{ "listener-report-v2", 6, 143, ANY_CODE },
};

static uint16_t name_lo(const struct icmp_name *name)
{
	return (uint16_t)(name->type << 8 | (name->code == ANY_CODE ? 0 : name->code));
}

static uint16_t name_hi(const struct icmp_name *name)
{
	return (uint16_t)(name->type << 8 | (name->code == ANY_CODE ? 0xff : name->code));
}

/* "3/4", "8", "8-11" */
static int icmp_numbers_parse(const char *text, uint16_t *ret_lo, uint16_t *ret_hi)
{
	struct lg_complaint unused;
	char first[8] = "";
	size_t len = strcspn(text, "/-");
	uint64_t a, b;

	if (len >= sizeof(first))
		return -EINVAL;
	memcpy(first, text, len);
	if (lg_num_parse(first, 0, 255, &a, &unused) < 0 || (text[len] && lg_num_parse(text + len + 1, 0, 255, &b, &unused) < 0))
		return -EINVAL;
	if (text[len] == '/') {
		*ret_lo = *ret_hi = (uint16_t)(a << 8 | b);
		return 0;
	}
	b = text[len] ? b : a;
	*ret_lo = (uint16_t)(a << 8);
	*ret_hi = (uint16_t)(b << 8 | 0xff);
	return a <= b ? 0 : -EINVAL;
}

int lg_icmp_parse(uint8_t family, const char *text, uint16_t *ret_lo, uint16_t *ret_hi)
{
	for (size_t i = 0; i < N_ELEMS(icmp_names); i++) {
		if (icmp_names[i].family != family || strcmp(icmp_names[i].name, text) != 0)
			continue;
		*ret_lo = name_lo(&icmp_names[i]);
		*ret_hi = name_hi(&icmp_names[i]);
		return 0;
	}
	return icmp_numbers_parse(text, ret_lo, ret_hi);
}

void lg_icmp_format(uint8_t family, uint16_t lo, uint16_t hi, char *buf, size_t len)
{
	for (size_t i = 0; i < N_ELEMS(icmp_names); i++) {
		if (icmp_names[i].family == family && name_lo(&icmp_names[i]) == lo && name_hi(&icmp_names[i]) == hi) {
			snprintf(buf, len, "%s", icmp_names[i].name);
			return;
		}
	}
	if ((lo & 0xff) || (hi & 0xff) != 0xff)
		snprintf(buf, len, lo == hi ? "%u/%u" : "%u/%u-%u/%u", lo >> 8, lo & 0xff, hi >> 8, hi & 0xff);
	else
		snprintf(buf, len, lo >> 8 == hi >> 8 ? "%u" : "%u-%u", lo >> 8, hi >> 8);
}
