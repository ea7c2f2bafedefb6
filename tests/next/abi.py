#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Print include/leasegate/abi.h as a later build might have it: one version on, with members that are new, moved and wider.

The tests of takeovers need a second layout that is real to the compilers, the kernel and its type information.
usage: abi.py FILE
"""
import re
import sys

# struct, before which member (None: a union), what comes there
NEW = [
    ("lg_control", "incarnation", "__u64 next_word;"),
    ("lg_bucket", None, "__u64 next_word;"),		# before its union
    ("lg_rule", "cost", "__u64 next_word;"),
    ("lg_shared", "map_full", "__u64 next_word;"),
    ("lg_count", "bytes", "__u64 next_word;"),
]
# struct, member, type before and after
WIDER = [("lg_bucket", "lease_epoch", "__u32", "__u64")]


def change(text, struct, pattern, to):
    start = re.search(rf"^struct {struct} {{$", text, re.M).end()
    end = text.index("\n}", start)
    body, n = re.subn(pattern, to, text[start:end], count=1, flags=re.M)
    if n != 1:
        sys.exit(f"struct {struct} has no line that matches {pattern}")
    return text[:start] + body + text[end:]


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        text = f.read()
    text = re.sub(r"^(#define LG_ABI_VERSION )(\d+)$", lambda m: m[1] + str(int(m[2]) + 1), text, flags=re.M)
    text = re.sub(r"^_Static_assert\(sizeof\(struct \w+\) == .*?\);\n", "", text, flags=re.M | re.S)
    for struct, member, line in NEW:
        place = rf"__\w+ (?:\w+, )*{member}\b" if member else r"union {"
        text = change(text, struct, rf"^(\t{place})", rf"\t{line}\n\1")
    for struct, member, was, now in WIDER:
        text = change(text, struct, rf"^\t{was} ({member}\b)", rf"\t{now} \1")
    print(text, end="")


main()
