"""Several results side by side: one table, one picture."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tether._core.words import Columns, Described, Description, format_cell
from tether.control.calibration import Calibration
from tether.thresholds.selection import Selection

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Result: TypeAlias = "Calibration | Selection"

CHOSEN_AFTERWARDS = (
    "the promise of a result holds for settings that were chosen before its data were seen: to "
    "choose one of these because of what it shows, compare on other data and calibrate afterwards"
)
"""What every reader of a comparison has to know."""


@dataclass(frozen=True)
class Comparison(Described):
    """Several calibrations, or several selections, side by side.

    Parameters
    ----------
    names : tuple of str
        The name of each result.
    results : tuple of Calibration or Selection
        The results, all of the same kind.

    Examples
    --------
    >>> import tether
    >>> log = tether.Log([0.0] * 50, [0.0] * 50, [0.0] * 50)
    >>> found = [tether.calibrate(log, alpha=alpha) for alpha in (0.05, 0.1)]
    >>> tether.compare(found).names
    ('alpha 0.05', 'alpha 0.1')
    """

    names: tuple[str, ...]
    results: tuple[Result, ...]

    def to_frame(self) -> Columns:
        """Return one row per result.

        Returns
        -------
        Columns
            A dictionary of arrays, which data-frame libraries accept: `name`, `rule`, what was
            `asked`, `risk`, `promise` and `useful`; of calibrations `family`, `beta`, `changed`
            and, if they have rewards, `reward` and `gained`; of selections `method`, `loss`,
            `threshold` and `kept`, the share of the calibration data that is kept. With several
            losses, those of the binding one. NaN where a result does not have it.
        """
        rows = [_row(result) for result in self.results]
        table = Columns(name=np.array(self.names, dtype=np.str_))
        for name in dict.fromkeys(name for row in rows for name in row):
            table[name] = np.array([row.get(name, math.nan) for row in rows])
        return table

    def plot(self) -> Figure:
        """Draw the results side by side.

        Of selections: the risk along the thresholds, and the share that each threshold keeps. Of
        calibrations: what each promises beside what was asked for, and beta, or the expected reward
        where all of them have it. Pyplot is not used. Needs the extra `plot`.

        Returns
        -------
        matplotlib.figure.Figure
            A new figure.
        """
        from tether.report.figures import plot_calibrations, plot_selections

        named = list(zip(self.names, self.results, strict=True))
        selections = {name: each for name, each in named if isinstance(each, Selection)}
        if selections:
            return plot_selections(selections, f"{len(selections)} selections")
        return plot_calibrations({k: each for k, each in named if isinstance(each, Calibration)})

    def _describe(self) -> Description:
        kind = "calibrations" if isinstance(self.results[0], Calibration) else "selections"
        table = self.to_frame()
        useful = int(table["useful"].sum())
        cells = zip(map(format_cell, table["promise"].tolist()), self.results, strict=True)
        table["promise"] = np.array([cell if each.exists else "none" for cell, each in cells])
        for name in ("family", "method", "loss", "rule"):  # what does not differ is not repeated
            if name in table and len(self.names) > 1 and len(set(table[name].tolist())) == 1:
                del table[name]
        return Description(
            f"{len(self.names)} {kind}, {useful or 'none'} of them with a useful promise",
            "good" if useful == len(self.names) else "caution" if useful else "stop",
            table=table,
            notes=(CHOSEN_AFTERWARDS,),
        )


def compare(results: Iterable[Result] | Mapping[str, Result]) -> Comparison:
    """Put several calibrations, or several selections, side by side.

    Parameters
    ----------
    results : iterable or mapping of str to Calibration or Selection
        The results, all of the same kind. Those of an iterable are named by the settings in which
        they differ; a mapping has its own names.

    Returns
    -------
    Comparison
        One table, which printing shows, and one picture.

    Raises
    ------
    TypeError
        If something else than a calibration or a selection is passed, or both kinds at once.
    ValueError
        If there are no results, or two of them have the same name.

    Examples
    --------
    >>> import numpy as np, tether
    >>> losses = np.tile([0.3, 0.1, 0.0], (99, 1))
    >>> found = tether.compare([tether.crc(losses, alpha=0.15), tether.gcrc(losses, promise=0.15)])
    >>> found.names, found.to_frame()["threshold"]
    (('CRC, alpha 0.15', 'soft chain, promise 0.15'), array([1., 1.]))
    """
    if isinstance(results, (Calibration, Selection)) or not isinstance(results, Iterable):
        raise TypeError(
            "results must be a list or a mapping of calibrations or selections, got "
            f"{type(results).__name__}"
        )
    found = tuple(results.values() if isinstance(results, Mapping) else results)
    if not found:
        raise ValueError("results is empty: at least one calibration or selection is needed")
    kinds = {Calibration if isinstance(each, Calibration) else type(each) for each in found}
    if len(kinds) > 1 or not kinds <= {Calibration, Selection}:
        raise TypeError(
            "results must be all calibrations or all selections, as calibrate and gcrc return "
            f"them, got {', '.join(sorted(kind.__name__ for kind in kinds))}"
        )
    names = list(map(str, results)) if isinstance(results, Mapping) else _names(found)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"results has two entries with the name {twice!r}")
    return Comparison(tuple(names), found)


def _row(result: Result) -> dict[str, Any]:
    """What is compared of one result."""
    if isinstance(result, Selection):
        return {
            "method": result.method,
            "loss": _losses(result),
            "threshold": result.threshold,
            "rule": result.rule,
            "asked": result.alpha,
            "risk": result.risk,
            "promise": result.promise,
            "useful": result.useful,
            "kept": math.nan if result.kept is None else result.kept.share,
        }
    row: dict[str, Any] = {
        "family": result.family,
        "beta": result.beta,
        "rule": result.rule,
        "asked": result.binding.alpha,
        "risk": result.binding.risk,
        "promise": result.promise,
        "useful": result.useful,
        "changed": result.measured.changed,
    }
    if result.gain is not None and result.gain.reward is not None:
        reward = result.gain.reward
        for name, each in (("reward", reward.tethered), ("gained", reward.difference)):
            row[name] = math.nan if each.mean is None else each.mean
    return row


def _names(results: tuple[Result, ...]) -> list[str]:
    """Name each result by the settings in which they differ; number those that do not."""
    settings = [_settings(result) for result in results]
    keys = [key for key in settings[0] if len({each[key] for each in settings}) > 1]
    names = [", ".join(each[key] for key in keys if each[key]) for each in settings]
    if len(set(names)) < len(names) or not all(names):
        return [f"{i}: {name}" if name else f"{i}" for i, name in enumerate(names, start=1)]
    return names


def _settings(result: Result) -> dict[str, str]:
    """The settings of a result in words, by name."""
    if isinstance(result, Selection):
        stated = {"method": result.method, "loss": _losses(result), "test": result.test or ""}
        stated["rows"] = f"{result.n_items:,} items"
        alphas = [part.alpha for part in result.by_loss] or [result.alpha]
    else:
        stated = {"family": result.family, "loss": ", ".join(result.losses), "test": ""}
        stated["rows"] = f"{result.rows:,} rows"
        alphas = [each.alpha for each in result.losses.values()]
    sure = result.confidence
    asked = "promise" if result.rule == "promise" else "alpha"
    stated["level"] = f"{asked} {', '.join(f'{alpha:g}' for alpha in alphas)}"
    stated["confidence"] = "" if sure is None else f"confidence {sure:g}"
    return stated


def _losses(result: Selection) -> str:
    return ", ".join(part.loss for part in result.by_loss) or result.loss
