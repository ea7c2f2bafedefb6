# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The checker at work: fleets in which something is broken on purpose, and it says so."""
import json
import os
import re
import subprocess

import pytest
from history import Violation
from world import LEASE_PORT

MORE_TOK = 300
UNION_AT = 8		# where in struct lg_bucket what a block keeps begins


@pytest.mark.long
def test_two_servers_that_do_not_know_of_each_other_are_found(world):
    """One region, two stores: each lends the whole limit."""
    w = world(regions={"here": (2, 2)}, store="sqlite", loads=(4,))
    for server, node in zip(w.servers, w.nodes):
        listed = {"version": 1, "list": [{"name": "here", "address": f"{server.address}:{LEASE_PORT}", "hosts": 2}]}
        server.configure(listed)
        node.configure(listed)
    w.start().begin()
    w.run_for(3)
    with pytest.raises(Violation) as found:
        w.verify()
    text = str(found.value)
    for rule in w.rules:
        assert re.search(rf"^{rule} 198.51.100.1: \d+\.\d tokens more than it allows were let in from", text, re.M), text
        assert re.search(rf"^here \w+ {rule} 198.51.100.1: .*( have both lent in epoch|, when here-s\d had lent in epoch)", text, re.M), text


def test_tokens_that_a_map_was_given_by_hand_are_found(world):
    """Nobody has lent them: the journals are in order, and too many packets arrive."""
    w = world(rules={"blocks": "class: lease, algorithm: sliding_window, limit: 400/30s, fallback: deny, lease: {kind: block, cold_start: 0}"},
              regions={"here": (1, 1)}, store="sqlite", loads=(20,))
    w.start().begin()
    w.run_for(1)
    give(w.nodes[0], MORE_TOK)
    w.run_for(2)
    with pytest.raises(Violation) as found:
        w.verify()
    over = re.fullmatch(r"blocks 198.51.100.1: (\d+)\.0 tokens more than it allows were let in from .* to .*", str(found.value))
    assert over and MORE_TOK // 2 < int(over[1]) <= MORE_TOK, found.value


def give(node, n_tok):
    """Raises granted_tok of the host's one bucket."""
    buckets = os.path.join(node.instance.maps, "buckets")
    entry, = json.loads(subprocess.run(["bpftool", "-j", "map", "dump", "pinned", buckets], capture_output=True, check=True).stdout)
    granted = entry["formatted"]["value"][""][""]["granted_tok"].to_bytes(8, "little")
    value = bytes(int(x, 16) for x in entry["value"])
    at = value.index(granted, UNION_AT)
    more = value[:at] + (int.from_bytes(granted, "little") + n_tok).to_bytes(8, "little") + value[at + 8:]
    subprocess.run(["bpftool", "map", "update", "pinned", buckets, "key", "hex", *(x[2:] for x in entry["key"]),
                    "value", "hex", *(f"{x:02x}" for x in more)], check=True)
