# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Peers that share no code with leasegate: grpcio, and docs/protocol.md.

A test plays one in a process of its own inside a namespace, which is the test's own file run as `test_X.py SCENARIO ARGS...` (grpcio must not
be loaded where the test runs: it does not survive forks). Inside it calls main(); outside the test calls run() for a scenario that goes
through by itself, or holds a Playing for one that is told when to go on.
"""
import ctypes
import ctypes.util
import os
import signal
import socket
import subprocess
import sys
import time

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
MISSING = 77	# exit code: grpcio or protoc is not installed


# ---- inside the namespace ----

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


def insecure(address):
    """A channel of its own in clear text."""
    from grpcio_peer import grpc
    return grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)])


def wait_for(word):
    """Says so, and waits until the test lets us go on."""
    print(word, flush=True)
    assert sys.stdin.readline(), "the test has ended"


def main(scenarios, scenario, *args):
    """What a test's file does when it is run: one of its scenarios. Ends the process."""
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "unit", "api"))
    signal.alarm(60)	# whatever waits here waits no longer
    scenarios[scenario](*args)
    # grpcio's threads still wait for what open streams would send next, and now and then the interpreter's end waits for them.
    sys.stdout.flush()
    os._exit(0)


# ---- outside ----

def _argv(file, scenario, args):
    return ["/usr/bin/python3", file, scenario, *(str(a) for a in args)]


def _skip():
    import pytest
    pytest.skip("grpcio or protoc is not installed")


def run(ns, file, scenario, *args):
    """A scenario of a test's file, from its beginning to its end; it must succeed."""
    r = ns.run(*_argv(file, scenario, args), timeout_s=60)
    if r.returncode == MISSING:
        _skip()
    assert r.returncode == 0, r.stdout + r.stderr
    print(r.stdout, end="")


class Playing:
    """A scenario that goes on when it is told to."""

    def __init__(self, ns, file, scenario, *args):
        self.peer = subprocess.Popen(ns.enter_argv() + _argv(file, scenario, args), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     stderr=subprocess.STDOUT, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_exc):
        self.peer.kill()
        self.peer.wait()
        self.peer.stdout.close()
        self.peer.stdin.close()

    def hear(self, word, daemon=None):
        """A line that begins so; the numbers of it."""
        text = self.peer.stdout.readline()
        if not text and self.peer.wait(10) == MISSING:
            _skip()
        assert text.startswith(word), f"{text}{self.peer.stdout.read()}\n{daemon.stderr if daemon else ''}"
        return [int(n) for n in text.split() if n.isdigit()]

    def go_on(self):
        self.peer.stdin.write("\n")
        self.peer.stdin.flush()
