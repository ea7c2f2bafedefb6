# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Homes, regions and the ways between them fail and come back: the limit holds throughout, hosts spend what they were lent and then do
as the rule says, others are not disturbed, and service is back within seconds.
"""
import time

import pytest

from lib import law
from lib.cluster import USER
from lib.wait import until
from test_regions import S, SHORT_LIMIT, SHORT_S, assert_law, away_from_home, first_packets, go_for, rule, running

DENY = rule(SHORT_LIMIT, SHORT_S, "    fallback: deny\n")
BACK_S = 6		# a dead connection is dialled again every 2 s at most, and a dial that hangs is given up after 5
LOOK_S = 0.5		# how far back a look at the traffic goes
LATE_NS = S // 20	# packets younger than this may still be on their way to us


def flowing(c, rates):
    """Steady traffic, a part of the limit per region, all of it served."""
    for r in c:
        r.sender.rate_pps = rates[r] * SHORT_LIMIT / SHORT_S
    until(lambda: all(served(r) >= 0.9 for r in c), "every region is served", timeout_s=20)


def served(r, start_ns=None, end_ns=None):
    """What a region let in of what it was sent, in the last moments or in a given time."""
    end_ns = end_ns or time.monotonic_ns() - LATE_NS
    start_ns = start_ns or end_ns - int(LOOK_S * S)
    sent = law.between(r.sender.sent_ns, start_ns, end_ns)
    return law.between(sorted(r.receiver.stamps_ns), start_ns, end_ns) / sent if sent else 0


def denied(r):
    """Packets of the rule that a host denied for want of a lease."""
    counts = r.instance.counts("per-user")
    return counts.get("lease_pending", 0) + counts.get("unreachable", 0)


def drained(r, since_ns):
    """A host that was cut off from its tokens has spent what it had, and denies."""
    until(lambda: served(r) == 0, f"{r.name} has drained what it was lent", timeout_s=20)
    assert law.between(sorted(r.receiver.stamps_ns), since_ns, time.monotonic_ns()) > 0, "it did not go on deciding"
    n = denied(r)
    until(lambda: denied(r) > n, f"{r.name} denies")


def back(regions, since_ns):
    until(lambda: all(served(r) >= 0.9 for r in regions), "service is back", timeout_s=20, every_s=0.05)
    took_s = (time.monotonic_ns() - since_ns) / S - LOOK_S
    assert took_s <= BACK_S, f"service was back after {took_s:.1f} s"


def undisturbed(regions, start_ns):
    end_ns = time.monotonic_ns() - LATE_NS
    for r in regions:
        assert served(r, start_ns, end_ns) >= 0.97, f"{r.name} was disturbed"


@pytest.mark.long
def test_a_home_dies_and_comes_back():
    """kill -9: all hosts drain their leases and deny; the new life learns what is out and was spent before it lends."""
    with running(DENY) as c:
        first_packets(c)
        home, _far, _near = away_from_home(c)
        flowing(c, dict.fromkeys(c, 0.25))
        killed_ns = time.monotonic_ns()
        home.server.kill()
        for r in c:
            drained(r, killed_ns)
        started_ns = time.monotonic_ns()
        c.start_region(home)
        back(list(c), started_ns)
        go_for(SHORT_S)
        assert_law(c, SHORT_LIMIT, SHORT_S)


@pytest.mark.alone
def test_a_region_server_dies_and_comes_back():
    """Its own host drains and denies; the others do not notice."""
    with running(DENY) as c:
        first_packets(c)
        home, hot, third = away_from_home(c)
        flowing(c, {hot: 0.3, home: 0.2, third: 0.2})
        killed_ns = time.monotonic_ns()
        hot.server.kill()
        drained(hot, killed_ns)
        until(lambda: hot.instance.json("status")["node"]["upstream"]["state"] == "down", "the host knows that its region is gone")
        until(lambda: hot.instance.counts("per-user").get("unreachable", 0) > 0, "and says so")
        started_ns = time.monotonic_ns()
        c.start_region(hot)
        back([hot], started_ns)
        go_for(SHORT_S)
        undisturbed([home, third], killed_ns)
        assert_law(c, SHORT_LIMIT, SHORT_S)


@pytest.mark.long
def test_a_region_whose_packets_are_lost_both_ways_drains_and_is_back_when_they_are_not():
    """For longer than it takes until both ends give up the connection."""
    with running(DENY) as c:
        first_packets(c)
        home, hot, third = away_from_home(c)
        flowing(c, {hot: 0.3, home: 0.2, third: 0.2})
        cut_ns = time.monotonic_ns()
        c.partition(hot)
        drained(hot, cut_ns)
        until(lambda: {h["state"] for h in hot.instance.json("status")["region"]["homes"] if h["address"] != "self"} == {"down"},
              "the region has noticed", timeout_s=20)
        assert served(hot) == 0
        healed_ns = time.monotonic_ns()
        c.heal(hot)
        back([hot], healed_ns)
        go_for(SHORT_S)
        undisturbed([home, third], cut_ns)
        assert_law(c, SHORT_LIMIT, SHORT_S)


def test_a_region_cut_off_from_the_others_gets_its_published_share_and_no_more():
    """From a window after its lease's end until the cut heals: the limit by the number of regions, beside the limit of the rest."""
    limit, window_s = 1500, 2
    with running(rule(limit, window_s, "    fallback: share\n")) as c:
        first_packets(c)
        _home, hot, third = away_from_home(c)
        for r in c:
            r.sender.rate_pps = 1.2 * limit / window_s if r in (hot, third) else 0
        go_for(2)
        c.relay.each("hold", hot.name)
        until(lambda: hot.instance.counts("per-user").get("fallback", 0) > 0, "the share is spent from", timeout_s=25)
        start_ns = time.monotonic_ns()
        go_for(2 * window_s)
        end_ns = time.monotonic_ns()
        share_tok = limit / len(list(c))
        windows = (end_ns - start_ns) / (window_s * S)
        got = law.between(sorted(hot.receiver.stamps_ns), start_ns, end_ns)
        assert 0.9 * share_tok * windows <= got <= share_tok * windows + 1
        assert_law(c, limit + share_tok, window_s)
        c.relay.each("mend", hot.name)
        until(lambda: hot.instance.key(USER)["expires_in_ms"] > 0, "it has a lease again", timeout_s=20)
        go_for(2 * window_s)
        recent_ns = [t for t in c.admitted_ns() if t > time.monotonic_ns() - window_s * S]
        assert law.worst_window(recent_ns, window_s * S)[0] <= limit
