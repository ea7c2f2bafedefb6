# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What `leasegate explain` prints, word for word: tests/golden/explain. It needs no daemon and no privilege."""
import json
import os
import subprocess

import pytest
from lib import LEASEGATE

GOLDEN = os.path.join(os.path.dirname(__file__), "..", "golden", "explain")
RULES = os.path.join(GOLDEN, "rules.yaml")
FLEET = ["--regions", "3", "--hosts", "12"]


def explain(*argv):
    r = subprocess.run([LEASEGATE, "explain", RULES, *argv], capture_output=True, text=True, timeout=10)
    assert r.returncode == 0 and r.stderr == "", r.stderr
    return r.stdout


def golden(name):
    with open(os.path.join(GOLDEN, name)) as f:
        return f.read()


@pytest.mark.parametrize("name,argv", [("text.txt", []), ("json.txt", ["--json"])])
def test_each_rule_is_explained_as_it_always_was(name, argv):
    assert explain(*FLEET, *argv) == golden(name), \
        f"if that is meant: build/leasegate explain tests/golden/explain/rules.yaml {' '.join(FLEET + argv)} > tests/golden/explain/{name}"


def test_the_configuration_says_regions_hosts_and_round_trip(tmp_path):
    config = tmp_path / "node.yaml"
    config.write_text("name: a\nregion: eu\nregions:\n  version: 1\n  rtt: 40ms\n  list:\n"
                      "    - {name: eu, address: '127.0.0.1:1', hosts: 5}\n    - {name: us, address: '127.0.0.1:2', hosts: 7}\n"
                      "rules: rules.yaml\ninterfaces: []\n")
    assert explain("--config", str(config)) == explain("--regions", "2", "--hosts", "12", "--rtt", "40ms")
    assert explain("--config", str(config)) != explain(*FLEET)


def test_a_shorter_round_trip_serves_more_and_a_wider_window_costs_less():
    def second(rtt):
        return next(r["forecast"] for r in json.loads(explain(*FLEET, "--rtt", rtt, "--json")) if r["rule"] == "fair-minute")
    near, far = second("10ms"), second("1s")
    assert near["served_above_permille"] > far["served_above_permille"]
    for f in (near, far):
        parts = [p["unserved_ppm"] for p in f["price"]]
        assert parts == sorted(parts, reverse=True) and [p["factor"] for p in f["price"]] == [1, 10, 60]


@pytest.mark.parametrize("argv", [["--rtt", "0ms"], ["--rtt", "soon"], ["--regions", "0"], ["--hosts"], ["--speed", "3"]])
def test_nonsense_about_the_fleet_is_a_usage_error(argv):
    r = subprocess.run([LEASEGATE, "explain", RULES, *argv], capture_output=True, text=True, timeout=10)
    assert r.returncode == 2 and r.stdout == "" and len(r.stderr.splitlines()) == 1


def test_the_rules_in_force_show_what_their_class_stands_for(host):
    node = host.start("rules:\n  - {name: paid, class: strict, limit: 10000/1m, match: {protocol: udp}}\n"
                      "  - {name: mine, limit: 10000/1m, match: {protocol: tcp}}\n")
    rules = {r["rule"]: r["settings"] for r in host.instance.json("rules")}
    assert rules["mine"] is None
    paid = rules["paid"]
    assert (paid["class"], paid["kind"], paid["owner"], paid["fallback"]) == ("strict", "block", False, "deny")
    assert (paid["max_outstanding_tok"], paid["region_period_ms"], paid["cold_start_tok"]) == (1000, 3000, 0)
    assert "class strict: kind block" in host.instance.tool("rules").stdout
    node.kill()
    assert [r["settings"] for r in host.instance.json("rules")] == [None, None]
