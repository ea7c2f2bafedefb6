// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "tests/lib/pcap.h"

#define PCAPNG_SECTION 0x0a0d0d0a /* the same in both byte orders */
#define PCAPNG_ORDER 0x1a2b3c4d
#define PCAPNG_PACKET 6 /* says how much of the frame was captured */
#define PCAPNG_SIMPLE 3 /* says only how long it was */

static uint32_t swap_if(bool is_swapped, uint32_t x)
{
	return is_swapped ? __builtin_bswap32(x) : x;
}

static bool read_all(gzFile file, void *to, uint32_t len)
{
	return gzread(file, to, len) == (int)len;
}

/* The records of a file in the classic format, behind its header. */
static int each_record(gzFile file, bool is_swapped, uint8_t *frame, lg_pcap_fn fn, void *ctx)
{
	uint32_t record[4], len;
	int n = 0;

	while (read_all(file, record, sizeof(record))) {
		len = swap_if(is_swapped, record[2]);
		if (len > LG_PCAP_FRAME_BYTES_MAX || !read_all(file, frame, len))
			break;
		fn(ctx, frame, len);
		n++;
	}
	return n;
}

/* The blocks of a pcapng file. */
static int each_block(gzFile file, uint8_t *body, lg_pcap_fn fn, void *ctx)
{
	uint32_t head[2], words[5];
	bool is_swapped = false;
	int n = 0;

	while (read_all(file, head, sizeof(head))) {
		uint32_t type = swap_if(is_swapped, head[0]), len, at;

		if (type == PCAPNG_SECTION) {
			if (!read_all(file, words, sizeof(words[0])) || gzseek(file, -(z_off_t)sizeof(words[0]), SEEK_CUR) < 0)
				break;
			is_swapped = words[0] != PCAPNG_ORDER;
		}
		len = swap_if(is_swapped, head[1]);
		if (len < 12 || len - 8 > LG_PCAP_FRAME_BYTES_MAX || !read_all(file, body, len - 8))
			break;
		at = type == PCAPNG_PACKET ? 20 : 4;
		if ((type != PCAPNG_PACKET && type != PCAPNG_SIMPLE) || len < 12 + at)
			continue;
		len -= 12 + at;
		memcpy(words, body, at);
		if (type == PCAPNG_PACKET && swap_if(is_swapped, words[3]) < len)
			len = swap_if(is_swapped, words[3]);
		fn(ctx, body + at, len);
		n++;
	}
	return n;
}

/* The rest of the file header in the classic format. */
#define CLASSIC_REST_BYTES 20

int lg_pcap_each(const char *path, lg_pcap_fn fn, void *ctx)
{
	uint8_t *frame = malloc(LG_PCAP_FRAME_BYTES_MAX);
	gzFile file = gzopen(path, "rb");
	uint32_t magic;
	int n = -1;

	if (!frame || !file || !read_all(file, &magic, sizeof(magic)))
		goto out;
	if (magic == PCAPNG_SECTION) {
		if (gzrewind(file) == 0)
			n = each_block(file, frame, fn, ctx);
	} else if (magic == 0xa1b2c3d4 || magic == 0xa1b23c4d || magic == 0xd4c3b2a1 || magic == 0x4d3cb2a1) {
		if (read_all(file, frame, CLASSIC_REST_BYTES))
			n = each_record(file, magic == 0xd4c3b2a1 || magic == 0x4d3cb2a1, frame, fn, ctx);
	}
out:
	if (file)
		gzclose(file);
	free(frame);
	return n;
}
