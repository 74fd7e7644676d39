"""Where a calibration came from."""

import numpy as np
import pytest

import tether
from tests.control.example_logs import drawn_world
from tether.control.acting import Acting
from tether.control.calibration_entries import SETTING_NAMES
from tether.control.provenance import Provenance, log_digests, proposal_digests

N = 60


def columns():
    grid = np.linspace(-1, 1, N)
    return {"loss": np.zeros(N), "log_safe": -1 - grid**2, "log_optimized": -1.2 - grid**2 / 2}


def full_log(**changed):
    """A log that has everything that a log can have."""
    safe = np.log(np.full((N, 2), 0.5))
    tables = {"log_safe_all": safe, "log_optimized_all": safe, "log_mix_all": safe}
    given = {
        "loss": {"harm": np.zeros(N), "delay": np.ones(N)},
        "log_safe": safe[:, 0], "log_optimized": safe[:, 0], "log_mix": safe[:, 0],
        "context": np.arange(N) // 2, "safe_share": 0.5, "max_ratio": 2.0,
        "acting": Acting(safe[:, 0].copy(), safe.copy(), np.zeros(N)),
        "approximate": "estimated", "ratio_error": 1.5, **tables,
    }  # fmt: skip
    return tether.Log(**{**given, **changed})


def test_every_part_of_a_log_is_in_its_digest():
    original = log_digests(full_log())
    acting = full_log().acting
    moved = np.full(N, -0.7)
    changes = {
        "loss[harm]": {"loss": {"harm": np.full(N, 0.5), "delay": np.ones(N)}},
        "context": {"context": np.arange(N) // 3},
        "acting.log_logged": {"acting": Acting(moved, acting.log_logged_all, np.zeros(N))},
        "acting.log_base_limit": {
            "acting": Acting(acting.log_logged, acting.log_logged_all, np.ones(N))
        },
        "stated": {"safe_share": 0.25},
    }
    for name, change in changes.items():
        digests = log_digests(full_log(**change))
        assert [each for each in original if digests[each] != original[each]] == [name]
    for change in ({"max_ratio": 3.0}, {"approximate": None}, {"ratio_error": np.inf}):
        assert log_digests(full_log(**change))["stated"] != original["stated"]
    assert set(original) == {
        "loss[harm]", "loss[delay]", "log_safe", "log_optimized", "context", "log_mix",
        "log_safe_all", "log_optimized_all", "log_mix_all", "acting.log_logged",
        "acting.log_logged_all", "acting.log_base_limit", "stated",
    }  # fmt: skip
    for name in ("log_safe", "log_optimized"):
        made = columns()
        before = log_digests(tether.Log(**made))
        made[name] = np.nextafter(made[name], 0)
        after = log_digests(tether.Log(**made))
        assert [each for each in before if before[each] != after[each]] == [name]


def test_the_order_of_rows_and_every_column_of_proposals_matter():
    made = columns()
    back = {name: values[::-1] for name, values in made.items()}
    assert log_digests(tether.Log(**made)) != log_digests(tether.Log(**back))
    given = {"log_safe": [-1.0, -2.0], "log_optimized": [-1.5, -1.0], "context": [0, 1]}
    original = proposal_digests(tether.Proposals(**given, log_mix=[-1.0, -1.0]))
    for change, name in (
        ({"log_safe": [-1.0, -2.5]}, "log_safe"),
        ({"context": [0, 2]}, "context"),
        ({"source": "safe"}, "from_safe"),
        ({"log_mix": [-1.0, -1.1]}, "log_mix"),
    ):
        changed = tether.Proposals(**{**given, "log_mix": [-1.0, -1.0], **change})
        digests = proposal_digests(changed)
        assert [each for each in original if digests[each] != original[each]] == [name]


def test_the_record_says_what_was_asked_for():
    made, proposals = drawn_world(np.random.default_rng(1), rows=80)[:2]
    found = tether.calibrate(made, proposals, alpha={"loss": np.float64(0.3)})
    origin = found.provenance
    assert origin.version == tether.__version__
    assert tuple(origin.settings) == SETTING_NAMES
    assert origin.settings["alpha"] == {"loss": 0.3}
    assert origin.settings["family"] == "clip"  # what was asked for; the result is budgeted
    assert origin.settings["promise"] is None
    assert origin.log == log_digests(made)
    assert origin.proposals == proposal_digests(proposals)
    loaded = tether.Calibration.from_dict(found.to_dict()).provenance
    assert loaded == origin
    again = tether.calibrate(made, proposals, **loaded.settings)
    assert again.to_dict() == found.to_dict()


@pytest.mark.parametrize("settings", [{"promise": 0.3}, {"alpha": 0.2, "confidence": 0.9}])
def test_every_way_to_calibrate_keeps_the_settings(settings):
    found = tether.calibrate(tether.Log(**columns()), **settings)
    assert {name: found.provenance.settings[name] for name in settings} == settings
    assert found.provenance.proposals is None
    assert found.provenance.proposals_digest is None


def test_differences_are_named():
    log = tether.Log(**columns())
    origin = tether.calibrate(log, alpha=0.2).provenance
    assert origin.differences(log, None) == []
    other = tether.Log(**{**columns(), "loss": np.ones(N)})
    assert origin.differences(other, None) == ["log: loss[loss]"]
    named = tether.Log(**{**columns(), "loss": {"harm": np.zeros(N)}})
    assert origin.differences(named, None) == ["log: loss[harm]", "log: loss[loss]"]
    drawn = tether.Proposals([0.0], [0.0])
    assert "proposals: log_safe" in origin.differences(log, drawn)
    changed = Provenance(origin.version, origin.settings, {**origin.log, "context": "x"}, None)
    assert changed.log_digest != origin.log_digest
