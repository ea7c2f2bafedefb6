# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The operator's tool: bypass, detach, every command's answer as JSON, help and usage; and what bpftool alone can see."""
import contextlib
import json
import socket
import subprocess
import time

import pytest
from lib import LEASEGATE, LEASEGATED
from lib.daemon import abi_version
from lib.host import CLIENT, PORT
from lib.wait import until
from test_limits import bucket_rule

COMMANDS = ["status", "keys", "rules", "leases", "usage", "explain", "curve", "reload", "bypass", "detach"]
RULES = bucket_rule("1/1h", 50, table="exact")


def let_in(host, got, sender, n=20):
    """Of n packets, how many are admitted (whatever the reason)."""
    before = got.n
    seen = sum(v["packets"] for v in verdicts(host).values())
    sender.burst(n)
    until(lambda: sum(v["packets"] for v in verdicts(host).values()) >= seen + n, "all packets were judged")
    until(lambda: time.monotonic_ns() - sender.sent_ns[-1] > 50_000_000 or got.n == before + n, "stragglers had time")
    return got.n - before


def verdicts(host):
    """Verdict counters straight from the map, by index: {index: {packets, bytes}} summed over CPUs."""
    dump = bpftool("-j", "map", "dump", "pinned", f"{host.instance.maps}/verdicts")
    return {e["formatted"]["key"]: {f: sum(v["value"][f] for v in e["formatted"]["values"]) for f in ("packets", "bytes")}
            for e in dump}


def bpftool(*argv):
    r = subprocess.run(["bpftool", *argv], capture_output=True, text=True, timeout=20)
    assert r.returncode == 0, r.stdout + r.stderr
    return json.loads(r.stdout)


@pytest.mark.parametrize("daemon", ["running", "dead"])
def test_bypass_lets_everything_through_until_it_is_switched_off(host, daemon):
    node = host.start(RULES)
    with host.receiver() as got, contextlib.closing(host.sender(0)) as sender:
        sender.burst(60)
        until(lambda: host.instance.seen("per-source") == 60, "the bucket is empty")
        if daemon == "dead":
            node.kill()
        assert let_in(host, got, sender) == 0
        assert host.instance.tool("bypass", "on").returncode == 0
        assert host.instance.json("status")["bypass"]["on"] is True
        assert let_in(host, got, sender) == 20
        assert host.instance.tool("bypass", "off").returncode == 0
        assert host.instance.json("status")["bypass"]["on"] is False
        assert let_in(host, got, sender) == 0
    assert host.instance.key(CLIENT[4])["spent_tok"] == 50


def test_bypass_for_a_time_ends_by_itself(host):
    host.start(RULES)
    with host.receiver() as got, contextlib.closing(host.sender(0)) as sender:
        sender.burst(60)
        until(lambda: host.instance.seen("per-source") == 60, "the bucket is empty")
        started = time.monotonic()
        assert host.instance.tool("bypass", "on", "--for", "2s").returncode == 0
        assert 0 < host.instance.json("status")["bypass"]["remaining_s"] <= 2
        assert let_in(host, got, sender) == 20 or time.monotonic() - started > 2
        until(lambda: not host.instance.json("status")["bypass"]["on"], "bypass is over")
        assert 2 <= time.monotonic() - started < 6
        assert let_in(host, got, sender) == 0


def test_bypass_that_is_off_on_trial_comes_back_unless_that_is_confirmed(host):
    """The kernel judges it, with the daemon dead: who is cut off by limits can neither confirm nor take them back."""
    def bypass(*argv):
        return host.instance.json("bypass", *argv)

    node = host.start(RULES)
    assert "nothing to try" in host.instance.tool("bypass", "off", "--confirm-timeout", "1h").stderr
    with host.receiver() as got, contextlib.closing(host.sender(0)) as sender:
        sender.burst(60)
        until(lambda: host.instance.seen("per-source") == 60, "the bucket is empty")
        node.kill()
        bypass("on")
        assert 3500 < bypass("off", "--confirm-timeout", "1h")["on_again_in_s"] <= 3600
        assert let_in(host, got, sender) == 0
        assert "on trial" in host.instance.tool("status").stdout and "on trial" in host.instance.tool("bypass").stdout
        assert bypass("off", "--confirm-timeout", "1s")["on"] is False
        until(lambda: bypass()["on"], "it is on again")
        assert let_in(host, got, sender) == 20
        bypass("off", "--confirm-timeout", "1h")
        assert bypass("off") == {"on": False, "remaining_s": None, "on_again_in_s": None}
        assert let_in(host, got, sender) == 0


def test_bypass_survives_a_restart_and_shows_in_the_metrics(host):
    node = host.start(RULES)
    assert host.instance.tool("bypass", "on").returncode == 0
    until(lambda: "\nleasegate_bypass 1\n" in host.ns.http_get("/metrics", 9464)[1], "the metric is raised")
    node.kill()
    host.instance.node()
    assert host.instance.json("status")["bypass"]["on"] is True
    until(lambda: "\nleasegate_bypass 1\n" in host.ns.http_get("/metrics", 9464)[1], "the metric is raised")


def test_detach_ends_enforcement_and_leaves_no_trace(host):
    host.start(RULES).stop()
    with host.receiver() as got, contextlib.closing(host.sender(0)) as sender:
        sender.burst(60)
        until(lambda: host.instance.seen("per-source") == 60, "packets are judged without a daemon")
        assert host.instance.tool("detach").returncode == 0
        n = got.n
        sender.burst(60)
        until(lambda: got.n == n + 60, "everything arrives")
    assert host.instance.leftovers() == []
    assert "prog" not in host.ns.link("in0").get("xdp", {})
    again = host.instance.tool("detach")
    assert (again.returncode, again.stdout) == (0, f"instance {host.instance.name}: nothing of it was in the kernel\n")


def test_status_without_a_daemon_is_read_from_the_kernel(host):
    node = host.start(RULES)
    node.kill()
    status = host.instance.json("status")
    assert status["node"] is None and status["region"] is None
    assert status["kernel"]["rules"] == 1
    assert [(a["interface"], a["hook"], a["mode"]) for a in status["attachments"]] == [("in0", "xdp", "native")]


@pytest.mark.parametrize("hook, said", [("xdp", ("xdp", "native")), ("tc", ("tc_ingress", "tcx"))])
def test_every_command_answers_in_json(host, hook, said):
    node = host.start(RULES, hook)
    with contextlib.closing(host.sender(0)) as sender:
        sender.burst(60)
        until(lambda: host.instance.seen("per-source") == 60, "all packets were judged")
    status = host.instance.json("status")
    assert status["instance"] == host.instance.name
    assert status["kernel"]["abi"] == abi_version() and status["kernel"]["rules"] == 1 and status["kernel"]["keys"] == 1
    assert [(a["interface"], a["hook"], a["mode"]) for a in status["attachments"]] == [("in0", *said)]
    assert status["node"]["pid"] == node.pid and status["node"]["ready"] is True
    assert status["node"]["upstream"] is None and status["region"] is None
    key, = host.instance.json("keys")
    assert (key["rule"], key["key"], key["form"], key["kind"]) == ("per-source", CLIENT[4], "source", "rate")
    assert (key["spent_tok"], key["denied_tok"], key["left_tok"], key["burst_tok"]) == (50, 10, 0, 50)
    assert (key["rate_tok"], key["per_ns"]) == (1, 3_600_000_000_000)
    assert 0 <= key["seen_ago_ms"] < 60_000
    again, = host.instance.json("keys", "--rule", "per-source", "--source", CLIENT[4], "--limit", "1")
    assert again["spent_tok"] == 50 and set(again) == set(key)
    assert host.instance.json("keys", "--source", "192.0.2.99") == []
    rule, = host.instance.json("rules")
    assert (rule["rule"], rule["scope"], rule["shadow"], rule["unit"]) == ("per-source", "host", False, "packets")
    assert rule["counts"]["admitted"]["packets"] == 50 and rule["counts"]["limit"]["packets"] == 10
    leases = host.instance.json("leases")
    assert leases["node"] == []
    assert host.instance.json("explain", host.instance.path("rules.yaml"))
    host.instance.json("reload")
    host.instance.json("bypass")
    host.instance.json("bypass", "on", "--for", "1m")
    host.instance.json("bypass", "off")
    node.stop()
    host.instance.json("detach")


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_explains_itself(command):
    r = subprocess.run([LEASEGATE, command, "--help"], capture_output=True, text=True, timeout=10)
    assert r.returncode == 0 and r.stderr == ""
    assert command in r.stdout and len(r.stdout.splitlines()) >= 2


@pytest.mark.parametrize("argv", [[LEASEGATE, "--help"], [LEASEGATED, "--help"], [LEASEGATED, "node", "--help"],
                                  [LEASEGATED, "region", "--help"]])
def test_the_programs_explain_themselves(argv):
    r = subprocess.run(argv, capture_output=True, text=True, timeout=10)
    assert r.returncode == 0 and r.stderr == ""
    if argv == [LEASEGATE, "--help"]:
        assert all(command in r.stdout for command in COMMANDS)


USAGE_ERRORS = {
    "nothing": [], "an unknown command": ["statsu"], "an unknown option": ["status", "--nope"], "a word too many": ["status", "x"],
    "explain without a file": ["explain"], "a curve of no rule": ["curve"], "bypass for no time": ["bypass", "on", "--for"],
    "bypass for nonsense": ["bypass", "on", "--for", "soon"], "bypass sideways": ["bypass", "sideways"],
    "bypass on with the word of off": ["bypass", "on", "--confirm-timeout", "1s"],
    "a limit that is no number": ["keys", "--limit", "x"], "a source that is no address": ["keys", "--source", "x"],
    "a key without --history": ["leases", "--key", "192.0.2.1"], "history since nonsense": ["leases", "--history", "--since", "x"],
    "usage from nonsense": ["usage", "--from", "-1"], "usage of a tier that is none": ["usage", "--tier", "host"],
    "an instance that is a path": ["--instance", "../x", "status"],
}


@pytest.mark.parametrize("case", USAGE_ERRORS)
def test_nonsense_is_a_usage_error(case):
    r = subprocess.run([LEASEGATE, *USAGE_ERRORS[case]], capture_output=True, text=True, timeout=10)
    assert r.returncode == 2, (r.returncode, r.stdout, r.stderr)
    assert r.stderr.strip() and r.stdout == ""


@pytest.mark.parametrize("argv", [["keys"], ["rules"], ["leases"], ["reload"], ["bypass", "on"]])
def test_an_instance_that_is_not_there_is_a_clear_error_in_both_forms(host, argv):
    plain = host.instance.tool(*argv)
    assert plain.returncode == 1 and plain.stdout == "" and len(plain.stderr.splitlines()) == 1
    assert host.instance.name in plain.stderr
    coded = host.instance.tool("--json", *argv)
    assert coded.returncode == 1 and set(json.loads(coded.stdout)) == {"error"}
    assert len(coded.stderr.splitlines()) == 1


def test_explain_names_the_bad_line_of_a_bad_file(host):
    path = host.instance.write("bad.yaml", "rules:\n  - name: x\n    limit: none\n")
    r = host.instance.tool("explain", path)
    assert r.returncode == 1 and f"{path}:3" in r.stderr
    coded = host.instance.tool("--json", "explain", path)
    assert f"{path}:3" in json.loads(coded.stdout)["error"]


def test_bpftool_alone_shows_whose_bucket_it_is_and_how_full(host):
    host.start(RULES)
    with contextlib.closing(host.sender(0)) as sender:
        sender.burst(60)
        until(lambda: host.instance.seen("per-source") == 60, "all packets were judged")
    mapped = list(bytes(10) + b"\xff\xff" + socket.inet_aton(CLIENT[4]))
    entry, = bpftool("-j", "map", "dump", "pinned", f"{host.instance.maps}/buckets")
    key, value = entry["formatted"]["key"], entry["formatted"]["value"]
    assert key["a"] == mapped and key["form"] == 2
    assert key["rule_id"] == value["rule_id"] == host.instance.json("rules")[0]["rule_id"]
    assert (value["spent_tok"], value["denied_tok"], value["rate_tok"]) == (50, 10, 1)
    assert value["per_ns"] == 3_600_000_000_000
    names = bpftool("-j", "map", "dump", "pinned", f"{host.instance.maps}/rule_names")
    named, = [e["formatted"]["value"] for e in names if e["formatted"]["key"] == key["rule_id"]]
    assert named["name"] == "per-source" and f"port {PORT}" in named["match"]
    active, = bpftool("-j", "map", "dump", "pinned", f"{host.instance.maps}/control")
    rules = bpftool("-j", "map", "dump", "pinned", f"{host.instance.maps}/rules")
    rule = rules[active["formatted"]["value"]["active_set"]]["formatted"]["value"]["rules"][0]
    assert (rule["rule_id"], rule["burst_tok"]) == (key["rule_id"], 50)
