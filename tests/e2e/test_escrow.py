# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A home of a strict rule lends only what is durable: its next life knows what was out, though a region that holds some never comes back.

Two regions are played by a process of its own inside the home's namespace (`test_escrow.py ADDRESS`), which is told on its standard input
when the home has been ended and started again.
"""
import contextlib
import os
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PORT = 7400
LIMIT = 1000
RULES = f"""rules:
  - name: per-user
    scope: global
    class: strict
    match: {{protocol: udp, destination_port: [53]}}
    key: {{source: 32}}
    unit: packets
    algorithm: sliding_window
    limit: {LIMIT}/1m
    fallback: deny
"""
MOST_OUT = LIMIT // 10	# strict rules lend so much at once
AWAY, SPENT = 60, 40	# what the region that stays away got, and what it told to have spent of it
RESERVE = LIMIT // 64 + 2 * MOST_OUT	# more than that is never withheld here: two periods' worth, or twice what was asked for


# ---- two regions, inside the namespace ----

def fingerprint():
    import test_grpc_peer
    words_of = test_grpc_peer.fingerprint
    return words_of(LIMIT, rule_class=2, fallback=0)


class Region:
    """One that asks the home at eu-west, spends all it gets at once, and says so."""

    def __init__(self, holder, key):
        self.h, self.key, self.total, self.used = holder, key, 0, {}

    def take(self, want_tok):
        """What is lent at once, or 0; all of it is spent with the next message."""
        grant = self.h.grant(self.h.ask(self.key, want_tok, **self.used))
        mine = grant.lease.generation and grant.lease.generation == self.used.get("generation", grant.lease.generation)
        got = grant.granted_tok - self.used.get("granted_tok", 0) if mine else grant.granted_tok
        if grant.lease.generation:
            self.used = {"generation": grant.lease.generation, "granted_tok": grant.granted_tok, "consumed_tok": grant.granted_tok}
        self.total += got
        return got, grant

    def take_all(self):
        """Until nothing more has come for a while."""
        got, last = 0, time.monotonic()
        while time.monotonic() < last + 0.4:
            more, _ = self.take(MOST_OUT)
            if more:
                got, last = got + more, time.monotonic()
            time.sleep(0.005)
        return got


def connect(channel, name, incarnation=1):
    import test_grpc_peer
    return test_grpc_peer.Holder(channel, name, name, incarnation, is_region=True).greet()


def wait_for(word):
    print(word, flush=True)
    assert sys.stdin.readline(), "the test has ended"


def homed_here(h, mark):
    """A key of which eu-west is the home."""
    for last in range(1, 64):
        key = h.key(f"192.0.2.{last}", mark)
        for _ in range(100):
            grant = h.grant(h.ask(key, 0))
            if grant.status != h.pb.GRANT_STATUS_OVERLOADED:
                break
        if grant.status == h.pb.GRANT_STATUS_OK:
            return key
    raise AssertionError(f"no key lives here: {grant}")


def lend_on(channel, key):
    """Leases bit by bit; says what it has when the disk is full, and again when it is not."""
    near = Region(connect(channel(), "us-east"), key)
    while near.total < 20:
        near.take(20)
        time.sleep(0.01)
    wait_for("lent")
    got = near.take_all()
    wait_for(f"lent {got}")
    got, end = 0, time.monotonic() + 10
    while got < 300 and time.monotonic() < end:
        got += near.take(MOST_OUT)[0]
        time.sleep(0.01)
    print(f"lent {got}", flush=True)
    os._exit(0)


def play(address, scenario):
    sys.path[:0] = [HERE, os.path.join(HERE, "..", "unit", "api")]
    import grpcio_peer
    signal.alarm(60)	# whatever waits here waits no longer
    mark = fingerprint()

    def channel():
        return grpcio_peer.grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)])

    here = connect(channel(), "us-east")
    key = homed_here(here, mark)
    if scenario == "full":
        lend_on(channel, key)
    away = connect(channel(), "ap-south")
    far = Region(away, key)
    while far.total < AWAY:
        far.take(AWAY - far.total)
        time.sleep(0.01)
    far.used["consumed_tok"] = SPENT
    away.report(key, **far.used)
    near = Region(here, key)
    while near.total < 100:
        near.take(20)
        time.sleep(0.01)
    wait_for("lent")

    # The home has ended. ap-south never comes back and tells what it has.
    near.h, before = connect(channel(), "us-east"), near.total
    near.h.stream.put(near.h.pb.HolderMessage(synced=near.h.pb.Synced()))
    print(f"lent {near.take_all()} of {LIMIT - before - AWAY}", flush=True)
    os._exit(0)


if __name__ == "__main__":
    play(*sys.argv[1:])
else:
    import pytest
    from lib.daemon import Instance
    from lib.host import fresh_name
    from lib.net import Namespace

    @pytest.fixture
    def home():
        name = fresh_name("escrow")
        with Namespace(name) as ns, Instance(ns, name) as instance:
            instance.write("rules.yaml", RULES)
            listed = [{"name": r, "address": f"127.0.0.1:{port}", "hosts": 1}
                      for r, port in (("eu-west", PORT), ("us-east", PORT + 1), ("ap-south", PORT + 2))]
            instance.config("region.yaml", region="eu-west", regions={"version": 1, "list": listed}, listen=f"127.0.0.1:{PORT}",
                            metrics="off", rules="rules.yaml", store="sqlite")
            yield instance

    def start(instance):
        return instance.daemon("region", instance.path("region.yaml")).start().wait_ready()

    @contextlib.contextmanager
    def playing(instance, scenario):
        peer = subprocess.Popen(instance.ns.enter_argv() + ["/usr/bin/python3", __file__, f"127.0.0.1:{PORT}", scenario],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            yield peer
        finally:
            peer.kill()
            peer.wait()
            peer.stdout.close()
            peer.stdin.close()

    def hear(peer, word, daemon):
        """A line that begins so; the numbers of it."""
        text = peer.stdout.readline()
        if not text and peer.wait(10) == 77:
            pytest.skip("grpcio or protoc is not installed")
        assert text.startswith(word), f"{text}{peer.stdout.read()}\n{daemon.stderr}"
        return [int(n) for n in text.split() if n.isdigit()]

    def go_on(peer):
        peer.stdin.write("\n")
        peer.stdin.flush()

    @pytest.mark.parametrize("how", ("killed", "ended in order"))
    def test_a_successor_lends_what_was_not_out_though_a_holder_never_tells(home, how):
        first = start(home)
        with playing(home, "away") as peer:
            hear(peer, "lent", first)
            if how == "killed":
                first.kill()
            else:
                assert first.stop() == 0
            second = start(home)
            go_on(peer)
            got, left = hear(peer, "lent ", second)
            print(f"{got} of {left} that were not out")
            assert left - (RESERVE if how == "killed" else 0) <= got <= left
            status = home.json("status")["region"]["escrow"]
            assert status["keys"] == 1 and status["writes"] and not status["failed"], status
            assert "reserves: 1 keys" in home.tool("status").stdout
            (lease,) = home.json("leases")["home"]
            assert lease["reserves"], lease
            assert second.alive, second.stderr

    @pytest.mark.long
    def test_a_full_disk_stops_what_is_not_durable_and_is_over_by_itself(home):
        os.mkdir(home.path("state"))
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "none", home.path("state")], check=True)
        try:
            region = start(home)
            with playing(home, "full") as peer:
                hear(peer, "lent", region)
                with open(home.path("state/filler"), "wb", buffering=0) as f, contextlib.suppress(OSError):
                    while True:
                        f.write(bytes(512))
                go_on(peer)
                (got,) = hear(peer, "lent ", region)
                assert got <= RESERVE, got
                status = home.json("status")["region"]["escrow"]
                assert status["failed"] and status["why"], status
                assert "NO MORE CAN BE WRITTEN" in home.tool("status").stdout
                os.remove(home.path("state/filler"))
                go_on(peer)
                (got,) = hear(peer, "lent ", region)
                assert got >= 300, got
                assert not home.json("status")["region"]["escrow"]["why"]
            assert region.stop() == 0
        finally:
            subprocess.run(["umount", "-l", home.path("state")], check=True)
