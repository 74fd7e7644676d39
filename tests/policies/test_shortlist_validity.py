"""The risk of the action that a shortlist serves is at most what is promised, on average over logs.

The promise is alpha, plus the expected excess of the safe policy's own mean loss over alpha where
logs are so short that no beta may exist. Policies are close in the harmless contexts and far apart
in the harmful ones, so a single normalizing constant for all contexts would be wrong: the last test
makes that mistake on purpose.
"""

import numpy as np
import pytest

from tests.scale import scaled
from tether import Log, Shortlist, calibrate

ALPHA = 0.16
FAMILIES = ("clip", "mix", "budgeted_clip(4)")


def draw(contexts, rng):
    return rng.normal(size=len(contexts))


def score(contexts, candidates):
    """Nearly no preference in half of the contexts, a strong one in the others."""
    return np.where(contexts == 1, 6.0, 0.3)[:, None] * candidates


def losses(contexts, actions):
    """Large actions harm, in the contexts in which the policies are far apart."""
    return (contexts == 1) * np.clip((actions + 0.5) / 3, 0, 1)


def simulate(size, rows, repeats, family="clip", change=lambda log: log):
    """The mean risk deployed, its standard error, and the expected excess of the safe policy."""
    rng = np.random.default_rng([size, rows])
    shortlist = Shortlist(draw, score, size=size)
    new = rng.integers(2, size=6_000)
    risks, excess = [], []
    for _ in range(repeats):
        contexts = rng.integers(2, size=rows + 1)
        actions = draw(contexts, rng)
        loss = losses(contexts, actions)
        log = shortlist.make_log(contexts[:rows], actions[:rows], loss[:rows], rng)
        found = calibrate(change(log), alpha=ALPHA, family=family)
        served = shortlist.tethered(found.beta, family=family).sample(new, rng)
        risks.append(losses(new, served).mean())
        excess.append(max(loss.mean() - ALPHA, 0))
    return np.mean(risks), np.std(risks) / np.sqrt(repeats), np.mean(excess)


@pytest.mark.parametrize("size", [2, 4, 16])
@pytest.mark.parametrize("rows", [50, 5_000])
def test_the_mean_risk_served_is_at_most_what_is_promised(size, rows):
    risk, error, excess = simulate(size, rows, repeats=scaled(60 if rows == 50 else 6))
    assert risk <= ALPHA + excess + 3 * error
    assert risk > 0.13 if rows == 50 else risk > 0.155  # the safe policy's risk is 0.117
    if rows == 5_000:
        assert excess == 0


@pytest.mark.parametrize("family", FAMILIES[1:])
def test_it_is_so_for_every_family(family):
    for rows, repeats in ((50, scaled(40)), (2_000, scaled(5))):
        risk, error, excess = simulate(4, rows, repeats, family)
        assert risk <= ALPHA + excess + 3 * error
        assert risk > 0.125


def with_one_normalizer(log):
    """The log as if it had no contexts."""
    return Log(log.loss, log.log_safe, log.log_optimized)


def with_wrong_candidates(log):
    """As if the logged action had not been among the candidates: weights of other positions."""
    table = np.roll(log.log_optimized_all, 1, axis=1)
    return Log(log.loss, log.log_safe, table[:, 0], log_safe_all=log.log_safe_all,
               log_optimized_all=table)  # fmt: skip


@pytest.mark.parametrize("change", [with_one_normalizer, with_wrong_candidates])
def test_wrong_weights_break_the_promise(change):
    for size in (4, 16):
        risk, error, excess = simulate(size, 5_000, repeats=6, change=change)
        assert risk > ALPHA + excess + 3 * error
