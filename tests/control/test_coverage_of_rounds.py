"""Coverage of the optimized policy where several policies acted, each chosen by earlier rows."""

import itertools

import numpy as np
import pytest

import tether
from tether.control import coverage
from tether.control.acting import Acting
from tether.control.contradictions import ratio_contradiction
from tether.control.coverage import optimized_coverage

SAFE, NEW = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])


def remembering(before, eager=0.9):
    """The policy of the second round, chosen after the first: in each context it repeats."""
    return (1 - eager) * SAFE + eager * np.eye(3)[before]


def rounds(rows, seed, *, stated="acting", eager=0.9, keep=None):
    """An honest log of two rounds in the same contexts, or the rows of it that are kept."""
    rng = np.random.default_rng(seed)
    first = rng.choice(3, size=rows, p=SAFE)
    tables = np.concatenate([np.tile(SAFE, (rows, 1)), remembering(first, eager)])
    taken = (rng.random(2 * rows)[:, None] > tables.cumsum(axis=1)).sum(axis=1)
    taken[:rows] = first
    mix = (tables[:rows] + tables[rows:]) / 2
    mix, at = np.concatenate([mix, mix]), np.arange(2 * rows)
    kept = np.ones(2 * rows, bool) if keep is None else keep(rng, taken)
    base = mix if stated == "one policy" else np.tile(SAFE, (2 * rows, 1))
    more = {}
    if stated != "one policy":
        more = {"log_mix": np.log(mix[at, taken])[kept], "log_mix_all": np.log(mix)[kept]}
    if stated == "acting":
        more["acting"] = Acting(np.log(tables[at, taken])[kept], np.log(tables)[kept])
    return tether.Log(
        np.zeros(kept.sum()), np.log(base[at, taken])[kept], np.log(NEW[taken])[kept],
        log_safe_all=np.log(base)[kept], log_optimized_all=np.tile(np.log(NEW), (kept.sum(), 1)),
        context=at[kept] % rows, **more,
    )  # fmt: skip


@pytest.mark.parametrize("stake", [0.05, 0.15])
def test_the_expected_capital_is_one_against_the_acting_policies_and_not_against_the_mixture(stake):
    """All logs of one context that comes twice: the policy of the second row knows the first."""
    by_acting = by_mixture = 0.0
    for first, second in itertools.product(range(3), repeat=2):
        policy = remembering(first)
        chance = SAFE[first] * policy[second]
        mix = (SAFE + policy) / 2
        acting = NEW[first] / SAFE[first], NEW[second] / policy[second]
        mixture = NEW[first] / mix[first], NEW[second] / mix[second]
        by_acting += chance * np.prod([1 + stake * (1 - each) for each in acting])
        by_mixture += chance * np.prod([1 + stake * (1 - each) for each in mixture])
    assert by_acting == pytest.approx(1, abs=1e-12)
    assert by_mixture > 1 + stake / 5


def test_an_honest_log_would_be_refuted_by_its_mixture_which_is_not_used():
    for seed in range(5):
        assert optimized_coverage(rounds(1000, seed, stated="one policy")) is not None
        assert optimized_coverage(rounds(1000, seed, stated="mixture")) is None


def test_honest_rounds_are_covered_and_hardly_more_often_refuted_than_allowed(monkeypatch):
    for seed in range(20):
        log = rounds(500, seed)
        assert optimized_coverage(log) is None
        assert ratio_contradiction(log.log_optimized - log.acting.log_logged, 1.0) is None
    monkeypatch.setattr(coverage, "COVERAGE_FALSE_ALARM", 0.05)
    monkeypatch.setattr(coverage, "COVERAGE_MARGIN", 0.0)
    refuted = sum(optimized_coverage(rounds(200, seed)) is not None for seed in range(400))
    assert refuted <= 400 * 0.05 + 3 * (400 * 0.05 * 0.95) ** 0.5


def test_rows_that_are_missing_from_rounds_are_told():
    def lost(rng, taken):
        return (taken != 2) | (rng.random(len(taken)) > 0.5)

    found = optimized_coverage(rounds(4000, 0, eager=0.5, keep=lost))
    assert found is not None
    assert found.limit < 0.95
    assert optimized_coverage(rounds(4000, 0, stated="mixture", eager=0.5, keep=lost)) is None


def test_a_stated_ratio_needs_a_limit_of_every_acting_policy():
    """Half of the rows are of a mix of both policies: safe over acting is at most 2 there."""
    rng = np.random.default_rng(0)
    rows = 4000
    tables = np.where(np.arange(rows)[:, None] % 2 == 0, SAFE, (SAFE + NEW) / 2)
    taken = (rng.random(rows)[:, None] > tables.cumsum(axis=1)).sum(axis=1)
    log_mix = np.log(tables.reshape(-1, 2, 3).mean(axis=1).repeat(2, axis=0))
    limit = np.log(np.where(np.arange(rows) % 2 == 0, 1.0, 2.0))
    at = np.arange(rows)
    for kept, limits, told in (
        (taken < 3, limit, False),
        (taken < 2, limit, True),
        (taken < 2, None, False),
        (taken < 2, np.full(rows, np.inf), False),
    ):
        limits = None if limits is None else limits[kept]
        log = tether.Log(
            np.zeros(kept.sum()), np.log(SAFE[taken])[kept], np.log(NEW[taken])[kept],
            log_mix=log_mix[at, taken][kept], max_ratio=2.5, context=at[kept],
            acting=Acting(np.log(tables[at, taken])[kept], log_base_limit=limits),
        )  # fmt: skip
        assert (optimized_coverage(log) is not None) == told
