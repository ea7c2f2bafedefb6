# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""An instance through its life: maps that do not fit, a newer build and back, an agent that is dead for good, and one that dies again and
again while packets run."""
import contextlib
import os
import random
import re
import subprocess
import time

import pytest
from lib import BUILD, law
from lib.daemon import abi_version
from lib.host import CLIENT, PORT
from lib.prom import Page
from lib.wait import until
from test_limits import S, bucket_rule
from test_refusals import REFUSED, refused


def bpftool(*argv):
    subprocess.run(["bpftool", *argv], check=True, capture_output=True)


def test_a_map_that_does_not_fit_is_named_and_can_be_carried_over_while_limits_go_on(host):
    """A map of another size under the name of ours: enforcement goes on, the start is refused, with --migrate all else is as it was."""
    node = host.start(bucket_rule("1/1h", 50, table="exact"))
    link = host.instance.json("status")["attachments"]
    with host.receiver() as got, contextlib.closing(host.sender(0)) as sender:
        sender.burst(30)
        until(lambda: host.instance.seen("per-source") == 30, "all packets were judged")
        node.kill()
        pin = os.path.join(host.instance.maps, "shared")
        os.unlink(pin)
        bpftool("map", "create", pin, "type", "array", "key", "4", "value", "24", "entries", "1", "name", "shared")
        refused(host, REFUSED, "'shared'", "value size 24, needed ", "--migrate", "--discard-state")
        sender.burst(30)
        until(lambda: got.n == 50, "the programs that were there go on")
        host.instance.node(args=["--migrate"])
        assert host.instance.json("status")["attachments"][0]["link_id"] == link[0]["link_id"]
        assert host.instance.key(CLIENT[4])["spent_tok"] == 50
        sender.burst(30)
        until(lambda: host.instance.seen("per-source") == 90, "packets are judged by the new programs")
    assert got.n == 50
    assert sorted(os.listdir(host.instance.pins)) == ["links", f"v{abi_version()}"]


@pytest.mark.long
def test_other_firewalls_may_be_flushed(host):
    host.start(bucket_rule("1/1h", 50, table="exact"), "tc")
    link = host.instance.json("status")["attachments"]
    with host.receiver() as got, contextlib.closing(host.sender(0)) as sender:
        sender.burst(30)
        until(lambda: host.instance.seen("per-source") == 30, "all packets were judged")
        for flush in (["nft", "flush", "ruleset"], ["iptables", "-F"], ["ip6tables", "-F"]):
            done = host.ns.run(*flush)
            assert done.returncode == 0, done.stderr
        sender.burst(30)
        until(lambda: host.instance.seen("per-source") == 60, "all packets were judged")
        until(lambda: got.n == 50, "what is admitted arrives")
    assert host.instance.json("status")["attachments"] == link


# ---- an agent that is dead for good ----

FALLBACKS = {"deny": PORT, "share": PORT + 1, "closed": PORT + 2, "open": PORT + 3}
LIMIT_PPS = 400


def leased_rules():
    return "rules:\n" + "".join(
        f"  - name: {name}\n    scope: global\n    match: {{protocol: udp, destination_port: {port}}}\n    key: {{source: 32}}\n"
        f"    limit: {LIMIT_PPS}/1s\n    burst: {LIMIT_PPS}\n    fallback: {name}\n" for name, port in FALLBACKS.items())


@pytest.mark.long
def test_with_the_agent_dead_leases_drain_and_then_each_rule_falls_back_as_it_says(host):
    """No process of ours is left. Half a minute is longer than any lease lives."""
    listed = {"version": 1, "list": [{"name": "here", "address": "127.0.0.1:7400", "hosts": 1}]}
    host.instance.write("rules.yaml", leased_rules())
    host.instance.config("region.yaml", region="here", regions=listed, listen="127.0.0.1:7400", rules="rules.yaml", store="memory")
    host.instance.daemon("region", host.instance.path("region.yaml")).start().wait_ready()
    host.start(leased_rules(), name="here-1", region="here", regions=listed)
    with contextlib.ExitStack() as stack:
        got = {f: stack.enter_context(host.receiver(port=port)) for f, port in FALLBACKS.items()}
        for port in FALLBACKS.values():
            stack.enter_context(host.sender(200, port=port))
        until(lambda: all(g.n > 200 for g in got.values()), "all rules are served by leases", timeout_s=20)
        died_ns = time.monotonic_ns()
        for d in host.instance.daemons:
            d.process.kill()
        at_death = {f: g.n for f, g in got.items()}
        for d in host.instance.daemons:
            d.wait_exit()
        until(lambda: all(got[f].n > at_death[f] for f in FALLBACKS), "what was leased is spent")
        until(lambda: time.monotonic_ns() > died_ns + 32 * S, "every lease has ended", timeout_s=40)
        start_ns, before = time.monotonic_ns(), {f: g.n for f, g in got.items()}
        until(lambda: time.monotonic_ns() > start_ns + 5 * S, "five seconds of fallback")
        took_ns = time.monotonic_ns() - start_ns
        after = {f: g.n - before[f] for f, g in got.items()}
        counts = {f: host.instance.counts(f) for f in FALLBACKS}
    assert after["deny"] == 0 and after["closed"] == 0, after
    assert after["open"] >= 0.95 * 200 * took_ns / S, after
    assert 0 < after["share"] <= law.token_bucket_most(LIMIT_PPS, LIMIT_PPS, S, took_ns), after
    assert counts["open"]["fallback"] > 0 and counts["share"]["fallback"] > 0
    assert "fallback" not in counts["deny"] and "fallback" not in counts["closed"]
    for f in ("deny", "closed"):
        assert at_death[f] + LIMIT_PPS + 12 * LIMIT_PPS >= before[f], "no more than the lease was spent"


# ---- an agent that dies again and again ----

RATE, BURST = 500, 250


def samples(host):
    status, body = host.ns.http_get("/metrics", 9464)
    assert status == 200
    return Page(body)


@pytest.mark.long
def test_no_counter_steps_back_over_ten_restarts_under_traffic(host):
    node = host.start(bucket_rule(f"{RATE}/1s", BURST, table="exact"))
    seen = {}
    with host.receiver() as got, host.sender(2000) as sent:
        for i in range(10):
            until(lambda n=got.n: got.n > n + 100, "packets are admitted")
            page, now = samples(host), len(sent.sent_ns)
            for (name, labels), value in page.samples.items():
                if page.types.get(name) == "counter" and ("packets" in name or "bytes" in name):
                    assert value >= seen.get((name, labels), 0), (name, labels)
                    seen[(name, labels)] = value
            judged = sum(v for (name, _), v in page.samples.items() if name == "leasegate_verdict_packets_total")
            assert judged <= 1.1 * (now + 200), "no more than was sent"
            if i % 2:
                node.kill()
            else:
                assert node.stop() == 0
            node = host.instance.node()
            until(lambda: host.ns.http_get("/readyz", 9464)[0] == 200, "the node is ready")
    assert len(host.instance.json("status")["attachments"]) == 1


@pytest.mark.long
@pytest.mark.parametrize("hook", ["xdp", "tc"])
def test_kills_at_any_time_leave_one_link_the_levels_and_the_limit(host, hook):
    """Half of them while the node starts, half while it reads its rules again."""
    dice = random.Random(int(os.environ.get("SEED", time.time_ns() % 100000)))
    rules = bucket_rule(f"{RATE}/1s", BURST, table="exact")
    node = host.start(rules, hook)
    link = host.instance.json("status")["attachments"]
    node.kill()
    with host.receiver() as got:
        start_ns = time.monotonic_ns()
        with host.sender(2000):
            for i in range(12):
                if i % 2:
                    node = host.instance.daemon("node", host.instance.path("node.yaml")).start()
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        node.process.wait(dice.uniform(0, 1.5))
                else:
                    node = host.instance.node()
                    for _ in range(5):
                        more = f"  - {{name: other-{i}, limit: 0/1s, match: {{destination_port: {7000 + i}}}}}\n"
                        host.instance.write("rules.yaml", rules + more)
                        node.reload()
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        node.process.wait(dice.uniform(0, 0.1))
                node.kill()
                before = host.instance.key(CLIENT[4])["spent_tok"]
                assert host.instance.json("status")["attachments"][0]["link_id"] == link[0]["link_id"]
                until(lambda n=got.n: got.n > n, "packets are still admitted")
                assert host.instance.key(CLIENT[4])["spent_tok"] >= before
            host.instance.node()
        end_ns = time.monotonic_ns()
    assert len(host.instance.json("status")["attachments"]) == 1
    assert sorted(os.listdir(host.instance.pins)) == ["links", f"v{abi_version()}"]
    assert got.n <= law.token_bucket_most(BURST, RATE, S, end_ns - start_ns)


# ---- another build ----

NEXT = os.path.join(BUILD, "next")


@pytest.mark.long
def test_a_node_of_the_next_build_takes_over_and_the_older_one_comes_back_anew(host):
    daemon = os.path.join(NEXT, "leasegated")
    assert os.path.exists(daemon), "make B=build/next NEXT=1 all builds it"
    node = host.start(bucket_rule("1/1h", 50, table="exact"))
    link = host.instance.json("status")["attachments"][0]["link_id"]

    def link_now():
        pin = os.path.join(host.instance.pins, "links", "in0-xdp")
        shown = subprocess.run(["bpftool", "link", "show", "pinned", pin], check=True, capture_output=True, text=True)
        return int(re.match(r"(\d+):", shown.stdout)[1])

    def run(program, *args):
        d = host.instance.daemon("node", host.instance.path("node.yaml"), args=args)
        d.argv[d.argv.index(os.path.join(BUILD, "leasegated"))] = program
        return d.start()

    with host.receiver() as got, host.sender(1000):
        until(lambda: got.n == 50, "the burst is spent")
        node.kill()
        newer = run(daemon)
        assert newer.wait_exit() == REFUSED
        assert f"maps of ABI version {abi_version()} are in force, this build speaks version {abi_version() + 1}" in newer.stderr
        newer = run(daemon, "--migrate").wait_ready()
        assert "carried over" in newer.stderr
        assert link_now() == link
        older = run(os.path.join(BUILD, "leasegated"))
        assert older.wait_exit() == REFUSED		# the newer one runs
        newer.kill()
        older = run(os.path.join(BUILD, "leasegated"), "--migrate")
        assert older.wait_exit() == REFUSED and "--discard-state" in older.stderr
        assert got.n == 50
        run(os.path.join(BUILD, "leasegated"), "--discard-state").wait_ready()
        until(lambda: got.n == 100, "new buckets are full, once")
        assert link_now() == link
    assert got.n == 100
    assert sorted(os.listdir(host.instance.pins)) == ["links", f"v{abi_version()}"]
