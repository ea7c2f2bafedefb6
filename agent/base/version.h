/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * What --version prints. LG_VERSION comes from the Makefile, to the objects that have a main() alone. */
#pragma once

#include "leasegate/abi.h"

#define LG_VERSION_QUOTE_(x) #x
#define LG_VERSION_QUOTE(x) LG_VERSION_QUOTE_(x)
#define LG_LICENCE "GPL-2.0-only OR BSD-2-Clause"
#define LG_VERSION_TEXT(program)                                                                                      \
	program " " LG_VERSION "\nABI of its maps in the kernel: version " LG_VERSION_QUOTE(LG_ABI_VERSION) "\nLicence: " LG_LICENCE "\n"
