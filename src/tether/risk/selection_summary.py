"""A selection in words: what printing it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tether._core.columns import Columns
from tether._core.counted import counted
from tether._core.description import Description
from tether.risk.claim_losses import FALSE_AMONG_SHOWN, false_among_shown
from tether.risk.group_names import listed_groups
from tether.risk.loss_words import named_loss

if TYPE_CHECKING:
    from tether.risk.selection import Selection


def describe_selection(selection: Selection) -> Description:
    """The threshold, what is promised for it, what it keeps, and what this rests on."""
    headline = f"{selection.method}: {_verdict(selection)}"
    if selection.groups:
        headline = f"{selection.method}: one threshold per group"
    facts = [("promise", _promise(selection))]
    if selection.kept is not None:
        facts.append(("kept", str(selection.kept)))
        if (shown := risk_of_shown(selection)) is not None:
            facts.append(("shown", shown))
    if selection.groups:
        facts.append(("loss", _loss(selection)))
    else:
        facts += _calibration_facts(selection)
    if selection.pooled_groups:
        names = listed_groups(selection.pooled_groups)
        facts.append(("pooled", f"{names}: too few items each for a threshold of their own"))
    if selection.serves and (refused := selection.refused_groups):
        facts.append(("refused", f"{listed_groups(refused)}: {_refused(selection)}"))
    if (detail := selection.stability_detail) is not None:
        moved = f"replacing one item moves the threshold by {detail.epsilon:.3g} on average"
        moved = f"{moved}, {detail.largest:.3g} at most"
        if not np.isfinite(detail.epsilon):
            moved = "replacing one item can move the threshold beyond all scores"
        if detail.lipschitz is None:
            moved += f"; what this adds to the loss is counted, as {selection.stability_term:.2g}"
        facts.append(("stability", moved))
    return Description(
        headline=headline,
        tone="good" if selection.useful else "caution" if selection.exists else "stop",
        facts=tuple(facts),
        table=_parts_table(selection),
        warnings=selection.warnings,
    )


def _verdict(selection: Selection) -> str:
    if not selection.exists:
        named = "alpha" if selection.target is None else "a promise of"
        return f"no threshold passes at {named} {selection.tolerated:g}"
    if np.isinf(selection.threshold):
        return "keeps nothing" if selection.threshold > 0 else "keeps everything"
    return f"keep what scores at least {selection.threshold:.6g}"


def _refused(selection: Selection) -> str:
    kept = "nothing" if selection.safer == "larger" else "everything"
    return f"no useful promise, so {kept} of theirs is kept"


def _loss(selection: Selection) -> str:
    shape = "" if selection.monotone else ", not monotone in the threshold"
    return f"{named_loss(selection)}, from 0 to {selection.bound:g}{shape}"


def _promise(selection: Selection) -> str:
    text = selection.statement
    if selection.groups:
        text = f"{_useful_groups(selection)}: {text}"
    elif selection.exists and not selection.useful:
        text = f"no useful promise: {text}"
    if selection.target is not None:
        text = f"{text} (asked for: at most {selection.target:g})"
    return text


def _useful_groups(selection: Selection) -> str:
    """In how many groups the promise is useful; the pool counts as one."""
    useful = sum(part.useful for part in selection.groups.values())
    if useful == 0:
        return "no useful promise in any group"
    every = len(selection.groups)
    return f"useful in {useful:,} of {counted(every, 'group')}"


def _calibration_facts(selection: Selection) -> list[tuple[str, str]]:
    """The loss, its risk at the threshold, and the data."""
    candidates = counted(selection.n_candidates, "candidate threshold")
    size = f"on {counted(selection.n_items, 'item')}, {candidates}"
    if selection.effective_sample_size < selection.n_items:
        size += (
            f"; the weighted items are worth {selection.effective_sample_size:,.1f} equally "
            "weighted ones (effective sample size)"
        )
    facts = []
    if not selection.by_loss:
        facts = [("loss", _loss(selection)), ("risk", _risk(selection))]
    facts.append(("calibrated", size))
    if selection.settings:
        settings = ", ".join(f"{name} {value}" for name, value in selection.settings.items())
        facts.append(("settings", settings))
    return facts


def _risk(selection: Selection) -> str:
    where = "at this threshold" if selection.exists else "at the safest threshold"
    if selection.method == "LTT":
        return f"a mean loss of {selection.risk:.4g} {where}, tested against {selection.alpha:g}"
    named = "alpha" if selection.exists or selection.target is None else "the promise"
    limit = f"at most {named} = {selection.alpha:.4g}"
    if selection.risk > selection.alpha:
        limit = f"above {named} = {selection.alpha:.4g}"
    elif not selection.exists:
        limit = f"before what a promise adds to it, which must be at most {selection.alpha:.4g}"
    scale = ""
    if selection.loss == FALSE_AMONG_SHOWN:
        scale = " (not a share of claims)"
    return (
        f"{selection.risk:.4g}{scale}, {limit}: the mean loss {where}, with one more item at the "
        "worst loss"
    )


def risk_of_shown(selection: Selection) -> str | None:
    """What is false among what is shown, which the mean loss does not tell.

    For the share of an item's claims: its mean among the items that show something, where others
    show none. An item with nothing left counts as 0 in the mean, so the items that are shown have
    more. For the share among all claims shown: how many of them are false.
    """
    kept, weighted = selection.kept, selection.effective_sample_size < selection.n_items
    plain = selection.method in ("gCRC", "CRC", "LTT")
    if kept is None or not plain or weighted or selection.by_loss:
        return None
    parts = [part for part in selection.groups.values() if part.useful]
    if selection.loss == FALSE_AMONG_SHOWN and selection.serves:
        false = sum(_false_claims(part) for part in parts or (selection,))
        share = f" ({false / kept.kept:.1%})" if kept.kept else ""
        text = f"{false:,} of the {counted(kept.kept, 'claim')} shown are false{share}"
        if parts:
            return text
        more = int(selection.settings["most_claims"])
        return (
            f"{text}; {(false + more) / (kept.kept + more):.1%} with one more item that shows "
            f"{counted(more, 'claim')}, all false"
        )
    shown = kept.items - kept.emptied
    if selection.loss != "fdr" or not (selection.exists or parts) or not kept.emptied or not shown:
        return None
    total = sum(_sum_of_losses(part) for part in parts or (selection,))
    return (
        f"among the {shown:,} items that show something the mean share of false claims is "
        f"{total / shown:.3g}; the other {kept.emptied:,} count as 0"
    )


def _false_claims(selection: Selection) -> int:
    """How many of the claims shown are false, for the loss that is about all of them."""
    assert selection.kept is not None
    return false_among_shown(
        _sum_of_losses(selection),
        selection.n_items,
        selection.kept.kept,
        selection.settings["share"],
        selection.settings["most_claims"],
    )


def _sum_of_losses(selection: Selection) -> float:
    """The sum of the losses at the threshold, without the item at the bound."""
    if selection.method == "LTT":
        return selection.risk * selection.n_items
    return max(selection.risk * (selection.n_items + 1) - selection.bound, 0.0)


def _parts_table(selection: Selection) -> Columns | None:
    """One row per group, or per loss, where there are several."""
    parts = list(selection.groups.values()) or list(selection.by_loss)
    if not parts:
        return None
    table = Columns()
    if selection.groups:
        table["group"] = np.array(list(selection.groups), dtype=np.str_)
        table["threshold"] = np.array([part.threshold for part in parts])
        table["items"] = np.array([part.n_items for part in parts])
        if all(part.kept is not None for part in parts):
            table["kept"] = np.array([part.kept.share for part in parts if part.kept is not None])
    else:
        table["loss"] = np.array([part.loss for part in parts], dtype=np.str_)
        table["monotone"] = np.array([part.monotone for part in parts])
        table["bound"] = np.array([part.bound for part in parts])
    for name in ("risk", "alpha", "promise", "useful"):
        table[name] = np.array([getattr(part, name) for part in parts])
    return table
