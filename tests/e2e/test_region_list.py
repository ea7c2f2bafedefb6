# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The list of regions changes: a key that moves to another home is never lent by both, and a mixed fleet stays within the limit."""
import json
import time

import pytest

from lib.cluster import LEASE_PORT
from lib.daemon import Instance
from lib.host import fresh_name
from lib.net import Namespace
from lib.wait import until
from test_regions import SHORT_LIMIT, SHORT_S, assert_law, away_from_home, rule, running, total

RATE = SHORT_LIMIT // SHORT_S
# Without a share of its own for whoever is cut off the limit is the bound of all together.
EXACT = rule(SHORT_LIMIT, SHORT_S, "    fallback: deny\n")


def under_traffic(c):
    """All regions are sent more than a third of the limit. The home of the user's key, and the two others, the farther one first."""
    for r in c:
        r.sender.rate_pps = 0.6 * RATE
    return away_from_home(c)


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
        home, far, near = under_traffic(c)
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
        home, far, near = under_traffic(c)
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


def regions_do(r, *args, code=0):
    """`leasegate regions ...` at one region's server."""
    done = r.instance.tool("regions", *args, timeout_s=40)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def looked(r):
    """The list as a server has it; {} in the moment between two lives of it."""
    done = r.instance.tool("--json", "regions")
    return json.loads(done.stdout) if done.returncode == 0 else {}


def all_have(c, version):
    return all(looked(r).get("version") == version for r in c)


@pytest.mark.long
def test_a_region_drains_and_is_removed_while_all_goes_on():
    with running(EXACT) as c:
        home, far, near = under_traffic(c)
        daemons = [d for r in c for d in r.instance.daemons]
        assert "not done" in regions_do(near, "drain", home.name, "--dry-run")
        assert "`leasegate regions drain" in regions_do(near, "remove", home.name, code=1)
        assert "this is a server of region" in regions_do(near, "remove", near.name, code=1)
        assert "there is no region" in regions_do(near, "drain", "nowhere", code=1)
        assert all_have(c, 1)
        assert "in use by 3 regions" in regions_do(near, "drain", home.name)
        assert all_have(c, 2)
        until(lambda: c.home_of_user() in (far.name, near.name), "the key has another home", 20)
        seen = total(c)
        until(lambda: total(c) >= seen + SHORT_LIMIT, "the new home lends, to the hosts of the old one too", 30)
        assert_law(c, SHORT_LIMIT, SHORT_S)
        assert {x["name"]: x["state"] for x in looked(far)["regions"]} == {home.name: "draining", far.name: "active", near.name: "active"}
        regions_do(far, "remove", home.name)
        until(lambda: looked(far).get("version") == looked(near).get("version") == 3, "the others have it")
        seen = total(c)
        until(lambda: total(c) >= seen + 2 * SHORT_LIMIT, "they go on", 30)
        assert_law(c, SHORT_LIMIT, SHORT_S)
        assert all(d.alive for d in daemons), "nobody was restarted"
        assert [x["version"] for x in json.loads(near.instance.tool("--json", "regions", "history").stdout)["history"]] == [1, 2, 3]


@pytest.mark.long
def test_a_region_is_added_and_brings_itself_up_to_date():
    with running(EXACT) as c:
        home, far, near = under_traffic(c)
        home.sender.rate_pps = 0
        regions_do(near, "drain", home.name)
        regions_do(near, "remove", home.name)
        until(lambda: looked(far).get("version") == looked(near).get("version") == 3, "two regions are left")
        until(lambda: [x["connected"] for x in looked(far)["regions"]] == [True, True], "both hear of each other")
        # What it keeps says that it drains; the list of its configuration is that of the first day.
        home.server.stop()
        assert "is added" in regions_do(far, "add", home.name, "--address", home.address)
        c.start_region(home)
        until(lambda: all_have(c, 4), "all three have the list", 30)
        home.sender.rate_pps = 0.6 * RATE
        seen = total(c)
        until(lambda: total(c) >= seen + 2 * SHORT_LIMIT, "the limit is lent", 40)
        assert_law(c, SHORT_LIMIT, SHORT_S)


@pytest.mark.long
def test_a_region_that_is_lost_for_good_is_done_without():
    with running(EXACT) as c:
        home, far, near = under_traffic(c)
        until(lambda: total(c) >= SHORT_LIMIT, "the limit has been reached")
        home.server.kill()
        home.node.kill()
        home.sender.rate_pps = 0
        until(lambda: "not connected" in regions_do(near, "show"), "it is missed", 20)
        assert "repeat with --lost" in regions_do(near, "drain", home.name, code=1)
        assert "--yes" in regions_do(near, "remove", home.name, "--lost", code=1)
        far.sender.rate_pps = near.sender.rate_pps = 1.2 * RATE
        regions_do(near, "remove", home.name, "--lost", "--yes")
        seen, at_s = total(c), time.monotonic()
        until(lambda: total(c) >= seen + 2 * SHORT_LIMIT, "another home lends", 60)
        assert time.monotonic() - at_s < 40
        assert_law(c, SHORT_LIMIT, SHORT_S)


def test_what_the_tool_says_of_a_list_and_what_survives_a_restart():
    name = fresh_name("")
    with Namespace(f"{name}a") as ns, Instance(ns, f"{name}a") as instance:
        listed = {"version": 1, "list": [{"name": "a", "address": f"127.0.0.1:{LEASE_PORT}", "hosts": 1}]}
        instance.write("rules.yaml", rule())
        instance.config("region.yaml", region="a", regions=listed, rules="rules.yaml")
        d = instance.daemon("region", instance.path("region.yaml")).start().wait_ready()

        def do(*args, code=0):
            done = instance.tool("regions", *args, timeout_s=40)
            assert done.returncode == code, done.stdout + done.stderr
            return done.stdout + done.stderr

        assert "of the configuration" in do()
        assert "last home of keys" in do("drain", "a", code=1)
        assert "has this address too" in do("add", "b", "--address", f"127.0.0.1:{LEASE_PORT}", code=1)
        assert "is not host:port" in do("add", "b", "--address", "nonsense", code=1)
        assert "--address" in do("add", "b", code=2)
        assert "which region" in do("drain", code=2)
        assert "50.0 %" in do("add", "b", "--address", f"127.0.0.1:{LEASE_PORT + 1}", "--hosts", "3", "--dry-run")
        assert json.loads(instance.tool("--json", "regions").stdout)["version"] == 1
        pid = d.pid
        do("add", "b", "--address", f"127.0.0.1:{LEASE_PORT + 1}", "--hosts", "3")
        assert d.alive and d.pid == pid
        shown = json.loads(instance.tool("--json", "regions").stdout)
        assert (shown["version"], shown["from"], [x["name"] for x in shown["regions"]]) == (2, "store", ["a", "b"])
        assert "not connected" in do()
        # It may be home of keys, and lend them to its own hosts, while nobody here hears of it.
        assert "region b is not connected" in do("add", "c", "--address", f"127.0.0.1:{LEASE_PORT + 2}", code=1)
        assert "region b is not connected" in do("drain", "a", code=1)
        assert json.loads(instance.tool("--json", "regions").stdout)["version"] == 2
        assert d.stop() == 0
        d = instance.daemon("region", instance.path("region.yaml")).start().wait_ready()
        assert "version 2 of the list, as it was put into force at run time, is newer" in d.stderr
        assert d.stop() == 0
        instance.config("region.yaml", region="a", regions={**listed, "version": 2}, rules="rules.yaml")
        d = instance.daemon("region", instance.path("region.yaml")).start()
        assert d.wait_exit() == 1 and "with other regions" in d.stderr
