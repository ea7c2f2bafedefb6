# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The four algorithms side by side: the same burst on either side of the seam of two windows, on real packets.

Used by scripts/demo --algorithms. Prints a table and writes a picture.
"""
import contextlib
import struct
import time
import zlib

from lib import law
from lib.host import HOST, Host
from lib.traffic import Receiver, Sender
from lib.wait import until

S = 1_000_000_000
ALGORITHMS = ("token_bucket", "fixed_window", "sliding_window", "sliding_log")
LIMIT, WINDOW_S = 100, 4
BURST = 150		# packets at once, half as many again as the limit
APART_S = 0.4		# from the seam to either burst
AFTER_S = 6		# traffic at twice the limit goes on for so long behind the seam
FIRST_PORT = 5401

RULES = "rules:\n" + "".join(
    f"  - name: {a.replace('_', '-')}\n"
    f"    match: {{protocol: udp, destination_port: {FIRST_PORT + i}}}\n"
    "    key: {source: 32}\n"
    "    table: exact\n"	# where windows and logs are, too
    f"    algorithm: {a}\n"
    f"    limit: {LIMIT}/{WINDOW_S}s\n" for i, a in enumerate(ALGORITHMS))

SECOND_S = APART_S * 1.25	# by then the second burst is over

# The most that each lets in of the two bursts: what it may hold at once, and what comes back until the second one is over.
BACK = LIMIT * (APART_S + SECOND_S) / WINDOW_S
MOST = {"token_bucket": LIMIT + BACK + 1, "fixed_window": 2 * LIMIT, "sliding_window": LIMIT + BACK + 1, "sliding_log": LIMIT}
WHY = {
    "token_bucket": "burst, and what refilled in between",
    "fixed_window": "a whole limit on either side of the seam",
    "sliding_window": "the last window counts by the part of it that still matters",
    "sliding_log": "never more than the limit in any trailing window",
}


class Traffic:
    """The same packets to four ports, each under a rule of its own; times are nanoseconds from the seam."""

    def __init__(self, host):
        self.host = host
        self.seam_ns = 0
        self.sent, self.got = {}, {}

    def run(self):
        with contextlib.ExitStack() as stack:
            receivers = [stack.enter_context(Receiver(self.host.ns, HOST[4], FIRST_PORT + i)) for i in range(len(ALGORITHMS))]
            senders = [stack.enter_context(contextlib.closing(Sender(self.host.client, (HOST[4], FIRST_PORT + i), 0)))
                       for i in range(len(ALGORITHMS))]
            # Windows begin at multiples of their length; the one before the seam is to be empty but for the burst.
            self.seam_ns = (time.monotonic_ns() // S // WINDOW_S + 2) * WINDOW_S * S
            self._burst(senders, self.seam_ns - APART_S * S)
            self._burst(senders, self.seam_ns + APART_S * S)
            self._steady(senders)
            until(lambda: [r.n for r in receivers] == [self._admitted(a) for a in ALGORITHMS], "all that was let in has arrived", timeout_s=5)
            for a, s, r in zip(ALGORITHMS, senders, receivers):
                self.sent[a] = [t - self.seam_ns for t in s.sent_ns]
                self.got[a] = sorted(t - self.seam_ns for t in r.stamps_ns)
        if any(-S // 100 < t < APART_S * S / 2 for t in self.sent["sliding_log"]):
            raise RuntimeError("the machine was too busy to send the first burst before the seam: run it again")

    @staticmethod
    def _burst(senders, at_ns):
        time.sleep(max(0, (at_ns - time.monotonic_ns()) / S))
        for s in senders:
            s.burst(BURST)

    def _steady(self, senders):
        gap_s = WINDOW_S / LIMIT / 2
        while time.monotonic_ns() < self.seam_ns + AFTER_S * S:
            for s in senders:
                s.burst(1, gap_s / len(senders))

    def _admitted(self, algorithm):
        return self.host.instance.counts(algorithm.replace("_", "-")).get("admitted", 0)

    def around_seam(self, algorithm):
        """Packets let in of the two bursts: before the seam, and behind it."""
        got = self.got[algorithm]
        return law.between(got, -S, 0), law.between(got, 0, int(SECOND_S * S))


def run(hook, png, say):
    """Shows it. Returns whether each algorithm did what it promises."""
    say(f"""
Four algorithms, one limit: {LIMIT} packets in {WINDOW_S} s from each source
  {BURST} packets arrive {APART_S:g} s before a window ends, and {BURST} more {APART_S:g} s behind that seam; then twice the limit goes on.
  Real UDP through a veth pair, judged by {"XDP in its driver" if hook == "xdp" else "TC"}; each algorithm has a port and a rule of its own.
""")
    with Host() as host:
        host.start(RULES, hook)
        traffic = Traffic(host)
        traffic.run()
    held = table(traffic, say)
    write_png(png, picture(traffic))
    say(f"\nPackets let in over time, as a picture: {png}")
    return held


def table(traffic, say):
    ok = []
    say(f"  {'algorithm':16}{'before':>8}{'behind':>8}{'together':>10}{'of':>6}   the seam, {2 * APART_S:g} s apart")
    for a in ALGORITHMS:
        before, behind = traffic.around_seam(a)
        good = before == LIMIT and before + behind <= MOST[a] and (a != "fixed_window" or behind == LIMIT)
        ok.append(good)
        times = f"{(before + behind) / LIMIT:.2f} x the limit"
        say(f"  {a:16}{before:8}{behind:8}{before + behind:10}{LIMIT:6}   {'ok' if good else 'BROKEN'}: {times}, {WHY[a]}")
    return all(ok)


# ---- the picture ----

WIDTH, HEIGHT = 960, 640
WHITE, BLACK, GREY, LIGHT, BLUE, RED = (255, 255, 255), (40, 40, 40), (150, 150, 150), (225, 225, 225), (30, 100, 200), (210, 60, 50)
FROM_S, TO_S, TOP = -1, AFTER_S, 600	# axes of each panel: seconds from the seam, and packets

GLYPHS = {c: rows.split("/") for c, rows in {
    "0": ".##./#..#/#..#/#..#/#..#/#..#/.##.", "1": "..#./.##./..#./..#./..#./..#./.###", "2": ".##./#..#/...#/..#./.#../#.../####",
    "3": ".##./#..#/...#/.##./...#/#..#/.##.", "4": "#..#/#..#/#..#/####/...#/...#/...#", "5": "####/#.../###./...#/...#/#..#/.##.",
    "6": ".##./#.../###./#..#/#..#/#..#/.##.", "-": "..../..../..../####/..../..../....", "_": "..../..../..../..../..../..../####",
    "a": "..../..../.##./...#/.###/#..#/.###", "b": "#.../#.../###./#..#/#..#/#..#/###.", "c": "..../..../.###/#.../#.../#.../.###",
    "d": "...#/...#/.###/#..#/#..#/#..#/.###", "e": "..../..../.##./#..#/####/#.../.###", "f": "..##/.#../####/.#../.#../.#../.#..",
    "g": "..../.###/#..#/#..#/.###/...#/.##.", "i": ".#../..../.#../.#../.#../.#../.#..", "k": "#.../#.../#..#/#.#./##../#.#./#..#",
    "h": "#.../#.../###./#..#/#..#/#..#/#..#",
    "l": ".#../.#../.#../.#../.#../.#../..##", "m": "..../..../#.#./####/####/#..#/#..#", "n": "..../..../###./#..#/#..#/#..#/#..#",
    "o": "..../..../.##./#..#/#..#/#..#/.##.", "p": "..../###./#..#/#..#/###./#.../#...", "s": "..../..../.###/#.../.##./...#/###.",
    "t": ".#../.#../####/.#../.#../.#../..##", "u": "..../..../#..#/#..#/#..#/#..#/.###", "w": "..../..../#..#/#..#/####/####/#..#",
    "x": "..../..../#..#/#..#/.##./#..#/#..#", " ": "..../..../..../..../..../..../....",
}.items()}


class Canvas:
    def __init__(self):
        self.rows = [bytearray(bytes(WHITE) * WIDTH) for _ in range(HEIGHT)]

    def box(self, x0, y0, x1, y1, colour):
        for y in range(max(0, y0), min(HEIGHT, y1 + 1)):
            self.rows[y][3 * x0:3 * (x1 + 1)] = bytes(colour) * (x1 + 1 - x0)

    def text(self, x, y, text, colour=BLACK, scale=2):
        for c in text:
            for dy, row in enumerate(GLYPHS[c]):
                for dx, dot in enumerate(row):
                    if dot == "#":
                        self.box(x + dx * scale, y + dy * scale, x + (dx + 1) * scale - 1, y + (dy + 1) * scale - 1, colour)
            x += 5 * scale


class Panel:
    """One algorithm's part of the canvas."""

    def __init__(self, canvas, index):
        self.canvas = canvas
        self.x0, self.y0 = 60 + index % 2 * WIDTH // 2, 60 + index // 2 * HEIGHT // 2
        self.w, self.h = WIDTH // 2 - 90, HEIGHT // 2 - 110

    def x(self, at_s):
        return self.x0 + round((at_s - FROM_S) / (TO_S - FROM_S) * self.w)

    def y(self, n):
        return self.y0 + self.h - round(min(n, TOP) / TOP * self.h)

    def axes(self, title):
        c = self.canvas
        c.text(self.x0, self.y0 - 40, title)
        for n in range(0, TOP + 1, LIMIT):
            c.box(self.x0, self.y(n), self.x0 + self.w, self.y(n), LIGHT)
            c.text(self.x0 - 40, self.y(n) - 6, f"{n:3}", GREY)
        for s in range(FROM_S, TO_S + 1):
            c.text(self.x(s) - 8, self.y0 + self.h + 8, str(s), GREY)
        for s in (0, WINDOW_S):
            c.box(self.x(s), self.y0, self.x(s), self.y0 + self.h, GREY)

    def steps(self, stamps_ns, colour, thick):
        """How many came up to each time, as a line of steps."""
        x, n = self.x0, 0
        for t in [*stamps_ns, TO_S * S]:
            there = min(max(self.x(t / S), x), self.x0 + self.w)
            self.canvas.box(x, self.y(n) - thick + 1, there, self.y(n), colour)
            self.canvas.box(there, self.y(n + 1), there + thick - 1, self.y(n), colour)
            x, n = there, n + 1


def picture(traffic):
    canvas = Canvas()
    for i, a in enumerate(ALGORITHMS):
        panel = Panel(canvas, i)
        panel.axes(a)
        panel.steps(traffic.sent[a], GREY, 1)
        panel.steps(traffic.got[a], RED if a == "fixed_window" else BLUE, 3)
    canvas.text(60, HEIGHT - 18, "packets sent", GREY)
    canvas.text(210, HEIGHT - 18, "and let in", BLUE)
    canvas.text(340, HEIGHT - 18, "up to each second", BLACK)
    return canvas.rows


def write_png(path, rows):
    """Rows of RGB bytes as a PNG file."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0)
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"".join(b"\0" + bytes(r) for r in rows)))
                + chunk(b"IEND", b""))
