/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Reading captures: the classic format and pcapng, of either byte order, plain or compressed by gzip.
 */
#pragma once

#include <stdint.h>

#define LG_PCAP_FRAME_BYTES_MAX (1 << 18)

typedef void (*lg_pcap_fn)(void *ctx, const uint8_t *frame, uint32_t len);

/**
 * lg_pcap_each() - calls fn for each frame of a file, with the part of it that was captured
 *
 * A file that ends in the middle of a frame, or says that a frame is longer than LG_PCAP_FRAME_BYTES_MAX, ends there.
 *
 * Return: how many frames, or -1 if the file cannot be opened or is no capture.
 */
int lg_pcap_each(const char *path, lg_pcap_fn fn, void *ctx);
