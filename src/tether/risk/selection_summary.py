"""A selection in words, for a person at a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tether.risk.selection import Selection


def summarize(selection: Selection) -> str:
    """The summary that printing a selection shows."""
    if selection.groups:
        lines = [f"{selection.method}: one threshold per group"]
    else:
        lines = [f"{selection.method}: {_verdict(selection)}", *_calibration_lines(selection)]
    for part in selection.by_loss:
        note = "" if part.monotone else ", not monotone in the threshold"
        lines.append(f"  loss        {part.loss}: {part.risk:.4g} for alpha {part.alpha:g}{note}")
    for name, part in selection.groups.items():
        note = "" if part.useful or not part.exists else ", no useful promise"
        lines.append(f"  group       {name}: {_verdict(part)} ({part.n_items:,} items){note}")
    if selection.pooled_groups:
        lines.append(f"  pooled      {', '.join(selection.pooled_groups)}")
    if selection.target is not None:
        lines.append(f"  asked for   a promise of at most {selection.target:g}")
    verdict = "" if selection.useful or not selection.exists else "no useful promise: "
    lines.append(f"  promise     {verdict}{selection.statement}")
    if (detail := selection.stability_detail) is not None:
        moved = f"replacing one item moves the threshold by {detail.epsilon:.3g}"
        lines.append(f"  stability   {moved} on average, {detail.largest:.3g} at most")
    lines += [f"  warning     {warning}" for warning in selection.warnings]
    return "\n".join(lines)


def _verdict(selection: Selection) -> str:
    if not selection.exists:
        named = "alpha" if selection.target is None else "a promise of"
        return f"no threshold passes at {named} {selection.tolerated:g}"
    return f"keep what scores at least {selection.threshold:.6g}"


def _calibration_lines(selection: Selection) -> list[str]:
    size = f"{selection.n_items:,} items, {selection.n_candidates:,} candidates"
    if selection.effective_sample_size < selection.n_items:
        size += f", effective sample size {selection.effective_sample_size:,.1f}"
    settings = ", ".join(f"{name} {value}" for name, value in selection.settings.items())
    return [
        f"  loss        {selection.loss} in [0, {selection.bound:g}]"
        + ("" if selection.monotone or selection.by_loss else ", not monotone in the threshold"),
        f"  risk        {selection.risk:.4g} for alpha {selection.alpha:g}"
        + (f" ({settings})" if settings else ""),
        f"  calibrated  on {size}",
    ]
