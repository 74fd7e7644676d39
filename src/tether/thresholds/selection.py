"""The result of a method: the threshold, what is promised for it, and what is not."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tether._core import records
from tether._core.columns import Columns
from tether._core.counted import counted
from tether._core.description import Described, Description
from tether._core.ties import within_limit
from tether._core.types import Floats
from tether._core.useful_promise import is_useful
from tether.thresholds.losses import FALSE_AMONG_SHOWN, LOSS_WORDS, FalseAmongShown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POOL_NAME = "(pooled)"
"""The name of the pool of small groups."""
LEAST_KEPT = 1e-3
"""A threshold that keeps less than this share of what there is, is of no use."""
MAX_LISTED_GROUPS = 12


@dataclass(frozen=True)
class Stability:
    """How much depends on a single item: how far the threshold moves, how much the loss rises.

    Parameters
    ----------
    epsilon : float
        The average over the items, the test item included, of the largest move of the threshold
        when that item is replaced by one that costs 0, or the bound, at every threshold. NaN with
        several losses.
    largest : float
        The largest of these moves.
    gap : float
        The average over the items of how much an item's own loss is larger at the threshold that
        the other items find than at the one that all find together; at least 0.
    lipschitz : float or None
        K, where the user passed it: the losses are K-Lipschitz in the threshold.
    """

    epsilon: float
    largest: float
    gap: float
    lipschitz: float | None

    @property
    def term(self) -> float:
        """What the promise adds to alpha: K·epsilon where K is known, otherwise the gap."""
        return self.gap if self.lipschitz is None else self.lipschitz * self.epsilon


@dataclass(frozen=True)
class KeptShare:
    """What the threshold keeps of the calibration data, as plain counts.

    Parameters
    ----------
    unit : str
        What is counted: "claims", or "items" where each item has one score.
    total : int
        How many there are.
    kept : int
        How many of them score at least the threshold.
    items : int
        How many items have at least one of them.
    emptied : int
        How many of these items have nothing left.
    squared_sizes : int
        The sum of the squares of how many of them each item has.
    lowest, highest : float or None
        The lowest and the highest score among them, kept or not.

    Examples
    --------
    >>> KeptShare("claims", 200, kept=150, items=40, emptied=3, squared_sizes=1000).share
    0.75
    """

    unit: str
    total: int
    kept: int
    items: int
    emptied: int
    squared_sizes: int
    lowest: float | None = None
    highest: float | None = None

    @property
    def share(self) -> float:
        """The share that is kept; NaN if there was nothing to keep."""
        return self.kept / self.total if self.total else math.nan

    def __str__(self) -> str:
        text = f"{self.kept:,} of {self.total:,} calibration {self.unit}"
        if self.total:
            text += f" ({100 * self.share:.3g} %)"
        if self.unit == "claims":
            text += f"; nothing is left of {self.emptied:,} of {counted(self.items, 'item')}"
        return text


@dataclass(frozen=True, eq=False)
class ThresholdChain:
    """The soft chain behind `promise=`: which thresholds are served, and how often.

    Parameters
    ----------
    level : float
        The level a: the promise needs the safest threshold to cost at most this.
    stake : float
        The stake t.
    uniform : float
        The recorded draw U in (0, 1]: the last threshold whose share is at least U is served.
    spread : bool
        Whether a threshold is drawn anew for each item instead.
    thresholds : numpy.ndarray
        The thresholds that may be served, safest first.
    shares : numpy.ndarray
        For each, the probability that it or a bolder one is served: 1 for the first, then falling.
    """

    level: float
    stake: float
    uniform: float
    spread: bool
    thresholds: Floats
    shares: Floats

    def draw(self, uniforms: Floats) -> Floats:
        """Return the thresholds that uniform numbers in (0, 1] serve.

        Parameters
        ----------
        uniforms : numpy.ndarray
            One number per item.

        Returns
        -------
        numpy.ndarray
            One threshold per item.
        """
        count = np.searchsorted(-self.shares, -np.asarray(uniforms), side="right")
        return np.asarray(self.thresholds[np.maximum(count - 1, 0)])


class ThresholdCurve(NamedTuple):
    """The risk along the candidate thresholds, ready to plot.

    Parameters
    ----------
    threshold : numpy.ndarray
        Thresholds in increasing order; may include +inf.
    risk : numpy.ndarray
        The risk at each.
    """

    threshold: Floats
    risk: Floats


@dataclass(frozen=True, eq=False)
class Selection(records.Saved, Described):
    """A threshold and what is promised for it: keep what scores at least `threshold`.

    Returned by `gcrc`, `crc`, `monotonized_crc` and `ltt`. With several losses, `alpha`, `bound`,
    `risk` and `promise` are those of the binding loss, whose risk is largest relative to its alpha.

    Parameters
    ----------
    method : str
        The name of the method: "gCRC", "soft chain" (`gcrc` with `promise=`), "CRC", "monotonized
        CRC" or "LTT".
    rule : str
        What was asked for: "alpha", "promise" or "confidence".
    threshold : float
        The chosen threshold. Where none passes, the safest: of the thresholds passed by the user,
        or +inf (−inf where smaller is safer) where every score is a candidate.
    exists : bool
        Whether any threshold passes; if not, the safest is served and nothing is promised.
    risk : float
        The risk that was compared with alpha, at the threshold: the mean loss with one more item at
        the bound. For LTT and the soft chain, the mean loss.
    alpha : float
        What was asked for: the tolerated expected loss, or the promise.
    bound : float
        The largest possible loss.
    promise : float
        The stated bound on the expected loss, with all its terms. The bound of the loss where
        nothing is promised.
    statement : str
        The promise in words, with its condition and assumptions.
    loss : str
        The name of the loss.
    safer : str
        Which thresholds are safer: "larger" or "smaller" ones.
    n_items : int
        The number of items; those of groups that are in the pool as well count twice.
    effective_sample_size : float
        How many equally weighted items the weighted ones are worth.
    n_candidates : int
        The number of candidate thresholds.
    monotone : bool
        Whether no item's loss falls as the threshold gets bolder, and none can: the share of false
        claims of an item with several claims can.
    n_nonmonotone : int
        The number of items whose loss does.
    stability_term : float
        What is added to alpha for the stability of the threshold.
    existence_term : float
        What is added for data on which nothing passes.
    safe_loss, safe_error : float
        The mean loss of the safest threshold and its standard error; NaN where it is known to be 0
        or the promise does not depend on it.
    stability : Stability, optional
        The replace-one stability of the threshold, where it was measured.
    confidence : float, optional
        The probability with which the promise of LTT holds.
    test : str, optional
        The p-values of LTT and how they are combined.
    shown : FalseAmongShown, optional
        The loss, if it is the one about all claims that are shown.
    chain : ThresholdChain, optional
        What the soft chain serves.
    kept : KeptShare, optional
        What the threshold keeps of the calibration data; None for a loss matrix.
    curve_thresholds, curve_risks, curve_kept : numpy.ndarray
        The risk curve, and the share that each of its thresholds keeps, if that is known.
    by_loss : tuple of Selection
        One selection per loss, where there are several.
    groups : dict of str to Selection
        One selection per group, where groups were passed.
    pooled_groups : tuple of str
        The groups too small for a threshold of their own, which share that of the pool.
    warnings : tuple of str
        What changes a decision.

    Examples
    --------
    >>> import numpy as np, tether
    >>> found = tether.crc(np.tile([0.3, 0.1, 0.0], (99, 1)), alpha=0.2)
    >>> found.threshold, round(found.risk, 3), found.promise
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
    effective_sample_size: float
    n_candidates: int
    monotone: bool
    n_nonmonotone: int
    stability_term: float = 0.0
    existence_term: float = 0.0
    safe_loss: float = math.nan
    safe_error: float = math.nan
    stability: Stability | None = None
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
    pooled_groups: tuple[str, ...] = ()
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
        if not self.exists or self.keeps_nothing:
            return False
        if self.chain is not None and self.safe_loss > self.chain.level:
            return False
        if self.shown is not None:
            return bool(within_limit(self.promise, self.shown.share))
        return is_useful(self.promise, self.alpha, self.bound)

    @property
    def keeps_nothing(self) -> bool:
        """Whether the threshold keeps next to nothing of the calibration data, if this is known."""
        kept = self.kept
        return kept is not None and kept.total > 0 and kept.kept < LEAST_KEPT * kept.total

    @property
    def refused_groups(self) -> tuple[str, ...]:
        """The groups without a useful promise, those that were pooled by their own names."""
        refused = [name for name, part in self.groups.items() if not part.useful]
        pooled = self.pooled_groups if POOL_NAME in refused else ()
        return (*(name for name in refused if name != POOL_NAME), *pooled)

    @property
    def serves(self) -> bool:
        """Whether there is anything to filter by: a useful promise, or one in some group."""
        return any(part.useful for part in self.groups.values() or (self,))

    def curve(self) -> ThresholdCurve:
        """Return the risk along the candidate thresholds.

        Returns
        -------
        ThresholdCurve
            Thresholds in increasing order and the risk at each: every candidate, or 1,001 of them
            where there are more.
        """
        return ThresholdCurve(self.curve_thresholds, self.curve_risks)

    def to_frame(self) -> Columns:
        """Return the risk curve as columns, one below the other for several losses or groups.

        Returns
        -------
        Columns
            A dictionary of arrays, which data-frame libraries accept: `threshold`, `risk`, and
            `kept`, the share of the calibration data that is kept (NaN where it is not known); with
            several losses or groups, `loss` or `group` first.
        """
        parts = self.groups or {part.loss: part for part in self.by_loss}
        if not parts:
            kept = self.curve_kept
            kept = kept if len(kept) else np.full(len(self.curve_risks), np.nan)
            return Columns(threshold=self.curve_thresholds, risk=self.curve_risks, kept=kept)
        tables = [part.to_frame() for part in parts.values()]
        names = np.repeat(np.array(list(parts), dtype=np.str_), [each.row_count for each in tables])
        inner = dict.fromkeys(name for table in tables for name in table)
        stacked = {name: np.concatenate([table[name] for table in tables]) for name in inner}
        return Columns({"group" if self.groups else "loss": names} | stacked)

    def plot(self, ax: Axes | None = None) -> Figure:
        """Draw the risk along the thresholds, and how much each of them keeps.

        Alpha and the chosen threshold are marked. Several losses or groups are drawn as one line
        each. Does not use pyplot. Needs the extra `plot`.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            The axes to draw the risk into; by default a new figure that shows what is kept too.

        Returns
        -------
        matplotlib.figure.Figure
            The figure that was drawn into.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        from tether.report.selection_plot import plot_selection

        return plot_selection(self, ax)

    def for_group(self, group: str | int) -> Selection:
        """Return the selection of one group; small groups share that of the pool.

        Parameters
        ----------
        group : str or int
            The name of the group.

        Returns
        -------
        Selection
            The selection of this group.

        Raises
        ------
        ValueError
            If the group was not calibrated.
        """
        name = POOL_NAME if str(group) in self.pooled_groups else str(group)
        if not self.groups:
            raise ValueError(
                f"groups: {str(group)!r} was given, but this selection has no groups: it has one "
                "threshold for all claims"
            )
        if name not in self.groups:
            known = [key for key in (*self.groups, *self.pooled_groups) if key != POOL_NAME]
            raise ValueError(
                f"groups: {str(group)!r} was not calibrated; known: {listed_groups(known)}"
            )
        return self.groups[name]

    def _describe(self) -> Description:
        return _describe(self)


def kept_together(parts: Iterable[Selection]) -> KeptShare | None:
    """What several groups keep together, the safest of those without a useful promise."""
    listed = list(parts)
    known = [_kept_when_served(part) for part in listed if part.kept is not None]
    if len(known) < len(listed):
        return None
    return KeptShare(
        known[0].unit,
        *(
            sum(getattr(part, name) for part in known)
            for name in ("total", "kept", "items", "emptied", "squared_sizes")
        ),
        lowest=min((part.lowest for part in known if part.lowest is not None), default=None),
        highest=max((part.highest for part in known if part.highest is not None), default=None),
    )


def _kept_when_served(part: Selection) -> KeptShare:
    assert part.kept is not None
    if part.useful:
        return part.kept
    if part.safer == "larger":
        return replace(part.kept, kept=0, emptied=part.kept.items)
    return replace(part.kept, kept=part.kept.total, emptied=0)


def asked(found: Selection) -> str:
    """What was asked for, in words."""
    return f"{'a promise of' if found.rule == 'promise' else 'alpha'} {found.alpha:g}"


def listed_groups(names: Sequence[str]) -> str:
    """The first names, and how many more there are.

    >>> listed_groups(["a", "b"]), listed_groups(list("abcdefghijklmn"))[-15:]
    ('a, b', 'k, l and 2 more')
    """
    more = len(names) - MAX_LISTED_GROUPS
    listed = ", ".join(names[:MAX_LISTED_GROUPS])
    return listed if more <= 0 else f"{listed} and {more:,} more"


def _describe(found: Selection) -> Description:
    """The threshold, what is promised for it, what it keeps, and what this rests on."""
    everything = "nothing" if found.safer == "larger" else "everything"
    if found.groups:
        useful = sum(part.useful for part in found.groups.values())
        headline = (
            f"{found.method}: one threshold per group, with a useful promise in {useful:,} of "
            f"{counted(len(found.groups), 'group')}"
        )
    elif not found.exists:
        headline = f"{found.method}: no threshold passes at {asked(found)}"
    elif np.isinf(found.threshold):
        headline = f"{found.method}: keeps {'nothing' if found.threshold > 0 else 'everything'}"
    else:
        headline = f"{found.method}: keep what scores at least {found.threshold:.6g}"
    useless = found.exists and not found.useful and not found.groups
    facts = [("promise", f"{'no useful promise: ' if useless else ''}{found.statement}")]
    if found.kept is not None:
        facts.append(("kept", str(found.kept)))
        if (shown := risk_of_shown(found)) is not None:
            facts.append(("shown", shown))
    if not found.by_loss:
        facts.append(("loss", _loss(found)))
    if not found.groups:
        facts.append(("items", _calibrated(found)))
    if found.pooled_groups:
        names = listed_groups(found.pooled_groups)
        facts.append(("pooled", f"{names}: too few items each for a threshold of their own"))
    if found.serves and (refused := found.refused_groups):
        text = f"{listed_groups(refused)}: no useful promise, so {everything} of theirs is kept"
        facts.append(("refused", text))
    return Description(
        headline=headline,
        tone="good" if found.useful else "caution" if found.exists else "stop",
        facts=tuple(facts),
        table=_parts_table(found),
        warnings=found.warnings,
    )


def _loss(found: Selection) -> str:
    words = LOSS_WORDS.get(found.loss) if found.kept is not None else None
    if found.shown is not None:
        share, most = found.shown.share, found.shown.most_claims
        words = (
            f"{share:g} + (false − {share:g} · shown) / {most} for an item: a mean of at most "
            f"{share:g} says that at most {share:g} of all claims shown are false"
        )
    shape = "" if found.monotone else "; it can fall as the threshold gets bolder"
    named = found.loss if words is None else f"{found.loss}: {words.rstrip(',')}"
    return f"{named}; from 0 to {found.bound:g}{shape}"


def _calibrated(found: Selection) -> str:
    text = f"{found.n_items:,}, with {counted(found.n_candidates, 'candidate threshold')}"
    if found.effective_sample_size < found.n_items:
        text += f", worth {found.effective_sample_size:,.1f} equally weighted ones"
    where = "this threshold" if found.exists else "the safest threshold"
    worst = ", one more item at the worst included" if found.rule == "alpha" else ""
    text += f"; mean loss at {where} {found.risk:.4g}{worst}"
    return text if found.test is None else f"{text}; {found.test}"


def risk_of_shown(found: Selection) -> str | None:
    """What is false among what is shown, which the mean loss does not tell.

    For the share of an item's claims: its mean among the items that show something, where others
    show none. For the share among all claims shown: how many of them are false.
    """
    kept, weighted = found.kept, found.effective_sample_size < found.n_items
    if kept is None or weighted or found.by_loss or found.method == "monotonized CRC":
        return None
    parts = [part for part in found.groups.values() if part.useful] or [found]
    if not found.serves or not kept.kept:
        return None
    losses = sum(_sum_of_losses(part) for part in parts)
    if found.loss == FALSE_AMONG_SHOWN and found.shown is not None:
        share, most = found.shown.share, found.shown.most_claims
        items = sum(part.n_items for part in parts)
        false = round(most * (losses - items * share) + share * kept.kept)
        claims = counted(kept.kept, "claim")
        return f"{false:,} of the {claims} shown are false ({false / kept.kept:.1%})"
    shown = kept.items - kept.emptied
    if found.loss != "fdr" or not kept.emptied or not shown:
        return None
    return (
        f"among the {shown:,} items that show something the mean share of false claims is "
        f"{losses / shown:.3g}; the other {kept.emptied:,} count as 0"
    )


def _sum_of_losses(found: Selection) -> float:
    if found.rule != "alpha":
        return found.risk * found.n_items
    return max(found.risk * (found.n_items + 1) - found.bound, 0.0)


def _parts_table(found: Selection) -> Columns | None:
    """One row per group, or per loss, where there are several."""
    parts = list(found.groups.values()) or list(found.by_loss)
    if not parts:
        return None
    table = Columns()
    if found.groups:
        table["group"] = np.array(list(found.groups), dtype=np.str_)
        table["threshold"] = np.array([part.threshold for part in parts])
        table["items"] = np.array([part.n_items for part in parts])
        if all(part.kept is not None for part in parts):
            table["kept"] = np.array([part.kept.share for part in parts if part.kept is not None])
    else:
        table["loss"] = np.array([part.loss for part in parts], dtype=np.str_)
    for name in ("risk", "alpha", "promise", "useful"):
        table[name] = np.array([getattr(part, name) for part in parts])
    return table
