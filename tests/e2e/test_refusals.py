# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What a daemon cannot do it says in one line, with the exit code that names the kind, and it leaves nothing half done."""
import contextlib
import os
import re
import socket
import subprocess

import pytest
from lib import BPFFS
from lib.net import ip
from test_limits import bucket_rule

REFUSED, USAGE, PRIVILEGE, NO_BPFFS = 1, 2, 3, 5
RULES = bucket_rule("1/1h", 50)


def refused(host, code, *words, config=None, role="node", before=(), args=()):
    """Starts a daemon that must give up with this code and exactly one line of error, which has all the words."""
    d = host.instance.daemon(role, config or host.instance.path("node.yaml"), args=args, before=before).start()
    got = d.wait_exit()
    assert got == code, f"exit {got}, want {code}:\n{d.stderr}"
    errors = [line for line in d.lines if not re.match(r"leasegated: (info|warning): ", line)]
    assert len(errors) == 1 and errors[0].startswith("leasegated: error: "), d.stderr
    for word in words:
        assert word in errors[0], f"{word!r} is not in {errors[0]!r}"
    return errors[0]


def nothing_left(host):
    assert host.instance.leftovers() == []
    assert "prog" not in host.ns.link("in0").get("xdp", {})
    assert host.ns.listening() == []
    assert host.ns.run("tc", "qdisc", "show", "dev", "in0", "clsact").stdout == ""


BAD_CONFIGS = {
    "an unknown key": ("instance: x\nintrfaces:\n  - name: in0\n", ":2", "intrfaces"),
    "a truncated list": ("instance: x\ninterfaces: [{name: in0, xdp: native\n", ":"),
    "a wrong choice": ("instance: x\nrules: rules.yaml\ninterfaces:\n  - name: in0\n    xdp: fast\n", ":5", "fast"),
    "a list for a scalar": ("instance: [a, b]\n", ":1", "instance"),
    "an instance that is a path": ("instance: ../x\ninterfaces:\n  - name: in0\n", ":1", "instance"),
    "not YAML at all": ("\x01\x02\x03", ":1"),
    "an empty file": ("", "node.yaml"),
    "a wrong address": ("instance: x\nrules: rules.yaml\nmetrics: 127.0.0.1:99999\ninterfaces:\n  - name: in0\n", ":3", "metrics"),
}


@pytest.mark.parametrize("case", BAD_CONFIGS)
def test_a_bad_configuration_is_refused_with_its_line(host, case):
    text, *words = BAD_CONFIGS[case]
    host.instance.write("rules.yaml", RULES)
    host.instance.write("node.yaml", text)
    refused(host, REFUSED, host.instance.path("node.yaml"), *words)
    nothing_left(host)


BAD_RULES = {
    "a wrong algorithm": (RULES.replace("token_bucket", "leaky_bucket"), ":7", "leaky_bucket"),
    "an unknown key": (RULES.replace("unit:", "units:"), ":6", "units"),
    "a limit without a time": (RULES.replace("1/1h", "100"), ":8", "limit"),
    "a negative limit": (RULES.replace("1/1h", "-5/1s"), ":8", "limit"),
    "a prefix longer than an address": (RULES.replace("{source: 32}", "{source: 129}"), ":5", "129"),
    "two rules of one name": (RULES + RULES.removeprefix("rules:\n"), "per-source"),
    "a file that ends in the middle": (RULES[:RULES.index("unit")] + "unit: {", ":"),
    "a list of nothing known": ("- 1\n- 2\n", ":1"),
}


@pytest.mark.parametrize("case", BAD_RULES)
def test_bad_rules_are_refused_with_their_line(host, case):
    text, *words = BAD_RULES[case]
    host.configure(text)
    refused(host, REFUSED, host.instance.path("rules.yaml"), *words)
    nothing_left(host)


def test_files_that_are_not_there_are_named(host):
    refused(host, REFUSED, "absent.yaml", "No such file", config=host.instance.path("absent.yaml"))
    host.configure(RULES)
    os.unlink(host.instance.path("rules.yaml"))
    refused(host, REFUSED, "rules.yaml", "No such file")
    nothing_left(host)


def test_an_unknown_interface_is_named(host):
    host.configure(RULES)
    host.instance.config(rules="rules.yaml", interfaces=[{"name": "in0", "xdp": "native"}, {"name": "nope0", "xdp": "native"}])
    refused(host, REFUSED, "nope0")
    nothing_left(host)


@pytest.mark.parametrize("dropped, word", [("cap_bpf", "CAP_BPF"), ("cap_net_admin", "CAP_NET_ADMIN")])
def test_a_missing_capability_is_named(host, dropped, word):
    host.configure(RULES)
    # CAP_SYS_ADMIN stands for both in the kernel's eyes, so it goes too.
    drop = ["setpriv", f"--bounding-set=-{dropped[4:]},-sys_admin", "--inh-caps=-all"]
    refused(host, PRIVILEGE, word, before=drop)
    nothing_left(host)


def test_a_machine_without_bpffs_is_told_how_to_mount_it(host):
    host.configure(RULES)
    hide = ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs none {BPFFS} && exec "$@"', "sh"]
    refused(host, NO_BPFFS, BPFFS, "mount", before=hide)
    nothing_left(host)


def test_a_second_daemon_of_an_instance_is_refused_and_the_first_goes_on(host):
    first = host.start(RULES)
    link = host.instance.json("status")["attachments"]
    host.instance.config("second.yaml", rules="rules.yaml", metrics="off", interfaces=[{"name": "in0", "xdp": "native"}])
    refused(host, REFUSED, host.instance.name, "running", config=host.instance.path("second.yaml"))
    assert first.alive
    assert host.instance.json("status")["attachments"] == link
    assert host.instance.json("status")["node"]["pid"] == first.pid


@contextlib.contextmanager
def taken(ns, port):
    with contextlib.closing(ns.socket(socket.AF_INET, socket.SOCK_STREAM)) as s:
        s.bind(("127.0.0.1", port))
        s.listen()
        yield


def test_a_metrics_port_in_use_is_named(host):
    host.configure(RULES)
    with taken(host.ns, 9464):
        refused(host, REFUSED, "127.0.0.1:9464", "another process uses the port")
    nothing_left(host)


@pytest.mark.parametrize("port, what", [(7400, "127.0.0.1:7400"), (9465, "127.0.0.1:9465")])
def test_a_region_server_whose_port_is_in_use_names_it(host, port, what):
    host.instance.write("rules.yaml", RULES)
    config = host.instance.config("region.yaml", region="here", rules="rules.yaml", listen="127.0.0.1:7400",
                                  regions={"version": 1, "list": [{"name": "here", "address": "127.0.0.1:7400", "hosts": 1}]})
    with taken(host.ns, port):
        refused(host, REFUSED, what, "another process uses the port", role="region", config=config)
    nothing_left(host)


@pytest.mark.parametrize("mode", ["native", "generic"])
def test_a_foreign_xdp_program_is_named_and_left_alone(host, foreign_object, mode):
    host.configure(RULES)
    host.instance.config(rules="rules.yaml", interfaces=[{"name": "in0", "xdp": mode}])
    ip("link", "set", "dev", "in0", "xdpdrv" if mode == "native" else "xdpgeneric", "obj", foreign_object, "sec", "xdp", ns=host.ns)
    before = host.ns.link("in0")["xdp"]
    line = refused(host, REFUSED, "in0", "lgt_foreign")
    assert re.search(rf"\b{before['prog']['id']}\b", line)
    assert host.ns.link("in0")["xdp"] == before
    assert host.instance.leftovers() == []
    r = host.instance.tool("detach")
    assert host.ns.link("in0")["xdp"] == before, r.stderr


def test_detach_leaves_the_programs_of_others(host, foreign_object):
    host.start(RULES, "tc")
    ip("link", "set", "dev", "in0", "xdpdrv", "obj", foreign_object, "sec", "xdp", ns=host.ns)
    foreign = host.ns.link("in0")["xdp"]
    host.instance.daemons[0].stop()
    assert host.instance.tool("detach").returncode == 0
    assert host.ns.link("in0")["xdp"] == foreign
    assert host.instance.leftovers() == []


def test_detach_ends_a_running_node_and_its_enforcement(host):
    """A node that went on would attach again, or call itself ready while nothing is judged."""
    node = host.start(RULES)
    assert host.instance.tool("detach").returncode == 0
    assert node.wait_exit() == 0
    nothing_left(host)


USAGE_ERRORS = {
    "no role": [],
    "an unknown role": ["nod", "--config", "x"],
    "an unknown option": ["node", "--confg", "x"],
    "an option without its value": ["node", "--config"],
    "no configuration": ["node"],
    "a word too many": ["node", "--config", "x", "y"],
}


@pytest.mark.parametrize("case", USAGE_ERRORS)
def test_a_daemon_told_nonsense_explains_its_usage(case):
    from lib import LEASEGATED
    r = subprocess.run([LEASEGATED, *USAGE_ERRORS[case]], capture_output=True, text=True, timeout=10)
    assert r.returncode == USAGE, r.stderr
    assert r.stdout == "" and "--help" in r.stderr
