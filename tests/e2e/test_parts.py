# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A window of one second over regions 80 to 150 ms apart: too short to wait for tokens, so each region runs a part of the limit.

Every admitted packet is stamped by the kernel of the host it reached; the worst trailing second over all hosts is computed from those
stamps, without any tolerance.
"""
import time

from lib import law
from lib.wait import until
from test_regions import S, assert_law, away_from_home, first_packets, go_for, rule, running

LIMIT = 800


def served(c, start_ns, end_ns):
    """What was admitted in a time, of what one limiter without any distance would have admitted of the same packets."""
    perfect = law.between(law.sliding_window_perfect(c.sent_ns(), LIMIT, S), start_ns, end_ns)
    return law.between(c.admitted_ns(), start_ns, end_ns) / perfect


def test_a_window_of_a_second_is_run_by_regions_and_holds():
    with running(rule(LIMIT, 1)) as c:
        first_packets(c)
        home, hot, _third = away_from_home(c)
        assert hot.instance.json("rules")[0]["settings"]["kind"] == "limit"
        c.only(hot, 1.5 * LIMIT)
        go_for(3)
        start_ns = time.monotonic_ns()
        go_for(5)
        assert served(c, start_ns, time.monotonic_ns()) >= 0.9
        c.only(home, 1.5 * LIMIT)
        until(lambda: law.between(sorted(home.receiver.stamps_ns), time.monotonic_ns() - S, time.monotonic_ns()) >= 0.9 * LIMIT,
              "the limit followed the traffic", timeout_s=6)
        go_for(2)
        assert_law(c, LIMIT, 1)
