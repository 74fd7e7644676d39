"""The safe policy acts while the optimized one is unavailable; later calibrations know it."""

import numpy as np
import pytest
from typer.testing import CliRunner

import tether
from tests.rounds.export_audit import recompute_calibrations
from tests.scale import scaled
from tether.cli.app import app
from tether.report import render
from tether.rounds import Controller, export_run, import_run, read_history, recording

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


@pytest.mark.parametrize("error", [RuntimeError("r"), TimeoutError("t"), MemoryError("m")])
@pytest.mark.parametrize("family", ["clip", "mix"])
def test_no_row_is_recorded_as_tethered_while_draws_fail(error, family):
    """Draws fail and scores do not: a coin that falls on the safe policy must save no row."""
    run, round_, optimized, rng = start(family=family)
    assert 0 < round_.beta < np.inf
    optimized.error, optimized.scores = error, True
    for _ in range(25):
        round_.act(1, rng)
    assert (rows_of(run).served[400:] == 0).all()
    assert run.history().rounds[1].fallback_rows == 25


def test_mix_has_its_density_while_nothing_fails():
    """The coin is tossed after the optimized policy was asked; the density stays what it was."""
    run, round_, _, rng = start(family="mix")
    taken = round_.act(20_000, rng).actions
    grid = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    cells = np.linspace(-8, 8, 16_001)
    density = np.exp(round_.policy.log_prob(None, cells))
    below = np.array([density[cells <= each].sum() for each in grid]) * (cells[1] - cells[0])
    share = (taken[:, None] <= grid).mean(axis=0)
    assert np.abs(share - below).max() < 4 * 0.5 / np.sqrt(len(taken))
    assert (rows_of(run).served[400:] == 2).all()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError("too long"), ValueError),
        (KeyError("unheard of"), ValueError),
        (KeyboardInterrupt(), KeyboardInterrupt),
        (SystemExit(1), SystemExit),
    ],
)
def test_errors_that_are_no_outage_are_raised(error, kind):
    run, round_, optimized, rng = start()
    optimized.error = error
    with pytest.raises(kind):
        round_.act(30, rng)
    assert len(rows_of(run)) == 400


def test_nan_scores_and_the_cap_on_draws_are_raised():
    """Answers of a kind would never be seen, and contexts of a kind never under the tether."""
    run, round_, optimized, rng = start()
    optimized.policy = tether.Gaussian(80.0)  # the safe policy never does what it does
    with pytest.raises(RuntimeError, match="gave up"):
        round_.act(1, rng)

    def no_number(_, contexts, actions):
        return np.full(len(actions), np.nan)

    optimized.policy = type("Nan", (), {"sample": SAFE.sample, "log_prob": no_number})()
    with pytest.raises(ValueError, match="nan"):
        round_.act(30, rng)
    assert len(rows_of(run)) == 400


def test_a_safe_policy_that_is_unavailable_too_is_an_error():
    safe = Outage(SAFE)
    run = Controller(safe, alpha=0.1, store="sqlite://")
    rng = np.random.default_rng(0)
    taken = run.begin().act(400, rng)
    run.observe(taken.ids, (taken.actions > 2.0).astype(float))
    optimized = Outage(tether.Gaussian(1.0))
    round_ = run.begin(optimized)
    safe.error = optimized.error = OSError("all is dark")
    with pytest.raises(RuntimeError, match=r"the safe policy's sample failed .*all is dark"):
        round_.act(30, rng)
    assert len(rows_of(run)) == 400


def test_a_run_that_is_opened_again_in_an_outage_serves_safely(sqlite_url):
    run, _, optimized, rng = start(sqlite_url)
    run.begin(optimized, name="again").act(10, rng)
    run.close()
    optimized.error = ConnectionError("gone")
    with Controller(SAFE, alpha=0.1, store=sqlite_url, policies=lambda _: optimized) as run:
        with pytest.raises(RuntimeError, match="the optimized policy's log_prob failed"):
            _ = run.round
        run.begin().act(5, rng)
        assert (rows_of(run).served[-5:] == 0).all()


def test_losses_of_fallback_rows_raise_no_alarm():
    run, round_, optimized, rng = start(false_alarm_probability=0.01)
    optimized.error = RuntimeError("gone")
    taken = round_.act(300, rng)
    run.observe(taken.ids, np.ones(300))
    assert run.history().alarms == ()
    optimized.error = None
    taken = round_.act(300, rng)
    run.observe(taken.ids, np.ones(300))
    assert run.history().alarm.round == 2


def with_an_outage(store):
    run, round_, optimized, rng = start(store)
    for error in (None, ConnectionError("gone"), None):
        optimized.error = error
        taken = round_.act(80, rng)
        run.observe(taken.ids, (taken.actions > 2.0).astype(float), taken.actions)
    round_ = run.begin(Outage(tether.Gaussian(0.5)))
    run.close()
    return round_.calibration


def test_what_was_calibrated_after_an_outage_is_computed_again_from_the_table(tmp_path):
    found = with_an_outage(tmp_path / "run.db")
    export_run(tmp_path / "run.db", tmp_path / "run.parquet")
    log_beta, risk = recompute_calibrations(tmp_path / "run.parquet")[3]
    assert found.log_beta == pytest.approx(log_beta, abs=1e-6)
    assert found.risk == pytest.approx(risk, abs=1e-6)
    import_run(tmp_path / "run.parquet", tmp_path / "copy.db")
    copy = read_history(tmp_path / "copy.db").rounds[1]
    assert copy == read_history(tmp_path / "run.db").rounds[1]
    assert (copy.fallback_rows, "gone" in copy.failure) == (80, True)


def test_report_and_status_show_an_outage(tmp_path):
    with_an_outage(tmp_path / "run.db")
    page = render(read_history(tmp_path / "run.db"))
    assert "240 (80 by the safe policy, 80 of them after a failure)" in page
    run, round_, optimized, rng = start(tmp_path / "other.db")
    optimized.error = ConnectionError("gone")
    round_.act(7, rng)
    run.close()
    said = CliRunner().invoke(app, ["status", str(tmp_path / "other.db")]).stdout
    assert "the safe policy took 7 of 7 actions after a failure" in " ".join(said.split())


def test_a_failure_message_that_is_not_valid_unicode_is_stored(tmp_path):
    run, round_, optimized, rng = start(tmp_path / "run.db")
    optimized.error = RuntimeError("gone \udcff")
    assert len(round_.act(3, rng)) == 3
    assert run.history().rounds[1].failure.endswith("gone \\udcff")
    run.close()


def test_a_policy_that_is_not_implemented_is_no_outage(tmp_path):
    run, round_, optimized, rng = start(tmp_path / "run.db")
    optimized.error = NotImplementedError("later")
    with pytest.raises(ValueError, match="later"):
        round_.act(3, rng)
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
