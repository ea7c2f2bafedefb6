# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What happened to a lease can be read afterwards, and usage adds up to what was let in, however often the region server restarts."""
import contextlib
import json
import os
import subprocess
import threading
import time

import pytest
from lib import LEASEGATE
from lib.cluster import PORT, Cluster
from lib.host import CLIENT, Host, fresh_name
from lib.prom import Page
from lib.wait import until

LEASE_PORT = 7400
RULE = "per-user"


def rules(limit="1000/1s", burst=1000, name=RULE):
    return ("rules:\n"
            f"  - name: {name}\n"
            "    scope: global\n"
            "    class: lease\n"
            f"    match: {{protocol: udp, destination_port: [{PORT}]}}\n"
            "    key: {source: 32}\n"
            "    unit: packets\n"
            "    algorithm: token_bucket\n"
            f"    limit: {limit}\n"
            f"    burst: {burst}\n"
            "    lease: {cold_start: 0}\n")


class Site(Host):
    """A host whose node leases from a region server beside it, which is the home of all keys."""

    def __enter__(self):
        super().__enter__()
        self.server = self.node = None
        return self

    def start_region(self, **keys):
        listed = {"version": 1, "list": [{"name": "eu-west", "address": f"127.0.0.1:{LEASE_PORT}", "hosts": 2}]}
        self.instance.write("rules.yaml", rules())
        path = self.instance.config("region.yaml", region="eu-west", regions=listed, rules="rules.yaml", **keys)
        self.server = self.instance.daemon("region", path).start().wait_ready()
        return self.server

    def start_all(self, **keys):
        listed = {"version": 1, "list": [{"name": "eu-west", "address": f"127.0.0.1:{LEASE_PORT}", "hosts": 2}]}
        self.start_region(**keys)
        self.node = self.start(rules(), name="host-1", region="eu-west", regions=listed)
        return self

    def restart_region(self, kill=False, **keys):
        if kill:
            self.server.kill()
        else:
            assert self.server.stop() == 0
        return self.start_region(**keys)

    def history(self, *argv):
        return self.instance.json("leases", "--history", *argv)


@pytest.fixture
def site():
    with Site() as s:
        yield s
        for d in s.instance.daemons:
            print(f"--- leasegated {d.role}\n{d.stderr}")


def usage(instance, *argv):
    r = instance.tool("usage", *argv)
    assert r.returncode == 0 and r.stderr == "", (r.returncode, r.stderr)
    return [json.loads(line) for line in r.stdout.splitlines()]


class Follower:
    """`leasegate usage --follow` in a thread: its lines as they come."""

    def __init__(self, instance, *argv):
        self.lines = []
        self.process = subprocess.Popen(instance.ns.enter_argv() + [LEASEGATE, "--instance", instance.name, "usage", "--follow", *argv],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(json.loads(line))

    def __enter__(self):
        return self

    def __exit__(self, *_exc):
        self.process.kill()
        self.process.wait()
        self.reader.join(5)
        self.process.stdout.close()
        self.process.stderr.close()

    @property
    def consumed(self):
        return sum(line.get("consumed_tok", 0) for line in self.lines)


def traffic(site, n):
    """Packets until n more are let in. Returns how many have been let in since the start."""
    def admitted():
        return site.instance.counts(RULE).get("admitted", 0)
    before = admitted()
    with site.sender(400) as sender:
        until(lambda: admitted() >= before + n, f"{n} packets are admitted")
    seen = sender.n_sent
    until(lambda: site.instance.seen(RULE) >= seen, "no packet is on its way")
    return admitted()


def assert_ordered(lines):
    seqs = [line["seq"] for line in lines]
    assert seqs == sorted(set(seqs)), "a number came twice or too late"


def test_the_history_of_a_key_shows_grant_report_return_and_lapse(site):
    site.start_all()
    traffic(site, 100)
    until(lambda: any(r["what"] == "return" for r in site.history("--key", CLIENT[4])), "the idle host gives back", timeout_s=15)
    traffic(site, 100)
    site.node.kill()
    until(lambda: any(r["what"] == "lapse" for r in site.history("--key", CLIENT[4])), "the silent host's lease lapses", timeout_s=40)
    got = [r for r in site.history("--key", CLIENT[4], "--rule", RULE) if r["tier"] == "region"]
    assert_ordered(got)
    assert {r["what"] for r in got} >= {"grant", "report", "return", "lapse"}
    assert {(r["holder"], r["rule"], r["key"]) for r in got} == {("host-1", RULE, CLIENT[4])}
    lapse = next(r for r in got if r["what"] == "lapse")
    of_lease = [r for r in got if (r["epoch"], r["generation"]) == (lapse["epoch"], lapse["generation"])]
    spent = {what: sum(r["tok"] for r in of_lease if r["what"] == what) for what in ("grant", "report", "return", "lapse")}
    assert spent["grant"] == spent["report"] + spent["return"] + spent["lapse"]
    assert lapse["outstanding_tok"] == 0
    assert got[0]["what"] == "grant" and got[0]["outstanding_tok"] == got[0]["tok"]
    assert site.history("--key", "192.0.2.99") == []
    assert site.history("--rule", "none") == []
    assert len(site.history("--since", "1ms", "--key", CLIENT[4])) < len(got)
    table = site.instance.tool("leases", "--history", "--key", CLIENT[4])
    assert table.returncode == 0
    head, *rows = table.stdout.splitlines()
    assert head.split() == ["TIME", "WHAT", "TIER", "HOLDER", "RULE", "KEY", "EPOCH.GEN", "TOKENS", "OUT"]
    assert any(r.split()[1:6] == ["lapse", "region", "host-1", RULE, CLIENT[4]] for r in rows)


def test_usage_is_one_line_for_each_report_and_resumes_behind_any_of_them(site):
    site.start_all()
    for _ in range(4):
        admitted = traffic(site, 50)
    until(lambda: sum(u["consumed_tok"] for u in usage(site.instance)) == admitted, "all usage is reported")
    all_lines = usage(site.instance)
    assert_ordered(all_lines)
    first = all_lines[0]
    assert set(first) == {"seq", "time", "region", "tier", "holder", "rule", "key", "epoch", "generation", "consumed_tok", "total_tok"}
    assert (first["region"], first["tier"], first["holder"]) == ("eu-west", "region", "host-1")
    assert (first["rule"], first["key"]) == (RULE, CLIENT[4])
    assert abs(time.time() - time.mktime(time.strptime(first["time"][:19], "%Y-%m-%dT%H:%M:%S")) + time.timezone) < 60
    assert first["time"][19] == "." and first["time"].endswith("Z") and len(first["time"]) == 24
    totals = {}
    for u in all_lines:
        lease = (u["epoch"], u["generation"])
        totals[lease] = totals.get(lease, 0) + u["consumed_tok"]
        assert u["total_tok"] == totals[lease]
    for i, u in enumerate(all_lines):
        assert usage(site.instance, "--from", str(u["seq"])) == all_lines[i + 1:]
    assert usage(site.instance, "--from", "0") == all_lines
    assert usage(site.instance, "--rule", "none") == []
    home = usage(site.instance, "--tier", "home")
    assert {u["holder"] for u in home} == {"eu-west"} and sum(u["consumed_tok"] for u in home) <= admitted
    ahead = site.instance.tool("usage", "--from", str(all_lines[-1]["seq"] + 10**6))
    assert ahead.returncode == 1 and "has no record" in ahead.stderr and ahead.stdout == ""


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_who_follows_misses_nothing_and_sees_nothing_twice_over_a_restart(site, end):
    site.start_all()
    with Follower(site.instance) as follower:
        traffic(site, 50)
        until(lambda: follower.consumed >= 50, "usage comes while it is followed")
        before = len(follower.lines)
        site.restart_region(kill=end == "kill")
        traffic(site, 50)
        until(lambda: len(follower.lines) > before and follower.lines[-1]["epoch"] > follower.lines[0]["epoch"],
              "usage of the server's new life comes", timeout_s=20)
        until(lambda: follower.lines == usage(site.instance), "who followed has what there is")
        assert_ordered(follower.lines)
        assert not any("gap" in line for line in follower.lines)
        assert follower.process.poll() is None


# In a process of its own inside the region's namespace: asks for a rule that is not there, each of which is refused and noted.
STRANGER = """
import sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/../unit/api"]
import grpcio_peer
from grpcio_peer import Stream, pb
with grpcio_peer.grpc.insecure_channel("127.0.0.1:%d") as channel:
    s = Stream(channel)
    s.put(pb.HolderMessage(hello=pb.Hello(holder="stranger", region="eu-west", incarnation=1)))
    epoch = s.next().welcome.epoch
    for n in range(40):
        asks = [pb.Ask(report=pb.ReportUsage(key=pb.Key(rule="unheard-of", form=1), seq=i + 1, life=1, epoch=epoch)) for i in range(512)]
        s.put(pb.HolderMessage(asks=asks))
        answered = 0
        while answered < 512:
            answered += len(s.next().grants)
    print("done", flush=True)
    import os
    os._exit(0)
""" % LEASE_PORT


def test_refusals_are_noted_and_what_is_too_old_is_told(site):
    site.start_region(journal={"size": "1MiB"})
    r = site.ns.run("/usr/bin/python3", "-c", STRANGER, os.path.dirname(os.path.abspath(__file__)), timeout_s=60)
    if r.returncode == 77:
        pytest.skip("grpcio or protoc is not installed")
    assert r.returncode == 0, r.stdout + r.stderr
    gap, *rest = until(lambda: (h := site.history())[-1]["seq"] == 40 * 512 and h, "all refusals are written")
    assert (gap["cause"], gap["gap"]) == ("aged", gap["seq"])
    assert gap["seq"] > 5000 and [r["seq"] for r in rest] == list(range(gap["seq"] + 1, 40 * 512 + 1))
    assert {(r["what"], r["holder"], r["rule"], r["key"], r["status"]) for r in rest} == {
        ("refuse", "stranger", "unheard-of", "*", "unknown_rule")}
    assert site.history("--rule", RULE) == [gap]
    table = site.instance.tool("leases", "--history", "--rule", RULE).stdout.splitlines()
    assert table[1:] == [f"-- {gap['gap']} records are missing: they are older than what journal.size keeps"]
    # Who has seen a record that is gone is told how many are missing; who asks for no more than what is kept is not.
    assert [u.get("gap") for u in usage(site.instance, "--from", "10")] == [gap["seq"] - 10]
    assert usage(site.instance) == []


def test_without_a_journal_there_is_a_clear_answer_and_leases_go_on(site):
    site.start_all(journal={"size": "off"})
    traffic(site, 20)
    for argv in (["leases", "--history"], ["usage"], ["usage", "--follow"]):
        r = site.instance.tool(*argv)
        assert r.returncode == 1 and "journal.size" in r.stderr and r.stdout == ""
    assert "leasegate_journal" not in site.ns.http_get("/metrics", 9465)[1]


def test_the_journal_is_in_the_metrics(site):
    site.start_all()
    traffic(site, 20)

    def metrics():
        page = Page(site.ns.http_get("/metrics", 9465)[1])
        return {name: page.samples[(f"leasegate_journal_{name}", frozenset())] for name in ("records_total", "dropped_total", "bytes")}
    got = until(lambda: (m := metrics())["records_total"] > 0 and m["bytes"] > 72 and m, "records are counted")
    assert got["dropped_total"] == 0


def test_nobody_to_ask_is_an_error(site):
    site.start_region()
    site.server.stop()
    for argv in (["leases", "--history"], ["usage"], ["usage", "--follow"]):
        r = site.instance.tool(*argv)
        assert r.returncode == 1 and "no region server is running" in r.stderr and r.stdout == ""


def test_the_sum_of_usage_over_all_regions_is_what_was_let_in():
    with Cluster(rules("600/1s", 600), fresh_name("")) as c, contextlib.ExitStack() as stack:
        c.start()
        c.receivers(stack)
        c.senders(stack)
        for r in c:
            r.sender.rate_pps = 300
        time.sleep(5)
        for r in c:
            r.sender.rate_pps = 0

        def sums():
            reported = [u for r in c for u in usage(r.instance) if "gap" not in u]
            assert len(reported) == sum(len(usage(r.instance)) for r in c), "a gap"
            return sum(u["consumed_tok"] for u in reported), sum(r.instance.counts(RULE).get("admitted", 0) for r in c)
        until(lambda: len(set(sums())) == 1, "all that was admitted is reported", timeout_s=15)
        consumed, admitted = sums()
        assert consumed == admitted == sum(r.receiver.n for r in c) > 1000
        # The homes heard the same total, from the regions.
        until(lambda: sum(u["consumed_tok"] for r in c for u in usage(r.instance, "--tier", "home")) == admitted,
              "the homes know all of it", timeout_s=15)
