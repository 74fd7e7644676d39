"""`tether calibrate --propensity`: a table of decisions with probabilities, as people have it."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import tether
from tests.cli.command_line import one_line, run

RNG = np.random.default_rng(1)
ROWS = 2000
SEGMENT, ACTION = RNG.integers(4, size=ROWS), RNG.integers(3, size=ROWS)
NEW = tether.Categorical.from_probabilities(RNG.dirichlet(np.ones(3), size=4))
LEFT = (RNG.random(ROWS) < 0.05 + 0.1 * (ACTION == 2)).astype(float)
PROBABILITY = np.exp(NEW.log_prob(SEGMENT, ACTION))
TABLE = {
    "segment": SEGMENT,
    "left": LEFT,
    "propensity": np.full(ROWS, 1 / 3),
    "new": PROBABILITY,
}
COLUMNS = ("--loss", "left", "--propensity", "propensity", "--probability", "new")
MIX = ("--context", "segment", "--family", "mix", "--promise", 0.2)


@pytest.fixture(params=["csv", "parquet"])
def decisions(request, tmp_path):
    path = tmp_path / f"decisions.{request.param}"
    write = pyarrow.csv.write_csv if request.param == "csv" else pyarrow.parquet.write_table
    write(pa.table(TABLE), path)
    return path


def changed(path, **columns):
    pyarrow.parquet.write_table(pa.table({**TABLE, **columns}), path)
    return path


def test_it_finds_what_the_library_finds_and_verify_reads_it_alike(decisions, tmp_path):
    log = tether.make_log(
        None, NEW, SEGMENT, ACTION, LEFT,
        propensities=TABLE["propensity"], min_propensity=0.33,
    )  # fmt: skip
    expected = tether.calibrate(log, promise=0.2, family="mix")
    out = tmp_path / "found.json"
    options = (*COLUMNS, "--min-propensity", 0.33)
    done = run("calibrate", decisions, *options, *MIX, "--json", "--out", out)
    assert done.exit_code == 0, done.output
    assert float(json.loads(done.stdout)["beta"]) == pytest.approx(expected.beta, rel=1e-9)
    assert expected.beta > 0
    done = run("verify", out, "--log", decisions, *options, "--context", "segment")
    assert done.exit_code == 0, done.output


def test_without_a_smallest_propensity_mix_says_what_is_missing(decisions):
    done = run("calibrate", decisions, *COLUMNS, *MIX)
    assert done.exit_code == 2
    assert "--min-propensity" in one_line(done)


def test_a_wrong_loss_is_not_told_of_log_probabilities(decisions):
    options = ("--propensity", "propensity", "--probability", "new", "--min-propensity", 0.33)
    done = run("calibrate", decisions, "--loss", "lost", *options, *MIX)
    assert done.exit_code == 2
    assert "there is no column 'lost'" in one_line(done)
    assert "Name the column of losses with --loss" in one_line(done)
    assert "--log-safe" not in one_line(done)


def test_exchanged_columns_are_asked_about_and_nothing_is_saved(decisions, tmp_path):
    out = tmp_path / "found.json"
    options = ("--propensity", "new", "--probability", "propensity", "--min-propensity", 0.001)
    done = run("calibrate", decisions, "--loss", "left", *options, *MIX, "--out", out)
    assert done.exit_code == 3, done.output
    assert "are --propensity new and --probability propensity exchanged?" in one_line(done)
    assert not out.exists()


def test_the_same_column_for_both_policies_is_no_useful_promise(decisions, tmp_path):
    out = tmp_path / "found.json"
    options = ("--propensity", "propensity", "--probability", "propensity")
    done = run("calibrate", decisions, "--loss", "left", *options, *MIX, "--out", out)
    assert done.exit_code == 3, done.output
    assert "is the column 'propensity' the probability under both policies?" in one_line(done)
    assert "passes as it is" not in one_line(done)
    assert not out.exists()


def test_rounded_probabilities_of_the_same_policy_are_not_exchanged(tmp_path):
    path = changed(tmp_path / "log.parquet", new=np.full(ROWS, 0.334))
    done = run("calibrate", path, *COLUMNS, *MIX, "--min-propensity", 0.33)
    assert "exchanged?" not in one_line(done)
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"propensity": np.full(ROWS, 40.0)}, (), "40 % is 0.4"),
        ({"propensity": np.full(ROWS, -1.0)}, (), "look like log-probabilities"),
        ({"new": np.full(ROWS, 1.5)}, (), "a probability from 0 to 1"),
        ({"log_safe": np.full(ROWS, -1.0)}, (), "there is a column 'log_safe' too"),
        ({}, ("--min-propensity", 0.5), "an action with the probability 0.333333 in row 0"),
        ({}, ("--min-propensity", 0.3, "--max-ratio", 4), "without --max-ratio"),
        ({}, ("--propensity", "p"), "there is no column 'p'"),
    ],
)
def test_mistakes_are_named(columns, options, message, tmp_path):
    path = changed(tmp_path / "log.parquet", **columns)
    done = run("calibrate", path, *COLUMNS, *MIX, *options)
    assert done.exit_code == 2
    assert message in one_line(done)


def test_a_folder_gives_what_one_file_gives(tmp_path):
    options = (*COLUMNS, "--min-propensity", 0.3, *MIX, "--json")
    one = changed(tmp_path / "one.parquet")
    parts = tmp_path / "parts"
    parts.mkdir()
    for number in range(3):
        rows = {name: values[number::3] for name, values in TABLE.items()}
        pyarrow.parquet.write_table(pa.table(rows), parts / f"{number}.parquet")
    found = [run("calibrate", path, *options) for path in (one, parts)]
    assert [done.exit_code for done in found] == [0, 0], found[1].output
    betas = [float(json.loads(done.stdout)["beta"]) for done in found]
    assert betas[1] == pytest.approx(betas[0], rel=1e-9)
    done = run("calibrate", parts, *COLUMNS, *MIX, "--min-propensity", 0.5)
    assert done.exit_code == 2
    assert "taken with the probability 0.333333" in one_line(done)


def test_a_smallest_propensity_goes_with_log_probabilities(tmp_path):
    columns = {"log_safe": np.log(TABLE["propensity"]), "log_optimized": np.log(PROBABILITY)}
    parts = tmp_path / "parts"
    parts.mkdir()
    path = changed(parts / "log.parquet", **columns)
    for source in (path, parts):
        done = run("calibrate", source, "--loss", "left", *MIX, "--min-propensity", 0.33)
        assert done.exit_code == 0, done.output
        both = ("--min-propensity", 0.33, "--max-ratio", 4)
        done = run("calibrate", source, "--loss", "left", *MIX, *both)
        assert done.exit_code == 2
        assert "without --max-ratio" in one_line(done)


def test_where_compares_dates_and_times(tmp_path):
    days = np.datetime64("2026-07-01") + np.arange(ROWS) % 90
    zoned = pa.array(days.astype("datetime64[us]"), pa.timestamp("us", "UTC"))
    dates = {"day": days, "time": days.astype("datetime64[ns]"), "zoned": zoned}
    path = changed(tmp_path / "log.parquet", **dates, text=days.astype(str))
    options = (*COLUMNS, *MIX, "--min-propensity", 0.3, "--json")
    expected = int((days < np.datetime64("2026-09-01")).sum())
    for condition in (
        *("day < 2026-09-01", "time < 2026-09-01", "zoned < 2026-09-01", "text < 2026-09-01"),
        *("time < 20260901", "time < 2026-09-01T00:00", "zoned < 2026-09-01T00:00+00:00"),
    ):
        done = run("calibrate", path, *options, "--where", condition)
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["rows"] == expected
    for condition in ("day < soon", "day < 2026-09-01T12:00", "segment < soon", "days < 3"):
        done = run("calibrate", path, *options, "--where", condition)
        assert done.exit_code == 2
        assert f"--where '{condition}'" in one_line(done)
        assert "corrupt" not in one_line(done)


def test_a_table_without_log_probabilities_is_told_of_propensities(decisions):
    done = run("calibrate", decisions, "--loss", "left", *MIX)
    assert done.exit_code == 2
    assert "--propensity and --probability" in one_line(done)


@pytest.mark.parametrize(("lowest", "told"), [(0.0, "new is 0 in some rows"), (0.01, "new falls")])
def test_exchanged_columns_that_cannot_be_propensities_are_asked_about(lowest, told, tmp_path):
    new = np.where(np.arange(ROWS) % 7 == 0, lowest, 0.4)
    path = changed(tmp_path / "log.parquet", new=new)
    options = ("--propensity", "new", "--probability", "propensity", "--min-propensity", 0.3)
    done = run("calibrate", path, "--loss", "left", *options, *MIX)
    assert done.exit_code == 3, done.output
    assert "are --propensity new and --probability propensity exchanged?" in one_line(done)
    assert told in one_line(done)


def test_clip_with_contexts_is_told_to_be_mix(decisions):
    done = run("calibrate", decisions, *COLUMNS, "--alpha", 0.2, "--context", "segment")
    assert done.exit_code == 2
    assert "the family clip needs those of all actions: use --family mix" in one_line(done)


def test_columns_that_are_not_in_the_file_are_not_named(decisions):
    done = run("calibrate", decisions, *COLUMNS, *MIX, "--loss", "harm", "--min-propensity", 0.3)
    assert "there is no column 'harm'" in one_line(done)
    assert "log_safe" not in one_line(done)


def test_verify_takes_the_options_of_calibrate(decisions, tmp_path):
    out = tmp_path / "found.json"
    options = (*COLUMNS, "--min-propensity", 0.3, "--no-context", "--reward", "left")
    done = run("calibrate", decisions, *options, "--family", "mix", "--alpha", 0.2, "--out", out)
    assert done.exit_code == 0, done.output
    done = run("verify", out, "--log", decisions, *options)
    assert done.exit_code == 0, done.output
    assert "calibrating again gives the same" in one_line(done)


@pytest.mark.filterwarnings("always::tether.AssumptionWarning")
@pytest.mark.parametrize("column", ["action", "treatment"])
def test_actions_of_other_rows_are_no_useful_promise(column, tmp_path):
    rng = np.random.default_rng(2)
    safe = np.array([[0.7, 0.2, 0.1], [0.4, 0.3, 0.3]])[SEGMENT % 2]
    taken = (rng.random(ROWS)[:, None] > safe.cumsum(axis=1)).sum(axis=1)
    propensity = safe[np.arange(ROWS), taken]
    named = np.array(["call", "mail", "none"])[taken]
    new = np.exp(NEW.log_prob(SEGMENT, taken))
    options = (*COLUMNS, "--min-propensity", 0.1, *MIX)
    options += () if column == "action" else ("--action", column)
    path = changed(tmp_path / "log.parquet", propensity=propensity, new=new, **{column: named})
    assert run("calibrate", path, *options).exit_code == 0
    changed(path, propensity=propensity, new=new, **{column: rng.permutation(named)})
    done = run("calibrate", path, *options, "--out", tmp_path / "found.json")
    assert done.exit_code == 3, done.output
    assert "look as if they were from different rows" in one_line(done)
    assert "a calibration on this log does not hold" in one_line(done)
    assert not tether.Calibration.load(tmp_path / "found.json").useful


def test_a_column_of_actions_that_is_not_there_is_named(decisions):
    done = run("calibrate", decisions, *COLUMNS, *MIX, "--action", "arm", "--min-propensity", 0.3)
    assert done.exit_code == 2
    assert "there is no column 'arm'" in one_line(done)


@pytest.mark.filterwarnings("always::tether.AssumptionWarning")
def test_a_few_dozen_copies_are_found_by_their_actions(tmp_path):
    amount = np.random.default_rng(5).random(ROWS)
    rows = {"action": ACTION.astype(str), "amount": amount, "id": np.arange(ROWS)}
    options = (*COLUMNS, "--min-propensity", 0.3, *MIX, "--context", "amount")
    path = changed(tmp_path / "log.parquet", **rows)
    assert "more than once" not in one_line(run("calibrate", path, *options))
    table = pyarrow.parquet.read_table(path)
    pyarrow.parquet.write_table(pa.concat_tables([table, table.slice(100, 60)]), path)
    done = run("calibrate", path, *options)
    assert "120 of 2,060 rows are in the log more than once" in one_line(done)


def test_columns_that_are_named_for_something_else_are_no_contexts(tmp_path):
    extra = {"item": ACTION, "revenue": RNG.random(ROWS)}
    path = changed(tmp_path / "log.parquet", **extra)
    named = (*COLUMNS, "--min-propensity", 0.33, "--reward", "revenue", "--action", "item")
    mix = ("--family", "mix", "--promise", 0.2)
    done = run("calibrate", path, *named, *mix)
    assert done.exit_code == 2
    assert "could be contexts are ['segment'], if they are known before" in one_line(done)
    for column, option in [
        ("left", "--loss"),
        ("item", "--action"),
        ("revenue", "--reward"),
        ("new", "--probability"),
        ("propensity", "--propensity"),
    ]:
        for where in ((), ("--where", "segment >= 0")):
            done = run("calibrate", path, *named, *mix, *where, "--context", column)
            assert done.exit_code == 2
            assert f"--context {column}: this is the column of {option}" in one_line(done)


def test_a_promise_in_percent_is_told_the_number_it_stands_for(decisions):
    for promise in ("8%", "8 %"):
        done = run("calibrate", decisions, *COLUMNS, *MIX[:-1], promise)
        assert done.exit_code == 2
        assert f"write {promise} as 0.08" in one_line(done)
