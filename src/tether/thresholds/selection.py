"""The result of a method: the threshold, what is promised for it, and what is not."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tether._core import records
from tether._core.arrays import Floats, few, within_limit
from tether._core.promises import is_useful
from tether._core.words import Columns, Described, Description, counted
from tether.thresholds.losses import FalseAmongShown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEAST_KEPT = 1e-3
"""A threshold that keeps less than this share of what there is, is of no use."""


@dataclass(frozen=True)
class KeptShare:
    """What the threshold keeps of the calibration data: `kept` of a `total` of claims or items.

    `items` have at least one claim, and nothing is left of `emptied` of them; `squared_sizes` is
    the sum of the squares of their numbers of claims; scores are from `lowest` to `highest`.
    """

    unit: str
    total: int
    kept: int
    items: int
    emptied: int
    squared_sizes: int
    lowest: float = math.nan
    highest: float = math.nan

    @property
    def share(self) -> float:
        """The share that is kept; NaN if there was nothing to keep."""
        return self.kept / self.total if self.total else math.nan

    def __str__(self) -> str:
        text = f"{self.kept:,} of {self.total:,} calibration {self.unit}"
        text += f" ({100 * self.share:.3g} %)" if self.total else ""
        if self.unit == "claims":
            text += f"; nothing is left of {self.emptied:,} of {counted(self.items, 'item')}"
        return text


@dataclass(frozen=True, eq=False)
class ThresholdChain:
    """The soft chain behind `promise=`: which thresholds are served, and how often.

    `level` is what the safest threshold may cost, and `stake` that of the bets. Of `thresholds`,
    safest first, the last is served whose share is at least `uniform`, the recorded draw in (0, 1],
    or with `spread` a draw for each item.
    """

    level: float
    stake: float
    uniform: float
    spread: bool
    thresholds: Floats
    shares: Floats

    def draw(self, uniforms: Floats) -> Floats:
        """The thresholds that uniform numbers in (0, 1] serve."""
        count = np.searchsorted(-self.shares, -uniforms, side="right")
        return np.asarray(self.thresholds[np.maximum(count - 1, 0)])


@dataclass(frozen=True, eq=False)
class Selection(records.Saved, Described):
    """A threshold and what is promised for it: keep what scores at least `threshold`.

    Returned by `gcrc`, `crc`, `monotonized_crc` and `ltt`. With several losses, `alpha`, `bound`,
    `risk` and `promise` are those of the binding loss, whose risk is largest relative to its alpha.

    Parameters
    ----------
    method, rule : str
        "gCRC", "soft chain" (`gcrc` with `promise=`), "CRC", "monotonized CRC" or "LTT", and what
        was asked for: "alpha", "promise" or "confidence".
    threshold, exists : float, bool
        The chosen threshold, and whether any passes. If not, nothing is promised, and it is the
        safest: of those passed by the user, or ±inf where every score is a candidate.
    risk : float
        The mean loss at the threshold; for "alpha" with one more item at the bound, as compared.
    alpha, bound : float
        The number that was asked for (alpha, or the promise), and the largest possible loss.
    promise, statement : float, str
        The stated bound on the expected loss, with all its terms (`bound` where nothing is
        promised), and the same in words, with its condition and assumptions.
    loss, safer : str
        The name of the loss, and which thresholds are safer: "larger" or "smaller" ones.
    n_items, n_candidates, effective_sample_size : int, int, float
        The items, the candidate thresholds, and how many equally weighted items the weighted ones
        are worth; those of groups are added up.
    monotone, n_nonmonotone : bool, int
        Whether no item's loss falls as the threshold gets bolder, and none can (the share of false
        claims of an item with several claims can); and how many items have one that does.
    stability_term, existence_term : float
        What is added to alpha for the stability of the threshold, and for data on which nothing
        passes.
    safe_loss, safe_error : float
        The mean loss of the safest threshold and its standard error; NaN where it is known to be 0
        or the promise does not depend on it.
    confidence, test : float, str, optional
        The probability with which the promise of LTT holds, and its p-values.
    shown : FalseAmongShown, optional
        The loss, if it is the one about all claims that are shown.
    chain : ThresholdChain, optional
        What the soft chain serves.
    kept : KeptShare, optional
        What the threshold keeps of the calibration data; None for a loss matrix.
    curve_thresholds, curve_risks, curve_kept : numpy.ndarray
        The risk curve, and the share that each of its thresholds keeps, if that is known.
    by_loss, groups : tuple of Selection, dict of str to Selection
        One selection per loss, or per group, where there are several.
    warnings : tuple of str
        What changes a decision.

    Examples
    --------
    >>> import numpy as np, tether
    >>> found = tether.thresholds.crc(np.tile([0.3, 0.1, 0.0], (99, 1)), alpha=0.2)
    >>> found.threshold, round(found.risk, 3), round(found.promise, 3)
    (1.0, 0.109, 0.2)
    """

    method: str
    rule: str
    threshold: float
    exists: bool
    risk: float
    alpha: float
    bound: float
    promise: float
    statement: str
    loss: str
    safer: str
    n_items: int
    n_candidates: int
    effective_sample_size: float
    monotone: bool
    n_nonmonotone: int
    stability_term: float = 0.0
    existence_term: float = 0.0
    safe_loss: float = math.nan
    safe_error: float = math.nan
    confidence: float | None = None
    test: str | None = None
    shown: FalseAmongShown | None = None
    chain: ThresholdChain | None = None
    kept: KeptShare | None = None
    curve_thresholds: Floats = field(default_factory=lambda: np.empty(0), repr=False)
    curve_risks: Floats = field(default_factory=lambda: np.empty(0), repr=False)
    curve_kept: Floats = field(default_factory=lambda: np.empty(0), repr=False)
    by_loss: tuple[Selection, ...] = ()
    groups: dict[str, Selection] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def useful(self) -> bool:
        """Whether the promise says something, of each loss and group where there are several.

        A threshold passes and keeps more than next to nothing, and the stated bound is at most
        twice what is tolerated and clearly below the bound of the loss. For `FalseAmongShown` it
        is at most the share; for the soft chain the safest threshold meets its condition.
        """
        if parts := [*self.by_loss, *self.groups.values()]:
            return all(part.useful for part in parts)
        conditional = self.chain is not None and self.safe_loss > self.chain.level
        if not self.exists or self.keeps_nothing or conditional:
            return False
        if self.shown is not None:
            return bool(within_limit(self.promise, self.shown.share))
        return is_useful(self.promise, self.alpha, self.bound)

    @property
    def keeps_nothing(self) -> bool:
        """Whether the threshold keeps next to nothing of the calibration data, if this is known."""
        return self.kept is not None and self.kept.kept < LEAST_KEPT * self.kept.total

    @property
    def refused_groups(self) -> tuple[str, ...]:
        """The groups without a useful promise."""
        return tuple(name for name, part in self.groups.items() if not part.useful)

    @property
    def serves(self) -> bool:
        """Whether there is anything to filter by: a useful promise, or one in some group."""
        return any(part.useful for part in self.groups.values() or (self,))

    def for_group(self, group: str | int) -> Selection:
        """Return the selection of one group."""
        if str(group) not in self.groups:
            known = known_groups(self)
            raise ValueError(f"groups: {str(group)!r} was not calibrated; known: {known}")
        return self.groups[str(group)]

    def to_frame(self) -> Columns:
        """Return the risk curve as a dictionary of arrays, which data-frame libraries accept.

        They are `threshold`, `risk` and `kept`, the share of the calibration data that is kept (NaN
        where it is not known); with several losses or groups, `loss` or `group` first.
        """
        if not (parts := _parts(self)):
            kept = self.curve_kept
            kept = kept if len(kept) else np.full(len(self.curve_risks), np.nan)
            return Columns(threshold=self.curve_thresholds, risk=self.curve_risks, kept=kept)
        tables = [part.to_frame() for part in parts.values()]
        names = np.repeat(np.array(list(parts), dtype=np.str_), [each.row_count for each in tables])
        stacked = {key: np.concatenate([table[key] for table in tables]) for key in tables[0]}
        return Columns({"group" if self.groups else "loss": names} | stacked)

    def plot(self) -> Figure:
        """Draw the risk along the thresholds, and what is kept.

        Several losses or groups are drawn as one line each. Needs the extra `plot`.
        """
        from tether.view.figures import plot_selection

        return plot_selection(self)

    def _describe(self) -> Description:
        facts = [("promise", self.statement)]
        if self.kept is not None:
            facts.append(("kept", str(self.kept)))
        if (shown := _false_among_shown(self)) is not None:
            facts.append(("shown", shown))
        if not self.by_loss:
            facts.append(("loss", _loss(self)))
        if not self.groups:
            facts.append(("items", _calibrated(self)))
        if self.serves and (refused := self.refused_groups):
            kept = "nothing" if self.safer == "larger" else "everything"
            text = f"{few(np.array(refused))}: no useful promise, so {kept} of theirs is kept"
            facts.append(("refused", text))
        tone = "good" if self.useful else "caution" if self.exists else "stop"
        table = _parts_table(self)
        return Description(_headline(self), tone, tuple(facts), table=table, warnings=self.warnings)


def _parts(found: Selection) -> dict[str, Selection]:
    """The selections of the groups, or of the losses, where there are several."""
    return found.groups or {part.loss: part for part in found.by_loss}


def known_groups(found: Selection) -> str:
    """The first groups of a selection, in words."""
    return few(np.array(list(found.groups))) or "none, one threshold for all claims"


def asked(found: Selection) -> str:
    """What was asked for, in words."""
    return f"{'a promise of' if found.rule == 'promise' else 'alpha'} {found.alpha:g}"


def _headline(found: Selection) -> str:
    verdict = f"keep what scores at least {found.threshold:.6g}"
    if found.groups:
        useful, count = sum(p.useful for p in found.groups.values()), len(found.groups)
        verdict = f"one threshold per group, useful in {useful:,} of {counted(count, 'group')}"
    elif not found.exists:
        verdict = f"no threshold passes at {asked(found)}"
    elif np.isinf(found.threshold):
        verdict = "keeps nothing" if found.threshold > 0 else "keeps everything"
    return f"{found.method}: {verdict}"


def _loss(found: Selection) -> str:
    text = f"{found.loss}, from 0 to {found.bound:g}"
    if found.shown is not None:
        share, most = found.shown.share, found.shown.most_claims
        text = f"{found.loss}: {share:g} + (false − {share:g} · shown) / {most} for an item"
    return text if found.monotone else f"{text}; it can fall as the threshold gets bolder"


def _calibrated(found: Selection) -> str:
    text = f"{found.n_items:,}, with {counted(found.n_candidates, 'candidate threshold')}"
    if found.effective_sample_size < found.n_items:
        text += f", worth {found.effective_sample_size:,.1f} equally weighted ones"
    worst = ", one more item at the worst included" if found.rule == "alpha" else ""
    where = "this threshold" if found.exists else "the safest threshold"
    text += f"; mean loss at {where} {found.risk:.4g}{worst}"
    return text if found.test is None else f"{text}; {found.test}"


def _false_among_shown(found: Selection) -> str | None:
    """What is false among what is shown, which the mean loss over all items does not tell."""
    kept, weighted = found.kept, found.effective_sample_size < found.n_items
    if kept is None or not kept.kept or not found.useful or weighted or found.by_loss:
        return None
    losses = found.risk * found.n_items
    if found.rule == "alpha":  # one more item, at the bound, is in the risk
        losses = max(found.risk * (found.n_items + 1) - found.bound, 0.0)
    if found.shown is not None:
        share, most = found.shown.share, found.shown.most_claims
        false = round(most * (losses - found.n_items * share) + share * kept.kept)
        return f"{false:,} of {counted(kept.kept, 'claim')} are false ({false / kept.kept:.1%})"
    shown = kept.items - kept.emptied
    if found.loss != "fdr" or not kept.emptied or found.method == "monotonized CRC":
        return None
    return (
        f"among the {shown:,} items that show something the mean share of false claims is "
        f"{losses / shown:.3g}; the other {kept.emptied:,} count as 0"
    )


def _parts_table(found: Selection) -> Columns | None:
    """One row per group, or per loss, where there are several."""
    if not (parts := _parts(found)):
        return None
    table = Columns({"group" if found.groups else "loss": np.array(list(parts), dtype=np.str_)})
    for name in ("threshold", "n_items", "risk", "alpha", "promise", "useful"):
        table[name.removeprefix("n_")] = np.array([getattr(p, name) for p in parts.values()])
    known = [math.nan if part.kept is None else part.kept.share for part in parts.values()]
    return Columns(table | {"kept": np.array(known)})
