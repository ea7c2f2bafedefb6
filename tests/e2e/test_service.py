# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Under a service manager: the units of systemd are right, the daemons start within what they restrict, and say how it goes."""
import contextlib
import os
import re
import shutil
import socket
import subprocess

import pytest
from lib import ROOT, RUN, unit
from lib.host import HOST
from lib.net import ip
from lib.wait import until
from test_limits import bucket_rule

UNITS = os.path.join(ROOT, "deploy/systemd")
# The largest exposure that `systemd-analyze security` may find, of 10.
EXPOSED = {"node": 2.6, "region": 1.5}
NOBODY = 65534
needs_systemd = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze here")


def unit_path(role):
    return os.path.join(UNITS, f"leasegate-{role}.service")


class Manager:
    """What the daemon says to whoever started it."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "notify")
        self.said = []

    def __enter__(self):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.socket.setblocking(False)
        os.chmod(self.path, 0o666)
        return self

    def __exit__(self, *_exc):
        self.socket.close()

    def hears(self, start, after=0):
        """Waits for a message that begins so, behind the first `after` ones. Returns how many there are up to it."""
        def listen():
            with contextlib.suppress(BlockingIOError):
                while True:
                    self.said.append(self.socket.recv(4096).decode())
            return next((i + 1 for i in range(after, len(self.said)) if self.said[i].startswith(start)), 0)
        return until(listen, f"{start} after {self.said[after:]}", 15)


def confined(instance, role, manager):
    """Words before a daemon that has it live as its unit says, with a watchdog of 0.4 s."""
    folders = [instance.path("state"), instance.run_dir]
    for folder in folders:
        os.makedirs(folder, exist_ok=True)
    words = ["env", f"NOTIFY_SOCKET={manager.path}", "WATCHDOG_USEC=400000", "/usr/bin/python3", unit.__file__, unit_path(role)]
    return words + [word for folder in folders for word in ("--writable", folder)] + ["--"]


@needs_systemd
@pytest.mark.parametrize("role", EXPOSED)
def test_a_unit_is_right_and_leaves_little_exposed(role, tmp_path):
    with open(unit_path(role), encoding="utf-8") as f:
        text = f.read()
    (start,) = unit.read(unit_path(role))["ExecStart"]
    binary, *rest = start.split()
    assert rest[:3] == [role, "--config", f"/etc/leasegate/{role}.yaml"] and rest[3] == "--instance"
    # What is verified is that programs are there, too.
    path = tmp_path / f"leasegate-{role}.service"
    path.write_text(text.replace(binary, "/bin/true"), encoding="utf-8")
    got = subprocess.run(["systemd-analyze", "verify", "--man=no", path], capture_output=True, text=True, check=False, timeout=20)
    assert (got.returncode, got.stdout + got.stderr) == (0, "")
    got = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", path], capture_output=True, text=True,
                         check=True, timeout=20)
    assert float(re.search(r"Overall exposure level for .*: ([0-9.]+)", got.stdout)[1]) <= EXPOSED[role]


def test_a_node_comes_before_the_network_and_its_folders_are_the_instance_s():
    keys = unit.read(unit_path("node"))
    assert "network-pre.target" in keys["Before"][0].split() and keys["Wants"] == ["network-pre.target"]
    assert keys["DefaultDependencies"] == ["no"] and keys["Type"] == ["notify"]
    for role, instance in (("node", "default"), ("region", "region")):
        keys = unit.read(unit_path(role))
        assert keys["ExecStart"][0].split()[-1] == instance
        assert keys["RuntimeDirectory"] == keys["StateDirectory"] == [f"leasegate/{instance}"]


@needs_systemd
def test_a_node_lives_within_its_unit_and_says_how_it_goes(host):
    """Before the network is there: ready is said, the interface is limited when it comes, and until then the gauge says so."""
    host.instance.write("rules.yaml", bucket_rule("1/1h", 5))
    host.instance.config(rules="rules.yaml", interfaces=[{"name": "late0", "tc": "on", "wait": True}])
    with Manager(host.instance.folder) as manager:
        node = host.instance.daemon("node", host.instance.path("node.yaml"), args=["--instance", host.instance.name],
                                    before=confined(host.instance, "node", manager)).start()
        at = manager.hears("STATUS=late0 is not attached: ")
        at = manager.hears("READY=1", at)
        assert "leasegate_enforcing 0\n" in host.ns.http_get("/metrics", 9464)[1]
        ip("link", "add", "late0", "type", "veth", "peer", "name", "late1", ns=host.ns)
        at = manager.hears("STATUS=all interfaces are limited", at)
        assert "leasegate_enforcing 1\n" in host.ns.http_get("/metrics", 9464)[1]
        # While it lives it says so, in time.
        at = manager.hears("WATCHDOG=1", manager.hears("WATCHDOG=1", at))
        host.instance.write("rules.yaml", bucket_rule("1/1h", 6))
        node.reload()
        at = manager.hears("RELOADING=1\nMONOTONIC_USEC=", at)
        at = manager.hears("READY=1", at)
        assert [a["interface"] for a in host.instance.json("status")["attachments"]] == ["late0"]
        assert host.instance.tool("reload").returncode == 0
        assert node.stop() == 0
        manager.hears("STOPPING=1", at)
    # It could do all that it tried.
    assert [line for line in node.lines if "error" in line or "denied" in line or "not permitted" in line] == []


@pytest.mark.long
@needs_systemd
def test_limits_of_a_node_within_its_unit_outlive_it(host):
    host.configure(bucket_rule("1/1h", 5), hook="xdp")
    with Manager(host.instance.folder) as manager:
        before = confined(host.instance, "node", manager)
        for _ in range(2):
            node = host.instance.node(before=before)
            with host.receiver() as got, contextlib.closing(host.sender(0)) as sender:
                sender.burst(20)
                until(lambda: host.instance.seen("per-source") >= 20, "all were judged")
                assert got.n <= 5
            node.kill()
    assert host.instance.counts("per-source")["admitted"] == 5


@needs_systemd
def test_a_region_lives_within_its_unit_as_a_user_of_its_own(host):
    listed = {"version": 1, "list": [{"name": "one", "address": f"{HOST[4]}:7400", "hosts": 1}]}
    host.instance.write("rules.yaml", bucket_rule("1/1h", 5))
    host.instance.config("region.yaml", region="one", regions=listed, listen=f"{HOST[4]}:7400", rules="rules.yaml", store="sqlite")
    with Manager(host.instance.folder) as manager:
        before = confined(host.instance, "region", manager)
        os.chown(host.instance.folder, NOBODY, NOBODY)
        for folder in (host.instance.path("state"), os.path.join(RUN, host.instance.name)):
            os.chown(folder, NOBODY, NOBODY)
        region = host.instance.daemon("region", host.instance.path("region.yaml"), args=["--instance", host.instance.name],
                                      before=before).start()
        at = manager.hears("READY=1")
        at = manager.hears("STATUS=leasing", at)
        at = manager.hears("WATCHDOG=1", at)
        region.reload()
        at = manager.hears("READY=1", manager.hears("RELOADING=1", at))
        assert os.stat(f"/proc/{region.pid}").st_uid == NOBODY
        assert region.stop() == 0
        manager.hears("STOPPING=1", at)
    assert [line for line in region.lines if "error" in line or "denied" in line or "not permitted" in line] == []


def test_a_manager_that_cannot_be_told_keeps_nobody_from_starting(host):
    host.configure(bucket_rule("1/1h", 5))
    node = host.instance.node(before=["env", "NOTIFY_SOCKET=/nowhere/notify"])
    assert any("NOTIFY_SOCKET: the service manager cannot be told of anything: /nowhere/notify" in line for line in node.lines)
    assert node.stop() == 0
