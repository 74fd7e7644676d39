"""What the entries of a saved selection say about each other, computed again.

The promise is the sum of its terms where there is one, the third term follows from the safest
threshold's mean loss, the risk at the threshold is that of the curve and at most alpha, and what
several losses or groups share is the same in each.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._core.safe_excess import SafeMean
from tether.risk.claim_losses import FALSE_AMONG_SHOWN
from tether.risk.kept_share import together

if TYPE_CHECKING:
    from tether.risk.selection import Selection

METHOD_NAMES = ("gCRC", "CRC", "monotonized CRC", "LTT")
FIGURES_OF_A_LOSS = ("loss", "risk", "alpha", "bound", "promise", "target")
"""What a selection of several losses has from the binding one."""
SUM_TOLERANCE = 1e-9
"""How far two computations of one number may be apart, relatively."""


def find_problems(found: Selection, shown: dict[str, Any]) -> Iterator[str]:
    """What is impossible in a selection, in words; `shown` are entries for readers of a file."""
    problems = list(_entries(found))
    if not problems:
        for check in (_promise, _risk, _kept, _parts):
            problems += check(found)
        problems += _shown(found, shown)
    yield from problems


def _entries(found: Selection) -> Iterator[str]:
    """Each entry by itself."""
    for name in ("threshold", "risk", "alpha", "bound", "promise", "effective_sample_size"):
        none_selected = name == "risk" and not found.exists and found.risk != found.risk
        if not none_selected and not _is_number(getattr(found, name)):
            yield f"{name} must be a number, got {getattr(found, name)!r}"
            return
    for name in ("stability_term", "existence_term", "safe_loss", "safe_error"):
        value = getattr(found, name)
        missing = name.startswith("safe") and isinstance(value, float) and math.isnan(value)
        if not missing and not (_is_number(value) and value >= 0):
            yield f"{name} must be a number of at least 0, got {value!r}"
            return
    for name in ("exists", "monotone"):
        if not isinstance(getattr(found, name), bool):
            yield f"{name} must be true or false, got {getattr(found, name)!r}"
    for name, minimum in (("n_items", 1), ("n_candidates", 1), ("n_nonmonotone", 0)):
        value = getattr(found, name)
        if not _is_count(value, minimum):
            yield f"{name} must be an integer of at least {minimum}, got {value!r}"
            return
    for name in ("warnings", "pooled_groups"):
        if not all(isinstance(each, str) for each in getattr(found, name)):
            yield f"{name} must be texts, got {getattr(found, name)!r}"
    yield from _details(found)
    for name in ("method", "statement", "loss"):
        if not isinstance(getattr(found, name), str):
            yield f"{name} must be text, got {getattr(found, name)!r}"
    if found.method not in METHOD_NAMES:
        yield f"method must be one of {', '.join(METHOD_NAMES)}, got {found.method!r}"
    if found.safer not in ("larger", "smaller"):
        yield f"safer must be 'larger' or 'smaller', got {found.safer!r}"
    if not 0 < found.bound < math.inf:
        yield f"bound must be above 0 and finite, got {found.bound!r}"
    if not 0 < found.alpha < found.bound:
        yield f"alpha must be above 0 and below {found.bound!r}, got {found.alpha!r}"
    if found.target is not None and not (
        _is_number(found.target) and 0 < found.target < found.bound
    ):
        yield f"target must be above 0 and below {found.bound!r}, got {found.target!r}"
    if not 0 <= found.effective_sample_size <= found.n_items * (1 + SUM_TOLERANCE):
        yield (
            f"effective_sample_size must be from 0 to {found.n_items}, got "
            f"{found.effective_sample_size!r}"
        )
    if not 0 <= found.promise <= found.bound:
        yield f"promise must be from 0 to {found.bound!r}, got {found.promise!r}"
    if found.monotone and found.n_nonmonotone:
        yield f"monotone is true, but n_nonmonotone is {found.n_nonmonotone!r}"
    thresholds, risks = found.curve_thresholds, found.curve_risks
    if thresholds.ndim != 1 or thresholds.shape != risks.shape:
        yield f"curve_thresholds and curve_risks have shapes {thresholds.shape}, {risks.shape}"
    elif not (thresholds[1:] > thresholds[:-1]).all():
        yield "curve_thresholds must increase"
    elif (risks < 0).any():
        yield "curve_risks must be at least 0"


def _details(found: Selection) -> Iterator[str]:
    """The stability, and the numbers that define the loss and the method."""
    if (detail := found.stability_detail) is not None:
        given = (detail.epsilon, detail.largest, detail.gap, detail.lipschitz or 0.0)
        if not all(_is_number(each) and each >= 0 for each in given):
            yield f"stability_detail must have numbers of at least 0, got {detail!r}"
    settings = found.settings
    if not isinstance(settings, dict):
        yield f"settings must be a mapping, got {settings!r}"
    elif found.loss == FALSE_AMONG_SHOWN and found.kept is not None:
        share, most = settings.get("share"), settings.get("most_claims")
        if not _is_number(share) or share != found.target or not _is_count(most, 1):
            yield (
                f"settings must have the share {found.target!r} that is promised, and most_claims, "
                f"an integer of at least 1, got {settings!r}"
            )


def _promise(found: Selection) -> Iterator[str]:
    if found.groups or found.by_loss:
        return
    total = min(found.bound, found.alpha + found.stability_term + found.existence_term)
    possible = [found.bound] if not found.exists else [total, found.bound]
    if found.method == "LTT" and found.exists:
        possible = [found.alpha]
    if not any(_same(found.promise, value) for value in possible):
        yield f"promise is {found.promise!r}, but its terms give {possible[0]!r}"
    existence = 0.0
    if not math.isnan(found.safe_loss):
        existence = SafeMean(found.safe_loss, found.safe_error).excess_where_passing(found.alpha)
    if not _same(found.existence_term, existence):
        yield f"existence_term is {found.existence_term!r}, but safe_loss gives {existence!r}"
    detail = found.stability_detail
    if (
        found.exists
        and detail is not None
        and not _same(found.stability_term, 0.0)
        and not _same(found.stability_term, detail.term)
    ):
        yield f"stability_term is {found.stability_term!r}, but stability_detail gives otherwise"
    if found.exists and found.target is not None and _above(found.promise, found.target):
        yield f"promise is {found.promise!r}, above the target {found.target!r}"
    what, bounded, level = found.statement.partition(" ≤ ")
    if what.startswith("expected ") and bounded and found.promise < found.bound:
        if not level.startswith(f"{found.promise:g}"):
            yield f"statement is {found.statement!r}, but promise is {found.promise!r}"
    elif found.exists and found.promise < found.bound and found.method != "LTT":
        yield f"statement is {found.statement!r}, but promise is {found.promise!r}"


def _risk(found: Selection) -> Iterator[str]:
    if found.groups:
        return
    if found.exists and _above(found.risk, found.alpha):
        yield f"risk is {found.risk!r} at the threshold, above alpha = {found.alpha!r}"
    at = np.flatnonzero(found.curve_thresholds == found.threshold)
    if not found.exists or found.by_loss:
        return
    if not len(at):
        yield f"threshold is {found.threshold!r}, which is not on the curve"
    elif not _same(float(found.curve_risks[at[0]]), found.risk):
        yield f"risk is {found.risk!r}, but the curve has {float(found.curve_risks[at[0]])!r}"
    elif found.method == "gCRC":
        safer = slice(at[0], None) if found.safer == "larger" else slice(None, at[0] + 1)
        if _above(float(np.nanmax(found.curve_risks[safer])), found.alpha):
            yield f"curve_risks exceed alpha = {found.alpha!r} at a safer threshold"


def _kept(found: Selection) -> Iterator[str]:
    """What is kept, against the curve and the groups: counts of the same data."""
    kept, shares = found.kept, found.curve_kept
    if kept is None:
        if len(shares):
            yield "curve_kept is given, but kept is not"
        return
    for name in ("total", "kept", "items", "emptied", "squared_sizes"):
        value = getattr(kept, name)
        if not _is_count(value, 0):
            yield f"kept: {name} must be an integer of at least 0, got {value!r}"
            return
    if kept.unit not in ("claims", "items"):
        yield f"kept: unit must be 'claims' or 'items', got {kept.unit!r}"
    ends = [end for end in (kept.lowest, kept.highest) if end is not None]
    finite = all(_is_number(end) and math.isfinite(end) for end in ends)
    if len(ends) == 1 or not finite or ends != sorted(ends):
        yield f"kept: lowest and highest must be finite and in order, got {kept!r}"
    if kept.kept > kept.total or kept.items > kept.total or kept.emptied > kept.items:
        yield f"kept is {kept!r}, which has parts that are larger than the whole"
    elif kept.items - kept.emptied > kept.kept:
        yield f"kept is {kept!r}: every item that is not emptied keeps something"
    elif not kept.total**2 <= kept.squared_sizes * kept.items <= kept.total**2 * kept.items:
        yield f"kept is {kept!r}: no sizes of so many items have squares with this sum"
    if found.groups:
        whole = together(part.kept_when_served for part in found.groups.values())
        if whole is not None and whole != kept:
            yield f"kept is {kept!r}, but the groups give {whole!r}"
        return
    if len(shares) != (len(found.curve_thresholds) if kept.total else 0):
        yield f"curve_kept has {len(shares)} entries, not one for each of curve_thresholds"
    elif not ((shares >= 0) & (shares <= 1)).all() or (np.diff(shares) > 0).any():
        yield "curve_kept must be shares that fall as the threshold rises"
    else:
        at = np.flatnonzero(found.curve_thresholds == found.threshold)
        if len(at) and kept.total and not _same(float(shares[at[0]]) * kept.total, kept.kept):
            yield f"kept is {kept!r}, but curve_kept has {float(shares[at[0]])!r}"


def _parts(found: Selection) -> Iterator[str]:
    """Several losses share a threshold; over groups the least favourable figures are stated."""
    for part in found.by_loss:
        if part.threshold != found.threshold or part.exists != found.exists:
            yield f"threshold of the loss {part.loss!r} is not that of all losses"
    parts = list(found.groups.values())
    if found.by_loss and not parts and not any(_has_figures(found, p) for p in found.by_loss):
        yield f"{', '.join(FIGURES_OF_A_LOSS)} are those of none of the losses"
    if not parts:
        return
    safest = max if found.safer == "larger" else min
    for name, value in (
        ("threshold", safest(part.threshold for part in parts)),
        ("risk", max(part.risk for part in parts)),
        ("promise", max(part.promise for part in parts)),
        ("n_items", sum(part.n_items for part in parts)),
        ("bound", max(part.bound for part in parts)),
    ):
        if not _same(getattr(found, name), value):
            yield f"{name} is {getattr(found, name)!r}, but the groups give {value!r}"
    if found.exists != all(part.exists for part in parts):
        yield f"exists is {found.exists!r}, but the groups say otherwise"


def _has_figures(found: Selection, part: Selection) -> bool:
    """Whether the figures of several losses are those of this one."""
    pairs = [(getattr(found, name), getattr(part, name)) for name in FIGURES_OF_A_LOSS]
    return all(_same(own, its) or (own != own and its != its) for own, its in pairs)


def _shown(found: Selection, shown: dict[str, Any]) -> Iterator[str]:
    for name, stated in shown.items():
        own = getattr(found, name)
        if not _same(stated, own) and not (own != own and stated != stated):
            yield f"{name} is {stated!r}, but the other entries give {own!r}"


def _above(value: float, limit: float) -> bool:
    return bool(value > limit * (1 + SUM_TOLERANCE))


def _is_number(value: Any) -> bool:
    """A number that is not NaN; no integer that a float cannot hold."""
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) <= sys.float_info.max
    return isinstance(value, float) and value == value


def _is_count(value: Any, minimum: int) -> bool:
    """An integer of at least the minimum, which a float can hold."""
    if isinstance(value, bool) or not isinstance(value, int):
        return False
    return minimum <= value <= sys.float_info.max


def _same(first: Any, second: Any) -> bool:
    if _is_number(first) and _is_number(second):
        return first == second or math.isclose(
            first, second, rel_tol=SUM_TOLERANCE, abs_tol=SUM_TOLERANCE
        )
    return type(first) is type(second) and bool(first == second)
