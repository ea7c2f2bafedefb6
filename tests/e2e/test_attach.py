# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Where a node enforces: interfaces by name and by pattern, those that come later, come back or are taken away, and how each is said."""
import contextlib
import os
import signal
import subprocess
import time

import pytest
from lib.daemon import READY
from lib.host import HOST
from lib.net import ip
from lib.prom import Page
from lib.wait import until
from test_limits import bucket_rule

NOT_READY = "leasegated: warning: running, but not ready: "
RULES = bucket_rule("1/1h", 50)


def configured(host, interfaces):
    host.instance.write("rules.yaml", RULES)
    return host.instance.config(rules="rules.yaml", interfaces=interfaces)


def running(host):
    """A node that is up, whether it is ready or not."""
    node = host.instance.daemon("node", host.instance.path("node.yaml")).start()
    until(lambda: READY in node.lines or any(line.startswith(NOT_READY) for line in node.lines) or not node.alive, "it runs", 15)
    assert node.alive, node.stderr
    return node


def attached(host):
    """{(interface, hook): mode} as the kernel has it."""
    return {(a["interface"], a["hook"]): a["mode"] for a in host.instance.json("status")["attachments"]}


def missing(host):
    """{interface: why} of those that should be attached and are not."""
    return {i["interface"]: i["why"] for i in host.instance.json("status")["node"]["interfaces"] if not i["attached"]}


def readyz(host):
    return host.ns.http_get("/readyz", 9464)


def page(host):
    return Page(host.ns.http_get("/metrics", 9464)[1])


def pair(host, a, b):
    ip("link", "add", a, "type", "veth", "peer", "name", b, ns=host.ns)


def links(host):
    """Names of what is pinned for interfaces."""
    folder = os.path.join(host.instance.pins, "links")
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def batch(host, *lines):
    """Many commands in one run of ip(8)."""
    subprocess.run(host.ns.enter_argv() + ["ip", "-batch", "-"], input="\n".join(lines) + "\n", text=True, check=True, timeout=60)


def open_files(node):
    return len(os.listdir(f"/proc/{node.pid}/fd"))


def lost_news(host, node):
    """What the node's netlink sockets dropped."""
    table = host.ns.run("cat", "/proc/net/netlink").stdout.splitlines()[1:]
    mine = {os.stat(f"/proc/{node.pid}/fd/{fd}").st_ino for fd in os.listdir(f"/proc/{node.pid}/fd")}
    return sum(int(line.split()[8]) for line in table if int(line.split()[9]) in mine)


def test_interfaces_are_attached_as_they_come_by_their_own_entry_or_the_first_pattern_that_fits(host):
    configured(host, [{"name": "lga*", "xdp": "native"}, {"name": "lg?1"}, {"name": "in0"},
                      {"name": "lga7", "tc": "off", "tc_egress": "on", "wait": True}])
    running(host)
    assert attached(host) == {("in0", "tc_ingress"): "tcx"}
    # A node starts before its interface is there, and says so wherever one may look.
    status, why = readyz(host)
    assert status == 503 and "lga7" in why and "no such interface yet" in missing(host)["lga7"]
    assert "lga7" in host.instance.tool("status").stdout
    metrics = page(host)
    assert metrics.get("leasegate_attached", interface="lga7", hook="tc_egress", mode="none") == 0
    assert metrics.get("leasegate_attached", interface="in0", hook="tc_ingress", mode="tcx") == 1
    assert metrics.get("leasegate_enforcing") == 0
    pair(host, "lga0", "lgb0")
    pair(host, "lga1", "lgb1")
    pair(host, "lga7", "lgb7")
    want = {("lga0", "xdp"): "native", ("lga1", "xdp"): "native", ("lgb1", "tc_ingress"): "tcx", ("lga7", "tc_egress"): "tcx",
            ("in0", "tc_ingress"): "tcx"}
    until(lambda: attached(host) == want, "each is attached as its entry says", timeout_s=1)
    assert readyz(host)[0] == 200 and missing(host) == {}
    metrics = page(host)
    assert all(metrics.get("leasegate_attached", interface=name, hook=hook, mode=mode) == 1 for (name, hook), mode in want.items())
    assert metrics.get("leasegate_enforcing") == 1
    # Another name may have another entry, or none.
    ip("link", "set", "lga1", "name", "lgc1", ns=host.ns)
    ip("link", "set", "lga0", "name", "none0", ns=host.ns)
    ip("link", "del", "lga7", ns=host.ns)
    want = {(name, "tc_ingress"): "tcx" for name in ("lgc1", "lgb1", "in0")}
    until(lambda: attached(host) == want, "the names of today decide", timeout_s=2)
    assert links(host) == ["in0-tc_ingress", "lgb1-tc_ingress", "lgc1-tc_ingress"]


@pytest.mark.long
def test_what_somebody_detaches_is_attached_again_and_what_somebody_put_there_is_left(host, tmp_path):
    configured(host, [{"name": "lga0", "xdp": "native"}, {"name": "in0"}])
    pair(host, "lga0", "lgb0")
    node = running(host)
    for pin in links(host):
        assert host.ns.run("bpftool", "link", "detach", "pinned", f"{host.instance.pins}/links/{pin}").returncode == 0
    until(lambda: readyz(host)[0] == 503, "that is seen", timeout_s=3)
    until(lambda: readyz(host)[0] == 200, "and made good", timeout_s=3)
    assert set(attached(host)) == {("lga0", "xdp"), ("in0", "tc_ingress")} and len(links(host)) == 2
    assert sum("detached our program; it is" in line for line in node.lines) == 2
    # This time somebody is faster.
    source, made = tmp_path / "foreign.bpf.c", tmp_path / "foreign.bpf.o"
    source.write_text('#include <linux/bpf.h>\n__attribute__((section("xdp"), used)) int lgt_foreign(struct xdp_md *ctx)\n'
                      '{\n\treturn XDP_PASS;\n}\nchar l[] __attribute__((section("license"), used)) = "GPL";\n')
    subprocess.run([os.environ.get("CLANG", "clang"), "-target", "bpf", "-O2", "-g", "-idirafter",
                    f"/usr/include/{os.uname().machine}-linux-gnu", "-c", source, "-o", made], check=True)
    assert host.ns.run("sh", "-c", f"bpftool link detach pinned {host.instance.pins}/links/lga0-xdp && "
                                   f"ip link set dev lga0 xdpdrv obj {made} sec xdp").returncode == 0
    foreign = host.ns.link("lga0")["xdp"]["prog"]["id"]
    until(lambda: f"bpftool prog show id {foreign}`" in missing(host).get("lga0", ""), "its number is said", timeout_s=3)
    assert host.ns.link("lga0")["xdp"]["prog"]["id"] == foreign
    assert page(host).get("leasegate_attached", interface="lga0", hook="xdp", mode="none") == 0
    ip("link", "set", "dev", "lga0", "xdp", "off", ns=host.ns)
    until(lambda: readyz(host)[0] == 200, "ours comes back once the place is free", timeout_s=3)


@pytest.mark.long
@pytest.mark.parametrize("mtu", [3400, 3600, 9000])
def test_native_xdp_limits_interfaces_with_jumbo_frames(host, mtu):
    for ns, name in ((host.ns, "in0"), (host.client, "up0")):
        ip("link", "set", name, "mtu", mtu, ns=ns)
    host.start(RULES)
    assert attached(host) == {("in0", "xdp"): "native"}
    payload = b"x" * (mtu - 28)
    with host.receiver() as got, contextlib.closing(host.sender(0, payload=payload)) as sender:
        sender.burst(60)
        until(lambda: host.instance.seen("per-source") == 60, "all were judged")
        until(lambda: got.n == 50, "50 arrive whole")


@pytest.mark.long
def test_where_the_driver_refuses_auto_is_generic_and_says_so_and_require_native_is_not_attached(host):
    configured(host, [{"name": "lo", "xdp": "auto"}])
    node = running(host)
    assert attached(host) == {("lo", "xdp"): "generic"}
    said = [line for line in node.lines if "warning" in line and "lo: in generic XDP" in line]
    assert len(said) == 1 and "native XDP is refused" in said[0] and "MTU of 65536" in said[0]
    assert page(host).get("leasegate_attached", interface="lo", hook="xdp", mode="generic") == 1
    link = host.instance.json("status")["attachments"][0]["link_id"]
    node.kill()
    node = running(host)
    assert host.instance.json("status")["attachments"][0]["link_id"] == link
    node.stop()
    configured(host, [{"name": "lo", "xdp": "auto", "require_native": True, "wait": True}, {"name": "in0", "xdp": "auto"}])
    node = running(host)
    assert "native XDP is refused" in missing(host)["lo"] and readyz(host)[0] == 503
    assert attached(host)[("in0", "xdp")] == "native"
    node.stop()


@pytest.mark.long
def test_what_the_configuration_no_longer_names_is_detached_at_the_next_start(host):
    pair(host, "lga0", "lgb0")
    configured(host, [{"name": "in0", "tc_egress": "on"}, {"name": "lg*"}])
    running(host).kill()
    assert len(links(host)) == 4
    configured(host, [{"name": "in0"}])
    running(host)
    assert links(host) == ["in0-tc_ingress"] and attached(host) == {("in0", "tc_ingress"): "tcx"}


@pytest.mark.alone
@pytest.mark.long
@pytest.mark.parametrize("entry, said", [({"xdp": "native"}, ("xdp", "native")), ({"tc": "on"}, ("tc_ingress", "tcx"))], ids=["xdp", "tc"])
def test_an_interface_made_again_a_hundred_times_is_attached_again_within_a_second(host, entry, said):
    configured(host, [{"name": "lga0", "wait": True, **entry}])
    node = running(host)
    files, slowest_s = open_files(node), 0
    for _ in range(100):
        pair(host, "lga0", "lgb0")
        began = time.monotonic()
        until(lambda: page(host).get("leasegate_attached", interface="lga0", hook=said[0], mode=said[1]) == 1, "attached", timeout_s=1,
              every_s=0.005)
        slowest_s = max(slowest_s, time.monotonic() - began)
        ip("link", "del", "lga0", ns=host.ns)
    print(f"the slowest took {slowest_s:.3f} s")
    until(lambda: page(host).get("leasegate_attached", interface="lga0", hook=said[0], mode="none") == 0, "it is gone")
    assert links(host) == [] and attached(host) == {}
    until(lambda: open_files(node) == files, "no descriptor is left behind")
    pair(host, "lga0", "lgb0")
    until(lambda: attached(host) == {("lga0", said[0]): said[1]}, "the last one is attached", timeout_s=1)
    assert links(host) == [f"lga0-{said[0]}"]


@pytest.mark.alone
@pytest.mark.long
def test_five_hundred_interfaces_that_live_for_a_moment_leave_nothing_behind(host):
    configured(host, [{"name": "lga*", "xdp": "native", "tc_egress": "on"}])
    node = running(host)
    files = open_files(node)
    want = {(f"lga{i}", hook): mode for i in range(20) for hook, mode in (("xdp", "native"), ("tc_egress", "tcx"))}
    pins = sorted(f"{name}-{hook}" for name, hook in want)

    def add(first, last):
        return [f"link add lga{i} type veth peer name lgb{i}" for i in range(first, last)]

    def delete(first, last):
        return [f"link del lga{i}" for i in range(first, last)]

    # While it watches, and while it cannot: then most of the news are lost.
    for stopped in (False, True):
        if stopped:
            os.kill(node.pid, signal.SIGSTOP)
        batch(host, *(line for i in range(0, 500, 50) for line in add(i, i + 50) + delete(i, i + 50)), *add(0, 20))
        if stopped:
            assert lost_news(host, node) > 0
            os.kill(node.pid, signal.SIGCONT)
        began = time.monotonic()
        until(lambda: attached(host) == want and links(host) == pins, "what stayed is attached, and nothing else", timeout_s=1)
        print(f"after {time.monotonic() - began:.3f} s")
        assert missing(host) == {}
        until(lambda: open_files(node) == files, "no descriptor is left behind")
        os.kill(node.pid, signal.SIGSTOP)
        batch(host, *delete(0, 20), *add(100, 200), *delete(100, 200))
        os.kill(node.pid, signal.SIGCONT)
        until(lambda: attached(host) == {} and links(host) == [], "nothing is left")


def test_a_rules_file_that_cannot_be_used_at_the_start_leaves_those_last_in_force(host):
    configured(host, [{"name": "in0"}])
    running(host).stop()
    assert host.instance.tool("detach").returncode == 0
    # As after a boot: nothing is in the kernel, and somebody wrote half a file.
    host.instance.write("rules.yaml", RULES[:RULES.index("unit")] + "unit: {")
    node = running(host)
    errors = [line for line in node.lines if line.startswith("leasegated: error: ")]
    assert len(errors) == 1 and "rules.yaml:" in errors[0] and "the rules last in force" in errors[0]
    assert page(host).get("leasegate_rules_last_in_force") == 1
    assert "rules.yaml:" in host.instance.json("status")["node"]["rules_why"] and "RULES" in host.instance.tool("status").stdout
    with contextlib.closing(host.sender(0)) as sender:
        sender.burst(60)
        until(lambda: host.instance.seen("per-source") == 60, "all were judged")
    assert host.instance.counts("per-source") == {"admitted": 50, "limit": 10}
    assert host.instance.tool("reload").returncode == 1
    assert page(host).get("leasegate_rules_last_in_force") == 1
    host.instance.write("rules.yaml", RULES.replace("per-source", "other"))
    assert host.instance.tool("reload").returncode == 0
    assert page(host).get("leasegate_rules_last_in_force") == 0


@pytest.mark.long
def test_a_rules_file_that_is_gone_leaves_those_last_in_force(host):
    configured(host, [{"name": "in0"}])
    running(host).kill()
    host.instance.write("rules.yaml", RULES.replace("per-source", "other"))
    running(host).kill()
    os.unlink(host.instance.path("rules.yaml"))
    node = running(host)
    assert [rule["rule"] for rule in host.instance.json("rules")] == ["other"]
    assert any("No such file" in line and "the rules last in force" in line for line in node.lines)


@pytest.mark.long
@pytest.mark.parametrize("port", [{"xdp": "native"}, {"tc": "on"}], ids=["xdp", "tc"])
def test_a_packet_that_passes_a_bridge_and_its_port_is_charged_once(host, port):
    """in0 becomes a port of br0, which has the addresses: each packet passes both."""
    configured(host, [{"name": "br0", "tc_egress": "on", "wait": True}, {"name": "in0", "wait": True, **port}])
    ip("link", "add", "br0", "type", "bridge", ns=host.ns)
    node = running(host)
    above = {("br0", "tc_ingress"): "tcx", ("br0", "tc_egress"): "tcx"}
    below = {("in0", "xdp"): "native"} if "xdp" in port else {("in0", "tc_ingress"): "tcx"}
    assert attached(host) == above | below
    ip("address", "flush", "dev", "in0", ns=host.ns)
    ip("link", "set", "in0", "master", "br0", ns=host.ns)
    ip("address", "add", HOST[4] + "/24", "dev", "br0", ns=host.ns)
    ip("link", "set", "br0", "address", host.ns.mac("in0"), "up", ns=host.ns)
    # What goes out of the bridge passes no other program, so it stays.
    below[("br0", "tc_egress")] = "tcx"
    until(lambda: attached(host) == below, "the bridge gives way to its port", timeout_s=2)
    assert "in0" in missing(host)["br0"] and readyz(host)[0] == 503
    assert page(host).get("leasegate_attached", interface="br0", hook="tc_ingress", mode="none") == 0
    with host.receiver() as got, contextlib.closing(host.sender(0)) as sender:
        sender.burst(100)
        until(lambda: host.instance.seen("per-source") >= 100, "all were judged")
        until(lambda: got.n == 50, "what is admitted arrives")
    assert host.instance.counts("per-source") == {"admitted": 50, "limit": 50}
    # So it is after a restart, and with a pattern it is as it should be.
    node.kill()
    node = running(host)
    assert attached(host) == below and readyz(host)[0] == 503
    node.stop()
    configured(host, [{"name": "br*", "tc_egress": "on"}, {"name": "in0", **port}])
    running(host)
    assert attached(host) == below and readyz(host)[0] == 200
    # Once the port has left, the bridge is limited by itself.
    ip("link", "set", "in0", "nomaster", ns=host.ns)
    until(lambda: attached(host) == above | below, "each has its own packets", timeout_s=2)


@pytest.mark.long
@pytest.mark.parametrize("entry", [{"xdp": "native"}, {"xdp": "generic"}, {"tc": "on", "tc_egress": "on"}], ids=["native", "generic", "tc"])
def test_a_restart_tells_the_kernel_nothing_about_the_link(host, entry):
    """Where XDP goes or comes some adapters are reset, and news of the link are sent."""
    configured(host, [{"name": "in0", **entry}])
    node = running(host)
    before = attached(host)
    with subprocess.Popen(host.ns.enter_argv() + ["ip", "monitor", "link"], stdout=subprocess.PIPE, text=True) as monitor:
        try:
            for end in ("kill", "stop"):
                getattr(node, end)()
                node = running(host)
                assert attached(host) == before
            # The monitor watches: this it must see, and nothing before it.
            ip("link", "set", "lo", "down", ns=host.ns)
            assert ": lo:" in monitor.stdout.readline()
        finally:
            monitor.kill()
