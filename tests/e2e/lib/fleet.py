# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Several servers of one region that share a real etcd cluster, and a host that is sent packets; all in the host's namespace.

The host is told the address of the first server alone; it hears of the others from it.
"""
import contextlib

from .daemon import Instance
from .etcd import Etcd
from .host import Host, fresh_name
from .wait import until

LEASE_PORT = 7400
METRICS_PORT = 9500
SLOTS = 256


def rules_of(limit, window_s):
    """One limit for each source over all hosts; whoever is cut off gets nothing."""
    return ("rules:\n"
            "  - name: per-user\n"
            "    scope: global\n"
            "    class: lease\n"
            "    match: {protocol: udp}\n"
            "    key: {source: 32}\n"
            "    unit: packets\n"
            "    algorithm: sliding_window\n"
            f"    limit: {limit}/{window_s}s\n"
            "    fallback: deny\n")


class Fleet:
    def __init__(self, host, etcd, stack, rules, n_servers=2, certs=None, n_there=0):
        self.host, self.etcd, self.rules, self.certs, self.stack = host, etcd, rules, certs, stack
        self.listed = {"version": 1, "list": [{"name": "here", "address": f"127.0.0.1:{LEASE_PORT}", "hosts": 1}]}
        if n_there:
            self.listed["list"].append({"name": "there", "address": f"127.0.0.1:{LEASE_PORT + n_servers}", "hosts": 1})
        self.servers, self.daemons = [], []
        for i in range(n_servers + n_there):
            self.add("here" if i < n_servers else "there")
        host.configure(rules, name="host-1", region="here", regions=self.listed, **({"tls": certs.node("here", "host-1")} if certs else {}))

    def add(self, region="here"):
        """One server more, not started."""
        i = len(self.servers)
        server = self.stack.enter_context(Instance(self.host.ns, fresh_name(f"server{i}")))
        etcd = {"endpoints": self.etcd.endpoints, **({"tls": "on"} if self.certs else {})}
        server.write("rules.yaml", self.rules)
        server.config("region.yaml", region=region, regions=self.listed, rules="rules.yaml", store="etcd", etcd=etcd,
                      metrics=f"127.0.0.1:{METRICS_PORT + i}", listen=f"127.0.0.1:{LEASE_PORT + i}",
                      **({"tls": self.certs.region(region)} if self.certs else {}))
        self.servers.append(server)
        self.daemons.append(server.daemon("region", server.path("region.yaml")))
        return self.daemons[-1]

    def start(self):
        for d in self.daemons:
            d.start()
        for d in self.daemons:
            d.wait_ready(30)
        self.wait_even()
        return self

    def wait_even(self):
        """Each server that lives has its share."""
        n = self.regions()
        until(lambda: sorted(self.shares()) == sorted(x for k in n for x in even(k)), "the slots are shared out", 20)

    def regions(self):
        """How many servers of each region live."""
        names = [self.status(i)["name"] for i, d in enumerate(self.daemons) if d.alive]
        return [names.count(n) for n in dict.fromkeys(names)]

    def status(self, i):
        return self.servers[i].json("status")["region"]

    def shares(self):
        """Slots of each server that lives."""
        return [self.status(i)["slots"] for i, d in enumerate(self.daemons) if d.alive]

    def granted(self, i):
        """Tokens of the keys that a server leases to the host."""
        return sum(k["granted_tok"] for k in self.leases(i)["region"])

    def leases(self, i):
        return self.servers[i].json("leases")

    def tell(self):
        for d in self.daemons:
            print(f"--- leasegated region\n{d.stderr}")


def even(n):
    return sorted(SLOTS // n + (i < SLOTS % n) for i in range(n))


@contextlib.contextmanager
def fleet(rules, n_servers=2, n_members=1, certs=None, n_there=0):
    with Host() as host, Etcd(host.ns, n_members, certs) as etcd, contextlib.ExitStack() as stack:
        f = Fleet(host, etcd, stack, rules, n_servers, certs, n_there)
        try:
            yield f
        finally:
            f.tell()
