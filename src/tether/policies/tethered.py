"""The tethered policy: the optimized policy as far as beta lets it, and itself a policy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core import policy_calls, validate
from tether._core.contexts import as_contexts, length, parts
from tether._core.plain_arrays import plain_column
from tether._core.types import Actions, Contexts, Floats
from tether.control.calibrate import family_and_beta
from tether.control.calibration import Calibration
from tether.control.families import Family
from tether.policies.aligned_actions import align_actions
from tether.policies.family_checks import check_family
from tether.policies.mixture import Mixture
from tether.policies.normalizer import (
    SCORES_PER_PART,
    Normalizer,
    density_with_error,
    exact_normalizer,
    joined,
    normalizers_by_context,
)
from tether.policies.policy import PolicyLike, as_policy, shared_actions
from tether.policies.served_policies import check_served, default_outside, require_safe
from tether.policies.table_policy import picked, positions
from tether.sampling.discrete import sample_categorical
from tether.sampling.policy_pair import PolicyPair
from tether.sampling.rejection_sampling import MAX_DRAWS
from tether.sampling.samplers import SAMPLERS, draw_tethered
from tether.sampling.sampling_info import SamplingInfo, direct_info, exact_info

NORMALIZER_DRAWS, NORMALIZER_DRAWS_PER_CONTEXT = 1 << 16, 1 << 8
"""Draws of each policy for a normalizer: without contexts, and in each context."""
NORMALIZER_STREAM = 7919
"""Keeps the draws for normalizers apart from any random stream that the user has."""
INFINITE_LOG_BETA = 1e15
"""A log beta past every log ratio: clip is then the optimized policy on the safe one's actions."""


class Tethered:
    """A policy between a safe and an optimized one: beta 0 is the safe one, inf the optimized one.

    Over finitely many actions scores and draws are exact. Otherwise draws are exact too (accept-
    reject needs no normalizing constant), and `log_prob` estimates ψ(β, x) from draws of each
    policy, always with the same seed, to the standard error that `normalizer` states.

    Parameters
    ----------
    safe, optimized : Policy
        The two policies; a scikit-learn classifier or a torch distribution will do.
    beta : float or Calibration
        How far the optimized policy may pull away. A calibration brings its family along, and the
        share of the safe policy that it blended into the optimized one.
    family : str or Family, optional
        How beta turns two policies into one; "clip" by default.
    sampler : str, default "auto"
        What proposes for clip: "auto", "safe", "optimized", a mixture ("grid", "overlap",
        "adaptive"), or "metropolis".
    max_draws : int, default 100,000
        An action that takes more proposals than this is an error.
    normalizer_draws : int, optional
        Draws of each policy per context for an estimate of ψ; by default 256 in each context, and
        65,536 without contexts.
    seed : int, default 0
        The seed of these draws.
    outside : str, optional
        What to do with actions that only the optimized policy takes: refuse them ("error"), or,
        for clip, never take them ("never"). An infinite beta is then the optimized policy
        restricted to the safe one's actions. By default "never" if the calibration saw such
        actions, and is of the restricted policy, otherwise "error".

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or value, or does not fit the family.

    Examples
    --------
    >>> from tether import Gaussian
    >>> policy = Tethered(Gaussian(0.0), Gaussian(1.0), 0.5)
    >>> policy.sample(3, np.random.default_rng(0)).round(2)
    array([ 0.13, -0.13,  0.64])
    """

    __slots__ = ("__dict__", "__weakref__", "calibration")
    # The calibration is not in `vars`: where beta comes from is no part of what the policy is.

    def __init__(
        self,
        safe: PolicyLike,
        optimized: PolicyLike,
        beta: float | Calibration,
        *,
        family: str | Family | None = None,
        sampler: str = "auto",
        max_draws: int = MAX_DRAWS,
        normalizer_draws: int | None = None,
        seed: int = 0,
        outside: str | None = None,
    ) -> None:
        require_safe(safe, beta)
        given = as_policy("safe", safe), as_policy("optimized", optimized)
        self.safe, self.optimized = align_actions(*given)
        self.calibration = beta if isinstance(beta, Calibration) else None
        self.blend = 0.0 if self.calibration is None else self.calibration.blend
        if self.calibration is not None:
            check_served(self.safe, self.optimized, self.calibration)
        if self.blend:
            self.optimized = Mixture.blend(self.optimized, self.safe, self.blend)
        self.family, self.log_beta = family_and_beta(beta, family)
        self.sampler = validate.choice("sampler", sampler, SAMPLERS)
        self.max_draws = validate.integer("max_draws", max_draws, 1)
        self.seed = validate.integer("seed", seed, 0)
        check_family(self.family, self.sampler, self.max_draws)
        if normalizer_draws is not None:
            normalizer_draws = validate.integer("normalizer_draws", normalizer_draws, 2)
        self.normalizer_draws = normalizer_draws
        outside = default_outside(self.calibration, self.family) if outside is None else outside
        strict = validate.choice("outside", outside, ("error", "never")) == "error"
        if not strict and not self.family.clips:
            raise ValueError(
                f"outside='never' is for clip; family {self.family.name!r} takes all actions of "
                f"the optimized policy"
            )
        self._log_beta = self.log_beta
        if not strict and self.log_beta == np.inf:
            self._log_beta = INFINITE_LOG_BETA
        self._pair = PolicyPair(self.safe, self.optimized, strict=strict)
        self._marginal = isinstance(beta, Calibration) and not (
            beta.contextual or self.family.normalized or np.isinf(self._log_beta)
        )
        self._remembered: Normalizer | None = None
        self.actions = shared_actions((self.safe, self.optimized))

    @property
    def beta(self) -> float:
        """How far the optimized policy may pull away."""
        with np.errstate(over="ignore"):
            return float(np.exp(self.log_beta))

    def sample(self, contexts: Contexts, rng: np.random.Generator) -> NDArray[Any]:
        """Draw one action per context.

        Parameters
        ----------
        contexts : array, data frame or int
            One row per context, or the number of actions where there are no contexts.
        rng : numpy.random.Generator
            The source of randomness.

        Returns
        -------
        ndarray
            One action per context.
        """
        return self.sample_with_info(contexts, rng)[0]

    def sample_with_info(
        self, contexts: Contexts, rng: np.random.Generator
    ) -> tuple[NDArray[Any], SamplingInfo]:
        """Draw one action per context, and say what the draws cost.

        Parameters
        ----------
        contexts, rng : array and numpy.random.Generator
            As for `sample`.

        Returns
        -------
        actions : ndarray
            One action per context.
        info : SamplingInfo
            Draws, acceptance rate and method.
        """
        validate.generator("rng", rng)
        contexts = self._as_contexts(contexts)
        if self._log_beta == -np.inf:
            actions = policy_calls.draw("safe", self.safe, contexts, rng)
            return actions, direct_info("safe policy", len(actions), len(actions))
        if self.actions is not None and (self.sampler == "auto" or self.log_beta == np.inf):
            return self._sample_exactly(contexts, rng)
        if self._log_beta == np.inf:
            drawn = self._pair.propose(0.0, contexts, rng)
            return drawn.actions, direct_info("optimized policy", len(drawn.actions), 0)
        return draw_tethered(
            self._pair,
            self.family,
            self._log_beta,
            contexts,
            rng,
            sampler="auto" if self.log_beta == np.inf else self.sampler,
            max_draws=self.max_draws,
        )

    def log_prob(self, contexts: Contexts | None, actions: Actions) -> Floats:
        """Score each action; exact where `normalizer(contexts).exact`.

        Parameters
        ----------
        contexts : array, data frame, int or None
            One row per context, or the number of actions (or None) where there are no contexts.
        actions : array
            One action per context.

        Returns
        -------
        ndarray of float
            The log-probability or log-density of each action.
        """
        actions = plain_column("actions", actions)
        contexts = self._as_contexts(contexts, actions)
        if self._log_beta == -np.inf:  # whatever the optimized policy does
            return policy_calls.score("safe", self.safe, contexts, actions)
        if self.actions is not None:
            place = positions(self.actions, actions)
            parts_of_table = self._tables(contexts)
            return np.concatenate(
                [picked(self._log_density(*pair), place[rows]) for rows, *pair in parts_of_table]
            )
        return self._estimated(contexts, actions)[0]

    def log_prob_with_error(
        self, contexts: Contexts | None, actions: Actions
    ) -> tuple[Floats, Floats]:
        """Score each action, with the standard error of the score.

        Parameters
        ----------
        contexts, actions : array
            As for `log_prob`.

        Returns
        -------
        log_prob : ndarray of float
            The log-probability or log-density of each action.
        standard_error : ndarray of float
            0 where the score is exact, inf where too few draws count to tell.
        """
        contexts, actions = self._as_contexts(contexts, actions), plain_column("actions", actions)
        if self.actions is not None or self._log_beta == -np.inf:
            return self.log_prob(contexts, actions), np.zeros(len(actions))
        return self._estimated(contexts, actions)

    def log_prob_all(self, contexts: Contexts) -> Floats:
        """Score every action in each context, for finitely many actions.

        Parameters
        ----------
        contexts : array, data frame or int
            One row per context, or the number of actions where there are no contexts.

        Returns
        -------
        ndarray of float
            One row per context and one column per action; a single row without contexts.

        Raises
        ------
        TypeError
            If the policies do not list their actions.
        """
        if self.actions is None:
            raise TypeError("log_prob_all needs policies that list finitely many actions")
        rows = self._tables(self._as_contexts(contexts))
        return np.concatenate([self._log_density(*tables) for _, *tables in rows])

    def normalizer(self, contexts: Contexts, more: int = 1) -> Normalizer:
        """Compute the normalizing constant ψ(β, x) in each context, with its standard error.

        Parameters
        ----------
        contexts : array, data frame or int
            One row per context, or the number of actions where there are no contexts.
        more : int, default 1
            How many times as many draws as usual to make for an estimate.

        Returns
        -------
        Normalizer
            One log ψ per context; a single one without contexts.
        """
        contexts = self._as_contexts(contexts)
        if self.family.normalized or np.isinf(self._log_beta):
            return Normalizer(np.zeros(1), np.zeros(1))
        if self.actions is not None:
            return joined([self._exact(*tables) for _, *tables in self._tables(contexts)])
        marginal = isinstance(contexts, int)
        remembered = self._remembered  # once: another thread may forget it
        if marginal and remembered is not None and more == 1:
            return remembered
        default = NORMALIZER_DRAWS if marginal else NORMALIZER_DRAWS_PER_CONTEXT
        draws = more * (self.normalizer_draws or default)
        rng = np.random.default_rng([self.seed, NORMALIZER_STREAM])
        how = (self.family, self._log_beta, draws, rng)
        estimate = normalizers_by_context(self._pair, contexts, *how)
        self._remembered = estimate if marginal else None
        return estimate

    def remember(self, normalizer: Normalizer) -> None:
        """Use an earlier estimate of ψ without contexts instead of estimating it again.

        Parameters
        ----------
        normalizer : Normalizer
            An earlier result of `normalizer`.
        """
        self._remembered = normalizer

    def acceptance(self, contexts: Contexts) -> Floats:
        """Compute the acceptance rate of accept-reject by "auto", before any draw is made.

        Over finitely many actions "auto" draws exactly and rejects nothing.

        Parameters
        ----------
        contexts : array, data frame or int
            One row per context, or the number of actions where there are no contexts.

        Returns
        -------
        ndarray of float
            The share of proposals that is accepted in each context.
        """
        log_psi = self.normalizer(contexts).log_psi
        return np.asarray(np.exp(self.family.log_acceptance(self._log_beta, log_psi)))

    def __repr__(self) -> str:
        return f"Tethered(beta={self.beta:.6g}, family={self.family.name!r})"

    def _as_contexts(self, contexts: Any, actions: Any = None) -> Any:
        contexts = as_contexts(contexts, actions)
        if self._marginal and not isinstance(contexts, int):
            raise ValueError(
                "this beta was calibrated on a log without contexts, with a single normalizer, but "
                "contexts are given, and each has a normalizer of its own. Calibrate on a log with "
                "contexts (tether.make_log makes one), or pass the number of actions"
            )
        return contexts

    def _tables(self, contexts: Any) -> Iterator[tuple[slice, Floats, Floats]]:
        """Both policies' scores of every action, for a part of the contexts at a time.

        Without contexts it is a single row, and the slice covers all actions.
        """
        assert self.actions is not None
        size = max(1, SCORES_PER_PART // len(self.actions))
        pieces = [contexts] if isinstance(contexts, int) else parts(contexts, size)
        start = 0
        for piece in pieces:
            safe = policy_calls.table("safe", self.safe, piece)
            optimized = policy_calls.table("optimized", self.optimized, piece)
            if not isinstance(piece, int):
                safe = np.broadcast_to(safe, (length(piece), safe.shape[1]))
            safe, optimized = np.broadcast_arrays(safe, optimized)
            if self._pair.strict and self._log_beta > -np.inf:
                policy_calls.check_absolute_continuity(safe, optimized)
            yield slice(start, start + length(piece)), safe, optimized
            start += length(piece)

    def _estimated(self, contexts: Any, actions: NDArray[Any]) -> tuple[Floats, Floats]:
        log_safe, log_optimized = policy_calls.score_both(
            self.safe, self.optimized, contexts, actions
        )
        if self._pair.strict:
            policy_calls.check_absolute_continuity(log_safe, log_optimized)
        return density_with_error(
            self.family, log_safe, log_optimized, self._log_beta, self.normalizer(contexts)
        )

    def _exact(self, safe: Floats, optimized: Floats) -> Normalizer:
        return exact_normalizer(safe, optimized, self.family, self._log_beta)

    def _log_density(self, safe: Floats, optimized: Floats) -> Floats:
        log_psi: Any = 0.0
        if not self.family.normalized and np.isfinite(self._log_beta):
            log_psi = self._exact(safe, optimized).log_psi[:, None]
        return self.family.log_density(safe, optimized, self._log_beta, log_psi)

    def _sample_exactly(
        self, contexts: Any, rng: np.random.Generator
    ) -> tuple[NDArray[Any], SamplingInfo]:
        assert self.actions is not None
        clip = self.family.clips and self.family.max_draws is None
        plain = clip and np.isfinite(self._log_beta)
        pieces = []
        for rows, safe, optimized in self._tables(contexts):
            if plain:  # its draws need no normalizer
                scores = self.family.log_kernel(safe, optimized, self._log_beta)
            else:
                scores = self._log_density(safe, optimized)
            pieces.append(sample_categorical(scores, rows.stop - rows.start, rng))
        chosen = np.concatenate(pieces)
        return self.actions[chosen], exact_info(len(chosen), len(pieces))
