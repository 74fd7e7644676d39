"""Whatever takes a path refuses what is none, with the name of the argument and the value."""

import re

import pytest

import tether
from tether import report, rounds, saving, verification
from tether._core import signing
from tether.monitor import RiskMonitor

POLICY = tether.Gaussian(0.0)


def calibration():
    return tether.calibrate(tether.Log([0.0] * 50, [0.0] * 50, [0.0] * 50), alpha=0.1)


STORES = {
    "Controller": lambda path, _: rounds.Controller(POLICY, alpha=0.1, store=path),
    "reopen": lambda path, _: rounds.reopen(path),
    "read_history": lambda path, _: rounds.read_history(path),
    "halt": lambda path, _: rounds.halt(path, "why"),
    "verify_store": lambda path, _: rounds.verify_store(path),
    "export_run": lambda path, folder: rounds.export_run(path, folder / "a.parquet"),
    "backup_run": lambda path, folder: rounds.backup_run(path, folder / "a.db"),
}
FILES = {
    "Controller(spool)": lambda path, folder: rounds.Controller(
        POLICY, alpha=0.1, store=folder / "a.db", fallback="safe", spool=path
    ),
    "Controller(key)": lambda path, folder: rounds.Controller(
        POLICY, alpha=0.1, store=folder / "a.db", key=path
    ),
    "export_run": lambda path, folder: rounds.export_run(folder / "run.db", path),
    "import_run": lambda path, folder: rounds.import_run(path, folder / "a.db"),
    "backup_run": lambda path, folder: rounds.backup_run(folder / "run.db", path),
    "verify_export": lambda path, _: rounds.verify_export(path),
    "Calibration.save": lambda path, _: calibration().save(path),
    "Calibration.save(key)": lambda path, folder: calibration().save(folder / "a.json", key=path),
    "Calibration.load": lambda path, _: tether.Calibration.load(path),
    "Calibration.load(key)": lambda path, folder: tether.Calibration.load(
        folder / "found.json", key=path
    ),
    "Threshold.load": lambda path, _: tether.Selection.load(path),
    "RiskMonitor.save": lambda path, _: RiskMonitor(0.1).save(path),
    "verify_record": lambda path, _: verification.verify_record(path),
    "save_policy": lambda path, _: saving.save_policy(POLICY, path),
    "load_policy": lambda path, _: saving.load_policy(path),
    "generate_keys": lambda path, _: signing.generate_keys(path),
    "read_public_key": lambda path, _: signing.read_public_key(path),
    "report.write": lambda path, folder: report.write(rounds.read_history(folder / "run.db"), path),
}
NO_PATHS = [None, "", "a\0b", "\ud800", 3, b"a"]
OPTIONAL = (
    "Controller(spool)",
    "Controller(key)",
    "Calibration.save(key)",
    "Calibration.load(key)",
)
"""Arguments for which None has a meaning."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("paths")
    rounds.Controller(POLICY, alpha=0.1, store=made / "run.db").close()
    calibration().save(made / "found.json")
    return made


@pytest.mark.parametrize("value", NO_PATHS)
@pytest.mark.parametrize("name", STORES)
def test_a_store_that_is_no_path_is_refused(name, value, folder):
    with pytest.raises(ValueError, match=rf"^store must .*got {re.escape(repr(value))}"):
        STORES[name](value, folder)


@pytest.mark.parametrize("value", NO_PATHS)
@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_no_path_is_refused(name, value, folder):
    if value is None and name in OPTIONAL:
        return
    with pytest.raises(
        (TypeError, ValueError), match=r"^(path|spool|key|name) must .*got "
    ) as found:
        FILES[name](value, folder)
    assert repr(value) in str(found.value)
