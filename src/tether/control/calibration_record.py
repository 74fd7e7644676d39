"""A calibration as plain values: what is saved, and what is read back without the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tether._core import records
from tether._core.validate import frozen
from tether.control import calibration_checks
from tether.control.constraint import Constraint
from tether.control.coverage import Coverage
from tether.control.curve import Curve
from tether.control.promise import ASSUMPTIONS, NearestPromise, PromiseTerms
from tether.control.provenance import read_provenance

if TYPE_CHECKING:
    from tether.control.calibration import Calibration

    Loaded = TypeVar("Loaded", bound=Calibration)

STATED = (
    *("log_beta", "log_beta_by_constraint", "family", "test_weight", "rows", "contextual"),
    *("blend", "asked_promise", "confidence", "upper_bounds", "actions", "approximate", "policies"),
)
"""Saved entries that a calibration is made from."""
DERIVED = (
    *("risks", "stability", "smoothness", "robustness", "effective_sample_size", "max_weight"),
    *("relative_weights", "acceptance", "rows_beyond_draws", "warnings", "outside_share"),
    *("log_warnings", "refuted_by", "pick_quantiles"),
)
"""Saved entries that need the log to be computed."""
COVERAGE = ("coverage", "coverage_limit")
"""How much of the tethered policy is in the log, and what this is at most."""
SHOWN = ("beta", "exists", "alpha", "bound", "ratio_error", "risk", "promise", "promises", "useful")
"""Saved entries that follow from the others, for readers of the file."""


def to_dict(found: Calibration) -> dict[str, Any]:
    """Everything, diagnostics included."""
    content = {name: getattr(found, name) for name in (*STATED, *DERIVED, *COVERAGE, *SHOWN)}
    for name in ("log_beta_by_constraint", "asked_promise", "upper_bounds", "policies"):
        if content[name] is not None:
            content[name] = dict(content[name])
    content["constraints"] = [_plain(each) for each in found.constraints]
    content["promise_terms"] = {
        name: asdict(promise) for name, promise in found.promise_terms.items()
    }
    content["nearest"] = None if found.nearest is None else asdict(found.nearest)
    content["assumptions"] = ASSUMPTIONS
    content["provenance"] = None if found.provenance is None else found.provenance.to_dict()
    gain = found.saved_gain
    content["gain"] = None if gain is None else gain.to_dict()
    curves = {each.name: found.curve(each.name) for each in found.constraints}
    content["curves"] = {
        name: {"log_beta": curve.log_beta.tolist(), "risk": curve.risk.tolist()}
        for name, curve in curves.items()
    }
    return content


def from_dict(cls: type[Loaded], content: Mapping[str, Any]) -> Loaded:
    """A calibration without its log, from what `to_dict` returned."""
    for name in ("promise_terms", "curves"):
        entries = content.get(name, {}) if isinstance(content, Mapping) else {}
        if not isinstance(entries, Mapping) or not all(
            isinstance(entry, Mapping) for entry in entries.values()
        ):
            raise ValueError(f"content: {name} must be a mapping of mappings, got {entries!r:.80}")
    if not isinstance(content, Mapping):
        raise TypeError(f"content must be a mapping, got {type(content).__name__}")
    if lacking := lacking_entries(content):
        raise ValueError(f"content is not a complete calibration: it lacks {', '.join(lacking)}")
    saved = records.decode(dict(content))
    problem = next(calibration_checks.find_problems(saved), None)
    if problem is not None:
        raise ValueError(problem)
    return build(cls, saved)


def from_file(cls: type[Loaded], saved: dict[str, Any]) -> Loaded:
    """The same from a file, which has entries that older stores lack."""
    loaded = from_dict(cls, saved)
    for name in (*SHOWN, "assumptions", "provenance", "gain"):
        if name not in saved:
            raise ValueError(f"content is not a complete calibration: it lacks {name}")
    return loaded


def lacking_entries(content: Mapping[str, Any]) -> list[str]:
    """The names of entries without which there is no calibration."""
    needed = (*STATED, *DERIVED, *COVERAGE, "constraints", "promise_terms", "curves")
    return [name for name in needed if name not in content]


def build(cls: type[Loaded], saved: Mapping[str, Any]) -> Loaded:
    """A calibration from decoded entries that have been checked."""
    stated = {name: saved[name] for name in STATED}
    stated["constraints"] = tuple(Constraint(**each) for each in saved["constraints"])
    if (near := saved.get("nearest")) is not None:
        terms = {name: PromiseTerms(**each) for name, each in near["terms"].items()}
        stated["nearest"] = NearestPromise(near["log_beta"], terms)
    loaded = cls(**stated)
    kept = {name: saved[name] for name in DERIVED}
    kept["promise_terms"] = {
        name: PromiseTerms(**terms) for name, terms in saved["promise_terms"].items()
    }
    kept["_curves"] = {
        name: Curve(frozen(np.array(curve["log_beta"])), frozen(np.array(curve["risk"])))
        for name, curve in saved["curves"].items()
    }
    known = saved["coverage"] is not None
    kept["_coverage"] = Coverage(*(saved[name] for name in COVERAGE)) if known else None
    kept["provenance"] = read_provenance(saved.get("provenance"))
    if saved.get("gain") is not None:
        from tether.control.gain_record import read_gain  # only where there is a gain

        kept["saved_gain"] = read_gain(saved["gain"])
    loaded.__dict__.update(kept)
    for name in ("warnings", "log_warnings", "refuted_by", "relative_weights", "pick_quantiles"):
        if saved[name] is not None:
            loaded.__dict__[name] = tuple(saved[name])
    return loaded


def _plain(constraint: Constraint) -> dict[str, Any]:
    """A constraint without what only a computation needs."""
    return {name: value for name, value in asdict(constraint).items() if name != "split"}
