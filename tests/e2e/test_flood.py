# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A flood from made-up sources over a wire: limits hold, known keys keep what they have, and nothing grows."""
import contextlib
import random
import socket
import struct

import pytest
from lib.host import CLIENT, HOST, PORT
from lib.net import ip
from lib.prom import Page
from lib.traffic import udp_frame
from lib.wait import until

N_KEYS = 256			# entries of the host's table
N_FLOOD = 20000			# packets of each kind in one wave
BURST = 10
EXACT, LINES, LEASED = PORT, PORT + 1, PORT + 2
ONE_REGION = {"version": 1, "list": [{"name": "here", "address": "127.0.0.1:7400", "hosts": 1}]}
RULES = f"""rules:
  - name: syns
    scope: global
    match: {{protocol: tcp, tcp_flags: "syn,!ack"}}
    limit: 1000/31d
    fallback: deny
    lease: {{cold_start: 0}}
  - name: exact
    match: {{protocol: udp, destination_port: {EXACT}}}
    key: {{source: 32}}
    limit: 1/1h
    burst: {BURST}
    table: exact
  - name: lines
    match: {{protocol: udp, destination_port: {LINES}}}
    key: {{source: 32}}
    limit: 1/1h
    burst: {BURST}
    keys: {N_KEYS}
  - name: leased
    scope: global
    match: {{protocol: udp, destination_port: {LEASED}}}
    key: {{source: 32}}
    limit: 10000/1h
"""


def frames(host):
    """One template for each kind of packet; what makes it random is its source, bytes 26 to 29."""
    def udp(port):
        return bytearray(udp_frame(host.client.mac("up0"), host.ns.mac("in0"), "198.51.100.1", (HOST[4], port)))
    syn = udp(443)
    syn[23] = 6
    syn[16:18] = struct.pack("!H", 40)
    syn[34:54] = struct.pack("!HHIIBBHHH", 40000, 443, 1, 0, 5 << 4, 0x02, 1024, 0, 0)
    return [syn.ljust(60, b"\0"), udp(EXACT), udp(LINES), udp(LEASED)]


@contextlib.contextmanager
def flooding(host):
    """wave(n): n packets of each kind, from sources in 128.0.0.0/2, where no known key is."""
    rng = random.Random(1)
    kinds = frames(host)
    with contextlib.closing(host.client.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)) as s:
        s.bind(("up0", 0))

        def wave(n):
            for _ in range(n):
                source = struct.pack("!I", 1 << 31 | rng.getrandbits(30))
                for frame in kinds:
                    frame[26:30] = source
                    with contextlib.suppress(OSError):		# the queue is full
                        s.send(frame)

        yield wave


def memory_kib(daemon):
    with open(f"/proc/{daemon.pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:"))


def series(host):
    return set(Page(host.ns.http_get("/metrics", 9464)[1]).samples)


def leased_key(host):
    return host.instance.json("keys", "--rule", "leased", "--source", CLIENT[4])[0]


def spend(host, sender, rule, n):
    """Sends n packets of a known key; returns how many of them passed."""
    def of_rule():
        return host.instance.counts(rule)
    before = of_rule()
    sender.burst(n)
    after = until(lambda: c if sum((c := of_rule()).values()) == sum(before.values()) + n else None, f"{rule} judged {n} packets")
    return after.get("admitted", 0) - before.get("admitted", 0)


@pytest.mark.parametrize("hook", ["xdp", "tc"])
def test_a_flood_moves_no_level_and_nothing_grows(host, hook):
    ip("link", "set", "lo", "up", ns=host.ns)
    host.instance.write("rules.yaml", RULES)
    host.instance.config("region.yaml", region="here", regions=ONE_REGION, rules="rules.yaml", metrics="off")
    region = host.instance.daemon("region", host.instance.path("region.yaml")).start().wait_ready()
    node = host.start(RULES, hook, max_keys=N_KEYS, region="here", regions=ONE_REGION, name="h1")
    until(lambda: host.instance.json("status")["node"]["upstream"]["state"] == "up", "the region is reached")
    with contextlib.closing(host.sender(0, port=EXACT)) as exact, contextlib.closing(host.sender(0, port=LINES)) as lines, \
            contextlib.closing(host.sender(0, port=LEASED)) as leased, flooding(host) as wave:
        assert spend(host, exact, "exact", 2 * BURST) == BURST
        assert spend(host, lines, "lines", 2 * BURST) == BURST
        until(lambda: spend(host, leased, "leased", 1) == 1 and leased_key(host)["left_tok"] > 1,
              "the known key has a lease")
        wave(N_FLOOD)
        until(lambda: wave(100) or host.instance.counts("syns").get("admitted", 0) >= 1000, "the whole limit was lent", timeout_s=30)
        known = leased_key(host)
        names, memory = series(host), [memory_kib(d) for d in (node, region)]
        assert host.instance.json("status")["kernel"]["keys"] == N_KEYS
        wave(N_FLOOD)
        assert host.instance.json("status")["kernel"]["keys"] == N_KEYS
        assert series(host) == names
        assert all(now - before < 4096 for now, before in zip((memory_kib(d) for d in (node, region)), memory))
        assert host.instance.counts("syns")["admitted"] == 1000
        assert all(host.instance.seen(rule) > N_FLOOD for rule in ("syns", "exact", "lines", "leased"))
        now = leased_key(host)
        assert now["spent_tok"] - now["returned_tok"] == known["spent_tok"] - known["returned_tok"]
        assert now["granted_tok"] >= known["granted_tok"] and now["expires_in_ms"] > 0 and now["left_tok"] > 0
        assert spend(host, leased, "leased", 1) == 1
        assert spend(host, exact, "exact", BURST) == 0
        assert spend(host, lines, "lines", BURST) == 0
    assert host.instance.json("status")["node"]["upstream"]["connects"] == 1
