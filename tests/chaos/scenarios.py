# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What goes wrong. Each scenario is given a world under traffic and a source of chance that chooses victims and times; nobody may get more than
his limit at any time, and everybody is served again soon after.
"""
from dataclasses import dataclass, field

from history import S
from world import WINDOW_S

ALL = {}


@dataclass(frozen=True)
class Scenario:
    run: callable
    world: dict = field(default_factory=dict)	# how it is made
    fresh: bool = False		# it leaves the world changed, for nobody else
    quick: bool = False		# one of each kind of trouble: those that every change must pass


def scenario(fresh=False, quick=False, **world):
    def add(run):
        ALL[run.__name__] = Scenario(run, world, fresh, quick)
        return run
    return add


TWO_REGIONS = {"here": (2, 1), "there": (2, 1)}
THREE_REGIONS = {"regions": {"here": (1, 1), "there": (1, 1), "third": (1, 0)}, "unlisted": ("third",)}
ONE_SERVER = {"regions": {"here": (1, 2)}, "store": "sqlite", "disk_mib": 8}


@scenario(quick=True)
def a_server_is_killed(w, rng):
    victim = w.granting()
    w.run_for(rng.uniform(0, 1))
    victim.kill()
    w.run_for(rng.uniform(0.1, 4))
    victim.start()
    w.flowing()


@scenario()
def all_servers_are_killed_at_once(w, rng):
    for s in w.servers:
        s.kill()
    w.run_for(rng.uniform(0, 3))
    for s in rng.sample(w.servers, len(w.servers)):
        s.start()
        w.run_for(rng.choice((0, 0.3)))
    w.flowing()


@scenario(quick=True)
def a_node_is_killed(w, rng):
    victim = rng.choice(w.nodes)
    w.run_for(rng.uniform(0, 1))
    victim.kill()
    w.run_for(rng.uniform(0.1, 4))
    victim.start().wait()
    w.flowing()


@scenario()
def a_node_is_stopped_until_its_leases_have_lapsed(w, rng):
    """The server writes them off; whoever goes on must not spend them then."""
    victim = rng.choice(w.nodes)
    w.run_for(rng.uniform(0, 1))
    victim.pause()
    w.run_for(rng.choice((2, 10.8, 11.2, 12)))
    victim.pause(False)
    w.flowing()


@scenario()
def a_node_and_its_server_are_killed(w, rng):
    """What the node had is known to nobody who lives."""
    for victim in rng.sample([w.granting(), rng.choice(w.nodes)], 2):
        victim.kill()
        w.run_for(rng.uniform(0, 0.5))
    w.run_for(rng.uniform(1.5, 4))
    for p in w.servers + w.nodes:
        if not p.daemon.alive:
            p.start()
    w.flowing()


@scenario(quick=True)
def a_granting_server_is_stopped_and_goes_on(w, rng):
    victim = w.granting()
    w.run_for(rng.uniform(0, 1))
    victim.pause()
    w.run_for(rng.uniform(1.5, 4))
    victim.pause(False)
    w.flowing()


@scenario(quick=True)
def a_server_is_cut_off_from_the_cluster(w, rng):
    """Hosts still reach it, and it must not lend."""
    victim = w.granting()
    w.run_for(rng.uniform(0, 1))
    victim.cut(w.etcd_party)
    w.run_for(rng.uniform(1.5, 4))
    w.heal()
    w.flowing()


@scenario()
def a_node_is_cut_off_from_its_region(w, rng):
    victim = rng.choice(w.nodes)
    w.run_for(rng.uniform(0, 1))
    victim.cut(*w.of(victim.region))
    w.run_for(rng.choice((rng.uniform(1, 5), 11.5)))
    w.heal()
    w.flowing()


@scenario(quick=True)
def a_node_is_cut_off_from_one_server(w, rng):
    """The others reach both."""
    victim = rng.choice(w.nodes)
    victim.cut(w.granting())
    w.run_for(rng.uniform(2, 9))
    w.heal()
    w.flowing()


@scenario(quick=True)
def the_leader_of_the_cluster_is_killed(w, rng):
    w.run_for(rng.uniform(0, 1))
    i = w.member(leads=True)
    w.note(f"member {i} of the cluster is killed")
    w.etcd.kill(i)
    w.run_for(rng.uniform(0.5, 4))
    w.etcd.start(i)
    w.flowing()
    w.cluster_is_whole()


@scenario(quick=True)
def the_cluster_loses_its_majority_and_comes_back(w, rng):
    w.run_for(rng.uniform(0, 1))
    gone = rng.sample(range(3), 2)
    for i in gone:
        w.note(f"member {i} of the cluster is killed")
        w.etcd.kill(i)
    w.run_for(rng.uniform(2, 5))
    for i in gone:
        w.etcd.start(i)
    w.note("they are started")
    w.cluster_is_whole()
    w.flowing()


@scenario()
def members_of_the_cluster_are_stopped_and_go_on(w, rng):
    """All of them: time passes that nobody has counted."""
    w.run_for(rng.uniform(0, 1))
    for i in range(3):
        w.etcd.pause(i)
    w.note("the cluster is stopped")
    w.run_for(rng.uniform(1, 4))
    for i in range(3):
        w.etcd.pause(i, False)
    w.note("the cluster goes on")
    w.flowing()


@scenario(quick=True)
def servers_are_restarted_one_after_the_other(w, rng):
    for s in rng.sample(w.servers, len(w.servers)):
        s.stop()
        w.run_for(rng.uniform(0, 0.5))
        s.start().wait()
        w.run_for(rng.uniform(0, 1))
    w.flowing()


@scenario(quick=True)
def wall_clocks_are_set(w, rng):
    """Of servers and of hosts, forth and back, by seconds and by days."""
    w.clock_was_set = True
    for p in rng.sample(w.servers + w.nodes, 3):
        step_s = rng.choice((-1, 1)) * rng.choice((3, 600, 86400))
        w.note(f"the clock of {p.name} is set by {step_s} s")
        p.words(step_s * S, 0)
        w.run_for(rng.uniform(0.3, 1.5))
    victim = w.granting()
    victim.kill()
    w.run_for(rng.uniform(0, 2))
    victim.start()
    w.flowing()


@scenario(quick=True, regions=TWO_REGIONS)
def regions_are_cut_off_from_each_other(w, rng):
    w.run_for(rng.uniform(0, 1))
    for s in w.of("here"):
        s.cut(*w.of("there"))
    w.run_for(rng.choice((rng.uniform(1, 6), 12)))
    w.heal()
    w.flowing()


@scenario(regions=TWO_REGIONS)
def a_server_of_a_home_is_killed_while_a_region_is_cut_off(w, rng):
    here, there = rng.sample(("here", "there"), 2)
    for s in w.of(here):
        s.cut(*w.of(there))
    w.run_for(rng.uniform(0, 2))
    victim = w.granting(there)
    victim.kill()
    w.run_for(rng.uniform(0, 2))
    victim.start()
    w.run_for(rng.uniform(0, 3))
    w.heal()
    w.flowing()


@scenario(regions=TWO_REGIONS)
def a_region_dies_and_another_follows(w, rng):
    for region in rng.sample(("here", "there"), 2):
        for s in w.of(region):
            s.kill()
        w.run_for(rng.uniform(0.2, 3))
        for s in w.of(region):
            s.start()
        w.run_for(rng.uniform(0, 2))
    w.flowing()


@scenario(**THREE_REGIONS, fresh=True)
def a_region_is_added_one_server_after_the_other(w, rng):
    """Keys change their home meanwhile."""
    listed = w.list_of(2, w.regions)
    for p in rng.sample(w.servers, len(w.servers)) + w.nodes:
        if p.daemon.alive:
            p.stop()
        p.configure(listed)
        p.start()
        w.run_for(rng.uniform(0, 3))
    w.flowing(60)


@scenario(quick=True, **ONE_SERVER)
def a_slow_disk_and_a_server_that_is_killed(w, rng):
    server, = w.servers
    server.words(0, rng.choice((50, 200, 600)))
    w.note("the disk is slow")
    w.run_for(rng.uniform(0.5, 3))
    server.kill()
    w.run_for(rng.uniform(0, 2))
    server.start()
    w.flowing()
    server.words(0, 0)


@scenario(**ONE_SERVER)
def rules_are_read_again_while_a_node_is_killed(w, rng):
    """With one rule more, and one less, at any moment of it."""
    victim = rng.choice(w.nodes)
    more = w.rules_text + "  - {name: other, scope: host, match: {protocol: tcp}, limit: 10/1s}\n"
    for text in (more, w.rules_text, more, w.rules_text):
        victim.instance.write("rules.yaml", text)
        victim.daemon.reload()
        w.run_for(rng.uniform(0, 0.3))
        victim.kill()
        victim.start().wait()
    w.flowing()


@scenario(**ONE_SERVER)
def a_host_boots(w, rng):
    w.run_for(rng.uniform(0, 1))
    rng.choice(w.nodes).boot()
    w.flowing()


@scenario(quick=True, **ONE_SERVER)
def the_disk_is_full_and_has_room_again(w, rng):
    server, = w.servers
    w.run_for(rng.uniform(0, 1))
    server.fill()
    w.run_for(rng.uniform(0, 3))
    if rng.random() < 0.7:
        server.kill()
        server.start()
        w.run_for(rng.uniform(0, 2))
    server.empty()
    if not server.daemon.alive:
        w.note(f"{server.name} had ended")
        server.start()
    w.flowing()


@scenario(**ONE_SERVER, fresh=True)
def the_store_of_yesterday_is_copied_back(w, rng):
    """From before anybody held anything, or from a moment ago."""
    server, = w.servers
    copy = rng.choice(("yesterday", "today"))
    if copy == "today":
        server.save(copy)
    w.run_for(rng.uniform(0.5, 2))
    server.kill()
    server.load(copy, journal=rng.random() < 0.5)
    w.run_for(rng.uniform(0, 1))
    server.start()
    w.flowing()


def killed_meanwhile(w, rng):
    """Somebody dies soon after whatever was begun, and comes back."""
    w.run_for(rng.choice((0, rng.uniform(0, 1), rng.uniform(0, 4))))
    victim = rng.choice([p for p in w.servers + w.nodes if p.daemon.alive])
    victim.kill()
    w.run_for(rng.uniform(0, 3))
    victim.start()
    w.flowing(60)


@scenario(regions=TWO_REGIONS, fresh=True)
def a_home_is_drained_and_somebody_is_killed(w, rng):
    w.tell_all(rng, "regions", "drain", rng.choice(("here", "there")))
    killed_meanwhile(w, rng)


@scenario(**THREE_REGIONS, fresh=True)
def a_region_is_added_and_somebody_is_killed(w, rng):
    third, = w.of("third")
    third.configure(w.list_of(1, w.regions))
    third.start()
    w.run_for(rng.uniform(0, 1))
    w.tell_all(rng, "regions", "add", "third", "--address", w.address("third"), "--hosts", "1")
    killed_meanwhile(w, rng)


@scenario(fresh=True)
def limits_are_cut_while_a_server_is_killed(w, rng):
    victim = w.granting()
    steps = [victim.kill, lambda: w.limits(0.4)]
    rng.shuffle(steps)
    for step in steps:
        step()
        w.run_for(rng.choice((0, 0.2, 1)))
    w.run_for(rng.uniform(0, 3))
    victim.start()
    w.flowing()
    w.run_for(WINDOW_S)


@scenario(fresh=True, regions=TWO_REGIONS)
def limits_are_cut_while_regions_are_cut_off_from_each_other(w, rng):
    for s in w.of("here"):
        s.cut(*w.of("there"))
    w.run_for(rng.uniform(0, 2))
    w.limits(0.4)
    w.run_for(rng.uniform(0, 4))
    w.heal()
    w.flowing()
    w.run_for(WINDOW_S)


@scenario()
def anything_at_any_time(w, rng):
    anything(w, rng)


@scenario(regions=TWO_REGIONS)
def anything_at_any_time_in_two_regions(w, rng):
    anything(w, rng)


def anything(w, rng):
    """Four things go wrong, which may be beside each other, and are over one by one."""
    todo = []
    for _ in range(4):
        at_s = rng.uniform(0, 4)
        what, over = w.fault(rng)
        todo += [(at_s, what), (at_s + rng.uniform(0.3, 4), over)]
    passed_s = 0
    for at_s, do in sorted(todo, key=lambda x: x[0]):
        w.run_for(at_s - passed_s)
        passed_s = at_s
        do()
    w.flowing()
