# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The laws a limit is held to, as numbers computed from packets that were really sent and really arrived. Pure."""
from bisect import bisect_right


def worst_window(stamps_ns, window_ns, costs=None):
    """The largest cost that arrived in any trailing window (t - window_ns, t], and the t where it did. (0, None) for nothing."""
    order = sorted(range(len(stamps_ns)), key=stamps_ns.__getitem__)
    worst, at_ns, inside, oldest = 0, None, 0, 0
    for i in order:
        inside += costs[i] if costs else 1
        while stamps_ns[order[oldest]] <= stamps_ns[i] - window_ns:
            inside -= costs[order[oldest]] if costs else 1
            oldest += 1
        if inside > worst:
            worst, at_ns = inside, stamps_ns[i]
    return worst, at_ns


def between(stamps_ns, start_ns, end_ns):
    """How many of the sorted stamps lie in (start_ns, end_ns]."""
    return bisect_right(stamps_ns, end_ns) - bisect_right(stamps_ns, start_ns)


def trailing(stamps_ns, window_ns, at_ns):
    """How many of the sorted stamps lie in (at_ns - window_ns, at_ns]."""
    return between(stamps_ns, at_ns - window_ns, at_ns)


def fixed_windows(stamps_ns, window_ns, origin_ns):
    """How many of the sorted stamps lie in each window [origin + k x window, origin + (k + 1) x window), first to last."""
    if not stamps_ns:
        return []
    first, last = ((t - origin_ns) // window_ns for t in (stamps_ns[0], stamps_ns[-1]))
    return [between(stamps_ns, origin_ns + k * window_ns - 1, origin_ns + (k + 1) * window_ns - 1) for k in range(first, last + 1)]


def token_bucket_most(burst_tok, rate_tok, per_ns, duration_ns):
    """The most a full token bucket may admit in a time span: burst + rate x t."""
    return burst_tok + rate_tok * duration_ns // per_ns


def token_bucket_perfect(sent_ns, burst_tok, rate_tok, per_ns, cost=1):
    """What one perfect token bucket, full at the start, admits of these arrivals (sorted)."""
    level, last_ns, admitted = burst_tok * per_ns, None, 0
    for t in sent_ns:
        if last_ns is not None:
            level = min(burst_tok * per_ns, level + (t - last_ns) * rate_tok)
        last_ns = t
        if level >= cost * per_ns:
            level -= cost * per_ns
            admitted += cost
    return admitted


def sliding_window_perfect(sent_ns, limit, window_ns):
    """The times of what one perfect sliding window, with no distance to anybody, admits of these arrivals (sorted)."""
    admitted, oldest = [], 0
    for t in sent_ns:
        while oldest < len(admitted) and admitted[oldest] <= t - window_ns:
            oldest += 1
        if len(admitted) - oldest < limit:
            admitted.append(t)
    return admitted
