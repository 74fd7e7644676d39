"""The error of a sampler that reaches its draw limit."""

from __future__ import annotations

from tether._core.types import Integers


class DrawLimitError(RuntimeError):
    """An action would take more than `max_draws` draws, because the policies hardly overlap.

    The actions accepted elsewhere are still valid: what is accepted does not depend on how many
    draws it took.

    Parameters
    ----------
    message : str
        What was drawn, what was accepted, and what to do about it.
    missing : ndarray of int64, optional
        Indices of the contexts left without an action; None where there are no contexts.

    Examples
    --------
    >>> import numpy as np
    >>> from tether import Gaussian, Tethered
    >>> policy = Tethered(Gaussian(0.0), Gaussian(60.0), 1.0, max_draws=1000)
    >>> try:
    ...     policy.sample(np.zeros(2), np.random.default_rng(0))
    ... except DrawLimitError as error:
    ...     print(error.missing)
    [0 1]
    """

    def __init__(self, message: str, missing: Integers | None = None) -> None:
        super().__init__(message)
        self.missing = missing
