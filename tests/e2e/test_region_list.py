# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The list of regions changes: a key that moves to another home is never lent by both, and a mixed fleet stays within the limit."""
import time

import pytest

from lib.cluster import LEASE_PORT
from lib.daemon import Instance
from lib.host import fresh_name
from lib.net import Namespace
from lib.wait import until
from test_regions import SHORT_LIMIT, SHORT_S, assert_law, away_from_home, rule, running, total

RATE = SHORT_LIMIT // SHORT_S


def write_list(c, r, version, regions):
    """Gives one region's server another list."""
    listed = {"version": version, "list": [{"name": x.name, "address": x.address, "hosts": 1} for x in regions]}
    via = {x.name: f"10.90.{r.index}.1:{LEASE_PORT + x.index}" for x in regions if x is not r}
    r.instance.config("region.yaml", region=r.name, regions=listed, listen=r.address, rules="rules.yaml", store=c.store,
                      test={"dial_via": via} if via else {})


def restart(c, r, version, regions):
    r.server.stop()
    write_list(c, r, version, regions)
    c.start_region(r)


@pytest.mark.long
def test_a_key_moves_to_another_home_without_a_second_budget():
    with running(rule(SHORT_LIMIT, SHORT_S)) as c:
        for r in c:
            r.sender.rate_pps = 0.6 * RATE
        home, far, near = away_from_home(c)
        until(lambda: total(c) >= 2 * SHORT_LIMIT, "the limit has been reached")
        home.sender.rate_pps = 0
        far.sender.rate_pps = near.sender.rate_pps = 1.2 * RATE
        # The old home lives on, with the old list and a holder of it, while the key may already have its new home.
        restart(c, far, 2, [far, near])
        until(lambda: "version 1 of the region list is old" in near.server.stderr, "who has the old list is told so", 20)
        restart(c, near, 2, [far, near])
        seen, at_s = total(c), time.monotonic()
        until(lambda: total(c) >= seen + 2 * SHORT_LIMIT, "the new home lends", 60)
        assert time.monotonic() - at_s < 45
        until(lambda: c.home_of_user() in (far.name, near.name), "the key has a new home")
        assert_law(c, SHORT_LIMIT, SHORT_S)


def test_a_home_that_hears_of_a_newer_list_lends_nothing_until_it_has_it():
    with running(rule(SHORT_LIMIT, SHORT_S)) as c:
        for r in c:
            r.sender.rate_pps = 0.6 * RATE
        home, far, near = away_from_home(c)
        regions = list(c)
        restart(c, far, 2, regions)
        until(lambda: home.ns.http_get("/readyz", 9465)[0] == 503, "a home with an old list is not ready")
        assert "newer list" in home.server.stderr
        restart(c, home, 2, regions)
        restart(c, near, 2, regions)
        until(lambda: home.ns.http_get("/readyz", 9465)[0] == 200, "a home with the new list is ready")
        seen = total(c)
        until(lambda: total(c) >= seen + SHORT_LIMIT, "the home lends again", 60)
        assert_law(c, SHORT_LIMIT, SHORT_S)


def test_a_list_that_is_not_the_one_of_before_needs_a_higher_version():
    name = fresh_name("")
    with Namespace(f"{name}a") as ns, Instance(ns, f"{name}a") as instance:
        instance.write("rules.yaml", rule())

        def start(version, *names):
            listed = {"version": version, "list": [{"name": x, "address": f"127.0.0.1:{LEASE_PORT + i}", "hosts": 1}
                                                   for i, x in enumerate(names)]}
            instance.config("region.yaml", region="a", regions=listed, rules="rules.yaml")
            return instance.daemon("region", instance.path("region.yaml")).start()

        def works(version, *names):
            d = start(version, *names).wait_ready()
            assert d.stop() == 0
            return d.stderr

        def refused(version, *names):
            d = start(version, *names)
            assert d.wait_exit() == 1
            return d.stderr

        works(1, "a")
        assert "raise `version`" in refused(1, "a", "b")
        assert "version 3 of the list is new here" in works(3, "a")
        assert "has worked with version 3" in refused(2, "a")
        assert "is new here" not in works(3, "a")
        # Not durable before the new region has been heard of: the next life waits for it again.
        assert "version 4 of the list is new here" in works(4, "b", "a")
        assert "version 4 of the list is new here" in works(4, "a", "b")
