# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The kernel outlives the daemon: killed, stopped or restarted, no packet goes unjudged and no bucket is refilled."""
import contextlib
import time

import pytest
from lib import law
from lib.host import CLIENT
from lib.wait import until
from test_limits import S, bucket_rule

RATE, BURST = 500, 250


@pytest.mark.parametrize("hook", ["xdp", "tc"])
def test_kill_9_under_load_leaves_the_limit_the_link_and_the_levels_in_place(host, hook):
    node = host.start(bucket_rule(f"{RATE}/1s", BURST, table="exact"), hook)
    link = host.instance.json("status")["attachments"]
    assert len(link) == 1 and link[0]["link_id"] > 0
    with host.receiver() as got:
        start_ns = time.monotonic_ns()
        with host.sender(2000) as sent:
            until(lambda: got.n > BURST, "the burst is spent")
            node.kill()
            seen, admitted = host.instance.seen("per-source"), got.n
            until(lambda: got.n > admitted + RATE // 2, "the dead daemon's limit still admits")
            assert host.instance.json("status")["attachments"][0]["link_id"] == link[0]["link_id"]
            assert host.instance.counts("per-source")["limit"] > 0
            assert host.instance.seen("per-source") > seen
            before = host.instance.key(CLIENT[4])
            host.instance.node()
            after = host.instance.key(CLIENT[4])
            assert after["spent_tok"] >= before["spent_tok"] and after["denied_tok"] >= before["denied_tok"]
            admitted = got.n
            until(lambda: got.n > admitted + RATE // 2, "the adopted limit admits")
        until(lambda: host.instance.counts("per-source")["admitted"] == got.n, "what was admitted has arrived")
        end_ns = time.monotonic_ns()
    assert host.instance.json("status")["attachments"][0]["link_id"] == link[0]["link_id"]
    assert got.n <= law.token_bucket_most(BURST, RATE, S, end_ns - start_ns)
    assert got.n >= 0.97 * law.token_bucket_perfect(sent.sent_ns, BURST, RATE, S)


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_an_empty_bucket_stays_empty_over_a_restart(host, end):
    node = host.start(bucket_rule("1/1h", 50))
    with host.receiver() as got, contextlib.closing(host.sender(0)) as sender:
        sender.burst(60)
        until(lambda: host.instance.seen("per-source") == 60, "all packets were judged")
        if end == "kill":
            node.kill()
        else:
            assert node.stop() == 0
        sender.burst(60)
        until(lambda: host.instance.seen("per-source") == 120, "packets are judged without a daemon")
        host.instance.node()
        sender.burst(60)
        until(lambda: host.instance.seen("per-source") == 180, "packets are judged by the new daemon's programs")
    assert host.instance.counts("per-source") == {"admitted": 50, "limit": 130}
    assert got.n == 50
    assert host.instance.key(CLIENT[4])["spent_tok"] == 50


def test_an_interface_that_comes_back_is_judged_again(host):
    """The host's end of the veth goes away with its peer; when both are made anew, the node attaches by itself."""
    from lib.host import HOST
    from lib.net import ip, veth
    host.start(bucket_rule("1/1h", 50))
    ip("link", "del", "in0", ns=host.ns)
    until(lambda: host.instance.json("status")["attachments"] == [], "the link went with its interface")
    until(lambda: host.ns.http_get("/readyz", 9464)[0] == 503, "a node that enforces nothing is not ready")
    veth(host.client, "up0", [CLIENT[4] + "/24"], host.ns, "in0", [HOST[4] + "/24"])
    until(lambda: len(host.instance.json("status")["attachments"]) == 1, "the new interface is judged")
    until(lambda: host.ns.http_get("/readyz", 9464)[0] == 200, "the node is ready again")
    with host.receiver() as got, contextlib.closing(host.sender(0)) as sender:
        sender.burst(60)
        until(lambda: host.instance.seen("per-source") == 60, "all packets were judged")
    assert got.n == 50
