"""The families of the package: clip, mix and budgeted clip."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from tether._core.types import Floats
from tether.control.family import Family, limit_density
from tether.control.policy_path import PATH_NAME, PathFamily

NEGLIGIBLE_LOG_ACCEPTANCE = -40.0
"""Below this log acceptance rate, c/p differs from the budget by less than rounding."""
LAST_LOG_BETA_OF_SAFE = float(np.nextafter(0.0, -1.0))
"""The largest log beta at which the safe policy proposes."""


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
        self,
        log_safe: Floats,
        log_optimized: Floats,
        log_beta: float | Floats,
        log_psi: Floats | float,
    ) -> Floats:
        """The log of a weighted average of the two densities; beta may differ between actions."""
        if np.ndim(log_beta) == 0 and np.isinf(log_beta):
            return limit_density(log_safe, log_optimized, float(log_beta))
        with np.errstate(invalid="ignore"):  # where beta is infinite
            mixed = np.logaddexp(log_safe, log_optimized + log_beta) - np.logaddexp(0.0, log_beta)
        if np.isposinf(log_beta).any():
            limit = limit_density(log_safe, log_optimized, np.inf)
            mixed = np.where(np.isposinf(log_beta), limit, mixed)
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
    when the sampler gives up. It is also what clip becomes where its normalizing constant is not
    known exactly, because its density is a plain average over fresh proposals. Its smoothness has
    no constant: the change of each row's weight is measured instead.

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
        """The log of c·clip + (1 − c)·safe, from the exact averages."""
        averages = self.log_averages(log_beta, np.asarray(log_psi))
        return self.log_budgeted_density(log_safe, log_optimized, log_beta, *averages)

    def log_budgeted_density(
        self,
        log_safe: Floats,
        log_optimized: Floats,
        log_beta: float,
        log_tries: Floats,
        log_fallback: Floats,
    ) -> Floats:
        """The log of S·min(optimized, β·safe)/min(β, 1) + D·safe.

        Parameters
        ----------
        log_safe, log_optimized : ndarray of float
            Log-densities of the two policies at the same actions.
        log_beta : float
            The control parameter.
        log_tries, log_fallback : ndarray of float
            Logs of S, the expected number of proposals, and of D, the probability that all of them
            are rejected, in the context of each action: exact, or unbiased estimates.

        Returns
        -------
        ndarray of float
            The log-density at each action.
        """
        if np.isinf(log_beta):
            return limit_density(log_safe, log_optimized, log_beta)
        proposed = self.log_kernel(log_safe, log_optimized, log_beta) - min(log_beta, 0.0)
        return np.asarray(np.logaddexp(log_tries + proposed, log_fallback + log_safe))

    def log_averages(self, log_beta: float, log_psi: Floats) -> tuple[Floats, Floats]:
        """Compute the log number of proposals and the log share that the safe policy takes.

        With p the acceptance rate these are c/p and 1 − c, where c = 1 − (1 − p)^max_draws.

        Parameters
        ----------
        log_beta : float
            The control parameter.
        log_psi : ndarray of float
            Log of the normalizing constant of clip in each context.

        Returns
        -------
        log_tries, log_fallback : ndarray of float
            One of each per context.
        """
        log_accepted = self.log_acceptance(log_beta, log_psi)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_fallback = self.max_draws * np.log1p(-np.exp(log_accepted))
            log_tries = np.log(-np.expm1(log_fallback)) - log_accepted
        # Where hardly any proposal is accepted, c/p is the budget, and p itself may underflow.
        rare = log_accepted < NEGLIGIBLE_LOG_ACCEPTANCE
        return np.where(rare, np.log(self.max_draws), log_tries), log_fallback

    def log_ratio_bounds(
        self, log_ratio: Floats, left: float, right: float, log_psi: Callable[[float], Floats]
    ) -> tuple[Floats, Floats]:
        """Bounds from the exact averages at both ends."""

        def averages(log_beta: float) -> tuple[Floats, Floats]:
            return self.log_averages(log_beta, log_psi(log_beta))

        return self.budgeted_bounds(log_ratio, left, right, averages)

    def budgeted_bounds(
        self,
        log_ratio: Floats,
        left: float,
        right: float,
        averages: Callable[[float], tuple[Floats, Floats]],
    ) -> tuple[Floats, Floats]:
        """Bound the log of S·min(ρ, β)/min(β, 1) + D while log beta is in an interval.

        Below β = 1 the first factor falls with beta while S and D rise; above it is the reverse. At
        1 the proposals change from one policy to the other.

        Parameters
        ----------
        log_ratio : ndarray of float
            Log optimized/safe density of each action.
        left, right : float
            The ends of the interval of log beta.
        averages : callable
            From a log beta to the logs of S and D in each action's context.

        Returns
        -------
        low, high : ndarray of float
            Bounds for each action.
        """
        if left < 0 <= right:
            below = self.budgeted_bounds(log_ratio, left, LAST_LOG_BETA_OF_SAFE, averages)
            above = self.budgeted_bounds(log_ratio, 0.0, right, averages)
            return np.minimum(below[0], above[0]), np.maximum(below[1], above[1])
        fewest, most = (left, right) if right < 0 else (right, left)
        high_proposed, low_proposed = (
            np.minimum(log_ratio, log_beta) - min(log_beta, 0.0) for log_beta in (fewest, most)
        )
        (low_tries, low_fallback), (high_tries, high_fallback) = averages(fewest), averages(most)
        low = np.logaddexp(low_proposed + low_tries, low_fallback)
        high = np.logaddexp(high_proposed + high_tries, high_fallback)
        return low, high


def find_family(family: str | Family) -> Family:
    """Return the family with a name, or check and return a family object.

    Parameters
    ----------
    family : str or Family
        "clip", "mix", "budgeted_clip", "budgeted_clip(N)", the family of a path ("token_clip",
        "token_mix"), or an object derived from `Family`.

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
        if PATH_NAME.fullmatch(family):
            return PathFamily(family)
        raise ValueError(
            f"family must be 'clip', 'mix', 'budgeted_clip' (or 'budgeted_clip(N)'), the family of "
            f"a path ('token_clip' or 'token_mix') or an object derived from tether.Family, got "
            f"{family!r}"
        )
    if isinstance(family, type):
        raise TypeError(f"family must be an object, not a class: write {family.__name__}()")
    if not isinstance(family, Family):
        raise TypeError(f"family must be derived from tether.Family, got {family!r}")
    _check_declarations(family)
    return family


def is_of_package(family: Family) -> bool:
    """Whether a family is the package's own: pure, and safe to call from several threads."""
    return isinstance(family, (Clip, Mix, BudgetedClip, PathFamily))


def _check_declarations(family: Family) -> None:
    """Refuse a user's family that says something of itself that cannot be true."""
    if is_of_package(family):
        return
    name, limit, known = getattr(family, "name", None), family.max_draws, family.smoothness
    if not isinstance(name, str) or not name:
        raise TypeError(f"family {family!r} has no name: set the attribute `name` to a string")
    if re.fullmatch(r"clip|mix|budgeted_clip(\(\d+\))?|" + PATH_NAME.pattern, name):
        raise ValueError(f"family {family!r} has the name of a family of the package, {name!r}")
    is_number = isinstance(known, (int, float)) and not isinstance(known, bool)
    if known is not None and not (is_number and 0 <= known < np.inf):
        raise ValueError(f"family {name!r} has smoothness {known!r}, expected None or a number")
    is_count = isinstance(limit, int) and not isinstance(limit, bool)
    if limit is not None and not (is_count and limit >= 1):
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
