# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What a node exempts from its own limits, so that they cannot keep it from its leases."""
import contextlib
import struct
import threading

import pytest
from lib.daemon import Instance
from lib.host import CLIENT, fresh_name
from lib.net import ip
from lib.wait import until

ALL_DENY = "rules:\n  - {name: all, limit: 0/1s}\n"
PORT = 7400
SECOND = "10.90.0.3"


class NameServer:
    """Answers each question for an IPv4 address with the one that it is told, and others with nothing."""

    def __init__(self, ns, address):
        self.address, self.answer, self.n_asked = address, None, 0
        self.sock = ns.socket()
        self.sock.bind((address, 53))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                question, peer = self.sock.recvfrom(512)
                self.n_asked += 1
                end = question.index(b"\0", 12) + 5
                is_a = question[end - 4:end - 2] == b"\0\1"
                head = question[:2] + struct.pack("!HHHHH", 0x8180, 1, 1 if is_a else 0, 0, 0)
                record = b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 0, 4) + bytes(int(b) for b in self.answer.split("."))
                self.sock.sendto(head + question[12:end] + (record if is_a else b""), peer)

    def __enter__(self):
        return self

    def __exit__(self, *_exc):
        self.sock.close()


@contextlib.contextmanager
def region(host):
    """A region server on the client's machine, at all its addresses: what starts it."""
    with Instance(host.client, fresh_name("region")) as instance:
        instance.write("rules.yaml", ALL_DENY)
        config = instance.config("region.yaml", region="here", rules="rules.yaml", listen=f"0.0.0.0:{PORT}", metrics='"off"',
                                 regions={"version": 1, "list": [{"name": "here", "address": f"{CLIENT[4]}:{PORT}", "hosts": 1}]})
        yield lambda: instance.daemon("region", config).start().wait_ready()


def upstream(host):
    return host.instance.json("status")["node"]["upstream"]


@pytest.mark.long
@pytest.mark.parametrize("is_name", [True, False], ids=["name", "address"])
def test_a_node_reaches_its_upstream_at_limit_0_whatever_address_its_name_has(host, is_name):
    """Its name server, too. In another namespace nobody else is reached."""
    ip("address", "add", SECOND + "/24", "dev", "up0", ns=host.client)
    host.instance.write("rules.yaml", ALL_DENY)
    config = host.instance.config(
        rules="rules.yaml", region="here", upstream=f"{'region.test' if is_name else CLIENT[4]}:{PORT}",
        regions={"version": 1, "list": [{"name": "here", "address": "192.0.2.1:1", "hosts": 1}]},
        interfaces=[{"name": "in0", "xdp": "off", "tc": "on", "tc_egress": "on"}])
    resolv = host.instance.write("resolv.conf", f"# of the test\nnameserver {CLIENT[4]}\n")
    there = ["unshare", "--mount", "sh", "-c", f'mount --bind {resolv} /etc/resolv.conf && exec "$@"', "sh"]
    with region(host) as start, NameServer(host.client, CLIENT[4]) as names:
        names.answer = CLIENT[4]
        server = start()
        host.instance.node(config, before=there)
        until(lambda: upstream(host)["state"] == "up", "the session is up")
        assert (names.n_asked > 0) is is_name
        assert host.ns.run("curl", "-sm", "0.3", f"http://{CLIENT[4]}:{PORT + 1}/").returncode == 28, "others are swallowed"
        if is_name:
            names.answer = SECOND
            server.stop()
            until(lambda: upstream(host)["state"] == "down", "the session is lost")
            start()
            until(lambda: upstream(host)["state"] == "up", "it is found at its new address")
            assert SECOND in host.instance.tool("rules").stdout
    # A reload, and what it says of exemptions, has them too.
    assert host.instance.tool("reload").returncode == 0
    shown = host.instance.tool("rules").stdout
    assert ("resolver-in" in shown) is is_name and "upstream-out" in shown, shown
