# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Real packets: paced senders that note when they sent, receivers that note when the kernel got each packet.

All times are CLOCK_MONOTONIC nanoseconds. A sender notes the time before the system call and a receiver takes the kernel's
own stamp, so that a late Python thread neither moves packets together nor apart.
"""
import array
import errno
import socket
import struct
import threading
import time

SO_TIMESTAMPNS = 35
SO_RCVBUFFORCE = 33
_CATCH_UP = 128		# most packets sent at once: a veth queue holds 256
ETH_P_ALL = 3


def clock_offset_ns():
    """CLOCK_REALTIME - CLOCK_MONOTONIC, read without being interrupted in between."""
    best = None
    for _ in range(8):
        a = time.monotonic_ns()
        wall = time.time_ns()
        b = time.monotonic_ns()
        if best is None or b - a < best[0]:
            best = (b - a, wall - (a + b) // 2)
        if best[0] < 5000:
            break
    return best[1]


class Worker:
    """A thread that runs self._work() until stop(); what it raises is raised by stop()."""

    def __init__(self):
        self._stop = threading.Event()
        self._error = None
        self._thread = threading.Thread(target=self._guard, daemon=True)

    def _guard(self):
        try:
            self._work()
        except Exception as e:		# handed to whoever stops us
            self._error = e

    def start(self):
        self._thread.start()
        return self

    def stop(self):
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(10)
        if self._error:
            raise self._error

    def __enter__(self):
        return self.start()

    def __exit__(self, *exc):
        try:
            self.stop()
        except Exception:
            if exc[0] is None:
                raise
        finally:
            self.close()


class Sender(Worker):
    """Sends UDP from `source` to `dest` at a rate that may be changed at any time (rate = 0 pauses)."""

    def __init__(self, ns, dest, rate_pps, source=None, payload=b"x" * 18):
        super().__init__()
        family = socket.AF_INET6 if ":" in dest[0] else socket.AF_INET
        self.sock = ns.socket(family, socket.SOCK_DGRAM)
        if source:
            self.sock.bind((source, 0))
        # Not connected: ICMP errors of a port that nobody listens on must not come back as failed sends.
        self.dest = dest
        self.payload, self.rate_pps = payload, rate_pps
        self.sent_ns = array.array("q")
        self.refused = 0		# the local stack would not take it

    @property
    def n_sent(self):
        return len(self.sent_ns)

    def _work(self):
        owed, last_ns = 0.0, time.monotonic_ns()
        while not self._stop.is_set():
            now_ns = time.monotonic_ns()
            # After a stall the schedule moves on: what was missed is not sent in one burst.
            owed = min(owed + self.rate_pps * (now_ns - last_ns) / 1e9, _CATCH_UP)
            last_ns = now_ns
            n = int(owed)
            owed -= n
            self._send(n)
            time.sleep(0.001)

    def _send(self, n):
        for _ in range(n):
            t = time.monotonic_ns()
            try:
                self._send_one()
            except OSError as e:
                if e.errno != errno.ENOBUFS:
                    raise
                self.refused += 1
                continue
            self.sent_ns.append(t)

    def _send_one(self):
        self.sock.sendto(self.payload, self.dest)

    def burst(self, n, gap_s=0.0):
        """Sends n packets from the calling thread, in steps a veth queue can hold; for senders that were not started."""
        while n > 0:
            step = min(n, _CATCH_UP)
            self._send(step)
            n -= step
            time.sleep(gap_s or 0.0005)

    def close(self):
        self.sock.close()


class Receiver(Worker):
    """Takes every UDP packet that reaches an address and port, with its time and length."""

    def __init__(self, ns, addr, port):
        super().__init__()
        family = socket.AF_INET6 if ":" in addr else socket.AF_INET
        self.sock = ns.socket(family, socket.SOCK_DGRAM)
        self.sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 32 << 20)
        self.sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.sock.bind((addr, port))
        self.sock.settimeout(0.05)
        self.stamps_ns = array.array("q")
        self.lens = array.array("l")

    @property
    def n(self):
        return len(self.stamps_ns)

    def _work(self):
        offset_ns = clock_offset_ns()
        while True:
            try:
                data, control, _flags, _peer = self.sock.recvmsg(65536, 64)
            except TimeoutError:
                if self._stop.is_set():
                    return
                offset_ns = clock_offset_ns()		# follows a wall clock that is being slewed
                continue
            stamp_ns = None
            for level, kind, value in control:
                if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS:
                    s, ns = struct.unpack("qq", value[:16])
                    stamp_ns = s * 1_000_000_000 + ns - offset_ns
            self.lens.append(len(data))
            self.stamps_ns.append(stamp_ns if stamp_ns is not None else time.monotonic_ns())

    def close(self):
        self.sock.close()


class FrameReceiver(Worker):
    """Takes every frame that reaches an interface and carries UDP to a port, below any number of VLAN tags."""

    def __init__(self, ns, ifname, port):
        super().__init__()
        self.sock = ns.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self.sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 32 << 20)
        self.sock.bind((ifname, ETH_P_ALL))
        self.sock.settimeout(0.05)
        self.port = port
        self.stamps_ns = array.array("q")

    @property
    def n(self):
        return len(self.stamps_ns)

    def _work(self):
        while True:
            try:
                frame, peer = self.sock.recvfrom(65536)
            except TimeoutError:
                if self._stop.is_set():
                    return
                continue
            if peer[2] != socket.PACKET_OUTGOING and udp_port(frame) == self.port:
                self.stamps_ns.append(time.monotonic_ns())

    def close(self):
        self.sock.close()


class FrameSender(Sender):
    """Sends a ready made frame through an interface; the same pace and notes as Sender."""

    def __init__(self, ns, ifname, rate_pps, frame):
        Worker.__init__(self)
        self.sock = ns.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self.sock.bind((ifname, 0))
        self.payload, self.rate_pps = frame, rate_pps
        self.sent_ns = array.array("q")
        self.refused = 0

    def _send_one(self):
        self.sock.send(self.payload)


def udp_port(frame):
    """Destination port of a UDP frame under any VLAN tags, or None."""
    at = 12
    while frame[at:at + 2] in (b"\x81\x00", b"\x88\xa8"):
        at += 4
    kind, at = frame[at:at + 2], at + 2
    if kind == b"\x08\x00" and frame[at + 9] == 17:
        at += (frame[at] & 15) * 4
    elif kind == b"\x86\xdd" and frame[at + 6] == 17:
        at += 40
    else:
        return None
    return int.from_bytes(frame[at + 2:at + 4], "big")


def checksum(data):
    total = sum(int.from_bytes(data[i:i + 2].ljust(2, b"\0"), "big") for i in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def udp_frame(mac_from, mac_to, source, dest, vlans=(), payload=b"x" * 18, source_port=4000):
    """An Ethernet frame with UDP from `source` to dest = (addr, port), below 802.1Q tags with the given ids (outer first)."""
    def mac(text):
        return bytes.fromhex(text.replace(":", ""))

    tags = b"".join(struct.pack("!HH", 0x8100, v) for v in vlans)
    udp = struct.pack("!HHHH", source_port, dest[1], 8 + len(payload), 0) + payload
    if ":" in dest[0]:
        a, b = (socket.inet_pton(socket.AF_INET6, x) for x in (source, dest[0]))
        pseudo = a + b + struct.pack("!II", len(udp), 17)
        udp = udp[:6] + struct.pack("!H", checksum(pseudo + udp) or 0xffff) + udp[8:]
        packet = struct.pack("!IHBB", 6 << 28, len(udp), 17, 64) + a + b + udp
        kind = 0x86dd
    else:
        a, b = (socket.inet_pton(socket.AF_INET, x) for x in (source, dest[0]))
        head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0) + a + b
        head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
        packet, kind = head + udp, 0x0800
    frame = mac(mac_to) + mac(mac_from) + tags + struct.pack("!H", kind) + packet
    return frame.ljust(60, b"\0")
