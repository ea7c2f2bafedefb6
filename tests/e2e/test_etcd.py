# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Servers of a region that share an etcd cluster: one leads, another takes over, and no token is lent twice, whatever dies.

Both servers are told the same address; who leads opens it.
"""
import contextlib
import os
import signal
import time

import pytest
from lib import law
from lib.certs import Certs
from lib.daemon import Instance
from lib.etcd import Etcd
from lib.host import HOST, Host, fresh_name
from lib.wait import until

S = 1_000_000_000
LIMIT, WINDOW_S = 2000, 4
LEASE_PORT = 7400
TAKEN_OVER_S = 3	# from the death of a leader to the first grant of the next
RULES = f"""rules:
  - name: per-user
    scope: global
    class: lease
    match: {{protocol: udp}}
    key: {{source: 32}}
    unit: packets
    algorithm: sliding_window
    limit: {LIMIT}/{WINDOW_S}s
    fallback: deny
"""


class Fleet:
    """A host that is sent packets, an etcd cluster, and two servers of its region."""

    def __init__(self, host, etcd, stack, certs=None):
        self.host, self.etcd = host, etcd
        self.servers = [stack.enter_context(Instance(host.ns, fresh_name(f"server{i}"))) for i in range(2)]
        listed = {"version": 1, "list": [{"name": "here", "address": f"127.0.0.1:{LEASE_PORT}", "hosts": 1}]}
        more = {"etcd": {"endpoints": etcd.endpoints}}
        node = {}
        if certs:
            more = {"etcd": {"endpoints": etcd.endpoints, "tls": "on"}, "tls": certs.region("here")}
            node = {"tls": certs.node("here", "host-1")}
        for i, server in enumerate(self.servers):
            server.write("rules.yaml", RULES)
            server.config("region.yaml", region="here", regions=listed, rules="rules.yaml", store="etcd", metrics=f"127.0.0.1:{9500 + i}",
                          **more)
        self.daemons = [server.daemon("region", server.path("region.yaml")) for server in self.servers]
        host.configure(RULES, name="host-1", region="here", regions=listed, **node)

    def lead_first(self):
        self.daemons[0].start().wait_ready()
        self.daemons[1].start()
        until(lambda: "takes over when it is gone" in self.daemons[1].stderr, "the second server waits")
        return self

    def tell(self):
        for d in self.daemons:
            print(f"--- leasegated region\n{d.stderr}")


@contextlib.contextmanager
def fleet(n_members=3, certs=None):
    with Host() as host, Etcd(host.ns, n_members, certs) as etcd, contextlib.ExitStack() as stack:
        f = Fleet(host, etcd, stack, certs)
        try:
            yield f
        finally:
            f.tell()


def assert_law(got):
    worst, at_ns = law.worst_window(sorted(got.stamps_ns), WINDOW_S * S)
    assert worst <= LIMIT, f"{worst} packets in the {WINDOW_S} s up to {at_ns} ns, {LIMIT} are allowed"


def granted(f, i):
    """Tokens that a server has granted to its host."""
    return sum(k["granted_tok"] for k in f.servers[i].json("leases")["region"])


@pytest.mark.alone
def test_a_leader_is_killed_and_the_next_one_lends_what_is_left():
    with fleet(1) as f, f.host.receiver() as got:
        f.lead_first()
        f.host.instance.node()
        with f.host.sender(1.5 * LIMIT / WINDOW_S):
            until(lambda: got.n > LIMIT // 4, "packets are let in")
            f.daemons[0].kill()
            killed_ns = time.monotonic_ns()
            until(lambda: granted(f, 1) > 0, "the next leader grants", 20)
            took_s = (time.monotonic_ns() - killed_ns) / S
            seen = got.n
            until(lambda: got.n > seen + LIMIT // 2, "packets are let in", 20)
        assert took_s <= TAKEN_OVER_S, f"it took {took_s:.1f} s"
        assert_law(got)


@pytest.mark.long
def test_a_leader_that_was_stopped_lends_nothing_when_it_goes_on():
    with fleet() as f, f.host.receiver() as got:
        f.lead_first()
        f.host.instance.node()
        with f.host.sender(1.5 * LIMIT / WINDOW_S):
            until(lambda: got.n > LIMIT // 4, "packets are let in")
            os.kill(f.daemons[0].pid, signal.SIGSTOP)
            # The other one leads; it has no door, as the stopped one still holds it.
            until(lambda: "process uses the port" in f.daemons[1].stderr, "the next leader wants to open its door", 20)
            os.kill(f.daemons[0].pid, signal.SIGCONT)
            until(lambda: "leads no longer" in f.daemons[0].stderr, "the old leader knows that it is over")
            f.daemons[1].start()
            until(lambda: any(d.lines.count("leasegated: info: ready") for d in f.daemons), "somebody leads", 20)
            seen = got.n
            until(lambda: got.n > seen + LIMIT // 2, "packets are let in", 20)
        assert_law(got)


@pytest.mark.long
def test_the_cluster_may_come_late_and_go_for_a_while():
    """Without a majority nobody is lent anything new; all is well again by itself when it is back."""
    with fleet() as f, f.host.receiver() as got:
        for i in range(3):
            f.etcd.kill(i)
        f.daemons[0].start()
        f.host.instance.node()
        until(lambda: f.servers[0].json("status") is not None, "the server answers")
        for i in range(3):
            f.etcd.start(i)
        f.daemons[0].wait_ready(30)
        with f.host.sender(1.5 * LIMIT / WINDOW_S):
            until(lambda: got.n > LIMIT // 4, "packets are let in")
            f.etcd.kill(0)
            f.etcd.kill(1)
            until(lambda: "leads no longer" in f.daemons[0].stderr, "the leader cannot be sure to lead", 20)
            f.etcd.start(0)
            f.etcd.start(1)
            until(lambda: f.daemons[0].lines.count("leasegated: info: ready") == 2, "it leads again", 30)
            seen = got.n
            until(lambda: got.n > seen + LIMIT // 2, "packets are let in", 20)
        assert_law(got)


@pytest.mark.long
def test_members_of_the_cluster_die_in_turn_and_nobody_notices():
    with fleet() as f, f.host.receiver() as got:
        f.lead_first()
        f.host.instance.node()
        with f.host.sender(1.5 * LIMIT / WINDOW_S):
            for i in range(3):
                f.etcd.kill(i)
                seen = got.n
                until(lambda: got.n > seen + LIMIT // 2, "packets are let in", 20)
                f.etcd.start(i)
                until(lambda: f.etcd.ctl("endpoint", "health").returncode == 0, "the cluster is whole", 30, every_s=0.2)
        assert_law(got)
        assert sum(d.lines.count("leasegated: info: ready") for d in f.daemons) <= 2


@pytest.mark.long
def test_the_way_to_the_cluster_is_encrypted():
    with Certs() as certs, fleet(1, certs) as f, f.host.receiver() as got:
        f.lead_first()
        f.host.instance.node()
        with f.host.sender(1.5 * LIMIT / WINDOW_S):
            until(lambda: got.n > LIMIT // 4, "packets are let in")
        assert_law(got)


def test_a_cluster_that_is_named_wrongly_is_said():
    with Host() as host, Instance(host.ns, fresh_name("server")) as server:
        server.write("rules.yaml", RULES)
        listed = {"version": 1, "list": [{"name": "here", "address": f"127.0.0.1:{LEASE_PORT}", "hosts": 1}]}
        server.config("region.yaml", region="here", regions=listed, rules="rules.yaml", store="etcd")
        d = server.daemon("region", server.path("region.yaml")).start()
        assert d.wait_exit() == 1
        assert "etcd needs the key `etcd`" in d.stderr
        server.config("region.yaml", region="here", regions=listed, rules="rules.yaml", store="etcd",
                      etcd={"endpoints": ["127.0.0.1:1"]})
        d = server.daemon("region", server.path("region.yaml")).start()
        until(lambda: host.ns.http_get("/readyz", 9465)[0] == 503, "it is not ready")
        until(lambda: "127.0.0.1:1" in host.ns.http_get("/readyz", 9465)[1], "it says whom it cannot reach")
        assert d.alive and HOST
