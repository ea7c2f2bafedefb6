# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""More keys than the table holds: newcomers share overflow buckets, which are limited and leased like any key."""
import contextlib
import socket

import pytest
from lib.host import HOST, PORT
from lib.net import ip
from lib.traffic import udp_frame
from lib.wait import until

N_KEYS = 16			# entries of the host's table
ONE_REGION = {"version": 1, "list": [{"name": "here", "address": "127.0.0.1:7400", "hosts": 1}]}


def rule(scope, limit, burst):
    return ("rules:\n"
            "  - name: per-source\n"
            f"    scope: {scope}\n"
            f"    match: {{protocol: udp, destination_port: [{PORT}]}}\n"
            "    key: {source: 32}\n"
            "    table: exact\n"
            "    unit: packets\n"
            "    algorithm: token_bucket\n"
            f"    limit: {limit}\n"
            f"    burst: {burst}\n")


@contextlib.contextmanager
def raw(host):
    """send(source, n): n packets that claim to come from an address."""
    with contextlib.closing(host.client.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)) as s:
        s.bind(("up0", 0))

        def send(source, n):
            frame = udp_frame(host.client.mac("up0"), host.ns.mac("in0"), source, (HOST[4], PORT))
            for _ in range(n):
                s.send(frame)

        yield send


def fill_table(host, send):
    for i in range(N_KEYS):
        send(f"10.90.1.{i + 1}", 1)
    until(lambda: host.instance.json("status")["kernel"]["keys"] == N_KEYS, "the table is full")


def overflow_keys(host):
    return [k for k in host.instance.json("keys", "--limit", "0") if k["form"] == "overflow"]


@pytest.mark.parametrize("hook", ["xdp", "tc"])
def test_newcomers_to_a_full_table_share_a_limit(host, hook):
    burst = 10
    host.start(rule("host", "1/1h", burst), hook, max_keys=N_KEYS)
    with raw(host) as send:
        fill_table(host, send)
        # Sources of one /24 share one overflow bucket: forty of them get what one key gets.
        for i in range(40):
            send(f"10.90.2.{i + 1}", 5)
        until(lambda: host.instance.seen("per-source") == N_KEYS + 200, "all packets were judged")
    assert host.instance.counts("per-source") == {"admitted": N_KEYS + burst, "limit": 200 - burst}
    assert [k["spent_tok"] for k in overflow_keys(host)] == [burst]
    assert host.instance.json("status")["kernel"]["keys"] == N_KEYS


def test_overflow_buckets_of_a_global_rule_are_leased(host):
    ip("link", "set", "lo", "up", ns=host.ns)
    host.instance.write("rules.yaml", rule("global", "100000/1m", 10000))
    host.instance.config("region.yaml", region="here", regions=ONE_REGION, rules="rules.yaml", metrics="off")
    region = host.instance.daemon("region", host.instance.path("region.yaml")).start().wait_ready()
    host.start(rule("global", "100000/1m", 10000), max_keys=N_KEYS, region="here", regions=ONE_REGION, name="h1")
    until(lambda: host.instance.json("status")["node"]["upstream"]["state"] == "up", "the region is reached")
    with raw(host) as send:
        fill_table(host, send)

        def served():
            send("10.90.2.1", 1)
            return any(k["granted_tok"] for k in overflow_keys(host)) and \
                host.instance.counts("per-source").get("admitted", 0) > 0

        until(served, "newcomers are lent tokens")
        before = host.instance.counts("per-source")["admitted"]
        until(lambda: send("10.90.2.2", 1) or host.instance.counts("per-source")["admitted"] > before,
              "a newcomer's packet is admitted")
    upstream = host.instance.json("status")["node"]["upstream"]
    assert (upstream["state"], upstream["connects"]) == ("up", 1), "the region ended the stream"
    assert region.alive
