# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Network namespaces, veth pairs, and sockets that live in a namespace of one's choice."""
import contextlib
import ctypes
import http.client
import json
import os
import re
import socket
import subprocess

_libc = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNET = 0x40000000


def _run(tool, argv, ns, check):
    cmd = (ns.enter_argv() if ns else []) + [tool] + [str(a) for a in argv]
    r = subprocess.run(cmd, capture_output=True, text=True, timeout=20)
    if check and r.returncode:
        raise OSError(f"{' '.join(cmd)}: {r.stderr.strip()}")
    return r.stdout


def ip(*argv, ns=None, check=True):
    """Runs ip(8) with the given words, inside `ns` if given. Returns its stdout."""
    return _run("ip", argv, ns, check)


def tc(*argv, ns=None, check=True):
    """The same with tc(8)."""
    return _run("tc", argv, ns, check)


def _setns(fd):
    if _libc.setns(fd, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


class Namespace:
    """A named network namespace: made on entry, removed (with every veth in it) on exit."""

    def __init__(self, name):
        self.name = name
        self.path = f"/run/netns/{name}"

    def __enter__(self):
        ip("netns", "add", self.name)
        try:
            with self.entered():
                # Quiet links: no DAD delay, no router solicitations, no MLD for temporary addresses.
                for path, value in (("ipv6/conf/default/accept_dad", 0), ("ipv6/conf/default/router_solicitations", 0),
                                    ("ipv6/conf/default/accept_ra", 0), ("ipv4/conf/all/rp_filter", 0),
                                    ("ipv4/conf/default/rp_filter", 0)):
                    with open(f"/proc/sys/net/{path}", "w", encoding="ascii") as f:
                        f.write(str(value))
            ip("link", "set", "lo", "up", ns=self)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_exc):
        ip("netns", "del", self.name, check=False)

    def enter_argv(self):
        """Words that run the command after them in this namespace, with bpffs still in sight."""
        return ["nsenter", f"--net={self.path}"]

    def run(self, *argv, timeout_s=20, **kw):
        """Runs a command here; returns the CompletedProcess with text output, whatever the exit code."""
        return subprocess.run(self.enter_argv() + [str(a) for a in argv], capture_output=True, text=True,
                              timeout=timeout_s, **kw)

    @contextlib.contextmanager
    def entered(self):
        """The calling thread is in this namespace inside the block; sockets made there stay there."""
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        there = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _setns(there)
            try:
                yield self
            finally:
                _setns(home)
        finally:
            os.close(there)
            os.close(home)

    def socket(self, family=socket.AF_INET, kind=socket.SOCK_DGRAM, proto=0):
        with self.entered():
            return socket.socket(family, kind, proto)

    def http_get(self, path, port, host="127.0.0.1", timeout_s=5):
        """One GET from inside the namespace: (status, body)."""
        conn = http.client.HTTPConnection(host, port, timeout=timeout_s)
        conn.sock = self.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            conn.sock.settimeout(timeout_s)
            conn.sock.connect((host, port))
            conn.request("GET", path)
            reply = conn.getresponse()
            return reply.status, reply.read().decode()
        finally:
            conn.close()

    def link(self, ifname):
        """What `ip -d link show` says of an interface, as a dict."""
        return json.loads(ip("-d", "-j", "link", "show", "dev", ifname, ns=self))[0]

    def mac(self, ifname):
        return self.link(ifname)["address"]

    def listening(self):
        """Local addresses of the listening TCP sockets here."""
        return re.findall(r"^LISTEN\s+\S+\s+\S+\s+(\S+)", self.run("ss", "-Hltn").stdout, re.M)


def veth(ns_a, name_a, addrs_a, ns_b, name_b, addrs_b):
    """A veth pair with one end in each namespace, addresses given as "addr/len", both ends up."""
    ip("link", "add", "name", name_a, "netns", ns_a.name, "type", "veth", "peer", "name", name_b, "netns", ns_b.name)
    for ns, name, addrs in ((ns_a, name_a, addrs_a), (ns_b, name_b, addrs_b)):
        for addr in addrs:
            ip("address", "add", addr, "dev", name, *(["nodad"] if ":" in addr else []), ns=ns)
        ip("link", "set", name, "up", ns=ns)


def sweep(prefix="lgt-"):
    """Removes namespaces, pins and state of test runs that were killed: names `<prefix><pid>-...` whose pid is gone."""
    from . import PINS, RUN
    for folder, remove in (("/run/netns", lambda n: ip("netns", "del", n, check=False)), (PINS, remove_pins),
                           (RUN, lambda n: subprocess.run(["rm", "-rf", os.path.join(RUN, n)], check=False))):
        for name in os.listdir(folder) if os.path.isdir(folder) else []:
            m = re.match(re.escape(prefix) + r"(\d+)-", name)
            if m and not os.path.exists(f"/proc/{m[1]}"):
                remove(name)


def remove_pins(instance):
    """Removes whatever is pinned for an instance, without the tool."""
    from . import PINS
    for folder, _dirs, files in os.walk(os.path.join(PINS, instance), topdown=False):
        for f in files:
            os.unlink(os.path.join(folder, f))
        os.rmdir(folder)
