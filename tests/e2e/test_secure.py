# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What a daemon gives up once it has started, and that its work goes on without it."""
import contextlib
import os
import re
import signal
import subprocess

import pytest
from lib import BPFFS, PINS, prom
from lib.cluster import USER as USER_ADDRESS
from lib.host import CLIENT
from lib.net import ip
from lib.wait import until
from test_limits import bucket_rule
from test_regions import SHORT_LIMIT, SHORT_S, assert_law, go_for, rule, running
from test_tls import region

USER = 65533
CAPS = {"CAP_NET_ADMIN": 12, "CAP_BPF": 39}
RULES = bucket_rule("1000/1h", 1000)
LATER = {"name": "later*", "tc": "on"}


def status(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def limit(pid, name):
    with open(f"/proc/{pid}/limits", encoding="ascii") as f:
        return re.search(rf"^{name} +(\S+) +(\S+)", f.read(), re.MULTILINE).groups()


def assert_keeps(pid, *caps, bounding="0" * 16):
    got = status(pid)
    want = f"{sum(1 << CAPS[c] for c in caps):016x}"
    assert (got["CapPrm"], got["CapEff"]) == (want, want)
    assert {got["CapInh"], got["CapAmb"]} == {"0" * 16}
    assert got["CapBnd"] == bounding
    assert (got["NoNewPrivs"], got["Seccomp"]) == ("1", "2")
    assert limit(pid, "Max core file size") == ("0", "0")


@contextlib.contextmanager
def interface(host, name):
    ip("link", "add", name, "type", "veth", "peer", "name", "end0", ns=host.ns)
    try:
        ip("link", "set", name, "up", ns=host.ns)
        yield
    finally:
        ip("link", "del", name, ns=host.ns)


def is_attached(host, name):
    got = [i for i in host.instance.json("status")["node"]["interfaces"] if i["interface"] == name]
    return got and got[0]["attached"]


def assert_works(host, daemon):
    """All that a node does after its start: attaching, other rules, files, pages, another process for these."""
    with interface(host, "later0"):
        until(lambda: is_attached(host, "later0"), "an interface that appears is limited")
    host.instance.write("rules.yaml", bucket_rule("1000/1h", 900))
    daemon.reload()
    until(lambda: "rules loaded from" in daemon.stderr, "other rules are in force")
    host.instance.write("rules.yaml", RULES)
    assert host.instance.tool("reload").returncode == 0
    first = daemon.http_child()
    os.kill(first, signal.SIGKILL)
    until(lambda: daemon.http_child() != first and host.ns.http_get("/healthz", 9464)[0] == 200, "another process answers")
    with open(host.instance.path("state/rules.last"), "rb") as f:
        assert b"1000/1h" in f.read()


def test_a_node_keeps_two_capabilities(host):
    assert_keeps(host.start(RULES).pid, "CAP_NET_ADMIN", "CAP_BPF")


@pytest.mark.long
def test_a_node_without_privileges_works_and_is_taken_over(host):
    host.configure(RULES)
    config = host.instance.config(rules="rules.yaml", interfaces=[{"name": "in0", "xdp": "native", "tc": "off"}, LATER])
    for n in range(2):
        d = host.instance.node(config)
        assert_keeps(d.pid, "CAP_NET_ADMIN", "CAP_BPF")
        assert_works(host, d)
        # The next one takes over what this one leaves.
        assert (n == 0) != ("adopted the maps" in d.stderr)
        d.kill()


@pytest.mark.long
def test_a_node_that_is_not_root_needs_no_more_than_its_capabilities(host):
    host.configure(RULES)
    config = host.instance.config(rules="rules.yaml", interfaces=[{"name": "in0", "xdp": "native", "tc": "off"}, LATER])
    mode = os.stat(BPFFS).st_mode & 0o7777
    caps = "+net_admin,+bpf,+perfmon"
    before = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", f"--inh-caps={caps}", f"--ambient-caps={caps}"]
    for folder in (PINS, host.instance.run_dir):
        os.makedirs(folder, exist_ok=True)
        os.chown(folder, USER, USER)
    subprocess.run(["chown", "-R", str(USER), host.instance.folder], check=True)
    os.chmod(BPFFS, 0o711)
    try:
        for n in range(2):
            d = host.instance.node(config, before=before)
            assert status(d.pid)["Uid"].split() == [str(USER)] * 4
            # Only CAP_SETPCAP would empty the bounding set, which is worth nothing: no program that is run has more than its parent.
            assert_keeps(d.pid, "CAP_NET_ADMIN", "CAP_BPF", bounding=status(os.getpid())["CapBnd"])
            # Not dumpable: what shows its memory is root's, not its user's.
            assert os.stat(f"/proc/{d.pid}/environ").st_uid == 0
            assert_works(host, d)
            assert (n == 0) != ("adopted the maps" in d.stderr)
            assert "cannot be" not in d.stderr, d.stderr
            d.stop()
    finally:
        os.chmod(BPFFS, mode)
        os.chown(PINS, 0, 0)


@pytest.mark.long
def test_a_node_says_which_files_it_will_not_read_again(host):
    host.configure(RULES)
    host.instance.write("rules.yaml", RULES)
    os.chown(host.instance.path("rules.yaml"), USER, USER)
    os.chmod(host.instance.path("rules.yaml"), 0o600)
    d = host.instance.node()
    assert re.search(r"rules\.yaml: cannot be read again, now that .*: Permission denied; give it to the user", d.stderr), d.stderr


def memory_has(pid, *patterns):
    """Is one of these byte strings in what a process has in its memory?"""
    with open(f"/proc/{pid}/maps", encoding="ascii") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:
        for line in maps:
            start, end = (int(x, 16) for x in line.split()[0].split("-"))
            if line.split()[1][0] != "r" or "[v" in line:
                continue
            try:
                mem.seek(start)
                part = mem.read(end - start)
            except OSError:
                continue
            if any(p in part for p in patterns):
                return True
    return False


def scalar(path):
    """The number that a P-256 key is, as texts and libraries keep it."""
    text = subprocess.run(["openssl", "pkey", "-in", path, "-noout", "-text"], check=True, capture_output=True, text=True).stdout
    number = bytes.fromhex(re.search(r"priv:\n((?: +[0-9a-f:]+\n)+)", text)[1].replace(":", "").replace(" ", "").replace("\n", ""))[-32:]
    return number, number[::-1]


def test_a_region_keeps_no_capability_and_its_http_process_has_not_the_key():
    with region() as (daemon, certs, _instance, _keys):
        number = scalar(certs.folder / "eu-west.key")
        assert_keeps(daemon.pid)
        assert memory_has(daemon.pid, *number)
        for _ in range(2):
            first = daemon.http_child()
            assert not memory_has(daemon.keeper(), *number) and not memory_has(first, *number)
            os.kill(first, signal.SIGKILL)
            until(lambda first=first: daemon.http_child() != first and daemon.ns.http_get("/healthz", 9465)[0] == 200, "another process answers")


SECRET = "0123456789abcdef" * 4
HASH = re.compile(r"hash ([0-9a-f]{32})$")
SECRET_RULE = rule(SHORT_LIMIT, SHORT_S, "    secret: true\n")


def dump(instance, name):
    """All that a pinned map holds, as bytes."""
    r = instance.ns.run("bpftool", "-j", "map", "dump", "pinned", os.path.join(instance.maps, name))
    assert r.returncode == 0, r.stderr
    return bytes(int(x, 16) for x in re.findall(r'"0x([0-9a-f]{2})"', r.stdout))


def files_have(folder, *patterns):
    for path in (os.path.join(f, n) for f, _, names in os.walk(folder) for n in names):
        with contextlib.suppress(OSError), open(path, "rb") as f:
            content = f.read()
            if any(p in content for p in patterns):
                return path
    return None


def hashes(r):
    return {HASH.match(k["key"])[1] for k in r.instance.json("keys") if k["form"] == "product"}


@pytest.mark.long
def test_a_secret_key_is_one_key_everywhere_and_nowhere_an_address():
    user = bytes(int(x) for x in USER_ADDRESS.split("."))
    with running(SECRET_RULE, secret=SECRET) as c:
        for r in c:
            r.sender.rate_pps = 0.5 * SHORT_LIMIT / SHORT_S
        until(lambda: all(r.receiver.n > 100 for r in c), "every region is served", 20)
        until(lambda: all(hashes(r) for r in c), "each host has the key")
        assert len(set.union(*(hashes(r) for r in c))) == 1
        for r in c:
            texts = {f"hash {h}" for h in hashes(r)}
            assert {k["key"] for k in r.instance.json("keys", "--rule", "per-user", "--source", USER_ADDRESS)} == texts
            assert r.instance.json("keys", "--rule", "per-user", "--source", "198.51.100.8") == []
            assert {lease["key"] for lease in r.instance.json("leases")["region"]} == texts
            for name in ("buckets", "products", "wide_keys", "bans", "logs"):
                assert user not in dump(r.instance, name), name
            assert files_have(r.instance.path("state"), user, USER_ADDRESS.encode()) is None
            assert USER_ADDRESS not in r.server.stderr + r.node.stderr
        # One limit for all of them: more than it is sent for two windows.
        for r in c:
            r.sender.rate_pps = SHORT_LIMIT / SHORT_S
        go_for(2 * SHORT_S)
        assert_law(c, SHORT_LIMIT, SHORT_S)


@pytest.mark.long
def test_a_host_with_another_secret_is_told_so():
    with running(SECRET_RULE, secret=SECRET) as c:
        east, _west, _south = c
        east.node.stop()
        east.instance.write("secret", SECRET[::-1])
        c.start_node(east)
        for r in c:
            r.sender.rate_pps = 0.2 * SHORT_LIMIT / SHORT_S

        def refused():
            _, text = east.ns.http_get("/metrics", 9465)
            return prom.Page(text).get("leasegate_lessor_refused_total", status="unknown_rule")
        until(lambda: refused() > 0, "the region knows no such rule", 20)


@pytest.mark.long
def test_a_secret_rule_of_a_host_bans_and_is_asked_by_address(host):
    secret = host.instance.write("secret", SECRET)
    host.start(bucket_rule("5/1h", 5) + "    secret: true\n    ban: {after: 10, within: 10s, for: 10m}\n", secret_file=secret)
    with host.sender(100):
        until(lambda: host.instance.json("bans"), "the sender is banned")
    key = host.instance.json("bans")[0]["key"]
    assert HASH.match(key)
    assert [k["key"] for k in host.instance.json("keys", "--source", CLIENT[4])] == [key]
    assert host.instance.tool("bans", "add", "per-source", "10.90.0.77", "--for", "1m").returncode == 0
    assert len({b["key"] for b in host.instance.json("bans")}) == 2


@pytest.mark.long
def test_a_secret_rule_without_a_secret_is_refused(host):
    d = host.instance.daemon("node", host.configure(bucket_rule("5/1h", 5) + "    secret: true\n")).start()
    assert d.wait_exit() == 1
    assert "secret: true needs `secret_file` in the configuration" in d.stderr
