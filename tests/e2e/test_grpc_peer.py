# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A holder that shares no code with leasegate leases from a real region server: grpcio, and docs/protocol.md.

Each scenario below runs in a process of its own inside the region's namespace, as `test_grpc_peer.py SCENARIO ADDRESS`.
"""
import ctypes
import ctypes.util
import os
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PORT = 7400
LIMIT = 1000
RULES = f"""rules:
  - name: per-user
    scope: global
    class: lease
    match: {{protocol: udp, destination_port: [53]}}
    key: {{source: 32}}
    unit: packets
    algorithm: sliding_window
    limit: {LIMIT}/1m
"""


def fingerprint(limit=LIMIT, rule_class=1, fallback=1):
    """Of the rule above, made as docs/protocol.md says."""
    xxh3 = ctypes.CDLL(ctypes.util.find_library("xxhash")).XXH3_64bits_withSeed
    xxh3.restype, xxh3.argtypes = ctypes.c_uint64, [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]
    match = [1 + 17, 0, 0, 0, 1, 53 << 16 | 53] + 9 * [0]
    key = [2, 32 << 8 | 64, 0]
    words = [1, *match, *key, 0, 2, rule_class, limit, 60 * 10**9, limit, fallback, 0, 0, 0, 0, 2**64 - 1]
    mark = 0
    for word in words:
        mark = xxh3(word.to_bytes(8, "little"), 8, mark)
    return mark


# ---- scenarios, inside the namespace ----

class Holder:
    """Says hello; asks for one key and waits for the answer."""

    def __init__(self, channel, name="python-1", region="eu-west", incarnation=1, is_region=False):
        from grpcio_peer import Stream, pb
        self.pb, self.stream = pb, Stream(channel)
        self.stream.put(pb.HolderMessage(hello=pb.Hello(holder=name, region=region, is_region=is_region, incarnation=incarnation,
                                                           regions_version=1)))
        self.welcome = None
        # Grows over all lives of this holder, as the protocol wants: a monotonic clock does.
        self.seq = self.life = time.monotonic_ns()

    def greet(self):
        self.welcome = self.stream.next().welcome
        return self

    def key(self, address, mark=None, form=2):
        return self.pb.Key(rule="per-user", fingerprint=fingerprint() if mark is None else mark, form=form,
                           a=bytes(10) + b"\xff\xff" + socket.inet_aton(address))

    def usage(self, key, **totals):
        self.seq += 1
        granted, consumed, returned = (totals.get(k, 0) for k in ("granted_tok", "consumed_tok", "returned_tok"))
        return self.pb.ReportUsage(key=key, seq=self.seq, life=self.life, epoch=self.welcome.epoch,
                                   remaining_tok=max(0, granted - consumed - returned), demand_mtps=10000, **totals)

    def ask(self, key, want_tok, **totals):
        usage = self.usage(key, **totals)
        self.stream.put(self.pb.HolderMessage(asks=[self.pb.Ask(request=self.pb.LeaseRequest(usage=usage, want_tok=want_tok))]))
        return usage.seq

    def report(self, key, **totals):
        usage = self.usage(key, **totals)
        self.stream.put(self.pb.HolderMessage(asks=[self.pb.Ask(report=usage)]))
        return usage.seq

    def grant(self, seq=0):
        """The next grant that answers ask `seq`."""
        while True:
            for grant in self.stream.next().grants:
                if grant.ack_seq >= seq:
                    return grant

    def lease(self, key, want_tok, good, **totals):
        """Asks, again and again as a holder does that got less than it wants, until good(grant). Returns (grant, seq)."""
        for _ in range(100):
            seq = self.ask(key, want_tok, **totals)
            grant = self.grant(seq)
            if good(grant):
                return grant, seq
            if grant.lease.generation:
                totals["generation"] = grant.lease.generation
            time.sleep(0.05)
        raise AssertionError(f"no such grant came, but {grant}")


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


SCENARIOS = {"lease": lease, "limit": limit, "refusals": refusals, "replaced": replaced}


def main(scenario, address):
    sys.path.insert(0, os.path.join(HERE, "..", "unit", "api"))
    import grpcio_peer
    with grpcio_peer.grpc.insecure_channel(address) as channel:
        SCENARIOS[scenario](channel, address)
        # grpcio's threads still wait for what open streams would send next, and now and then the interpreter's end waits for them.
        sys.stdout.flush()
        os._exit(0)


# ---- the tests, outside ----

if __name__ == "__main__":
    main(*sys.argv[1:])
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
        r = region.ns.run("/usr/bin/python3", __file__, scenario, f"127.0.0.1:{PORT}", timeout_s=60)
        if r.returncode == 77:
            pytest.skip("grpcio or protoc is not installed")
        assert r.returncode == 0, r.stdout + r.stderr
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
        peer = subprocess.Popen(region.ns.enter_argv() + ["/usr/bin/python3", "-c", LISTENER, HERE, f"127.0.0.1:{PORT}"],
                                stdout=subprocess.PIPE, text=True)
        try:
            if peer.stdout.readline() != "welcome\n":
                assert peer.wait(10) == 77
                pytest.skip("grpcio or protoc is not installed")
            assert region.stop() == 0
            # Followed by our text, or by grpcio's own when it sees the end of the connection before it has read ours.
            assert peer.stdout.readline().startswith("UNAVAILABLE ")
        finally:
            peer.kill()
            peer.wait()
            peer.stdout.close()

    LISTENER = """
import sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/../unit/api"]
import grpcio_peer
from grpcio_peer import Stream, pb
with grpcio_peer.grpc.insecure_channel(sys.argv[2]) as channel:
    s = Stream(channel)
    s.put(pb.HolderMessage(hello=pb.Hello(holder="python-1", region="eu-west", incarnation=1)))
    assert s.next().welcome.lessor == "eu-west"
    print("welcome", flush=True)
    code, text = s.status()
    print(code.name, text, flush=True)
"""
