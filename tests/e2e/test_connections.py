# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Rules about connections on real TCP: what is counted agrees with the sockets there are."""
import contextlib
import re
import select
import socket
import struct
import subprocess
import threading

import pytest

from lib.host import CLIENT, HOST, fresh_name
from lib.net import Namespace, ip, veth
from lib.prom import Page
from lib.wait import until

PORT = 8080
COUNT = """
rules:
  - name: open
    match: {destination_port: 8080, direction: ingress}
    unit: concurrent
    limit: %d
"""


@contextlib.contextmanager
def listening(ns, port=PORT):
    with ns.entered(), socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind((HOST[4], port))
        s.listen(256)
        yield s


def connect(ns, timeout_s=2.0, source=CLIENT[4], port=PORT):
    with ns.entered():
        s = socket.socket()
    s.bind((source, 0))
    s.settimeout(timeout_s)
    s.connect((HOST[4], port))
    return s


def asks_in_vain(ns):
    """Sends a SYN, and takes it back when there was no answer at once: was there one?"""
    with ns.entered(), socket.socket() as s:
        s.setblocking(False)
        s.connect_ex((HOST[4], PORT))
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return bool(select.select([], [s], [], 0.01)[1])


def n_open(host):
    keys = host.instance.json("keys", "--rule", "open")
    return keys[0]["open"] if keys else 0


def n_recounts(host):
    return Page(host.ns.http_get("/metrics", 9464)[1]).get("leasegate_connection_recounts_total")


@pytest.mark.long
def test_connections_from_before_the_agent_are_counted_once_and_end_at_nothing(host):
    """But for those of a peer who is on a list."""
    ip("address", "add", "10.90.0.3/24", "dev", "up0", ns=host.client)
    with listening(host.ns) as server:
        clients = [connect(host.client, source=source) for source in [CLIENT[4]] * 50 + ["10.90.0.3"] * 5]
        peers = [server.accept()[0] for _ in clients]
        daemon = host.start(COUNT % 60 + "lists: {allow: [10.90.0.3]}\n")
        until(lambda: n_open(host) == 50, "50 connections are adopted")
        daemon.stop()
        host.instance.node()
        late = [connect(host.client)]
        until(lambda: n_open(host) == 51, "a new agent counts nothing twice")
        peers.append(server.accept()[0])
        clients += late
        for s in clients + peers:
            s.close()
        until(lambda: n_open(host) == 0, "none is counted any more")


@pytest.mark.parametrize("first", ["client", pytest.param("server", marks=pytest.mark.long)])
def test_half_closed_connections_stay_counted(host, first):
    """A hundred tries at a limit of ten, each of which shuts its half: ten are open, however long the other half stays."""
    host.start(COUNT % 10, hook="tc")
    with listening(host.ns) as server:
        clients, peers = [], []
        for _ in range(10):
            clients.append(connect(host.client))
            peers.append(server.accept()[0])
            (clients if first == "client" else peers)[-1].shutdown(socket.SHUT_WR)
        for _ in range(90):
            assert not asks_in_vain(host.client)
        assert n_open(host) == 10
        assert counts(host)["limit"]["packets"] >= 90
        for s in clients + peers:
            s.close()
        until(lambda: n_open(host) == 0, "all are closed")
        connect(host.client).close()


# ---- handshakes ----

HALF_OPEN = """
rules:
  - name: open
    match: {destination_port: %s, direction: ingress}
    unit: half_open
    limit: %d
"""
NGINX = """
daemon off;
worker_processes 1;
pid %(folder)s/pid;
error_log stderr crit;
events { worker_connections 4096; }
http {
	access_log off;
	keepalive_timeout 0;
	server { listen %(port)d backlog=4096; location / { return 200 "here\\n"; } }
}
"""


@contextlib.contextmanager
def nginx(ns, folder):
    """A web server that closes each connection after its answer."""
    config = folder / "nginx.conf"
    config.write_text(NGINX % {"folder": folder, "port": PORT})
    with subprocess.Popen(ns.enter_argv() + ["nginx", "-e", "stderr", "-c", str(config)], stdin=subprocess.DEVNULL) as process:
        try:
            until(lambda: any(a.endswith(f":{PORT}") for a in ns.listening()), "nginx listens")
            yield
        finally:
            process.terminate()
            process.wait(10)


def counts(host, rule="open"):
    row, = [r for r in host.instance.json("rules") if r["rule"] == rule]
    return row["counts"]


@pytest.mark.alone
@pytest.mark.long
@pytest.mark.parametrize("hook", ["xdp", "tc"])
def test_thousands_of_new_connections_a_second_pass_a_limit_of_a_hundred_handshakes(host, hook, tmp_path):
    """wrk keeps four times as many connections as handshakes may be open: each of them is so for a moment only."""
    host.start(HALF_OPEN % (PORT, 100), hook)
    with nginx(host.ns, tmp_path):
        ran = host.client.run("wrk", "--threads", "1", "--connections", "400", "--duration", "10s", "--header", "Connection: close",
                              f"http://{HOST[4]}:{PORT}/", timeout_s=30)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    n = int(re.search(r"(\d+) requests in", ran.stdout)[1])
    at_best = float(re.search(r"Req/Sec +\S+ +\S+ +([0-9.]+)k", ran.stdout)[1]) * 1000
    assert at_best >= 5000 and n >= 2000 * 10, ran.stdout
    assert "Socket errors" not in ran.stdout or "connect 0," in ran.stdout, ran.stdout
    got = counts(host)
    assert "limit" not in got and got["admitted"]["packets"] >= n, (ran.stdout, got)
    until(lambda: n_open(host) == 0, "no handshake is open")


def test_a_scan_of_ports_leaves_no_handshake_behind(host):
    """Refused ports are answered by resets, which a hook at ingress does not see: the timeout ends what they began."""
    host.start(HALF_OPEN % ("1-1000", 5000), connection_timeouts={"handshake": "1s"})
    ran = host.client.run("nmap", "-sS", "-Pn", "-n", "-p", "1-1000", "--max-retries", "0", "--min-rate", "5000", HOST[4])
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert n_open(host) > 0
    assert counts(host)["admitted"]["packets"] >= 1000
    until(lambda: n_open(host) == 0, "the handshakes' time is over", 5)
    assert "limit" not in counts(host)


# ---- who began ----

FROM_PEERS = """
rules:
  - name: from-peers
    match: {protocol: tcp, direction: initiated-by-peer}
    key: {source: 32}
    limit: 20/1h
"""


def arrives(sender, receiver, n):
    """How many of n bytes arrive over a connection, until the last or until nothing comes for half a second."""
    def give():
        with contextlib.suppress(OSError):
            sender.sendall(b"x" * n)

    sender.settimeout(2)
    receiver.settimeout(0.5)
    thread = threading.Thread(target=give, daemon=True)
    thread.start()
    got = 0
    with contextlib.suppress(TimeoutError):
        while got < n and (data := receiver.recv(1 << 16)):
            got += len(data)
    receiver.close()
    thread.join(5)
    return got


@pytest.mark.parametrize("hook", ["xdp", pytest.param("tc", marks=pytest.mark.long)])
def test_a_download_is_not_charged_to_its_server_and_what_that_server_begins_is(host, hook):
    at = {"name": "in0", "xdp": "native" if hook == "xdp" else "off", "tc": "on" if hook == "tc" else "off", "tc_egress": "on"}
    host.instance.write("rules.yaml", FROM_PEERS)
    host.instance.node(host.instance.config(rules="rules.yaml", interfaces=[at]))
    with host.client.entered(), socket.create_server((CLIENT[4], PORT)) as there:
        with host.ns.entered():
            taker = socket.create_connection((CLIENT[4], PORT), 2)
        assert arrives(there.accept()[0], taker, 1 << 20) == 1 << 20
    assert "limit" not in counts(host, "from-peers")
    with listening(host.ns) as here:
        giver = connect(host.client)
        assert arrives(giver, here.accept()[0], 1 << 20) < 1 << 20
    assert counts(host, "from-peers")["limit"]["packets"] > 0


# ---- connections that end elsewhere ----

@pytest.mark.long
def test_connections_to_a_published_port_are_counted_though_their_sockets_are_elsewhere(host):
    """The host hands them on to a container by translation: its own address, and no socket of its own. What loses its socket still ends."""
    with contextlib.ExitStack() as stack:
        inner = stack.enter_context(Namespace(fresh_name("inner")))
        veth(host.ns, "out0", ["10.92.0.1/24"], inner, "eth0", ["10.92.0.2/24"])
        ip("route", "add", "default", "via", "10.92.0.1", ns=inner)
        assert host.ns.run("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward").returncode == 0
        chains = (f"chain pre {{ type nat hook prerouting priority -100; tcp dport {PORT} dnat to 10.92.0.2:80; }}; "
                  f"chain out {{ type filter hook output priority 0; tcp sport {PORT + 1} tcp flags rst drop; }};")
        assert host.ns.run("nft", f"table ip t {{ {chains} }}").returncode == 0
        server = stack.enter_context(contextlib.closing(inner.socket(kind=socket.SOCK_STREAM)))
        server.bind(("10.92.0.2", 80))
        server.listen(64)
        own = stack.enter_context(listening(host.ns, PORT + 1))
        at = {"name": "in0", "xdp": "off", "tc": "on", "tc_egress": "on"}
        host.instance.write("rules.yaml", (COUNT % 11).replace(str(PORT), f"[{PORT}, {PORT + 1}]"))
        host.instance.node(host.instance.config(rules="rules.yaml", interfaces=[at]))
        clients = [connect(host.client) for _ in range(10)]
        peers = [server.accept()[0] for _ in clients]
        for s in clients[:5]:
            s.shutdown(socket.SHUT_WR)
        clients.append(connect(host.client, port=PORT + 1))
        lost = own.accept()[0]
        passes = n_recounts(host)
        until(lambda: n_recounts(host) >= passes + 4, "the agent has compared with its sockets four times", 30)
        assert n_open(host) == 11 and not asks_in_vain(host.client)
        lost.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        lost.close()		# by a reset that nobody sees
        until(lambda: n_open(host) == 10, "what is here no more is not counted")
        for s in clients + peers:
            s.close()
        until(lambda: n_open(host) == 0, "their packets end them")
