# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Waiting for a condition with a deadline, and deadlines of whole tests."""
import contextlib
import signal
import time


@contextlib.contextmanager
def deadline_of(seconds):
    """What hangs within fails with a traceback of where."""
    def late(_signal, _frame):
        raise TimeoutError(f"the test took longer than {seconds} s")
    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def until(condition, what, timeout_s=10.0, every_s=0.02):
    """Calls condition() until it returns something true, which is returned; AssertionError with `what` after timeout_s.

    An AssertionError, OSError or ValueError inside the condition counts as "not yet" and is shown if it stays so.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        why = None
        try:
            got = condition()
            if got:
                return got
        except (AssertionError, OSError, ValueError) as e:
            why = e
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {timeout_s:g} s: {what}" + (f" ({why})" if why else ""))
        time.sleep(every_s)
