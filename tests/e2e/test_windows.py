# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Windows and logs of one host, from the rules file to real packets and back to the tool."""
import contextlib

import pytest
from lib.host import CLIENT, PORT
from test_reload import HOWS, spend

KINDS = {"fixed_window": "fixed", "sliding_window": "sliding", "sliding_log": "log"}


def rule(algorithm, limit, cost=1):
    return ("rules:\n"
            "  - name: seen\n"
            f"    match: {{protocol: udp, destination_port: {PORT}}}\n"
            "    key: {source: 32}\n"
            f"    algorithm: {algorithm}\n"
            f"    limit: {limit}/31d\n"
            f"    cost: {cost}\n")


@pytest.mark.parametrize("algorithm", KINDS)
def test_a_changed_limit_and_cost_keep_what_was_spent(host, algorithm):
    node = host.start(rule(algorithm, 100))
    with contextlib.closing(host.sender(0)) as sender:
        assert spend(host, sender, "seen", 60) == 60
        key = host.instance.key(CLIENT[4])
        assert (key["kind"], key["spent_tok"], key["left_tok"]) == (KINDS[algorithm], 60, 40)
        for limit, cost, let_in in ((50, 1, 0), (90, 5, 6), (93, 2, 1)):
            host.instance.write("rules.yaml", rule(algorithm, limit, cost))
            ok, said = HOWS["tool"](host, node)
            assert ok, said
            assert spend(host, sender, "seen", 40) == let_in
        assert host.instance.key(CLIENT[4])["left_tok"] == 1
        shown = host.instance.json("rules")[0]
        assert (shown["algorithm"], shown["cost"]) == (algorithm, 2)


@pytest.mark.parametrize("algorithm", KINDS)
def test_a_daemon_that_starts_again_finds_what_was_spent(host, algorithm):
    node = host.start(rule(algorithm, 100))
    with contextlib.closing(host.sender(0)) as sender:
        assert spend(host, sender, "seen", 60) == 60
        node.kill()
        host.instance.node(host.instance.path("node.yaml"))
        assert spend(host, sender, "seen", 60) == 40
