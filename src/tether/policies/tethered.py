"""The tethered policy: the optimized policy as far as beta lets it, and itself a policy."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core import policy_calls, validate
from tether._core.contexts import as_contexts, labels, length, parts, take
from tether._core.types import Floats
from tether.control.calibration import Calibration
from tether.control.families import find_family
from tether.control.family import Family
from tether.policies.categorical import picked, positions
from tether.policies.mixture import shared_actions
from tether.policies.normalizer import (
    Normalizer,
    estimated_normalizer,
    exact_normalizer,
    joined,
)
from tether.policies.policy import as_policy
from tether.sampling.discrete import choose
from tether.sampling.envelope import Proposal
from tether.sampling.family_envelope import FamilyEnvelope
from tether.sampling.info import Info, direct, exact
from tether.sampling.metropolis_hastings import metropolis
from tether.sampling.policy_pair import Pair
from tether.sampling.rejection_sampling import CAP, accept_reject
from tether.sampling.samplers import SAMPLERS, find_proposal

CELLS = 1 << 17
"""How many actions or draws are scored at once, over all contexts of a part."""
DRAWS_ALONE, DRAWS = 1 << 16, 1 << 8
"""Draws of each policy for a normalizer: for the only one, and for that of each context."""

FAR = 1e15
"""A log beta past every log ratio: clip then is the optimized policy on what the safe one does."""


class Tethered:
    """Acts between a safe and an optimized policy: beta 0 is the safe one, inf the optimized one.

    `beta` is a number or a `Calibration`, whose family is then used. Over finitely many actions
    scores and draws are exact. Otherwise draws are exact too (accept-reject needs no normalizer),
    and `log_prob` estimates ψ(β, x) from `normalizer_draws` draws of each policy, always with the
    same `seed`, to the standard error that `normalizer` states.

    `sampler` says what proposes: "auto", "safe", "optimized", a mixture ("grid", "overlap",
    "adaptive"), or "metropolis". An action that takes more than `cap` draws is an error. With clip
    and outside="never", what only the optimized policy does is never done instead of refused; beta
    inf then is the optimized policy on the safe one's actions, normalized.

    >>> from tether import Gaussian
    >>> policy = Tethered(Gaussian(0.0), Gaussian(1.0), 0.5)
    >>> policy.sample(3, np.random.default_rng(0)).round(2)
    array([ 0.13, -0.13,  0.64])
    """

    def __init__(
        self,
        safe: Any,
        optimized: Any,
        beta: float | Calibration,
        *,
        family: str | Family | None = None,
        sampler: str = "auto",
        cap: int = CAP,
        normalizer_draws: int | None = None,
        seed: int = 0,
        outside: str = "error",
    ) -> None:
        self.safe, self.optimized = as_policy("safe", safe), as_policy("optimized", optimized)
        self.family, self.log_beta = _family_and_beta(beta, family)
        self.sampler = validate.choice("sampler", sampler, SAMPLERS)
        budget = self.family.max_draws
        if sampler != "auto" and not (self.family.clips and budget is None):
            raise ValueError(
                f"sampler {sampler!r} is for clip; family {self.family.name!r} samples by 'auto'"
            )
        self.cap, self.seed = _whole("cap", cap, 1), _whole("seed", seed, 0)
        if budget is not None and budget > self.cap:
            raise ValueError(f"the draws of {self.family.name!r} are above cap, {self.cap:,}")
        if normalizer_draws is not None:
            normalizer_draws = _whole("normalizer_draws", normalizer_draws, 2)
        self.normalizer_draws = normalizer_draws
        strict = validate.choice("outside", outside, ("error", "never")) == "error"
        if not strict and not self.family.clips:
            raise ValueError(
                f"outside='never' is for clip; family {self.family.name!r} does what only the "
                f"optimized policy does"
            )
        self._log_beta = self.log_beta
        if not strict and self.log_beta == np.inf:
            self._log_beta = FAR
        self._pair = Pair(self.safe, self.optimized, strict=strict)
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

    def sample(self, contexts: Any, rng: np.random.Generator) -> NDArray[Any]:
        """One action in each context."""
        return self.sample_with_info(contexts, rng)[0]

    def sample_with_info(
        self, contexts: Any, rng: np.random.Generator
    ) -> tuple[NDArray[Any], Info]:
        """One action in each context, and the record of what they cost."""
        policy_calls.generator(rng)
        contexts = self._settled(contexts)
        if self._log_beta == -np.inf:
            actions = policy_calls.draw("safe", self.safe, contexts, rng)
            return actions, direct("safe policy", len(actions), len(actions))
        if self.actions is not None and (self.sampler == "auto" or self.log_beta == np.inf):
            return self._sample_exactly(contexts, rng)
        if self._log_beta == np.inf:
            drawn = self._pair.propose(0.0, contexts, rng)
            return drawn.actions, direct("optimized policy", len(drawn.actions), 0)
        if self.family.single_draw:
            from_safe = rng.random(length(contexts)) >= self._optimized_share()
            actions = self._pair.draw(from_safe, contexts, rng)
            taken_safe = int(np.count_nonzero(from_safe))
            return actions, direct(self.family.name, len(actions), taken_safe)
        sampler = "auto" if self.log_beta == np.inf else self.sampler
        if self.family.clips:
            proposal: Proposal = find_proposal(sampler, self._pair, contexts, self._log_beta, rng)
        else:
            proposal = self._family_envelope()
        if sampler == "metropolis":
            return metropolis(self._pair, contexts, rng, proposal, cap=self.cap)
        return accept_reject(
            self._pair,
            contexts,
            rng,
            proposal,
            budget=self.family.max_draws,
            cap=self.cap,
            method=f"accept-reject ({sampler})",
        )

    def log_prob(self, contexts: Any, actions: Any) -> Floats:
        """The log-probability of each action; exact where `normalizer(contexts).exact`."""
        actions = np.asarray(actions)
        contexts = self._settled(contexts, actions)
        if self._log_beta == -np.inf:  # whatever the optimized policy does
            return policy_calls.score("safe", self.safe, contexts, actions)
        if self.actions is not None:
            place = positions(self.actions, actions)
            return np.concatenate(
                [
                    picked(self._log_density(*tables), place[rows])
                    for rows, *tables in self._tables(contexts)
                ]
            )
        return self._estimated(contexts, actions)[0]

    def log_prob_with_error(self, contexts: Any, actions: Any) -> tuple[Floats, Floats]:
        """The same, and its standard error at each action: 0 where the score is exact."""
        actions = np.asarray(actions)
        contexts = self._settled(contexts, actions)
        if self.actions is not None or self._log_beta == -np.inf:
            return self.log_prob(contexts, actions), np.zeros(len(actions))
        return self._estimated(contexts, actions)

    def log_prob_all(self, contexts: Any) -> Floats:
        """The log-probability of every action in each context, for finitely many actions."""
        if self.actions is None:
            raise TypeError("the policies do not list their actions: they have no table")
        tables = self._tables(self._settled(contexts))
        return np.concatenate([self._log_density(*pair) for _, *pair in tables])

    def normalizer(self, contexts: Any) -> Normalizer:
        """ψ(β, x) in each context, with its standard error; one number without contexts."""
        contexts = self._settled(contexts)
        if self.family.normalized or np.isinf(self._log_beta):
            return Normalizer(np.zeros(1), np.zeros(1))
        if self.actions is not None:
            tables = self._tables(contexts)
            return joined([self._exact(*pair) for _, *pair in tables])
        alone = isinstance(contexts, int)
        if alone and self._remembered is not None:
            return self._remembered
        draws = self.normalizer_draws or (DRAWS_ALONE if alone else DRAWS)
        rng = np.random.default_rng([self.seed, 7919])  # apart from any stream the user holds
        if not alone:  # each distinct one once, and in an order that is not that of the rows
            _, first, place = np.unique(labels(contexts), return_index=True, return_inverse=True)
            contexts = take(contexts, first)
        asked = [contexts] if alone else parts(contexts, max(1, CELLS // draws))
        found = joined(
            [
                estimated_normalizer(self._pair, each, self.family, self._log_beta, draws, rng)
                for each in asked
            ]
        )
        if not alone:
            return Normalizer(found.log_psi[place], found.standard_error[place])
        self._remembered = found
        return found

    def remember(self, normalizer: Normalizer) -> None:
        """Take ψ without contexts as it was estimated before, instead of estimating it anew."""
        self._remembered = normalizer

    def acceptance(self, contexts: Any) -> Floats:
        """The share of its draws that accept-reject by `auto` keeps in each context.

        It is known before a draw is made. Over finitely many actions `auto` rejects none at all.
        """
        log_psi = self.normalizer(contexts).log_psi
        return np.asarray(np.exp(self.family.log_acceptance(self._log_beta, log_psi)))

    def __repr__(self) -> str:
        return f"Tethered(beta={self.beta:.6g}, family={self.family.name!r})"

    def _settled(self, contexts: Any, actions: Any = None) -> Any:
        contexts = as_contexts(contexts, actions)
        if self._marginal and not isinstance(contexts, int):
            raise ValueError(
                "this beta was calibrated on a log without contexts, with one normalizer for all, "
                "but contexts are given, and each has its own. Calibrate on a log with contexts "
                "(tether.make_log makes one), or pass the number of actions"
            )
        return contexts

    def _tables(self, contexts: Any) -> Iterator[tuple[slice, Floats, Floats]]:
        """Both policies' scores of every action, for some contexts at a time.

        Without contexts it is a single row, and the slice is of all actions.
        """
        assert self.actions is not None
        size = max(1, CELLS // len(self.actions))
        asked = [contexts] if isinstance(contexts, int) else parts(contexts, size)
        start = 0
        for each in asked:
            safe = policy_calls.table("safe", self.safe, each)
            optimized = policy_calls.table("optimized", self.optimized, each)
            if not isinstance(each, int):
                safe = np.broadcast_to(safe, (length(each), safe.shape[1]))
            safe, optimized = np.broadcast_arrays(safe, optimized)
            if self._pair.strict and self._log_beta > -np.inf:
                policy_calls.check_absolute_continuity(safe, optimized)
            yield slice(start, start + length(each)), safe, optimized
            start += length(each)

    def _estimated(self, contexts: Any, actions: NDArray[Any]) -> tuple[Floats, Floats]:
        log_safe, log_optimized = policy_calls.score_both(
            self.safe, self.optimized, contexts, actions
        )
        if self._pair.strict:
            policy_calls.check_absolute_continuity(log_safe, log_optimized)
        found = self.normalizer(contexts)
        width = np.where(np.isinf(found.standard_error), 0.0, found.standard_error)
        at, low, high = (
            self.family.log_density(
                log_safe, log_optimized, self._log_beta, found.log_psi + side * width
            )
            for side in (0, -1, 1)
        )
        with np.errstate(invalid="ignore"):  # an impossible action is impossible whatever ψ is
            error = np.nan_to_num(np.abs(high - low) / 2)
        unknown = np.isinf(found.standard_error) & (at > -np.inf)
        return at, np.where(unknown, np.inf, error)

    def _exact(self, safe: Floats, optimized: Floats) -> Normalizer:
        return exact_normalizer(safe, optimized, self.family, self._log_beta)

    def _log_density(self, safe: Floats, optimized: Floats) -> Floats:
        log_psi: Any = 0.0
        if not self.family.normalized and np.isfinite(self._log_beta):
            log_psi = self._exact(safe, optimized).log_psi[:, None]
        return self.family.log_density(safe, optimized, self._log_beta, log_psi)

    def _optimized_share(self) -> float:
        share = self.family.optimized_share(self._log_beta)
        if share is None:
            raise TypeError(
                f"family {self.family.name!r} has no sampler beyond finitely many actions: it "
                f"needs the members optimized_share and log_accept (see tether.Family)"
            )
        return share

    def _family_envelope(self) -> FamilyEnvelope:
        return FamilyEnvelope(self._log_beta, 1.0 - self._optimized_share(), family=self.family)

    def _sample_exactly(self, contexts: Any, rng: np.random.Generator) -> tuple[NDArray[Any], Info]:
        assert self.actions is not None
        clip = self.family.clips and self.family.max_draws is None
        plain = clip and np.isfinite(self._log_beta)
        pieces = []
        for rows, safe, optimized in self._tables(contexts):
            if plain:  # its draws need no normalizer
                scores = self.family.log_kernel(safe, optimized, self._log_beta)
            else:
                scores = self._log_density(safe, optimized)
            pieces.append(choose(scores, rows.stop - rows.start, rng))
        chosen = np.concatenate(pieces)
        return self.actions[chosen], exact(len(chosen), len(pieces))


def _whole(name: str, value: Any, least: int) -> int:
    whole = isinstance(value, (int, np.integer)) or (
        isinstance(value, (float, np.floating)) and float(value).is_integer()
    )
    if isinstance(value, bool) or not whole:
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value!r}")
    return int(value)


def _family_and_beta(beta: Any, family: str | Family | None) -> tuple[Family, float]:
    if isinstance(beta, Calibration):
        chosen = find_family(beta.family if family is None else family)
        if chosen.name != beta.family:
            raise ValueError(
                f"family is {chosen.name!r} but this beta was calibrated for {beta.family!r}"
            )
        return chosen, beta.log_beta
    if isinstance(beta, bool) or not isinstance(beta, (int, float, np.integer, np.floating)):
        raise TypeError(f"beta must be a number or a tether.Calibration, got {beta!r}")
    if not beta >= 0:
        raise ValueError(f"beta must be at least 0 (the safe policy), got {beta!r}")
    # The logarithm of math takes whole numbers past the largest float too, and refuses zero.
    log_beta = math.log(beta) if beta else -math.inf
    return find_family("clip" if family is None else family), log_beta
