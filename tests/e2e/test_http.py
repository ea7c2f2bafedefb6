# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The HTTP process of a real daemon: it can do nothing but serve, it comes back, and it goes with its parent."""
import http.client
import os
import signal
import socket
import time

import pytest
from lib.daemon import Instance, children
from lib.host import fresh_name
from lib.net import Namespace
from lib.prom import Page
from lib.wait import until

PORT, METRICS = 7400, 9465
RULES = """rules:
  - name: per-user
    scope: global
    class: lease
    match: {protocol: udp, destination_port: [53]}
    key: {source: 32}
    unit: packets
    algorithm: sliding_window
    limit: 1000/1m
"""


def configure(instance, metrics, port=PORT):
    instance.write("rules.yaml", RULES)
    listed = [{"name": "eu-west", "address": f"127.0.0.1:{port}", "hosts": 4}]
    return instance.config("region.yaml", region="eu-west", regions={"version": 1, "list": listed},
                           listen=f"127.0.0.1:{port}", metrics=metrics, rules="rules.yaml", store="memory")


@pytest.fixture
def region():
    name = fresh_name("http")
    with Namespace(name) as ns, Instance(ns, name) as instance:
        daemon = instance.daemon("region", configure(instance, f"127.0.0.1:{METRICS}")).start().wait_ready()
        yield daemon
        print(f"--- leasegated region\n{daemon.stderr}")


def proc_status(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def ask(ns, method, path, body=None):
    """(status, headers, body) of one request from inside the namespace."""
    conn = http.client.HTTPConnection("127.0.0.1", METRICS, timeout=5)
    conn.sock = ns.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        conn.sock.settimeout(5)
        conn.sock.connect(("127.0.0.1", METRICS))
        conn.request(method, path, body)
        reply = conn.getresponse()
        return reply.status, dict(reply.getheaders()), reply.read()
    finally:
        conn.close()


def test_the_process_that_speaks_http_has_no_power(region):
    child = region.http_child()
    status = proc_status(child)
    assert {status[k] for k in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert status["Uid"].split() == status["Gid"].split() == ["65534"] * 4
    assert status["Groups"].split() == []
    assert status["NoNewPrivs"] == "1"
    # Its own loop, the pair, the listener, /dev/null three times: no map, no store, no lease stream.
    fds = {os.readlink(f"/proc/{child}/fd/{fd}") for fd in os.listdir(f"/proc/{child}/fd")}
    assert len(fds) <= 8 and all(f.startswith(("socket:", "anon_inode:", "pipe:", "/dev/null")) for f in fds), fds
    theirs = {os.readlink(f"/proc/{region.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{region.pid}/fd")}
    assert len([f for f in fds & theirs if f.startswith("socket:")]) == 1, "the listener is all they share"


def test_pages_methods_and_sizes(region):
    ns = region.ns
    status, headers, body = ask(ns, "GET", "/metrics")
    assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4"), headers
    assert Page(body.decode()).get("leasegate_holders", kind="host") == 0
    status, headers, body = ask(ns, "HEAD", "/metrics")
    assert (status, body) == (200, b"") and int(headers["Content-Length"]) > 100
    assert ask(ns, "GET", "/healthz")[0] == 200
    assert ask(ns, "GET", "/nothing")[0] == 404
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
        status, headers, _ = ask(ns, method, "/metrics")
        assert status == 405 and headers["Allow"] == "GET, HEAD", method
    assert ask(ns, "POST", "/metrics", b"x" * 5000)[0] == 413
    assert ask(ns, "GET", "/" + "a" * 1100)[0] == 414
    assert region.http_child() and region.alive


def test_a_killed_process_comes_back_and_is_counted(region):
    first = region.http_child()
    os.kill(first, signal.SIGKILL)
    second = until(lambda: next((c for c in children(region.keeper()) if c != first), None), "another one was started")
    assert proc_status(second)["CapEff"] == "0" * 16 or until(lambda: proc_status(second)["CapEff"] == "0" * 16, "it is confined")
    _, _, body = until(lambda: ask(region.ns, "GET", "/metrics"), "it serves")
    assert Page(body.decode()).get("leasegate_http_restarts_total") == 1


def test_it_dies_with_its_parent(region):
    child = region.http_child()
    region.kill()
    until(lambda: not os.path.exists(f"/proc/{child}") or proc_status(child)["State"].startswith("Z"), "the child is gone")
    assert region.ns.listening() == []


# Beyond 256 connections a client waits until one that says nothing is closed, which takes 10 s.
@pytest.mark.parametrize("n", [40, pytest.param(300, marks=pytest.mark.long)])
def test_garbage_and_slow_clients_keep_nobody_out(region, n):
    idle = []
    try:
        for i in range(n):
            s = region.ns.socket(socket.AF_INET, socket.SOCK_STREAM)
            s.settimeout(5)
            s.connect(("127.0.0.1", METRICS))
            s.sendall((b"\x00\xff" * 50, b"GET /metr", b"GET / HTTP/1.1\r\nX: ")[i % 3])
            idle.append(s)
        # Those that say nothing more are closed after 10 s of silence, then the next one is served.
        status = until(lambda: ask(region.ns, "GET", "/healthz")[0], "a client was served", timeout_s=40)
        assert status == 200
    finally:
        for s in idle:
            s.close()
    assert ask(region.ns, "GET", "/healthz")[0] == 200
    assert region.alive and region.http_child()


@pytest.mark.long
def test_a_client_that_trickles_is_cut_off_after_a_minute(region):
    s = region.ns.socket(socket.AF_INET, socket.SOCK_STREAM)
    s.settimeout(1)
    s.connect(("127.0.0.1", METRICS))
    s.sendall(b"GET / HTTP/1.1\r\nX: ")
    begun = time.monotonic()
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        while time.monotonic() - begun < 80:
            s.sendall(b"x")
            time.sleep(0.5)
    assert 55 < time.monotonic() - begun < 75
    s.close()


def test_a_port_in_use_ends_the_daemon_with_its_name(region):
    with Instance(region.ns, fresh_name("http2")) as second:
        d = second.daemon("region", configure(second, f"127.0.0.1:{METRICS}", PORT + 1)).start()
        assert d.wait_exit() != 0
        assert f"cannot listen on 127.0.0.1:{METRICS}: another process uses the port" in d.stderr
    assert region.alive
