# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Fixtures of the chaos tests. They need what the end-to-end tests need, and etcd (scripts/fetch-etcd)."""
import os
import signal
import subprocess
import sys
import tempfile

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "e2e")]

from lib import BPFFS, LEASEGATE, LEASEGATED, be_prompt, net  # noqa: E402
from lib.etcd import ETCD  # noqa: E402

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
    config.addinivalue_line("markers", "long: minutes of traffic; runs only with -m long")
    if not config.option.markexpr:
        config.option.markexpr = "not long"


@pytest.fixture(scope="session")
def machine():
    """What all worlds need is there; state of daemons and of the cluster is in memory, so that no test waits for the machine's disk."""
    if os.geteuid() != 0:
        pytest.exit("the chaos tests need root: they make namespaces and load BPF programs", 3)
    for path, made_by in ((LEASEGATED, "make"), (LEASEGATE, "make"), (ETCD, "scripts/fetch-etcd")):
        if not os.path.exists(path):
            pytest.exit(f"{path} is missing: run {made_by} first", 1)
    if not os.path.ismount(BPFFS):
        pytest.exit(f"no bpf file system on {BPFFS}", 5)
    net.sweep()
    be_prompt()
    if os.path.isdir("/dev/shm"):
        tempfile.tempdir = "/dev/shm"


@pytest.fixture(scope="session")
def shim(machine, tmp_path_factory):
    """shim.c as a library that is preloaded."""
    made = tmp_path_factory.mktemp("shim") / "shim.so"
    subprocess.run([os.environ.get("CC", "gcc"), "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", made,
                    os.path.join(HERE, "shim.c")], check=True)
    return str(made)


@pytest.fixture(autouse=True)
def deadline():
    def late(_signal, _frame):
        raise TimeoutError(f"the test took longer than {TEST_S} s")
    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(TEST_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
