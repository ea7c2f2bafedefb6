# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A strict reader of the Prometheus text format, version 0.0.4."""
import re

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"(,|$)')
_SAMPLE = re.compile(rf"({_NAME})(?:\{{(.*)\}})? (\S+)$")
_TYPES = ("counter", "gauge", "histogram", "summary", "untyped")


class Page:
    """samples: {(name, frozenset of (label, value))} -> float; types and helps by family name."""

    def __init__(self, text):
        self.samples, self.types, self.helps = {}, {}, {}
        if not text.endswith("\n"):
            raise ValueError("the last line has no line feed")
        family, seen = None, set()
        for n, line in enumerate(text[:-1].split("\n"), 1):
            try:
                family = self._line(line, family, seen)
            except ValueError as e:
                raise ValueError(f"line {n}: {e}: {line!r}") from None

    def _line(self, line, family, seen):
        m = re.match(rf"# (HELP|TYPE) ({_NAME}) (.*)$", line)
        if m:
            table = self.helps if m[1] == "HELP" else self.types
            if m[2] in table:
                raise ValueError(f"second {m[1]} of {m[2]}")
            if m[1] == "TYPE" and m[3] not in _TYPES:
                raise ValueError("unknown type")
            table[m[2]] = m[3]
            if m[2] != family and m[2] in seen:
                raise ValueError(f"family {m[2]} is not in one piece")
            seen.add(m[2])
            return m[2]
        if line.startswith("#"):
            return family
        m = _SAMPLE.match(line)
        if not m:
            raise ValueError("not a sample")
        if m[1] != family:
            raise ValueError(f"sample of {m[1]} outside its family")
        key = (m[1], frozenset(self._labels(m[2] or "")))
        if key in self.samples:
            raise ValueError("the same sample twice")
        self.samples[key] = float(m[3])
        return family

    @staticmethod
    def _labels(text):
        labels, at = [], 0
        while at < len(text):
            m = _LABEL.match(text, at)
            if not m:
                raise ValueError("bad labels")
            labels.append((m[1], m[2]))
            at = m.end()
        if len({k for k, _v in labels}) != len(labels):
            raise ValueError("a label twice")
        return labels

    def get(self, name, **labels):
        """The sum over all samples of a family that carry these labels."""
        want = set(labels.items())
        return sum(v for (n, have), v in self.samples.items() if n == name and want <= have)

    def label_values(self):
        """Every label value on the page."""
        return {v for _n, labels in self.samples for _k, v in labels}
