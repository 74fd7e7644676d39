"""What a calibration buys, and what other alphas or promises would buy.

Reading the table of several is not free. The promise holds for an alpha that was named before the
losses of the calibration log were seen. Choose it beforehand, or from a table of training rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._core.validate import number
from tether._core.words import Columns, Described, Description, format_cell
from tether.control.calibrate import calibrate, family_and_beta
from tether.control.calibration import Calibration
from tether.control.engine import Constraint
from tether.control.families import Family
from tether.control.gains import DEFAULT_INTERVAL, Gain, WeightedMean, measure_gain
from tether.control.log import Log
from tether.control.pose import pose
from tether.control.proposals import Proposals

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CHOOSE_BEFORE = (
    "choosing from this table spends the promise if it was made on the calibration log: choose "
    "beforehand, or on training rows"
)
"""What every reader of the table has to know."""


def gain(
    calibration: Calibration,
    log: Log | None = None,
    proposals: Proposals | None = None,
    *,
    confidence: float = DEFAULT_INTERVAL,
    family: str | Family | None = None,
) -> Gain:
    """Estimate what a calibration buys, in rewards, losses and decisions that change.

    All means are weighted averages over the rows of the log (`WeightedMean`), with the weights of
    the safe policy, of the tethered policy as it would be served, and of the optimized policy as it
    was given, without any blend. Intervals are approximate, and a mean is not stated if the log is
    worth fewer than 30 rows of the policy.

    Parameters
    ----------
    calibration : Calibration
        What `calibrate` returned. If its log has rewards or tables of all actions, it has its gain
        already, with 0.95 intervals.
    log : Log, optional
        The log that it was found on, for other intervals and for logs without rewards.
    proposals : Proposals, optional
        The proposals that it was found with.
    confidence : float, default 0.95
        The probability of the intervals.
    family : Family, optional
        The family, if it is not one of the package.

    Returns
    -------
    Gain
        Expected rewards (if the log has any) and losses, and the share of decisions that change.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or value, or the log is needed.

    Examples
    --------
    >>> log = Log([0.0] * 50, [0.0] * 50, [0.0] * 50)
    >>> round(gain(calibrate(log, alpha=0.1), log).changed, 6)
    0.0
    """
    if not isinstance(calibration, Calibration):
        raise TypeError(f"calibration must be a Calibration, got {type(calibration).__name__}")
    confidence = number("confidence", confidence, above=0, below=1)
    if log is None:
        if calibration.gain is not None and calibration.gain.confidence == confidence:
            return calibration.gain
        raise ValueError(
            "log is needed: the calibration has no gain of its own with these intervals; pass the "
            "log, and the proposals, that it was found on"
        )
    chosen, _ = family_and_beta(calibration, family)
    constraints = tuple(
        Constraint(each.name, each.alpha, each.bound, each.ratio_error)
        for each in calibration.losses.values()
    )
    problem = pose(log, proposals, chosen, None, calibration.blend, constraints)
    return measure_gain(problem, calibration, confidence)


@dataclass(frozen=True)
class AlphaGrid(Described):
    """What several alphas or promises would buy, estimated from one log.

    The promise holds for what was chosen before the calibration log was seen: choose from this
    table only if it was made on training rows.

    Parameters
    ----------
    asked : str
        "alpha" or "promise".
    calibrations : tuple of Calibration
        One for each that was asked for, in the order in which they were given, with its gain.
    """

    asked: str
    calibrations: tuple[Calibration, ...]

    def to_frame(self) -> Columns:
        """Return one row per alpha or promise, as columns.

        Returns
        -------
        Columns
            A dictionary of arrays, which data-frame libraries accept: `alpha`, or `asked_promise`,
            `beta`, `promise`, `changed`, `reward`, `gained` and `loss`, all of the tethered policy
            and each estimate with its `_lower` and `_upper`, and `traffic`; of several losses
            `alpha[name]` and so on; NaN where the log does not tell. There are no rewards if the
            log has none.
        """
        columns: dict[str, list[Any]] = {}

        def add(name: str, *values: WeightedMean | float | None) -> None:
            for value in values:
                if isinstance(value, WeightedMean):
                    add(name, value.mean)
                    add(f"{name}_lower", value.lower)
                    add(f"{name}_upper", value.upper)
                else:
                    columns.setdefault(name, []).append(value)

        for found in self.calibrations:
            bought, several = _gain_of(found), len(found.losses) > 1
            for each in found.losses.values():
                of = f"[{each.name}]" if several else ""
                add(f"{'alpha' if self.asked == 'alpha' else 'asked_promise'}{of}", each.alpha)
                add(f"promise{of}", each.promise)
                add(f"loss{of}", bought.losses[each.name].tethered)
            add("beta", found.beta)
            add("changed", bought.changed)
            if bought.reward is not None:
                add("reward", bought.reward.tethered)
                add("gained", bought.reward.difference)
            add("traffic", bought.traffic)
        return Columns({name: np.array(each, dtype=np.float64) for name, each in columns.items()})

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
        from tether.view.figures import plot_alpha_grid

        return plot_alpha_grid(self, ax)

    def _describe(self) -> Description:
        columns = self.to_frame()
        shown = Columns()
        for name, values in columns.items():
            if not name.endswith(("_lower", "_upper")) and not np.isnan(values).all():
                shown[name] = np.array([format_cell(value) for value in values])
        useful = [found.useful for found in self.calibrations]
        for name in shown:
            if name.startswith("promise"):
                shown[name] = np.where(useful, shown[name], "no useful promise")
        confidence = self.calibrations[0].confidence
        sure = "" if confidence is None else f" with confidence {confidence:g}"
        return Description(
            f"what {len(useful)} {self.asked}(s) would buy{sure}, estimated from the log",
            "caution",
            table=shown,
            warnings=(CHOOSE_BEFORE,),
            notes=(
                "changed: the share of decisions that change; reward and losses: those of the "
                "tethered policy; to_frame() has the intervals",
            ),
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
        One calibration per alpha or promise.

    Raises
    ------
    TypeError, ValueError
        If there is no alpha and no promise, or both, or an argument is not one of `calibrate`.

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
    asked, given = ("alpha", alphas) if promises is None else ("promise", promises)
    listed = list(given or ())
    if not listed:
        raise ValueError(f"{asked}s is empty; at least one {asked} is needed")
    family = settings.get("family")
    found = []
    for value in listed:
        this: dict[str, Any] = {asked: value}
        each = calibrate(log, proposals, **this, **settings)
        chosen = family if isinstance(family, Family) and family.name == each.family else None
        bought = gain(each, log, proposals, confidence=interval, family=chosen)
        found.append(replace(each, gain=bought))
    return AlphaGrid(asked, tuple(found))


def _gain_of(found: Calibration) -> Gain:
    assert found.gain is not None
    return found.gain
