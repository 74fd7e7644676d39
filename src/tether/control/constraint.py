"""Constraints: a loss, its tolerated expectation and its upper bound."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tether._core.ties import TIE_TOLERANCE
from tether._core.types import Floats


@dataclass(frozen=True)
class Constraint:
    """One loss, how much of it is tolerated in expectation, and the most it can be.

    Every importance weight may be wrong by a factor of up to g, `ratio_error`, in either direction.
    The condition Σ (l_i − α)·w_i + (B − α)·w ≤ 0 then holds for the true weights if it holds with
    the weights of rows with l > α and of the test point multiplied by g, and those of rows with
    l < α divided by it.

    Parameters
    ----------
    name : str
        The name of the loss in the log.
    alpha : float
        The tolerated expected loss.
    bound : float
        The largest possible loss B.
    ratio_error : float, default 1.0
        The factor g, at least 1.
    split : float, optional
        The loss above which weights are multiplied by g; `alpha` by default.

    Examples
    --------
    >>> Constraint("loss", alpha=0.1, bound=1.0).alpha
    0.1
    """

    name: str
    alpha: float
    bound: float
    ratio_error: float = 1.0
    split: float | None = None

    def factors(self, loss: Floats) -> Floats | float:
        """Return what the weight of each row is multiplied by: g or 1/g.

        Parameters
        ----------
        loss : ndarray of float
            The loss of each row.

        Returns
        -------
        ndarray of float or float
            One factor per row, or 1 for all.
        """
        if self.ratio_error == 1:
            return 1.0
        split = self.alpha if self.split is None else self.split
        return np.where(loss > split, self.ratio_error, 1 / self.ratio_error)

    def signed(self, loss: Floats) -> Floats:
        """Return loss minus alpha with its factor; the tolerance makes ties pass.

        Parameters
        ----------
        loss : ndarray of float
            The loss of each row.

        Returns
        -------
        ndarray of float
            One number per row; negative where the loss is below alpha.
        """
        difference = loss - self.alpha
        below = np.minimum(difference, 0.0)
        below *= TIE_TOLERANCE
        difference += below
        return np.asarray(difference * self.factors(loss)) if self.ratio_error != 1 else difference

    @property
    def worst(self) -> float:
        """The signed loss of the test point, with its factor."""
        return (self.bound - self.alpha) * self.ratio_error

    def at(self, alpha: float) -> Constraint:
        """Return the constraint with another alpha and the same factors.

        Parameters
        ----------
        alpha : float
            The other alpha.

        Returns
        -------
        Constraint
            The condition is linear in its alpha.
        """
        return replace(self, alpha=alpha, split=self.alpha if self.split is None else self.split)
