# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The history checker: whether what was let in, and what was granted, is what a limit allows at every moment. Pure.

It is given what independent witnesses saw, and believes nobody else: packets that arrived behind the limiter, with the time at which the kernel
of their host got them; the counters of the kernels; and the journals of all servers. It says what is wrong in words, each with the times.
"""
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass

S = 1_000_000_000
MS = 1_000_000


class Violation(AssertionError):
    """Somebody got more than his limit, or a token was lent twice."""


@dataclass(frozen=True)
class Bound:
    """The most a rule admits of one key over all hosts, as `leasegate explain --json` prints it."""
    rule: str
    base_tok: int		# at once
    rate_tok: int
    per_ns: int
    bucket: bool		# base + rate x t; else base in any window
    trailing_tok: int	# in any trailing window; more than base where windows are fixed
    kind: str = "block"

    @classmethod
    def of(cls, explained):
        """Of one rule's object. Rules that are bounded by nothing have no place in a history."""
        b = explained["bound"]
        if b["unbounded"]:
            raise ValueError(f"rule {explained['rule']} is bounded by nothing")
        return cls(explained["rule"], b["base_tok"], b["rate_tok"], b["per_ns"], b["plus_rate"], b["trailing_tok"],
                   explained["settings"]["kind"])

    @property
    def fixed(self):
        return not self.bucket and self.trailing_tok > self.base_tok


@dataclass(frozen=True)
class Extra:
    """What a rule declares on top while hosts are cut off: so much per window, and the same once; from start_ns to end_ns."""
    start_ns: int
    end_ns: int
    tok: int
    per_ns: int

    def within(self, start_ns, end_ns):
        """The most of it that belongs to (start_ns, end_ns]."""
        both_ns = min(end_ns, self.end_ns) - max(start_ns, self.start_ns)
        return self.tok * both_ns / self.per_ns + self.tok if both_ns > 0 else 0


def seconds(t_ns, origin_ns):
    return f"{(t_ns - origin_ns) / S:.3f} s"


def span(start_ns, end_ns, origin_ns):
    return f"from {seconds(start_ns, origin_ns)} to {seconds(end_ns, origin_ns)}"


# ---- admissions: {(rule, key): [(time in ns, tokens)]}, the times in order ----

def bucket_excess(admitted, bound, jitter_ns=0):
    """The largest excess over B + r t in any interval, and that interval: (tokens, start_ns, end_ns), or None.

    All intervals at once: a bucket that is full at first is drained below nothing exactly if some interval has too much, and what it lacks is
    by how much. An interval may look shorter than it was by `jitter_ns`, as each packet is stamped a little after it was judged.
    """
    per_ns, rate = bound.per_ns, bound.rate_tok
    full = bound.base_tok * per_ns + rate * jitter_ns
    level, last_ns, start_ns, worst = full, None, None, None
    for at_ns, tok in admitted:
        if last_ns is not None:
            level += (at_ns - last_ns) * rate
        if last_ns is None or level >= full:
            level, start_ns = full, at_ns
        last_ns = at_ns
        level -= tok * per_ns
        if level < 0 and (worst is None or -level / per_ns > worst[0]):
            worst = (-level / per_ns, start_ns, at_ns)
    return worst


def window_excess(admitted, limit_tok, window_ns, jitter_ns=0, extra=()):
    """The largest excess over a limit in any trailing window (t - window, t], likewise."""
    worst, inside, oldest = None, 0, 0
    for at_ns, tok in admitted:
        inside += tok
        start_ns = at_ns - window_ns + jitter_ns
        while admitted[oldest][0] <= start_ns:
            inside -= admitted[oldest][1]
            oldest += 1
        over = inside - limit_tok - sum(x.within(start_ns, at_ns) for x in extra)
        if over > 0 and (worst is None or over > worst[0]):
            worst = (over, start_ns, at_ns)
    return worst


def fixed_excess(admitted, limit_tok, window_ns, origin_ns, jitter_ns=0):
    """The same of windows that begin at multiples of their length after origin_ns. Who is stamped just behind a boundary may have been judged
    before it, and is counted in neither.
    """
    counts, worst = defaultdict(int), None
    for at_ns, tok in admitted:
        n, into_ns = divmod(at_ns - origin_ns, window_ns)
        if into_ns >= jitter_ns:
            counts[n] += tok
    for n, tok in counts.items():
        if tok > limit_tok and (worst is None or tok - limit_tok > worst[0]):
            worst = (tok - limit_tok, origin_ns + n * window_ns, origin_ns + (n + 1) * window_ns)
    return worst


def excess(admitted, bound, jitter_ns=0, extra=(), origin_ns=None):
    if bound.bucket:
        if extra:
            raise ValueError(f"rule {bound.rule}: what a token bucket declares on top is not checked here")
        return bucket_excess(admitted, bound, jitter_ns)
    found = window_excess(admitted, bound.trailing_tok, bound.per_ns, jitter_ns, extra)
    if not found and bound.fixed and origin_ns is not None and not extra:
        found = fixed_excess(admitted, bound.base_tok, bound.per_ns, origin_ns, jitter_ns)
    return found


def check_admissions(admissions, bounds, start_ns, jitter_ns=0, extra=None, origin_ns=None):
    """What is wrong with the admissions of all keys: a list of sentences, empty if nothing is.

    @bounds: Bound by rule; @extra: Extra by rule; @origin_ns: when windows of the wall clock begin, None if it was set meanwhile.
    """
    wrong = []
    for (rule, key), admitted in sorted(admissions.items()):
        found = excess(admitted, bounds[rule], jitter_ns, (extra or {}).get(rule, ()), origin_ns)
        if found:
            over, a, b = found
            wrong.append(f"{rule} {key}: {over:.1f} tokens more than it allows were let in {span(a, b, start_ns)}")
    return wrong


def between(admitted, start_ns, end_ns):
    """Tokens in (start_ns, end_ns]."""
    times = [t for t, _ in admitted]
    return sum(tok for _, tok in admitted[bisect_right(times, start_ns):bisect_right(times, end_ns)])


# ---- grants: records of journals, each with the name of the `server` and the `region` that wrote it, and `at_ns` on one clock ----

def check_numbers(records):
    """Each journal has each number once, in order. Gaps are told of by the journal itself and are no fault."""
    wrong, last = [], {}
    for r in records:
        if r["seq"] <= last.get(r["server"], 0):
            wrong.append(f"{r['server']}: number {r['seq']} comes after {last[r['server']]}")
        last[r["server"]] = r["seq"]
    return wrong


def of_key(r):
    return r["region"], r["tier"], r["rule"], r["key"]


def name(of):
    return " ".join(of)


def by_key(records, *kinds):
    found = defaultdict(list)
    for r in records:
        if "what" in r and (not kinds or r["what"] in kinds):
            found[of_key(r)].append(r)
    for of in found.values():
        of.sort(key=lambda r: (r["at_ns"], r["seq"]))
    return found


def check_owners(records, start_ns, slack_ns):
    """No key is lent by two owners: an epoch belongs to one server, and once somebody has lent in an epoch nobody lends in an older one.

    @slack_ns: how much later than a grant was made its record may be dated.
    """
    wrong = []
    for of, grants in sorted(by_key(records, "grant").items()):
        owners, newest = {}, None
        for g in grants:
            owner = owners.setdefault(g["epoch"], g["server"])
            if owner != g["server"]:
                wrong.append(f"{name(of)}: {owner} and {g['server']} have both lent in epoch {g['epoch']}")
            if newest and g["epoch"] < newest["epoch"] and g["at_ns"] > newest["at_ns"] + slack_ns:
                wrong.append(f"{name(of)}: {g['server']} lent {g['tok']} tokens to {g['holder']} in epoch {g['epoch']} at "
                             f"{seconds(g['at_ns'], start_ns)}, when {newest['server']} had lent in epoch {newest['epoch']} since "
                             f"{seconds(newest['at_ns'], start_ns)}")
            if not newest or g["epoch"] > newest["epoch"]:
                newest = g
    return wrong


def check_leases(records):
    """A lease (key, holder, epoch, generation) never has more back than was lent, and never less out than nothing."""
    wrong, out = [], defaultdict(int)
    for of, all_of in sorted(by_key(records, "grant", "report", "return", "lapse").items()):
        for r in all_of:
            lease = (*of, r["holder"], r["epoch"], r["generation"])
            if r["outstanding_tok"] < 0:
                wrong.append(f"{name(of)}: {r['holder']} has {r['outstanding_tok']} tokens")
            out[lease] = r["outstanding_tok"]
            if r["what"] == "lapse" and r["outstanding_tok"]:
                wrong.append(f"{name(of)}: a lease of {r['holder']} is over and has {r['outstanding_tok']} tokens")
    return wrong


def check_outstanding(records, bounds, start_ns):
    """What is out of a key, over all who hold some of it, is never more than the whole budget. Each life of a lessor knows
    only of what it was told."""
    wrong = []
    for of, all_of in sorted(by_key(records, "grant", "report", "return", "lapse").items()):
        most, out, epoch = bounds[of[2]].base_tok, {}, 0
        for r in all_of:
            if r["epoch"] < epoch:
                continue
            if r["epoch"] > epoch:
                out, epoch = {}, r["epoch"]
            out[r["holder"]] = r["outstanding_tok"]
            if sum(out.values()) > most:
                wrong.append(f"{name(of)}: {sum(out.values())} tokens are out at {seconds(r['at_ns'], start_ns)}, of {most}: {out}")
                break
    return wrong


def check_minted(records, bounds, start_ns, slack_ns):
    """What a home lends of a token bucket in blocks, less what comes back, is at most B + r t in any interval, over all its lives."""
    wrong = []
    for of, moves in sorted(by_key(records, "grant", "return").items()):
        bound = bounds[of[2]]
        if of[1] != "home" or not bound.bucket or bound.kind != "block":
            continue
        net = [(r["at_ns"], r["tok"] if r["what"] == "grant" else -r["tok"]) for r in moves]
        found = bucket_excess(net, bound, slack_ns)
        if found:
            over, a, b = found
            wrong.append(f"{name(of)}: {over:.1f} tokens more than there were have been lent {span(a, b, start_ns)}")
    return wrong


def check_grants(records, bounds, start_ns, slack_ns):
    """What is wrong with all that was lent: a list of sentences. Keys of rules that no bound is given for are not looked at."""
    known = [r for r in records if r.get("rule") in bounds]
    return (check_numbers(records) + check_owners(known, start_ns, slack_ns) + check_leases(known) +
            check_outstanding(known, bounds, start_ns) + check_minted(known, bounds, start_ns, slack_ns))


# ---- counters: what the kernels say they let in ----

def check_counters(arrived, counted):
    """{(host, rule): packets} that arrived and that the kernel counted as let in."""
    return [f"{host} {rule}: {arrived.get((host, rule), 0)} packets arrived, its kernel counted {counted.get((host, rule), 0)} as let in"
            for host, rule in sorted(arrived.keys() | counted.keys()) if arrived.get((host, rule), 0) != counted.get((host, rule), 0)]
