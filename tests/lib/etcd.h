/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * A real etcd cluster for tests: processes of build/etcd/etcd on 127.0.0.1, which is to be a network namespace's own. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define ETCD_MEMBERS_MAX 3

struct etcd_cluster;

/* NULL where there is no etcd: scripts/fetch-etcd. `more`: further words for each member, NULL-terminated; or NULL. */
struct etcd_cluster *etcd_cluster_new(size_t n_members, const char *const *more);
/* Ends all processes and removes what they wrote. */
void etcd_cluster_free(struct etcd_cluster *cluster);
/* "127.0.0.1:23790" */
const char *etcd_endpoint(const struct etcd_cluster *cluster, size_t member);
void etcd_kill(struct etcd_cluster *cluster, size_t member);
void etcd_start(struct etcd_cluster *cluster, size_t member);
/* SIGSTOP and SIGCONT */
void etcd_pause(struct etcd_cluster *cluster, size_t member, bool is_paused);
/* etcdctl with these words, NULL-terminated, against all members. Returns its exit code. */
int etcd_ctl(const struct etcd_cluster *cluster, const char *const *words);
