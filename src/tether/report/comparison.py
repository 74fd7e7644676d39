"""Several results side by side: one table and one picture."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tether._core.columns import Columns, cells_or_none, format_cell
from tether._core.counted import counted
from tether._core.description import Described, Description
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
OTHER_FAMILIES = (
    "betas of different families are on different scales: compare what changes and what is gained"
)
"""What a reader of betas of several families has to know."""


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
            A dictionary of arrays, which data-frame libraries accept: `name`, `alpha`, `risk`,
            `promise`, `useful` and `effective_sample_size`; of calibrations `family`, `beta`,
            `log_beta`, `confidence` if one has it, if they have rewards `reward` and `gained`,
            `changed`, the share of decisions that change, where it is known, and, of mix,
            `traffic`, the optimized policy's share of the decisions; with several losses
            `alpha[name]`, `risk[name]` and `promise[name]` of each; of selections `method`,
            `loss`, `threshold`, `exists` and `kept`, the share of the calibration data that is
            kept. NaN where a result does not have it.
        """
        table = Columns(name=np.array(self.names, dtype=np.str_))
        rows = [_row(result) for result in self.results]
        for name in dict.fromkeys(name for row in rows for name in row):
            table[name] = np.array([row.get(name, math.nan) for row in rows])
        return table

    def plot(self) -> Figure:
        """Draw the results side by side.

        Of selections: the risk along the thresholds, and the share that each threshold keeps. Of
        calibrations: what each promises beside its alpha, and beta, or the expected reward where
        all of them have it. Pyplot is not used. Needs the extra `plot`.

        Returns
        -------
        matplotlib.figure.Figure
            A new figure.
        """
        from tether.report.comparison_plot import plot_comparison

        return plot_comparison(dict(zip(self.names, self.results, strict=True)))

    def _describe(self) -> Description:
        kind = "calibrations" if isinstance(self.results[0], Calibration) else "selections"
        table = self.to_frame()
        exists = [each.exists for each in self.results]
        for name in [name for name in table if name.split("[")[0] == "promise"]:
            table[name] = cells_or_none(table[name], exists)
        del table["log_beta" if kind == "calibrations" else "exists"]
        useful = int(table["useful"].sum())
        several = kind == "calibrations" and len(set(table["family"].tolist())) > 1
        same = [
            name
            for name in ("family", "method", "loss", "alpha", "effective_sample_size")
            if name in table and len(self.names) > 1 and len(set(table[name].tolist())) == 1
        ]
        stated = [f"{name.replace('_', ' ')} {format_cell(table.pop(name)[0])}" for name in same]
        for name in ("family", "method"):
            if name in table and table[name].tolist() == list(self.names):
                del table[name]
        if "effective_sample_size" in table:  # the widest heading
            table["effective rows"] = _whole(table.pop("effective_sample_size"))
        asked = [each.asked_promise for each in self.results if isinstance(each, Calibration)]
        if asked and None not in asked:  # the promises are in the names
            for name in [name for name in table if name.split("[")[0] == "alpha"]:
                del table[name]
        return Description(
            f"{len(self.names)} {kind}, {useful or 'none'} of them with a useful promise",
            "good" if useful == len(self.names) else "caution" if useful else "stop",
            facts=(("the same in all", ", ".join(stated)),) if stated else (),
            table=table,
            notes=(OTHER_FAMILIES, CHOSEN_AFTERWARDS) if several else (CHOSEN_AFTERWARDS,),
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
    >>> found = tether.compare([tether.crc(losses, alpha=0.15), tether.ltt(losses, alpha=0.15)])
    >>> found.to_frame()["threshold"]
    array([1., 2.])
    """
    if isinstance(results, (Calibration, Selection)) or not isinstance(results, Iterable):
        raise TypeError(
            "results must be a list or a mapping of calibrations or selections, got "
            f"{type(results).__name__}"
        )
    found = tuple(results.values() if isinstance(results, Mapping) else results)
    if not found:
        raise ValueError("results is empty: at least one calibration or selection is needed")
    for result in found:
        if not isinstance(result, (Calibration, Selection)):
            raise TypeError(
                "results must be calibrations or selections, as calibrate, gcrc, crc, "
                f"monotonized_crc and ltt return them, got {type(result).__name__}"
            )
    if len({isinstance(result, Calibration) for result in found}) > 1:
        raise TypeError("results must be all calibrations or all selections, got both")
    names = list(map(str, results)) if isinstance(results, Mapping) else _names(found)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"results has two entries with the name {twice!r}")
    return Comparison(tuple(names), found)


def _whole(sizes: NDArray[Any]) -> NDArray[Any]:
    """Sample sizes without decimals, if all are known."""
    return np.round(sizes).astype(np.int64) if np.isfinite(sizes).all() else sizes


def _row(result: Result) -> dict[str, Any]:
    """What is compared of one result."""
    shared = {
        name: getattr(result, name)
        for name in ("alpha", "risk", "promise", "useful", "effective_sample_size")
    }
    if isinstance(result, Selection):
        own: dict[str, Any] = {
            "method": result.method,
            "loss": _loss(result),
            "threshold": result.threshold,
            "exists": result.exists,
        }
        return own | shared | {"kept": math.nan if result.kept is None else result.kept.share}
    own = {"family": result.family, "beta": result.beta, "log_beta": result.log_beta}
    if len(result.constraints) > 1:
        by_loss = {"alpha": {each.name: each.alpha for each in result.constraints}}
        by_loss |= {"risk": result.risks, "promise": result.promises}
        for name, values in by_loss.items():
            del shared[name]
            own |= {f"{name}[{loss}]": value for loss, value in values.items()}
    if result.confidence is not None:
        shared["confidence"] = result.confidence
    gain = result.saved_gain
    if gain is not None and gain.reward is not None:
        for name, each in (("reward", gain.reward.tethered), ("gained", gain.reward.difference)):
            shared[name] = math.nan if each.mean is None else each.mean
    if gain is not None and gain.changed is not None and gain.changed.mean is not None:
        shared["changed"] = gain.changed.mean
    if result.optimized_share is not None:
        shared["traffic"] = result.optimized_share
    return own | shared


def _names(results: tuple[Result, ...]) -> list[str]:
    """Name each result by the settings in which they differ; number those that do not."""
    settings = [_settings(result) for result in results]
    shared = [key for key in settings[0] if all(key in each for each in settings)]
    keys = [key for key in shared if len({each[key] for each in settings}) > 1]
    names = [", ".join(each[key] for key in keys if each[key]) for each in settings]
    if len(set(names)) < len(names) or not all(names):
        return [f"{i}: {name}" if name else f"{i}" for i, name in enumerate(names, start=1)]
    return names


def _settings(result: Result) -> dict[str, str]:
    """The settings of a result in words, by name."""
    if isinstance(result, Selection):
        stated = {"method": result.method, "loss": _loss(result)}
        stated["items"] = counted(result.n_items, "item")
        stated["test"] = result.test or ""
        stated["confidence"] = (
            "" if result.confidence is None else f"confidence {result.confidence:g}"
        )
        asked = result.alpha if result.rule == "promise" else None
        alphas = [part.alpha for part in result.by_loss] or [result.alpha]
    else:
        stated = {"family": result.family, "rows": counted(result.rows, "row")}
        stated["test weight"] = f"test weight {result.test_weight}"
        sure = result.confidence
        stated["confidence"] = "on average" if sure is None else f"confidence {sure:g}"
        asked = None if result.asked_promise is None else max(result.asked_promise.values())
        alphas = [each.alpha for each in result.constraints]
    if asked is not None:
        stated["level"] = f"promise {asked:g}"
    else:
        stated["level"] = "alpha " + ", ".join(f"{alpha:g}" for alpha in alphas)
    return stated


def _loss(result: Selection) -> str:
    return ", ".join(part.loss for part in result.by_loss) or result.loss
