# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Servers of a region that share its keys: each has a part of the slots, and whatever happens to one, no token is lent twice and nobody waits
long."""
import contextlib
import os
import signal
import time

import pytest
from lib import law
from lib.fleet import even, fleet, rules_of
from lib.net import ip
from lib.wait import until

S = 1_000_000_000
LIMIT, WINDOW_S = 200, 2
N_USERS = 6	# so many keys are in slots of each server, almost surely
TAKEN_OVER_S = 3	# from the death of a server to the first grant of who takes its slots over
TICK_S = 0.25	# the longest that a move of slots in good order may keep anybody from what is his
RULES = rules_of(LIMIT, WINDOW_S)


@contextlib.contextmanager
def users(f, load=1.5):
    """Traffic of several users, each with a budget of its own. Gives the receiver of each, by his address."""
    sources = [f"10.90.0.{10 + i}" for i in range(N_USERS)]
    with contextlib.ExitStack() as stack:
        for source in sources:
            ip("address", "add", f"{source}/24", "dev", "up0", ns=f.host.client)
        got = {s: stack.enter_context(f.host.receiver(port=5300 + i)) for i, s in enumerate(sources)}
        for i, s in enumerate(sources):
            stack.enter_context(f.host.sender(load * LIMIT / WINDOW_S, source=s, port=5300 + i))
        until(lambda: all(r.n > LIMIT // 4 for r in got.values()), "packets of everybody are let in", 20)
        yield got


def assert_law(got):
    for source, r in got.items():
        worst, at_ns = law.worst_window(sorted(r.stamps_ns), WINDOW_S * S)
        assert worst <= LIMIT, f"{source}: {worst} packets in the {WINDOW_S} s up to {at_ns} ns, {LIMIT} are allowed"


def refused(f):
    return sum(n for what, n in f.host.instance.counts("per-user").items() if what != "admitted")


def go_on(got, n=LIMIT // 2):
    seen = {s: r.n for s, r in got.items()}
    until(lambda: all(r.n > seen[s] + n for s, r in got.items()), "packets of everybody are let in", 30)


def test_a_server_is_killed_and_the_others_take_its_slots_over():
    with fleet(RULES, 2) as f:
        f.start()
        f.host.instance.node()
        with users(f) as got:
            assert f.granted(0) and f.granted(1), "both servers lend"
            before = f.granted(1)
            f.daemons[0].kill()
            killed_ns = time.monotonic_ns()
            until(lambda: f.status(1)["slots"] == 256, "the other one owns all", 20)
            took_s = (time.monotonic_ns() - killed_ns) / S
            go_on(got)
            assert f.granted(1) > before
        assert took_s <= TAKEN_OVER_S, f"it took {took_s:.1f} s"
        assert_law(got)


@pytest.mark.long
def test_servers_come_and_go_and_nobody_is_kept_from_what_is_his():
    """Below the limit: whoever is refused, a move of slots has cost it."""
    with fleet(RULES, 1) as f:
        f.start()
        f.host.instance.node()
        with users(f, 0.5) as got:
            go_on(got, LIMIT)
            before = refused(f)
            for _ in range(2):
                f.add().start().wait_ready()
                f.wait_even()
                go_on(got)
            assert sorted(f.shares()) == even(3)
            assert sum(1 for i in range(3) if f.granted(i)) > 1, "several servers lend"
            for d in f.daemons[:2]:
                d.stop()
                f.wait_even()
                go_on(got)
            assert f.shares() == [256]
            cost = refused(f) - before
        # Five moves, each for a part of the users: a tick each is what they may cost.
        assert cost <= 5 * N_USERS * TICK_S * 0.5 * LIMIT / WINDOW_S, f"{cost} packets were refused"
        assert_law(got)


@pytest.mark.long
def test_a_server_that_was_stopped_lends_nothing_when_it_goes_on():
    with fleet(RULES, 2) as f:
        f.start()
        f.host.instance.node()
        with users(f) as got:
            os.kill(f.daemons[0].pid, signal.SIGSTOP)
            until(lambda: f.status(1)["slots"] == 256, "the other one owns all", 20)
            go_on(got)
            os.kill(f.daemons[0].pid, signal.SIGCONT)
            until(lambda: "cannot be certain to own its slots" in f.daemons[0].stderr, "it knows that it is over")
            f.wait_even()
            go_on(got, LIMIT)
        assert_law(got)


@pytest.mark.long
def test_the_servers_of_a_region_speak_for_it_at_the_servers_of_a_home():
    with fleet(RULES, 2, n_there=2) as f:
        f.start()
        f.host.instance.node()
        with users(f) as got:
            homes = [len(f.leases(i)["home"]) for i in range(4)]
            assert sum(homes[:2]) and sum(homes[2:]), f"keys have their home here and there: {homes}"
            f.daemons[2].kill()
            until(lambda: f.status(3)["slots"] == 256, "the other server of the home owns all", 20)
            go_on(got)
            f.daemons[0].kill()
            until(lambda: f.status(1)["slots"] == 256, "the other server of the region owns all", 20)
            go_on(got)
            # The address that is listed of a region must lead to a server of it that lives.
            for i in (2, 0):
                f.daemons[i].start().wait_ready()
                f.wait_even()
                go_on(got)
        assert_law(got)
