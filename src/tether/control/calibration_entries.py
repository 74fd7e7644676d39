"""The entries of a saved calibration, one by one: what each of them may be.

Every function raises a ValueError that names the entry. What the entries say about each other is
checked in `tether.control.calibration_checks`.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any

from tether.control.scored_by import CANDIDATES, PICKER, SCORER

QUANTILES = 101
"""How many quantiles of the weights, and of pick probabilities, a calibration has."""
NAMED_TEST_WEIGHTS = ("empirical", "analytic", "max_ratio")
DIGEST_PATTERN = re.compile(r"sha256:[0-9a-f]{64}")
POLICY_NAMES = {"safe", "optimized", PICKER, CANDIDATES, SCORER}
"""What a calibration may have digests of, or a description."""
SETTING_NAMES = (
    *("alpha", "promise", "confidence", "bound", "family", "test_weight", "ratio_error", "blend"),
)
"""The arguments of `calibrate` that are settings."""


def check_entries(saved: Mapping[str, Any]) -> None:
    """Raise unless every entry by itself is something that a calibration can have."""
    names = check_constraints(saved["constraints"])
    real("log_beta", saved["log_beta"])
    each_of("log_beta_by_constraint", saved["log_beta_by_constraint"], names, real)
    text("family", saved["family"])
    _test_weight(saved["test_weight"])
    rows = integer("rows", saved["rows"], 1)
    yes_or_no("contextual", saved["contextual"])
    real("blend", saved["blend"], 0, 1)
    if saved["asked_promise"] is not None:
        each_of("asked_promise", saved["asked_promise"], names, positive)
    if (saved["confidence"] is None) != (saved["upper_bounds"] is None):
        raise ValueError("confidence and upper_bounds must both be given, or neither")
    if saved["confidence"] is not None:
        if not 0 < real("confidence", saved["confidence"]) < 1:
            raise ValueError(f"confidence must be above 0 and below 1, got {saved['confidence']!r}")
        each_of("upper_bounds", saved["upper_bounds"], names, not_negative)
    if saved["actions"] is not None:
        integer("actions", saved["actions"], 1)
    if saved["approximate"] is not None:
        text("approximate", saved["approximate"])
    if saved["policies"] is not None:
        noted = saved["policies"]
        if not isinstance(noted, Mapping) or not set(noted) <= POLICY_NAMES:
            raise ValueError(
                f"policies must be digests of safe and optimized, or a picker, got {noted!r}"
            )
        for name, digest in noted.items():
            text(f"policies[{name!r}]", digest)
    _pick_quantiles(saved)
    each_of("risks", saved["risks"], names, not_negative)
    real("stability", saved["stability"], 0)
    if saved["smoothness"] is not None:
        real("smoothness", saved["smoothness"], 0)
    real("robustness", saved["robustness"], 0)
    real("effective_sample_size", saved["effective_sample_size"], 0)
    real("max_weight", saved["max_weight"], 0, 1)
    _quantiles("relative_weights", saved["relative_weights"], 0)
    if not _is_nan(saved["acceptance"]):
        real("acceptance", saved["acceptance"], 0)
    real("outside_share", saved["outside_share"], 0, 1)
    if (saved["coverage"] is None) != (saved["coverage_limit"] is None):
        raise ValueError("coverage and coverage_limit must both be numbers, or neither")
    if saved["coverage"] is not None:
        real("coverage_limit", saved["coverage_limit"], real("coverage", saved["coverage"], 0))
    if integer("rows_beyond_draws", saved["rows_beyond_draws"], 0) > rows:
        raise ValueError(
            f"rows_beyond_draws is {saved['rows_beyond_draws']!r}, but there are {rows} rows"
        )
    for name in ("warnings", "log_warnings", "refuted_by"):
        for warning in a_list(name, saved[name]):
            text(name, warning)
    each_of("promise_terms", saved["promise_terms"], names, _terms)
    each_of("curves", saved["curves"], names, _curve)
    if saved.get("nearest") is not None:
        exact_keys("nearest", saved["nearest"], ("log_beta", "terms"))
        real("nearest.log_beta", saved["nearest"]["log_beta"])
        each_of("nearest.terms", saved["nearest"]["terms"], names, _terms)


def check_constraints(constraints: Any) -> list[str]:
    """Raise unless these are constraints; their names."""
    names = []
    for each in a_list("constraints", constraints):
        exact_keys("constraints", each, ("name", "alpha", "bound", "ratio_error"))
        where = f"of the constraint {text('constraints', each['name'])!r}"
        names.append(each["name"])
        bound, alpha = positive(f"bound {where}", each["bound"]), each["alpha"]
        if not 0 < real(f"alpha {where}", alpha) < bound:
            raise ValueError(f"alpha {where} must be above 0 and below {bound:g}, got {alpha!r}")
        if not 1 <= real(f"ratio_error {where}", each["ratio_error"]) < math.inf:
            raise ValueError(
                f"ratio_error {where} must be at least 1 and finite, got {each['ratio_error']!r}"
            )
    if not names or len(set(names)) != len(names):
        raise ValueError(f"constraints must be one or more of different names, got {names!r}")
    return names


def check_provenance(stated: Any) -> None:
    """Raise unless this can be what a calibration says of its origin."""
    keys = ("version", "settings", "log", "proposals", "log_digest", "proposals_digest")
    exact_keys("provenance", stated, keys)
    text("provenance.version", stated["version"])
    exact_keys("provenance.settings", stated["settings"], SETTING_NAMES)
    for name in ("log", "proposals"):
        columns = stated[name]
        if name == "proposals" and columns is None:
            continue
        if not isinstance(columns, Mapping) or not columns:
            raise ValueError(f"provenance.{name} must be a digest for each column")
        for column, digest in columns.items():
            if not isinstance(digest, str) or not DIGEST_PATTERN.fullmatch(digest):
                raise ValueError(f"provenance.{name}[{column!r}] is no digest: {digest!r}")


def real(name: str, value: Any, low: float = -math.inf, high: float = math.inf) -> float:
    """A number that may be infinite but not NaN."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{name} must be a number, got {value!r}")
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        raise ValueError(f"{name} must be a number that fits a float, got one of another size")
    if not low <= value <= high:  # NaN fails this too
        limits = "a number" if low == -math.inf else f"at least {low:g}"
        limits += "" if high == math.inf else f" and at most {high:g}"
        raise ValueError(f"{name} must be {limits}, got {value!r}")
    return value


def positive(name: str, value: Any) -> float:
    """A finite number above 0."""
    if not 0 < real(name, value) < math.inf:
        raise ValueError(f"{name} must be above 0 and finite, got {value!r}")
    return float(value)


def not_negative(name: str, value: Any) -> float:
    """A number of at least 0."""
    return real(name, value, 0)


def integer(name: str, value: Any, minimum: int) -> int:
    """An integer of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise ValueError(f"{name} must be an integer of at least {minimum}, got {value!r}")
    return value


def text(name: str, value: Any) -> str:
    """Text, as it is."""
    if not isinstance(value, str):
        raise ValueError(f"{name} must be text, got {value!r}")
    return value


def yes_or_no(name: str, value: Any) -> None:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false, got {value!r}")


def a_list(name: str, value: Any) -> Collection[Any]:
    """A list or tuple."""
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"{name} must be a list, got {value!r}")
    return value


def each_of(
    name: str, values: Any, names: Collection[str], check: Callable[[str, Any], Any]
) -> None:
    """Raise unless there is one good value for each constraint."""
    exact_keys(name, values, names)
    for key, value in values.items():
        check(f"{name}[{key!r}]", value)


def exact_keys(name: str, values: Any, keys: Collection[str]) -> None:
    """Raise unless this is a mapping with exactly these keys."""
    if not isinstance(values, Mapping) or set(values) != set(keys):
        found = sorted(map(str, values)) if isinstance(values, Mapping) else values
        raise ValueError(f"{name} must have the entries {sorted(keys)}, got {found!r}")


def _test_weight(value: Any) -> None:
    if value not in NAMED_TEST_WEIGHTS:
        if isinstance(value, str):
            raise ValueError(
                f"test_weight must be a number or one of {', '.join(NAMED_TEST_WEIGHTS)}, got "
                f"{value!r}"
            )
        positive("test_weight", value)


def _quantiles(name: str, values: Any, low: float, high: float = math.inf) -> None:
    if len(a_list(name, values)) != QUANTILES:
        raise ValueError(f"{name} must be {QUANTILES} numbers, got {len(values)}")
    last = low
    for value in values:
        if not real(name, value, low, high) >= last:
            raise ValueError(f"{name} must not decrease, but {value!r} follows {last!r}")
        last = value


def _pick_quantiles(saved: Mapping[str, Any]) -> None:
    """Those of a shortlist, of which the likeliest of N candidates has a share of 1 / N or more."""
    names, values = set(saved["policies"] or ()), saved["pick_quantiles"]
    if PICKER not in names and (values is not None or names & {CANDIDATES, SCORER}):
        raise ValueError(
            "policies must have a picker where there are pick_quantiles, candidates or a scorer"
        )
    if PICKER in names:
        if values is None or saved["actions"] is None:
            raise ValueError("pick_quantiles and actions must be given where there is a picker")
        _quantiles("pick_quantiles", values, (1 - 1e-9) / saved["actions"], 1 + 1e-9)


def _terms(name: str, terms: Any) -> None:
    exact_keys(name, terms, ("alpha", "stability", "safe_excess", "bound", "unforeseen"))
    for key, value in terms.items():
        real(f"{name}[{key!r}]", value, 0)


def _curve(name: str, curve: Any) -> None:
    exact_keys(name, curve, ("log_beta", "risk"))
    betas, risks = (a_list(f"{name}[{key!r}]", curve[key]) for key in ("log_beta", "risk"))
    if len(betas) != len(risks):
        raise ValueError(f"{name} has {len(betas)} betas and {len(risks)} risks")
    last = -math.inf
    for value in betas:
        if not real(f"{name}['log_beta']", value) > last:
            raise ValueError(f"{name}['log_beta'] must increase, but {value!r} follows {last!r}")
        last = value
    for value in risks:
        real(f"{name}['risk']", value, 0)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
