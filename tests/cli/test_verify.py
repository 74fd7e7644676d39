"""`tether verify`, and the files that commands write."""

import json
import stat

import numpy as np
import pandas as pd
import pytest

from tests.cli.command_line import one_line, run
from tests.control import forged_records as forged


@pytest.fixture
def folder(tmp_path):
    actions = np.random.default_rng(0).normal(size=400)
    columns = {
        "loss": (actions > 1.5).astype(float),
        "log_safe": -(actions**2) / 2,
        "log_optimized": -((actions - 1) ** 2) / 2,
    }
    pd.DataFrame(columns).to_csv(tmp_path / "log.csv", index=False)
    assert run("keygen", tmp_path / "ops").exit_code == 0
    return tmp_path


def calibrate(folder, *words):
    return run(
        "calibrate", folder / "log.csv", "--no-context", "--alpha", 0.2,
        "--out", folder / "found.json", *words,
    )  # fmt: skip


def test_a_true_record_passes_with_key_and_log(folder):
    done = calibrate(folder, "--key", folder / "ops.key")
    assert done.exit_code == 0, done.output
    assert "signed" in done.output
    done = run(
        "verify", folder / "found.json", "--key", folder / "ops.pub", "--log", folder / "log.csv",
        "--no-context",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "all 5 checks passed" in done.output
    assert "signed by SHA256:" in done.output
    assert "calibrating again gives the same" in done.output
    content = json.loads(run("verify", folder / "found.json", "--json").output)
    assert content["ok"] is True


def test_each_finding_is_named_and_the_exit_code_is_1(folder):
    calibrate(folder)
    done = run("verify", folder / "found.json", "--key", folder / "ops.pub")
    assert done.exit_code == 1
    assert "WRONG signature: the record is not signed" in one_line(done)
    entries = forged.entries_of(folder / "found.json")
    entries["log_beta"] = 9.0
    (folder / "forged.json").write_text(json.dumps(entries))
    done = run("verify", folder / "forged.json")
    assert done.exit_code == 1
    assert "WRONG digest" in one_line(done)
    assert "WRONG content: log_beta is 9.0" in one_line(done)
    (folder / "log.csv").write_text((folder / "log.csv").read_text().replace("1.0,", "0.0,", 1))
    done = run("verify", folder / "found.json", "--log", folder / "log.csv", "--no-context")
    assert done.exit_code == 1
    assert "WRONG log: another log: these differ: log: loss[loss]" in one_line(done)


def test_wrong_input_is_one_line_and_exit_code_2(folder):
    calibrate(folder)
    for words in (
        ("verify", folder / "none.json"),
        ("verify", folder / "found.json", "--key", folder / "none.pub"),
        ("verify", folder / "found.json", "--key", folder / "log.csv"),
        ("verify", folder / "found.json", "--log", folder / "none.csv", "--no-context"),
        ("verify", folder / "found.json", "--log", folder / "log.csv"),
        ("verify", folder / "found.json", "--proposals", folder / "log.csv"),
        ("keygen", folder / "ops"),
        ("keygen", folder / "none" / "ops"),
    ):
        done = run(*words)
        assert done.exit_code == 2, done.output
        assert one_line(done).startswith("error:")


def test_files_are_replaced_only_with_force_and_inputs_never(folder):
    assert calibrate(folder).exit_code == 0
    assert stat.S_IMODE((folder / "found.json").stat().st_mode) == 0o600
    before = (folder / "found.json").read_bytes()
    done = calibrate(folder)
    assert done.exit_code == 2
    assert "--force" in one_line(done)
    assert (folder / "found.json").read_bytes() == before
    assert calibrate(folder, "--force").exit_code == 0
    log = (folder / "log.csv").read_bytes()
    for words in (("--out", folder / "log.csv", "--force"), ("--out", folder)):
        done = run("calibrate", folder / "log.csv", "--no-context", "--alpha", 0.2, *words)
        assert done.exit_code == 2, done.output
    assert (folder / "log.csv").read_bytes() == log
    done = run("calibrate", folder / "log.csv", "--no-context", "--alpha", 0.2, "--force")
    assert "--key and --force are for the file that --out names" in one_line(done)
    (folder / "ops.key").chmod(0o644)
    done = calibrate(folder, "--force", "--key", folder / "ops.key")
    assert done.exit_code == 2
    assert "chmod 600" in one_line(done)


@pytest.mark.parametrize("words", [(), ("--force",)])
def test_nothing_overwrites_a_store(store, folder, words):
    """`tether report clinic.db -o clinic.db` replaced the store with HTML."""
    before = store.read_bytes()
    exported = store.with_suffix(".parquet")
    exported.hardlink_to(store)
    for command in (
        ("report", store, "-o", store),
        ("report", store, "-o", f"{store}-wal"),
        ("export", store, exported),
        ("calibrate", folder / "log.csv", "--no-context", "--alpha", 0.2, "--out", store),
    ):
        done = run(*command, *words)
        assert done.exit_code == 2, done.output
        assert "never overwritten" in one_line(done)
        assert store.read_bytes() == before
    assert run("status", store).exit_code == 0


def test_reports_and_exports_are_replaced_only_with_force(store, tmp_path):
    for command in (
        ("report", store, "-o", tmp_path / "report.html"),
        ("export", store, tmp_path / "run.parquet"),
    ):
        assert run(*command).exit_code == 0
        assert stat.S_IMODE((command[-1]).stat().st_mode) == 0o600
        command[-1].write_text("mine")
        done = run(*command)
        assert done.exit_code == 2
        assert "--force" in one_line(done)
        assert command[-1].read_text() == "mine"
        assert run(*command, "--force").exit_code == 0
        assert command[-1].stat().st_size > 100
