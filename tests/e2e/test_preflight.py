# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What a machine lacks is named before anything is loaded, by its own exit code; and a node that meets it says the same and ends."""
import contextlib
import json
import os
import re
import subprocess
import sys

import pytest
from lib import BPFFS, LEASEGATE, PREFIX
from lib.host import Host
from lib.net import ip, remove_pins, tc
from lib.wait import until
from test_limits import bucket_rule
from test_refusals import NO_BPFFS, PRIVILEGE, REFUSED, USAGE, nothing_left, refused

RULES = bucket_rule("1/1h", 50)
VLAN_RULES = RULES.replace("match: {", "match: {vlan: 7, ")
FORBID = [sys.executable, os.path.join(os.path.dirname(__file__), "lib/forbid.py")]
PROG_LOAD, LINK_CREATE = "5", "28"


@pytest.fixture(scope="module")
def idle():
    """A host for those who only look."""
    with Host() as h:
        yield h


def drop(*caps):
    """Words that run a command without these capabilities. CAP_SYS_ADMIN stands for some of them in the kernel's eyes."""
    return ["setpriv", "--bounding-set=" + ",".join(f"-{c}" for c in caps), "--inh-caps=-all"]


class Report:
    """What `leasegate preflight --json` said."""

    def __init__(self, host, *argv, before=(), quick=True):
        words = [*before, LEASEGATE, "--instance", host.instance.name, "--json", "preflight", *(["--quick"] if quick else []), *argv]
        r = host.ns.run(*words)
        assert r.stderr == "", r.stderr
        self.code, self.all = r.returncode, json.loads(r.stdout)
        assert self.all["exit"] == self.code

    def find(self, name, obj=None):
        """The severity and text of a finding, which is there once."""
        got = [f for f in self.all["findings"] if f["id"] == name and obj in (None, f["object"])]
        assert len(got) == 1, (name, got)
        return got[0]["severity"], got[0]["found"]

    def names(self, severity):
        return {f["id"] for f in self.all["findings"] if f["severity"] == severity}


def test_a_machine_that_can_run_it_is_told_so_with_all_that_was_looked_at(host):
    """Features are really tried, the programs really loaded; nothing stays."""
    host.configure(RULES)
    limit = ["prlimit", "--memlock=65536:65536"]
    got = Report(host, "--config", host.instance.path("node.yaml"), before=limit, quick=False)
    assert got.code == 0 and got.names("blocker") == set()
    assert got.find("programs") == ("ok", "the kernel takes them")
    assert got.find("memlock")[0] == "ok" and got.all["machine"]["memlock_bytes"] == 65536
    assert all(v for name, v in got.all["machine"]["features"].items() if name != "freplace") and got.all["machine"]["jit"] is True
    assert re.fullmatch(r"veth, driver veth, MTU 1500, \d+ receiving and \d+ sending queues?", got.find("interface", "in0")[1])
    assert got.find("xdp-native", "in0")[0] == "ok" and got.find("xdp-veth", "in0")[0] == "note"
    assert {f["object"] for f in got.all["findings"] if f["id"] == "folder"} == {host.instance.run_dir, host.instance.path("state")}
    for f in got.all["findings"]:
        assert set(f) == {"id", "severity", "object", "found", "why", "do", "exit"} and all(str(v) for v in f.values())
    nothing_left(host)


def test_files_that_a_node_can_no_longer_read_once_it_has_given_up_its_privileges_are_named(host):
    host.configure(RULES)
    files = {name: host.instance.write(name, "x") for name in ("ca.pem", "c.pem", "k.pem")}
    config = host.instance.config(rules="rules.yaml", interfaces=[], region="eu", tls={"ca": files["ca.pem"], "certificate": files["c.pem"],
                                                                                       "key": files["k.pem"]},
                                  regions={"version": 1, "list": [{"name": "eu", "address": "127.0.0.1:7400", "hosts": 1}]})
    os.mkdir(host.instance.path("state"))
    for name in ("k.pem", "state"):
        os.chown(host.instance.path(name), 65533, 65533)
        os.chmod(host.instance.path(name), 0o700)
    got = Report(host, "--config", config)
    assert got.code == 0, got.all
    assert got.find("readable", files["k.pem"]) == ("warning", "cannot be read once privileges are given up: Permission denied")
    assert got.find("readable", host.instance.path("state")) == ("warning", "cannot be written once privileges are given up: Permission denied")
    for path in (files["ca.pem"], files["c.pem"], host.instance.path("rules.yaml")):
        assert got.find("readable", path) == ("ok", "can be read once privileges are given up")
    os.remove(files["k.pem"])
    got = Report(host, "--config", config)
    assert got.code == REFUSED and got.find("readable", files["k.pem"]) == ("blocker", "cannot be read: No such file or directory")


@pytest.mark.parametrize("dropped, finding", [(("bpf", "sys_admin"), "cap-bpf"), (("net_admin",), "cap-net-admin"),
                                              (("perfmon", "sys_admin"), "cap-perfmon"), (("setuid",), "cap-setuid")])
def test_each_missing_capability_is_a_finding_and_a_code_of_its_own(idle, dropped, finding):
    got = Report(idle, "in0", before=drop(*dropped))
    assert got.code == PRIVILEGE and got.names("blocker") == {finding}
    assert got.find(finding)[0] == "blocker" and got.find(finding)[1].startswith("this process")


def test_a_capability_that_another_stands_for_is_none_that_is_missing(idle):
    got = Report(idle, before=["capsh", "--drop=cap_bpf", "--shell=/usr/bin/env", "--", "--"])
    assert got.code == 0 and "CAP_SYS_ADMIN" in got.find("cap-bpf")[1]


def test_without_root_it_says_what_it_can_see_and_what_it_cannot(idle):
    got = Report(idle, "in0", before=["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"])
    assert got.code == PRIVILEGE
    assert got.find("interface", "in0")[0] == "ok" and got.find("hooks-unknown", "in0")[0] == "note"
    assert "XDP programs" in got.find("not-looked-at")[1]
    assert got.names("blocker") == {"cap-bpf", "cap-net-admin", "cap-perfmon"}


@pytest.mark.parametrize("answer, words", [("EPERM", "refused (Operation not permitted)"), ("ENOSYS", "refused (Function not"),
                                           ("KILL", "ends the process")])
def test_a_filter_of_system_calls_is_named_whatever_it_answers(idle, answer, words):
    got = Report(idle, "in0", before=[*FORBID, answer, "--"])
    assert got.code == PRIVILEGE and got.names("blocker") == {"seccomp"}
    assert words in got.find("seccomp")[1] and "a seccomp filter is in force" in got.find("seccomp")[1]


def test_in_a_user_namespace_capabilities_are_held_and_do_not_count(idle):
    got = Report(idle, "in0", before=["unshare", "--user", "--map-root-user"])
    assert got.code == PRIVILEGE and got.names("blocker") == {"user-namespace"}


@contextlib.contextmanager
def memory_group(limit_bytes):
    """Words that run a command in a control group of its own with this much memory."""
    for root, controllers, limit in (("/sys/fs/cgroup/memory", "tasks", "memory.limit_in_bytes"),
                                     ("/sys/fs/cgroup", "cgroup.controllers", "memory.max")):
        group = f"{root}/{PREFIX}group"
        if os.path.exists(f"{root}/{controllers}"):
            break
    else:
        pytest.skip("no control groups of memory here")
    os.mkdir(group)
    try:
        with open(f"{group}/{limit}", "w", encoding="ascii") as f:
            f.write(str(limit_bytes))
        yield ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]
    finally:
        until(lambda: not os.path.isdir(group) or _removed(group), "the group is empty")


def _removed(group):
    with contextlib.suppress(OSError):
        os.rmdir(group)
    return not os.path.exists(group)


def test_tables_that_do_not_fit_into_the_control_group_are_in_the_way(idle):
    with memory_group(64 << 20) as inside:
        got = Report(idle, "in0", before=inside)
        assert got.code == REFUSED and got.names("blocker") == {"memory-cgroup"}
        assert got.all["machine"]["cgroup_bytes"] == 64 << 20
        idle.instance.write("rules.yaml", RULES)
        small = idle.instance.config(rules="rules.yaml", interfaces=[], max_keys=16, line_keys=0, log_keys=1, max_rules=1,
                                     max_connections=16)
        assert Report(idle, "--config", small, before=inside).find("memory-cgroup")[0] in ("ok", "warning")


def test_no_bpf_file_system_is_found_by_what_is_there_instead(idle):
    hide = ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs none {BPFFS} && exec "$@"', "sh"]
    got = Report(idle, before=hide)
    assert got.code == NO_BPFFS and got.names("blocker") == {"bpffs"}
    assert got.find("bpffs")[1] == f"no bpf file system at {BPFFS}: tmpfs"


def test_files_and_interfaces_that_a_node_would_refuse_are_refused(host):
    config = host.configure(RULES)
    host.instance.config(rules="rules.yaml", interfaces=[{"name": "nope0"}, {"name": "in0"}, {"name": "later0", "wait": True}])
    got = Report(host, "--config", config)
    assert got.code == REFUSED and got.find("interface", "nope0") == ("blocker", "there is no such interface")
    assert got.find("interface", "in0")[0] == "ok" and got.find("interface", "later0")[0] == "note"
    host.instance.write("rules.yaml", RULES.replace("limit:", "limt:"))
    got = Report(host, "--config", config)
    assert got.code == REFUSED and re.search(r"rules\.yaml:\d+:\d+: .*limt", got.find("rules")[1])
    got = Report(host, "--config", host.instance.path("absent.yaml"))
    assert got.code == REFUSED and "No such file" in got.find("configuration")[1]
    r = host.instance.tool("preflight", "--confg", "x")
    assert r.returncode == USAGE and "--confg" in r.stderr


def test_programs_of_others_are_named_with_id_and_are_in_the_way_of_xdp_alone(host, foreign_object):
    config = host.configure(RULES)
    ip("link", "set", "dev", "in0", "xdpdrv", "obj", foreign_object, "sec", "xdp", ns=host.ns)
    tc("qdisc", "add", "dev", "in0", "clsact", ns=host.ns)
    tc("filter", "add", "dev", "in0", "ingress", "pref", "3", "bpf", "bytecode", "1,6 0 0 0", ns=host.ns)
    number = host.ns.link("in0")["xdp"]["prog"]["id"]
    got = Report(host, "--config", config)
    assert got.code == REFUSED and got.names("blocker") == {"foreign-xdp"}
    assert got.find("foreign-xdp")[1] == f"program {number} (lgt_foreign, native, loaded by user 0) is attached"
    assert got.find("foreign-filter")[1] == "tc_ingress: a filter of kind bpf, priority 3"
    got = Report(host, "in0")
    assert got.code == 0 and got.find("foreign-xdp")[0] == "note"


def test_the_table_for_people_has_a_line_for_each_finding_and_says_why_where_something_is_to_be_done(host):
    host.ns.run("ethtool", "-K", "in0", "rx-udp-gro-forwarding", "on", check=True)
    r = host.instance.tool("preflight", "--quick", "in0")
    assert r.returncode == 0, r.stderr
    assert r.stdout.startswith("machine\n  ok       kernel") and "\ninterface in0\n  ok       interface " in r.stdout
    warning = r.stdout[r.stdout.index("  warning  udp-gro"):]
    assert re.match(r".*\n +why: datagrams.*\n(.*\n)?.* do: +ethtool -K in0 rx-udp-gro-forwarding off\n", warning), warning
    assert r.stdout.rstrip().endswith(": leasegate can run here")


# ---- the node itself ----

def test_a_node_whose_bpf_is_forbidden_says_so(host):
    host.configure(RULES)
    refused(host, PRIVILEGE, "seccomp filter", "bpf()", before=[*FORBID, "EPERM", "--"])
    nothing_left(host)


@pytest.mark.parametrize("answer", ["EPERM", "ENOSYS"])
def test_a_node_that_may_not_load_says_what_it_could_not_do(host, answer):
    host.configure(RULES)
    refused(host, PRIVILEGE, "cannot load the programs", "seccomp filter", before=[*FORBID, answer, PROG_LOAD, "--"])
    nothing_left(host)


@pytest.mark.long
@pytest.mark.parametrize("hook, words", [("tc", "in0: tc_ingress (tcx)"), ("xdp", "in0: xdp (native)")])
def test_a_node_that_loads_and_may_not_attach_names_interface_and_hook(host, hook, words):
    host.configure(RULES, hook)
    line = refused(host, PRIVILEGE, words, "seccomp filter", before=[*FORBID, "EPERM", LINK_CREATE, "--"])
    assert "load" not in line
    nothing_left(host)


def test_a_node_in_a_user_namespace_says_that_this_is_it(host):
    host.configure(RULES, metrics="off")
    refused(host, PRIVILEGE, "user namespace", before=["unshare", "--user", "--map-root-user"])
    nothing_left(host)


@pytest.mark.parametrize("role", ["node", "region"])
def test_a_daemon_without_root_names_what_it_may_not_do(host, role):
    host.configure(RULES)
    host.instance.config("region.yaml", region="here", rules="rules.yaml",
                         regions={"version": 1, "list": [{"name": "here", "address": "127.0.0.1:7400", "hosts": 1}]})
    os.chmod(host.instance.folder, 0o755)
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    refused(host, PRIVILEGE, "Permission denied", host.instance.run_dir, role=role, config=host.instance.path(f"{role}.yaml"), before=nobody)


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """A node that runs without the kernel's types and with little locked memory, its rules about tags, at XDP."""
    empty = tmp_path_factory.mktemp("btf")
    hide = ["prlimit", "--memlock=65536:65536", "unshare", "--mount", "sh", "-c", f'mount --bind {empty} /sys/kernel/btf && exec "$@"', "sh"]
    with Host() as h:
        h.configure(VLAN_RULES)
        h.node = h.instance.daemon("node", h.instance.path("node.yaml"), before=hide).start()
        h.node.wait_ready()
        yield h


def advice(host):
    return [line for line in host.node.lines if line.startswith("leasegated: warning: in0: ")]


def test_a_node_starts_without_types_of_the_kernel_and_with_little_locked_memory(running):
    assert running.node.alive
    hide = ["unshare", "--mount", "sh", "-c", f'mount --bind {running.instance.folder} /sys/kernel/btf && exec "$@"', "sh"]
    got = Report(running, before=hide)
    assert got.code == 0 and got.find("btf")[0] == "note"


def test_what_runs_already_is_told_as_ours_and_as_taken_over(running):
    got = Report(running, "--config", running.instance.path("node.yaml"))
    assert got.code == 0 and re.match(r"xdp is attached already \(program \d+, native\)", got.find("attach")[1])
    assert "foreign-xdp" not in {f["id"] for f in got.all["findings"]}
    assert got.find("instance") == ("ok", f"{running.instance.name}: in the kernel, attached at 1 hook; a start takes it over")


def test_maps_of_another_build_are_told(idle):
    assert Report(idle).find("instance")[1].endswith(": nothing of it is in the kernel")
    os.makedirs(os.path.join(idle.instance.pins, "v1"))
    try:
        severity, text = Report(idle).find("instance")
        assert severity == "note" and "maps of ABI version 1, attached at 0 hooks; this build speaks" in text
    finally:
        remove_pins(idle.instance.name)


def test_to_another_instance_it_is_somebody_else_whose_process_is_named(running):
    r = running.ns.run(LEASEGATE, "--instance", "lgt-other", "--json", "preflight", "--quick", "in0")
    found = [f["found"] for f in json.loads(r.stdout)["findings"] if f["id"] == "foreign-xdp"]
    assert len(found) == 1 and re.fullmatch(
        rf"program \d+ \(lg_xdp, native, loaded by user 0, held by leasegated \(pid {running.node.pid}\)\) is attached", found[0]), found


def test_the_memory_foretold_is_what_the_tables_take(running):
    maps = Report(running, "--config", running.instance.path("node.yaml")).all["machine"]["maps"]
    assert len(maps) > 15 and {m["name"] for m in maps if m["grows"]} >= {"wide_keys"}
    for m in maps:
        r = subprocess.run(["bpftool", "-j", "map", "show", "pinned", os.path.join(running.instance.maps, m["name"])],
                           capture_output=True, text=True, check=False)
        # Of small ones the kernel's own words count for more than what is in them.
        if r.returncode == 0 and not m["grows"] and m["bytes"] > 1 << 20:
            assert 0.95 < m["bytes"] / json.loads(r.stdout)["bytes_memlock"] < 1.05, (m, r.stdout)


def test_a_node_says_what_its_interface_does_to_its_rules_and_again_when_that_changes(running):
    def is_over(times):
        return running.node.lines.count("leasegated: info: in0: what was warned of there is over") == times

    assert len(advice(running)) == 1
    assert "rx-vlan-offload is on, and rules look at VLAN tags" in advice(running)[0] and "ethtool -K in0 rxvlan off" in advice(running)[0]
    running.instance.write("rules.yaml", RULES)
    running.node.reload()
    until(lambda: is_over(1), "the rules that are gone are no matter any more")
    running.ns.run("ethtool", "-K", "in0", "rx-udp-gro-forwarding", "on", check=True)
    until(lambda: len(advice(running)) == 2, "what somebody switched on is noticed")
    assert "rx-udp-gro-forwarding is on" in advice(running)[1] and "VLAN" not in advice(running)[1]
    running.ns.run("ethtool", "-K", "in0", "rx-udp-gro-forwarding", "off", check=True)
    until(lambda: is_over(2), "its end is noticed")


def test_an_interface_that_will_give_way_to_one_below_it_is_told(host):
    ip("link", "add", "br0", "type", "bridge", ns=host.ns)
    ip("link", "set", "in0", "master", "br0", ns=host.ns)
    host.instance.write("rules.yaml", RULES)
    config = host.instance.config(rules="rules.yaml", interfaces=[{"name": "in0"}, {"name": "br*"}])
    got = Report(host, "--config", config)
    assert got.code == 0 and got.find("gives-way", "br0") == ("note", "what comes in passes in0, where it is limited already")
    assert got.find("stacked", "in0") == ("note", "a port of bridge br0: only packets through this port are seen here")


def test_rules_that_pace_are_told_that_the_interface_has_no_fq(host):
    host.instance.write("rules.yaml", RULES.replace("match: {", "match: {direction: egress, ") + "    action: pace\n")
    config = host.instance.config(rules="rules.yaml", interfaces=[{"name": "in0", "tc_egress": "on"}])
    got = Report(host, "--config", config)
    assert got.code == 0 and got.find("pacing", "in0") == ("warning", "rules pace, and its queueing discipline is noqueue")
    tc("qdisc", "replace", "dev", "in0", "root", "tbf", "rate", "1gbit", "burst", "100kb", "latency", "10ms", ns=host.ns)
    assert Report(host, "--config", config).find("pacing", "in0")[1].endswith(" is tbf")
