# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The smallest world: a client and a host joined by a veth, and an instance of leasegate on the host.

    client namespace: up0 10.90.0.1, 2001:db8:90::1  <---->  in0 10.90.0.2, 2001:db8:90::2 :host namespace
"""
import contextlib

from . import PREFIX
from .daemon import Instance
from .net import Namespace, ip, veth
from .traffic import Receiver, Sender

PORT = 5300
CLIENT = {4: "10.90.0.1", 6: "2001:db8:90::1"}
HOST = {4: "10.90.0.2", 6: "2001:db8:90::2"}
_n_made = 0


def fresh_name(label):
    """A name for a namespace or an instance that no other run and no other test has."""
    global _n_made
    _n_made += 1
    return f"{PREFIX}{_n_made}-{label}"


class Host:
    def __init__(self):
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self.client = stack.enter_context(Namespace(fresh_name("client")))
            self.ns = stack.enter_context(Namespace(fresh_name("host")))
            veth(self.client, "up0", [CLIENT[4] + "/24", CLIENT[6] + "/64"],
                 self.ns, "in0", [HOST[4] + "/24", HOST[6] + "/64"])
            self.instance = stack.enter_context(Instance(self.ns, fresh_name("host")))
            # Neighbours are known from the start, so that the first packet is not held back by ARP.
            for family in (4, 6):
                ip(f"-{family}", "neigh", "replace", HOST[family], "lladdr", self.ns.mac("in0"), "dev", "up0",
                   "nud", "permanent", ns=self.client)
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *exc):
        return self.stack.__exit__(*exc)

    def configure(self, rules, hook="xdp", **keys):
        """Writes node.yaml and rules.yaml for one interface at a hook: "xdp" (native) or "tc"."""
        at = {"name": "in0", "xdp": "native", "tc": "off"} if hook == "xdp" else {"name": "in0", "xdp": "off", "tc": "on"}
        self.instance.write("rules.yaml", rules)
        return self.instance.config(rules="rules.yaml", interfaces=[at], **keys)

    def start(self, rules, hook="xdp", **keys):
        """Configures and starts a node that is ready to judge. Returns its Daemon."""
        return self.instance.node(self.configure(rules, hook, **keys))

    def sender(self, rate_pps, family=4, payload=b"x" * 18, source=None, port=PORT):
        return Sender(self.client, (HOST[family], port), rate_pps, source, payload)

    def receiver(self, family=4, port=PORT):
        return Receiver(self.ns, HOST[family], port)
