"""A loss with what is tolerated of it in a release."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tether._core.validate import number, one_target


@dataclass(frozen=True)
class Guardrail:
    """A loss with its tolerance: `alpha`, or the whole promise.

    Parameters
    ----------
    alpha : float, optional
        The tolerated expected loss. The stated promise is then alpha and the terms of the method.
    bound : float, default 1.0
        The largest possible loss.
    promise : float, optional
        Instead of alpha: what the whole stated promise may be.

    Raises
    ------
    ValueError
        If not exactly one of alpha and promise is given, or it is not between 0 and the bound.

    Examples
    --------
    >>> Guardrail(0.02).tolerated, Guardrail(promise=0.1, bound=2.0).tolerated
    (0.02, 0.1)
    """

    alpha: float | None = None
    bound: float = 1.0
    promise: float | None = None

    def __post_init__(self) -> None:
        one_target(self.alpha, self.promise)
        number("bound", self.bound, above=0, below=math.inf)
        name = "alpha" if self.promise is None else "promise"
        number(name, self.tolerated, above=0, below=self.bound)

    @property
    def tolerated(self) -> float:
        """What the user named: alpha or the promise."""
        value = self.alpha if self.promise is None else self.promise
        assert value is not None
        return value
