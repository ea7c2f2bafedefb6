# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What each run of tests on real daemons needs of the machine."""
import os

import pytest

from . import BPFFS, LEASEGATE, LEASEGATED, be_prompt, net


def check(tests, *more):
    """Ends the run with an exit code unless `tests` can work here; what an earlier run left is removed. more: (path, what makes it)."""
    if os.geteuid() != 0:
        pytest.exit(f"{tests} need root: they make namespaces and load BPF programs", 3)
    for path, made_by in ((LEASEGATED, "make"), (LEASEGATE, "make"), *more):
        if not os.path.exists(path):
            pytest.exit(f"{path} is missing: run {made_by} first", 1)
    if not os.path.ismount(BPFFS):
        pytest.exit(f"no bpf file system on {BPFFS}", 5)
    net.sweep()
    be_prompt()
