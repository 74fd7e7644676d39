"""The rounds of the Ehrlich experiment: a quick run as a whole, and single runs computed again."""

import warnings

import numpy as np
import pytest
from experiments.ehrlich import checkpoint, improve, report
from experiments.ehrlich import start as starts
from experiments.ehrlich.__main__ import main
from experiments.ehrlich.loop import Run
from experiments.ehrlich.rows import log_acceptance

import tether
from experiments import ehrlich, harness

SAMPLE = 120
SETTINGS = {
    "sample": SAMPLE,
    "first_sample": 400,
    "stock": 700,
    "proposals": 64,
    "pairs": 3500,
    "safe_seeds": 4,
}
FEW = [word for name in SETTINGS for word in ("--set", f"{name}={SETTINGS[name]}")]
"""Fewer actions, pairs and seeds than in a quick run by hand."""


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    out = tmp_path_factory.mktemp("ehrlich")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # matplotlib's own
        main(["--quick", "--out", str(out), *FEW])
    return out


def test_quick_run_keeps_alpha_where_it_controls_and_loses_it_where_not(quick):
    rows = report.read(quick / "rounds.csv")
    assert {(row["arm"], row["alpha"]) for row in rows} == {
        ("clip", 0.4), ("clip", 1.0), ("mix", 0.4), ("aimed_ramp", 0.5)
    }  # fmt: skip
    last = {(row["arm"], row["alpha"]): row for row in rows if row["round"] == 2}
    free = [row["infeasible"] for row in rows if (row["arm"], row["alpha"]) == ("clip", 1.0)]
    assert max(free) > 0.6 > 0.4 > free[0]
    for row in rows:
        if row["alpha"] == 0.4:
            spread = 3 * np.sqrt(0.4 * 0.6 / SAMPLE)
            assert row["infeasible"] <= 0.4 + spread
            assert row["round"] == 0 or row["exists"]
            assert row["round"] == 0 or row["risk"] <= 0.4 + 1e-6
        assert 0 <= row["unread"] <= row["infeasible"]
    assert last["mix", 0.4]["draws"] == 1.0
    assert 1 < last["clip", 0.4]["draws"] <= 75
    best = [row["best"] for row in rows if (row["arm"], row["alpha"]) == ("clip", 0.4)]
    assert best == sorted(best)
    ramp = [row for row in rows if (row["arm"], row["alpha"]) == ("aimed_ramp", 0.5)]
    assert 0 < ramp[1]["first_share"] < 1
    assert max(row["infeasible"] for row in ramp) <= 0.5 + 3 * np.sqrt(0.5 * 0.5 / SAMPLE)


def test_quick_run_leaves_tables_and_figures(quick):
    overview = {(row["arm"], row["alpha"]): row for row in report.read(quick / "overview.csv")}
    assert overview["clip", 0.4]["rounds"] == 2
    assert overview["clip", 0.4]["infeasible_late"] < overview["clip", 1.0]["infeasible_late"]
    assert len(report.read(quick / "summary.csv")) == 12
    for name in ("panels", "families", "cost", "ramps"):
        assert "<svg" in (quick / f"{name}.svg").read_text(encoding="utf-8")
    safe = report.read(quick / "safe.csv")[0]
    assert safe["safe_infeasible"] < 0.4
    assert safe["last_loss"] < safe["first_loss"]


def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(quick, tmp_path):
    task = harness.begin(ehrlich.__file__, ["--quick", "--out", str(tmp_path)])
    settings = dict(task.settings) | {"sample": 60, "triplets": 64, "proposals": 32}
    start = starts.load(settings, quick / "checkpoints" / "start-0.pt")
    straight = Run.begin(start, settings, "clip", 0.5, 0)
    stopped = Run.begin(start, settings, "clip", 0.5, 0)
    for _ in range(3):
        straight.step()
    for _ in range(3):
        stopped = checkpoint.resume(Run.begin(start, settings, "clip", 0.5, 0), tmp_path)
        stopped.step()
        checkpoint.save(stopped, tmp_path)
    for one, two in zip(straight.table, stopped.table, strict=True):
        same = [key for key in one if key != "seconds"]
        assert [one[key] for key in same] == pytest.approx([two[key] for key in same], nan_ok=True)
    checkpoint.finish(tmp_path)
    assert len(checkpoint.table(tmp_path)) == 3


@pytest.mark.parametrize(
    ("alpha", "dpo_from", "base"), [(0.001, "served", 0), (0.001, "last", 2), (1.0, "served", 2)]
)
def test_dpo_starts_from_the_last_model_that_was_let_through(small, alpha, dpo_from, base):
    settings, start = small
    run = Run.begin(start, settings | {"dpo_from": dpo_from}, "clip", alpha, 0)
    for _ in range(3):
        run.step()
    assert run.base == base
    assert (run.model is run.current.model) == (base == 2)
    assert (run.model is start.model) == (base == 0)


def test_resuming_finished_runs_repeats_nothing(quick):
    before = (quick / "rounds.csv").read_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        main(["--quick", "--resume", "--out", str(quick), *FEW])
    assert (quick / "rounds.csv").read_bytes() == before


def test_runs_with_other_settings_are_not_gone_on_with(quick):
    changed = [*FEW, "--set", "sample=9", "--set", "dpo_rate=1.0"]
    with pytest.raises(SystemExit, match="has runs with other settings: dpo_rate, sample"):
        main(["--quick", "--resume", "--out", str(quick), *changed])


@pytest.fixture
def small(quick):
    """Settings of few actions, and the quick run's safe policy."""
    settings = dict(harness.begin(ehrlich.__file__, ["--quick", "--out", str(quick)]).settings)
    settings |= {"first_sample": 240, "sample": 60, "triplets": 64, "proposals": 64}
    return settings, starts.load(settings, quick / "checkpoints" / "start-0.pt")


def recorded(monkeypatch, owner, name):
    """Every call's arguments and result, while it does what it always did."""
    calls, usual = [], getattr(owner, name)

    def call(*given, **options):
        calls.append((given, options, usual(*given, **options)))
        return calls[-1][2]

    monkeypatch.setattr(owner, name, call)
    return calls


def test_a_run_is_what_its_parts_say_when_computed_again(small, monkeypatch):
    """Every density from the definition, every row under every policy, and no row used twice."""
    settings, start = small
    observed = recorded(monkeypatch, Run, "_observe")
    calibrated = recorded(monkeypatch, tether, "calibrate")
    run = Run.begin(start, settings | {"most_draws": 1.5, "dpo_rate": 1e-3}, "clip", 0.6, 0)
    for _ in range(5):
        run.step()
    safe, rows = run.safe.policy, run.rows
    log_safe = safe.log_prob(None, rows.actions)
    assert np.allclose(rows.log_safe, log_safe, atol=1e-4)

    columns = [log_safe]
    for served, past, row in zip(run.served[1:], rows.log_past[1:], run.table[1:], strict=True):
        log_optimized = served.optimized.log_prob(None, rows.actions)
        assert np.allclose(past, log_optimized, atol=1e-4)
        assert (served.log_beta, served.log_psi) == (row["log_beta"], row["log_psi"])
        assert row["limited"] == (row["log_beta"] < row["allowed"])
        rng = np.random.default_rng(1)
        draws = np.concatenate([each.sample(200, rng) for each in (safe, served.optimized)])
        scores = safe.log_prob(None, draws), served.optimized.log_prob(None, draws)
        expected = log_acceptance(served.log_beta, *scores)[0] + min(served.log_beta, 0.0)
        assert served.log_psi == pytest.approx(expected, abs=0.5)
        kernel = np.minimum(log_optimized, served.log_beta + log_safe)
        columns.append(kernel - served.log_psi)
    assert any(row["limited"] for row in run.table)
    assert any(served.log_psi < -0.1 for served in run.served)

    assert len(calibrated) == 4
    for number, ((log, proposals), _, _) in enumerate(calibrated, start=1):
        counts = np.array(run.counts[:number])
        several = np.array(columns[:number])[:, : counts.sum()]
        expected = np.logaddexp.reduce(several + np.log(counts / counts.sum())[:, None], axis=0)
        assert np.allclose(log.log_mix, expected, atol=1e-3)
        row = run.table[number]
        share = np.exp(log_acceptance(row["log_beta"], proposals.log_safe, proposals.log_optimized))
        assert share[0] >= (1 - 1e-9) / 1.5 or not row["limited"]

    ends = np.cumsum(run.counts)
    for number, ((_, actions, *_), _, _) in enumerate(observed):
        kept = rows.actions[ends[number] - run.counts[number] : ends[number]]
        both = np.concatenate([kept, run.training[number]])
        assert len(kept) == len(actions) // 2
        assert sorted(map(bytes, both)) == sorted(map(bytes, actions))
        infeasible = np.isneginf(start.language.values(kept))
        assert rows.loss[ends[number] - run.counts[number] : ends[number]].tolist() == list(
            infeasible.astype(float)
        )


def test_dpo_prefers_the_better_and_asks_with_the_best(small, monkeypatch):
    settings, start = small
    trained = recorded(monkeypatch, improve, "preferred")
    run = Run.begin(start, settings, "clip", 1.0, 0)
    for number in range(3):
        past = run.training.copy()
        run.step()
        if not number:
            continue
        (model, language, prompts, better, worse, _), _, (tuned, _) = trained[-1]
        values = [language.values(rows) for rows in (better, worse)]
        assert (values[0] > values[1]).all()
        assert np.isfinite(values[1]).all()
        assert {bytes(row) for row in (*better, *worse)} <= {bytes(row) for row in past[-1]}
        assert run.current.model is tuned is not model
        seeds, kept = run.current.seeds, settings["kept_seeds"]
        assert {bytes(row) for row in prompts} <= {bytes(row) for row in seeds}
        assert {bytes(row) for row in seeds[:kept]} <= {bytes(row) for row in start.seeds}
        everything = np.unique(np.concatenate(past), axis=0)
        best = np.sort(language.values(everything))[::-1][: settings["best_seeds"]]
        assert language.function(seeds[kept:]).tolist() == best.tolist()
