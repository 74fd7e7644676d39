"""How the rounds of a run aim: by which loss model, and which candidates there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._core import validate
from tether.aiming.candidates import Fit, positive
from tether.aiming.fitted_loss import fit_loss
from tether.aiming.loss_model import as_loss_model
from tether.aiming.training_rows import LoggedRows
from tether.rounds.limits import Limits

FITTED, OWN_FIT, GIVEN_MODEL = "fit_loss", "own", "given"
"""Where the loss models of a run come from, as its settings say it."""


@dataclass(frozen=True)
class AimSettings:
    """How each round of a run aims, for the argument `aim` of `Controller`.

    Whatever is set here, only training rows are used, and the promise of a round is that of its
    calibration.

    Parameters
    ----------
    loss_model : callable, scikit-learn model, or mapping, optional
        What predicts the loss in every round: a function of (contexts, actions), or a fitted
        classifier or regressor; with several losses one for each, by name. It must not have
        learned from the calibration rows of the run. By default loss models are fitted in every
        round.
    fit : callable, optional
        A function of (rows, rng) that fits such loss models on training rows, in place of
        `tether.aiming.fit_loss`; it returns one for each loss, by name. The actions of the rows are
        those that were taken, also in a run on shortlists.
    multiples : sequence of float, optional
        How much to tilt, as for `tether.aiming.aimed_candidates`.
    temperatures : sequence of float, optional
        Temperatures before the tilt, likewise.
    standard_errors : float, default 2.5
        How many standard errors the lead of a candidate must exceed, as for `tether.choose`.
    choose : bool, default True
        Whether candidates are compared on training rows. If not, a policy that is predicted to lose
        more than alpha is always tilted until it is not, as in a ramp.

    Raises
    ------
    TypeError, ValueError
        If both a loss model and a function that fits one are given, or one of them is neither, or a
        number is out of range.

    Examples
    --------
    >>> AimSettings(temperatures=(1.0,)).temperatures
    (1.0,)
    """

    loss_model: Any = None
    fit: Fit | None = None
    multiples: Sequence[float] | None = None
    temperatures: Sequence[float] | None = None
    standard_errors: float = 2.5
    choose: bool = True

    def __post_init__(self) -> None:
        if self.loss_model is not None and self.fit is not None:
            raise ValueError("give loss_model or fit, not both")
        if self.fit is not None and not callable(self.fit):
            raise TypeError(f"fit must be a function of (rows, rng), got {self.fit!r}")
        if self.loss_model is not None:
            given = self.loss_model
            for each in given.values() if isinstance(given, Mapping) else [given]:
                as_loss_model("loss_model", each)
        for name, numbers in self.candidates.items():
            object.__setattr__(self, name, positive(name, numbers))
        validate.number(
            "standard_errors", self.standard_errors, above=0, below=np.inf, including=(0,)
        )
        if not isinstance(self.choose, bool):
            raise TypeError(f"choose must be True or False, got {self.choose!r}")

    @property
    def source(self) -> str:
        """Where loss models come from."""
        if self.loss_model is not None:
            return GIVEN_MODEL
        return FITTED if self.fit is None else OWN_FIT

    def models(self, rows: LoggedRows, rng: np.random.Generator, limits: Limits) -> dict[str, Any]:
        """Get the loss model of each loss.

        Parameters
        ----------
        rows : LoggedRows
            Training rows.
        rng : numpy.random.Generator
            The source of randomness.
        limits : mapping of str to Limit
            The losses of the run.

        Returns
        -------
        dict of str to callable
            One for each loss, by name.

        Raises
        ------
        ValueError
            If there is not one for each loss.
        """
        if self.loss_model is None and self.fit is None:
            losses: Any = rows.losses
            return {
                name: fit_loss(
                    rows.contexts, rows.actions, losses[name], rng=rng, bound=limit.bound
                )
                for name, limit in limits.items()
            }
        made = self.loss_model if self.fit is None else self.fit(rows.without_candidates(), rng)
        if not isinstance(made, Mapping) and len(limits) == 1:
            made = dict.fromkeys(limits, made)
        if not isinstance(made, Mapping) or set(made) != set(limits):
            got = sorted(made) if isinstance(made, Mapping) else repr(made)
            raise ValueError(f"aim must have a loss model for each of {list(limits)}, got {got}")
        return {name: as_loss_model(f"loss_model[{name!r}]", made[name]) for name in limits}

    @property
    def candidates(self) -> dict[str, Any]:
        """The arguments of `aimed_candidates` that are set."""
        chosen = {"multiples": self.multiples, "temperatures": self.temperatures}
        return {name: value for name, value in chosen.items() if value is not None}

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values that the store keeps.

        Returns
        -------
        dict
            Plain values; of loss models only where they come from.
        """
        numbers = {name: list(value) for name, value in self.candidates.items()}
        how = {"standard_errors": self.standard_errors, "choose": self.choose}
        return {"loss_model": self.source, **how, **numbers}


def as_aim_settings(aim: Any) -> AimSettings | None:
    """The argument `aim` of a controller: none for False and None, the default ones for True."""
    if aim is None or aim is False:
        return None
    if aim is True:
        return AimSettings()
    if not isinstance(aim, AimSettings):
        raise TypeError(f"aim must be True, False or tether.rounds.AimSettings(…), got {aim!r}")
    return aim


def stored_aim_settings(stored: Mapping[str, Any] | None) -> AimSettings | None:
    """From what `to_dict` returned, if loss models are fitted by default."""
    if stored is None:
        return None
    if stored["loss_model"] != FITTED:
        raise ValueError(
            "the run aims by a loss model or a fit of its own, which is not in the store: pass "
            "aim=tether.rounds.AimSettings(…)"
        )
    return AimSettings(**{name: value for name, value in stored.items() if name != "loss_model"})
