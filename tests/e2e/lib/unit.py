# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A unit of systemd without systemd: read, and run with the restrictions that it asks for, as far as a process can lay them on itself.

    python3 unit.py UNIT [--writable DIR]... -- COMMAND...

Becomes COMMAND with the unit's bounding set, limits, mask, read-only file systems (but DIRs and what ReadWritePaths= names), address
families and system calls. Left out is what hides folders (ProtectHome=, PrivateTmp=): the build may lie in them.
"""
import ctypes
import os
import resource
import subprocess
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, MS_PRIVATE, MS_REC, MS_BIND = 0x20000, 1 << 18, 1 << 14, 1 << 12
MOUNT_SETATTR, AT_RECURSIVE, ATTR_RDONLY = 442, 0x8000, 1
PR_SET_NO_NEW_PRIVS, PR_CAPBSET_DROP = 38, 24
ACT_ALLOW, ACT_EPERM = 0x7FFF0000, 0x00050001
CMP_EQ, CMP_MASKED_EQ = 4, 7
WRITE, EXEC = 2, 4
FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16, "AF_PACKET": 17}
CAPS = {"CAP_NET_BIND_SERVICE": 10, "CAP_SETGID": 6, "CAP_SETUID": 7, "CAP_SETPCAP": 8, "CAP_NET_ADMIN": 12, "CAP_SYS_ADMIN": 21,
        "CAP_PERFMON": 38, "CAP_BPF": 39}


def read(path):
    """{key: [value, ...]} of all sections; no key of ours is in two of them."""
    keys = {}
    with open(path, encoding="utf-8") as f:
        for line in f:
            name, found, value = line.strip().partition("=")
            if found and name[0] not in "#;":
                keys.setdefault(name, []).append(value)
    return keys


def words(unit, key):
    return " ".join(unit.get(key, [])).split()


def check(result, what):
    if result:
        raise OSError(ctypes.get_errno(), what)


class _MountAttr(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns")]


def _readonly(path, on):
    attr = _MountAttr(set=ATTR_RDONLY if on else 0, clear=0 if on else ATTR_RDONLY)
    check(LIBC.syscall(MOUNT_SETATTR, -100, path.encode(), AT_RECURSIVE, ctypes.byref(attr), ctypes.sizeof(attr)), path)


def limit_files(writable):
    """All is read-only but what is named. One mount more for each, so that it can differ from what is around it."""
    check(LIBC.unshare(CLONE_NEWNS), "unshare")
    check(LIBC.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "private")
    for path in writable:
        check(LIBC.mount(path.encode(), path.encode(), None, MS_BIND | MS_REC, None), path)
    _readonly("/", True)
    for path in writable:
        _readonly(path, False)


class _Compare(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


class _Filter:
    def __init__(self):
        self.lib = ctypes.CDLL("libseccomp.so.2")
        self.lib.seccomp_init.restype = ctypes.c_void_p
        self.lib.seccomp_load.argtypes = [ctypes.c_void_p]
        self.lib.seccomp_rule_add_array.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p]
        self.ctx = self.lib.seccomp_init(ctypes.c_uint32(ACT_EPERM))

    def allow(self, name, *compare):
        number = self.lib.seccomp_syscall_resolve_name(name.encode())
        if number >= 0 and self.lib.seccomp_rule_add_array(self.ctx, ACT_ALLOW, number, len(compare),
                                                           (_Compare * len(compare))(*compare)):
            raise OSError(f"seccomp: {name}")

    def load(self):
        if self.lib.seccomp_load(self.ctx):
            raise OSError("seccomp_load")


def syscall_groups():
    groups, at = {}, None
    for line in subprocess.run(["systemd-analyze", "syscall-filter"], capture_output=True, text=True, check=True).stdout.splitlines():
        if line.startswith("@"):
            at = groups.setdefault(line.strip(), [])
        elif line.startswith("    ") and not line.strip().startswith("#") and at is not None:
            at.append(line.strip())
    return groups


def expand(names, groups):
    out = set()
    for name in names:
        out |= expand(groups[name], groups) if name.startswith("@") else {name}
    return out


def limit_calls(unit):
    """SystemCallFilter=, RestrictAddressFamilies= and MemoryDenyWriteExecute= in one filter."""
    calls = expand(words(unit, "SystemCallFilter"), syscall_groups())
    seccomp = _Filter()
    for name in sorted(calls - {"socket", "mmap", "mprotect"}):
        seccomp.allow(name)
    for family in words(unit, "RestrictAddressFamilies"):
        seccomp.allow("socket", _Compare(0, CMP_EQ, FAMILIES[family], 0))
    for bit in (WRITE, EXEC):
        seccomp.allow("mmap", _Compare(2, CMP_MASKED_EQ, bit, 0))
    seccomp.allow("mprotect", _Compare(2, CMP_MASKED_EQ, EXEC, 0))
    return seccomp


def limit_privileges(unit):
    kept = {CAPS[name] for name in words(unit, "CapabilityBoundingSet")}
    with open("/proc/sys/kernel/cap_last_cap", encoding="ascii") as f:
        last = int(f.read())
    for cap in range(last + 1):
        if cap not in kept:
            check(LIBC.prctl(PR_CAPBSET_DROP, cap, 0, 0, 0), f"bounding set, {cap}")
    if words(unit, "User"):
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
    check(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")


def main():
    split = sys.argv.index("--")
    unit, writable, command = read(sys.argv[1]), sys.argv[3:split:2], sys.argv[split + 1:]
    for key, what in (("LimitNOFILE", resource.RLIMIT_NOFILE), ("LimitCORE", resource.RLIMIT_CORE)):
        n = int(words(unit, key)[0])
        hard = resource.getrlimit(what)[1]
        n = n if hard == resource.RLIM_INFINITY else min(n, hard)
        resource.setrlimit(what, (n, n))
    os.umask(int(words(unit, "UMask")[0], 8))
    calls = limit_calls(unit)
    limit_files(writable + words(unit, "ReadWritePaths"))
    limit_privileges(unit)
    calls.load()
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
