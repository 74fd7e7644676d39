"""Families: how beta turns a safe and an optimized policy into one tethered policy.

A family states the density of its tethered policy, the kernel whose integral is the normalizing
constant ψ, and how to draw from it. Its smoothness K bounds how fast it changes: log density moves
by at most K times the change of log beta, at every action.

To bring a family of your own, derive from `Family` and write `log_kernel`; every other member has
a default. `examples/own_family.py` does it for the geometric path between two policies.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from tether._core import validate
from tether._core.arrays import Floats

DEFAULT_BLEND = 0.01  # the share of the safe policy in a blend
DEFAULT_BUDGET = 16  # the most proposals per action where the user states none
SMALLEST_LOG_ACCEPTANCE = -700.0  # smaller rates count as this: its exponential is a float
PATH_NAME = re.compile(r"token_(clip|mix)(\((0\.\d+)\))?")  # in parentheses the share of a blend


class Family(ABC):
    """One way to interpolate between a safe and an optimized policy, indexed by beta.

    All densities are logs, all functions broadcast, and `log_beta` is one number: −inf gives the
    safe policy, +inf the optimized one. Only `log_kernel` must be written.
    """

    smoothness: ClassVar[float | None] = None  # K, or None where it is not known
    normalized: ClassVar[bool] = False  # whether the kernel integrates to one: ψ is not needed
    clips: ClassVar[bool] = False  # whether the kernel is min(optimized, β·safe)
    single_draw: ClassVar[bool] = False  # whether an action is one draw of one of the policies
    max_draws: int | None = None
    """How many proposals a sampler makes before it takes the safe policy's action; None for no
    limit. A family with a limit states its own `log_density`, fallback included."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What results, errors and the command line call it; a class attribute is accepted."""

    @abstractmethod
    def log_kernel(self, log_safe: Floats, log_optimized: Floats, log_beta: float) -> Floats:
        """Log of the function whose integral over actions is the normalizing constant ψ."""

    def log_density(
        self, log_safe: Floats, log_optimized: Floats, log_beta: float, log_psi: Floats | float
    ) -> Floats:
        """Log-density of the tethered policy: the kernel over its integral."""
        if np.isinf(log_beta):
            return limit_density(log_safe, log_optimized, log_beta)
        log_kernel = self.log_kernel(log_safe, log_optimized, log_beta)
        return np.asarray(log_kernel if self.normalized else log_kernel - log_psi)

    def log_acceptance(self, log_beta: float, log_psi: Floats) -> Floats:
        """Log of the share of proposals that a sampler accepts; NaN where it is unknown."""
        return np.full_like(log_psi, np.nan)

    def optimized_share(self, log_beta: float) -> float | None:
        """The share of proposals from the optimized policy; None without a sampler of its own."""
        return None

    def log_accept(self, log_ratio: Floats, log_beta: float) -> Floats:
        """Log of the probability that a proposal is accepted, given its likelihood ratio.

        It must be the kernel over the density of the proposals, up to a constant: with s the
        `optimized_share`, kernel / ((1 − s)·safe + s·optimized), scaled to at most one.
        """
        raise NotImplementedError(f"family {self.name!r} has an optimized_share but no log_accept")


def limit_density(log_safe: Floats, log_optimized: Floats, log_beta: float) -> Floats:
    """The policy at a beta of zero or infinity; it never acts where the safe policy does not."""
    log_safe, log_optimized = np.broadcast_arrays(log_safe, log_optimized)
    if log_beta < 0:
        return np.array(log_safe)
    return np.where(np.isneginf(log_safe), -np.inf, log_optimized)


def blend_scores(log_optimized: Floats, log_safe: Floats, blend: float) -> Floats:
    """Log-densities of the blend (1 − δ)·optimized + δ·safe.

    As beta goes to zero clip keeps the zeros of the optimized policy (an argmax, a sampler with a
    cut-off); the blend has none, and differs from the optimized policy by at most δ.
    """
    if not blend:
        return log_optimized
    return np.asarray(
        np.logaddexp(np.log1p(-blend) + log_optimized, np.log(blend) + log_safe), dtype=np.float64
    )


class _ClipKernel(Family):
    """What clip and budgeted clip share: the kernel min(optimized, β·safe)."""

    clips: ClassVar[bool] = True

    def log_kernel(self, log_safe: Floats, log_optimized: Floats, log_beta: float) -> Floats:
        """The smaller of the two log-densities, the safe one raised by log beta."""
        return np.minimum(log_optimized, log_safe + log_beta)

    def log_acceptance(self, log_beta: float, log_psi: Floats) -> Floats:
        """ψ / min(β, 1), at most one."""
        if np.isinf(log_beta):
            return np.zeros_like(log_psi)
        return np.minimum(log_psi - min(log_beta, 0.0), 0.0)


@final
@dataclass(frozen=True)
class Clip(_ClipKernel):
    """The density min(optimized, β·safe) / ψ(β): actions become at most β/ψ times as likely.

    Its smoothness is 1, whatever the policies are. Proposing from the safe policy below β = 1 and
    from the optimized one above it, a sampler accepts a share ψ / min(β, 1) of its proposals.
    """

    name: ClassVar[str] = "clip"
    smoothness: ClassVar[float | None] = 1.0


@final
@dataclass(frozen=True)
class Mix(Family):
    """The density (safe + β·optimized) / (1 + β): a share β/(1+β) is optimized.

    Its smoothness is 1, it needs no normalizing constant, and one draw always suffices. Its ratio
    to the safe policy has no bound that holds before the optimized policy's ratios are seen.
    """

    name: ClassVar[str] = "mix"
    smoothness: ClassVar[float | None] = 1.0
    normalized: ClassVar[bool] = True
    single_draw: ClassVar[bool] = True

    def log_kernel(self, log_safe: Floats, log_optimized: Floats, log_beta: float) -> Floats:
        """The log of a weighted average of the two densities: the density itself."""
        mixed = np.logaddexp(log_safe, log_optimized + log_beta) - np.logaddexp(0.0, log_beta)
        return np.asarray(mixed, dtype=np.float64)

    def log_acceptance(self, log_beta: float, log_psi: Floats) -> Floats:
        """Every draw is accepted."""
        return np.zeros_like(log_psi)

    def optimized_share(self, log_beta: float) -> float:
        """β / (1 + β)."""
        return float(np.exp(-np.logaddexp(0.0, -log_beta)))


@final
@dataclass(frozen=True)
class BudgetedClip(_ClipKernel):
    """Clip under a latency limit: after `max_draws` rejected proposals the safe policy acts.

    With p the acceptance rate of clip, the deployed density is c·clip + (1 − c)·safe where
    c = 1 − (1 − p)^max_draws. Calibrating this family rather than clip keeps the promise honest
    when the sampler gives up. It is also what clip becomes where its normalizing constant is not
    known exactly, because its density is a plain average over fresh proposals.

    Parameters
    ----------
    max_draws : int, default 16
        The most proposals for one action.
    """

    max_draws: int = DEFAULT_BUDGET

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_draws", validate.integer("max_draws", self.max_draws))

    @property
    def name(self) -> str:
        """The family and its budget."""
        return f"budgeted_clip({self.max_draws})"

    def log_density(
        self, log_safe: Floats, log_optimized: Floats, log_beta: float, log_psi: Floats | float
    ) -> Floats:
        """The log of S·min(optimized, β·safe)/min(β, 1) + D·safe, with exact averages S and D."""
        if np.isinf(log_beta):
            return limit_density(log_safe, log_optimized, log_beta)
        accepted = self.log_acceptance(log_beta, np.asarray(log_psi))
        log_tries, log_fallback = exact_averages(accepted, self.max_draws)
        proposed = self.log_kernel(log_safe, log_optimized, log_beta) - min(log_beta, 0.0)
        return np.asarray(np.logaddexp(log_tries + proposed, log_fallback + log_safe))


def exact_averages(log_accepted: Floats, budget: int) -> tuple[Floats, Floats]:
    """Logs of S, the number of proposals, and D, the share that the safe policy takes.

    With p the acceptance rate these are c/p and 1 − c, where c = 1 − (1 − p)^budget.
    """
    log_accepted = np.maximum(log_accepted, SMALLEST_LOG_ACCEPTANCE)
    with np.errstate(divide="ignore"):
        log_fallback = budget * np.log1p(-np.exp(log_accepted))
    return np.log(-np.expm1(log_fallback)) - log_accepted, log_fallback


@dataclass(frozen=True)
class PathFamily(Family):
    """A family that exists at the betas of a path, where its densities were computed."""

    name: str = "token_clip"
    normalized: ClassVar[bool] = True

    def log_kernel(self, log_safe: Floats, log_optimized: Floats, log_beta: float) -> Floats:
        """Not defined: the scores of the two policies do not determine the density."""
        raise TypeError(
            f"family {self.name!r} is tethered at every token, and scores of whole answers do not "
            f"determine it: tether.llm.TokenTether makes its log and serves it"
        )


def find_family(family: str | Family) -> Family:
    """Return the family with a name, or check and return a family object.

    Parameters
    ----------
    family : str or Family
        "clip", "mix", "budgeted_clip", "budgeted_clip(N)", the family of a path ("token_clip",
        "token_mix"), or an object derived from `Family`.

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
            f"family must be 'clip', 'mix', 'budgeted_clip', 'budgeted_clip(N)', 'token_clip', "
            f"'token_mix' or one derived from tether.control.Family, got {family!r}"
        )
    if not isinstance(family, Family):
        raise TypeError(f"family must be an object derived from Family, got {family!r}")
    if isinstance(family, (Clip, Mix, BudgetedClip, PathFamily)):
        return family
    name, known = getattr(family, "name", None), family.smoothness
    taken = r"clip|mix|budgeted_clip(\(\d+\))?|" + PATH_NAME.pattern
    own = isinstance(name, str) and not re.fullmatch("|" + taken, name)
    falls_back = family.max_draws is None or type(family).log_density is not Family.log_density
    if not own or not falls_back or family.clips or not (known is None or 0 <= known < np.inf):
        raise ValueError(
            f"family {family!r} must have a name of its own (got {name!r}), a smoothness that is "
            f"None or a number of at least 0, no clips (which is family 'clip' itself) and, if it "
            f"has max_draws, a log_density of its own that includes the fallback"
        )
    return family
