// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "store/driver.h"

static const struct lg_store_driver *const drivers[] = {
	&lg_store_sqlite,
	&lg_store_memory,
	&lg_store_etcd,
};

const struct lg_store_driver *lg_store_driver_at(size_t i)
{
	return i < N_ELEMS(drivers) ? drivers[i] : NULL;
}
