"""`tether release observe`."""

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import tether
from tests.cli.command_line import one_line, run
from tests.cli.releases.conftest import KEYS
from tether.cli import table_batches
from tether.rounds import read_release


@pytest.fixture
def assigned(store):
    with tether.Release(store) as release:
        systems = release.assign(KEYS)
    return store, systems


def _total(store, name):
    (step,) = read_release(store).steps
    found = [each.losses[name] for each in (step.old, step.new) if name in each.losses]
    return sum(each.count for each in found), sum(each.count * each.mean for each in found)


def write(path, columns):
    """The same rows in one of the formats."""
    table = pa.table(columns)
    if path.suffix == ".parquet":
        parquet.write_table(table, path)
    elif path.suffix == ".csv":
        rows = [table.column_names, *zip(*table.to_pydict().values(), strict=True)]
        lines = [",".join("" if x is None else str(x) for x in row) for row in rows]
        path.write_text("\n".join([*lines, ""]))
    else:
        table.to_pandas().to_json(path, orient="records", lines=True)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_losses_of_a_file_are_stored_as_far_as_they_are_known(
    assigned, tmp_path, suffix, monkeypatch
):
    store, systems = assigned
    if suffix == ".csv":
        monkeypatch.setattr("tether.cli.table_file.CSV_BLOCK_BYTES", 1_000)  # several batches
    monkeypatch.setattr(table_batches, "MAX_BATCH_ROWS", 70)
    late = [None if k % 3 else 0.5 for k in range(300)]
    columns = {
        "key": KEYS,
        "system": systems,
        "note": ["unused"] * 300,
        "complaint": [k % 2 for k in range(300)],
        "latency": late,
    }
    path = write(tmp_path / f"losses{suffix}", columns)
    done = run("release", "observe", store, "--file", path)
    assert done.output == "400 new losses stored.\n"
    assert _total(store, "complaint") == (300, pytest.approx(150))
    assert _total(store, "latency") == (100, pytest.approx(50))
    assert run("release", "observe", store, "--file", path).output == "0 new losses stored.\n"


def test_one_loss_of_one_key(assigned):
    store, systems = assigned
    one = ["release", "observe", store, "--key", KEYS[0], "--loss", "complaint=1"]
    other = "new" if systems[0] == "old" else "old"
    done = run(*one, "--system", other)
    assert done.exit_code == 2
    assert f"was never assigned to the {other} system" in one_line(done)
    assert f'was assigned "{systems[0]}" in step 1: name the system' in one_line(done)
    assert run(*one, "--loss", "latency=0.5").output == "2 new losses stored.\n"
    assert run(*one, "--system", systems[0]).output == "0 new losses stored.\n"
    assert _total(store, "complaint") == (1, 1.0)
    assert _total(store, "latency") == (1, 0.5)


def test_the_system_of_a_row_says_whose_loss_it_is(assigned, tmp_path):
    """A late loss of a key that has moved to the new system since."""
    store, systems = assigned
    key = KEYS[systems.index("old")]
    others = [each for each in KEYS if each != key]
    with tether.Release(store) as release:
        release.observe(others, {"complaint": np.zeros(299), "latency": np.zeros(299)})
        for number in range(10):
            release.advance()
            if release.assign(key) == "new":
                break
            fresh = [f"{number} {k}" for k in range(300)]
            release.assign(fresh)
            release.observe(fresh, {"complaint": np.zeros(300), "latency": np.zeros(300)})
    path = write(tmp_path / "late.csv", {"key": [key], "system": ["old"], "complaint": [1.0]})
    done = run("release", "observe", store, "--file", path, "--system", "new")
    assert "--system new contradicts the column 'system'" in one_line(done)
    assert run("release", "observe", store, "--file", path).output == "1 new loss stored.\n"
    steps = read_release(store).steps
    found = steps[0].old.losses["complaint"]
    assert (steps[-1].new.rows, found.count * found.mean) == (1, pytest.approx(1.0))
    assert "complaint" not in steps[-1].new.losses


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name either a --file or a --key with its --loss"),
        (["--key", "user 1"], "--key needs at least one --loss NAME=LOSS"),
        (["--key", "user 1", "--loss", "complaint"], "--loss must be NAME=NUMBER, got 'complaint'"),
        (["--key", "user 1", "--loss", "x=1"], "--loss must have names among"),
        (["--key", "user 1", "--loss", "complaint=2"], "--loss['complaint'][0] is 2.0"),
        (["--key", "user 1", "--loss", "complaint=nan"], "--loss['complaint'][0] is nan"),
        (["--key", "nobody", "--loss", "complaint=1"], "key 'nobody' was never assigned"),
        (["--key", "", "--loss", "complaint=1"], "a key must have 1 to 500 bytes"),
        (["--key", "user 1", "--loss", "complaint=1", "--system", "x"], "--system must be old or"),
        (["--file", "x.csv", "--key", "user 1"], "name either a --file or a --key"),
        (["--file", "x.csv", "--loss", "complaint=1"], "--loss is for a --key"),
        (["--file", "nothing.csv"], "there is no file nothing.csv"),
        (["--file", "old.csv"], "must have a column 'key', and one for at least one of the guard"),
        (["--file", "keys.csv"], "must have a column 'key', and one for at least one of the guard"),
    ],
)
def test_wrong_arguments(assigned, keys_file, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    done = run("release", "observe", assigned[0], *words)
    assert done.exit_code == 2
    assert message in one_line(done)
    assert len(done.output.splitlines()) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("user 1,,2", "rows 1 to 1: losses['complaint'][0] is 2.0"),
        ("user 1,,x", "column 'complaint' must hold numbers, got 'x'"),
        ("user 1,both,0", "system must be one of"),
        ("nobody,,0", "key 'nobody' was never assigned"),
        ("user 1,,0\nuser 1,,1", "key 'user 1' has two outcomes that differ"),
        (",,0", "a key must have 1 to 500 bytes"),
    ],
)
def test_wrong_files(assigned, tmp_path, content, message):
    (tmp_path / "x.csv").write_text(f"key,system,complaint\n{content}\n")
    done = run("release", "observe", assigned[0], "--file", tmp_path / "x.csv")
    assert done.exit_code == 2
    assert message in one_line(done)
    assert _total(assigned[0], "complaint")[0] == 0


def test_an_error_says_what_was_stored_before_it(assigned, tmp_path, monkeypatch):
    monkeypatch.setattr(table_batches, "MAX_BATCH_ROWS", 100)
    columns = {"key": KEYS, "complaint": [0.0] * 250 + [5.0] * 50}
    write(tmp_path / "x.parquet", columns)
    done = run("release", "observe", assigned[0], "--file", tmp_path / "x.parquet")
    assert "rows 201 to 300: losses['complaint'][50] is 5.0" in one_line(done)
    assert "200 new losses were stored before" in one_line(done)
    assert _total(assigned[0], "complaint")[0] == 200


def test_a_guardrail_with_the_name_of_a_column(tmp_path, keys_file):
    path = tmp_path / "odd.db"
    with tether.Release(path, {"key": 0.1}):
        pass
    done = run("release", "observe", path, "--file", keys_file)
    assert "use --key and --loss" in one_line(done)


def test_of_several_losses_of_a_key_the_first_may_be_kept(assigned, tmp_path, monkeypatch):
    store, _ = assigned
    monkeypatch.setattr(table_batches, "MAX_BATCH_ROWS", 3)
    keys = [KEYS[k] for k in (0, 1, 0, 2, 1, 2)]
    given = {"key": keys, "complaint": [0.25, None, 1.0, 0.5, 0.125, 1.0]}
    path = write(tmp_path / "losses.csv", given)
    done = run("release", "observe", store, "--file", path)
    assert done.exit_code == 2
    assert f"key {KEYS[0]!r} has two outcomes that differ, {{'complaint': 0.25}} and" in one_line(
        done
    )
    assert "skip the later ones with --keep-first" in one_line(done)
    done = run("release", "observe", store, "--file", path, "--keep-first")
    assert done.output == "3 new losses stored.\n"
    assert _total(store, "complaint") == (3, pytest.approx(0.875))
    again = ("release", "observe", store, "--key", KEYS[0], "--loss", "complaint=1")
    assert "already observed" in one_line(run(*again))
    assert "skip them with --keep-first" in one_line(run(*again))
    path.write_text(f"key,complaint\n{KEYS[0]},1\n")
    done = run("release", "observe", store, "--file", path)
    assert "skip them with --keep-first; 0 new losses were stored before" in one_line(done)
    assert run(*again, "--keep-first").output == "0 new losses stored.\n"


def test_the_same_loss_twice_counts_once(assigned, tmp_path):
    path = write(tmp_path / "losses.csv", {"key": [KEYS[0], KEYS[0]], "complaint": [1.0, 1.0]})
    assert run("release", "observe", assigned[0], "--file", path).output == "1 new loss stored.\n"


def test_unknown_keys_may_be_skipped_and_are_listed(assigned, tmp_path):
    store, systems = assigned
    other = "new" if systems[1] == "old" else "old"
    columns = {
        "key": ["nobody", KEYS[0], KEYS[1]],
        "system": [None, systems[0], other],
        "complaint": [1.0, 0.5, 0.25],
    }
    path = write(tmp_path / "losses.csv", columns)
    assert run("release", "observe", store, "--file", path).exit_code == 2
    done = run("release", "observe", store, "--file", path, "--skip-unknown")
    assert done.output.splitlines() == [
        "1 new loss stored.",
        "Skipped: key 'nobody' was never assigned.",
        f"Skipped: key {KEYS[1]!r} was never assigned to the {other} system.",
    ]
    assert _total(store, "complaint") == (1, 0.5)
    one = ["release", "observe", store, "--key", "nobody", "--loss", "complaint=1"]
    assert "Skipped: key 'nobody'" in run(*one, "--skip-unknown").output
