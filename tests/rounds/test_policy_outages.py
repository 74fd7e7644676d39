"""The safe policy acts while the optimized one is unavailable; later calibrations know it."""

import numpy as np
import pytest

import tether
from tests.scale import scaled
from tether.rounds import Controller, recording

SAFE = tether.Gaussian(0.0)


class Outage:
    """A policy behind a connection that is lost at times, wholly or for draws alone."""

    def __init__(self, policy, error=None, scores=False):
        self.policy, self.error, self.scores = policy, error, scores

    def sample(self, contexts, rng):
        if self.error is not None:
            raise self.error
        return self.policy.sample(contexts, rng)

    def log_prob(self, contexts, actions):
        if self.error is not None and not self.scores:
            raise self.error
        return self.policy.log_prob(contexts, actions)


def start(store="sqlite://", **settings):
    run = Controller(SAFE, store=store, **({"alpha": 0.1} | settings))
    rng = np.random.default_rng(0)
    taken = run.begin().act(400, rng)
    run.observe(taken.ids, (taken.actions > 2.0).astype(float), taken.actions)
    optimized = Outage(tether.Gaussian(1.0))
    return run, run.begin(optimized), optimized, rng


def rows_of(run):
    run._refresh()
    return run._rows


def test_the_safe_policy_acts_while_the_optimized_one_is_unavailable(store_url):
    run, round_, optimized, rng = start(store_url)
    assert round_.act(50, rng).failure == ""
    optimized.error = ConnectionError("no route to it")
    taken = round_.act(30, rng)
    assert "the optimized policy's sample failed" in taken.failure
    assert "no route to it" in taken.failure
    optimized.error = None
    round_.act(20, rng)
    rows = rows_of(run)
    assert rows.served[400:].tolist() == [2] * 50 + [0] * 30 + [2] * 20
    expected = SAFE.log_prob(None, taken.actions)
    np.testing.assert_allclose(rows.log_prob[450:480], expected)
    np.testing.assert_allclose(rows.log_safe[450:480], expected)
    assert np.isnan(rows.log_optimized[450:480]).all()
    assert 0 < rows.calibration[450:480].sum() < 30  # split by chance, as any row
    run.observe(taken.ids, np.ones(30))
    record = run.history().rounds[1]
    assert (record.rows, record.safe_rows, record.fallback_rows) == (100, 30, 30)
    assert record.failure == taken.failure
    assert run.history().rounds[0].fallback_rows == 0
    # What the safe policy did says nothing of the tethered policy's risk.
    assert record.losses == {}
    assert run.history().alarm is None
    run.close()


# A small world in which everything is a sum: two kinds of contexts, three actions.
PROBABILITIES = {
    0: np.array([[0.80, 0.15, 0.05], [0.60, 0.30, 0.10]]),
    2: np.array([[0.30, 0.20, 0.50], [0.10, 0.30, 0.60]]),
    3: np.array([[0.20, 0.45, 0.35], [0.20, 0.35, 0.45]]),
}
LOSS = np.array([0.0, 0.2, 0.6])
ALPHA, ROWS, RUNS = 0.22, 80, scaled(20)


def table(number):
    rows = np.log(PROBABILITIES[number])
    return tether.Categorical.from_logits(lambda x: rows[np.asarray(x)], actions=[0, 1, 2])


def dying(number):
    """A listed policy whose table cannot be had while `gone` is set."""
    policy = table(number)
    policy.gone, log_prob_all = False, policy.log_prob_all

    def asked(contexts):
        if policy.gone:
            raise ConnectionError("gone")
        return log_prob_all(contexts)

    policy.log_prob_all = asked
    return policy


def lived(seed):
    """A run with an outage for half of round 2: the policy of round 3, and the calibration rows."""
    rng = np.random.default_rng([seed, 5])
    run = Controller(
        table(0), alpha=ALPHA, store="sqlite://", alarm_risk=0.99, calibration_share=0.7
    )
    optimized = dying(2)
    for number, gone in ((1, False), (2, False), (2, True)):
        if not gone:
            round_ = run.begin(optimized if number == 2 else None)
        optimized.gone = gone
        taken = round_.act(rng.integers(0, 2, ROWS), rng)
        run.observe(taken.ids, LOSS[taken.actions])
    optimized.gone = False
    deployed = {0: run.safe, 2: round_.policy}
    last = run.begin(table(3)).policy
    rows = rows_of(run)
    run.close()
    return last, rows, deployed


def densities(policy):
    return np.exp(policy.log_prob_all(np.arange(2)))


def risk(policy):
    return float((densities(policy) @ LOSS).mean())


@pytest.mark.slow
def test_a_calibration_after_an_outage_holds_and_weighs_rightly():
    held, losses, weighed, wrongly = [], [], [], []
    target = PROBABILITIES[3]
    for seed in range(RUNS):
        last, rows, deployed = lived(seed)
        held.append(risk(last))
        losses.append(rows.losses[rows.round == 2, 0].mean())
        where = np.flatnonzero(rows.calibration)
        x, a = np.asarray(rows.contexts)[where], np.asarray(rows.actions)[where]
        begun_with = np.where(rows.round == 2, 2, 0)
        for found, source in ((weighed, rows.served), (wrongly, begun_with)):
            share = {k: np.mean(source[where] == k) for k in deployed}
            mixed = sum(share[k] * densities(deployed[k])[x, a] for k in deployed)
            weight = target[x, a] / mixed
            found.append([weight.mean() - 1, (weight * LOSS[a]).mean() - (target @ LOSS).mean()])
    held, losses, weighed, wrongly = map(np.array, (held, losses, weighed, wrongly))
    error = lambda each: each.std(axis=0, ddof=1) / np.sqrt(RUNS)  # noqa: E731
    assert held.mean() <= ALPHA + 3 * error(held), (held.mean(), error(held))
    assert held.mean() > 0.9 * ALPHA
    assert losses.mean() <= ALPHA + 3 * error(losses), (losses.mean(), error(losses))
    # Weights by who served have mean one and tell what another policy risks; by round they do not.
    assert (np.abs(weighed.mean(axis=0)) < 3.5 * error(weighed)).all(), weighed.mean(axis=0)
    assert (np.abs(wrongly.mean(axis=0)) > 5 * error(wrongly)).any(), wrongly.mean(axis=0)


@pytest.mark.slow
def test_fallback_rows_that_are_counted_as_tethered_show(monkeypatch):
    """The same runs with the outage recorded as if nothing had happened: alpha breaks."""
    write = recording.Recorder.write_actions

    def denied(self, new):
        return write(self, new._replace(served=2 if new.failure else new.served, failure=""))

    monkeypatch.setattr(recording.Recorder, "write_actions", denied)
    held = np.array([risk(lived(seed)[0]) for seed in range(RUNS)])
    assert held.mean() > ALPHA + 3 * held.std(ddof=1) / np.sqrt(RUNS)
