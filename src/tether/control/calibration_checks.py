"""What the entries of a saved calibration say about each other, computed again.

Whatever follows from other entries is recomputed and compared: beta from its logarithm, the promise
from its terms, these from alpha and the stability, the smallest beta from those of the constraints,
the risk at beta from the curve, and the settings that were asked for from what was used. What needs
the log cannot be recomputed here: a forger who changes all such entries together is found out by
the log (`tether verify --log`) or by a signature.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from tether._core.digests import content_digest
from tether._core.useful_promise import is_useful
from tether._version import __version__
from tether.control.calibration_entries import check_entries, check_provenance
from tether.control.coverage import RESTRICTED_WORDS, is_covered
from tether.control.families import find_family
from tether.control.promise import ASSUMPTIONS

SAME_TOLERANCE = 1e-9
"""How far two computations of one number may be apart, relatively."""
CURVE_TOLERANCE = 1e-6
"""How far the risk at beta and that of the curve may be apart, relatively; also past alpha."""

CONTEXT_COLUMNS = ("context", "log_safe_all")
"""The columns by which a log has contexts."""


def find_problems(saved: Mapping[str, Any]) -> Iterator[str]:
    """What is impossible in the decoded entries of a calibration, in words; nothing if all fits."""
    try:
        check_entries(saved)
        if saved.get("provenance") is not None:
            check_provenance(saved["provenance"])
        if saved.get("gain") is not None:
            from tether.control.gain_record import check_gain  # only where there is a gain

            check_gain(saved)
    except ValueError as error:  # what the entries say about each other cannot be read
        yield str(error)
        return
    for check in (_beta, _family, _risks, _promises, _asked, _weights, _shown, _origin):
        yield from check(saved)


def _beta(saved: Mapping[str, Any]) -> Iterator[str]:
    allowed = saved["log_beta_by_constraint"]
    if saved["log_beta"] != min(allowed.values()):
        yield (
            f"log_beta is {saved['log_beta']!r}, but the smallest of log_beta_by_constraint is "
            f"{min(allowed.values())!r}"
        )


def _family(saved: Mapping[str, Any]) -> Iterator[str]:
    """The smoothness is that of the family, where it is one of the package."""
    try:
        known = find_family(saved["family"]).smoothness
    except ValueError:  # a user's own
        return
    if saved["smoothness"] != known:
        yield f"smoothness is {saved['smoothness']!r}, but that of {saved['family']!r} is {known!r}"


def _risks(saved: Mapping[str, Any]) -> Iterator[str]:
    """Risks are those of the curve, and at most alpha at beta and at every smaller one."""
    for each in saved["constraints"]:
        name, alpha, risk = each["name"], each["alpha"], saved["risks"][each["name"]]
        limit, in_expectation = alpha * (1 + CURVE_TOLERANCE), saved["confidence"] is None
        if risk > each["bound"] * (1 + CURVE_TOLERANCE):
            yield f"risks[{name!r}] is {risk!r}, above the bound {each['bound']!r}"
        if in_expectation and _exists(saved) and risk > limit:
            yield f"risks[{name!r}] is {risk!r} at beta, above alpha = {alpha!r}"
        curve, allowed = saved["curves"][name], saved["log_beta_by_constraint"][name]
        for log_beta, along in zip(curve["log_beta"], curve["risk"], strict=True):
            if log_beta == saved["log_beta"] and not _same(along, risk, CURVE_TOLERANCE):
                yield f"risks[{name!r}] is {risk!r}, but the curve has {along!r} at beta"
            passing = in_expectation and log_beta <= allowed
            if passing and along > limit:
                yield (
                    f"curves[{name!r}] has the risk {along!r} at log beta = {log_beta!r}, above "
                    f"alpha = {alpha!r}, but log_beta_by_constraint says that all up to "
                    f"{allowed!r} pass"
                )
                break
        if math.isfinite(saved["log_beta"]) and saved["log_beta"] not in curve["log_beta"]:
            yield f"curves[{name!r}] does not have the risk at log_beta = {saved['log_beta']!r}"


def _promises(saved: Mapping[str, Any]) -> Iterator[str]:
    """The terms of each promise follow from alpha, bound and the stability."""
    certain = saved["confidence"] is not None
    if certain and saved["stability"] != 0:
        yield f"stability must be 0 with a confidence, got {saved['stability']!r}"
    for each in saved["constraints"]:
        name, terms = each["name"], saved["promise_terms"][each["name"]]
        for key in ("alpha", "bound"):
            if terms[key] != each[key]:
                yield f"promise_terms[{name!r}] has {key} = {terms[key]!r}, not {each[key]!r}"
        factor = max(each["alpha"], each["bound"] - each["alpha"])
        implied = [0.0] if certain else [factor * saved["stability"]]
        if not certain and not _exists(saved):
            implied.append(math.inf)
        if not any(_same(terms["stability"], value) for value in implied):
            yield (
                f"promise_terms[{name!r}] has stability = {terms['stability']!r}, but alpha, bound "
                f"and stability give {implied[-1]!r}"
            )
        for key, largest in (("safe_excess", math.inf), ("unforeseen", factor)):
            if terms[key] == math.inf or terms[key] > largest or (certain and terms[key] != 0):
                yield f"promise_terms[{name!r}] has {key} = {terms[key]!r}"


def _asked(saved: Mapping[str, Any]) -> Iterator[str]:
    """What was asked for is kept where a beta exists."""
    promised = _totals(saved)
    for each in saved["constraints"]:
        name = each["name"]
        if saved["asked_promise"] is not None:
            asked = saved["asked_promise"][name]
            if asked >= each["bound"]:
                yield f"asked_promise[{name!r}] is {asked!r}, not below {each['bound']!r}"
            if saved.get("nearest") is not None and (
                _exists(saved) or saved["confidence"] is not None
            ):
                yield "nearest is there, although it is for promises that no beta has"
            exact = saved["confidence"] is not None or not _exists(saved)
            if each["alpha"] != asked if exact else promised[name] > asked * (1 + SAME_TOLERANCE):
                yield (
                    f"asked_promise[{name!r}] is {asked!r}, but alpha is {each['alpha']!r} and the "
                    f"promise {promised[name]!r}"
                )
        if saved["upper_bounds"] is not None and _exists(saved):
            certified = saved["upper_bounds"][name]
            if certified > each["alpha"] * (1 + CURVE_TOLERANCE):
                yield (
                    f"upper_bounds[{name!r}] is {certified!r}, above alpha = {each['alpha']!r}, "
                    f"but beta is certified"
                )


def _weights(saved: Mapping[str, Any]) -> Iterator[str]:
    """Limits that any weights keep: n/r ≤ effective rows ≤ n, r the largest relative weight."""
    rows, effective = saved["rows"], saved["effective_sample_size"]
    largest = saved["relative_weights"][-1]
    if effective > rows * (1 + SAME_TOLERANCE):
        yield f"effective_sample_size is {effective!r}, but there are {rows} rows"
    if 0 < largest < 1 - SAME_TOLERANCE or largest > rows * (1 + SAME_TOLERANCE):
        yield f"relative_weights ends with {largest!r}, which no weights of {rows} rows have"
    elif largest and effective * largest < rows * (1 - SAME_TOLERANCE):
        yield (
            f"effective_sample_size is {effective!r}, too small for {rows} rows of which none "
            f"weighs more than {largest!r} times their mean"
        )
    if saved["max_weight"] < largest / (rows + largest) * (1 - SAME_TOLERANCE):
        yield (
            f"max_weight is {saved['max_weight']!r}, but a row of {rows} weighs {largest!r} times "
            f"their mean"
        )


def _shown(saved: Mapping[str, Any]) -> Iterator[str]:
    """Entries for readers of the file follow from the others.

    Calibrations from before there was a provenance had other promises, and stores still hold some.
    """
    if "provenance" not in saved:
        return
    allowed = saved["log_beta_by_constraint"]
    binding = min(saved["constraints"], key=lambda each: allowed[each["name"]])
    promised = _totals(saved)
    asked = saved["asked_promise"] or {each["name"]: each["alpha"] for each in saved["constraints"]}
    useful = (
        _exists(saved)
        and is_covered(saved["coverage_limit"], binding["ratio_error"])
        and not saved["refuted_by"]
        and all(
            is_useful(promised[each["name"]], asked[each["name"]], each["bound"])
            for each in saved["constraints"]
        )
    )
    implied = {
        "beta": math.exp(saved["log_beta"]) if saved["log_beta"] < 709 else None,
        "exists": _exists(saved),
        **{name: binding[name] for name in ("alpha", "bound", "ratio_error")},
        "risk": saved["risks"][binding["name"]],
        "promise": promised[binding["name"]],
        "useful": useful,
    }
    if implied["beta"] is None:  # too large for a float, or nearly
        implied["beta"] = math.inf if saved["log_beta"] > 710 else saved.get("beta")
    for name, value in implied.items():
        if name in saved and not _same(saved[name], value):
            yield f"{name} is {saved[name]!r}, but the other entries give {value!r}"
    stated = saved.get("promises", promised)
    if not isinstance(stated, Mapping) or set(stated) != set(promised):
        yield f"promises must have the entries {sorted(promised)}, got {stated!r}"
    else:
        for name, value in promised.items():
            if not _same(stated[name], value):
                yield f"promises[{name!r}] is {stated[name]!r}, but its terms give {value!r}"
    if saved["approximate"] is not None and saved["approximate"] not in saved["warnings"]:
        yield "warnings does not say what is approximate"
    for name in ("log_warnings", "refuted_by"):
        if not set(saved[name]) <= set(saved["warnings"]):
            yield f"warnings does not say all that {name} says"
    if (saved["outside_share"] > 0) != any(RESTRICTED_WORDS in each for each in saved["warnings"]):
        yield f"outside_share is {saved['outside_share']!r}, and warnings say otherwise"
    if not useful and not saved["warnings"]:
        yield "warnings is empty, although there is no useful promise"


def _origin(saved: Mapping[str, Any]) -> Iterator[str]:
    """The settings that were asked for are those that were used."""
    origin = saved.get("provenance")
    if origin is None:
        return
    for name in ("log", "proposals"):
        columns = origin[name]
        digest = None if columns is None else content_digest(dict(columns))
        if origin[f"{name}_digest"] != digest:
            yield f"provenance.{name}_digest is not that of provenance.{name}"
    if origin["version"] == __version__ and saved.get("assumptions", ASSUMPTIONS) != ASSUMPTIONS:
        yield "assumptions are not those of a calibration"
    names = {each["name"] for each in saved["constraints"]}
    losses = {f"loss[{name}]" for name in names}
    if {column for column in origin["log"] if column.startswith("loss[")} != losses:
        yield f"provenance.log has other losses than {sorted(names)}"
    has_contexts = any(column in origin["log"] for column in CONTEXT_COLUMNS)
    if "log_safe" in origin["log"] and saved["contextual"] != has_contexts:  # else in parts
        yield f"contextual is {saved['contextual']!r}, but provenance.log says otherwise"
    settings = origin["settings"]
    for key in ("alpha", "promise", "bound"):
        if isinstance(settings[key], Mapping) and set(settings[key]) != names:
            yield f"provenance.settings has {key} for other losses than {sorted(names)}"
    for each in saved["constraints"]:
        for key, used in (
            *(() if saved["asked_promise"] else (("alpha", each["alpha"]),)),
            ("promise", (saved["asked_promise"] or {}).get(each["name"])),
            ("bound", each["bound"]),
        ):
            asked = settings[key]
            asked = asked.get(each["name"]) if isinstance(asked, Mapping) else asked
            if asked != used:
                yield f"provenance.settings has {key} = {asked!r}, but {used!r} was used"
        factor = settings["ratio_error"]
        if factor is not None and not (
            _is_number(factor) and factor >= 1 and min(factor, 1e9) <= each["ratio_error"]
        ):
            yield f"provenance.settings has ratio_error = {factor!r}, not {each['ratio_error']!r}"
    if settings["confidence"] != saved["confidence"]:
        yield f"provenance.settings has confidence = {settings['confidence']!r}"
    if saved["asked_promise"] and settings["alpha"] is not None:
        yield f"provenance.settings has alpha = {settings['alpha']!r} as well as a promise"
    budgeted = settings["family"] == "clip" and saved["family"].startswith("budgeted_clip(")
    if settings["family"] != saved["family"] and not budgeted:
        yield f"provenance.settings has family = {settings['family']!r}, not {saved['family']!r}"
    if saved["blend"] not in (0, settings["blend"]):
        yield f"provenance.settings has blend = {settings['blend']!r}, not {saved['blend']!r}"
    asked, used = settings["test_weight"], saved["test_weight"]
    without_draws = asked == "empirical" and origin["proposals"] is None
    by_analytic = used == "analytic" and without_draws
    by_ratio = used == "max_ratio" and (without_draws or asked == "analytic")
    if asked != used and not (by_analytic or by_ratio):
        yield f"provenance.settings has test_weight = {asked!r}, not {used!r}"


def _exists(saved: Mapping[str, Any]) -> bool:
    return bool(saved["log_beta"] > -math.inf)


def _totals(saved: Mapping[str, Any]) -> dict[str, float]:
    """The promise of each constraint: the sum of its terms, or the bound if no beta passes."""
    totals = {}
    for each in saved["constraints"]:
        terms = saved["promise_terms"][each["name"]]
        total = sum(terms[key] for key in ("alpha", "stability", "safe_excess", "unforeseen"))
        totals[each["name"]] = min(each["bound"], total) if _exists(saved) else each["bound"]
    return totals


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _same(first: Any, second: Any, tolerance: float = SAME_TOLERANCE) -> bool:
    """Whether two values are equal, numbers up to rounding."""
    if _is_number(first) and _is_number(second):
        return first == second or math.isclose(first, second, rel_tol=tolerance)
    return type(first) is type(second) and bool(first == second)
