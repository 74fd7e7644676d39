"""`tether filter`: a threshold that was found, applied to new claims."""

import dataclasses
import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import tether
from tests.cli.command_line import one_line, run
from tether.risk.claim_filter import keep_promised

RNG = np.random.default_rng(3)
SCORES = RNG.random(4000)
TRUE = RNG.random(4000) < SCORES
ITEMS = np.repeat([f"q{i}" for i in range(1000)], 4)
GROUPS = np.repeat(RNG.choice(["a", "b"], 1000), 4)
TABLE = {"q": ITEMS, "s": SCORES, "g": GROUPS, "text": [f'claim, "{k}"' for k in range(4000)]}


@pytest.fixture(params=["parquet", "csv"])
def claims(request, tmp_path):
    path = tmp_path / f"new.{request.param}"
    write = pyarrow.csv.write_csv if request.param == "csv" else pyarrow.parquet.write_table
    write(pa.table(TABLE), path)
    return path


def read(path):
    reader = pyarrow.csv.read_csv if path.suffix == ".csv" else pyarrow.parquet.read_table
    return reader(path)


def found(tmp_path, alpha=0.25, groups=False):
    scored = tether.Claims.from_table(SCORES, TRUE, ITEMS, GROUPS if groups else None)
    grouped = {"groups": scored.groups} if groups else {}
    selection = tether.gcrc(scored, alpha=alpha, **grouped)
    path = tmp_path / "found.json"
    selection.save(path)
    return selection, path


def test_it_keeps_what_the_library_keeps(claims, tmp_path):
    selection, path = found(tmp_path)
    out = claims.with_name(f"kept{claims.suffix}")
    done = run("filter", claims, "--threshold", path, "--score", "s", "--out", out)
    assert done.exit_code == 0, done.output
    kept = tether.filter_claims(selection, SCORES)
    assert f"kept {kept.sum():,} of 4,000 claims" in done.stdout
    table = read(out)
    assert table.column_names == list(TABLE)
    assert table["text"].to_pylist() == [t for t, k in zip(TABLE["text"], kept, strict=True) if k]
    np.testing.assert_array_equal(table["s"].to_numpy(), SCORES[kept])


def test_groups_and_marks(claims, tmp_path):
    selection, path = found(tmp_path, groups=True)
    out = claims.with_name(f"marked{claims.suffix}")
    options = ["--score", "s", "--group", "g", "--mark", "kept", "--json"]
    done = run("filter", claims, "--threshold", path, *options, "--out", out)
    assert done.exit_code == 0, done.output
    kept = tether.filter_claims(selection, SCORES, groups=GROUPS)
    assert read(out)["kept"].to_pylist() == kept.tolist()
    told = json.loads(done.stdout)
    assert (told["read"], told["kept"]) == (4000, kept.sum())
    assert set(told["threshold"]) == {"a", "b"}


def test_a_selection_without_a_useful_promise_writes_nothing(claims, tmp_path):
    _, path = found(tmp_path, alpha=0.0001)
    out = claims.with_name(f"kept{claims.suffix}")
    done = run("filter", claims, "--threshold", path, "--score", "s", "--out", out)
    assert done.exit_code == 3
    assert "no useful promise" in done.output
    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--score", "z"], "--score: .* has no column 'z'; its columns are"),
        (["--score", "text"], "column 'text' must hold a number in every row, got .* in row 1"),
        (["--score", "s", "--group", "g"], "--group 'g' was given, but .* one threshold for all"),
        (["--score", "s", "--mark", "q"], "has a column 'q' already"),
    ],
)
def test_mistakes_are_named(claims, tmp_path, options, message):
    _, path = found(tmp_path)
    out = claims.with_name(f"kept{claims.suffix}")
    done = run("filter", claims, "--threshold", path, *options, "--out", out)
    assert done.exit_code == 2
    assert re.search(message, one_line(done)), done.output
    assert not out.exists()


def test_scores_that_are_missing_or_not_finite_are_refused(tmp_path):
    _, path = found(tmp_path)
    for value, message in [(None, "1 missing value(s)"), (np.nan, "got nan in row 2")]:
        claims = tmp_path / "new.parquet"
        pyarrow.parquet.write_table(pa.table({"s": pa.array([0.5, value, 0.7])}), claims)
        out = tmp_path / "kept.parquet"
        done = run("filter", claims, "--threshold", path, "--score", "s", "--out", out)
        assert done.exit_code == 2
        assert message in one_line(done)
        assert not out.exists()


def test_the_output_is_of_the_same_kind_and_replaces_nothing(claims, tmp_path):
    _, path = found(tmp_path)
    other = ".csv" if claims.suffix == ".parquet" else ".parquet"
    call = ["filter", claims, "--threshold", path, "--score", "s", "--out"]
    assert "same kind" in one_line(run(*call, tmp_path / f"kept{other}"))
    assert run(*call, claims).exit_code == 2
    out = tmp_path / f"kept{claims.suffix}"
    assert run(*call, out).exit_code == 0
    assert "--force" in one_line(run(*call, out))
    assert run(*call, out, "--force").exit_code == 0
    assert "there is no file" in one_line(
        run("filter", claims, "--threshold", "none.json", "--score", "s", "--out", out)
    )


def folder_of_claims(folder):
    folder.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(4000), 5)):
        table = pa.table({name: np.asarray(values)[rows] for name, values in TABLE.items()})
        pyarrow.parquet.write_table(table, folder / f"{number}.parquet")


def test_the_claims_of_a_folder_or_a_glob_are_written_into_one_file(tmp_path):
    selection, path = found(tmp_path)
    folder_of_claims(tmp_path / "new")
    kept = tether.filter_claims(selection, SCORES)
    for number, source in enumerate((tmp_path / "new", tmp_path / "new" / "*.parquet")):
        out = tmp_path / f"{number}.parquet"
        done = run("filter", source, "--threshold", path, "--score", "s", "--out", out)
        assert done.exit_code == 0, done.output
        assert f"kept {kept.sum():,} of 4,000 claims" in done.stdout
        np.testing.assert_array_equal(read(out)["s"].to_numpy(), SCORES[kept])


def test_a_wrong_file_of_a_folder_is_named_and_nothing_is_written(tmp_path):
    _, path = found(tmp_path)
    folder_of_claims(tmp_path / "new")
    out = tmp_path / "out" / "kept.parquet"
    out.parent.mkdir()
    command = ("filter", tmp_path / "new", "--threshold", path, "--score", "s", "--out")
    third = tmp_path / "new" / "3.parquet"
    table = pyarrow.parquet.read_table(third)
    scores = table["s"].to_numpy().copy()
    scores[7] = np.nan
    wrong = {
        "must hold finite scores, got nan in row 8": table.set_column(1, "s", pa.array(scores)),
        "the columns differ from those of": table.drop(["text"]),
    }
    for message, other in wrong.items():
        pyarrow.parquet.write_table(other, third)
        done = run(*command, out)
        assert done.exit_code == 2
        assert "3.parquet: " in done.stderr
        assert message in one_line(done)
        assert list(out.parent.iterdir()) == []
    done = run(*command, tmp_path / "new" / "kept.parquet")
    assert done.exit_code == 2
    assert "whose files are read" in one_line(done)


def test_a_group_that_is_too_small_is_refused_by_name_and_the_others_are_served(claims, tmp_path):
    groups = np.where(np.isin(ITEMS, ["q0", "q1"]), "tiny", GROUPS)
    table = tmp_path / "claims.parquet"
    pyarrow.parquet.write_table(
        pa.table({"q": ITEMS, "s": SCORES, "g": groups, "true": TRUE}), table
    )
    columns = ("--score", "s", "--group", "g")
    chosen = tmp_path / "chosen.json"
    done = run(
        *("threshold", table, *columns, "--label", "true", "--item", "q", "--alpha", 0.25),
        *("--out", chosen),
    )
    assert done.exit_code == 0, done.output
    assert "refused tiny: no useful promise" in one_line(done)
    out = tmp_path / "kept.parquet"
    done = run("filter", table, "--threshold", chosen, *columns, "--out", out)
    assert done.exit_code == 0, done.output
    text = one_line(done)
    assert "one threshold for each of 2 groups" in text
    assert "refused tiny: no useful promise, so nothing is kept of their 8 claims here" in text
    assert "within each group, expected mean over all items of the share of an item's" in text
    assert "(0 where nothing is shown) at most: a 0." in text
    selection = tether.Selection.load(chosen)
    kept = ([selection.for_group(each).threshold for each in groups] <= SCORES) & (groups != "tiny")
    np.testing.assert_array_equal(read(out)["s"].to_numpy(), SCORES[kept])
    assert set(read(out)["g"].to_pylist()) == {"a", "b"}
    again = run("filter", table, "--threshold", chosen, *columns, "--out", out, "--force", "--json")
    assert json.loads(again.stdout)["refused_groups"] == ["tiny"]
    compared = run(
        *("threshold", table, *columns, "--label", "true", "--item", "q", "--alpha", 0.25),
        *("--method", "all"),
    )
    assert compared.exit_code == 0
    assert compared.stdout.count("refuses tiny") == 3


def test_of_a_refused_group_everything_is_kept_where_smaller_thresholds_are_safer():
    groups = np.where(np.isin(ITEMS, ["q0", "q1"]), "tiny", GROUPS)
    scored = tether.Claims.from_table(SCORES, TRUE, ITEMS, groups)
    selection = tether.gcrc(scored, alpha=0.25, loss="miss", groups=scored.groups)
    kept, refused = keep_promised(selection, SCORES, groups)
    np.testing.assert_array_equal(refused, groups == "tiny")
    assert kept[refused].all()
    assert not kept.all()


def test_the_loss_can_be_stated_and_must_match(claims, tmp_path):
    _, path = found(tmp_path)
    out = claims.with_name(f"kept{claims.suffix}")
    options = ("filter", claims, "--threshold", path, "--score", "s", "--out", out)
    done = run(*options, "--loss", "any_false")
    assert done.exit_code == 2
    assert f"{path} was calibrated for fdr, not for any_false" in one_line(done)
    assert not out.exists()
    done = run(*options, "--loss", "fdr")
    assert done.exit_code == 0
    promise = one_line(done)
    assert promise.count("claims that are false (0 where nothing is shown) ≤") == 1
    assert "expected loss" not in promise


def test_items_are_counted_over_batches_and_their_limit_is_enforced(claims, tmp_path, monkeypatch):
    monkeypatch.setattr("tether.cli.filtered_claims.ROWS_PER_BATCH", 6)  # items of four claims
    scored = tether.Claims.from_table(SCORES, TRUE, ITEMS)
    out = claims.with_name(f"kept{claims.suffix}")
    for most, code in ((4, 0), (3, 2)):
        loss = tether.FalseAmongShown(0.4, most_claims=4)
        selection = tether.gcrc(scored, np.linspace(0.3, 0.8, 11), promise=0.4, loss=loss)
        settings = {**selection.settings, "most_claims": most}
        path = tmp_path / "found.json"
        dataclasses.replace(selection, settings=settings).save(path, overwrite=True)
        options = ("--threshold", path, "--score", "s", "--out", out, "--force")
        done = run("filter", claims, *options, "--item", "q")
        assert done.exit_code == code, done.output
        if code:
            assert "nothing is written: item 'q" in done.stderr
            assert "has 4 claims, above most_claims = 3" in done.stderr
        assert "not checked" not in done.stdout
    text = one_line(run("filter", claims, *options))
    assert "3 claims per item, not checked: name the items with --item" in text
    assert run("filter", claims, *options, "--item", "no").exit_code == 2


def test_the_row_labels_of_pandas_are_no_column_that_is_listed(tmp_path):
    _, path = found(tmp_path)
    new = tmp_path / "new.parquet"
    table = {"s": SCORES, "t": TRUE, "q": ITEMS, "__index_level_0__": np.arange(4000)}
    pyarrow.parquet.write_table(pa.table(table), new)
    columns = ("--score", "no", "--out", tmp_path / "kept.parquet")
    done = run("filter", new, "--threshold", path, *columns)
    assert "its columns are ['s', 't', 'q']" in done.stderr
    done = run("threshold", new, "--score", "no", "--label", "t", "--item", "q", "--alpha", 0.1)
    assert "'q'" in done.stderr
    assert "__index_level_0__" not in done.stderr


@pytest.mark.filterwarnings("default::tether.PromiseWarning")
def test_with_items_few_of_them_tell_other_scores(tmp_path):
    _, path = found(tmp_path)
    new, out = tmp_path / "new.csv", tmp_path / "kept.csv"
    pyarrow.csv.write_csv(pa.table({"q": ITEMS[:40], "s": np.full(40, 0.01)}), new)
    options = ("--threshold", path, "--score", "s", "--out", out, "--force", "--item", "q")
    done = run("filter", new, *options)
    assert done.exit_code == 3
    assert "nothing is left of 10 of 10 items here" in one_line(done)
    assert out.exists()


def test_scores_on_another_scale_are_refused_and_nothing_is_written(tmp_path):
    _, path = found(tmp_path)
    out = tmp_path / "kept.parquet"
    for share, code in ((0.4, 3), (0.6, 2)):
        percent = np.where(np.arange(4000) < share * 4000, SCORES / 2 + 1.1, SCORES)
        pyarrow.parquet.write_table(pa.table({"s": percent}), tmp_path / "new.parquet")
        done = run(
            *("filter", tmp_path / "new.parquet", "--threshold", path, "--score", "s"),
            *("--out", out),
        )
        assert done.exit_code == code, done.output
        assert "scores lie outside those of the calibration" in one_line(done)
        assert out.exists() == (code == 3)
        out.unlink(missing_ok=True)
    far = np.where(np.arange(4000) == 1234, 90.0, SCORES)  # one is enough
    pyarrow.parquet.write_table(pa.table({"s": far}), tmp_path / "new.parquet")
    done = run(
        "filter", tmp_path / "new.parquet", "--threshold", path, "--score", "s", "--out", out
    )
    assert done.exit_code == 2
    assert "scores[1234] is 90" in one_line(done)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["found.json", "new.parquet"]


@pytest.mark.filterwarnings("default::tether.PromiseWarning")
def test_a_file_of_which_nothing_is_kept_is_told_on_stderr(tmp_path):
    scored = tether.Claims.from_table(SCORES, TRUE, ITEMS)
    selection = tether.gcrc(scored, alpha=0.25)
    selection.save(tmp_path / "found.json")
    low = np.full(30, selection.threshold - 0.01)
    pyarrow.csv.write_csv(pa.table({"s": low}), tmp_path / "low.csv")
    done = run(
        "filter", tmp_path / "low.csv", "--threshold", tmp_path / "found.json", "--score", "s",
        "--out", tmp_path / "kept.csv",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "warning: nothing is kept of 30 claims" in " ".join(done.stderr.split())


def test_scores_that_were_rescaled_are_told_by_the_share_that_is_kept(tmp_path):
    new, out = tmp_path / "new.csv", tmp_path / "kept.csv"
    _, chosen = found(tmp_path)
    for scores, told in ((SCORES, False), (SCORES**0.3, True), (SCORES**3, True)):
        pyarrow.csv.write_csv(pa.table({**TABLE, "s": scores}), new)
        options = ("--threshold", chosen, "--score", "s", "--out", out, "--force")
        done = run("filter", new, *options)
        assert done.exit_code == (3 if told else 0)
        assert ("which is more than chance explains" in one_line(done)) == told
        listed = json.loads(run("filter", new, *options, "--json").stdout)["warnings"]
        assert bool(listed) == told
