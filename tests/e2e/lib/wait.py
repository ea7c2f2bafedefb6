# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Waiting for a condition with a deadline."""
import time


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
