"""What other alphas or promises would buy: one calibration and its gain for each of a grid.

Reading this table is not free. The promise holds for an alpha that was named before the losses of
the calibration log were seen. Choose alpha beforehand, or from a table made on training rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._core.columns import Columns, format_cell
from tether._core.counted import counted
from tether._core.description import Described, Description
from tether.control.calibrate import calibrate
from tether.control.gains import DEFAULT_INTERVAL, Gain, gain
from tether.control.log import Log
from tether.control.proposals import Proposals
from tether.control.weighted_means import WeightedMean

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CHOOSE_BEFORE = (
    "choosing from this table spends the promise if it was made on the calibration log: choose "
    "beforehand, or on training rows"
)
"""What every reader of the table has to know."""
COLUMNS_IN_WORDS = (
    "changed: the share of decisions that change; reward and losses: those of the tethered policy; "
    "to_frame() has the intervals"
)
"""What the columns of the printed table are."""


@dataclass(frozen=True)
class AlphaGain:
    """What one alpha would buy.

    Parameters
    ----------
    alpha : float or mapping of str to float
        The tolerated expected loss.
    beta : float
        The largest beta that passes; 0 where none does.
    promises : mapping of str to float
        The stated bound on every expected loss, by the names of the losses.
    useful : bool
        Whether the promise is worth stating.
    gain : Gain
        What the tethered policy is expected to bring.
    asked_promise : float or mapping of str to float, optional
        The promise that was asked for, if it was asked for instead of alpha.
    confidence : float, optional
        The probability over logs with which the promises hold, where it is not in expectation.
    """

    alpha: float | Mapping[str, float]
    beta: float
    promises: Mapping[str, float]
    useful: bool
    gain: Gain
    asked_promise: float | Mapping[str, float] | None = None
    confidence: float | None = None

    @property
    def asked(self) -> tuple[str, float | Mapping[str, float]]:
        """What was asked for: the name of the argument in words, and its value."""
        if self.asked_promise is None:
            return "alpha", self.alpha
        return "asked promise", self.asked_promise


@dataclass(frozen=True)
class AlphaGrid(Described):
    """What several alphas would buy, estimated from one log.

    The promise holds for an alpha that was chosen before the calibration log was seen: choose from
    this table only if it was made on training rows.

    Parameters
    ----------
    entries : tuple of AlphaGain
        One entry per alpha, in the order in which they were given.
    """

    entries: tuple[AlphaGain, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values.

        Returns
        -------
        dict
            The entries and the warning that goes with them.
        """
        entries = []
        for each in self.entries:
            shown: dict[str, Any] = {"alpha": _plain(each.alpha), "beta": each.beta}
            shown["promises"] = dict(each.promises)
            if each.confidence is not None:
                shown["confidence"] = each.confidence
            if each.asked_promise is not None:
                shown["asked_promise"] = _plain(each.asked_promise)
            entries.append({**shown, "useful": each.useful, "gain": each.gain.to_dict()})
        return {"entries": entries, "warning": CHOOSE_BEFORE}

    def to_frame(self) -> Columns:
        """Return one row per alpha, as columns.

        Returns
        -------
        Columns
            A dictionary of arrays, which data-frame libraries accept: `alpha` (one for each loss,
            `alpha[name]`, if alphas are mappings), `asked_promise` likewise if promises were asked
            for, `beta`, `promise` (`promise[name]` of several losses), `changed`, `reward`,
            `gained` and `loss` (`loss[name]`), all of the tethered policy and each estimate with
            its `_lower` and `_upper`, `traffic`, and `confidence` where there is one; NaN where the
            log does not tell. There are no rewards if the log has none.
        """
        columns: dict[str, list[Any]] = {}

        def add(name: str, value: float | None) -> None:
            columns.setdefault(name, []).append(value)

        def add_estimate(name: str, estimate: WeightedMean) -> None:
            add(name, estimate.mean)
            add(f"{name}_lower", estimate.lower)
            add(f"{name}_upper", estimate.upper)

        for each in self.entries:
            for name, alpha in _by_column("alpha", each.alpha).items():
                add(name, alpha)
            if each.asked_promise is not None:
                for name, asked in _by_column("asked_promise", each.asked_promise).items():
                    add(name, asked)
            add("beta", each.beta)
            for name, promise in _by_column("promise", _single(each.promises)).items():
                add(name, promise)
            found = each.gain
            add_estimate("changed", found.changed)
            if found.reward is not None:
                add_estimate("reward", found.reward.tethered)
                add_estimate("gained", found.reward.difference)
            for name, means in found.losses.items():
                add_estimate("loss" if name == "loss" else f"loss[{name}]", means.tethered)
            add("traffic", found.traffic)
            if each.confidence is not None:
                add("confidence", each.confidence)
        return Columns(
            {name: np.array(values, dtype=np.float64) for name, values in columns.items()}
        )

    def plot(self, ax: Axes | None = None) -> Figure:
        """Draw what each alpha buys: the expected reward, or the share of decisions that change.

        Pyplot is not used. Needs the extra `plot`.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib.figure.Figure
            The figure.
        """
        from tether.report.alpha_grid_plot import plot_alpha_grid

        return plot_alpha_grid(self, ax)

    def _describe(self) -> Description:
        table: dict[str, list[str]] = {}
        confidence = self.entries[0].confidence
        sure = "" if confidence is None else f" with confidence {confidence:g}"
        kind = "alpha" if self.entries[0].asked_promise is None else "promise"

        def add(name: str, text: str) -> None:
            table.setdefault(name, []).append(text)

        for each in self.entries:
            found = each.gain
            for name, asked in _by_column(*each.asked).items():
                add(name, f"{asked:.4g}")
            add("beta", f"{each.beta:.4g}")
            for name, promise in _by_column("promise", _single(each.promises)).items():
                add(name, f"{promise:.4g}" if each.useful else "no useful promise")
            add("changed", format_cell(found.changed.mean))
            if found.traffic is not None:
                add("traffic", f"{found.traffic:.4g}")
            if found.reward is not None:
                add("reward", format_cell(found.reward.tethered.mean))
            for name, means in found.losses.items():
                add(name, format_cell(means.tethered.mean))
        return Description(
            f"what {counted(len(self.entries), kind)} would buy{sure}, estimated from the log",
            "caution",
            table=Columns({name: np.array(texts) for name, texts in table.items()}),
            warnings=(CHOOSE_BEFORE,),
            notes=(COLUMNS_IN_WORDS,),
        )


def gain_over_alphas(
    log: Log,
    proposals: Proposals | None = None,
    *,
    alphas: Iterable[float | Mapping[str, float]] | None = None,
    promises: Iterable[float | Mapping[str, float]] | None = None,
    interval: float = DEFAULT_INTERVAL,
    **settings: Any,
) -> AlphaGrid:
    """Calibrate at every alpha, or for every promise, of a grid, and estimate what each would buy.

    The promise of a calibration holds for an alpha, or a promise, that was named before the losses
    of its log were seen. One picked from this table because of what it buys was not: make the table
    on training rows, or choose beforehand. Give either `alphas` or `promises`.

    Parameters
    ----------
    log : Log
        The log, with rewards if expected rewards are wanted.
    proposals : Proposals, optional
        Fresh draws, as for `calibrate`.
    alphas : iterable of float, or of mapping of str to float, optional
        The tolerated expected losses, each as for `calibrate`.
    promises : iterable of float, or of mapping of str to float, optional
        The promises to ask for instead, each as for `calibrate`.
    interval : float, default 0.95
        The probability of the intervals.
    **settings : Any
        Other arguments of `calibrate`, such as `family` and `bound`.

    Returns
    -------
    AlphaGrid
        One entry per alpha or promise.

    Raises
    ------
    TypeError, ValueError
        If there is no alpha and no promise, or both, some are mappings and others are not, or an
        argument is not one of `calibrate`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> actions = rng.normal(size=500)
    >>> log = Log(actions > 1.5, -actions**2 / 2, -(actions - 1)**2 / 2, reward=actions)
    >>> gain_over_alphas(log, alphas=[0.1, 0.2]).to_frame()["gained"].round(2)
    array([0.52, 0.82])
    """
    if (alphas is None) == (promises is None):
        raise TypeError("give either alphas or promises")
    argument, given = ("alpha", alphas) if promises is None else ("promise", promises)
    listed = list(given or ())
    if not listed:
        raise ValueError(f"{argument}s is empty; at least one {argument} is needed")
    if len({isinstance(value, Mapping) for value in listed}) > 1:
        raise TypeError(f"{argument}s must be numbers, or mappings by loss, and not some of both")
    entries = []
    for value in listed:
        asks: dict[str, Any] = {argument: value}
        found = calibrate(log, proposals, **asks, **settings)
        used = {each.name: each.alpha for each in found.constraints}
        alpha = value if promises is None else used if isinstance(value, Mapping) else found.alpha
        asked = None if promises is None else value
        bought = gain(found, confidence=interval)
        stated = found.beta, found.promises, found.useful
        entries.append(AlphaGain(alpha, *stated, bought, asked, found.confidence))
    return AlphaGrid(tuple(entries))


def _by_column(name: str, value: float | Mapping[str, float]) -> dict[str, float]:
    """The values by the names of their columns: one, or one for each loss."""
    if not isinstance(value, Mapping):
        return {name: value}
    return {f"{name}[{loss}]": each for loss, each in value.items()}


def _single(promises: Mapping[str, float]) -> float | Mapping[str, float]:
    """The promise itself where there is one loss."""
    return next(iter(promises.values())) if len(promises) == 1 else promises


def _plain(value: float | Mapping[str, float]) -> float | dict[str, float]:
    return dict(value) if isinstance(value, Mapping) else value
