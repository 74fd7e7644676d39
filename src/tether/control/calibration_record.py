"""Calibrations as plain values: what is saved as JSON, and how it is read again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._core import records
from tether._core.validate import frozen
from tether.control.constraint import Constraint
from tether.control.diagnostics import Curve
from tether.control.promise import ASSUMPTIONS

if TYPE_CHECKING:
    from tether.control.calibration import Calibration

STATED = ("log_beta", "log_beta_by_constraint", "family", "test_weight", "rows", "contextual")
"""Entries that the calibration is made of, beside its constraints."""
DERIVED = (
    "risks",
    "stability",
    "smoothness",
    "effective_sample_size",
    "max_weight",
    "relative_weights",
    "acceptance",
    "rows_beyond_draws",
    "warnings",
)
"""Entries that need the log to be computed, and are kept."""
SHOWN = ("beta", "exists", "alpha", "bound", "risk", "promise", "promises")
"""Entries that follow from the others, for readers of the file."""


def to_content(found: Calibration) -> dict[str, Any]:
    """Everything about a calibration, diagnostics included, as plain values."""
    content = {name: getattr(found, name) for name in (*STATED, *DERIVED, *SHOWN)}
    content["constraints"] = [asdict(constraint) for constraint in found.constraints]
    content["log_beta_by_constraint"] = dict(found.log_beta_by_constraint)
    content["assumptions"] = ASSUMPTIONS
    curves = {each.name: found.curve(each.name) for each in found.constraints}
    content["curves"] = {
        name: {"log_beta": curve.log_beta.tolist(), "risk": curve.risk.tolist()}
        for name, curve in curves.items()
    }
    return content


def from_content(content: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields of a saved calibration, and what it had computed from its log."""
    if not isinstance(content, Mapping):
        raise TypeError(f"content must be a mapping, got {type(content).__name__}")
    needed = (*STATED, *DERIVED, "constraints", "curves")
    lacking = [name for name in needed if name not in content]
    if lacking:
        raise ValueError(f"this is not a complete calibration: it lacks {', '.join(lacking)}")
    saved = records.decode(dict(content))
    stated = {name: saved[name] for name in STATED}
    stated["constraints"] = tuple(Constraint(**each) for each in saved["constraints"])
    derived = {name: saved[name] for name in DERIVED}
    for name in ("warnings", "relative_weights"):
        derived[name] = tuple(saved[name])
    derived["_curves"] = {
        name: Curve(frozen(np.array(curve["log_beta"])), frozen(np.array(curve["risk"])))
        for name, curve in saved["curves"].items()
    }
    return stated, derived
