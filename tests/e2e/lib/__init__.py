# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What the end-to-end tests and scripts/demo share: namespaces, daemons, real traffic, a delay relay, laws as numbers.

Everything that is created carries a prefix with the pid of its maker (PREFIX), lives in a context manager, and is removed
on every way out. Nothing here sleeps for a fixed time to wait for something: see wait.until().
"""
import contextlib
import os

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
BUILD = os.environ.get("LG_BUILD", os.path.join(ROOT, "build"))
LEASEGATED = os.path.join(BUILD, "leasegated")
LEASEGATE = os.path.join(BUILD, "leasegate")
BPFFS = "/sys/fs/bpf"
PINS = os.path.join(BPFFS, "leasegate")
RUN = "/run/leasegate"
PREFIX = f"lgt-{os.getpid()}-"


def be_prompt():
    """Runs us and the daemons we start ahead of what else a busy machine does: traffic must flow at its rate to mean something."""
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -10)
