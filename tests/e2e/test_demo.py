# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What `scripts/demo --algorithms` shows: twice the limit at the seam of two fixed windows, and nowhere else."""
import os
import struct
import subprocess
import zlib

from lib import ROOT

ALGORITHMS = {"token_bucket": 125, "fixed_window": 200, "sliding_window": 125, "sliding_log": 100}


def rows(text):
    """{algorithm: packets let in before the seam, behind it, together}"""
    words = [line.split() for line in text.splitlines()]
    return {w[0]: [int(n) for n in w[1:4]] for w in words if w and w[0] in ALGORITHMS and len(w) > 4}


def test_the_demo_shows_the_seam_of_the_fixed_window_and_of_no_other(tmp_path):
    png = tmp_path / "seam.png"
    r = subprocess.run([os.path.join(ROOT, "scripts", "demo"), "--algorithms", "--no-build", "--hook", "tc", "--png", png],
                       capture_output=True, text=True, timeout=80, check=False)
    assert r.returncode == 0, r.stdout + r.stderr
    got = rows(r.stdout)
    assert set(got) == set(ALGORITHMS), r.stdout
    for name, (before, behind, together) in got.items():
        assert before == 100 and together == before + behind <= ALGORITHMS[name], r.stdout
    assert got["fixed_window"][1] == 100 and got["sliding_log"][1] == 0
    data = png.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    n_idat = data.index(b"IDAT")
    pixels = zlib.decompress(data[n_idat + 4:n_idat + 4 + struct.unpack(">I", data[n_idat - 4:n_idat])[0]])
    assert len(pixels) == height * (1 + 3 * width)
    assert pixels.count(b"\xd2\x3c\x32") > 500		# the line of the fixed window, in its own colour
