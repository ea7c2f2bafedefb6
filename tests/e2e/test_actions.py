# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What becomes of packets above the limit of a rule with an action, for real senders and receivers."""
import contextlib
import errno
import socket
import struct
import time

import pytest
from lib.daemon import Instance, yaml_text
from lib.host import CLIENT, HOST, fresh_name
from lib.prom import Page
from lib.wait import until

PORT = 5300
SO_MARK, SO_RCVMARK = 36, 75
IPV6_RECVTCLASS, IPV6_TCLASS = 66, 67
FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
XDP = {"xdp": "native", "tc": "off"}
TC = {"xdp": "off", "tc": "on"}
EGRESS = {"xdp": "off", "tc": "off", "tc_egress": "on"}


def rule(name, action, match, limit="1/1h", burst=1, **more):
    return {"name": name, "match": match, "limit": limit, "burst": burst, "action": action, **more}


def configure(host, rules, at):
    host.instance.write("rules.yaml", yaml_text({"rules": rules}))
    return host.instance.config(rules="rules.yaml", interfaces=[{"name": "in0", **at}])


@contextlib.contextmanager
def takes_from_xdp(host):
    """The client's end of the veth has an XDP program of its own: only then it takes what XDP sends at the other one."""
    with Instance(host.client, fresh_name("client")) as other:
        rules = other.write("rules.yaml", "rules: []\n")
        other.node(other.config(rules=rules, interfaces=[{"name": "up0", **XDP}], metrics='"off"'))
        yield


def connect(host, family):
    """None, or what a connection was refused with."""
    with host.client.socket(FAMILIES[family], socket.SOCK_STREAM) as s:
        s.settimeout(5)
        return s.connect_ex((HOST[family], PORT))


def told(host, family):
    """What the sender of a datagram is told of it."""
    with host.client.socket(FAMILIES[family], socket.SOCK_DGRAM) as s:
        s.connect((HOST[family], PORT))
        s.settimeout(5)
        s.send(b"x" * 100)
        try:
            s.recv(10)
        except OSError as e:
            return e.errno
        return 0


@pytest.mark.parametrize("hook", [pytest.param("xdp", marks=pytest.mark.long), "tc"])
def test_a_sender_is_told_at_once_that_it_was_refused(host, hook):
    """Both replies come from the kernel's own stack as it sees it: it looks at their checksums, numbers and quotes."""
    key = {"key": {"source": {"ipv4": 32, "ipv6": 128}}}
    host.instance.node(configure(host, [
        rule("logins", "reset", {"protocol": "tcp", "destination_port": PORT, "tcp_flags": "syn,!ack"}, **key),
        rule("queries", "prohibited", {"protocol": "udp", "destination_port": PORT}, **key)], XDP if hook == "xdp" else TC))
    with contextlib.ExitStack() as stack:
        if hook == "xdp":
            stack.enter_context(takes_from_xdp(host))
        for family in (4, 6):
            listener = stack.enter_context(host.ns.socket(FAMILIES[family], socket.SOCK_STREAM))
            listener.bind((HOST[family], PORT))
            listener.listen(5)
            assert connect(host, family) == 0
            start = time.monotonic()
            assert connect(host, family) == errno.ECONNREFUSED
            assert time.monotonic() - start < 0.9, "a sender that hears nothing asks again after a second"
            assert told(host, family) == errno.ECONNREFUSED, "the first datagram reaches the host, where nobody listens"
            assert told(host, family) == (errno.EHOSTUNREACH if family == 4 else errno.EACCES)
    assert host.instance.counts("logins") == {"admitted": 2, "limit": 2}
    assert host.instance.counts("queries") == {"admitted": 2, "limit": 2}
    page = Page(host.ns.http_get("/metrics", 9464)[1])
    assert page.get("leasegate_replies_total", kind="reset") == 2
    assert page.get("leasegate_replies_total", kind="prohibited") == 2


def arrived(sock):
    """(TOS or traffic class, mark) of the next datagram."""
    _data, control, _flags, _peer = sock.recvmsg(2048, 256)
    got = {(level, kind): value for level, kind, value in control}
    tos = got.get((socket.IPPROTO_IP, socket.IP_TOS)) or got.get((socket.IPPROTO_IPV6, IPV6_TCLASS))
    return tos[0], struct.unpack("I", got.get((socket.SOL_SOCKET, SO_MARK), b"\0\0\0\0"))[0]


@pytest.mark.parametrize("out", [False, pytest.param(True, marks=pytest.mark.long)], ids=["ingress", "egress"])
def test_what_is_above_the_limit_arrives_marked(host, out):
    """With a header whose checksum is right, or it would not arrive."""
    way = {"direction": "egress" if out else "ingress"}
    host.instance.node(configure(host, [
        rule("mark", {"mark": 7}, {"protocol": "udp", "destination_port": PORT, **way}),
        rule("dscp", {"dscp": "ef"}, {"protocol": "udp", "destination_port": PORT + 1, **way}),
        rule("ecn", {"ecn": "ce"}, {"protocol": "udp", "destination_port": PORT + 2, **way})], EGRESS if out else TC))
    giver, taker, address = (host.ns, host.client, CLIENT) if out else (host.client, host.ns, HOST)
    for i, (family, port, tos, want) in enumerate([(4, 0, 1, (1, 7)), (6, 0, 1, (1, 7)), (4, 1, 2, (46 << 2 | 2, 0)),
                                                   (6, 1, 2, (46 << 2 | 2, 0)), (4, 2, 2, (3, 0)), (6, 2, 1, (3, 0)), (4, 2, 0, None)]):
        name = ("mark", "dscp", "ecn")[port]
        with taker.socket(FAMILIES[family]) as got, giver.socket(FAMILIES[family]) as sock:
            level, receive, send = ((socket.IPPROTO_IP, socket.IP_RECVTOS, socket.IP_TOS) if family == 4 else
                                    (socket.IPPROTO_IPV6, IPV6_RECVTCLASS, IPV6_TCLASS))
            got.setsockopt(level, receive, 1)
            got.setsockopt(socket.SOL_SOCKET, SO_RCVMARK, 1)
            got.bind((address[family], PORT + port))
            got.settimeout(5)
            sock.setsockopt(level, send, tos)
            before = host.instance.counts(name)
            if not before:
                sock.sendto(b"first", (address[family], PORT + port))
                assert arrived(got) == (tos, 0)
            sock.sendto(b"x", (address[family], PORT + port))
            if want:
                # A mark on the way out is the sender's own business, and ends with its machine.
                assert arrived(got) == (want if not out or want[1] == 0 else (want[0], 0)), i
            else:
                until(lambda: host.instance.counts("ecn").get("limit") == 1, "what is not ECT is dropped")
    assert host.instance.counts("mark") == {"admitted": 1, "marked": 2}
    assert host.instance.counts("dscp") == {"admitted": 1, "marked": 2}
    assert host.instance.counts("ecn") == {"admitted": 1, "marked": 2, "limit": 1}


def test_what_cannot_be_done_is_refused_and_pacing_without_fq_warned_of(host):
    mark = rule("mark", {"mark": 7}, {"protocol": "udp"})
    daemon = host.instance.node(configure(host, [{**mark, "match": {"protocol": "udp", "direction": "egress"}}], {**XDP, "tc_egress": "on"}))
    host.instance.write("rules.yaml", yaml_text({"rules": [mark]}))
    refused = host.instance.tool("reload")
    assert refused.returncode == 1
    assert 'rule "mark": action mark 0x7 is for TC, and interface in0 has XDP on' in refused.stderr + refused.stdout
    assert "is for TC" in host.instance.tool("explain", host.instance.path("rules.yaml"), "--config", host.instance.path("node.yaml")).stderr
    host.instance.write("rules.yaml", yaml_text({"rules": [rule("pace", "pace", {"direction": "egress"}, "1000/1s", 10)]}))
    assert host.instance.tool("reload").returncode == 0
    until(lambda: 'in0: rule "pace" holds packets back there, but its queueing discipline is noqueue and not fq' in daemon.stderr,
          "the daemon warns")
    shown, = host.instance.json("rules")
    assert shown["action"] == "pace"
    assert "action pace" in host.instance.tool("rules").stdout
