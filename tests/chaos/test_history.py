# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The checker itself: it finds one token too many and complains of nothing that is allowed."""
import random

import pytest
from history import (MS, S, Bound, Extra, bucket_excess, check_admissions, check_counters, check_grants, excess, fixed_excess, window_excess)

BUCKET = Bound("tb", 10, 5, S, True, 0)
WINDOW = Bound("win", 10, 10, 2 * S, False, 10)
FIXED = Bound("fix", 10, 10, 2 * S, False, 20)


def ticks(*times_ms):
    return [(t * MS, 1) for t in times_ms]


def test_a_full_bucket_at_once_and_then_its_rate_is_allowed():
    admitted = [(0, 10)] + [(i * S // 5, 1) for i in range(1, 50)]
    assert bucket_excess(admitted, BUCKET) is None


def test_one_token_more_than_a_bucket_had_is_found_wherever_it_was():
    for at in (0, 1, 25, 49):
        admitted = [(0, 10)] + [(i * S // 5, 1 + (i == at)) for i in range(1, 50)] + ([(0, 1)] if at == 0 else [])
        over, _, _ = bucket_excess(sorted(admitted), BUCKET)
        assert over == 1


def test_an_idle_bucket_fills_up_to_its_burst_and_no_further():
    assert bucket_excess([(0, 10), (100 * S, 10)], BUCKET) is None
    over, start_ns, end_ns = bucket_excess([(0, 10), (100 * S, 11)], BUCKET)
    assert (over, start_ns, end_ns) == (1, 100 * S, 100 * S)


def test_all_intervals_are_looked_at_not_only_those_from_the_start():
    """Against the plain definition, interval by interval."""
    rng = random.Random(5)
    for _ in range(300):
        admitted = sorted((rng.randrange(0, 4 * S), rng.randrange(1, 5)) for _ in range(rng.randrange(1, 12)))
        worst = max(sum(tok for _, tok in admitted[i:j + 1]) - 10 - 5 * (admitted[j][0] - admitted[i][0]) / S
                    for i in range(len(admitted)) for j in range(i, len(admitted)))
        found = bucket_excess(admitted, BUCKET)
        assert found is None if worst <= 1e-9 else found[0] == pytest.approx(worst)


def test_a_window_may_be_full_and_not_fuller():
    full = ticks(*range(0, 2000, 200))
    assert window_excess(full + [(2 * S, 1)], 10, 2 * S) is None
    over, start_ns, end_ns = window_excess(full + [(2 * S - 1, 1)], 10, 2 * S)
    assert (over, start_ns, end_ns) == (1, -1, 2 * S - 1)


def test_jitter_forgives_what_came_a_little_early_and_no_more():
    full = ticks(*range(0, 2000, 200))
    assert window_excess(full + [(2 * S - 1 * MS, 1)], 10, 2 * S, jitter_ns=2 * MS) is None
    assert window_excess(full + [(2 * S - 3 * MS, 1)], 10, 2 * S, jitter_ns=2 * MS)
    assert bucket_excess([(0, 10), (199 * MS, 1)], BUCKET, jitter_ns=2 * MS) is None
    assert bucket_excess([(0, 10), (197 * MS, 1)], BUCKET, jitter_ns=2 * MS)


def test_fixed_windows_hold_one_by_one():
    both = ticks(*range(1000, 2000, 100)) + ticks(*range(2000, 3000, 100))
    assert fixed_excess(both, 10, 2 * S, 0) is None
    assert excess(both, FIXED, origin_ns=0) is None
    assert fixed_excess(both + [(3 * S, 1)], 10, 2 * S, 0) == (1, 2 * S, 4 * S)
    # Nobody knows where they begin once the clock was set: then twice the limit is what a trailing window may have.
    assert excess(both + [(3 * S - 1, 1)], FIXED) is not None
    assert excess(both, FIXED) is None


def test_what_a_fallback_adds_counts_only_while_it_is_declared():
    full = ticks(*range(0, 2000, 200))
    more = full + [(1900 * MS, 5)]
    assert window_excess(more, 10, 2 * S)
    assert window_excess(more, 10, 2 * S, extra=[Extra(0, 2 * S, 5, 2 * S)]) is None
    assert window_excess(more, 10, 2 * S, extra=[Extra(3 * S, 9 * S, 5, 2 * S)])


def test_keys_are_checked_one_by_one_and_named():
    wrong = check_admissions({("win", "a"): ticks(*range(10)), ("win", "b"): ticks(*range(12))}, {"win": WINDOW}, 0)
    assert len(wrong) == 1 and wrong[0].startswith("win b: 2.0 tokens more")


def grant(at_ms, server="s1", epoch=1, holder="h1", tok=1, out=1, what="grant", seq=None, **more):
    return {"server": server, "region": "here", "seq": seq or at_ms + 1, "at_ns": at_ms * MS, "what": what, "tier": "home", "holder": holder,
            "rule": "tb", "key": "k", "epoch": epoch, "generation": 1, "tok": tok, "outstanding_tok": out, **more}


def wrong_with(*records, bounds=None):
    return check_grants(list(records), bounds or {"tb": BUCKET}, 0, 5 * MS)


def test_an_owner_that_follows_another_is_fine():
    assert wrong_with(grant(0), grant(1000, "s2", epoch=2), grant(2000, "s1", epoch=3)) == []


def test_an_old_owner_that_goes_on_is_found():
    wrong = wrong_with(grant(0), grant(1000, "s2", epoch=2), grant(1010, "s1", seq=2000))
    assert len(wrong) == 1 and "s1 lent 1 tokens to h1 in epoch 1 at 1.010 s, when s2 had lent in epoch 2" in wrong[0]
    # A record may be dated a little late.
    assert wrong_with(grant(0), grant(1000, "s2", epoch=2), grant(1004, "s1", seq=2000)) == []


def test_two_servers_in_one_epoch_are_found():
    assert any("both lent in epoch 1" in w for w in wrong_with(grant(0), grant(1, "s2")))


def test_more_out_than_there_is_is_found():
    assert wrong_with(grant(0, tok=5, out=5), grant(1, holder="h2", tok=5, out=5)) == []
    assert any("11 tokens are out" in w for w in wrong_with(grant(0, tok=5, out=5), grant(1, holder="h2", tok=6, out=6)))
    # Whoever begins anew has heard of nobody yet.
    assert wrong_with(grant(0, tok=10, out=10), grant(9000, "s2", epoch=2, holder="h2", tok=10, out=10)) == []


def test_a_second_burst_after_a_change_of_owners_is_found():
    assert wrong_with(grant(0, tok=10, out=10), grant(2000, "s2", epoch=2, tok=10, out=10)) == []
    assert any("1.0 tokens more than there were" in w
               for w in wrong_with(grant(0, tok=10, out=10), grant(1800, "s2", epoch=2, holder="h2", tok=10, out=10),
                                   bounds={"tb": Bound("tb", 10, 5, S, True, 0)}) if "lent from" in w)


def test_what_comes_back_may_be_lent_again():
    assert wrong_with(grant(0, tok=10, out=10), grant(100, what="return", tok=8, out=2), grant(101, holder="h2", tok=8, out=8)) == []


def test_a_number_that_is_used_twice_is_found():
    assert any("comes after" in w for w in wrong_with(grant(0, seq=7), grant(1, seq=7)))


def test_a_lease_that_is_over_has_nothing_out():
    assert any("is over" in w for w in wrong_with(grant(0), grant(1, what="lapse", out=1)))


def test_what_arrived_and_was_counted_must_be_the_same():
    assert check_counters({("h", "r"): 5}, {("h", "r"): 5}) == []
    assert check_counters({("h", "r"): 5}, {("h", "r"): 4}) == ["h r: 5 packets arrived, its kernel counted 4 as let in"]
    assert len(check_counters({("h", "r"): 5}, {})) == 1
