#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs a command that may not call bpf(), as a container's manager would see to it: by a seccomp filter.

    forbid.py ANSWER [COMMAND-NUMBER...] -- PROGRAM [ARG...]

ANSWER is the name of an errno, or KILL. With numbers only these commands of bpf() are refused (5 loads a program, 28 makes a link).
"""
import ctypes
import errno
import os
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
RET_KILL_PROCESS, RET_ERRNO, RET_ALLOW = 0x80000000, 0x00050000, 0x7fff0000
LD_ABS, JEQ, RET = 0x20, 0x15, 0x06
NR_BPF = {"x86_64": 321, "aarch64": 280}


def program(answer, commands):
    """Classic BPF. Of the call's data the number stands at 0, the first argument's lower half at 16."""
    verdict = RET_KILL_PROCESS if answer == "KILL" else RET_ERRNO | getattr(errno, answer)
    n = len(commands)
    # Jumps are counted from the instruction behind; the last two are `allow` and the verdict.
    look = [(LD_ABS, 0, 0, 16)] + [(JEQ, n - i, 0, c) for i, c in enumerate(commands)] if n else []
    ours = len(look)
    number = (JEQ, 0 if n else 1, ours, NR_BPF[os.uname().machine])
    return [(LD_ABS, 0, 0, 0), number] + look + [(RET, 0, 0, RET_ALLOW), (RET, 0, 0, verdict)]


def main():
    at = sys.argv.index("--")
    code = program(sys.argv[1], [int(n) for n in sys.argv[2:at]])
    raw = b"".join(struct.pack("HBBI", *i) for i in code)
    held = ctypes.create_string_buffer(raw, len(raw))
    fprog = struct.pack("HxxxxxxP", len(code), ctypes.addressof(held))
    libc = ctypes.CDLL(None, use_errno=True)
    for args in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, fprog, 0, 0)):
        if libc.prctl(*args):
            sys.exit(f"prctl{args[:2]}: {os.strerror(ctypes.get_errno())}")
    os.execvp(sys.argv[at + 1], sys.argv[at + 1:])


if __name__ == "__main__":
    main()
