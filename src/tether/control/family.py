"""What a family is: how beta turns a safe and an optimized policy into one tethered policy.

A family states the density of its tethered policy, the kernel whose integral is the normalizing
constant ψ, and how to draw from it. Its smoothness K bounds how fast it changes: log density moves
by at most K times the change of log beta, at every action. The promise rests on that number.

To bring a family of your own, derive from `Family` and write `log_kernel`; every other member has
a default. `examples/own_family.py` does it for the geometric path between two policies.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from tether._core.types import Floats


class Family(ABC):
    """One way to interpolate between a safe and an optimized policy, indexed by beta.

    All densities are logs, all functions broadcast, and `log_beta` is one number: −inf gives the
    safe policy, +inf the optimized one. Only `log_kernel` must be written. What the other members
    say decides which methods apply:

    - ``smoothness``: K, or None to have it measured on the log. With a number the search for beta
      certifies every interval that it skips.
    - ``normalized``: whether the kernel integrates to one, so that ψ is not needed.
    - ``saturates``: whether the policy stops changing once beta leaves the range of the likelihood
      ratios and of 1.
    - ``clips``: whether the kernel is min(optimized, β·safe), for which fast normalizers and
      several samplers exist.
    - ``single_draw``: whether an action is always one draw from one of the two policies.
    - ``max_draws``: how many proposals a sampler makes before it takes the safe policy's action;
      None for no limit. A family with a limit states its own `log_density`, fallback included.

    Examples
    --------
    >>> class Geometric(Family):
    ...     name = "geometric"
    ...
    ...     def log_kernel(self, log_safe, log_optimized, log_beta):
    ...         share = 1 / (1 + np.exp(-log_beta))
    ...         return (1 - share) * log_safe + share * log_optimized
    >>> Geometric().log_density(np.log([0.5]), np.log([0.2]), 0.0, 0.0).round(3)
    array([-1.151])
    """

    smoothness: ClassVar[float | None] = None
    normalized: ClassVar[bool] = False
    saturates: ClassVar[bool] = False
    clips: ClassVar[bool] = False
    single_draw: ClassVar[bool] = False
    max_draws: int | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r})"

    @property
    @abstractmethod
    def name(self) -> str:
        """What results, errors and the command line call it; a class attribute is accepted."""

    @abstractmethod
    def log_kernel(self, log_safe: Floats, log_optimized: Floats, log_beta: float) -> Floats:
        """Log of the function whose integral over actions is the normalizing constant ψ.

        Parameters
        ----------
        log_safe, log_optimized : ndarray of float
            Log-densities of the two policies at the same actions.
        log_beta : float
            The control parameter.

        Returns
        -------
        ndarray of float
            The log of the unnormalized density.
        """

    def log_density(
        self, log_safe: Floats, log_optimized: Floats, log_beta: float, log_psi: Floats | float
    ) -> Floats:
        """Log-density of the tethered policy: the kernel over its integral.

        Parameters
        ----------
        log_safe, log_optimized : ndarray of float
            Log-densities of the two policies at the same actions.
        log_beta : float
            The control parameter.
        log_psi : ndarray of float or float
            Log of the normalizing constant in the context of each action.

        Returns
        -------
        ndarray of float
            The log-density at each action.
        """
        if np.isinf(log_beta):
            return limit_density(log_safe, log_optimized, log_beta)
        return np.asarray(self.log_kernel(log_safe, log_optimized, log_beta) - log_psi)

    def log_acceptance(self, log_beta: float, log_psi: Floats) -> Floats:
        """Log of the share of proposals that a sampler accepts; NaN where it is unknown.

        Parameters
        ----------
        log_beta : float
            The control parameter.
        log_psi : ndarray of float
            Log of the normalizing constant in each context.

        Returns
        -------
        ndarray of float
            The log acceptance rate in each context.
        """
        return np.full_like(log_psi, np.nan)

    def log_ratio_bounds(
        self, log_ratio: Floats, left: float, right: float, log_psi: Callable[[float], Floats]
    ) -> tuple[Floats, Floats] | None:
        """Lower and upper bounds on log tethered/safe density while log beta is in an interval.

        Parameters
        ----------
        log_ratio : ndarray of float
            Log optimized/safe density of each action.
        left, right : float
            The ends of the interval of log beta.
        log_psi : callable
            From a log beta to the log of the normalizing constant in each action's context.

        Returns
        -------
        tuple of ndarray, or None
            Lower and upper bounds for each action; None leaves them to the smoothness.
        """
        return None

    def optimized_share(self, log_beta: float) -> float | None:
        """The share of proposals that a sampler draws from the optimized policy.

        Parameters
        ----------
        log_beta : float
            The control parameter.

        Returns
        -------
        float or None
            A number from 0 to 1; None where the family has no sampler, and then it can be drawn
            from over finitely many actions only.
        """
        return None

    def log_accept(self, log_ratio: Floats, log_beta: float) -> Floats:
        """Log of the probability that a proposal is accepted, given its likelihood ratio.

        It must be the kernel over the density of the proposals, up to a constant: with s the
        `optimized_share`, kernel / ((1 − s)·safe + s·optimized), scaled to at most one.

        Parameters
        ----------
        log_ratio : ndarray of float
            Log optimized/safe density of each proposal.
        log_beta : float
            The control parameter.

        Returns
        -------
        ndarray of float
            The log acceptance probability of each proposal, at most zero.
        """
        raise NotImplementedError(f"family {self.name!r} has an optimized_share but no log_accept")


def limit_density(log_safe: Floats, log_optimized: Floats, log_beta: float) -> Floats:
    """The policy at a beta of zero or infinity; it never acts where the safe policy does not."""
    log_safe, log_optimized = np.broadcast_arrays(log_safe, log_optimized)
    if log_beta < 0:
        return np.array(log_safe)
    return np.where(np.isneginf(log_safe), -np.inf, log_optimized)
