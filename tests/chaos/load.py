# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Many users who send to many hosts, from one thread, and what really arrived of it, told apart by host, rule and user.

A rule is known by its UDP port and a user by his address. All times are CLOCK_MONOTONIC nanoseconds.
"""
import errno
import selectors
import socket
import struct
import time
from collections import defaultdict

from lib.traffic import SO_RCVBUFFORCE, SO_TIMESTAMPNS, Worker, clock_offset_ns

CATCH_UP_S = 0.05		# after a stall so much is sent at once, of each flow; what was missed before is not


class Load(Worker):
    """Sends from every user to every host and port; rate_pps[host address], times what users says of the user, may change at any time."""

    def __init__(self, ns, users, hosts, ports):
        """@users: {address: factor}"""
        super().__init__()
        self.flows = [(host, (host, port), self._socket(ns, user), factor) for user, factor in users.items()
                      for host in hosts for port in ports]
        self.rate_pps = dict.fromkeys(hosts, 0)
        self.sent = 0

    @staticmethod
    def _socket(ns, user):
        sock = ns.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind((user, 0))
        sock.setblocking(False)
        return sock

    def _work(self):
        # Flows begin at different phases, so that they do not all send in the same moment.
        owed = [i / len(self.flows) for i in range(len(self.flows))]
        last_ns = time.monotonic_ns()
        while not self._stop.is_set():
            now_ns = time.monotonic_ns()
            past_s, last_ns = (now_ns - last_ns) / 1e9, now_ns
            for i, (host, dest, sock, factor) in enumerate(self.flows):
                owed[i] += factor * self.rate_pps[host] * min(past_s, CATCH_UP_S)
                while owed[i] >= 1:
                    owed[i] -= 1
                    self._send(sock, dest)
            time.sleep(0.003)

    def _send(self, sock, dest):
        try:
            sock.sendto(b"x" * 18, dest)
            self.sent += 1
        except OSError as e:
            if e.errno not in (errno.ENOBUFS, errno.EAGAIN, errno.ENETUNREACH):
                raise

    def close(self):
        for _, _, sock, _ in self.flows:
            sock.close()


class Sink(Worker):
    """Takes what arrives at the ports of all hosts: admitted[rule, user] and by_host[host, rule] are packets in the order of arrival,
    arrived[host, rule] their number.
    """

    def __init__(self, hosts, ports):
        """@hosts: {name: (namespace, address)}, @ports: {port: rule}"""
        super().__init__()
        self.selector = selectors.DefaultSelector()
        self.admitted = defaultdict(list)
        self.arrived = defaultdict(int)
        self.by_host = defaultdict(list)
        self.last_ns = {}
        for host, (ns, address) in hosts.items():
            for port, rule in ports.items():
                sock = ns.socket(socket.AF_INET, socket.SOCK_DGRAM)
                sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 32 << 20)
                sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
                sock.bind((address, port))
                sock.setblocking(False)
                self.selector.register(sock, selectors.EVENT_READ, (host, rule))

    def _work(self):
        offset_ns = clock_offset_ns()
        while True:
            ready = self.selector.select(0.05)
            if not ready:
                if self._stop.is_set():
                    return
                offset_ns = clock_offset_ns()
            for key, _ in ready:
                self._take(key.fileobj, *key.data, offset_ns)
            # Packets may wait: what they are dated was noted by the kernel.
            time.sleep(0.005)

    def _take(self, sock, host, rule, offset_ns):
        while True:
            try:
                _data, control, _flags, peer = sock.recvmsg(64, 64)
            except BlockingIOError:
                return
            stamp_ns = next(s * 1_000_000_000 + ns - offset_ns for s, ns in
                            (struct.unpack("qq", value[:16]) for level, kind, value in control
                             if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS)))
            self.admitted[rule, peer[0]].append((stamp_ns, 1))
            self.by_host[host, rule].append((stamp_ns, 1))
            self.arrived[host, rule] += 1
            self.last_ns[host, rule, peer[0]] = stamp_ns

    def close(self):
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()
        self.selector.close()

    def history(self):
        """Of a sink that was stopped: {(rule, user): [(time, tokens)]} in order of time."""
        return {of: sorted(admitted) for of, admitted in self.admitted.items()}
