# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Both programs say which build they are, in the same words, and the number stands in one place."""
import json
import os
import re
import subprocess

import pytest
from lib import LEASEGATE, LEASEGATED, ROOT
from lib.daemon import abi_version


def said(*argv):
    r = subprocess.run(argv, capture_output=True, text=True, timeout=10)
    assert (r.returncode, r.stderr) == (0, ""), r
    return r.stdout


def number():
    with open(os.path.join(ROOT, "Makefile"), encoding="utf-8") as f:
        return re.search(r"^VERSION := (\d+\.\d+\.\d+)$", f.read(), re.M)[1]


@pytest.mark.parametrize("program", [LEASEGATE, LEASEGATED])
def test_each_program_says_its_version_the_abi_and_the_licence(program):
    first, abi, licence = said(program, "--version").splitlines()
    assert re.fullmatch(rf"{os.path.basename(program)} {re.escape(number())}(\+[0-9a-f]{{7,}}(-dirty)?)?", first)
    assert abi == f"ABI of its maps in the kernel: version {abi_version()}"
    assert licence == "Licence: GPL-2.0-only OR BSD-2-Clause"
    assert "--version" in said(program, "--help")


def test_the_tool_says_it_as_json_too_and_both_are_of_one_build():
    got = json.loads(said(LEASEGATE, "--version", "--json"))
    assert got["abi"] == abi_version() and got["licence"] == "GPL-2.0-only OR BSD-2-Clause"
    assert said(LEASEGATE, "--version").startswith(f"leasegate {got['version']}\n")
    assert said(LEASEGATED, "--version").startswith(f"leasegated {got['version']}\n")
