# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A holder that shares no code with leasegate leases from a real region server: grpcio, and docs/protocol.md.

Each scenario below runs in a process of its own inside the region's namespace, as `test_grpc_peer.py SCENARIO ADDRESS`.
"""
import socket
import sys
import time

from lib import played
from lib.played import LIMIT, RULES, Holder, fingerprint

PORT = 7400


# ---- scenarios, inside the namespace ----

def lease(channel, _address):
    """Hello, a first lease, a report of its use, a second lease; the totals are those of one generation."""
    h = Holder(channel).greet()
    assert h.welcome.lessor == "eu-west" and h.welcome.epoch >= 1 and h.welcome.regions_version == 1, h.welcome
    key = h.key("192.0.2.7")
    h.stream.put(h.pb.HolderMessage(synced=h.pb.Synced()))
    first, seq = h.lease(key, 10, lambda g: g.granted_tok)
    assert first.status == h.pb.GRANT_STATUS_OK and first.kind == h.pb.LEASE_KIND_BLOCK, first
    assert first.key == key and first.ack_seq == seq, first
    assert first.lease.epoch == h.welcome.epoch and first.lease.generation >= 1, first
    assert first.granted_tok == 10 and first.ttl_ms >= 10000 and not first.partial, first
    used = {"generation": first.lease.generation, "granted_tok": 10, "consumed_tok": 10}
    second, seq = h.lease(key, 20, lambda g: g.granted_tok > 10, slots=[h.pb.UsageSlot(id=1, age_ms=5, tok=10)], **used)
    assert second.granted_tok == 30 and second.ack_seq == seq and second.ack_slot == 1, second
    assert second.lease == first.lease, second
    # Given back whole: a report is acknowledged with the next answer, and what came back can be had again.
    used = {"generation": first.lease.generation, "granted_tok": 30, "consumed_tok": 10, "returned_tok": 20}
    h.report(key, **used)
    third, _ = h.lease(key, 5, lambda g: g.granted_tok > 30, **used)
    assert third.granted_tok == 35 and third.lease == first.lease, third


def limit(channel, _address):
    """However much is wanted, by however many holders, no more than the limit is out."""
    holders = [Holder(channel, f"python-{i}").greet() for i in range(3)]
    out = [0] * len(holders)
    for _ in range(20):
        for i, h in enumerate(holders):
            grant = h.grant(h.ask(h.key("192.0.2.8"), 10**9))
            assert grant.partial and grant.granted_tok >= out[i], grant
            out[i] = grant.granted_tok
        assert sum(out) <= LIMIT, out
        time.sleep(0.05)
    assert sum(out) > 0, out


def refusals(channel, address):
    """What the protocol forbids is answered as it says, and nothing of it harms the next one."""
    import grpc
    from grpcio_peer import Stream, pb

    def ends(stream, code, text):
        got = stream.status()
        assert got[0] == code and text in got[1], got

    ends(Holder(channel, region="us-east").stream, grpc.StatusCode.FAILED_PRECONDITION, "eu-west")
    for mark, form, want in ((1, 2, pb.GRANT_STATUS_UNKNOWN_RULE), (fingerprint(LIMIT + 1), 2, pb.GRANT_STATUS_UNKNOWN_RULE)):
        h = Holder(channel).greet()
        h.ask(h.key("192.0.2.9", mark, form), 1)
        grant = h.grant()
        assert grant.status == want and grant.granted_tok == 0, grant
        h.stream.call.cancel()
    h = Holder(channel).greet()
    h.stream.put(pb.HolderMessage(hello=pb.Hello(holder="python-1", region="eu-west")))
    ends(h.stream, grpc.StatusCode.INVALID_ARGUMENT, "a second hello")
    h = Holder(channel).greet()
    h.ask(pb.Key(rule="no such name", form=1), 1)
    ends(h.stream, grpc.StatusCode.INVALID_ARGUMENT, "ask 1: the rule is no name")
    stream = Stream(channel, method="/leasegate.v1.LeaseService/Keep")
    ends(stream, grpc.StatusCode.UNIMPLEMENTED, "no such method")
    stream = Stream(channel, raw=True)
    stream.put(b"\xff" * 100)
    ends(stream, grpc.StatusCode.INVALID_ARGUMENT, "this is no HolderMessage")
    for garbage in (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100)):
        with socket.create_connection(address.rsplit(":", 1), timeout=10) as s:
            s.sendall(garbage)
            answer = b""
            while piece := s.recv(4096):
                answer += piece
        assert b"the peer does not speak HTTP/2" in answer, answer
    lease(channel, address)


def replaced(channel, _address):
    """A newer stream of a name takes the older one's place; an older life of it is refused."""
    import grpc
    old = Holder(channel, incarnation=5).greet()
    new = Holder(channel, incarnation=5).greet()
    code, text = old.stream.status()
    assert code == grpc.StatusCode.UNAVAILABLE and "replaced" in text, (code, text)
    code, text = Holder(channel, incarnation=4).stream.status()
    assert code == grpc.StatusCode.FAILED_PRECONDITION and "newer life" in text, (code, text)
    assert new.lease(new.key("192.0.2.10"), 3, lambda g: g.granted_tok)[0].granted_tok == 3


def listen(channel, _address):
    """Holds a stream until the region ends it."""
    h = Holder(channel).greet()
    print("welcome", flush=True)
    code, text = h.stream.status()
    print(code.name, text, flush=True)


SCENARIOS = {"lease": lease, "limit": limit, "refusals": refusals, "replaced": replaced}


# ---- the tests, outside ----

if __name__ == "__main__":
    scenarios = {**SCENARIOS, "listen": listen}
    played.main({name: lambda address, f=f: f(played.insecure(address), address) for name, f in scenarios.items()}, *sys.argv[1:])
else:
    import pytest
    from lib.daemon import Instance
    from lib.host import fresh_name
    from lib.net import Namespace

    @pytest.fixture
    def region():
        """A region server that is its own home, in a namespace of its own."""
        name = fresh_name("grpc")
        with Namespace(name) as ns, Instance(ns, name) as instance:
            instance.write("rules.yaml", RULES)
            listed = [{"name": "eu-west", "address": f"127.0.0.1:{PORT}", "hosts": 4}]
            config = instance.config("region.yaml", region="eu-west", regions={"version": 1, "list": listed},
                                     listen=f"127.0.0.1:{PORT}", metrics="off", rules="rules.yaml", store="memory")
            daemon = instance.daemon("region", config).start().wait_ready()
            yield daemon
            print(f"--- leasegated region\n{daemon.stderr}")

    @pytest.mark.parametrize("scenario", SCENARIOS)
    def test_an_independent_holder(region, scenario):
        played.run(region.ns, __file__, scenario, f"127.0.0.1:{PORT}")
        assert region.alive

    def test_a_port_in_use_is_named(region):
        second = Instance(region.ns, fresh_name("grpc2"))
        with second as instance:
            instance.write("rules.yaml", RULES)
            listed = [{"name": "eu-west", "address": f"127.0.0.1:{PORT}", "hosts": 4}]
            config = instance.config("region.yaml", region="eu-west", regions={"version": 1, "list": listed},
                                     listen=f"127.0.0.1:{PORT}", metrics="off", rules="rules.yaml", store="memory")
            d = instance.daemon("region", config).start()
            assert d.wait_exit() != 0
            assert f"cannot listen on 127.0.0.1:{PORT}: another process uses the port" in d.stderr
        assert region.alive

    def test_the_holders_are_told_when_the_region_stops(region):
        with played.Playing(region.ns, __file__, "listen", f"127.0.0.1:{PORT}") as peer:
            peer.hear("welcome", region)
            assert region.stop() == 0
            # Followed by our text, or by grpcio's own when it sees the end of the connection before it has read ours.
            peer.hear("UNAVAILABLE ", region)
