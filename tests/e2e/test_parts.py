# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A limit that is spent within a few round trips: its home lends no packets but the limit itself, in parts that regions run on their own.

The law is computed from the times at which packets reached the hosts, without any tolerance.
"""
import contextlib
import statistics
import time

import pytest
from lib import law
from lib.cluster import PORT, Cluster
from lib.host import fresh_name
from lib.wait import until

S = 1_000_000_000
RATE, BURST = 1000, 100
WINDOW = ("algorithm: sliding_window", f"limit: {RATE}/1s")
BUCKET = ("algorithm: token_bucket", f"limit: {RATE}/1s", f"burst: {BURST}")


def rule(lines):
    return ("rules:\n"
            "  - name: per-user\n"
            "    scope: global\n"
            "    class: lease\n"
            f"    match: {{protocol: udp, destination_port: [{PORT}]}}\n"
            "    key: {source: 32}\n"
            "    unit: packets\n"
            "    lease: {cold_start: 0}\n" + "".join(f"    {line}\n" for line in lines))


@contextlib.contextmanager
def running(lines):
    with Cluster(rule(lines), fresh_name("")) as c, contextlib.ExitStack() as stack:
        try:
            c.start()
            c.receivers(stack)
            c.senders(stack)
            for r in c:
                r.sender.rate_pps = 20
            until(lambda: all(r.receiver.n > 1 for r in c), "every region admits", timeout_s=15)
            yield c
        finally:
            for r in c:
                for d in r.instance.daemons:
                    print(f"--- {r.name} leasegated {d.role}\n{d.stderr}")


def assert_law(c, lines):
    admitted_ns = c.admitted_ns()
    if lines is WINDOW:
        worst, at_ns = law.worst_window(admitted_ns, S)
        assert worst <= RATE, f"{worst} packets in the second up to {at_ns} ns"
        return
    level, last_ns = 0, 0
    for t in admitted_ns:
        level = max(0, level - (t - last_ns) * RATE) + S
        last_ns = t
        assert level <= BURST * S, f"{level / S - BURST} packets above burst and rate at {t} ns"


def share(c, lines, start_ns, end_ns):
    """What was admitted in a time of what one limiter without any distance admits of packets that come faster than the limit."""
    got = law.between(c.admitted_ns(), start_ns, end_ns)
    if lines is WINDOW:
        return got / law.between(law.sliding_window_perfect(c.sent_ns(), RATE, S), start_ns, end_ns)
    return got / (RATE * (end_ns - start_ns) / S)


# Single seconds of a window of one second get 0.92 to 0.95 on this wire, where a fixed division among three regions would give 0.43.
SERVED_MIN = 0.9


def median_share(c, lines, start_ns, seconds):
    """Of single seconds: one in which the machine stood still is not the limiter's."""
    return statistics.median(share(c, lines, start_ns + i * S, start_ns + (i + 1) * S) for i in range(seconds))


def far_from_home(c):
    home = until(c.home_of_user, "the user's key has a home")
    return max((r for r in c if r.name != home), key=lambda r: c.rtt_ms[frozenset((home, r.name))])


@pytest.mark.parametrize("lines", [pytest.param(WINDOW, marks=pytest.mark.long), BUCKET], ids=["window", "bucket"])
def test_all_traffic_in_a_far_region_gets_the_limit_and_not_more(lines):
    with running(lines) as c:
        start_ns = c.only(far_from_home(c), 1.3 * RATE) + 5 * S
        time.sleep(11)
        assert_law(c, lines)
        assert median_share(c, lines, start_ns, 5) >= SERVED_MIN


@pytest.mark.long
@pytest.mark.parametrize("lines", [WINDOW, BUCKET], ids=["window", "bucket"])
def test_traffic_that_moves_about_gets_no_more_than_the_limit(lines):
    with running(lines) as c:
        regions = list(c)
        for r in regions:
            r.sender.rate_pps = 1.3 * RATE / 3
        time.sleep(3)
        for i in range(6):
            c.only(regions[i % 3], 1.3 * RATE)
            time.sleep(1)
        moved_ns = c.only(far_from_home(c), 1.3 * RATE)
        time.sleep(9)
        assert_law(c, lines)
        assert median_share(c, lines, moved_ns + 4 * S, 5) >= SERVED_MIN
