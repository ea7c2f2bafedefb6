# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The instruments of the other tests measure what they say: laws from stamps, metrics text, the relay, senders and receivers."""
import contextlib
import random
import socket
import time

import pytest
from lib import law
from lib.cluster import Cluster
from lib.daemon import yaml_text
from lib.host import CLIENT, HOST, PORT, Host, fresh_name
from lib.prom import Page
from lib.traffic import udp_frame, udp_port
from lib.wait import until

S = 1_000_000_000


def test_the_worst_window_is_half_open():
    assert law.worst_window([], 10) == (0, None)
    assert law.worst_window([0, 9], 10) == (2, 9)
    assert law.worst_window([0, 10], 10) == (1, 0)
    assert law.worst_window([10, 0, 9], 10) == (2, 9)
    assert law.worst_window([0, 5, 14, 15], 10, [4, 1, 1, 1]) == (5, 5)


def test_the_worst_window_agrees_with_counting_each_window():
    rng = random.Random(7)
    for _ in range(200):
        stamps = sorted(rng.randrange(60) for _ in range(rng.randrange(30)))
        width = rng.randrange(1, 30)
        slow = max((sum(t - width < x <= t for x in stamps) for t in stamps), default=0)
        assert law.worst_window(stamps, width)[0] == slow
        assert max((law.trailing(stamps, width, t) for t in range(90)), default=0) == slow


def test_fixed_windows_hold_their_first_moment_and_not_their_last():
    assert law.fixed_windows([], 10, 0) == []
    assert law.fixed_windows([0, 9, 10, 19, 30], 10, 0) == [2, 2, 0, 1]
    assert law.fixed_windows([0, 9, 10, 19, 30], 10, -3) == [1, 2, 1, 1]


def test_a_perfect_bucket_is_the_one_of_the_textbook():
    """Capacity 10, 2 per second: of 15 at once 10 pass, and the other 5 after 2.5 s."""
    assert law.token_bucket_perfect([0] * 15, 10, 2, S) == 10
    assert law.token_bucket_perfect([0] * 15 + [2_500_000_000] * 6, 10, 2, S) == 15
    assert law.token_bucket_perfect([0] * 15 + [2_499_999_999] * 6, 10, 2, S) == 14
    assert law.token_bucket_most(10, 2, S, 2_500_000_000) == 15
    assert law.token_bucket_most(10, 2, S, 2_499_999_999) == 14


def test_a_perfect_window_admits_its_limit_and_refills_as_it_slides():
    assert law.sliding_window_perfect([0, 1, 2, 9, 10, 11, 12], 2, 10) == [0, 1, 10, 11]
    stamps = sorted(random.Random(3).randrange(1000) for _ in range(800))
    admitted = law.sliding_window_perfect(stamps, 50, 100)
    assert law.worst_window(admitted, 100)[0] == 50
    assert law.between(admitted, 0, 1000) == len([t for t in admitted if t > 0])


GOOD = '# HELP a help me\n# TYPE a counter\na{x="1",y="q\\"z"} 3\na{x="2"} 4.5\n# TYPE b gauge\nb 1\n'


def test_metrics_text_is_read():
    page = Page(GOOD)
    assert page.get("a") == 7.5 and page.get("a", x="1") == 3 and page.get("b") == 1 and page.get("a", x="3") == 0
    assert page.types == {"a": "counter", "b": "gauge"} and page.label_values() == {"1", "2", 'q\\"z'}


@pytest.mark.parametrize("bad", ["b 1", "b 1\nb 1\n", "# TYPE b gauge\nb 1\nb 1\n", "# TYPE b meter\n", "# TYPE b gauge\nc 1\n",
                                 '# TYPE b gauge\nb{x=1} 1\n', '# TYPE b gauge\nb{x="1" 1\n', "# TYPE b gauge\nb one\n",
                                 '# TYPE b gauge\nb{x="1",x="2"} 1\n', "# TYPE b gauge\nb 1\n# TYPE c gauge\nc 1\nb 2\n"])
def test_text_that_is_no_metrics_page_is_refused(bad):
    with pytest.raises(ValueError):
        Page(bad)


def test_configuration_is_written_as_a_person_would():
    assert yaml_text({"a": 1, "b": [{"c": "x", "d": [1, 2]}, {"c": "y"}], "e": [], "f": {"g": True}}) == (
        "a: 1\nb:\n  - c: x\n    d:\n      - 1\n      - 2\n  - c: y\ne: []\nf:\n  g: true\n")


def test_frames_carry_their_port_below_their_tags():
    for family in (4, 6):
        for vlans in ((), (5,), (5, 6)):
            frame = udp_frame("02:00:00:00:00:01", "02:00:00:00:00:02", CLIENT[family], (HOST[family], PORT), vlans)
            assert udp_port(frame) == PORT and len(frame) >= 60
            assert frame.count(b"\x81\x00\x00") == len(vlans)


@pytest.mark.parametrize("family", [4, 6])
def test_without_leasegate_every_packet_arrives_with_its_time(family):
    """To the 20 us to which the two clocks can be compared."""
    with Host() as h, h.receiver(family) as got:
        start_ns = time.monotonic_ns()
        with h.sender(2000, family) as sent:
            until(lambda: sent.n_sent >= 1000, "a thousand packets are sent")
        until(lambda: got.n == sent.n_sent, "they arrive")
        end_ns = time.monotonic_ns()
        assert sent.refused == 0
        assert all(a <= b + 20_000 for a, b in zip(sent.sent_ns, got.stamps_ns))
        assert start_ns <= got.stamps_ns[0] + 20_000 and got.stamps_ns[-1] <= end_ns


def test_the_relay_delays_holds_mends_and_cuts():
    with Cluster("rules: []\n", fresh_name("")) as c, contextlib.ExitStack() as stack:
        there = stack.enter_context(contextlib.closing(c["eu-west"].ns.socket(socket.AF_INET, socket.SOCK_STREAM)))
        there.bind(("10.90.2.2", 7400))
        there.listen()
        here = stack.enter_context(contextlib.closing(c["us-east"].ns.socket(socket.AF_INET, socket.SOCK_STREAM)))
        here.connect(("10.90.1.1", 7402))
        far = stack.enter_context(contextlib.closing(there.accept()[0]))
        here.settimeout(5)
        far.settimeout(5)
        start = time.monotonic()
        here.sendall(b"question")
        assert far.recv(100) == b"question"
        far.sendall(b"answer")
        assert here.recv(100) == b"answer"
        assert 0.08 <= time.monotonic() - start < 0.5
        c.relay.command("hold", "us-east>eu-west")
        here.sendall(b"late")
        far.settimeout(0.3)
        with pytest.raises(TimeoutError):
            far.recv(100)
        far.settimeout(5)
        c.relay.command("mend", "us-east>eu-west")
        assert far.recv(100) == b"late"
        c.relay.command("cut", "us-east>eu-west")
        assert closed(here) and closed(far)


def closed(sock):
    try:
        return sock.recv(100) == b""
    except ConnectionResetError:
        return True
