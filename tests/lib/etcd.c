// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "tests/lib/etcd.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define ETCD "build/etcd/etcd"
#define ETCDCTL "build/etcd/etcdctl"
#define PORT 23790	/* a member's client port; its peer port is 100 above */
#define WORDS_MAX 48

struct etcd_cluster {
	char folder[64];
	size_t n;
	const char *const *more;
	pid_t pids[ETCD_MEMBERS_MAX];	/* 0: not running */
	char endpoints[ETCD_MEMBERS_MAX][32];
	char all[128];
};

static pid_t run(const struct etcd_cluster *cluster, const char *const *words, const char *log)
{
	char path[128];
	pid_t pid = fork();
	int fd;

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(path, sizeof(path), "%s/%s", cluster->folder, log);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
	dup2(fd, STDOUT_FILENO);
	dup2(fd, STDERR_FILENO);
	setenv("ETCDCTL_API", "3", 1);
	execv(words[0], (char *const *)(unsigned long)words);
	_exit(127);
}

void etcd_start(struct etcd_cluster *cluster, size_t member)
{
	char name[8], data[128], client[40], peer[40], peers[256] = "", log[16];
	const char *words[WORDS_MAX] = {
		ETCD, "--name", name, "--data-dir", data, "--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", peers,
		"--heartbeat-interval", "20", "--election-timeout", "200", "--log-level", "warn",
	};
	size_t n = 0;

	while (words[n])
		n++;
	for (size_t i = 0; cluster->more && n < WORDS_MAX - 1 && cluster->more[i]; i++)
		words[n++] = cluster->more[i];
	snprintf(name, sizeof(name), "m%zu", member);
	snprintf(data, sizeof(data), "%s/m%zu", cluster->folder, member);
	snprintf(client, sizeof(client), "http://%s", cluster->endpoints[member]);
	snprintf(peer, sizeof(peer), "http://127.0.0.1:%zu", PORT + 100 + member);
	for (size_t i = 0; i < cluster->n; i++)
		snprintf(peers + strlen(peers), sizeof(peers) - strlen(peers), "%sm%zu=http://127.0.0.1:%zu", i ? "," : "", i, PORT + 100 + i);
	snprintf(log, sizeof(log), "m%zu.log", member);
	cluster->pids[member] = run(cluster, words, log);
}

void etcd_kill(struct etcd_cluster *cluster, size_t member)
{
	if (!cluster->pids[member])
		return;
	kill(cluster->pids[member], SIGKILL);
	waitpid(cluster->pids[member], NULL, 0);
	cluster->pids[member] = 0;
}

void etcd_pause(struct etcd_cluster *cluster, size_t member, bool is_paused)
{
	kill(cluster->pids[member], is_paused ? SIGSTOP : SIGCONT);
}

int etcd_ctl(const struct etcd_cluster *cluster, const char *const *words)
{
	const char *all[WORDS_MAX] = { ETCDCTL, "--endpoints", cluster->all, "--command-timeout", "10s" };
	int status = 0;

	for (size_t i = 0; i < WORDS_MAX - 6 && words[i]; i++)
		all[5 + i] = words[i];
	waitpid(run(cluster, all, "ctl.log"), &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

struct etcd_cluster *etcd_cluster_new(size_t n_members, const char *const *more)
{
	struct etcd_cluster *cluster;

	if (access(ETCD, X_OK) < 0)
		return NULL;
	cluster = calloc(1, sizeof(*cluster));
	if (!cluster)
		abort();
	cluster->n = n_members;
	cluster->more = more;
	/* In memory where there is room for it: what is tested is not how long a disk takes. */
	snprintf(cluster->folder, sizeof(cluster->folder), "%s/leasegate-etcd-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	if (!mkdtemp(cluster->folder))
		abort();
	for (size_t i = 0; i < n_members; i++) {
		snprintf(cluster->endpoints[i], sizeof(cluster->endpoints[i]), "127.0.0.1:%zu", PORT + i);
		snprintf(cluster->all + strlen(cluster->all), sizeof(cluster->all) - strlen(cluster->all), "%s%s", i ? "," : "",
			 cluster->endpoints[i]);
	}
	for (size_t i = 0; i < n_members; i++)
		etcd_start(cluster, i);
	return cluster;
}

void etcd_cluster_free(struct etcd_cluster *cluster)
{
	char command[96];

	if (!cluster)
		return;
	for (size_t i = 0; i < cluster->n; i++)
		etcd_kill(cluster, i);
	snprintf(command, sizeof(command), "rm -rf %s", cluster->folder);
	if (system(command) != 0)
		fprintf(stderr, "etcd: %s failed\n", command);
	free(cluster);
}

const char *etcd_endpoint(const struct etcd_cluster *cluster, size_t member)
{
	return cluster->endpoints[member];
}
