# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A limit of one host holds for real packets: what arrives behind it, and what the kernel says it let through."""
import contextlib
import ipaddress
import itertools
import json
import subprocess
import time

import pytest
from lib import law
from lib.daemon import Instance
from lib.host import CLIENT, HOST, PORT, fresh_name
from lib.net import Namespace, ip, veth
from lib.prom import Page
from lib.traffic import FrameReceiver, FrameSender, udp_frame
from lib.wait import until

S = 1_000_000_000
HEADERS = {4: 14 + 20 + 8, 6: 14 + 40 + 8}		# Ethernet, IP, UDP


def half(*choices):
    """All combinations of two choices each. Half of them, in which every pair of choices meets, are quick; the rest are `long`."""
    return [pytest.param(*(c[i] for c, i in zip(choices, at)), marks=[pytest.mark.long] if sum(at) % 2 else [])
            for at in itertools.product((0, 1), repeat=len(choices))]


def bucket_rule(limit, burst, unit="packets", **more):
    if unit == "bytes":		# amounts of bytes need a unit
        amount, per = limit.split("/")
        limit, burst = f"{amount}B/{per}", f"{burst}B"
    lines = "".join(f"    {k}: {v}\n" for k, v in more.items())
    return ("rules:\n"
            "  - name: per-source\n"
            "    scope: host\n"
            f"    match: {{protocol: udp, destination_port: [{PORT}]}}\n"
            "    key: {source: 32}\n"
            f"    unit: {unit}\n"
            "    algorithm: token_bucket\n"
            f"    limit: {limit}\n"
            f"    burst: {burst}\n" + lines)


@pytest.mark.parametrize("hook, family, unit", half(["xdp", "tc"], [4, 6], ["packets", "bytes"]))
def test_a_token_bucket_admits_burst_plus_rate_times_time_and_not_more(host, hook, family, unit):
    payload = b"x" * (200 - HEADERS[family])
    cost = 200 if unit == "bytes" else 1
    rate, burst = 1000 * cost, 100 * cost
    key = "{source: 32}" if family == 4 else "{source: 128}"
    table = "exact" if family == 4 else "lines"
    host.start(bucket_rule(f"{rate}/1s", burst, unit, table=table).replace("{source: 32}", key), hook)
    with host.receiver(family) as got:
        start_ns = time.monotonic_ns()
        with host.sender(3000, family, payload) as sent:
            time.sleep(2)
        counts = until(lambda: agreed(host, got), "the kernel's count of admitted packets is what arrived")
        end_ns = time.monotonic_ns()
    admitted_tok = got.n * cost
    assert admitted_tok <= law.token_bucket_most(burst, rate, S, end_ns - start_ns)
    perfect_tok = law.token_bucket_perfect(sent.sent_ns, burst, rate, S, cost)
    assert admitted_tok >= 0.97 * perfect_tok
    assert counts["limit"] > 0 and sum(counts.values()) <= sent.n_sent
    if table == "lines":
        return
    bucket = host.instance.key(CLIENT[family])
    assert bucket["spent_tok"] == admitted_tok
    assert bucket["denied_tok"] == counts["limit"] * cost


def agreed(host, got):
    """The rule's counts, once nothing is on its way any more."""
    counts = host.instance.counts("per-source")
    return counts if counts.get("admitted", 0) == got.n else None


@pytest.mark.parametrize("hook", ["xdp", "tc"])
@pytest.mark.parametrize("burst", [1, 50])
def test_a_burst_admits_exactly_its_size(host, hook, burst):
    host.start(bucket_rule("1/1h", burst), hook)
    with host.receiver() as got, contextlib.closing(host.sender(0)) as sender:
        sender.burst(burst)
        until(lambda: got.n == burst, "the whole burst arrives")
        sender.burst(150)
        until(lambda: host.instance.seen("per-source") == burst + 150, "all packets were judged")
        assert host.instance.counts("per-source") == {"admitted": burst, "limit": 150}
    assert got.n == burst


@pytest.mark.parametrize("hook", ["xdp", "tc"])
def test_each_source_has_a_bucket_of_its_own_and_other_ports_have_none(host, hook):
    ip("address", "add", "10.90.0.9/24", "dev", "up0", ns=host.client)
    host.start(bucket_rule("1/1h", 10), hook)
    with host.receiver() as got, host.receiver(port=PORT + 1) as other, \
            contextlib.closing(host.sender(0)) as a, contextlib.closing(host.sender(0, source="10.90.0.9")) as b, \
            contextlib.closing(host.sender(0, port=PORT + 1)) as unmatched:
        for sender in (a, b, unmatched):
            sender.burst(60)
        until(lambda: host.instance.seen("per-source") == 120, "all packets were judged")
        until(lambda: other.n == 60, "packets to a port without a rule arrive")
    assert got.n == 20
    assert {k["key"]: k["spent_tok"] for k in host.instance.json("keys")} == {CLIENT[4]: 10, "10.90.0.9": 10}


@pytest.mark.parametrize("table", ["exact", "lines"])
def test_the_source_of_a_flood_comes_first_among_the_keys_denied_most(host, table):
    others = [f"10.90.0.{i}" for i in range(20, 32)]
    for address in [*others, "10.90.0.33"]:
        ip("address", "add", f"{address}/24", "dev", "up0", ns=host.client)
    host.start(bucket_rule("1/1h", 10, table=table))
    with contextlib.ExitStack() as stack:
        sender = {a: stack.enter_context(contextlib.closing(host.sender(0, source=a))) for a in [CLIENT[4], *others]}
        for i, address in enumerate(others):
            sender[CLIENT[4]].burst(100)
            sender[address].burst(11 + i)
        until(lambda: host.instance.seen("per-source") == 1200 + sum(range(11, 23)), "all packets were judged")
    denied = [(CLIENT[4], 1190), *((a, 1 + i) for i, a in reversed(list(enumerate(others))))]
    found = host.instance.json("keys", "--top", "5")
    assert [(k["key"], k["denied_tok"]) for k in found] == denied[:5]
    assert [(k["key"], k["denied_tok"]) for k in host.instance.json("keys", "--by", "denied")] == denied
    lines = host.instance.tool("keys", "--top", "2").stdout.splitlines()
    assert lines[1].split()[1] == CLIENT[4] and lines[2].split()[1] == others[-1] and lines[3].startswith("... and 11 more (--top 0")
    by_address = sorted([CLIENT[4], *others], key=ipaddress.ip_address)
    assert [k["key"] for k in host.instance.json("keys", "--top", "3", "--by", "spent")] == by_address[:3]
    assert "neither denied nor spent" in host.instance.tool("keys", "--by", "size").stderr
    # Whose a place in lines is, its second packet tells.
    n_known = len(host.instance.json("keys"))
    with contextlib.closing(host.sender(0, source="10.90.0.33")) as once:
        once.burst(1)
        until(lambda: host.instance.seen("per-source") == 1201 + sum(range(11, 23)), "one more was judged")
        unnamed = ["1 more in lines sent a single packet so far, and are known from the second on"] if table == "lines" else []
        assert len(host.instance.json("keys")) == n_known + 1 - len(unnamed)
        assert host.instance.tool("keys").stdout.splitlines()[n_known + 2 - len(unnamed):] == unnamed
        once.burst(1)
        until(lambda: len(host.instance.json("keys")) == n_known + 1, "it is known")


def test_keys_in_lines_are_listed_with_what_they_have_left_and_leave_by_themselves(host):
    ip("address", "add", "10.90.0.9/24", "dev", "up0", ns=host.client)
    host.start(bucket_rule("10/1s", 20, keys=1000))
    with contextlib.closing(host.sender(0)) as a, contextlib.closing(host.sender(0, source="10.90.0.9")) as b:
        a.burst(60)
        b.burst(1)
        until(lambda: host.instance.seen("per-source") == 61, "all packets were judged")
    a, = host.instance.json("keys", "--rule", "per-source", "--source", CLIENT[4])
    assert (a["kind"], a["form"], a["burst_tok"], a["rate_tok"], a["seen_ago_ms"]) == ("line", "source", 20, 10, None)
    assert 0 < a["spent_tok"] <= 20 and a["left_tok"] in (20 - a["spent_tok"], 21 - a["spent_tok"])
    assert host.instance.tool("keys").stdout.split()[8:11:2] == ["per-source", "line"]
    page = Page(host.ns.http_get("/metrics", 9464)[1])
    assert page.get("leasegate_line_keys_max", rule="per-source") == 1024
    assert page.get("leasegate_line_keys", rule="per-source") in (1, 2)
    assert page.get("leasegate_keys") == 0
    until(lambda: host.instance.json("keys") == [], "both buckets are full again, and their places free")
    assert Page(host.ns.http_get("/metrics", 9464)[1]).get("leasegate_line_keys", rule="per-source") == 0


@contextlib.contextmanager
def bridged():
    """client --- in0 [host: bridge] out0 --- far: tagged frames that the host lets in come out at the far end.

    A host without VLAN devices has no socket that takes a tagged frame, but a bridge forwards it, and only after both hooks.
    """
    with contextlib.ExitStack() as stack:
        client, host, far = (stack.enter_context(Namespace(fresh_name(n))) for n in ("client", "host", "far"))
        veth(client, "up0", [], host, "in0", [])
        veth(host, "out0", [], far, "down0", [])
        ip("link", "add", "br0", "type", "bridge", "forward_delay", "0", ns=host)
        for port in ("in0", "out0"):
            ip("link", "set", port, "master", "br0", ns=host)
        ip("link", "set", "br0", "up", ns=host)
        until(lambda: "state forwarding" in host.run("bridge", "link", "show", "dev", "out0").stdout, "the bridge forwards")
        yield client, stack.enter_context(Instance(host, fresh_name("vlan"))), far


@pytest.mark.parametrize("hook, family, vlans, unit", half(["xdp", "tc"], [4, 6], [(100,), (7, 100)], ["packets", "bytes"]))
def test_tagged_frames_are_limited_and_charged_with_their_tags(hook, family, vlans, unit):
    with bridged() as (client, instance, far):
        frame = udp_frame(client.mac("up0"), far.mac("down0"), CLIENT[family], (HOST[family], PORT), vlans,
                          b"x" * (180 - HEADERS[family]))
        assert len(frame) == 180 + 4 * len(vlans)
        cost = len(frame) if unit == "bytes" else 1
        key = "{source: 32}" if family == 4 else "{source: 128}"
        rules = instance.write("rules.yaml", bucket_rule("1/1h", 50 * cost, unit, table="exact").replace("{source: 32}", key))
        at = {"name": "in0", "xdp": "native", "tc": "off"} if hook == "xdp" else {"name": "in0", "xdp": "off", "tc": "on"}
        instance.node(instance.config(rules=rules, interfaces=[at]))
        with FrameReceiver(far, "down0", PORT) as got, \
                contextlib.closing(FrameSender(client, "up0", 0, frame)) as sender:
            sender.burst(200)
            until(lambda: instance.seen("per-source") == 200, "all frames were judged")
            until(lambda: got.n >= 50, "the admitted frames arrive")
            assert instance.counts("per-source") == {"admitted": 50, "limit": 150}
        assert got.n == 50
        bucket = instance.key(CLIENT[family])
        assert (bucket["spent_tok"], bucket["denied_tok"]) == (50 * cost, 150 * cost)


def test_a_shadow_rule_counts_what_it_would_deny_and_denies_nothing(host):
    host.start(bucket_rule("1/1h", 10, shadow="true"))
    with host.receiver() as got, contextlib.closing(host.sender(0)) as sender:
        sender.burst(60)
        until(lambda: got.n == 60, "all packets arrive")
    assert host.instance.counts("per-source") == {"admitted": 10, "shadow": 50}


def test_of_two_rules_the_tighter_one_bites_and_its_denials_charge_the_other_nothing(host):
    wide = bucket_rule("1/1h", 100).replace("per-source", "wide").replace("{source: 32}", "{source: 24}")
    host.start(bucket_rule("1/1h", 10) + wide.removeprefix("rules:\n"))
    with host.receiver() as got, contextlib.closing(host.sender(0)) as sender:
        sender.burst(60)
        until(lambda: host.instance.seen("per-source") == 60, "all packets were judged")
    assert got.n == 10
    assert host.instance.counts("per-source") == {"admitted": 10, "limit": 50}
    spent = {k["rule"]: k["spent_tok"] for k in host.instance.json("keys")}
    assert spent == {"per-source": 10, "wide": 10}


@pytest.mark.parametrize("hook", ["xdp", "tc"])
def test_neighbours_are_found_while_the_limit_is_nothing(host, hook):
    rules = ("rules:\n"
             "  - name: nothing\n"
             "    scope: host\n"
             "    limit: 0/1s\n")
    host.start(rules, hook)
    for family in (4, 6):
        ip(f"-{family}", "neigh", "flush", "dev", "up0", "nud", "permanent", ns=host.client)
        ip(f"-{family}", "neigh", "del", HOST[family], "dev", "up0", ns=host.client, check=False)
        with contextlib.closing(host.sender(0, family)) as sender:
            def resolved(sender=sender, family=family):
                sender.burst(1)
                shown = ip(f"-{family}", "neigh", "show", HOST[family], "dev", "up0", ns=host.client)
                return host.ns.mac("in0") in shown
            until(resolved, f"the client learns the host's address over IPv{family}")
        with host.receiver(family) as got, contextlib.closing(host.sender(0, family)) as sender:
            before = host.instance.seen("nothing")
            sender.burst(20)
            until(lambda before=before: host.instance.seen("nothing") >= before + 20, "all packets were judged")
        assert got.n == 0


def cold_start(host, hook):
    """Starts a node whose rule lets each key start with two tokens, and whose region is down. The limit is back after five seconds."""
    rules = bucket_rule("1000/1s", 5000).replace("scope: host", "scope: global") + "    fallback: deny\n    lease: {cold_start: 2}\n"
    nobody = {"version": 1, "list": [{"name": "here", "address": "127.0.0.1:7400", "hosts": 3}]}
    return host.start(rules, hook, name="here-1", region="here", regions=nobody)


def counted(host, n, family=4):
    """What became of n more packets."""
    before = host.instance.counts("per-source")
    with contextlib.closing(host.sender(0, family)) as sender:
        sender.burst(n)
        until(lambda: host.instance.seen("per-source") == sum(before.values()) + n, "all packets were judged")
    return {r: c - before.get(r, 0) for r, c in host.instance.counts("per-source").items() if c > before.get(r, 0)}


@pytest.mark.parametrize("hook", ["xdp", "tc"])
def test_a_new_key_spends_its_cold_start_while_its_region_is_down_and_then_waits_for_a_lease(host, hook):
    daemon = cold_start(host, hook)
    assert counted(host, 1) == {"admitted": 1}
    assert counted(host, 1) == {"admitted": 1}
    assert counted(host, 3) == {"unreachable": 3}
    daemon.kill()
    host.instance.node()
    assert counted(host, 1) == {"unreachable": 1}
    assert counted(host, 3, family=6) == {"admitted": 2, "unreachable": 1}


def test_a_host_that_has_lost_its_maps_has_a_cold_start_again_only_after_a_span(host):
    cold_start(host, "xdp").stop()
    lost_s = time.monotonic()
    assert host.instance.tool("detach").returncode == 0
    host.instance.node()
    at_once = counted(host, 1)
    slow = time.monotonic() - lost_s > 5		# a machine so busy that the span was over
    assert slow or at_once == {"unreachable": 1}

    def started_with():
        dump = subprocess.run(["bpftool", "-j", "map", "dump", "pinned", f"{host.instance.maps}/rules"], capture_output=True,
                              text=True, timeout=20, check=True)
        return {e["formatted"]["value"]["rules"][0]["cold_start_tok"] for e in json.loads(dump.stdout)}
    until(lambda: 2 in started_with(), "keys may start with something again", timeout_s=20)
    assert slow or counted(host, 1) == {"unreachable": 1}
    assert counted(host, 3, family=6) == {"admitted": 2, "unreachable": 1}
