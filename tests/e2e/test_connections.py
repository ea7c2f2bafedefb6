# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Rules about connections on real TCP: what is counted agrees with the sockets there are."""
import contextlib
import socket

import pytest

from lib.host import HOST
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
def listening(ns):
    with ns.entered(), socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind((HOST[4], PORT))
        s.listen(256)
        yield s


def connect(ns, timeout_s=2.0):
    with ns.entered():
        s = socket.socket()
    s.settimeout(timeout_s)
    s.connect((HOST[4], PORT))
    return s


def n_open(host):
    keys = host.instance.json("keys", "--rule", "open")
    return keys[0]["open"] if keys else 0


@pytest.mark.long
def test_connections_from_before_the_agent_are_counted_once_and_end_at_nothing(host):
    with listening(host.ns) as server:
        clients = [connect(host.client) for _ in range(50)]
        peers = [server.accept()[0] for _ in clients]
        daemon = host.start(COUNT % 60)
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


def test_half_closed_connections_stay_counted(host):
    host.start(COUNT % 10, hook="tc")
    with listening(host.ns) as server:
        clients = []
        for _ in range(10):
            clients.append(connect(host.client))
            clients[-1].shutdown(socket.SHUT_WR)
        peers = [server.accept()[0] for _ in clients]
        assert n_open(host) == 10
        for _ in range(3):
            with contextlib.suppress(TimeoutError, OSError):
                connect(host.client, 0.2).close()
        assert n_open(host) == 10
        for s in clients + peers:
            s.close()
        until(lambda: n_open(host) == 0, "all are closed")
        connect(host.client).close()
