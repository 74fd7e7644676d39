"""Several results side by side: one table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tether._core.words import Columns, Described, Description, format_cell
from tether.control.calibration import Calibration
from tether.thresholds.selection import Selection

Result: TypeAlias = Calibration | Selection

CHOSEN_AFTERWARDS = (
    "the promise of a result holds for settings that were chosen before its data were seen: to "
    "choose one of these because of what it shows, compare on other data and calibrate afterwards"
)
"""What every reader of a comparison has to know."""


@dataclass(frozen=True)
class Comparison(Described):
    """Several calibrations, or several selections, side by side; `compare` makes it.

    Parameters
    ----------
    names : tuple of str
        The name of each result.
    results : tuple of Calibration or Selection
        The results, all of the same kind.
    """

    names: tuple[str, ...]
    results: tuple[Result, ...]

    def to_frame(self) -> Columns:
        """Return one row per result: its name, settings, risk, promise and what it keeps or gains.

        With several losses, those of the binding one; NaN where a result does not have it.
        """
        rows = [_facts(result)[1] for result in self.results]
        table = Columns(name=np.array(self.names, dtype=np.str_))
        for name in dict.fromkeys(name for row in rows for name in row):
            table[name] = np.array([row.get(name, math.nan) for row in rows])
        return table

    def _describe(self) -> Description:
        kind = "calibrations" if isinstance(self.results[0], Calibration) else "selections"
        table = self.to_frame()
        useful = int(table["useful"].sum())
        cells = zip(map(format_cell, table["promise"].tolist()), self.results, strict=True)
        table["promise"] = np.array([cell if each.exists else "none" for cell, each in cells])
        for name in ("family", "method", "loss", "rule"):  # what does not differ is not repeated
            if name in table and len(self.names) > 1 and len(set(table[name].tolist())) == 1:
                del table[name]
        headline = f"{len(self.names)} {kind}, {useful or 'none'} of them with a useful promise"
        tone = "good" if useful == len(self.names) else "caution" if useful else "stop"
        return Description(headline, tone, table=table, notes=(CHOSEN_AFTERWARDS,))


def compare(results: Iterable[Result] | Mapping[str, Result]) -> Comparison:
    """Put several calibrations, or several selections, side by side.

    Parameters
    ----------
    results : iterable or mapping of str to Calibration or Selection
        The results, all of the same kind. Those of an iterable are named by the settings in which
        they differ; a mapping has its own names.

    Examples
    --------
    >>> import numpy as np, tether
    >>> from tether.thresholds import crc, gcrc
    >>> losses = np.tile([0.3, 0.1, 0.0], (99, 1))
    >>> found = tether.compare([crc(losses, alpha=0.15), gcrc(losses, promise=0.15)])
    >>> found.names, found.to_frame()["threshold"]
    (('CRC, alpha 0.15', 'soft chain, promise 0.15'), array([1., 1.]))
    """
    listed = results.values() if isinstance(results, Mapping) else results
    found = tuple(listed) if isinstance(listed, Iterable) else None
    if found == ():
        raise ValueError("results is empty: at least one calibration or selection is needed")
    if found is None or {type(each) for each in found} not in ({Calibration}, {Selection}):
        kinds = sorted({type(each).__name__ for each in found or (results,)})
        expected = "a list or a mapping of calibrations, or of selections"
        raise TypeError(f"results must be {expected}, got {', '.join(kinds)}")
    names = map(str, results) if isinstance(results, Mapping) else _names(found)
    return Comparison(tuple(names), found)


def _facts(result: Result) -> tuple[dict[str, str], dict[str, Any]]:
    """The settings of a result in words, and what is compared of it."""
    binding = result if isinstance(result, Selection) else result.binding
    stated = {"rule": result.rule, "asked": binding.alpha, "risk": binding.risk}
    stated |= {"promise": result.promise, "useful": result.useful}
    numbers: dict[str, Any]
    if isinstance(result, Selection):
        parts = result.by_loss or (result,)
        alphas, losses = [part.alpha for part in parts], ", ".join(part.loss for part in parts)
        settings = {"method": result.method, "loss": losses, "rows": f"{result.n_items:,} items"}
        settings["test"] = result.test or ""
        numbers = {"method": result.method, "loss": losses, "threshold": result.threshold}
        kept = math.nan if result.kept is None else result.kept.share
        numbers |= stated | {"kept": kept}
    else:
        alphas, losses = [each.alpha for each in result.losses.values()], ", ".join(result.losses)
        settings = {"family": result.family, "loss": losses, "rows": f"{result.rows:,} rows"}
        numbers = {"family": result.family, "beta": result.beta}
        numbers |= stated | {"changed": result.measured.changed}
        if result.gain is not None and (reward := result.gain.reward) is not None:
            for name, each in (("reward", reward.tethered), ("gained", reward.difference)):
                numbers[name] = math.nan if each.mean is None else each.mean
    asked = "promise" if result.rule == "promise" else "alpha"
    settings["level"] = f"{asked} {', '.join(f'{alpha:g}' for alpha in alphas)}"
    sure = result.confidence
    settings["confidence"] = "" if sure is None else f"confidence {sure:g}"
    return settings, numbers


def _names(results: tuple[Result, ...]) -> list[str]:
    """Name each result by the settings in which they differ; number those that do not."""
    settings = [_facts(result)[0] for result in results]
    keys = [key for key in settings[0] if len({each[key] for each in settings}) > 1]
    names = [", ".join(each[key] for key in keys if each[key]) for each in settings]
    if len(set(names)) < len(names) or not all(names):
        return [f"{i}: {name}" if name else f"{i}" for i, name in enumerate(names, start=1)]
    return names
