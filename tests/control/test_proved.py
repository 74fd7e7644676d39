"""calibrate(promise=) and its weights: by the definition, in simulated worlds, and in errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.worlds import gaussian
from scipy.stats import binom, kstest

from tests.control.worlds import Geometric, table_log
from tether._core.rows import Rows
from tether.control.calibrate import calibrate
from tether.control.chain import design, draw_uniform, factors, find_chain, soft_chain
from tether.control.engine import COARSE, Constraint
from tether.control.families import find_family
from tether.control.log import Log, Proposals
from tether.control.pose import pose
from tether.control.unbiased import fixed_sequence, mean_band, unbiased_weights

PROMISE = 0.1


def log_softmax(scores):
    return scores - np.logaddexp.reduce(scores, axis=-1, keepdims=True)


class TableWorld:
    """Equally likely contexts with tables of a safe and an optimized policy, and losses."""

    def __init__(self, seed=0, contexts=30, actions=5, distance=1.0):
        rng = np.random.default_rng(seed)
        scores = rng.normal(size=(contexts, actions))
        pull = rng.normal(size=scores.shape)
        self.safe, self.optimized = log_softmax(scores), log_softmax(scores + distance * pull)
        self.harm = np.minimum(0.03 * np.exp(0.9 * pull), 1.0)

    def log(self, rows, rng, tables=True, **more):
        context = rng.integers(len(self.safe), size=rows)
        cumulated = np.cumsum(np.exp(self.safe), axis=1)[context]
        action = np.minimum(
            (rng.random(rows)[:, None] > cumulated).sum(axis=1), self.safe.shape[1] - 1
        )
        loss = (rng.random(rows) < self.harm[context, action]).astype(float)
        if tables:
            own = self.safe[context], self.optimized[context]
            return table_log(loss, action, *own, context=context, **more)
        scores = self.safe[context, action], self.optimized[context, action]
        return Log(loss, *scores, context=context, **more)

    def risks(self, log_betas):
        """The true risk of clip at each beta."""
        kernel = np.minimum(self.optimized, np.asarray(log_betas)[:, None, None] + self.safe)
        return (np.exp(log_softmax(kernel)) * self.harm).sum(axis=2).mean(axis=1)


def posed(log, proposals=None, family="clip", alpha=PROMISE, **more):
    """The problem of a rule that needs no test weight."""
    constraints = (Constraint("loss", alpha, **more),)
    return pose(log, proposals, find_family(family), None, 0.0, constraints)[0]


def served_risk(found, risks_of):
    """The expected loss given the log, over the draw."""
    chain = found.chain
    finite = np.clip(chain.log_betas, -600, 600)
    risks = np.concatenate((risks_of([-600.0]), risks_of(finite)))
    return float(chain.probabilities @ risks)


# ---- against the definition --------------------------------------------------------------------


def direct_weights(family, log, log_beta):
    """Weights against the safe policy and their limits, from tables, by the definition."""
    safe, optimized = log.rows.columns["log_safe_all"], log.rows.columns["log_optimized_all"]
    if family == "mix":
        density = np.logaddexp(safe, optimized + log_beta) - np.logaddexp(0.0, log_beta)
    elif family == "clip":
        density = log_softmax(np.minimum(optimized, safe + log_beta))
    else:
        density = log_softmax(Geometric().log_kernel(safe, optimized, log_beta))
    table = density - safe
    own = np.isclose(safe, log.log_safe[:, None]).argmax(axis=1)
    return np.exp(table[np.arange(len(own)), own]), np.exp(table.max(axis=1))


@pytest.mark.parametrize("family", ["clip", "mix", Geometric()])
def test_shares_are_those_of_the_definition_with_tables(family):
    log = TableWorld(1).log(400, np.random.default_rng(2))
    found = calibrate(log, promise=PROMISE, family=family)
    level, stake = design(len(log), PROMISE)
    assert (found.chain.levels["loss"], found.chain.stakes["loss"]) == (level, stake)
    sequence, logs = fixed_sequence(), []
    for log_beta in np.clip(sequence, -400, 400):
        weight, limit = direct_weights(family, log, log_beta)
        logs.append(np.log(factors(log.loss["loss"], weight, limit, level, stake, 1.0)).sum())
    direct = soft_chain(logs)
    at = np.minimum(
        np.searchsorted(sequence, np.minimum(found.chain.log_betas, 1000)), len(sequence) - 1
    )
    assert found.chain.shares == pytest.approx(direct[at], abs=2e-6)
    assert direct[at[-1] + 1 :].max(initial=0.0) < 2e-6
    assert set(np.minimum(found.chain.log_betas, 1000)) <= set(sequence)


def test_the_sequence_is_fixed_and_lies_on_the_grid():
    sequence = fixed_sequence()
    assert np.all(np.diff(sequence) > 0)
    assert set(COARSE) <= set(sequence)
    assert (sequence[0], sequence[-1]) == (-1000, 1000)


def test_budgeted_clip_with_own_draws_is_that_of_the_definition():
    rng, world, budget = np.random.default_rng(3), TableWorld(2), 2
    log = world.log(200, rng, tables=False)
    drawn = {}
    for name, table in (("safe", world.safe), ("optimized", world.optimized)):
        cumulated = np.cumsum(np.exp(table), axis=1)[log.context]
        number = rng.random((len(log), budget))[:, :, None] > cumulated[:, None]
        drawn[name] = np.minimum(number.sum(axis=2), 4)
    context = np.tile(np.repeat(log.context, budget), 2)
    action = np.concatenate([drawn["safe"].ravel(), drawn["optimized"].ravel()])
    source = np.repeat(["safe", "optimized"], len(action) // 2)
    scores = world.safe[context, action], world.optimized[context, action]
    proposals = Proposals(*scores, context=context, source=source)
    found = calibrate(log, proposals, promise=PROMISE, family=f"budgeted_clip({budget})")
    weights = unbiased_weights(posed(log, proposals, f"budgeted_clip({budget})"), "promise")
    k = int(np.searchsorted(weights.t, -0.5))
    got, limit = weights.weigh(weights.problem.rows.columns)
    # below 1 the safe policy proposes; draws are dealt out in the order of the rows of a context
    rank = {c: iter(np.flatnonzero(log.context == c)) for c in np.unique(log.context)}
    beta, expected = np.exp(weights.t[k]), np.empty(len(log))
    pools = {c: list(drawn["safe"][log.context == c].ravel()) for c in rank}
    for row, c in enumerate(log.context):
        own = [pools[c].pop(0) for _ in range(budget)]
        rejected = [
            1 - min(1, np.exp(world.optimized[c, a] - world.safe[c, a]) / beta) for a in own
        ]
        tries, fallback = 1 + np.mean(rejected), np.prod(rejected)
        ratio = np.exp(log.log_optimized[row] - log.log_safe[row])
        expected[row] = min(1, ratio / beta) * tries + fallback
    assert got[k] == pytest.approx(expected)
    assert limit[k] == pytest.approx(budget + 1)
    assert found.family == f"budgeted_clip({budget})"


def test_rows_that_share_draws_are_refused_with_the_number_that_is_needed():
    rng, world = np.random.default_rng(4), TableWorld(3, contexts=3)
    log = world.log(60, rng, tables=False)
    context = np.tile(np.arange(3), 20)
    scores = world.safe[context, 0], world.optimized[context, 0]
    source = np.where(np.arange(60) < 30, "safe", "optimized")
    proposals = Proposals(*scores, context=context, source=source)
    most = np.bincount(log.context).max()
    for asked in ({"promise": PROMISE}, {"alpha": PROMISE, "confidence": 0.9}):
        with pytest.raises(ValueError, match=rf"draws of its own.* {most * 10} draws"):
            calibrate(log, proposals, **asked)


def gauss(rows, draws, rng):
    """A log and proposals of the Gaussian world, without contexts."""
    return replace(gaussian(limit=1.645), draws=draws).log(rows, rng)


def test_without_contexts_the_shares_are_those_of_the_band():
    log, proposals = gauss(500, 2000, np.random.default_rng(5))
    found = calibrate(log, proposals, promise=PROMISE)
    error = 1e-3 * PROMISE
    level, stake = design(len(log), PROMISE - error)
    each_error = error / (4 * len(fixed_sequence()))
    ratio = np.exp(log.log_optimized - log.log_safe)
    draws = np.exp(proposals.log_optimized - proposals.log_safe)
    logs = []
    for log_beta in found.chain.log_betas[found.chain.log_betas < 8]:
        beta, bands = np.exp(log_beta), []
        for values in (np.minimum(1, draws[:2000] / beta), np.minimum(1, beta / draws[2000:])):
            sums = np.array([[values.sum()], [(values**2).sum()]])
            bands.append(mean_band(sums, len(values), each_error))
        low = max(beta * bands[0][0][0], bands[1][0][0])
        high = min(beta * bands[0][1][0], bands[1][1][0], beta, 1)
        weight, scaled = np.minimum(ratio, beta) / high, stake * high / low
        logs.append(
            np.log(factors(log.loss["loss"], weight, beta / high, level, scaled, 1.0)).sum()
        )
    assert found.chain.shares[: len(logs)] == pytest.approx(soft_chain(logs), abs=1e-9)


def test_draws_of_the_optimized_policy_alone_lead_as_far():
    """They leave ψ open at small betas, with which the sequence then does not begin."""
    log, proposals = gauss(1000, 3000, np.random.default_rng(20))
    drew = ~proposals.from_safe
    alone = Proposals(proposals.log_safe[drew], proposals.log_optimized[drew])
    found, both = (calibrate(log, each, promise=PROMISE) for each in (alone, proposals))
    assert found.log_beta == pytest.approx(both.log_beta, abs=0.25)
    assert found.chain.log_betas[0] > both.chain.log_betas[0] + 1


def test_bands_of_means_hold():
    rng, misses = np.random.default_rng(6), 0
    for _ in range(400):
        values = rng.beta(0.3, 0.5, size=60)
        low, high = mean_band(np.array([[values.sum()], [(values**2).sum()]]), 60, 0.1)
        misses += not low[0] <= 0.3 / 0.8 <= high[0]
    assert misses <= 0.2 * 400


def test_many_rows_as_weighted_points_lose_next_to_nothing():
    rng = np.random.default_rng(7)
    log, proposals = gauss(30_000, 3000, rng)
    graded = Log(
        np.clip(log.loss["loss"] * rng.random(len(log)), 0, 1), log.log_safe, log.log_optimized
    )
    for each, family in ((log, "clip"), (graded, "clip"), (log, "mix")):
        points = unbiased_weights(posed(each, proposals, family, 0.07), "promise")
        assert points.cells
        rows = replace(points, cells={})
        few, _ = find_chain(points, 0.5, rows=len(each))
        many, _ = find_chain(rows, 0.5, rows=len(each))
        size = min(len(few.shares), len(many.shares))
        assert np.all(few.shares[:size] <= many.shares[:size] * (1 + 1e-9))
        assert few.shares[:size] == pytest.approx(many.shares[:size], abs=0.01)


def test_cutting_and_order_change_nothing_and_the_draw_is_uniform_over_logs():
    world, rng = TableWorld(8), np.random.default_rng(8)
    problem = posed(world.log(300, rng))

    class Cut(Rows):
        def blocks(self, size=0):
            return super().blocks(37)

    weights = unbiased_weights(problem, "promise")
    backwards = {name: each[::-1] for name, each in problem.rows.columns.items()}
    cut = replace(weights, problem=replace(problem, rows=Cut(backwards)))
    one, two = (find_chain(each, 0.5, rows=300)[0] for each in (weights, cut))
    assert one.shares == pytest.approx(two.shares)
    assert draw_uniform(problem.rows, 3) == draw_uniform(cut.problem.rows, 3)
    draws = [draw_uniform(world.log(20, rng).rows, 0) for _ in range(400)]
    assert kstest(draws, "uniform").pvalue > 1e-3
    assert draw_uniform(problem.rows, 0) != draw_uniform(problem.rows, 1)


def several_losses(log, rate, rng):
    """A log with the loss and a second one that adds to it, and a log of each alone."""
    losses = {"a": log.loss["loss"]}
    losses["b"] = np.minimum(losses["a"] + (rng.random(len(log)) < rate), 1.0)
    columns = {name: log.rows.columns[name] for name in ("log_safe_all", "log_optimized_all")}
    columns |= {"context": log.context, "log_safe": log.log_safe}
    columns["log_optimized"] = log.log_optimized
    return Log(losses, **columns), {name: Log(each, **columns) for name, each in losses.items()}


def test_several_losses_have_the_smallest_share_and_each_its_own_beta():
    rng = np.random.default_rng(9)
    both, alone = several_losses(TableWorld(9, distance=2.5).log(500, rng), 0.05, rng)
    found = calibrate(both, promise={"a": 0.07, "b": 0.1})
    chains = [calibrate(alone["a"], promise=0.07).chain, calibrate(alone["b"], promise=0.1).chain]
    size = len(found.chain.shares)
    first, last = (np.append(each.shares, np.zeros(200))[:size] for each in chains)
    smallest = np.minimum(first, last)
    assert (first > last + 0.01).any()  # each of them limits somewhere
    assert (last > first + 0.01).any()
    assert found.chain.shares == pytest.approx(smallest, abs=2e-6)
    assert found.log_beta == min(each.log_beta for each in found.losses.values())


# ---- validity ----------------------------------------------------------------------------------


def rare_clip(scaled):
    """The exact risk where an action of which the log has hardly any rows does all the harm.

    Without contexts and with few proposals; the sum is over the number of harmful rows.
    """
    rows, rare, other = 100, 1e-3, 1e-4
    safe, optimized = np.array([1 - rare, rare]), np.array([other, 1 - other])
    ratio = np.log(optimized) - np.log(safe)
    source = np.repeat(["safe", "optimized"], 10)
    drawn = np.array([0] * 10 + [1] * 10)
    proposals = Proposals(np.log(safe)[drawn], np.log(optimized)[drawn], source=source)
    total = 0.0
    for count in range(4):
        action = np.arange(rows) < count
        log = Log(action * 1.0, np.log(safe)[action * 1], np.log(optimized)[action * 1])
        weights = unbiased_weights(posed(log, proposals), "promise")
        if not scaled:
            weights = replace(weights, log_low=weights.log_high)
        chain, _ = find_chain(weights, 0.5, rows=rows)
        kernel = np.exp(np.minimum(ratio, np.minimum(chain.log_betas, 500)[:, None])) * safe
        risks = np.append(rare, kernel[:, 1] / kernel.sum(axis=1))
        total += binom.pmf(count, rows, rare) * (chain.probabilities @ risks)
    return total


def test_a_stake_that_is_not_scaled_by_the_band_breaks_the_promise_and_the_scaled_one_does_not():
    assert rare_clip(scaled=True) <= 0.1
    assert rare_clip(scaled=False) > 0.5


def test_wrong_weights_keep_the_promise_with_their_ratio_error_and_break_it_without():
    rng, world, error = np.random.default_rng(14), TableWorld(14, distance=1.5), 1.3
    ratio = world.optimized - world.safe
    world.harm = np.minimum(0.1 * np.exp(2 * ratio - 2), 1.0)
    safe, optimized = world.risks([-600.0, 600.0])

    def mixed(log_betas):
        share = 1 / (1 + np.exp(-np.asarray(log_betas)))
        return (1 - share) * safe + share * optimized

    exact, robust, ignored = [], [], []
    for _ in range(12):
        log = world.log(1000, rng, tables=False)
        shift = np.where(log.loss["loss"] > 0, -np.log(error), 0.0)
        tried = ((exact, 0.0, 1.0), (robust, shift, error), (ignored, shift, 1.0))
        for found, wrong, factor in tried:
            scores = log.log_safe, log.log_optimized + wrong
            stated = {"context": log.context, "max_ratio": np.exp(ratio.max())}
            same = Log(log.loss["loss"], *scores, **stated)
            served = calibrate(same, promise=PROMISE, family="mix", ratio_error=factor)
            found.append(served_risk(served, mixed))
    assert 1.5 * safe < np.mean(robust) < np.mean(exact) <= PROMISE
    assert np.mean(ignored) > PROMISE + 3 * np.std(ignored) / np.sqrt(len(ignored))


# ---- rounds, statements and errors -------------------------------------------------------------


def test_rows_of_rounds_are_weighed_against_the_policy_that_acted():
    rng, world = np.random.default_rng(15), TableWorld(15)
    acting = log_softmax(0.5 * (world.safe + world.optimized))
    first, second = world.log(150, rng), TableWorld(15)
    second.safe = acting
    later = second.log(150, rng)
    context = np.concatenate((first.context, later.context))
    taken = ((world.safe[first.context], first), (acting[later.context], later))
    own = [np.isclose(table, log.log_safe[:, None]).argmax(axis=1) for table, log in taken]
    own = np.concatenate(own)
    tables = [each[context] for each in (world.safe, world.optimized)]
    logged_all = np.where(np.arange(300)[:, None] < 150, tables[0], acting[context])
    row = np.arange(300)
    log_mix = np.logaddexp(tables[0], acting[context])[row, own] - np.log(2)
    loss = np.concatenate((first.loss["loss"], later.loss["loss"]))
    given = {"context": context, "log_safe_all": tables[0], "log_optimized_all": tables[1]}
    given["log_mix_all"] = np.logaddexp(tables[0], acting[context]) - np.log(2)
    scores = tables[0][row, own], tables[1][row, own]
    with pytest.raises(ValueError, match="log_logged"):
        calibrate(Log(loss, *scores, log_mix=log_mix, **given), promise=PROMISE)
    acted = {"log_logged": logged_all[row, own], "log_logged_all": logged_all}
    log = Log(loss, *scores, log_mix=log_mix, **acted, **given)
    chain = calibrate(log, promise=PROMISE).chain
    log_beta = chain.log_betas[len(chain.log_betas) // 2]
    density = log_softmax(np.minimum(tables[1], tables[0] + log_beta))
    weights = unbiased_weights(posed(log), "promise")
    k = int(np.searchsorted(weights.t, log_beta))
    got, limit = weights.weigh(weights.problem.rows.columns)
    assert got[k] == pytest.approx(np.exp(density - logged_all)[row, own])
    assert np.all(limit[k] >= np.exp(density - logged_all).max(axis=1) * (1 - 1e-9))


def test_what_is_stated():
    log = TableWorld(16).log(1000, np.random.default_rng(16))
    found = calibrate(log, promise=PROMISE)
    chain = found.chain
    assert (found.rule, found.promise, found.binding.terms) == ("promise", PROMISE, None)
    level, stake = design(1000, PROMISE)
    assert f"{level:.4g}" in found.statement
    assert chain.risk_limit("loss", level) == PROMISE
    higher = level + 0.01
    assert chain.risk_limit("loss", higher) == pytest.approx(
        higher + (PROMISE - level) * np.exp(-stake * 1000 * 0.01)
    )
    third = calibrate(log, promise=PROMISE, looks=3)
    assert third.log_beta == found.log_beta
    assert third.promise == pytest.approx(level + 3 * (PROMISE - level))
    known = calibrate(log, promise=PROMISE, safe_risk=0.095)
    assert known.chain.levels["loss"] == pytest.approx(0.095)


def test_warnings_name_what_changes_a_decision():
    rng = np.random.default_rng(17)
    few = calibrate(TableWorld(17).log(8, rng), promise=PROMISE)
    assert not few.exists
    assert any("too few" in each for each in few.warnings)
    log = TableWorld(17).log(400, rng)
    unsafe = calibrate(log, promise=log.loss["loss"].mean() * 1.05)
    assert any("safe policy's own mean loss" in each for each in unsafe.warnings)
    log, proposals = gauss(300, 20, rng)
    vague = calibrate(log, proposals, promise=PROMISE)
    assert any("normalizing constant" in each for each in vague.warnings)


def test_errors_name_the_argument():
    rng = np.random.default_rng(19)
    log, proposals = gauss(100, 100, rng)
    with pytest.raises(ValueError, match="proposals"):
        calibrate(log, promise=PROMISE)
    for wrong in ({"safe_risk": 0.2}, {"seed": -1}, {"test_weight": 1.01, "family": "mix"}):
        with pytest.raises((TypeError, ValueError), match=next(iter(wrong))):
            calibrate(log, proposals, promise=PROMISE, **wrong)
