"""What other alphas would buy: one calibration and its gain for each alpha of a grid.

Reading this table is not free. The promise holds for an alpha that was named before the losses of
the calibration log were seen. Choose alpha beforehand, or from a table made on training rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._core.columns import Columns
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
    "choosing alpha from this table spends the promise if it was made on the calibration log: "
    "choose it beforehand, or on training rows"
)
"""What every reader of the table has to know."""


@dataclass(frozen=True)
class AlphaGain:
    """What one alpha would buy.

    Parameters
    ----------
    alpha : float or mapping of str to float
        The tolerated expected loss.
    beta : float
        The largest beta that passes; 0 where none does.
    promise : float
        The stated bound on the expected loss of the binding constraint.
    useful : bool
        Whether the promise is worth stating.
    gain : Gain
        What the tethered policy is expected to bring.
    """

    alpha: float | Mapping[str, float]
    beta: float
    promise: float
    useful: bool
    gain: Gain


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
            alpha = dict(each.alpha) if isinstance(each.alpha, Mapping) else each.alpha
            shown = {"alpha": alpha, "beta": each.beta, "promise": each.promise}
            entries.append({**shown, "useful": each.useful, "gain": each.gain.to_dict()})
        return {"entries": entries, "warning": CHOOSE_BEFORE}

    def to_frame(self) -> Columns:
        """Return one row per alpha, as columns.

        Returns
        -------
        Columns
            A dictionary of arrays, which data-frame libraries accept: `alpha` (one for each loss,
            `alpha[name]`, if alphas are mappings), `beta`, `promise`, `changed`, `reward`, `gained`
            and `loss` (`loss[name]`), all of the tethered policy and each estimate with its
            `_lower` and `_upper`, and `traffic`; NaN where the log does not tell. There are no
            rewards if the log has none.
        """
        columns: dict[str, list[Any]] = {}

        def add(name: str, value: float | None) -> None:
            columns.setdefault(name, []).append(value)

        def add_estimate(name: str, estimate: WeightedMean) -> None:
            add(name, estimate.mean)
            add(f"{name}_lower", estimate.lower)
            add(f"{name}_upper", estimate.upper)

        for each in self.entries:
            if isinstance(each.alpha, Mapping):
                for name, alpha in each.alpha.items():
                    add(f"alpha[{name}]", alpha)
            else:
                add("alpha", each.alpha)
            add("beta", each.beta)
            add("promise", each.promise)
            found = each.gain
            add_estimate("changed", found.changed)
            if found.reward is not None:
                add_estimate("reward", found.reward.tethered)
                add_estimate("gained", found.reward.difference)
            for name, means in found.losses.items():
                add_estimate("loss" if name == "loss" else f"loss[{name}]", means.tethered)
            add("traffic", found.traffic)
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

        def add(name: str, text: str) -> None:
            table.setdefault(name, []).append(text)

        for each in self.entries:
            found = each.gain
            alphas = each.alpha if isinstance(each.alpha, Mapping) else {"": each.alpha}
            for name, alpha in alphas.items():
                add(f"alpha[{name}]" if name else "alpha", f"{alpha:.4g}")
            add("beta", f"{each.beta:.4g}")
            add("promise", f"{each.promise:.4g}" if each.useful else "no useful promise")
            add("decisions that change", str(found.changed))
            if found.traffic is not None:
                add("traffic", f"{found.traffic:.4g}")
            if found.reward is not None:
                add("reward", str(found.reward.tethered))
            for name, means in found.losses.items():
                add(name, str(means.tethered))
        return Description(
            f"what {len(self.entries)} alphas would buy, estimated from the log",
            "caution",
            table=Columns({name: np.array(texts) for name, texts in table.items()}),
            warnings=(CHOOSE_BEFORE,),
        )


def gain_over_alphas(
    log: Log,
    proposals: Proposals | None = None,
    *,
    alphas: Iterable[float | Mapping[str, float]],
    interval: float = DEFAULT_INTERVAL,
    **settings: Any,
) -> AlphaGrid:
    """Calibrate at every alpha of a grid, and estimate what each would buy.

    The promise of a calibration holds for an alpha that was named before the losses of its log were
    seen. An alpha picked from this table because of what it buys was not: make the table on
    training rows, or choose alpha beforehand.

    Parameters
    ----------
    log : Log
        The log, with rewards if expected rewards are wanted.
    proposals : Proposals, optional
        Fresh draws, as for `calibrate`.
    alphas : iterable of float, or of mapping of str to float
        The tolerated expected losses, each as for `calibrate`.
    interval : float, default 0.95
        The probability of the intervals.
    **settings : Any
        Other arguments of `calibrate`, such as `family` and `bound`.

    Returns
    -------
    AlphaGrid
        One entry per alpha.

    Raises
    ------
    TypeError, ValueError
        If there is no alpha, some are mappings and others are not, or an argument is not one of
        `calibrate`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> actions = rng.normal(size=500)
    >>> log = Log(actions > 1.5, -actions**2 / 2, -(actions - 1)**2 / 2, reward=actions)
    >>> gain_over_alphas(log, alphas=[0.1, 0.2]).to_frame()["gained"].round(2)
    array([0.52, 0.82])
    """
    listed = list(alphas)
    if not listed:
        raise ValueError("alphas is empty; at least one alpha is needed")
    if len({isinstance(alpha, Mapping) for alpha in listed}) > 1:
        raise TypeError("alphas must be numbers, or mappings by loss, and not some of both")
    entries = []
    for alpha in listed:
        found = calibrate(log, proposals, alpha=alpha, **settings)
        bought = gain(found, confidence=interval)
        entries.append(AlphaGain(alpha, found.beta, found.promise, found.useful, bought))
    return AlphaGrid(tuple(entries))
