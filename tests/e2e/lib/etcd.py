# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A real etcd cluster in a namespace: processes of build/etcd/etcd."""
import json
import os
import shutil
import signal
import subprocess
import tempfile

from . import ROOT
from .wait import until

ETCD = os.path.join(ROOT, "build", "etcd", "etcd")
PORT = 23790


class Etcd:
    """Members in a namespace. With certs (lib/certs.py) clients must show a certificate of that authority. quota_bytes: of the database, beyond
    which nothing more is written."""

    def __init__(self, ns, n=3, certs=None, address="127.0.0.1", quota_bytes=0):
        self.ns, self.n, self.certs, self.address, self.quota_bytes = ns, n, certs, address, quota_bytes
        self.folder, self.members = None, [None] * n

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="leasegate-etcd-")
        for i in range(self.n):
            self.start(i)
        until(lambda: self.ctl("endpoint", "health").returncode == 0, "the cluster is healthy", 30, every_s=0.2)
        return self

    def __exit__(self, *exc):
        for i in range(self.n):
            self.kill(i)
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def endpoints(self):
        return [f"{self.address}:{PORT + i}" for i in range(self.n)]

    def start(self, i):
        scheme = "https" if self.certs else "http"
        tls = []
        if self.certs:
            self.certs.host(f"etcd{i}", self.address)
            files = self.certs.files(f"etcd{i}")
            tls = ["--cert-file", files["certificate"], "--key-file", files["key"], "--trusted-ca-file", files["ca"], "--client-cert-auth"]
        client, peer = f"{scheme}://{self.address}:{PORT + i}", f"http://127.0.0.1:{PORT + 100 + i}"
        cluster = ",".join(f"m{j}=http://127.0.0.1:{PORT + 100 + j}" for j in range(self.n))
        with open(os.path.join(self.folder, f"m{i}.log"), "ab") as log:
            self.members[i] = subprocess.Popen(
                self.ns.enter_argv() + [ETCD, "--name", f"m{i}", "--data-dir", os.path.join(self.folder, f"m{i}"),
                                        "--listen-client-urls", client, "--advertise-client-urls", client,
                                        "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                                        "--initial-cluster", cluster, "--log-level", "warn",
                                        "--quota-backend-bytes", str(self.quota_bytes), *tls],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def kill(self, i):
        """kill -9."""
        if self.members[i]:
            self.members[i].kill()
            self.members[i].wait()
        self.members[i] = None

    def pause(self, i, paused=True):
        self.members[i].send_signal(signal.SIGSTOP if paused else signal.SIGCONT)

    def ctl(self, *words, text=None):
        """etcdctl; text is its standard input."""
        tls = []
        if self.certs:
            self.certs.host("etcdctl", "127.0.0.1")
            files = self.certs.files("etcdctl")
            tls = ["--cert", files["certificate"], "--key", files["key"], "--cacert", files["ca"]]
        return self.ns.run(ETCD + "ctl", "--endpoints", ",".join(self.endpoints), *tls, *words, input=text,
                           env={**os.environ, "ETCDCTL_API": "3"})

    def fill(self):
        """Writes until there is no room, and the cluster says so by its alarm."""
        for i in range(1000):
            r = self.ctl("put", f"filler{i % 2}", text="x" * 1_000_000)
            if r.returncode:
                assert "database space exceeded" in r.stderr, r.stderr
                break
        until(lambda: "NOSPACE" in self.ctl("alarm", "list").stdout, "the alarm is raised")

    def make_room(self):
        """What the operator does then: compaction, defragmentation, and the alarm is taken back."""
        revision = json.loads(self.ctl("endpoint", "status", "--write-out=json").stdout)[0]["Status"]["header"]["revision"]
        for words in (("compact", str(revision), "--physical"), ("defrag",), ("alarm", "disarm")):
            r = self.ctl(*words)
            assert r.returncode == 0, (words, r.stdout, r.stderr)
