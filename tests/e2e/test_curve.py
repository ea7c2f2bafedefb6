# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`leasegate curve`: what a rule's leases cost and strand, from a file and from a running region server."""
import json
import subprocess
import xml.dom.minidom

import pytest
from lib import LEASEGATE
from lib.cluster import PORT, USER
from lib.prom import Page
from lib.wait import until
from test_limits import bucket_rule
from test_regions import first_packets, running

CURVE = {"rule": "per-user", "arrival_per_s": 150, "regions": 3, "points": [
    {"period_s": 2, "reports_per_s": 1.5, "worst_outstanding_tok": 590, "product": 885},
    {"period_s": 5, "reports_per_s": 0.59, "worst_outstanding_tok": 1259, "product": 742.8},
    {"reports_per_s": 0.3, "worst_outstanding_tok": 2507, "measured_by": "somebody"}]}
RATE, BURST = 500, 2000


def curve(*argv, rule="per-user"):
    return subprocess.run([LEASEGATE, "curve", rule, *argv], capture_output=True, text=True, timeout=10, stdin=subprocess.DEVNULL)


@pytest.fixture
def data(tmp_path):
    """Writes a curve's file: with changed members, or any text. Returns its path."""
    def write(text=None, **changed):
        path = tmp_path / "curve.json"
        path.write_text(text if text is not None else json.dumps({**CURVE, **changed}))
        return str(path)
    return write


def test_a_file_is_drawn_for_pipes_in_80_columns(data):
    r = curve("--data", data())
    assert r.returncode == 0 and r.stderr == ""
    lines = r.stdout.splitlines()
    assert max(map(len, lines)) <= 80 and all(line == line.rstrip() for line in lines) and r.stdout.isascii()
    assert "rule per-user" in lines[0]
    for words in ("150/s arriving x 3 active regions = 450", "most tokens out at once", "reports per second at the home"):
        assert words in r.stdout
    rows = [line.split() for line in lines if line[:5].strip() in ("1", "2", "3")]
    assert [row[-4:] for row in rows] == [["1.5", "590", "885", "1.97"], ["0.59", "1,259", "743", "1.65"],
                                          ["0.3", "2,507", "752", "1.67"]]


def test_the_same_as_json_and_as_a_drawing(data, tmp_path):
    drawing = tmp_path / "curve.svg"
    r = curve("--json", "--svg", str(drawing), "--data", data())
    assert r.returncode == 0, r.stderr
    got = json.loads(r.stdout)
    assert (got["rule"], got["source"], got["law"], got["band"]) == ("per-user", "data", 450, [1.3, 2.1])
    assert [round(p["ratio"], 2) for p in got["points"]] == [1.97, 1.65, 1.67]
    assert [p["period_s"] for p in got["points"]] == [2, 5, None]
    assert -0.95 < got["slope"] < -0.85
    svg = xml.dom.minidom.parse(str(drawing)).documentElement
    assert svg.tagName == "svg" and len(svg.getElementsByTagName("circle")) == 3 + 1
    assert "prefers-color-scheme: dark" in drawing.read_text() and "href" not in drawing.read_text()


def test_a_file_of_another_rule_is_drawn_under_its_own_name_with_a_warning(data):
    r = curve("--data", data(rule="10000/1m\x1b[2J"))
    assert r.returncode == 0 and r.stdout.startswith("rule 10000/1m?[2J: ")
    assert r.stderr.count("\n") == 1 and "the curve of rule 10000/1m?[2J, not of per-user" in r.stderr
    r = subprocess.run([LEASEGATE, "curve", "--data", data()], capture_output=True, text=True, timeout=10)
    assert r.returncode == 0 and r.stderr == "" and r.stdout.startswith("rule per-user: ")


BAD = {
    "no JSON": ('{"rule": "per-user",\n  oops}', ":2", "no JSON"),
    "no object": ("[]", "a JSON object"),
    "an empty file": ("", "no JSON"),
    "a member twice": ('{"rule": "per-user", "rule": "x"}', "no JSON"),
    "no rule": ({"rule": 5}, "rule must be a name"),
    "an empty rule": ({"rule": ""}, "rule must be a name"),
    "no arrivals": ({"arrival_per_s": 0}, "arrival_per_s is 0"),
    "regions in words": ({"regions": "three"}, "regions must be a number"),
    "no points": ({"points": []}, "a list of 1 to"),
    "points that are none": ({"points": [1]}, "points[0].reports_per_s"),
    "a negative report": ({"points": [CURVE["points"][0], {"reports_per_s": -1, "worst_outstanding_tok": 5}]},
                          "points[1].reports_per_s is -1"),
    "no number": ({"points": [{"reports_per_s": 1}]}, "points[0].worst_outstanding_tok must be a number"),
    "a number beyond all bounds": ({"points": [{"reports_per_s": 1e300, "worst_outstanding_tok": 1}]}, "1e+300"),
    "a product that is none": ({"points": [{"reports_per_s": 2, "worst_outstanding_tok": 10, "product": 21}]},
                               "points[0].product", "which is 20"),
    "too many points": ({"points": CURVE["points"] * 100}, "a list of 1 to"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_refused_by_name(data, case):
    text, *words = BAD[case]
    path = data(**text) if isinstance(text, dict) else data(text)
    for argv in ([], ["--json"]):
        r = curve("--data", path, *argv)
        assert r.returncode == 1 and len(r.stderr.splitlines()) == 1
        assert all(word in r.stderr for word in [path, *words]), r.stderr
        assert r.stdout == "" if not argv else set(json.loads(r.stdout)) == {"error"}


def test_files_that_cannot_be_read_or_written_are_named(data, tmp_path):
    r = curve("--data", str(tmp_path / "absent.json"))
    assert r.returncode == 1 and "absent.json" in r.stderr and "No such file" in r.stderr
    r = curve("--data", str(tmp_path))
    assert r.returncode == 1 and "a curve is a file" in r.stderr
    r = curve("--data", data(), "--svg", str(tmp_path / "absent" / "x.svg"))
    assert r.returncode == 1 and "x.svg" in r.stderr and r.stdout == ""


@pytest.mark.parametrize("argv", [["--data"], ["--svg"], ["--nope"], ["second"], ["--live", "--data", "x"]])
def test_nonsense_is_a_usage_error(argv):
    r = curve(*argv)
    assert r.returncode == 2 and r.stdout == "" and len(r.stderr.splitlines()) == 1


def test_without_a_server_or_before_there_is_traffic_it_says_so(host):
    r = host.instance.tool("curve", "per-source")
    assert r.returncode == 1 and r.stdout == "" and "no region server is running" in r.stderr and "--data" in r.stderr
    rules = host.instance.write("rules.yaml", bucket_rule("1/1h", 50).replace("scope: host", "scope: global"))
    config = host.instance.config("region.yaml", region="here", rules=rules, listen="127.0.0.1:7400",
                                  regions={"version": 1, "list": [{"name": "here", "address": "127.0.0.1:7400", "hosts": 1}]})
    host.instance.daemon("region", config).start().wait_ready()
    r = host.instance.tool("curve", "per-app", "--live")
    assert r.returncode == 1 and "region here has no global rule per-app" in r.stderr
    r = until(lambda: _said(host, "nothing to draw"), "a second was measured")
    assert r.returncode == 1 and "0 reports/s" in r.stderr and r.stdout == ""


def _said(host, words):
    r = host.instance.tool("curve", "per-source")
    return r if words in r.stderr else None


@pytest.mark.long
def test_a_running_rule_is_measured_where_the_messages_come_in():
    rules = bucket_rule(f"{RATE}/1s", BURST).replace("scope: host", "scope: global").replace("per-source", "per-user")
    with running(rules) as c:
        first_packets(c)
        for r in c:
            r.sender.rate_pps = 0.9 * RATE / 3
        home = c[until(c.home_of_user, "the user's key has a home")]

        def measured():
            got = home.instance.json("curve", "per-user")
            assert abs(got["arrival_per_s"] - 0.9 * RATE) < 0.2 * RATE and 1.5 < got["regions"] <= 2, got
            return got if got["measured"]["rates"]["seconds"] >= 4 else None
        got = until(measured, "traffic of both other regions is measured", timeout_s=30, every_s=0.5)
        point, = got["points"]
        assert got["source"] == "live" and got["measured"]["region"] == home.name
        assert point["product"] == pytest.approx(point["reports_per_s"] * point["worst_outstanding_tok"], rel=1e-6)
        assert 0 < point["worst_outstanding_tok"] <= BURST
        assert point["ratio"] > 0.9, "less than the law allows"
        page = Page(home.ns.http_get("/metrics", 9465)[1])
        seconds = got["measured"]["rates"]["seconds"]
        for name, rate in (("reports", point["reports_per_s"]), ("grants", got["measured"]["rates"]["grants_per_s"])):
            total = page.get(f"leasegate_lease_{name}_total", rule="per-user", tier="home")
            assert rate * seconds - 0.5 <= total <= rate * (seconds + 3) + 60, name
        assert page.get("leasegate_lease_reports_total", rule="per-user", tier="region") > 0
        assert page.get("leasegate_lease_outstanding_worst_tokens", rule="per-user") >= point["worst_outstanding_tok"]
        assert page.get("leasegate_lease_active_regions", rule="per-user") > 1.5
        assert page.get("leasegate_lease_demand_tokens_per_second", rule="per-user") > 0.7 * RATE
        assert page.get("leasegate_lease_product_ratio", rule="per-user") > 0.9
        assert USER not in "".join(page.label_values()) and PORT not in page.label_values()
        far = next(r for r in c if r is not home)
        r = far.instance.tool("curve", "per-user")
        assert r.returncode == 1 and "home of its keys" in r.stderr
        r = home.instance.tool("curve", "per-user")
        assert r.returncode == 0 and f"home {home.name}" in r.stdout and " 1  " in r.stdout
        assert "regions to this home" in r.stdout and max(map(len, r.stdout.splitlines())) <= 80
