"""A calibration against its log: is it the same log, and does it give the same result."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from tether._core import records
from tether._core.verification import Finding
from tether._version import __version__
from tether.control.calibrate import calibrate
from tether.control.calibration import Calibration
from tether.control.log import Log
from tether.control.proposals import Proposals

RESULT_TOLERANCE = 1e-6
"""How far two computations on different machines may be apart, relatively."""


def check_log(
    found: Calibration, log: Log | None, proposals: Proposals | None
) -> Iterator[Finding]:
    """Where a calibration comes from and, with its log, whether the log gives this result."""
    origin = found.provenance
    if origin is None:
        yield Finding("origin", False, "the calibration does not say which log it comes from")
        return
    said = f"version {origin.version}, {found.rows} rows, log {origin.log_digest}"
    if log is None:
        yield Finding("log", None, f"{said}: give the log to compare")
        return
    if differing := origin.differences(log, proposals):
        yield Finding("log", False, f"another log: these differ: {', '.join(differing)}")
        return
    yield Finding("log", True, said)
    yield _recomputed(found, log, proposals, dict(origin.settings))


def _recomputed(
    found: Calibration, log: Log, proposals: Proposals | None, settings: dict[str, Any]
) -> Finding:
    version = "" if found.provenance is None else found.provenance.version
    other = "" if version == __version__ else f" (saved by {version}, computed by {__version__})"
    try:
        again = calibrate(log, proposals, **settings)
    except (ValueError, TypeError) as error:
        if str(error).startswith("family must be"):
            return Finding("result", None, f"{found.family!r} is not a family of the package")
        return Finding("result", False, f"its settings do not calibrate: {error}{other}")
    stored, own = (records.decode(records.encode(each.to_dict())) for each in (found, again))
    not_compared = {"provenance"}
    if set(found.refuted_by) & set(found.log_warnings):  # which are not found again, as below
        not_compared |= {"warnings", "log_warnings", "refuted_by", "useful"}
    elif _same_warnings(stored, own):
        not_compared |= {"warnings", "log_warnings"}
    if own["policies"] is None:  # a table of the rows does not tell which policies scored them
        not_compared |= {"policies", "pick_quantiles"}
    if len({_has_rewards(each) for each in (stored, own)}) > 1:  # the log was read without them
        not_compared.add("gain")
    differing = [
        name for name in stored if name not in not_compared and not _close(stored[name], own[name])
    ]
    if differing:
        named = ", ".join(differing)
        return Finding("result", False, f"calibrating again gives another {named}{other}")
    return Finding("result", True, f"calibrating again gives the same{other}")


def _has_rewards(entries: Mapping[str, Any]) -> bool:
    return entries["gain"] is not None and entries["gain"]["reward"] is not None


def _same_warnings(stored: Mapping[str, Any], own: Mapping[str, Any]) -> bool:
    """Whether all warnings are those of the log; the log that was calibrated on may have had more.

    What `tether.make_log` found is not found again in a table of its rows.
    """
    of_result = [set(each["warnings"]) - set(each["log_warnings"]) for each in (stored, own)]
    more = set(own["log_warnings"]) <= set(stored["log_warnings"])
    return of_result[0] == of_result[1] and more


def _close(first: Any, second: Any) -> bool:
    """Whether values are the same up to rounding, also inside lists and mappings."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return first.keys() == second.keys() and all(_close(first[k], second[k]) for k in first)
    if isinstance(first, (list, tuple)) and isinstance(second, (list, tuple)):
        return len(first) == len(second) and all(map(_close, first, second))
    if isinstance(first, float) and isinstance(second, (int, float)):
        both_nan = math.isnan(first) and math.isnan(second)
        return both_nan or math.isclose(first, second, rel_tol=RESULT_TOLERANCE, abs_tol=1e-12)
    return bool(first == second)
