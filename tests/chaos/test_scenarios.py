# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Every scenario with every seed. One run again: CHAOS_SEED=N scripts/chaos --long -k NAME."""
import random

import pytest
import scenarios
from world import WINDOW_S, World


class Pool:
    """One world at a time: as long as the next scenario wants one that is made alike, and nothing is wrong with it, it is used again."""

    def __init__(self, shim):
        self.shim, self.made, self.world = shim, None, None

    def get(self, s):
        if self.made != s.world:
            self.drop()
        if not self.world:
            self.world = World(self.shim, **s.world).__enter__()
            self.made = s.world
            self.world.start()
        return self.world

    def drop(self):
        if self.world:
            self.world.__exit__(None, None, None)
        self.world = self.made = None


@pytest.fixture(scope="session")
def pool(shim):
    pool = Pool(shim)
    yield pool
    pool.drop()


@pytest.mark.parametrize("name", [pytest.param(name, marks=[] if s.quick else [pytest.mark.long]) for name, s in scenarios.ALL.items()])
def test_nobody_gets_more_than_his_limit_and_all_are_served_again(pool, name, seed):
    s = scenarios.ALL[name]
    rng = random.Random(f"{name} {seed}")
    failed = True
    w = pool.get(s)
    try:
        s.run(w.begin(), rng)
        w.run_for(WINDOW_S)
        w.verify()
        failed = False
    finally:
        print(f"scenario {name}, seed {seed}:\n{w.story()}")
        if failed:
            w.tell()
        if failed or s.fresh:
            pool.drop()
