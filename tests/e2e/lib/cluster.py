# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Three regions far apart, each with a region server and one host, and clients who can send to any of them.

                       wan: one delay relay per pair of regions
              10.90.1.1 |         10.90.2.1 |        10.90.3.1 |
                   wan0 |              wan0 |             wan0 |
                   us-east            eu-west            ap-south       (a namespace each: region server, node)
                    in0 |               in0 |              in0 |        <- leasegate judges what comes in here
              10.91.1.1 |         10.91.2.1 |        10.91.3.1 |
                       clients: one user, 198.51.100.7, whose packets may enter anywhere

Regions know each other by their true addresses (the region list) and dial through the relay (`test: dial_via`); there is no
other way from one to another, as nothing forwards.

`certs` (lib/certs.py): all of them speak mutual TLS.
"""
import contextlib
import time

from .daemon import Instance
from .net import Namespace, ip, tc, veth
from .relay import Relay
from .traffic import Receiver, Sender

NAMES = ("us-east", "eu-west", "ap-south")
RTT_MS = {frozenset(("us-east", "eu-west")): 80, frozenset(("us-east", "ap-south")): 150,
          frozenset(("eu-west", "ap-south")): 120}
USER = "198.51.100.7"
PORT = 5300
LEASE_PORT = 7400


class Region:
    """One region: namespace, instance (region server and node under one name) and what its host was sent and let in."""

    def __init__(self, name, index):
        self.name, self.index = name, index
        self.ns = self.instance = self.server = self.node = self.sender = self.receiver = None
        self.address = f"10.90.{index}.2:{LEASE_PORT}"
        self.host = f"10.91.{index}.2"


class Cluster:
    """Namespaces, relay and configuration on entry; daemons by start(); everything gone on exit."""

    def __init__(self, rules, prefix, hook="xdp", rtt_ms=None, store="sqlite", certs=None, secret=None):
        self.rules, self.prefix, self.hook, self.store, self.certs = rules, prefix, hook, store, certs
        self.secret = secret
        self.rtt_ms = rtt_ms or RTT_MS
        self.regions = {name: Region(name, i) for i, name in enumerate(NAMES, 1)}
        self.stack = contextlib.ExitStack()
        self.relay = self.wan = self.clients = None

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self.wan = stack.enter_context(Namespace(f"{self.prefix}wan"))
            self.clients = stack.enter_context(Namespace(f"{self.prefix}clients"))
            ip("address", "add", f"{USER}/32", "dev", "lo", ns=self.clients)
            for r in self.regions.values():
                self._build(r, stack)
            self.relay = stack.enter_context(Relay(self.wan, self._routes(), self.regions[NAMES[0]].instance.folder))
            for r in self.regions.values():
                self._configure(r)
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *exc):
        return self.stack.__exit__(*exc)

    def __getitem__(self, name):
        return self.regions[name]

    def __iter__(self):
        return iter(self.regions.values())

    def _build(self, r, stack):
        i = r.index
        r.ns = stack.enter_context(Namespace(f"{self.prefix}{r.name}"))
        veth(self.wan, r.name, [f"10.90.{i}.1/24"], r.ns, "wan0", [f"10.90.{i}.2/24"])
        veth(self.clients, r.name, [f"10.91.{i}.1/24"], r.ns, "in0", [f"10.91.{i}.2/24"])
        ip("route", "add", f"{USER}/32", "via", f"10.91.{i}.1", ns=r.ns)
        ip("neigh", "replace", r.host, "lladdr", r.ns.mac("in0"), "dev", r.name, "nud", "permanent", ns=self.clients)
        r.instance = stack.enter_context(Instance(r.ns, f"{self.prefix}{r.name}"))

    def _routes(self):
        return [{"name": f"{a.name}>{b.name}", "listen": [f"10.90.{a.index}.1", LEASE_PORT + b.index],
                 "dial": [f"10.90.{b.index}.2", LEASE_PORT],
                 "delay_ms": self.rtt_ms[frozenset((a.name, b.name))] / 2}
                for a in self for b in self if a is not b]

    def _configure(self, r):
        listed = {"version": 1, "list": [{"name": x.name, "address": x.address, "hosts": 1} for x in self]}
        via = {x.name: f"10.90.{r.index}.1:{LEASE_PORT + x.index}" for x in self if x is not r}
        at = {"name": "in0", "xdp": "native", "tc": "off"} if self.hook == "xdp" else {"name": "in0", "xdp": "off", "tc": "on"}
        tls, node_tls = {}, {}
        if self.certs:
            tls = {"tls": self.certs.region(r.name)}
            node_tls = {"tls": self.certs.node(r.name, f"{r.name}-1")}
        if self.secret:
            path = r.instance.write("secret", self.secret)
            tls["secret_file"] = node_tls["secret_file"] = path
        r.instance.write("rules.yaml", self.rules)
        r.instance.config("region.yaml", region=r.name, regions=listed, listen=r.address, rules="rules.yaml",
                          store=self.store, test={"dial_via": via}, **tls)
        r.instance.config("node.yaml", name=f"{r.name}-1", region=r.name, regions=listed, rules="rules.yaml",
                          interfaces=[at], **node_tls)

    def start_region(self, r, wait=True):
        r.server = r.instance.daemon("region", r.instance.path("region.yaml")).start()
        return r.server.wait_ready() if wait else r.server

    def start_node(self, r, wait=True):
        r.node = r.instance.daemon("node", r.instance.path("node.yaml")).start()
        return r.node.wait_ready() if wait else r.node

    def start(self):
        """Region servers and nodes, all ready."""
        for start in (self.start_region, self.start_node):
            daemons = [start(r, wait=False) for r in self]
            for d in daemons:
                d.wait_ready()
        return self

    def receivers(self, stack):
        for r in self:
            r.receiver = stack.enter_context(Receiver(r.ns, r.host, PORT))

    def senders(self, stack, rate_pps=0):
        """One paced sender per region, all of the same user."""
        for r in self:
            r.sender = stack.enter_context(Sender(self.clients, (r.host, PORT), rate_pps, source=USER))

    def only(self, region, rate_pps):
        """All traffic goes to one region from now on. Returns when now was."""
        for r in self:
            r.sender.rate_pps = rate_pps if r is region else 0
        return time.monotonic_ns()

    def _wires(self, r):
        """Both ends of a region's way to the others: what leaves either can be dropped there."""
        return (r.ns, "wan0"), (self.wan, r.name)

    def partition(self, r):
        """Every packet between a region and the others is lost from now on, in both directions."""
        for ns, dev in self._wires(r):
            tc("qdisc", "add", "dev", dev, "root", "pfifo", "limit", "0", ns=ns)

    def heal(self, r):
        for ns, dev in self._wires(r):
            tc("qdisc", "del", "dev", dev, "root", ns=ns)

    def admitted_ns(self):
        """Times of all packets that were let in anywhere, sorted."""
        return sorted(t for r in self for t in r.receiver.stamps_ns)

    def sent_ns(self):
        """Times of all packets that were sent anywhere, sorted."""
        return sorted(t for r in self for t in r.sender.sent_ns)

    def home_of_user(self):
        """The region whose server owns the user's budget, once somebody leased from it."""
        for r in self:
            for lease in r.instance.json("leases").get("region", []):
                if lease["key"].split("/")[0] == USER:
                    return lease["home"]
        return None
