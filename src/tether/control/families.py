"""The families of the package: clip, mix and budgeted clip."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from tether._core.types import Floats
from tether.control.family import Family, limit_density


class _ClipKernel(Family):
    """What clip and budgeted clip share: the kernel min(optimized, β·safe)."""

    saturates: ClassVar[bool] = True
    clips: ClassVar[bool] = True

    def log_kernel(self, log_safe: Floats, log_optimized: Floats, log_beta: float) -> Floats:
        """The smaller of the two log-densities, the safe one raised by log beta."""
        return np.minimum(log_optimized, log_safe + log_beta)

    def log_acceptance(self, log_beta: float, log_psi: Floats) -> Floats:
        """ψ / min(β, 1), at most one."""
        if np.isinf(log_beta):
            return np.zeros_like(log_psi)
        return np.minimum(log_psi - min(log_beta, 0.0), 0.0)

    def log_ratio_bounds(
        self, log_ratio: Floats, left: float, right: float, log_psi: Callable[[float], Floats]
    ) -> tuple[Floats, Floats]:
        """Bounds from the monotone numerator min(ρ, β) and the monotone ψ(β)."""
        return _clip_bounds(log_ratio, left, right, log_psi(left), log_psi(right))

    def optimized_share(self, log_beta: float) -> float:
        """All proposals from the safe policy below β = 1, all from the optimized one above."""
        return 0.0 if log_beta < 0 else 1.0

    def log_accept(self, log_ratio: Floats, log_beta: float) -> Floats:
        """min(1, ρ/β) for proposals of the safe policy, min(1, β/ρ) for the optimized one's."""
        excess = log_ratio - log_beta
        return np.minimum(excess if log_beta < 0 else -excess, 0.0)


@final
@dataclass(frozen=True)
class Clip(_ClipKernel):
    """The density min(optimized, β·safe) / ψ(β): actions become at most β/ψ times as likely.

    Its smoothness is 1, whatever the policies are. Proposing from the safe policy below β = 1 and
    from the optimized one above it, a sampler accepts a share ψ / min(β, 1) of its proposals.

    Examples
    --------
    >>> Clip().log_density(np.log([0.5]), np.log([0.9]), 0.0, np.log(0.8)).round(3)
    array([-0.47])
    """

    name: ClassVar[str] = "clip"
    smoothness: ClassVar[float | None] = 1.0

    def log_density(
        self, log_safe: Floats, log_optimized: Floats, log_beta: float, log_psi: Floats | float
    ) -> Floats:
        """The kernel over its integral."""
        if np.isinf(log_beta):
            return limit_density(log_safe, log_optimized, log_beta)
        return np.asarray(self.log_kernel(log_safe, log_optimized, log_beta) - log_psi)


@final
@dataclass(frozen=True)
class Mix(Family):
    """The density (safe + β·optimized) / (1 + β): a share β/(1+β) is optimized.

    Its smoothness is 1, it needs no normalizing constant, and one draw always suffices. Its ratio
    to the safe policy has no bound that holds before the optimized policy's ratios are seen.

    Examples
    --------
    >>> Mix().optimized_share(np.log(3.0))
    0.75
    """

    name: ClassVar[str] = "mix"
    smoothness: ClassVar[float | None] = 1.0
    normalized: ClassVar[bool] = True
    single_draw: ClassVar[bool] = True

    def log_kernel(self, log_safe: Floats, log_optimized: Floats, log_beta: float) -> Floats:
        """The density itself."""
        return self.log_density(log_safe, log_optimized, log_beta, 0.0)

    def log_density(
        self, log_safe: Floats, log_optimized: Floats, log_beta: float, log_psi: Floats | float
    ) -> Floats:
        """The log of a weighted average of the two densities."""
        if np.isinf(log_beta):
            return limit_density(log_safe, log_optimized, log_beta)
        mixed = np.logaddexp(log_safe, log_optimized + log_beta) - np.logaddexp(0.0, log_beta)
        return np.asarray(mixed, dtype=np.float64)

    def log_acceptance(self, log_beta: float, log_psi: Floats) -> Floats:
        """Every draw is accepted."""
        return np.zeros_like(log_psi)

    def log_ratio_bounds(
        self, log_ratio: Floats, left: float, right: float, log_psi: Callable[[float], Floats]
    ) -> tuple[Floats, Floats]:
        """Bounds from the monotone numerator 1 + β·ρ and the monotone denominator 1 + β."""
        lower = np.logaddexp(0.0, log_ratio + left) - np.logaddexp(0.0, right)
        upper = np.logaddexp(0.0, log_ratio + right) - np.logaddexp(0.0, left)
        return _quotient_bounds(lower, upper, right - left)

    def optimized_share(self, log_beta: float) -> float:
        """β / (1 + β)."""
        return float(np.exp(-np.logaddexp(0.0, -log_beta)))

    def log_accept(self, log_ratio: Floats, log_beta: float) -> Floats:
        """Every draw is accepted."""
        return np.zeros_like(log_ratio)


@final
@dataclass(frozen=True)
class BudgetedClip(_ClipKernel):
    """Clip under a latency limit: after `max_draws` rejected proposals the safe policy acts.

    With p the acceptance rate of clip, the deployed density is c·clip + (1 − c)·safe where
    c = 1 − (1 − p)^max_draws. Calibrating this family rather than clip keeps the promise honest
    when the sampler gives up. Its smoothness has no constant and is measured.

    Parameters
    ----------
    max_draws : int, default 16
        The most proposals for one action.

    Raises
    ------
    TypeError, ValueError
        If `max_draws` is not an integer of at least 1.

    Examples
    --------
    >>> BudgetedClip(4).name
    'budgeted_clip(4)'
    """

    max_draws: int = 16

    def __post_init__(self) -> None:
        if isinstance(self.max_draws, bool) or not isinstance(self.max_draws, (int, np.integer)):
            raise TypeError(f"max_draws must be an integer, got {self.max_draws!r}")
        if self.max_draws < 1:
            raise ValueError(f"max_draws must be at least 1, got {self.max_draws!r}")

    @property
    def name(self) -> str:
        """The family and its budget."""
        return f"budgeted_clip({self.max_draws})"

    def log_density(
        self, log_safe: Floats, log_optimized: Floats, log_beta: float, log_psi: Floats | float
    ) -> Floats:
        """The log of c·clip + (1 − c)·safe."""
        if np.isinf(log_beta):
            return limit_density(log_safe, log_optimized, log_beta)
        clipped = Clip().log_density(log_safe, log_optimized, log_beta, log_psi)
        return _with_fallback(clipped, log_safe, self.log_fallback(log_beta, np.asarray(log_psi)))

    def log_fallback(self, log_beta: float, log_psi: Floats) -> Floats:
        """Log of (1 − p)^max_draws, the share of actions that the safe policy takes in the end.

        Parameters
        ----------
        log_beta : float
            The control parameter.
        log_psi : ndarray of float
            Log of the normalizing constant of clip in each context.

        Returns
        -------
        ndarray of float
            The log share in each context.
        """
        with np.errstate(divide="ignore"):
            rejected = np.log1p(-np.exp(self.log_acceptance(log_beta, log_psi)))
        return np.asarray(self.max_draws * rejected)

    def log_ratio_bounds(
        self, log_ratio: Floats, left: float, right: float, log_psi: Callable[[float], Floats]
    ) -> tuple[Floats, Floats]:
        """Clip's bounds mixed with 1 by a share that is monotone on either side of β = 1."""
        psi_left, psi_right = log_psi(left), log_psi(right)
        low, high = _clip_bounds(log_ratio, left, right, psi_left, psi_right)
        ends = [self.log_fallback(left, psi_left), self.log_fallback(right, psi_right)]
        if left < 0 < right:  # the acceptance rate falls until β = 1 and rises from there
            ends.append(self.log_fallback(0.0, log_psi(0.0)))
        least: Floats = np.minimum.reduce(ends)
        most: Floats = np.maximum.reduce(ends)
        return (
            _with_fallback(low, 0.0, np.where(low < 0, least, most)),
            _with_fallback(high, 0.0, np.where(high > 0, least, most)),
        )


def find_family(family: str | Family) -> Family:
    """Return the family with a name, or check and return a family object.

    Parameters
    ----------
    family : str or Family
        "clip", "mix", "budgeted_clip", "budgeted_clip(N)", or an object derived from `Family`.

    Returns
    -------
    Family
        The family.

    Raises
    ------
    TypeError, ValueError
        If there is no family of that name, or the object is not a family with a name.

    Examples
    --------
    >>> find_family("clip"), find_family("budgeted_clip(4)")
    (Clip(), BudgetedClip(max_draws=4))
    """
    if isinstance(family, str):
        named: dict[str, Family] = {"clip": Clip(), "mix": Mix(), "budgeted_clip": BudgetedClip()}
        if family in named:
            return named[family]
        if budgeted := re.fullmatch(r"budgeted_clip\((\d+)\)", family):
            return BudgetedClip(int(budgeted[1]))
        raise ValueError(
            f"family must be 'clip', 'mix', 'budgeted_clip' (or 'budgeted_clip(N)') "
            f"or an object derived from tether.Family, got {family!r}"
        )
    if isinstance(family, type):
        raise TypeError(f"family must be an object, not a class: write {family.__name__}()")
    if not isinstance(family, Family):
        raise TypeError(f"family must be derived from tether.Family, got {family!r}")
    _check_declarations(family)
    return family


def _check_declarations(family: Family) -> None:
    """Refuse a user's family that says something of itself that cannot be true."""
    if isinstance(family, (Clip, Mix, BudgetedClip)):
        return
    name, limit, known = getattr(family, "name", None), family.max_draws, family.smoothness
    if not isinstance(name, str) or not name:
        raise TypeError(f"family {family!r} has no name: set the attribute `name` to a string")
    if re.fullmatch(r"clip|mix|budgeted_clip(\(\d+\))?", name):
        raise ValueError(f"family {family!r} has the name of a family of the package, {name!r}")
    if known is not None and not (isinstance(known, (int, float)) and 0 <= known < np.inf):
        raise ValueError(f"family {name!r} has smoothness {known!r}, expected None or a number")
    if limit is not None and (not isinstance(limit, int) or limit < 1):
        raise ValueError(f"family {name!r} has max_draws {limit!r}, expected None or an integer")
    if limit is not None and type(family).log_density is Family.log_density:
        raise TypeError(f"family {name!r} has max_draws: its log_density must include the fallback")
    log_safe, log_optimized = np.array([-1.0, -1.0]), np.array([-2.0, 0.5])
    kernel = np.minimum(log_optimized, log_safe + 0.5)
    if family.clips and not np.allclose(family.log_kernel(log_safe, log_optimized, 0.5), kernel):
        raise ValueError(f"family {name!r} says that it clips, but its kernel is not clip's")


def _clip_bounds(
    log_ratio: Floats, left: float, right: float, psi_left: Floats, psi_right: Floats
) -> tuple[Floats, Floats]:
    """Bounds on min(ρ, β)/ψ(β), given log ψ at both ends of the interval."""
    lower = np.minimum(log_ratio, left) - psi_right
    upper = np.minimum(log_ratio, right) - psi_left
    return _quotient_bounds(lower, upper, right - left)


def _quotient_bounds(lower: Floats, upper: Floats, width: float) -> tuple[Floats, Floats]:
    """Bounds on numerator/denominator where both rise with beta, and fall when divided by it.

    Between two betas a factor e^width apart the quotient is at most `upper` (numerator right over
    denominator left) and at most e^width times `lower` (the mirror image), and likewise from below.
    Where nothing changes the bounds meet, so a plateau of any length is certified at once.
    """
    return np.maximum(lower, upper - width), np.minimum(upper, lower + width)


def _with_fallback(log_clip: Floats, log_safe: Floats | float, log_fallback: Floats) -> Floats:
    """The log of c·clip + (1 − c)·safe, given the log of 1 − c."""
    with np.errstate(divide="ignore"):
        log_kept = np.log(-np.expm1(log_fallback))
    return np.asarray(np.logaddexp(log_kept + log_clip, log_fallback + log_safe))
