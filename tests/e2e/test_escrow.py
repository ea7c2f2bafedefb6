# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A home of a strict rule lends only what is durable: its next life knows what was out, though a region that holds some never comes back.

Two regions are played by a process of its own inside the home's namespace, which is told when the home has been ended and started again.
"""
import contextlib
import os
import subprocess
import sys
import time

from lib import played
from lib.played import LIMIT, Holder

PORT = 7400
RULES = played.RULES.replace("class: lease", "class: strict") + "    fallback: deny\n"
MOST_OUT = LIMIT // 10	# strict rules lend so much at once
AWAY, SPENT = 60, 40	# what the region that stays away got, and what it told to have spent of it
RESERVE = LIMIT // 64 + 2 * MOST_OUT	# more than that is never withheld here: two periods' worth, or twice what was asked for


# ---- two regions, inside the namespace ----

def fingerprint():
    return played.fingerprint(rule_class=2, fallback=0)


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

    def take_all(self, at_least=0):
        """So much, however long a busy disk makes each mark take; then until nothing more has come for a while."""
        got, last = 0, time.monotonic()
        while time.monotonic() < last + (0.4 if got >= at_least else 10):
            more, _ = self.take(MOST_OUT)
            if more:
                got, last = got + more, time.monotonic()
            time.sleep(0.005)
        return got


def connect(channel, name, incarnation=1):
    return Holder(channel, name, name, incarnation, is_region=True).greet()


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


def lend_on(address):
    """Leases bit by bit; says what it has when the disk is full, and again when it is not."""
    h = connect(played.insecure(address), "us-east")
    near = Region(h, homed_here(h, fingerprint()))
    while near.total < 20:
        near.take(20)
        time.sleep(0.01)
    played.wait_for("lent")
    got = near.take_all()
    played.wait_for(f"lent {got}")
    got, end = 0, time.monotonic() + 10
    while got < 300 and time.monotonic() < end:
        got += near.take(MOST_OUT)[0]
        time.sleep(0.01)
    print(f"lent {got}", flush=True)


def stay_away(address, withheld):
    """One of two regions never comes back to a home that has ended; the other takes all it can get of the next one."""
    here = connect(played.insecure(address), "us-east")
    key = homed_here(here, fingerprint())
    away = connect(played.insecure(address), "ap-south")
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
    played.wait_for("lent")

    # The home has ended. ap-south never comes back and tells what it has.
    near.h, before = connect(played.insecure(address), "us-east"), near.total
    near.h.stream.put(near.h.pb.HolderMessage(synced=near.h.pb.Synced()))
    left = LIMIT - before - AWAY
    print(f"lent {near.take_all(left - int(withheld))} of {left}", flush=True)


if __name__ == "__main__":
    played.main({"away": stay_away, "full": lend_on}, *sys.argv[1:])
else:
    import pytest
    from lib.daemon import Instance
    from lib.etcd import Etcd
    from lib.host import fresh_name
    from lib.net import Namespace
    from lib.wait import until

    def configure(instance, **keys):
        listed = [{"name": r, "address": f"127.0.0.1:{port}", "hosts": 1}
                  for r, port in (("eu-west", PORT), ("us-east", PORT + 1), ("ap-south", PORT + 2))]
        instance.config("region.yaml", region="eu-west", regions={"version": 1, "list": listed}, listen=f"127.0.0.1:{PORT}", metrics="off",
                        **keys)

    @pytest.fixture
    def home():
        name = fresh_name("escrow")
        with Namespace(name) as ns, Instance(ns, name) as instance:
            instance.write("rules.yaml", RULES)
            configure(instance, rules="rules.yaml", store="sqlite")
            yield instance

    def start(instance):
        return instance.daemon("region", instance.path("region.yaml")).start().wait_ready()

    def playing(instance, scenario, *args):
        return played.Playing(instance.ns, __file__, scenario, f"127.0.0.1:{PORT}", *args)

    @pytest.mark.parametrize("how", ("killed", "ended in order", pytest.param("killed, with rules of the region", marks=pytest.mark.long)))
    def test_a_successor_lends_what_was_not_out_though_a_holder_never_tells(home, how):
        if "of the region" in how:
            configure(home, store="sqlite")
        withheld = RESERVE if how.startswith("killed") else 0
        first = start(home)
        if "of the region" in how:
            home.json("rules", "apply", home.path("rules.yaml"))
        with playing(home, "away", withheld) as peer:
            peer.hear("lent", first)
            if how.startswith("killed"):
                first.kill()
            else:
                assert first.stop() == 0
            second = start(home)
            peer.go_on()
            got, left = peer.hear("lent ", second)
            print(f"{got} of {left} that were not out")
            assert left - withheld <= got <= left
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
                peer.hear("lent", region)
                with open(home.path("state/filler"), "wb", buffering=0) as f, contextlib.suppress(OSError):
                    while True:
                        f.write(bytes(512))
                peer.go_on()
                (got,) = peer.hear("lent ", region)
                assert got <= RESERVE, got
                status = home.json("status")["region"]["escrow"]
                assert status["failed"] and status["why"], status
                assert "NO MORE CAN BE WRITTEN" in home.tool("status").stdout
                os.remove(home.path("state/filler"))
                peer.go_on()
                (got,) = peer.hear("lent ", region)
                assert got >= 300, got
                assert not home.json("status")["region"]["escrow"]["why"]
            assert region.stop() == 0
        finally:
            subprocess.run(["umount", "-l", home.path("state")], check=True)

    @pytest.mark.long
    def test_a_full_cluster_stops_what_is_not_durable_and_is_over_once_it_has_room(home):
        """A real quota: etcd raises its alarm, and takes it back when the operator has made room."""
        with Etcd(home.ns, 1, quota_bytes=16 << 20) as etcd:
            configure(home, store="etcd", etcd={"endpoints": etcd.endpoints})
            region = start(home)
            home.json("rules", "apply", home.path("rules.yaml"))
            with playing(home, "full") as peer:
                peer.hear("lent", region)
                etcd.fill()
                peer.go_on()
                (got,) = peer.hear("lent ", region)
                assert got <= RESERVE, got
                status = home.json("status")["region"]
                assert status["escrow"]["failed"] and "space" in status["escrow"]["why"].lower(), status
                assert status["slots"] == 256, status
                assert "NO MORE CAN BE WRITTEN" in home.tool("status").stdout
                r = home.tool("rules", "set", "per-user", "limit=5/1m")
                assert r.returncode == 1 and "was not written: the store: No space left on device" in r.stderr, r.stderr
                assert home.json("rules", "status")["current"]["version"] == 1
                etcd.make_room()
                peer.go_on()
                (got,) = peer.hear("lent ", region)
                assert got >= 300, got
                until(lambda: not home.json("status")["region"]["escrow"]["why"], "all is written again")
                assert home.json("rules", "set", "per-user", f"limit={LIMIT - 1}/1m")["version"] == 2
            assert region.stop() == 0
