"""A calibration as plain values and back, through JSON, with everything that it states."""

import json

import numpy as np
import pytest

import tether
from tests.control import forged_records as forged
from tests.control.example_logs import drawn_world, gaussian_columns, log_and_proposals
from tether._core import records
from tether.control.calibration_record import DERIVED, SHOWN, STATED
from tether.verification import verify_record


def gaussian(rows=800, seed=0, **more):
    log, proposals = log_and_proposals(gaussian_columns(np.random.default_rng(seed), rows, 80), 0)
    changed = tether.Log({"loss": log.loss["loss"]}, log.log_safe, log.log_optimized, **more)
    return changed, proposals


def argmax():
    safe = np.log(np.full((300, 2), 0.5))
    with np.errstate(divide="ignore"):
        optimized = np.log(np.tile([1.0, 0.0], (300, 1)))
    action = np.arange(300) % 2
    row = np.arange(300)
    return tether.Log(
        0.3 * (action == 0), safe[row, action], optimized[row, action],
        log_safe_all=safe, log_optimized_all=optimized,
    )  # fmt: skip


def several():
    log, proposals = gaussian()
    losses = {"harm": log.loss["loss"], "delay": 2 * log.loss["loss"]}
    return tether.Log(losses, log.log_safe, log.log_optimized), proposals


def shortlist():
    rng = np.random.default_rng(3)
    picked = tether.Shortlist(tether.Gaussian(0.0), tether.Gaussian(1.0), size=4)
    actions = rng.normal(size=200)
    return picked.make_log(None, actions, (actions > 1.5).astype(float), rng)


BOTH = {"harm": 0.15, "delay": 0.4}
CASES = {
    "alpha": lambda: tether.calibrate(*gaussian(), alpha=0.1),
    "infinite": lambda: tether.calibrate(*gaussian(), alpha=0.9),
    "none": lambda: tether.calibrate(*gaussian(), alpha=0.01),
    "promise": lambda: tether.calibrate(*gaussian(), promise=0.12),
    "promises": lambda: tether.calibrate(*several(), promise=BOTH, bound={"harm": 1, "delay": 2}),
    "impossible promise": lambda: tether.calibrate(*gaussian(), promise=0.02),
    "confidence": lambda: tether.calibrate(*gaussian(2000), alpha=0.12, confidence=0.9),
    "uncertain": lambda: tether.calibrate(*gaussian(), alpha=0.05, confidence=0.9),
    "ratio error": lambda: tether.calibrate(*gaussian(), alpha=0.15, ratio_error=1.05),
    "approximate": lambda: tether.calibrate(
        *gaussian(approximate="scores are estimates", ratio_error=1.02), alpha=0.15
    ),
    "blend": lambda: tether.calibrate(argmax(), alpha=0.2),
    "shortlist": lambda: tether.calibrate(shortlist(), alpha=0.15),
    "contexts": lambda: tether.calibrate(
        *drawn_world(np.random.default_rng(1), rows=80)[:2], alpha=0.3
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_through_json_and_back(case, tmp_path):
    found = CASES[case]()
    content = found.to_dict()
    written = json.loads(json.dumps(records.encode(content), allow_nan=False))
    for saved in (content, written):
        again = tether.Calibration.from_dict(saved)
        assert again == found
        assert again.to_dict() == content
        for name in (*STATED, *DERIVED, *SHOWN, "constraints", "promise_terms", "statement"):
            assert getattr(again, name) == getattr(found, name), name
        assert type(again.warnings) is tuple
        assert str(again) == str(found)
    found.save(tmp_path / "found.json")
    assert tether.Calibration.load(tmp_path / "found.json").to_dict() == content


def test_what_the_new_entries_say():
    """The record has what was asked for and what it took, not only the result."""
    made = {name: case().to_dict() for name, case in CASES.items()}
    assert made["alpha"]["asked_promise"] is None
    assert made["alpha"]["confidence"] is made["alpha"]["upper_bounds"] is None
    assert made["alpha"]["approximate"] is None
    assert (made["alpha"]["ratio_error"], made["alpha"]["blend"]) == (1.0, 0.0)
    assert made["alpha"]["robustness"] > 1 > made["none"]["robustness"]
    assert set(made["alpha"]["promise_terms"]["loss"]) == {
        "alpha", "stability", "safe_excess", "bound", "unforeseen",
    }  # fmt: skip
    assert made["promise"]["asked_promise"] == {"loss": 0.12}
    assert made["promise"]["promise"] <= 0.12
    assert made["promise"]["alpha"] < 0.12
    assert made["promise"]["useful"] is True
    assert made["promises"]["asked_promise"] == BOTH
    assert made["impossible promise"]["asked_promise"] == {"loss": 0.02}
    assert made["impossible promise"]["exists"] is made["impossible promise"]["useful"] is False
    assert made["confidence"]["confidence"] == 0.9
    assert made["confidence"]["upper_bounds"]["loss"] <= 0.12
    assert made["confidence"]["promise"] == 0.12
    assert made["uncertain"]["upper_bounds"]["loss"] > 0.05
    assert made["ratio error"]["ratio_error"] == 1.05
    assert made["ratio error"]["constraints"] == [
        {"name": "loss", "alpha": 0.15, "bound": 1.0, "ratio_error": 1.05}
    ]
    assert made["approximate"]["approximate"] == "scores are estimates"
    assert made["approximate"]["ratio_error"] == 1.02
    assert "scores are estimates" in made["approximate"]["warnings"]
    assert made["blend"]["blend"] == 0.01
    assert made["contexts"]["family"] == "budgeted_clip(3)"


def test_a_loaded_blend_and_budget_are_served():
    found = tether.Calibration.from_dict(CASES["blend"]().to_dict())
    safe = tether.Categorical.from_probabilities([0.5, 0.5])
    optimized = tether.Categorical.from_probabilities([1.0, 0.0])
    policy = tether.Tethered(safe, optimized, found)
    assert policy.blend == 0.01
    served = np.exp(policy.log_prob_all(1)[0])
    kernel = np.minimum([0.995, 0.005], 0.5 * found.beta)
    assert served == pytest.approx(kernel / kernel.sum())
    budgeted = tether.Calibration.from_dict(CASES["contexts"]().to_dict())
    policy = tether.Tethered(tether.Gaussian(0.0), tether.Gaussian(1.0), budgeted)
    assert policy.family == tether.BudgetedClip(3)


@pytest.mark.parametrize("name", ["asked_promise", "robustness", "promise_terms", "blend"])
def test_what_is_lacking_is_named(name):
    content = CASES["alpha"]().to_dict()
    del content[name]
    with pytest.raises(ValueError, match=f"not a complete calibration: it lacks {name}"):
        tether.Calibration.from_dict(content)


@pytest.mark.parametrize("name", [*SHOWN, "assumptions", "provenance", "gain"])
def test_a_file_has_what_its_other_entries_are_compared_with(tmp_path, name):
    """Without `useful`, an edited coverage would make a promise useful again."""
    path = tmp_path / "found.json"
    CASES["alpha"]().save(path)
    entries = forged.entries_of(path)
    del entries[name]
    path.write_text(json.dumps(forged.with_digest(entries)))
    with pytest.raises(ValueError, match=f"it lacks {name}"):
        tether.Calibration.load(path)


NAMES_OF_ENTRIES = (
    "family",
    "name",
    "warnings",
    "risks",
    "groups",
    "alpha",
    "kind",
    "digest",
    "inf",
)


@pytest.mark.parametrize("confidence", [None, 0.9])
@pytest.mark.parametrize("name", NAMES_OF_ENTRIES)
def test_a_loss_may_have_the_name_of_an_entry(tmp_path, name, confidence):
    rng = np.random.default_rng(0)
    losses = {name: np.zeros(500), "other": (rng.random(500) < 0.5).astype(float)}
    log = tether.Log(losses, np.zeros(500), rng.normal(size=500) * 0.1 - 0.005)
    found = tether.calibrate(log, alpha={name: 0.1, "other": 0.2}, confidence=confidence)
    unbounded = found.log_beta_by_constraint[name] == np.inf
    assert unbounded == (confidence is not None)  # what JSON writes as text
    found.save(tmp_path / "found.json")
    loaded = tether.Calibration.load(tmp_path / "found.json")
    assert loaded.to_dict() == found.to_dict()
    assert tether.Calibration.from_dict(found.to_dict()).to_dict() == found.to_dict()
    assert verify_record(tmp_path / "found.json", log=log).ok


@pytest.mark.parametrize("test_weight", ["empirical", "analytic"])
def test_a_mix_with_a_stated_largest_ratio_is_loaded_again(test_weight, tmp_path):
    log, _ = gaussian(max_ratio=50.0)
    found = tether.calibrate(log, alpha=0.2, family="mix", test_weight=test_weight)
    assert found.test_weight == "max_ratio"
    path = found.save(tmp_path / "found.json") or tmp_path / "found.json"
    assert tether.Calibration.load(path).log_beta == found.log_beta
