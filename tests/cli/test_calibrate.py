"""`tether calibrate`."""

import json

import numpy as np
import pandas as pd
import pytest

import tether
from tests.cli.command_line import one_line, run
from tests.control.example_logs import gaussian_columns

COLUMNS = {"safe": "log_safe", "optimized": "log_optimized"}


@pytest.fixture
def files(tmp_path):
    made = gaussian_columns(np.random.default_rng(0), 800, 300)
    log = pd.DataFrame({"loss": made["loss"], **{to: made[of] for of, to in COLUMNS.items()}})
    draws = pd.DataFrame({to: made[f"draw_{of}"] for of, to in COLUMNS.items()})
    log.assign(delay=np.linspace(0, 0.4, 800)).to_parquet(tmp_path / "log.parquet")
    log.to_csv(tmp_path / "log.csv", index=False)
    log.to_csv(tmp_path / "log.csv.gz", index=False)
    age, sex = np.arange(800) % 7, np.where(np.arange(800) % 2, "f", "m")
    log.assign(age=age, sex=sex).to_csv(tmp_path / "features.csv", index=False)
    log[:0].to_csv(tmp_path / "empty.csv", index=False)
    log.to_csv(tmp_path / "semicolons.csv", index=False, sep=";")
    log[["loss"]].to_csv(tmp_path / "loss.csv", index=False)
    columns = list(COLUMNS.values())
    normalized = np.exp(log[columns] - log[columns].max())
    log.assign(**normalized).to_csv(tmp_path / "probabilities.csv", index=False)
    draws.to_csv(tmp_path / "draws.csv", index=False)
    draws.assign(context="a").to_parquet(tmp_path / "contexts.parquet")
    (tmp_path / "broken.parquet").write_text("not parquet")
    (tmp_path / "log.txt").write_text("")
    return tmp_path


def test_calibrate_agrees_with_the_library(files):
    for name in ("log.parquet", "log.csv", "log.csv.gz"):
        out = files / "found.json"
        done = run(
            "calibrate", files / name, "--no-context", "--alpha", 0.1, "--proposals",
            files / "draws.csv", "--out", out, "--force",
        )  # fmt: skip
        assert done.exit_code == 0, done.output
        saved = tether.Calibration.load(out)
        found = tether.calibrate(
            tether.Log.from_frame(pd.read_parquet(files / "log.parquet"), context=None),
            tether.Proposals.from_frame(pd.read_csv(files / "draws.csv"), context=None),
            alpha=0.1,
        )
        assert saved.beta == pytest.approx(found.beta)
        assert f"beta = {found.beta:.4g}" in done.output
        assert "saved in" in done.output


def test_semicolons_decimal_commas_and_words_are_told_with_what_to_do(files):
    log = pd.read_csv(files / "log.csv")
    log.to_csv(files / "european.csv", index=False, sep=";", decimal=",")
    done = run("calibrate", files / "european.csv", "--no-context", "--alpha", 0.1)
    assert done.exit_code == 2
    assert "pandas.read_csv('european.csv', sep=';', decimal=',').to_csv(" in one_line(done)
    commas = log.log_safe.map(lambda value: f"{value:.3f}".replace(".", ","))
    log.assign(log_safe=commas).to_csv(files / "commas.csv", index=False)
    done = run("calibrate", files / "commas.csv", "--no-context", "--alpha", 0.1)
    assert done.exit_code == 2
    assert "log_safe must hold real numbers" in one_line(done)
    assert "write decimals with a point, -" in one_line(done)
    log.assign(loss=np.where(log.loss > 0, "bad", "ok")).to_csv(files / "words.csv", index=False)
    done = run("calibrate", files / "words.csv", "--no-context", "--alpha", 0.1)
    assert done.exit_code == 2
    assert (
        "write 1 for the word that means harm and 0 for the one that does not (here: 'ok'"
        in one_line(done)
    )


@pytest.mark.filterwarnings("default::tether.AssumptionWarning")
def test_copies_are_found_by_columns_of_the_file_that_are_not_used(tmp_path):
    rng = np.random.default_rng(0)
    rows = 4000
    table = pd.DataFrame({"user": np.arange(rows), "left": rng.random(rows) < 0.02})
    table = table.astype({"left": int}).assign(p=0.5, q=rng.integers(2, size=rows))
    options = ("--loss", "left", "--propensity", "p", "--probability", "q", "--promise", 0.05)
    options += ("--family", "mix", "--min-propensity", 0.5, "--no-context")
    for name, copies in (("once", 0), ("overlap", 400)):
        both = pd.concat([table, table.sample(copies, random_state=0)])
        both.to_csv(tmp_path / f"{name}.csv", index=False)
        both.to_parquet(tmp_path / f"{name}.parquet", index=False)
    for kind in ("csv", "parquet"):
        assert "more than once" not in run("calibrate", tmp_path / f"once.{kind}", *options).output
        done = run("calibrate", tmp_path / f"overlap.{kind}", *options)
        assert "800 of 4,400 rows are in the log more than once, with the same" in one_line(done)


@pytest.mark.filterwarnings("default::tether.AssumptionWarning")
def test_what_looks_wrong_about_the_log_is_shown_once_and_saved(files):
    log = pd.read_parquet(files / "log.parquet")
    pd.concat([log, log]).to_csv(files / "twice.csv", index=False)
    out = files / "found.json"
    done = run("calibrate", files / "twice.csv", "--no-context", "--alpha", 0.1, "--out", out)
    assert one_line(done).count("1,600 of 1,600 rows are in the log more than once") == 1
    assert any("rows 800 to 1599 equal" in each for each in tether.Calibration.load(out).warnings)


def test_feature_columns_are_contexts(files):
    """One normalizing constant per distinct row of features, as the library computes it."""
    log = pd.read_csv(files / "features.csv")
    rng = np.random.default_rng(1)
    rows = np.repeat(np.arange(14), 50)  # every context of the log has 100 draws
    safe = rng.normal(size=len(rows))
    optimized = rng.normal(1, 0.8, size=len(rows))
    draws = pd.DataFrame(
        {
            "log_safe": tether.Gaussian(0.0).log_prob(None, np.append(safe, optimized)),
            "log_optimized": tether.Gaussian(1.0, 0.8).log_prob(None, np.append(safe, optimized)),
            "source": np.repeat(["safe", "optimized"], len(rows)),
            "age": np.tile(log["age"].to_numpy()[rows], 2),
            "sex": np.tile(log["sex"].to_numpy()[rows], 2),
        }
    )
    draws.to_parquet(files / "draws.parquet")
    done = run(
        "calibrate", files / "features.csv", "--context", "age", "--context", "sex",
        "--alpha", 0.1, "--proposals", files / "draws.parquet", "--json",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    content = json.loads(done.output)
    assert content["contextual"]
    columns = {"context": ["age", "sex"]}
    found = tether.calibrate(
        tether.Log.from_frame(log, **columns),
        tether.Proposals.from_frame(draws, **columns),
        alpha=0.1,
    )
    assert np.exp(content["log_beta"]) == pytest.approx(found.beta)


def test_calibrate_prints_json(files):
    done = run("calibrate", files / "log.csv", "--no-context", "--alpha", 0.1, "--json")
    content = json.loads(done.output)
    assert content["family"] == "clip"
    assert content["test_weight"] == "analytic"


def test_several_losses_and_a_number_as_test_weight(files):
    done = run(
        "calibrate", files / "log.parquet", "--no-context", "--loss", "loss", "--loss", "delay",
        "--alpha", "loss=0.1", "--alpha", "delay=0.25", "--test-weight", 3, "--json",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    content = json.loads(done.output)
    assert [constraint["alpha"] for constraint in content["constraints"]] == [0.1, 0.25]
    assert content["test_weight"] == 3.0


def test_mix_without_proposals_and_with_a_largest_ratio(files):
    words = ["calibrate", files / "features.csv", "--context", "age", "--family", "mix"]
    done = run(*words, "--alpha", 0.15, "--max-ratio", 8, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["test_weight"] == "max_ratio"
    done = run(*words, "--alpha", 0.15, "--max-ratio", 1.5)
    assert done.exit_code == 2
    assert "above max_ratio = 1.5" in one_line(done)


def test_exit_code_three_when_no_beta_passes(files):
    done = run("calibrate", files / "log.csv", "--no-context", "--alpha", 0.01)
    assert done.exit_code == 3
    assert "serving the safe policy does not keep it either" in one_line(done)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["calibrate", "none.csv", "--alpha", 0.1], "there is no file"),
        (["calibrate", "log.txt", "--alpha", 0.1], "must end in .parquet, .csv or .csv.gz"),
        (["calibrate", "broken.parquet", "--alpha", 0.1], "cannot be read"),
        (
            ["calibrate", "log.csv", "--no-context", "--alpha", "much"],
            "alpha must be a number, got 'much'",
        ),
        (
            ["calibrate", "log.csv", "--no-context", "--alpha", 2],
            "alpha must be above 0 and below 1, got 2.0",
        ),
        (
            ["calibrate", "log.csv", "--no-context", "--alpha", 0.1, "--alpha", 0.2],
            "must be NAME=VALUE",
        ),
        (["calibrate", "log.csv", "--alpha", 0.1, "--loss", "cost"], "no column 'cost'"),
        (
            ["calibrate", "loss.csv", "--alpha", 0.1, "--no-context"],
            "Name the columns with --loss, --log-safe and --log-optimized",
        ),
        (
            ["calibrate", "log.csv", "--no-context", "--alpha", 0.1, "--family", "knot"],
            "got 'knot'",
        ),
        (
            ["calibrate", "log.csv", "--no-context", "--alpha", 0.1, "--family", "mix"],
            "needs the largest ratio (min_propensity",
        ),
        (["calibrate", "log.csv", "--alpha", 0.1, "--context", "who"], "no column 'who'"),
        (
            ["calibrate", "log.csv", "--alpha", 0.1],
            "contexts must be stated: --context COLUMN (repeat it for several feature columns), or "
            "--no-context if neither policy depends on a context; the frame has no column left",
        ),
        (["calibrate", "empty.csv", "--alpha", 0.1], "empty.csv has no rows"),
        (
            ["calibrate", "semicolons.csv", "--alpha", 0.1],
            "single column 'loss;log_safe;log_optimized': its columns are separated by ';'",
        ),
        (
            ["calibrate", "probabilities.csv", "--alpha", 0.1, "--no-context"],
            "log_safe must hold log-probabilities, but all its 800 values lie between 0 and 1",
        ),
        (
            ["calibrate", "log.csv", "--alpha", 0.1, "--no-context", "--proposals", "loss.csv"],
            "loss.csv: log_safe: there is no column 'log_safe'; the frame has ['loss']",
        ),
        (
            ["calibrate", "features.csv", "--alpha", 0.1],
            "the columns that could be contexts are ['age', 'sex']",
        ),
        (
            ["calibrate", "features.csv", "--alpha", 0.1, "--context", "age", "--no-context"],
            "--no-context contradicts --context age",
        ),
        (
            ["calibrate", "features.csv", "--alpha", 0.1, "--context", "loss"],
            "--context loss: this is the column of --loss",
        ),
        (
            [
                "calibrate",
                "features.csv",
                "--alpha",
                0.1,
                "--context",
                "age",
                "--proposals",
                "contexts.parquet",
            ],
            "context: there is no column 'age'",
        ),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(files, words, message):
    paths = [files / word if str(word).endswith((".csv", ".txt", ".parquet")) else word
             for word in words]  # fmt: skip
    done = run(*paths)
    assert done.exit_code == 2
    assert message in one_line(done)
    assert "Traceback" not in done.output


def test_the_gain_is_part_of_what_is_shown(files):
    log = pd.read_parquet(files / "log.parquet").assign(points=np.linspace(-1, 2, 800))
    log.to_parquet(files / "rewards.parquet")
    options = ("--no-context", "--alpha", 0.1, "--proposals", files / "draws.csv")
    draws = tether.Proposals.from_frame(pd.read_csv(files / "draws.csv"), context=None)
    actions = tether.Log.from_frame(log, context=None, reward="points")
    found = tether.gain(tether.calibrate(actions, draws, alpha=0.1))
    named = ("--reward", "points", "--what-if", 0.08, "--what-if", 0.15)
    shown = run("calibrate", files / "rewards.parquet", *options, *named)
    assert shown.exit_code == 0, shown.output
    assert f"reward, tethered       {found.reward.tethered}" in shown.output
    assert f"decisions that change  {found.changed}" in shown.output
    assert any(line.startswith("  0.15 ") for line in shown.output.splitlines())
    assert "spends the promise" in shown.output
    content = json.loads(
        run("calibrate", files / "rewards.parquet", *options, *named, "--json").stdout
    )
    assert content["gain"]["reward"]["optimized"]["mean"] == found.reward.optimized.mean
    grid = tether.gain_over_alphas(actions, draws, alphas=[0.08, 0.15])
    assert [entry["beta"] for entry in content["what_if"]["entries"]] == [
        entry.beta for entry in grid.entries
    ]
    assert tether.Calibration.from_dict(content).log_beta == found.log_beta
    promised = ("--promise", 0.1, *options[3:], *named)
    others = run("calibrate", files / "rewards.parquet", "--no-context", *promised)
    assert "what 2 promises would buy" in others.output, "asked for as the promise was"
    without = run("calibrate", files / "rewards.parquet", *options)
    assert "reward" not in without.output
    assert "loss, tethered" in without.output


def test_rewards_that_cannot_be_read_are_named(files):
    log = pd.read_parquet(files / "log.parquet")
    log.assign(points=np.where(np.arange(800) == 3, np.nan, 1.0)).to_parquet(files / "gap.parquet")
    for column, message in (("points", "reward"), ("prize", "there is no column 'prize'")):
        done = run(
            "calibrate", files / "gap.parquet", "--no-context", "--alpha", 0.1, "--reward", column
        )
        assert done.exit_code == 2
        assert message in one_line(done)
