# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Fixtures of the end-to-end tests. They need root, bpffs and build/leasegated; see lib/ for the worlds they run in."""
import os
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))

from lib import machine  # noqa: E402
from lib.host import Host  # noqa: E402
from lib.wait import deadline_of  # noqa: E402

TEST_S = 90		# no test may hang the run; a test that comes near this is broken
LONG_TEST_S = 240	# of those marked `long`


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true", help="run the tests marked `long` too")


def pytest_configure(config):
    config.addinivalue_line("markers", "long: minutes of traffic; runs only with --long, or -m long")
    config.addinivalue_line("markers", "alone: measures speed or time, so scripts/e2e runs nothing beside it")
    if not config.option.markexpr and not config.getoption("--long"):
        config.option.markexpr = "not long"


def pytest_sessionstart(session):
    if session.config.option.collectonly:
        return
    machine.check("the end-to-end tests")


@pytest.fixture(autouse=True)
def deadline(request):
    """A test that hangs fails with a traceback of where."""
    with deadline_of(LONG_TEST_S if request.node.get_closest_marker("long") else TEST_S):
        yield


@pytest.fixture
def host():
    """A client and a host joined by a veth; nothing runs yet. What the daemons said is shown when the test fails."""
    with Host() as h:
        yield h
        for d in h.instance.daemons:
            print(f"--- leasegated {d.role}\n{d.stderr}")


FOREIGN = """
#include <linux/bpf.h>
__attribute__((section("xdp"), used)) int lgt_foreign(struct xdp_md *ctx)
{
	return XDP_PASS;
}
char foreign_license[] __attribute__((section("license"), used)) = "GPL";
"""


@pytest.fixture(scope="session")
def foreign_object(tmp_path_factory):
    """An XDP program of somebody else, as a file for ip(8)."""
    folder = tmp_path_factory.mktemp("foreign")
    source, made = folder / "foreign.bpf.c", folder / "foreign.bpf.o"
    source.write_text(FOREIGN)
    subprocess.run([os.environ.get("CLANG", "clang"), "-target", "bpf", "-O2", "-g", "-idirafter",
                    f"/usr/include/{os.uname().machine}-linux-gnu", "-c", source, "-o", made], check=True)
    return made
