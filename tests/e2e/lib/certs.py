# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""An authority and its certificates, made by scripts/certs in a folder of their own."""
import os
import pathlib
import shutil
import subprocess
import tempfile

MAKER = pathlib.Path(__file__).resolve().parents[3] / "scripts" / "certs"


class Certs:
    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="leasegate-certs-"))
        self._make("ca")
        return self

    def __exit__(self, *exc):
        shutil.rmtree(self.folder)

    def _make(self, *what):
        subprocess.run([MAKER, self.folder, *what], check=True, capture_output=True, text=True)

    def files(self, who):
        """The `tls` of a configuration."""
        return {"ca": str(self.folder / "ca.pem"), "certificate": str(self.folder / f"{who}.pem"), "key": str(self.folder / f"{who}.key")}

    def region(self, name, *addresses):
        self._make("region", name, *addresses)
        return self.files(name)

    def expired(self, region):
        """The files, by name, of a region's certificate that ended as it began."""
        with tempfile.TemporaryDirectory() as folder:
            for name in ("ca.pem", "ca.key"):
                shutil.copy(self.folder / name, folder)
            subprocess.run([MAKER, folder, "region", region], check=True, capture_output=True, text=True, env={**os.environ, "DAYS": "0"})
            return {f"{region}.{n}": pathlib.Path(folder, f"{region}.{n}").read_bytes() for n in ("pem", "key")}

    def node(self, region, name):
        self._make("node", region, name)
        return self.files(f"{region}.{name}")

    def operator(self, region, name):
        """What the tool's --tls names."""
        self._make("operator", region, name)
        return str(self.folder / f"{region}.operator.{name}")

    def host(self, name, *addresses):
        if not (self.folder / f"{name}.pem").exists():
            self._make("host", name, *addresses)
        return self.files(name)
