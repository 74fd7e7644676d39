"""A release through its public class, on both databases."""

import numpy as np

from tether.runs import Release, Run


def test_a_good_system_reaches_everybody(store_url):
    rng = np.random.default_rng(3)
    with Release(store_url, {"error": 0.1}, old={"error": 0.02}) as release:
        for _ in range(12):
            keys = [f"u{k}" for k in rng.integers(0, 1000, 400)]
            release.assign(keys)
            release.observe(keys, {"error": np.zeros(400)})
            release.advance()
        assert release.share > 0.3
        history = release.history()
        assert [unit.number for unit in history.units] == list(range(1, len(history.units) + 1))
        assert release.verify() == []
    with Run.open(store_url) as run:
        assert run.history().share == history.share
        assert run.verify() == []
