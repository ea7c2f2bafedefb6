# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What passes and is refused beside the limits: lists, bans, exemptions; and what keeps an operator from cutting himself off."""
import contextlib
import os
import socket
import struct
import time

import pytest
from lib import LEASEGATE
from lib.host import CLIENT, HOST, PORT, Host
from lib.net import ip
from lib.prom import Page
from lib.traffic import FrameSender, checksum
from lib.wait import until

ALL_PASS = "rules:\n  - {name: all, limit: 100000/1s}\n"
ALL_DENY = "rules:\n  - {name: all, limit: 0/1s}\n"


@pytest.fixture(scope="module")
def limited():
    """A host with a node that sees what comes in and what goes out, for tests that bring rules and lists of their own."""
    with Host() as h:
        h.instance.write("rules.yaml", ALL_PASS)
        at = {"name": "in0", "xdp": "off", "tc": "on", "tc_egress": "on"}
        h.instance.node(h.instance.config(rules="rules.yaml", interfaces=[at]))
        yield h


def arrives(host, sender, got):
    """Sends one packet; returns whether it arrives. One of a kind that always does follows it."""
    n, judged = got.n, verdicts(host)
    sender.burst(1)
    until(lambda: sum(verdicts(host).values()) > sum(judged.values()), "the packet is judged")
    after = verdicts(host)
    reason = [r for r in after if after[r] != judged.get(r, 0)]
    if any(r in ("admitted", "allowed", "exempt", "no_rule") for r in reason):
        until(lambda: got.n == n + 1, "what may pass arrives")
        return True
    assert got.n == n
    return False


def metrics(host):
    status, text = host.ns.http_get("/metrics", 9464)
    assert status == 200
    return Page(text).samples


def verdicts(host):
    """{reason: packets} over all hooks; of what tests send, so without what is exempt by its kind."""
    sums = {}
    for (name, labels), value in metrics(host).items():
        labels = dict(labels)
        if name == "leasegate_verdict_packets_total" and labels["reason"] not in ("exempt", "not_ip"):
            sums[labels["reason"]] = sums.get(labels["reason"], 0) + value
    return sums


def lists(host):
    return {e["prefix"]: (e["verdict"], e["by"]) for e in host.instance.json("lists")}


def tool(host, *argv, ok=True):
    r = host.instance.tool(*argv)
    assert (r.returncode == 0) == ok, (argv, r.stdout, r.stderr)
    return r.stderr if not ok else r.stdout


@pytest.mark.long
def test_what_the_operator_adds_goes_before_the_file_and_outlives_reload_and_daemon(host):
    host.instance.write("deny.txt", f"# from somewhere\n203.0.113.0/24\n  {CLIENT[4]}  # the client\n")
    node = host.start("lists: {allow: [192.0.2.0/24], deny: [{file: deny.txt}]}\n" + ALL_PASS)
    with host.receiver() as got, contextlib.closing(host.sender(0)) as sender:
        assert not arrives(host, sender, got)
        assert verdicts(host)["deny_list"] == 1
        tool(host, "lists", "add", CLIENT[4], "--allow", "--for", "1h")
        assert arrives(host, sender, got)
        by_both = {"192.0.2.0/24": ("allow", "file"), "203.0.113.0/24": ("deny", "file"), CLIENT[4] + "/32": ("allow", "operator")}
        assert lists(host) == by_both
        tool(host, "reload")
        node.kill()
        assert lists(host) == by_both		# also without a daemon, and while there is none it is enforced
        tool(host, "lists", "add", "198.51.100.0/24", "--deny")
        host.instance.node()
        assert lists(host) == {**by_both, "198.51.100.0/24": ("deny", "operator")}
        assert arrives(host, sender, got)
        tool(host, "lists", "remove", CLIENT[4])
        assert not arrives(host, sender, got)		# what the file says is back
        assert "by 10.90.0.1/32 of the rules file" in tool(host, "lists", "test", CLIENT[4])
        assert "no list" in tool(host, "lists", "test", "10.1.1.1")
        assert "not added by hand" in tool(host, "lists", "remove", CLIENT[4], ok=False)
        host.instance.write("deny.txt", "203.0.113.0/24\n203.0.113.0/24\n")
        said = tool(host, "reload", ok=False)
        assert f"{host.instance.path('deny.txt')}:2: " in said and "on line 1" in said, said
        assert not arrives(host, sender, got)
        host.instance.write("deny.txt", "")
        tool(host, "reload")
        assert arrives(host, sender, got)
        assert lists(host) == {"192.0.2.0/24": ("allow", "file"), "198.51.100.0/24": ("deny", "operator")}


@contextlib.contextmanager
def shell(host):
    """A TCP session from the client to port 22 of the host."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(contextlib.closing(host.ns.socket(kind=1)))
        server.bind((HOST[4], 22))
        server.listen(1)
        peer = stack.enter_context(contextlib.closing(host.client.socket(kind=1)))
        peer.settimeout(5)
        peer.connect((HOST[4], 22))
        yield stack.enter_context(contextlib.closing(server.accept()[0])), peer


def test_rules_and_lists_that_would_cut_off_who_is_logged_in_want_a_yes(limited):
    slow = "rules:\n  - {name: slow, match: {protocol: tcp}, key: {source: 32}, limit: 9/1s, burst: 100000}\n"
    exempt = (f"exempt: [{{name: office, match: {{protocol: tcp, destination_port: 22, source: {CLIENT[4]}}}}}, "
              f"{{name: back, match: {{protocol: tcp, source_port: 22, destination: {CLIENT[4]}}}}}]\n")
    host = limited
    with shell(host):
        version = host.instance.json("status")["kernel"]["rules_version"]
        for rules, who in ((ALL_DENY, 'rule "all" (line 2)'), (slow, 'rule "slow" (line 2)'),
                           (f"lists: {{deny: [{CLIENT[4]}]}}\n" + ALL_PASS, CLIENT[4] + "/32 is on the deny list")):
            host.instance.write("rules.yaml", rules)
            said = tool(host, "reload", ok=False)
            assert CLIENT[4] in said and who in said and "--yes" in said, said
        said = tool(host, "lists", "add", "10.90.0.0/16", "--deny", ok=False)
        assert CLIENT[4] in said and "--yes" in said, said
        assert host.instance.json("status")["kernel"]["rules_version"] == version and lists(host) == {}
        # Neither who is named nor who is elsewhere.
        for rules in (exempt + ALL_DENY, f"lists: {{allow: [{CLIENT[4]}], deny: [10.90.0.0/24]}}\n" + ALL_DENY,
                      slow.replace("9/1s", "10/1s"), ALL_DENY.replace("{name: all", "{name: all, match: {source: 10.91.0.0/16}")):
            host.instance.write("rules.yaml", rules)
            tool(host, "reload")
        tool(host, "lists", "add", "10.91.0.0/16", "--deny")
        tool(host, "lists", "add", "10.90.0.0/16", "--deny", "--yes")
        host.instance.write("rules.yaml", ALL_DENY)
        tool(host, "reload", "--yes")
    # The caller himself, wherever his sshd listens; also when sudo has dropped what his shell knows of it.
    host.instance.write("rules.yaml", ALL_PASS)
    tool(host, "reload")
    tool(host, "lists", "remove", "10.90.0.0/16")
    caller = [LEASEGATE, "--instance", host.instance.name, "lists", "add", "10.90.0.1", "--deny"]
    for argv in (caller, ["sh", "-c", '"$@"; exit $?', "sh", "env", "-i", *caller]):
        r = host.ns.run("env", "SSH_CONNECTION=10.90.0.1 50000 10.90.0.2 2222", *argv)
        assert r.returncode == 1 and "port 2222" in r.stderr, (argv, r.stdout, r.stderr)
    assert "10.90.0.1/32" not in lists(host)


@pytest.mark.long
def test_rules_that_nobody_confirms_go_back_to_those_before_them(host):
    host.instance.write("deny.txt", "203.0.113.0/24\n")
    before = "lists: {deny: [{file: deny.txt}]}\n" + ALL_PASS
    node = host.start(before)
    after = "rules:\n  - {name: other, limit: 0/1s}\n"

    def names():
        return [r["rule"] for r in host.instance.json("rules")]

    def on_trial():
        return host.instance.json("status")["node"]["confirm_in_s"]

    # Time is up.
    host.instance.write("rules.yaml", after)
    os.unlink(host.instance.path("deny.txt"))		# gone back to is what was read, not what is there now
    tool(host, "reload", "--confirm-timeout", "1s")
    assert names() == ["other"] and 0 < on_trial() <= 1 and lists(host) == {}
    until(lambda: names() == ["all"], "the rules before come back")
    assert lists(host) == {"203.0.113.0/24": ("deny", "file")} and on_trial() is None
    assert "not confirmed" in host.instance.json("status")["node"]["rules_why"]
    assert "no rules wait" in tool(host, "reload", "--confirm", ok=False)
    # The daemon ends meanwhile, in both ways: what was confirmed comes back with it.
    for end in ("kill", "stop"):
        tool(host, "reload", "--confirm-timeout", "1h")
        assert names() == ["other"]
        getattr(node, end)()
        assert names() == ["other"]
        node = host.instance.node()
        assert names() == ["all"] and lists(host) == {"203.0.113.0/24": ("deny", "file")}
    # Confirmed.
    tool(host, "reload", "--confirm-timeout", "2s")
    tool(host, "reload", "--confirm")
    assert on_trial() is None
    node.kill()
    host.instance.node()
    assert names() == ["other"]
    # A plain reload ends a trial as well.
    host.instance.write("rules.yaml", ALL_PASS)
    tool(host, "reload", "--confirm-timeout", "1s")
    tool(host, "reload")
    time.sleep(1.5)		# longer than the trial would have lasted
    assert names() == ["all"] and on_trial() is None


@pytest.mark.long
def test_levels_stay_when_rules_come_back_that_were_on_trial(host):
    rule = f"rules:\n  - {{name: slow, match: {{protocol: udp, destination_port: {PORT}}}, key: {{source: 32}}, limit: 1/1h, burst: 50}}\n"
    host.start(rule)
    with host.receiver() as got, contextlib.closing(host.sender(0)) as sender:
        sender.burst(30)
        until(lambda: got.n == 30, "what is within the burst arrives")
        host.instance.write("rules.yaml", rule.replace("burst: 50", "burst: 40"))
        tool(host, "reload", "--confirm-timeout", "1s")
        until(lambda: host.instance.json("rules")[0]["burst_tok"] == 50, "the rules before come back")
        sender.burst(60)
        until(lambda: host.instance.seen("slow") == 90, "all are judged")
        until(lambda: got.n == 50, "20 are left")


@pytest.mark.long
def test_a_key_that_floods_is_shut_out_and_let_in_again(host):
    rule = (f"rules:\n  - name: slow\n    match: {{protocol: udp, destination_port: {PORT}}}\n    key: {{source: 32}}\n"
            "    limit: 1000/1s\n    burst: 10\n    ban: {after: 50, within: 10s, for: 3s, max: 1h}\n")
    node = host.start(rule)
    with host.receiver() as got, contextlib.closing(host.sender(0)) as sender:
        sender.burst(100)
        until(lambda: host.instance.seen("slow") == 100, "all are judged")
        counts = host.instance.counts("slow")
        assert counts["limit"] == 50 and counts["banned"] == 50 - counts["admitted"]
        bans = host.instance.json("bans")
        assert [(b["rule"], b["key"], b["times"], b["by"]) for b in bans] == [("slow", CLIENT[4], 1, "rule")]
        assert 0 < bans[0]["remaining_s"] <= 3
        assert metrics(host)["leasegate_bans", frozenset({("rule", "slow")})] == 1
        n = got.n
        node.kill()				# holds with the agent dead
        sender.burst(10)
        until(lambda: host.instance.counts("slow")["banned"] == counts["banned"] + 10, "it is refused")
        until(lambda: host.instance.json("bans") == [], "the ban ends by itself")
        sender.burst(1)
        until(lambda: got.n == n + 1, "it is let in")
        host.instance.node()
        sender.burst(100)
        until(lambda: [b["times"] for b in host.instance.json("bans")] == [2], "it is banned again, for longer")
        assert host.instance.json("bans")[0]["remaining_s"] > 3
        assert metrics(host)["leasegate_bans_total", frozenset({("rule", "slow")})] == 2
        tool(host, "bans", "remove", "slow", CLIENT[4])
        n = got.n
        sender.burst(1)
        until(lambda: got.n == n + 1, "the operator let it in")
        tool(host, "bans", "add", "slow", CLIENT[4], "--for", "1h")
        tool(host, "reload")
        assert [b["by"] for b in host.instance.json("bans")] == ["operator"]
        host.instance.write("rules.yaml", rule.replace("    ban:", "    # ban:"))
        tool(host, "reload")
        assert host.instance.json("bans") == []
        host.instance.write("rules.yaml", rule)
        tool(host, "reload")
        assert host.instance.json("bans") == []		# it ended, and is not only out of sight


@pytest.mark.long
def test_a_hundred_thousand_prefixes_are_loaded_and_changed_without_a_moment_without(host):
    def prefixes(shift):
        return "".join(f"10.{i >> 16 & 255}.{i >> 8 & 255}.{i & 255}\n" for i in range(0x100000 + shift, 0x100000 + shift + 99_999))
    host.instance.write("many.txt", prefixes(0))
    rules = f"lists: {{allow: [{CLIENT[4]}], deny: [{{file: many.txt}}]}}\n" + ALL_DENY
    host.start(rules)
    with host.receiver() as got, host.sender(500) as sender:
        until(lambda: got.n > 100, "traffic flows")
        for i in range(5):
            host.instance.write("many.txt", prefixes(i * 5000))
            start = time.monotonic()
            tool(host, "reload")
            assert time.monotonic() - start < 5
        assert len(host.instance.json("lists")) == 100_000
        sender.stop()
        until(lambda: got.n == sender.n_sent, "each packet passed, as its source was on the allow list throughout")
    host.instance.write("many.txt", prefixes(0) + "11.0.0.1\n")
    assert "100000 prefixes are the most" in tool(host, "reload", ok=False)


@pytest.mark.long
def test_what_the_operator_added_is_there_after_a_reboot_for_the_time_it_has_left(host):
    node = host.start(ALL_PASS)
    tool(host, "lists", "add", "198.51.100.0/24", "--deny", "--for", "1h")
    tool(host, "lists", "add", "203.0.113.7", "--allow")
    tool(host, "lists", "add", "203.0.113.8", "--allow", "--for", "1s")
    node.stop()
    tool(host, "detach")			# as a reboot: nothing is left in the kernel
    until(lambda: not os.path.exists(host.instance.pins), "the pins are gone")
    time.sleep(1)		# the third one's time
    host.instance.node()
    assert lists(host) == {"198.51.100.0/24": ("deny", "operator"), "203.0.113.7/32": ("allow", "operator")}
    left = {e["prefix"]: e["remaining_s"] for e in host.instance.json("lists")}
    assert 3500 < left["198.51.100.0/24"] <= 3600 and left["203.0.113.7/32"] is None


def ping(host, family, timeout_s=0.2):
    """One echo request; whether it is answered."""
    kind = (socket.AF_INET, socket.IPPROTO_ICMP, 8, 0) if family == 4 else (socket.AF_INET6, socket.IPPROTO_ICMPV6, 128, 129)
    with contextlib.closing(host.client.socket(kind[0], socket.SOCK_RAW, kind[1])) as sock:
        sock.settimeout(timeout_s)
        sock.connect((HOST[family], 0))
        echo = struct.pack("!BBHHH", kind[2], 0, 0, 4711, 1)
        sock.send(echo[:2] + struct.pack("!H", checksum(echo)) + echo[4:])
        with contextlib.suppress(TimeoutError, ConnectionError, OSError):
            while True:
                got = sock.recv(2048)
                if got[20 if family == 4 else 0] == kind[3]:
                    return True
    return False


def neighbour_states(host):
    return {family: ip(f"-{family}", "neigh", "show", HOST[family], "dev", "up0", ns=host.client).split()[-1:] for family in (4, 6)}


@pytest.mark.parametrize("seconds", [1, pytest.param(60, marks=pytest.mark.long)])
def test_neighbours_stay_known_at_limit_0_and_ping_goes_on_at_once(limited, seconds):
    """Entries of the neighbour table expire every half second or so, on both sides; the hosts ask for each other, and are answered."""
    host = limited
    for ns, dev in ((host.client, "up0"), (host.ns, "in0")):
        for family in ("ipv4", "ipv6"):
            for key, value in (("base_reachable_time_ms", 300), ("gc_stale_time", 1), ("delay_first_probe_time", 0), ("retrans_time_ms", 100)):
                assert ns.run("sh", "-c", f"echo {value} >/proc/sys/net/{family}/neigh/{dev}/{key}").returncode == 0
    for family in (4, 6):
        ip(f"-{family}", "neigh", "del", HOST[family], "dev", "up0", ns=host.client)
    host.instance.write("rules.yaml", ALL_DENY)
    tool(host, "reload")

    def kept():
        return sum(v for (name, labels), v in metrics(host).items()
                   if name == "leasegate_verdict_packets_total" and ("reason", "exempt") in labels)
    assert not ping(host, 4) and not ping(host, 6)
    before, end = kept(), time.monotonic() + seconds
    while time.monotonic() < end:
        assert not ping(host, 4) and not ping(host, 6)
        states = neighbour_states(host)
        assert all(s and s[0] not in ("FAILED", "INCOMPLETE") for s in states.values()), states
    assert kept() > before + 2 * seconds		# they did ask for each other meanwhile, in either family
    host.instance.write("rules.yaml", ALL_PASS)
    tool(host, "reload")
    assert ping(host, 4) and ping(host, 6)


@pytest.mark.long
def test_a_flood_of_arp_is_bounded_and_the_link_stays_up(host):
    """The host asks and is asked 10,000 times a second at most, whatever comes."""
    host.start(ALL_PASS)
    frame = bytes.fromhex("ffffffffffff") + bytes.fromhex(host.client.mac("up0").replace(":", "")) + bytes.fromhex("08060001080006040001")
    frame += bytes.fromhex(host.client.mac("up0").replace(":", "")) + bytes([10, 90, 0, 1]) + bytes(6) + bytes([10, 90, 0, 77])
    with FrameSender(host.client, "up0", 40000, frame.ljust(60, b"\0")) as flood:
        until(lambda: sum(v for (name, labels), v in metrics(host).items() if name == "leasegate_verdict_packets_total"
                          and ("reason", "exempt_flood") in labels) > 0, "the flood is bounded", 20)
    assert flood.n_sent > 10000
