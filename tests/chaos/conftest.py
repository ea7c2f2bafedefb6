# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Fixtures of the chaos tests. They need what the end-to-end tests need, and etcd (scripts/fetch-etcd)."""
import os
import subprocess
import sys
import tempfile

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "e2e")]

import lib.machine  # noqa: E402
import scenarios  # noqa: E402
from lib.etcd import ETCD  # noqa: E402
from lib.wait import deadline_of  # noqa: E402
from world import World  # noqa: E402

TEST_S = 240		# no test may hang the run


def seeds():
    """$CHAOS_SEED: this one; $CHAOS_SEEDS: so many, or FIRST-LAST."""
    if "CHAOS_SEED" in os.environ:
        return [int(os.environ["CHAOS_SEED"])]
    first, _, last = os.environ.get("CHAOS_SEEDS", "1").partition("-")
    return list(range(int(first), int(last) + 1)) if last else list(range(1, int(first) + 1))


def pytest_generate_tests(metafunc):
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", seeds())


def pytest_configure(config):
    config.addinivalue_line("markers", "long: runs only with -m long")
    config.addinivalue_line("markers", "alone: measures how much is served, so scripts/chaos runs nothing beside it")
    if not config.option.markexpr:
        config.option.markexpr = "not long"


GROUP_MOST = 12		# scenarios that one worker takes at a time


def pytest_collection_modifyitems(config, items):
    """Scenarios whose worlds are made alike run one after the other on one worker, which makes that world once (--dist loadgroup)."""
    alike = {}
    for item in items:
        if "pool" in getattr(item, "fixturenames", ()):
            s = scenarios.ALL[item.callspec.params["name"]]
            alike.setdefault((s.fresh, repr(s.world)), []).append(item)
    n = sum(map(len, alike.values()))
    most = min(GROUP_MOST, max(1, -(-n // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1)))))
    for i, of in enumerate(alike.values()):
        n_groups = -(-len(of) // most)
        for k, item in enumerate(of):
            item.add_marker(pytest.mark.xdist_group(f"{i}-{k * n_groups // len(of)}"))
    items[:] = [item for item in items if "pool" not in item.fixturenames] + [item for of in alike.values() for item in of]


@pytest.fixture(scope="session")
def machine():
    """What all worlds need is there; state of daemons and of the cluster is in memory, so that no test waits for the machine's disk."""
    lib.machine.check("the chaos tests", (ETCD, "scripts/fetch-etcd"))
    if os.path.isdir("/dev/shm"):
        tempfile.tempdir = "/dev/shm"


@pytest.fixture(scope="session")
def shim(machine, tmp_path_factory):
    """shim.c as a library that is preloaded."""
    made = tmp_path_factory.mktemp("shim") / "shim.so"
    subprocess.run([os.environ.get("CC", "gcc"), "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", made,
                    os.path.join(HERE, "shim.c")], check=True)
    return str(made)


@pytest.fixture
def world(shim):
    """Makes worlds; what became of them is told at the end."""
    made = []

    def make(**keys):
        made.append(World(shim, **keys).__enter__())
        return made[0]
    yield make
    for w in made:
        print(w.story())
        w.tell()
        w.__exit__(None, None, None)


@pytest.fixture(autouse=True)
def deadline():
    with deadline_of(TEST_S):
        yield
