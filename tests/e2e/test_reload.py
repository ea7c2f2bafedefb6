# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Rules change while packets flow: a bad file changes nothing, a good one changes what it names and nothing else."""
import contextlib
import os
import shutil

import pytest
from lib.host import CLIENT, PORT
from lib.wait import until
from test_limits import bucket_rule


def two_rules(first, second, second_limit="1/1h"):
    """Two rules on neighbouring ports, by their bursts."""
    a = bucket_rule("1/1h", first).replace("per-source", "first")
    b = bucket_rule(second_limit, second).replace("per-source", "second").replace(f"[{PORT}]", f"[{PORT + 1}]")
    return a + b.removeprefix("rules:\n")


def spend(host, sender, rule, n):
    """Sends n packets and waits until the rule judged them; returns how many more it admitted."""
    before = host.instance.counts(rule).get("admitted", 0)
    seen = host.instance.seen(rule)
    sender.burst(n)
    until(lambda: host.instance.seen(rule) == seen + n, f"rule {rule} judged {n} packets")
    return host.instance.counts(rule).get("admitted", 0) - before


def by_signal(host, node):
    """SIGHUP; returns when the daemon has said how it went: True for loaded."""
    n = len(node.lines)
    node.reload()

    def verdict():
        return [line for line in node.lines[n:] if "rules" in line]
    line = until(verdict, "the daemon says what became of its reload")[0]
    return ": error: " not in line, line


def by_tool(host, _node):
    r = host.instance.tool("reload")
    return r.returncode == 0, r.stderr


HOWS = {"signal": by_signal, "tool": by_tool}


@pytest.mark.parametrize("how", HOWS)
def test_a_good_file_changes_one_limit_and_leaves_the_rest_as_it_was(host, how):
    node = host.start(two_rules(50, 50))
    link = host.instance.json("status")["attachments"]
    with contextlib.closing(host.sender(0)) as one, contextlib.closing(host.sender(0, port=PORT + 1)) as two:
        assert spend(host, one, "first", 30) == 30
        assert spend(host, two, "second", 30) == 30
        ids = {r["rule"]: r["rule_id"] for r in host.instance.json("rules")}
        host.instance.write("rules.yaml", two_rules(50, 40))
        ok, said = HOWS[how](host, node)
        assert ok, said
        assert {r["rule"]: r["rule_id"] for r in host.instance.json("rules")} == ids
        assert host.instance.json("status")["attachments"] == link
        assert spend(host, one, "first", 60) == 20
        assert spend(host, two, "second", 60) == 10


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("bad, where", [("rules:\n  - name: first\n    limit: 5/1fortnight\n", ":3"),
                                        ("rules:\n  - name: first\n    limit: [\n", ":"), ("", "rules.yaml")])
def test_a_bad_file_changes_nothing_and_says_where(host, how, bad, where):
    node = host.start(two_rules(50, 50))
    before = host.instance.json("status")
    rules = host.instance.json("rules")
    host.instance.write("rules.yaml", bad)
    ok, said = HOWS[how](host, node)
    assert not ok and host.instance.path("rules.yaml") in said and where in said, said
    after = host.instance.json("status")
    assert after["attachments"] == before["attachments"]
    assert after["kernel"]["rules_version"] == before["kernel"]["rules_version"]
    assert host.instance.json("rules") == rules
    assert node.alive
    with contextlib.closing(host.sender(0)) as one:
        assert spend(host, one, "first", 60) == 50


@pytest.mark.parametrize("spent, new, left", [(30, 40, 10), (30, 60, 30), (30, 30, 0), (30, 20, 0), (60, 70, 20)])
def test_a_changed_limit_keeps_what_was_spent(host, spent, new, left):
    """remaining = max(0, new - spent), where 50 was the old burst."""
    node = host.start(bucket_rule("1/1h", 50))
    with contextlib.closing(host.sender(0)) as sender:
        assert spend(host, sender, "per-source", spent) == min(spent, 50)
        host.instance.write("rules.yaml", bucket_rule("1/1h", new))
        ok, said = by_tool(host, node)
        assert ok, said
        assert host.instance.json("rules")[0]["burst_tok"] == new
        assert spend(host, sender, "per-source", 100) == left

        def bucket_burst():
            sender.burst(1)
            return host.instance.key(CLIENT[4])["burst_tok"]
        until(lambda: bucket_burst() == new, "the bucket's copy for readers follows with the traffic")


def test_a_file_behind_a_link_that_is_turned_is_read_by_the_reload(host):
    """As configuration is mounted into containers: folders by their time, a link `..data` to one of them, and a link to the file in that."""
    for when, burst in (("..1", 50), ("..2", 40)):
        os.mkdir(host.instance.path(when))
        host.instance.write(f"{when}/rules.yaml", bucket_rule("1/1h", burst))
    os.symlink("..1", host.instance.path("..data"))
    os.symlink("..data/rules.yaml", host.instance.path("rules.yaml"))
    interface = {"name": "in0", "xdp": "native"}
    node = host.instance.node(host.instance.config(rules="rules.yaml", interfaces=[interface]))
    with contextlib.closing(host.sender(0)) as sender:
        assert spend(host, sender, "per-source", 30) == 30
        os.symlink("..2", host.instance.path("..new"))
        os.rename(host.instance.path("..new"), host.instance.path("..data"))
        shutil.rmtree(host.instance.path("..1"))
        ok, said = by_tool(host, node)
        assert ok, said
        assert spend(host, sender, "per-source", 30) == 10


def test_many_reloads_under_load_never_refill_a_bucket(host):
    node = host.start(bucket_rule("1/1h", 50))
    with host.receiver() as got, host.sender(2000):
        for i in range(20):
            host.instance.write("rules.yaml", bucket_rule("1/1h", 50 - i % 2))
            ok, said = by_tool(host, node)
            assert ok, said
        seen = host.instance.seen("per-source")
        until(lambda: host.instance.seen("per-source") > seen + 200, "packets are judged after the last reload")
    assert host.instance.counts("per-source")["admitted"] == got.n <= 50


def crowd(n_before, n_after):
    """The rule of the traffic among others, for other ports, that let nothing through. More specific ones stand before it."""
    others = [f"{{name: before-{i}, limit: 0/1s, match: {{source: 10.9.{i}.0/24, destination_port: {PORT}}}}}" for i in range(n_before)]
    others += [f"{{name: after-{i}, limit: 0/1s, match: {{destination_port: {7000 + 10 * i}-{7009 + 10 * i}}}}}" for i in range(n_after)]
    return bucket_rule("1/1h", 50) + "".join(f"  - {rule}\n" for rule in others)


def test_each_packet_meets_one_whole_set_of_rules_while_sets_are_swapped(host):
    """Rules and what finds them change together, or packets would be charged to the wrong rule."""
    node = host.start(crowd(0, 0), max_rules=128)
    with host.receiver() as got, host.sender(3000) as sender:
        for i in range(20):
            host.instance.write("rules.yaml", crowd((i * 13) % 40, (i * 7) % 20))
            ok, said = by_tool(host, node)
            assert ok, said
        sender.stop()
        sent = len(sender.sent_ns)
        until(lambda: host.instance.seen("per-source") == sent, "each packet was judged by its rule, once")
        others = [r for r in host.instance.json("rules") if r["rule"] != "per-source"]
        assert others and not any(r["counts"] for r in others)
        until(lambda: got.n == 50, "what was admitted arrives")
    assert host.instance.counts("per-source")["admitted"] == 50


@pytest.mark.parametrize("new, left", [(20, 0), (70, 20)])
def test_a_rule_that_leaves_and_comes_back_finds_its_buckets_as_they_were(host, new, left):
    """Else taking a rule out for a moment would be a way to a second limit."""
    node = host.start(two_rules(50, 50))
    with contextlib.closing(host.sender(0, port=PORT + 1)) as two, host.receiver(port=PORT + 1) as got:
        assert spend(host, two, "second", 60) == 50
        host.instance.write("rules.yaml", bucket_rule("1/1h", 50).replace("per-source", "first"))
        assert by_tool(host, node)[0]
        assert [r["rule"] for r in host.instance.json("rules")] == ["first"]
        n = got.n
        two.burst(30)
        until(lambda: got.n == n + 30, "a port without a rule is open")
        host.instance.write("rules.yaml", two_rules(50, new))
        assert by_tool(host, node)[0]
        assert spend(host, two, "second", 60) == left
