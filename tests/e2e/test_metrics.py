# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The metrics page: valid text, numbers that agree with what was sent, no client's address; and the two health pages."""
import contextlib
import ipaddress
import json
import os
import re
import socket

import pytest
from lib import ROOT
from lib.host import HOST
from lib.prom import Page
from lib.wait import until
from test_limits import bucket_rule


def families():
    """Every family the project declares: {name: type}."""
    with open(f"{ROOT}/agent/api/metrics.def", encoding="utf-8") as f:
        return dict(re.findall(r'^LG_METRIC\(\w+, "(\w+)", "(\w+)"', f.read(), re.M))


def page_of(host, port=9464):
    status, body = host.ns.http_get("/metrics", port)
    assert status == 200
    return Page(body)


@pytest.mark.parametrize("hook, name", [("xdp", "xdp"), ("tc", "tc_ingress")])
def test_the_counters_agree_with_what_was_sent(host, hook, name):
    host.start(bucket_rule("1/1h", 50), hook)
    with host.receiver() as got, contextlib.closing(host.sender(0, payload=b"x" * 58)) as sender:
        sender.burst(180)
        until(lambda: host.instance.seen("per-source") == 180, "all packets were judged")
        page = until(lambda: _with(page_of(host), got.n), "the page shows what was judged")
    assert page.get("leasegate_verdict_packets_total", hook=name, verdict="pass", reason="admitted") == 50
    assert page.get("leasegate_verdict_packets_total", hook=name, verdict="drop", reason="limit") == 130
    assert page.get("leasegate_verdict_bytes_total", hook=name, verdict="pass", reason="admitted") == 50 * 100
    assert page.get("leasegate_verdict_bytes_total", hook=name, verdict="drop", reason="limit") == 130 * 100
    assert page.get("leasegate_rule_packets_total", rule="per-source", reason="admitted") == got.n == 50
    assert page.get("leasegate_rule_packets_total", rule="per-source", reason="limit") == 130
    assert page.get("leasegate_rule_bytes_total", rule="per-source", reason="limit") == 130 * 100
    assert page.get("leasegate_attached", interface="in0", hook=name) == 1
    assert page.get("leasegate_enforcing") == 1
    assert page.get("leasegate_bypass") == 0


def test_fragments_without_ports_are_counted_by_hook(host):
    host.start(bucket_rule("1/1h", 50), "tc")
    with contextlib.closing(host.sender(0, payload=b"x" * 4000)) as sender:	# three fragments each, of which the rule is about the first
        sender.burst(5)
        until(lambda: host.instance.seen("per-source") == 5, "all fragments were judged")
        page = until(lambda: _fragments(page_of(host), 10), "the page shows what was judged")
    assert page.get("leasegate_later_fragments_total", hook="xdp") == 0


def _fragments(page, n):
    return page if page.get("leasegate_later_fragments_total", hook="tc_ingress") == n else None


def _with(page, admitted):
    return page if page.get("leasegate_rule_packets_total", rule="per-source", reason="admitted") == admitted else None


def test_the_page_is_valid_text_with_the_declared_families_and_no_address(host):
    host.start(bucket_rule("1/1h", 50))
    with contextlib.closing(host.sender(0)) as sender, contextlib.closing(host.sender(0, 6)) as six:
        sender.burst(60)
        six.burst(60)
        until(lambda: host.instance.seen("per-source") == 120, "all packets were judged")
    page = page_of(host)
    declared = families()
    assert page.types and set(page.types) <= set(declared)
    assert all(page.types[name] == declared[name] for name in page.types)
    assert set(page.helps) >= set(page.types)
    for value in page.label_values():
        for word in re.split(r"[\s,;/]", value):
            with pytest.raises(ValueError):
                ipaddress.ip_address(word)


def test_health_and_readiness_follow_enforcement(host):
    node = host.start(bucket_rule("1/1h", 50))
    assert host.ns.http_get("/healthz", 9464)[0] == 200
    assert host.ns.http_get("/readyz", 9464)[0] == 200
    assert host.ns.http_get("/nothing", 9464)[0] == 404
    # Detached from outside: the daemon lives, its packets are not judged.
    links = [f"{host.instance.pins}/links/{f}" for f in os.listdir(f"{host.instance.pins}/links")]
    for link in links:
        assert host.ns.run("bpftool", "link", "detach", "pinned", link).returncode == 0
    until(lambda: host.ns.http_get("/readyz", 9464)[0] == 503, "a node whose link was cut is not ready", timeout_s=5)
    assert host.ns.http_get("/healthz", 9464)[0] == 200
    assert node.alive


def test_a_stopped_node_answers_nothing(host):
    node = host.start(bucket_rule("1/1h", 50))
    assert node.stop() == 0
    with pytest.raises(OSError):
        host.ns.http_get("/readyz", 9464)


def test_requests_that_are_none_do_not_disturb_the_page(host):
    host.start(bucket_rule("1/1h", 50))
    for junk in (b"\x00" * 100, b"GET /" + b"a" * 100_000, b"POST /metrics HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", b""):
        with contextlib.closing(host.ns.socket(socket.AF_INET, socket.SOCK_STREAM)) as s:
            s.settimeout(2)
            s.connect(("127.0.0.1", 9464))
            with contextlib.suppress(OSError):
                s.sendall(junk)
                s.shutdown(socket.SHUT_WR)
                while s.recv(4096):
                    pass
    assert host.ns.http_get("/healthz", 9464)[0] == 200
    assert page_of(host).get("leasegate_enforcing") == 1


def test_the_metrics_page_is_not_reachable_from_outside_by_default(host):
    host.start(bucket_rule("1/1h", 50))
    with contextlib.closing(host.client.socket(socket.AF_INET, socket.SOCK_STREAM)) as s:
        s.settimeout(2)
        with pytest.raises(OSError):
            s.connect((HOST[4], 9464))


def test_a_region_server_has_a_page_of_its_own(host):
    rules = host.instance.write("rules.yaml", bucket_rule("1/1h", 50))
    config = host.instance.config("region.yaml", region="here", rules=rules, listen="127.0.0.1:7400",
                                  regions={"version": 1, "list": [{"name": "here", "address": "127.0.0.1:7400", "hosts": 1}]})
    host.instance.daemon("region", config).start().wait_ready()
    page = page_of(host, 9465)
    assert set(page.types) <= set(families())
    assert page.get("leasegate_build_info", role="region") == 1
    assert host.ns.http_get("/healthz", 9465)[0] == 200 and host.ns.http_get("/readyz", 9465)[0] == 200
    status = host.instance.json("status")
    assert status["region"]["name"] == "here" and status["kernel"] is None
    assert json.dumps(status["region"]["holders"]) == "[]"
