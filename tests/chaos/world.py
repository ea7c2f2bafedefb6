# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A fleet on one network, whose parts can be killed, stopped, cut off and set back one by one, under traffic that never ends.

    lan: a bridge                10.80.1.x servers     10.80.2.x hosts     10.80.3.1 etcd        (a namespace each)
    clients                      10.81.x.1  <---->  in0 10.81.x.2 of host x: leasegate judges what comes in here

Users are 198.51.100.1 and so on; each sends to each host, to one UDP port for each rule. A region of several servers has a name with the
addresses of all, in a hosts file that its daemons see in place of the machine's.
"""
import contextlib
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import time

from history import Bound, Violation, check_admissions, check_counters, check_grants
from lib import LEASEGATE
from lib.daemon import READY, Instance
from lib.etcd import Etcd
from lib.host import fresh_name
from lib.net import Namespace, ip, veth
from lib.traffic import clock_offset_ns
from lib.wait import until
from load import Load, Sink

S = 1_000_000_000
MS = 1_000_000
LEASE_PORT = 7400
FIRST_PORT = 5301
ETCD = "10.80.3.1"
JITTER_NS = 5 * MS		# a packet is stamped at most so long after it was judged
SLACK_NS = 30 * MS		# a record is dated at most so long after what it tells of: a tick of a server, and a millisecond
LOADS = (4, 1.2)	# of the limit, by user: who asks for far more has spent all of it when something happens, the other one holds leases
WINDOW_S = 4
WARM_S = 1.5
CUT_S = 2		# so long after a limit was cut the new one holds: what was out is spent first
RECOVERED_S = 25		# the last lease of who is gone ends after 11 s, and a dial that hangs is given up after 5

# What is killed comes back with the same budget, so budgets are large against what is minted meanwhile: a second one would show.
RULES = {
    "blocks": "class: lease, algorithm: sliding_window, limit: 320/4s, fallback: deny, lease: {kind: block, cold_start: 0}",
    "parts": "class: lease, algorithm: sliding_window, limit: 320/4s, fallback: deny, lease: {kind: limit, cold_start: 0}",
    "paid": "class: strict, algorithm: token_bucket, limit: 80/1s, burst: 320, lease: {kind: block}",
    "fixed": "class: lease, algorithm: fixed_window, limit: 320/4s, fallback: deny, lease: {kind: block, cold_start: 0}",
}


def scaled(rules, factor):
    """The same rules with other limits."""
    return {name: re.sub(r"(limit|burst): (\d+)", lambda m: f"{m[1]}: {int(int(m[2]) * factor)}", words) for name, words in rules.items()}


def rules_text(rules):
    return "rules:\n" + "".join(
        f"  - {{name: {name}, scope: global, match: {{protocol: udp, destination_port: [{FIRST_PORT + i}]}}, key: {{source: 32}}, "
        f"unit: packets, {words}}}\n" for i, (name, words) in enumerate(rules.items()))


class Party:
    """Somebody on the network: a namespace with an address on the lan, an instance, and a daemon in it that may be started again."""

    def __init__(self, world, role, name, address):
        self.world, self.role, self.name, self.address = world, role, name, address
        self.ns = self.instance = self.daemon = None
        self.starts = 0

    def build(self, stack):
        self.ns = stack.enter_context(Namespace(fresh_name(self.name)))
        veth(self.world.lan, self.ns.name[-12:], [], self.ns, "lan0", [f"{self.address}/16"])
        ip("link", "set", self.ns.name[-12:], "master", "br0", ns=self.world.lan)
        self.ns.run("nft", "add table inet chaos; add chain inet chaos in { type filter hook input priority 0; }")
        self.instance = stack.enter_context(Instance(self.ns, fresh_name(self.name)))
        self.daemon = self.instance.daemon(self.role, self.instance.path(f"{self.role}.yaml"), before=self._before())
        return self

    def _before(self):
        """The machine's hosts file is the fleet's for this daemon, and the shim is in it."""
        shim = self.instance.path("shim")
        self.words(0, 0)
        return ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', self.world.hosts_file,
                "env", f"LD_PRELOAD={self.world.shim}", f"CHAOS_SHIM={shim}"]

    def words(self, clock_offset_ns_, sync_delay_ms):
        """Sets the daemon's wall clock, and how slow its disk is."""
        with open(self.instance.path("shim"), "r+b" if os.path.exists(self.instance.path("shim")) else "w+b") as f:
            f.write(struct.pack("qQ", clock_offset_ns_, sync_delay_ms))

    def start(self):
        self.starts += 1
        self.world.note(f"{self.name} is started")
        self.daemon.start()
        return self

    def kill(self):
        self.world.note(f"{self.name} is killed")
        self.daemon.kill()

    def stop(self):
        self.world.note(f"{self.name} is ended")
        assert self.daemon.stop(20) == 0, f"{self.name}: {self.daemon.stderr}"

    def pause(self, paused=True):
        self.world.note(f"{self.name} is {'stopped' if paused else 'continued'}")
        os.kill(self.daemon.pid, signal.SIGSTOP if paused else signal.SIGCONT)

    def cut(self, *others):
        """No packet comes here from others, or gets there, until heal()."""
        self.world.note(f"{self.name} is cut off from {', '.join(x.name for x in others)}")
        for x in others:
            for a, b in ((self, x), (x, self)):
                got = a.ns.run("nft", f"add rule inet chaos in ip saddr {b.address} drop")
                assert got.returncode == 0, got.stderr
            self.world.cuts.append((self, x))

    @property
    def settled(self):
        """It works, or waits until it is needed."""
        if not self.daemon.alive:
            raise RuntimeError(f"{self.name} has ended:\n{self.daemon.stderr}")
        return READY in self.daemon.lines

    def wait(self, timeout_s=30):
        until(lambda: self.settled, f"{self.name} is ready", timeout_s)
        return self


class Server(Party):
    def __init__(self, world, region, name, address):
        super().__init__(world, "region", name, address)
        self.region = region

    def configure(self, listed=None):
        w = self.world
        self.instance.write("rules.yaml", w.rules_text)
        store = {"store": "etcd", "etcd": {"endpoints": w.etcd.endpoints}} if w.etcd else {"store": "sqlite"}
        self.instance.config("region.yaml", region=self.region, regions=listed or w.listed, listen=f"{self.address}:{LEASE_PORT}",
                             rules="rules.yaml", **store)

    def mount(self, mib, stack):
        """Its state is on a disk of its own."""
        state = self.instance.path("state")
        os.mkdir(state)
        if mib:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m", "none", state], check=True)
            stack.callback(subprocess.run, ["umount", "-l", state], check=True)

    def fill(self):
        """Not a byte more can be written."""
        self.world.note(f"the disk of {self.name} is full")
        with open(self.instance.path("state/filler"), "wb", buffering=0) as f, contextlib.suppress(OSError):
            while True:
                f.write(bytes(512))

    def empty(self):
        self.world.note(f"the disk of {self.name} has room again")
        os.remove(self.instance.path("state/filler"))

    def save(self, name):
        """A copy of its state as it is on the disk."""
        shutil.copytree(self.instance.path("state"), self.instance.path(name))

    def load(self, name, journal):
        """Puts such a copy in the place of its state; without the journal that is left as it is."""
        self.world.note(f"{self.name} gets {name} back, {'with' if journal else 'without'} the journal")
        state = self.instance.path("state")
        for f in os.listdir(state):
            if f != "journal" or journal:
                path = os.path.join(state, f)
                (shutil.rmtree if os.path.isdir(path) else os.remove)(path)
        for f in os.listdir(self.instance.path(name)):
            if f != "journal" or journal:
                path = os.path.join(self.instance.path(name), f)
                (shutil.copytree if os.path.isdir(path) else shutil.copy2)(path, os.path.join(state, f))

    def granted(self):
        """Tokens out to hosts; 0 of a server that has nothing to say."""
        if not self.daemon.alive:
            return 0
        with contextlib.suppress(OSError):
            return sum(k["granted_tok"] for k in self.instance.json("leases").get("region", []))
        return 0

    def records(self, since_ns):
        """Its journal, on our clock."""
        offset_ns = clock_offset_ns()
        since_ms = max(1, (time.monotonic_ns() - since_ns) // MS)
        return [{**r, "server": self.name, "region": self.region, "at_ns": r.get("time_ms", 0) * MS - offset_ns}
                for r in self.instance.json("leases", "--history", *([] if self.world.clock_was_set else ["--since", f"{since_ms}ms"]))]


class Node(Party):
    def __init__(self, world, region, name, address, index):
        super().__init__(world, "node", name, address)
        self.region, self.index = region, index
        self.host = f"10.81.{index}.2"

    def build(self, stack):
        super().build(stack)
        clients = self.world.clients
        veth(clients, f"up{self.index}", [f"10.81.{self.index}.1/24"], self.ns, "in0", [f"{self.host}/24"])
        ip("neigh", "replace", self.host, "lladdr", self.ns.mac("in0"), "dev", f"up{self.index}", "nud", "permanent", ns=clients)
        return self

    def configure(self, listed=None):
        w = self.world
        self.instance.write("rules.yaml", w.rules_text)
        self.instance.config("node.yaml", name=self.name, region=self.region, regions=listed or w.listed, rules="rules.yaml",
                             interfaces=[{"name": "in0", "xdp": "native", "tc": "off"}])

    def boot(self):
        """The machine goes down and comes back: nothing in its kernel is as it was."""
        self.world.note(f"{self.name} boots")
        ip("link", "set", "in0", "down", ns=self.ns)
        self.daemon.kill()
        for of, n in self.counted().items():
            self.world.before[of] = self.world.before.get(of, 0) - n
        assert self.instance.tool("detach").returncode == 0
        self.start().wait()
        ip("link", "set", "in0", "up", ns=self.ns)

    def counted(self):
        """{(host, rule): packets let in}, by the kernel's own counters."""
        return {(self.name, r["rule"]): r["counts"].get("admitted", {}).get("packets", 0) for r in self.instance.json("rules")
                if r["rule"] in self.world.rules}


class World:
    """regions: {name: (servers, hosts)}. store: "etcd" for three members, or "sqlite" where each region has one server."""

    def __init__(self, shim, rules=None, regions=None, store="etcd", loads=LOADS, unlisted=(), disk_mib=0):
        """@unlisted: regions that nobody knows of yet; their servers are not started. @disk_mib: how large each server's disk is, 0: very."""
        self.shim, self.rules, self.loads, self.unlisted, self.disk_mib = shim, rules or RULES, loads, unlisted, disk_mib
        self.regions = regions or {"here": (3, 2)}
        self.rules_text = rules_text(self.rules)
        self.users = [f"198.51.100.{i + 1}" for i in range(len(loads))]
        self.store, self.extra, self.later = store, {}, None
        self.servers, self.nodes, self.cuts, self.notes = [], [], [], []
        self.lan = self.clients = self.etcd = self.etcd_party = self.hosts_file = self.listed = self.load = self.sink = self.bounds = None
        self.clock_was_set = False
        self.start_ns = time.monotonic_ns()
        self.before = {}
        self.witnesses = contextlib.ExitStack()
        self.stack = contextlib.ExitStack()

    # ---- making and removing ----

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self.lan = stack.enter_context(Namespace(fresh_name("lan")))
            self.clients = stack.enter_context(Namespace(fresh_name("clients")))
            ip("link", "add", "br0", "type", "bridge", ns=self.lan)
            ip("link", "set", "br0", "up", ns=self.lan)
            for user in self.users:
                ip("address", "add", f"{user}/32", "dev", "lo", ns=self.clients)
            self._parties(stack)
            if self.store == "etcd":
                self.etcd_party = Party(self, "etcd", "etcd", ETCD).build(stack)
                self.etcd = stack.enter_context(Etcd(self.etcd_party.ns, 3, address=ETCD))
            for party in self.servers + self.nodes:
                party.configure()
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *exc):
        for party in self.servers + self.nodes:
            party.daemon.kill()
        with contextlib.suppress(OSError):
            self.witnesses.close()
        return self.stack.__exit__(*exc)

    def _parties(self, stack):
        self.hosts_file = stack.enter_context(_temporary("hosts"))
        for i, (region, (n_servers, n_hosts)) in enumerate(self.regions.items(), 1):
            for k in range(1, n_servers + 1):
                self.servers.append(Server(self, region, f"{region}-s{k}", f"10.80.1.{10 * i + k}"))
            for k in range(1, n_hosts + 1):
                self.nodes.append(Node(self, region, f"{region}-h{k}", f"10.80.2.{10 * i + k}", 10 * i + k))
        with open(self.hosts_file, "w", encoding="ascii") as f:
            f.write("127.0.0.1 localhost\n" + "".join(f"{s.address} {s.region}.test\n" for s in self.servers))
        self.listed = self.list_of(1, [r for r in self.regions if r not in self.unlisted])
        for party in self.servers + self.nodes:
            party.build(stack)
        for server in self.servers:
            server.mount(self.disk_mib, stack)
        self.bounds = self.explain()

    def list_of(self, version, regions):
        return {"version": version, "list": [{"name": r, "address": self.address(r), "hosts": max(1, self.regions[r][1])} for r in regions]}

    def address(self, region):
        own = self.of(region)
        return f"{own[0].address if len(own) == 1 else region + '.test'}:{LEASE_PORT}"

    def explain(self):
        """The most that each rule admits, as the product says it: Bound by rule."""
        path = self.nodes[0].instance.write("explained.yaml", self.rules_text)
        got = subprocess.run([LEASEGATE, "explain", path, "--json", "--regions", str(len(self.regions)), "--hosts", str(len(self.nodes))],
                             capture_output=True, text=True, timeout=10, check=True)
        return {b.rule: b for b in map(Bound.of, json.loads(got.stdout))}

    # ---- what happens ----

    def note(self, what):
        self.notes.append((time.monotonic_ns() - self.start_ns, what))

    def start(self):
        for parties in ([s for s in self.servers if s.region not in self.unlisted], self.nodes):
            for p in parties:
                p.start()
            for p in parties:
                p.wait()
            if parties != self.nodes and self.store == "sqlite":
                for p in parties:
                    p.save("yesterday")
        return self

    def begin(self, flowing=True):
        """A new history begins, of a fleet that is whole."""
        self.notes, self.extra, self.before, self.later = [], {}, {}, None
        self.start_ns = time.monotonic_ns()
        for n in self.nodes:
            self.before.update(n.counted())
        self.traffic()
        if flowing:
            self.flowing()
            self.run_for(WARM_S)
        return self

    def traffic(self):
        ports = {FIRST_PORT + i: rule for i, rule in enumerate(self.rules)}
        hosts = {n.name: (n.ns, n.host) for n in self.nodes}
        self.witnesses.close()
        self.sink = self.witnesses.enter_context(Sink(hosts, ports))
        users = dict(zip(self.users, self.loads))
        self.load = self.witnesses.enter_context(Load(self.clients, users, [n.host for n in self.nodes], list(ports)))
        rate_pps = max(b.rate_tok * S / b.per_ns for b in self.bounds.values())
        for n in self.nodes:
            self.load.rate_pps[n.host] = rate_pps / len(self.nodes)
        self.note("traffic begins")

    def flowing(self, timeout_s=RECOVERED_S):
        """Every rule lets in every user somewhere, and every host lets in somebody, from now on."""
        since_ns = time.monotonic_ns()

        def lacking():
            late = {of for of, ns in list(self.sink.last_ns.items()) if ns > since_ns}
            users = {(rule, user) for rule in self.rules for user in self.users} - {of[1:] for of in late}
            hosts = {n.name for n in self.nodes} - {of[0] for of in late}
            assert not users and not hosts, f"nothing is let in of {sorted(users)} at {sorted(hosts) or 'any host'}"
            return True
        until(lacking, "everybody is let in", timeout_s, every_s=0.05)
        self.note("everybody is let in")

    def run_for(self, seconds):
        """Traffic flows meanwhile; not a wait for something to happen."""
        time.sleep(seconds)

    def of(self, region):
        return [s for s in self.servers if s.region == region]

    def limits(self, factor):
        """All limits become others, for everybody who lives; who starts later reads them then."""
        self.note(f"limits times {factor}")
        self.rules_text = rules_text(scaled(self.rules, factor))
        for p in self.servers + self.nodes:
            p.instance.write("rules.yaml", self.rules_text)
        for p in self.servers + self.nodes:
            if p.daemon.alive:
                p.daemon.reload()
        self.later = (time.monotonic_ns() + CUT_S * S, self.explain())

    def tell_all(self, rng, *words):
        """The operator says something to one server, for everybody."""
        at = rng.choice([s for s in self.servers if s.daemon.alive and s.region not in self.unlisted])
        self.note(f"leasegate {' '.join(words)}, at {at.name}")
        got = at.instance.tool(*words)
        assert got.returncode == 0, got.stdout + got.stderr

    def granting(self, region=None):
        """The server that has lent most, of a region or of all."""
        return max((s for s in self.servers if region in (None, s.region)), key=lambda s: s.granted())

    def heal(self):
        if self.cuts:
            self.note("nobody is cut off")
        for party in {p for both in self.cuts for p in both}:
            party.ns.run("nft", "flush chain inet chaos in")
        self.cuts = []

    def member(self, leads):
        """A member of the cluster that leads it, or one that does not."""
        got = json.loads(self.etcd.ctl("endpoint", "status", "-w", "json").stdout)
        at = [i for i, e in enumerate(self.etcd.endpoints) for m in got
              if m["Endpoint"] == e and (m["Status"]["leader"] == m["Status"]["header"]["member_id"]) == leads]
        return at[0]

    def fault(self, rng):
        """Something that goes wrong, and how it is over; both may be called while other faults last."""
        server, node, member = rng.choice(self.servers), rng.choice(self.nodes), rng.randrange(self.etcd.n)
        far = [s for s in self.servers if s.region != server.region] or [s for s in self.servers if s is not server]

        def if_alive(party, do):
            return lambda: party.daemon.alive and do()

        def revive(party):
            return lambda: None if party.daemon.alive else party.start()

        def revive_member():
            if not self.etcd.members[member]:
                self.etcd.start(member)
        return rng.choice((
            (server.kill, revive(server)),
            (node.kill, revive(node)),
            (if_alive(server, server.pause), if_alive(server, lambda: server.pause(False))),
            (if_alive(node, node.pause), if_alive(node, lambda: node.pause(False))),
            (lambda: server.cut(self.etcd_party), self.heal),
            (lambda: node.cut(server), self.heal),
            (lambda: server.cut(*far), self.heal),
            (lambda: self.etcd.kill(member), revive_member),
        ))

    def cluster_is_whole(self):
        until(lambda: self.etcd.ctl("endpoint", "health").returncode == 0, "the cluster is whole", 30, every_s=0.2)

    # ---- what is true at the end ----

    def end(self):
        """Traffic ends, all packets are counted, every server's journal can be read."""
        self.heal()
        self.note("the end begins")
        for s in self.servers:
            if not s.daemon.alive and s.starts:
                s.start()
        for n in self.nodes:
            self.load.rate_pps[n.host] = 0
        self.load.stop()
        self.note("traffic ends")
        counted = {}

        def same():
            counted.clear()
            for n in self.nodes:
                counted.update({of: c - self.before.get(of, 0) for of, c in n.counted().items() if c > self.before.get(of, 0)})
            return not check_counters(self.sink.arrived, counted)
        with contextlib.suppress(AssertionError):
            until(same, "what was let in has arrived", 3, every_s=0.1)
        self.sink.stop()
        return counted

    def origin_ns(self):
        return None if self.clock_was_set else -clock_offset_ns()

    def wrong(self):
        """All that was not as it must be: sentences."""
        counted = self.end()
        self.note("journals are read")
        records = []
        for s in self.servers:
            if s.starts:
                records += until(lambda s=s: [s.records(self.start_ns)], f"the journal of {s.name} is read", 20)[0]
        self.note(f"{sum(self.sink.arrived.values())} packets and {len(records)} records are checked")
        return (check_admissions(self.sink.history(), self.bounds, self.start_ns, JITTER_NS, self.extra, self.origin_ns()) +
                self.wrong_later() + check_counters(self.sink.arrived, counted) +
                check_grants(records, self.bounds, self.start_ns, 10**18 if self.clock_was_set else SLACK_NS))

    def wrong_later(self):
        """Of limits that were changed on the way: what is wrong under the new ones."""
        if not self.later:
            return []
        from_ns, bounds = self.later
        history = {of: [(t, tok) for t, tok in admitted if t > from_ns] for of, admitted in self.sink.history().items()}
        return [f"after the change: {w}" for w in check_admissions(history, bounds, self.start_ns, JITTER_NS, None, self.origin_ns())]

    def verify(self):
        wrong = self.wrong()
        if wrong:
            raise Violation("\n".join(wrong))

    def story(self):
        return "\n".join(f"{at / S:8.3f} s  {what}" for at, what in self.notes)

    def tell(self):
        for p in self.servers + self.nodes:
            print(f"--- {p.name}\n{p.daemon.stderr}")


@contextlib.contextmanager
def _temporary(name):
    import tempfile
    with tempfile.TemporaryDirectory(prefix="leasegate-chaos-") as folder:
        path = os.path.join(folder, name)
        yield path
