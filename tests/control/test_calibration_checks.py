"""A saved calibration that contradicts itself is refused, and the entry is named."""

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tether
from tests.control import forged_records as forged
from tests.control.test_calibration_record import CASES
from tether._core import records
from tether.control.calibration_checks import find_problems


def entries(case):
    return json.loads(json.dumps(records.encode(CASES[case]().to_dict()), allow_nan=False))


@pytest.fixture(scope="module")
def made():
    return {case: entries(case) for case in CASES}


@pytest.mark.parametrize("case", CASES)
def test_no_true_calibration_is_refused(case, made):
    assert list(find_problems(records.decode(made[case]))) == []


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 10**6),
    rows=st.integers(3, 80),
    family=st.sampled_from(["clip", "mix"]),
    target=st.sampled_from(["alpha", "promise", "confidence"]),
    level=st.floats(0.02, 0.9),
    ties=st.booleans(),
    error=st.sampled_from([None, 1.1, 3.0]),
)
def test_no_calibration_of_a_random_log_is_refused(seed, rows, family, target, level, ties, error):
    rng = np.random.default_rng(seed)
    safe = rng.normal(size=rows)
    ratio = rng.normal(size=rows) * rng.choice([0.01, 1.0, 30.0])
    ratio = np.round(ratio) if ties else ratio
    loss = {"a": rng.random(rows) < 0.1, "b": 2 * rng.random(rows)}
    log = tether.Log(loss, safe - 9, safe - 9 + ratio)
    proposals = tether.Proposals(np.full(5, -9.0), -9 + rng.normal(size=5))
    asked = {"alpha" if target == "confidence" else target: {"a": level, "b": 2 * level}}
    asked |= {"confidence": 0.8} if target == "confidence" else {}
    found = tether.calibrate(
        log, proposals, bound={"a": 1, "b": 2}, family=family, ratio_error=error, **asked
    )
    content = records.decode(json.loads(json.dumps(records.encode(found.to_dict()))))
    assert list(find_problems(content)) == []
    assert tether.Calibration.from_dict(content).to_dict() == found.to_dict()


ISSUE = {  # what loaded without an error before
    "log_beta": ("log_beta", 9.0, "log_beta is 9.0, but the smallest of log_beta_by_constraint"),
    "alpha": ("constraints.0.alpha", -1.0, "alpha of the constraint 'loss' must be above 0"),
    "NaN": ("constraints.0.alpha", "nan", "alpha of the constraint 'loss' must be a number"),
}


@pytest.mark.parametrize("name", ISSUE)
def test_the_forgeries_that_were_accepted(made, name):
    place, value, message = ISSUE[name]
    content = forged.edited(made["alpha"], path_of(place), lambda _: value)
    with pytest.raises(ValueError, match=message):
        tether.Calibration.from_dict(content)


def path_of(place):
    return tuple(int(step) if step.isdigit() else step for step in place.split("."))


RECOMPUTED = [
    ("alpha", "beta", 403.0), ("alpha", "beta", "inf"), ("alpha", "exists", False),
    ("none", "exists", True), ("alpha", "alpha", 0.2), ("alpha", "bound", 2.0),
    ("alpha", "ratio_error", 1.5), ("alpha", "risk", 0.01), ("alpha", "promise", 0.1),
    ("alpha", "promises.loss", 0.1), ("alpha", "promises", {}), ("alpha", "promises", 3),
    ("alpha", "useful", False), ("none", "useful", True),
    ("alpha", "log_beta", 9.0), ("alpha", "log_beta", "nan"), ("alpha", "log_beta", None),
    ("alpha", "log_beta_by_constraint.loss", 9.0), ("alpha", "log_beta_by_constraint", {}),
    ("alpha", "log_beta_by_constraint", {"other": 1.0}), ("promises", "log_beta", "inf"),
    ("alpha", "constraints", []), ("alpha", "constraints", None), ("alpha", "constraints.0", {}),
    ("alpha", "constraints.0.alpha", 0.0), ("alpha", "constraints.0.alpha", 1.0),
    ("alpha", "constraints.0.alpha", 0.3), ("alpha", "constraints.0.alpha", True),
    ("alpha", "constraints.0.bound", 0.05), ("alpha", "constraints.0.bound", "inf"),
    ("alpha", "constraints.0.bound", 5.0), ("alpha", "constraints.0.name", "other"),
    ("alpha", "constraints.0.name", 3), ("alpha", "constraints.0.ratio_error", 0.5),
    ("alpha", "constraints.0.ratio_error", 2.0), ("alpha", "family", "mix"),
    ("alpha", "family", None), ("alpha", "test_weight", "analytic"),
    ("alpha", "test_weight", "none"), ("alpha", "test_weight", -1.0),
    ("alpha", "rows", 0), ("alpha", "rows", 2.5), ("alpha", "rows", 10), ("alpha", "rows", True),
    ("alpha", "contextual", "no"), ("alpha", "blend", -0.1), ("alpha", "blend", 0.5),
    ("blend", "blend", 0.02), ("promise", "asked_promise.loss", 0.5),
    ("promise", "asked_promise.loss", 0.01), ("promise", "asked_promise", None),
    ("promise", "asked_promise.loss", 1.0), ("alpha", "asked_promise", {"loss": 0.3}),
    ("confidence", "confidence", 0.99), ("confidence", "confidence", None),
    ("confidence", "confidence", 1.0), ("confidence", "upper_bounds.loss", 0.5),
    ("confidence", "upper_bounds", None), ("confidence", "stability", 0.1),
    ("confidence", "promise_terms.loss.safe_excess", 0.01), ("alpha", "actions", -2),
    ("alpha", "approximate", 3), ("alpha", "approximate", "estimated"),
    ("approximate", "approximate", "exact"), ("approximate", "warnings", []),
    ("alpha", "risks.loss", 0.01), ("alpha", "risks.loss", 0.5), ("alpha", "risks.loss", "nan"),
    ("alpha", "risks.loss", -1.0), ("alpha", "risks", {}), ("alpha", "stability", 0.0),
    ("alpha", "stability", -1.0), ("alpha", "stability", "nan"), ("alpha", "smoothness", "nan"),
    ("alpha", "robustness", -1.0), ("alpha", "robustness", "nan"),
    ("alpha", "effective_sample_size", 1e6), ("alpha", "effective_sample_size", 0.5),
    ("alpha", "max_weight", 1.5), ("alpha", "max_weight", 0.0), ("alpha", "relative_weights", []),
    ("alpha", "relative_weights", [1.0] * 100 + [0.5]), ("alpha", "relative_weights", [0.5] * 101),
    ("alpha", "relative_weights", [1e9] * 101), ("alpha", "acceptance", -0.5),
    ("alpha", "rows_beyond_draws", -1), ("alpha", "rows_beyond_draws", 801),
    ("alpha", "warnings", "none"), ("alpha", "warnings", [3]), ("none", "warnings", []),
    ("alpha", "promise_terms.loss.alpha", 0.05), ("alpha", "promise_terms.loss.stability", 0.0),
    ("none", "promise_terms.loss.stability", 0.5), ("alpha", "promise_terms.loss.bound", 0.2),
    ("alpha", "promise_terms.loss.safe_excess", -0.1), ("alpha", "promise_terms", {}),
    ("alpha", "promise_terms.loss", []), ("alpha", "promise_terms.loss.safe_excess", "inf"),
    ("alpha", "curves", {}), ("alpha", "curves.loss.risk", []), ("alpha", "curves.loss", 1),
    ("alpha", "curves.loss.log_beta", []), ("alpha", "assumptions", "none"),
    ("alpha", "provenance.version", 3), ("alpha", "provenance.settings", {}),
    ("alpha", "provenance.settings.alpha", 0.05), ("alpha", "provenance.settings.alpha", None),
    ("alpha", "provenance.settings.promise", 0.1),
    ("alpha", "provenance.settings.promise", {"x": 1}),
    ("promise", "provenance.settings.alpha", 0.1),
    ("alpha", "provenance.settings.confidence", 0.9), ("alpha", "provenance.settings.bound", 2.0),
    ("alpha", "provenance.settings.family", "mix"), ("blend", "provenance.settings.blend", 0.5),
    ("alpha", "provenance.settings.test_weight", 3.0), ("alpha", "provenance.log", {}),
    ("ratio error", "provenance.settings.ratio_error", 2.0), ("alpha", "provenance", 7),
    ("alpha", "provenance.log.log_safe", "sha256:00"), ("alpha", "provenance.proposals", None),
    ("alpha", "pick_quantiles", [1.0] * 101), ("shortlist", "pick_quantiles", None),
    ("shortlist", "pick_quantiles", [1.0] * 100), ("shortlist", "pick_quantiles", [0.2] * 101),
    ("shortlist", "pick_quantiles", [1.0] * 100 + [0.5]), ("shortlist", "policies.picker", 3),
    ("shortlist", "pick_quantiles", [2.0] * 101), ("shortlist", "policies", None),
    ("shortlist", "policies", {"candidates": "x"}), ("shortlist", "policies", {"other": "x"}),
    ("alpha", "provenance.log_digest", "sha256:" + 64 * "0"), ("alpha", "provenance.log", None),
]  # fmt: skip
"""A case, a place in its record, and a value that contradicts the rest of it."""


@pytest.mark.parametrize(("case", "place", "value"), RECOMPUTED)
def test_what_follows_from_other_entries_cannot_be_changed_alone(made, case, place, value):
    content = forged.edited(made[case], path_of(place), lambda _: value)
    assert content != made[case]
    with pytest.raises((ValueError, TypeError)) as refused:
        tether.Calibration.from_dict(content)
    named = {step for step in path_of(place) if isinstance(step, str) and step != "loss"}
    related = {"beta", "promise", "alpha", "risk", "bound", "curve", "digest", "rows", "weigh"}
    assert any(word in str(refused.value) for word in named | related), str(refused.value)


def test_a_larger_beta_is_contradicted_by_the_curve(made):
    """All entries for beta are changed together, but the risk along beta was saved too."""
    content = forged.edited(made["alpha"], ("log_beta",), lambda _: 9.0)
    content["log_beta_by_constraint"]["loss"] = 9.0
    content["beta"] = float(np.exp(9.0))
    with pytest.raises(ValueError, match=r"above alpha = 0.1, but log_beta_by_constraint"):
        tether.Calibration.from_dict(content)


def test_curves_increase_and_have_the_risk_at_beta(made):
    for change, message in (
        (lambda curve: {**curve, "log_beta": curve["log_beta"][::-1]}, "must increase"),
        (lambda curve: {name: curve[name][:3] for name in curve}, "does not have the risk at"),
        (lambda curve: {**curve, "risk": [-1.0] * len(curve["risk"])}, "at least 0"),
        (lambda curve: {**curve, "risk": [0.0] * len(curve["risk"])}, "but the curve has 0.0"),
        (lambda curve: {**curve, "risk": ["nan"] * len(curve["risk"])}, "must be at least 0"),
    ):
        content = forged.edited(made["alpha"], ("curves", "loss"), change)
        with pytest.raises(ValueError, match=message):
            tether.Calibration.from_dict(content)


def test_two_constraints_of_one_name_are_refused(made):
    content = forged.edited(made["alpha"], ("constraints",), lambda each: each * 2)
    with pytest.raises(ValueError, match="of different names"):
        tether.Calibration.from_dict(content)


def test_calibrations_of_older_stores_have_no_provenance(made):
    content = {name: value for name, value in made["alpha"].items() if name != "provenance"}
    loaded = tether.Calibration.from_dict(content | {"promise": 0.5})
    assert loaded.provenance is None
    assert loaded.to_dict()["provenance"] is None
    assert tether.Calibration.from_dict(loaded.to_dict()).provenance is None
