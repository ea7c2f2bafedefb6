# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Whose bucket real packets are charged to: tags at both hooks, services of one host by their control group."""
import contextlib
import os
import subprocess
import sys

import pytest
from lib.host import CLIENT, HOST, PORT, fresh_name
from lib.net import ip
from lib.traffic import FrameSender, Receiver, udp_frame
from lib.wait import until

SEND = """
import socket, sys
open(sys.argv[1] + "/cgroup.procs", "w").write("0")
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(int(sys.argv[4])):
    s.sendto(b"x", (sys.argv[2], int(sys.argv[3])))
"""


@contextlib.contextmanager
def cgroup(name):
    """A control group of the unified hierarchy."""
    with open("/proc/mounts", encoding="utf-8") as mounts:
        roots = [words[1] for words in (line.split() for line in mounts) if words[2] == "cgroup2"]
    if not roots:
        pytest.skip("no unified hierarchy of control groups is mounted")
    path = os.path.join(roots[0], name)
    os.mkdir(path)
    try:
        yield path
    finally:
        os.rmdir(path)


def send_from(ns, group, n):
    """n datagrams to the client from a process of the group."""
    argv = ns.enter_argv() + [sys.executable, "-c", SEND, group, CLIENT[4], str(PORT), str(n)]
    subprocess.run(argv, check=True, timeout=20)


def test_services_of_one_host_are_limited_by_their_control_group(host):
    rules = ("rules:\n"
             "  - name: per-service\n"
             "    match: {protocol: udp, direction: egress}\n"
             "    key: {cgroup: true, destination_port: true}\n"
             "    table: exact\n"
             "    limit: 20/1h\n")
    host.instance.write("rules.yaml", rules)
    at = {"name": "in0", "xdp": "off", "tc": "off", "tc_egress": "on"}
    host.instance.node(host.instance.config(rules="rules.yaml", interfaces=[at]))
    ip("-4", "neigh", "replace", CLIENT[4], "lladdr", host.client.mac("up0"), "dev", "in0", "nud", "permanent", ns=host.ns)
    with cgroup(fresh_name("a")) as a, cgroup(fresh_name("b")) as b, Receiver(host.client, CLIENT[4], PORT) as got:
        send_from(host.ns, a, 50)
        send_from(host.ns, b, 5)
        send_from(host.ns, b, 50)
        until(lambda: got.n == 40, "twenty datagrams of each service arrive")
        for group in a, b:
            key = f"cgroup {os.stat(group).st_ino}, destination_port {PORT}"
            found = host.instance.json("keys", "--rule", "per-service", "--key", key)
            assert [k["key"] for k in found] == [key] and found[0]["form"] == "product"
        counts = host.instance.counts("per-service")
    assert counts["admitted"] == 40 and counts["limit"] == 65


@pytest.mark.parametrize("hook", ["xdp", "tc"])
def test_tags_make_the_same_key_at_either_hook(host, hook):
    rules = ("rules:\n"
             "  - name: per-customer\n"
             "    match: {protocol: udp}\n"
             "    key: {source: 24, vlan: true, inner_vlan: true, interface: true}\n"
             "    table: exact\n"
             "    limit: 10/1h\n")
    host.start(rules, hook)
    wanted = {(): "none, inner_vlan none", (7,): "7, inner_vlan none", (7, 4): "7, inner_vlan 4", (208, 4): "208, inner_vlan 4"}
    for tags in wanted:
        frame = udp_frame(host.client.mac("up0"), host.ns.mac("in0"), CLIENT[4], (HOST[4], PORT), vlans=tags)
        with FrameSender(host.client, "up0", 1000, frame) as sent:
            until(lambda sent=sent: sent.n_sent >= 15, "frames are sent")
    keys = until(lambda: (k := host.instance.json("keys", "--rule", "per-customer")) and len(k) == len(wanted) and k,
                 "each pair of tags has a bucket")
    assert {k["key"] for k in keys} == {f"source 10.90.0.0/24, vlan {tags}, interface in0" for tags in wanted.values()}
    assert host.instance.counts("per-customer")["admitted"] == 10 * len(wanted)


def test_rules_that_match_nothing_here_are_said_at_the_start_and_at_a_reload(host):
    rules = ("rules:\n"
             "  - {name: out, match: {direction: egress}, limit: 5/1s}\n"
             "  - {name: there, match: {interface: [eth7, eth8]}, limit: 5/1s}\n"
             "  - {name: here, match: {interface: [eth7, in0], direction: ingress}, limit: 500/1s}\n")
    node = host.start(rules, "tc")
    said = "\n".join(node.lines)
    assert 'rule "out" (line 2): matches nothing here: no interface of the configuration has tc_egress: on' in said
    assert 'rule "there" (line 3): matches nothing here: its interfaces are not in the configuration' in said
    assert 'rule "here"' not in said
    host.instance.write("rules.yaml", rules.replace("[eth7, eth8]", "[eth8]"))
    assert host.instance.tool("reload").returncode == 0
    until(lambda: "\n".join(node.lines).count('rule "there" (line 3): matches nothing here') == 2, "said again")


@pytest.mark.parametrize("hook", ["xdp", "tc"])
def test_frames_meet_the_rules_that_their_fields_and_place_match(host, hook):
    rules = ("sets:\n"
             f"  - {{name: client, prefixes: [{CLIENT[4]}, 2001:db8:77::/48]}}\n"
             "rules:\n"
             "  - {name: tagged, match: {protocol: udp, vlan: 7, inner_vlan: none, fragment: none}, limit: 1000/1s}\n"
             "  - {name: untagged, match: {vlan: none, source_set: client, source_port: 4000}, limit: 1000/1s}\n"
             "  - {name: here, match: {interface: [eth9, in0], direction: ingress, protocol: udp}, limit: 1000/1s}\n"
             "  - {name: elsewhere, match: {interface: eth9, protocol: udp}, limit: 1000/1s}\n"
             "  - {name: other-port, match: {source_port: 4001}, limit: 1000/1s}\n"
             "  - {name: arp, match: {ethertype: arp}, limit: 1000/1s}\n")
    host.start(rules, hook)
    for tags in (), (7,):
        frame = udp_frame(host.client.mac("up0"), host.ns.mac("in0"), CLIENT[4], (HOST[4], PORT), vlans=tags)
        with FrameSender(host.client, "up0", 500, frame) as sent:
            until(lambda sent=sent: sent.n_sent >= 20, "frames are sent")
        sent_each = sent.n_sent
    until(lambda: host.instance.counts("tagged").get("admitted") == sent_each, "tagged frames met their rule")
    counts = {rule: host.instance.counts(rule).get("admitted", 0)
              for rule in ("untagged", "here", "elsewhere", "other-port", "arp")}
    assert counts["untagged"] >= 20 and counts["here"] == counts["untagged"] + sent_each
    assert counts["elsewhere"] == counts["other-port"] == 0
    ip("-4", "neigh", "del", HOST[4], "dev", "up0", ns=host.client)
    host.client.run("ping", "-c", "1", "-W", "1", HOST[4])
    until(lambda: host.instance.counts("arp").get("admitted", 0) > 0, "a question who has the address met its rule")
