"""The gain inside a saved calibration."""

import numpy as np
import pytest

import tether
from tests.control.forged_records import edited, entries_of, places, removed, with_digest
from tether._core import records
from tether.control.calibration_checks import find_problems


def calibrated(family="clip"):
    rng = np.random.default_rng(0)
    actions = rng.integers(3, size=400)
    tables = np.log([[0.5, 0.3, 0.2], [0.1, 0.3, 0.6]])
    all_scores = {
        f"log_{name}_all": np.tile(table, (400, 1))
        for name, table in zip(("safe", "optimized"), tables, strict=True)
    }
    log = tether.Log(
        rng.random(400) < 0.1 * actions,
        tables[0][actions],
        tables[1][actions],
        context=np.arange(400),
        reward=actions.astype(float),
        **all_scores,
    )
    return tether.calibrate(log, alpha=0.15, family=family)


@pytest.mark.parametrize("family", ["clip", "mix"])
def test_a_calibration_with_rewards_is_saved_with_its_gain(family, tmp_path):
    found = calibrated(family)
    found.save(tmp_path / "found.json")
    loaded = tether.Calibration.load(tmp_path / "found.json")
    assert tether.gain(loaded) == tether.gain(found)
    assert loaded.saved_gain.traffic == tether.gain(found).traffic
    assert "reward, gained" in str(loaded)
    assert str(loaded) == str(found)
    with pytest.raises(RuntimeError, match="loaded from a file"):
        tether.gain(loaded, confidence=0.5)  # the file has other intervals


def test_without_rewards_and_tables_none_is_saved(tmp_path):
    rng = np.random.default_rng(0)
    actions = rng.normal(size=300)
    log = tether.Log(actions > 1.5, -(actions**2) / 2, -((actions - 1) ** 2) / 2)
    found = tether.calibrate(log, alpha=0.2)
    found.save(tmp_path / "found.json")
    assert entries_of(tmp_path / "found.json")["gain"] is None
    loaded = tether.Calibration.load(tmp_path / "found.json")
    assert loaded.saved_gain is None
    assert "reward" not in str(loaded)
    with pytest.raises(RuntimeError, match="loaded from a file"):
        tether.gain(loaded)


def test_every_entry_of_a_gain_is_checked():
    """Whatever is removed, or replaced by something of another kind, is found."""
    saved = records.decode(records.encode(calibrated("mix").to_dict()))
    assert list(find_problems(saved)) == []
    changed = [path for path in places(saved["gain"], ("gain",)) if len(path) > 1]
    assert len(changed) > 50
    for path in changed:
        assert list(find_problems(removed(saved, path))), path
        assert list(find_problems(edited(saved, path, lambda value: {"other": 1}))), path


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("rows",), 7, "gain.rows is 7, but rows is 400"),
        (("log_beta",), 7.0, "gain.log_beta is 7.0, but log_beta is"),
        (("traffic",), None, "gain.traffic is None of family 'mix'"),
        (("confidence",), 1.0, "gain.confidence must be above 0 and below 1, got 1.0"),
        (("changed", "mean"), 2.0, "gain.changed must be"),
        (("reward", "safe", "mean"), np.inf, "must be a finite mean inside its interval"),
        (("changed", "upper"), 2.0, "gain.changed must be from 0 to 1, got 2.0"),
        (("losses", "loss", "safe", "lower"), -1.0, "must be from 0 to 1, got -1.0"),
        (("losses", "loss", "difference", "upper"), 2.0, "must be from -1 to 1, got 2.0"),
        (("reward", "safe", "effective_sample_size"), 500.0, "must be at least 0 and at most 400"),
        (("reward", "safe", "upper"), 10**400, "must be a number that fits a float"),
        (("reward", "safe", "unknown"), "why", "has numbers, although it is unknown"),
    ],
)
def test_contradictions_are_named(path, value, message):
    saved = records.decode(records.encode(calibrated("mix").to_dict()))
    forged = edited(saved, ("gain", *path), lambda _: value)
    problem = next(iter(find_problems(forged)))
    assert problem.startswith(message) or message in problem


def test_a_file_without_the_entry_is_refused(tmp_path):
    calibrated().save(tmp_path / "found.json")
    forged = with_digest(removed(entries_of(tmp_path / "found.json"), ("gain",)))
    with pytest.raises(ValueError, match="it lacks gain"):
        tether.Calibration._from_saved(forged)
