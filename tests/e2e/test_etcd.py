# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A region's server and its etcd cluster: the cluster may come late, go for a while, lose members; what is said when it is not there."""
import pytest
from lib import law
from lib.certs import Certs
from lib.daemon import Instance
from lib.fleet import LEASE_PORT, fleet, rules_of
from lib.host import HOST, Host, fresh_name
from lib.wait import until

S = 1_000_000_000
LIMIT, WINDOW_S = 2000, 4
RULES = rules_of(LIMIT, WINDOW_S)


def assert_law(got):
    worst, at_ns = law.worst_window(sorted(got.stamps_ns), WINDOW_S * S)
    assert worst <= LIMIT, f"{worst} packets in the {WINDOW_S} s up to {at_ns} ns, {LIMIT} are allowed"


@pytest.mark.long
def test_the_cluster_may_come_late_and_go_for_a_while():
    """Without a majority nobody is lent anything new; all is well again by itself when it is back."""
    with fleet(RULES, 1, 3) as f, f.host.receiver() as got:
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
            until(lambda: "cannot be certain to own its slots" in f.daemons[0].stderr, "the server cannot be sure to own anything", 20)
            f.etcd.start(0)
            f.etcd.start(1)
            until(lambda: f.daemons[0].lines.count("leasegated: info: ready") == 2, "it lends again", 30)
            seen = got.n
            until(lambda: got.n > seen + LIMIT // 2, "packets are let in", 20)
        assert_law(got)


@pytest.mark.long
def test_members_of_the_cluster_die_in_turn_and_nobody_notices():
    with fleet(RULES, 2, 3) as f, f.host.receiver() as got:
        f.start()
        f.host.instance.node()
        with f.host.sender(1.5 * LIMIT / WINDOW_S):
            for i in range(3):
                f.etcd.kill(i)
                seen = got.n
                until(lambda: got.n > seen + LIMIT // 2, "packets are let in", 20)
                f.etcd.start(i)
                until(lambda: f.etcd.ctl("endpoint", "health").returncode == 0, "the cluster is whole", 30, every_s=0.2)
        assert_law(got)
        assert sum(d.lines.count("leasegated: info: ready") for d in f.daemons) <= 4


@pytest.mark.long
def test_the_way_to_the_cluster_is_encrypted():
    with Certs() as certs, fleet(RULES, 2, 1, certs) as f, f.host.receiver() as got:
        f.start()
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
