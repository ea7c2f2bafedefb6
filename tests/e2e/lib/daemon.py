# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Daemons as child processes in a namespace, and the operator's tool."""
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading

from . import LEASEGATE, LEASEGATED, PINS, ROOT, RUN
from .net import remove_pins
from .wait import until

READY = "leasegated: info: ready"


def yaml_text(value, indent=0):
    """Plain block YAML of dicts, lists and scalars: what a person would write."""
    pad = "  " * indent
    if isinstance(value, dict):
        out = ""
        for k, v in value.items():
            nested = isinstance(v, (dict, list)) and v
            out += f"{pad}{k}:\n{yaml_text(v, indent + 1)}" if nested else f"{pad}{k}: {_scalar(v)}\n"
        return out
    out = ""
    for v in value:
        if isinstance(v, dict):
            lines = yaml_text(v, indent + 1)
            out += f"{pad}- {lines[len(pad) + 2:]}"
        else:
            out += f"{pad}- {_scalar(v)}\n"
    return out


def _scalar(v):
    if isinstance(v, bool):
        return "true" if v else "false"
    if isinstance(v, (dict, list)):
        return "{}" if isinstance(v, dict) else "[]"
    return str(v)


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return [int(word) for word in f.read().split()]


class Daemon:
    """One `leasegated ROLE` in a namespace. stderr is kept line by line; nothing is ever read from it twice."""

    def __init__(self, ns, role, config, args=(), before=()):
        """before: words put between entering the namespace and the daemon, for example a dropper of capabilities."""
        self.ns, self.role = ns, role
        self.argv = ns.enter_argv() + list(before) + [LEASEGATED, role, "--config", config] + list(args)
        self.lines, self.process, self._reader = [], None, None

    def start(self):
        # Children share no terminal signals with us: Ctrl-C must reach the one who cleans up, not the cleaned.
        self.process = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.lines = []
        self._reader = threading.Thread(target=self._read, args=(self.process, self.lines), daemon=True)
        self._reader.start()
        return self

    @staticmethod
    def _read(process, lines):
        for line in process.stderr:
            lines.append(line.rstrip("\n"))
        process.stderr.close()

    @property
    def pid(self):
        return self.process.pid

    @property
    def alive(self):
        return self.process is not None and self.process.poll() is None

    @property
    def stderr(self):
        return "\n".join(self.lines)

    def wait_ready(self, timeout_s=15):
        def ready():
            if READY in self.lines:
                return True
            if not self.alive:
                self._reader.join(2)
                raise RuntimeError(f"leasegated {self.role} ended with {self.process.returncode}:\n{self.stderr}")
            return False
        until(ready, f"leasegated {self.role} is ready", timeout_s)
        return self

    def wait_exit(self, timeout_s=10):
        """Returns the exit code."""
        code = self.process.wait(timeout_s)
        self._reader.join(2)
        return code

    def stop(self, timeout_s=10):
        """Orderly: SIGTERM. Returns the exit code; a daemon that does not go is killed and reported as an error."""
        if not self.alive:
            return None if self.process is None else self.process.returncode
        self.process.terminate()
        try:
            return self.wait_exit(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"leasegated {self.role} ignored SIGTERM for {timeout_s} s:\n{self.stderr}") from None

    def kill(self):
        """kill -9."""
        if self.alive:
            self.process.kill()
        if self.process is not None:
            self.wait_exit()

    def reload(self):
        os.kill(self.pid, signal.SIGHUP)

    def keeper(self):
        """The process that starts the one that speaks HTTP: the only child a daemon has."""
        got = children(self.pid)
        assert len(got) == 1, got
        return got[0]

    def http_child(self):
        got = children(self.keeper())
        assert len(got) == 1, got
        return got[0]


def abi_version():
    """Of the maps, as the programs are built with."""
    with open(os.path.join(ROOT, "include/leasegate/abi.h"), encoding="utf-8") as f:
        return int(re.search(r"#define LG_ABI_VERSION (\d+)", f.read())[1])


class Instance:
    """A named instance of leasegate on one host: its files, its daemons, the tool; and its removal from the machine."""

    def __init__(self, ns, name):
        self.ns, self.name = ns, name
        self.pins = os.path.join(PINS, name)
        self.maps = os.path.join(self.pins, f"v{abi_version()}")
        self.run_dir = os.path.join(RUN, name)
        self.folder = None
        self.daemons = []

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix=self.name + "-")
        return self

    def __exit__(self, *_exc):
        errors = []
        for d in self.daemons:
            try:
                d.stop()
            except AssertionError as e:
                errors.append(str(e))
            errors += [line for line in d.lines if ": system call " in line]
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self.tool("detach")
        with contextlib.suppress(OSError):
            remove_pins(self.name)
        shutil.rmtree(self.run_dir, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        if errors and _exc[0] is None:
            raise AssertionError("\n".join(errors))

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        """Writes a file of the instance, in one step as an editor would. Returns its path."""
        path = self.path(name)
        with open(path + ".new", "w", encoding="utf-8") as f:
            f.write(text)
        os.rename(path + ".new", path)
        return path

    def config(self, file="node.yaml", **keys):
        """Writes a configuration file; instance and state_dir are filled in. Returns its path."""
        return self.write(file, yaml_text({"instance": self.name, "state_dir": self.path("state"), **keys}))

    def daemon(self, role, config, args=(), before=()):
        d = Daemon(self.ns, role, config, args, before)
        self.daemons.append(d)
        return d

    def node(self, config=None, **kw):
        """Starts a node and waits until it is ready."""
        return self.daemon("node", config or self.path("node.yaml"), **kw).start().wait_ready()

    def tool(self, *argv, timeout_s=20):
        """Runs `leasegate --instance NAME ...`; returns the CompletedProcess."""
        return self.ns.run(LEASEGATE, "--instance", self.name, *argv, timeout_s=timeout_s)

    def json(self, *argv):
        """The parsed answer of `leasegate --json ...`, which must succeed."""
        r = self.tool("--json", *argv)
        if r.returncode:
            raise OSError(f"leasegate --json {' '.join(argv)}: exit {r.returncode}: {r.stderr.strip()} {r.stdout.strip()}")
        return json.loads(r.stdout)

    def key(self, source, rule=None):
        """The one bucket of a source (of a rule), or None."""
        got = [k for k in self.json("keys", *(["--rule", rule] if rule else [])) if k["key"].split("/")[0] == source]
        assert len(got) <= 1, got
        return got[0] if got else None

    def counts(self, rule):
        """{reason: packets} of a rule, as the kernel counted them."""
        got = [r for r in self.json("rules") if r["rule"] == rule]
        assert len(got) == 1, got
        return {reason: c["packets"] for reason, c in got[0]["counts"].items()}

    def seen(self, rule):
        """Packets a rule was asked about."""
        return sum(self.counts(rule).values())

    def leftovers(self):
        """Whatever of the instance is still on the machine, for tests that demand nothing."""
        sockets = [f for f in os.listdir(self.run_dir) if f.endswith(".sock")] if os.path.isdir(self.run_dir) else []
        return [self.pins] * os.path.exists(self.pins) + [os.path.join(self.run_dir, s) for s in sockets]
