"""Families: how beta turns a safe and an optimized policy into one tethered policy.

A family states the density of its tethered policy, what its normalizer is the integral of, how
much a sampler pays for one action, and how smooth it is: with smoothness K, log density moves by
at most K times the change of log beta, at every action. The guarantee rests on that number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, final, runtime_checkable

import numpy as np

from tether._core.types import Floats


@runtime_checkable
class Family(Protocol):
    """What calibration and sampling ask of a family; any object with these members is one.

    All densities are logs, all functions broadcast, and `log_beta` is one number: −inf gives the
    safe policy, +inf the optimized one. `log_psi` is the log of the integral of `log_kernel`.
    """

    @property
    def name(self) -> str:
        """The word by which errors, results and the command line call it."""
        ...

    @property
    def smoothness(self) -> float | None:
        """K; None asks for it to be measured."""
        ...

    @property
    def normalized(self) -> bool:
        """Whether the kernel already integrates to one, so that no normalizer is needed."""
        ...

    @property
    def saturates(self) -> bool:
        """Whether the policy stops changing once beta leaves the range of the ratios and of 1."""
        ...

    def log_kernel(self, log_safe: Floats, log_optimized: Floats, log_beta: float) -> Floats:
        """Log of the function whose integral over actions is the normalizer ψ."""
        ...

    def log_density(
        self, log_safe: Floats, log_optimized: Floats, log_beta: float, log_psi: Any
    ) -> Floats:
        """Log-density of the tethered policy."""
        ...

    def log_acceptance(self, log_beta: float, log_psi: Any) -> Any:
        """Log of the share of draws that a sampler keeps; NaN where it is not known."""
        ...

    def log_ratio_bound(self, log_beta: float, log_psi: Any) -> Any:
        """Log of a bound on tethered density over safe density; +inf where there is none."""
        ...


@final
@dataclass(frozen=True)
class Clip:
    """min(optimized, β·safe) / ψ(β): no action becomes more than β/ψ times likelier than before.

    Its smoothness is 1, whatever the policies are. Proposing from the safe policy below β = 1 and
    from the optimized one above it, a sampler keeps a share ψ / min(β, 1) of its draws.
    """

    name: ClassVar[str] = "clip"
    smoothness: ClassVar[float | None] = 1.0
    normalized: ClassVar[bool] = False
    saturates: ClassVar[bool] = True

    def log_kernel(self, log_safe: Floats, log_optimized: Floats, log_beta: float) -> Floats:
        """The smaller of the two log-densities, the safe one raised by log beta."""
        return np.minimum(log_optimized, log_safe + log_beta)

    def log_density(
        self, log_safe: Floats, log_optimized: Floats, log_beta: float, log_psi: Any
    ) -> Floats:
        """The kernel over its integral."""
        if np.isinf(log_beta):
            return _limit(log_safe, log_optimized, log_beta)
        return np.asarray(self.log_kernel(log_safe, log_optimized, log_beta) - log_psi)

    def log_acceptance(self, log_beta: float, log_psi: Any) -> Any:
        """ψ / min(β, 1), at most one."""
        if np.isinf(log_beta):
            return np.zeros_like(log_psi)
        return np.minimum(log_psi - min(log_beta, 0.0), 0.0)

    def log_ratio_bound(self, log_beta: float, log_psi: Any) -> Any:
        """β / ψ."""
        return log_beta - np.asarray(log_psi)


@final
@dataclass(frozen=True)
class Mix:
    """(safe + β·optimized) / (1 + β): a share β/(1+β) of the traffic goes to the optimized policy.

    Its smoothness is 1, it needs no normalizer, and one draw always suffices. Its ratio to the
    safe policy has no bound that holds before one sees the optimized policy's ratios.
    """

    name: ClassVar[str] = "mix"
    smoothness: ClassVar[float | None] = 1.0
    normalized: ClassVar[bool] = True
    saturates: ClassVar[bool] = False

    def log_kernel(self, log_safe: Floats, log_optimized: Floats, log_beta: float) -> Floats:
        """The density itself."""
        return self.log_density(log_safe, log_optimized, log_beta, 0.0)

    def log_density(
        self, log_safe: Floats, log_optimized: Floats, log_beta: float, log_psi: Any
    ) -> Floats:
        """The log of a weighted average of the two densities."""
        if np.isinf(log_beta):
            return _limit(log_safe, log_optimized, log_beta)
        mixed = np.logaddexp(log_safe, log_optimized + log_beta) - np.logaddexp(0.0, log_beta)
        return np.asarray(mixed, dtype=np.float64)

    def log_acceptance(self, log_beta: float, log_psi: Any) -> Any:
        """Every draw is kept."""
        return np.zeros_like(log_psi)

    def log_ratio_bound(self, log_beta: float, log_psi: Any) -> Any:
        """None: the optimized policy may be any number of times likelier than the safe one."""
        return np.full_like(log_psi, np.inf)


@final
@dataclass(frozen=True)
class BudgetedClip:
    """Clip under a latency limit: after `draws` rejected draws the safe policy's action is taken.

    With p the share of draws that clip keeps, the deployed density is c·clip + (1 − c)·safe where
    c = 1 − (1 − p)^draws. Calibrating this family rather than clip keeps the promise honest when
    the sampler gives up. Its smoothness has no constant and is measured.
    """

    draws: int = 16
    smoothness: ClassVar[float | None] = None
    normalized: ClassVar[bool] = False
    saturates: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if isinstance(self.draws, bool) or not isinstance(self.draws, (int, np.integer)):
            raise TypeError(f"draws must be a whole number, got {self.draws!r}")
        if self.draws < 1:
            raise ValueError(f"draws must be at least 1, got {self.draws!r}")

    @property
    def name(self) -> str:
        """The family and its budget."""
        return f"budgeted_clip({self.draws})"

    def log_kernel(self, log_safe: Floats, log_optimized: Floats, log_beta: float) -> Floats:
        """The clip kernel: ψ is clip's normalizer."""
        return Clip().log_kernel(log_safe, log_optimized, log_beta)

    def log_density(
        self, log_safe: Floats, log_optimized: Floats, log_beta: float, log_psi: Any
    ) -> Floats:
        """The log of c·clip + (1 − c)·safe."""
        if np.isinf(log_beta):
            return _limit(log_safe, log_optimized, log_beta)
        clipped = Clip().log_density(log_safe, log_optimized, log_beta, log_psi)
        return self.blend(clipped, log_safe, self.log_fallback(log_beta, log_psi))

    @staticmethod
    def blend(log_clip: Floats, log_safe: Floats | float, log_given_up: Any) -> Floats:
        """The log of c·clip + (1 − c)·safe, given the log of 1 − c."""
        with np.errstate(divide="ignore"):
            log_kept = np.log(-np.expm1(log_given_up))
        return np.asarray(np.logaddexp(log_kept + log_clip, log_given_up + log_safe))

    def log_fallback(self, log_beta: float, log_psi: Any) -> Any:
        """Log of (1 − p)^draws, the share of actions that the safe policy takes in the end."""
        log_accepted = self.log_acceptance(log_beta, log_psi)
        with np.errstate(divide="ignore"):
            return self.draws * np.log1p(-np.exp(log_accepted))

    def log_acceptance(self, log_beta: float, log_psi: Any) -> Any:
        """As for clip."""
        return Clip().log_acceptance(log_beta, log_psi)

    def log_ratio_bound(self, log_beta: float, log_psi: Any) -> Any:
        """c·β/ψ + (1 − c)."""
        clipped = Clip().log_ratio_bound(log_beta, log_psi)
        return self.blend(clipped, 0.0, self.log_fallback(log_beta, log_psi))


def find_family(family: str | Family) -> Family:
    """The family a user named, or the object that the user brought.

    >>> find_family("clip"), find_family("budgeted_clip(4)")
    (Clip(), BudgetedClip(draws=4))
    """
    if isinstance(family, str):
        named: dict[str, Family] = {"clip": Clip(), "mix": Mix(), "budgeted_clip": BudgetedClip()}
        if family in named:
            return named[family]
        if budgeted := re.fullmatch(r"budgeted_clip\((\d+)\)", family):
            return BudgetedClip(int(budgeted[1]))
        raise ValueError(
            f"family must be 'clip', 'mix', 'budgeted_clip' (or 'budgeted_clip(N)') "
            f"or an object with the members of tether.Family, got {family!r}"
        )
    if isinstance(family, type):
        raise TypeError(f"family must be an object, not a class: write {family.__name__}()")
    if not isinstance(family, Family):
        members = ("name", "smoothness", "normalized", "saturates", "log_kernel", "log_density")
        members += ("log_acceptance", "log_ratio_bound")
        lacking = [member for member in members if not hasattr(family, member)]
        raise TypeError(f"family {family!r} lacks {', '.join(lacking)} (see tether.Family)")
    return family


def _limit(log_safe: Floats, log_optimized: Floats, log_beta: float) -> Floats:
    """The policy at a beta of zero or infinity; it never acts where the safe policy does not."""
    log_safe, log_optimized = np.broadcast_arrays(log_safe, log_optimized)
    if log_beta < 0:
        return np.array(log_safe)
    return np.where(np.isneginf(log_safe), -np.inf, log_optimized)
