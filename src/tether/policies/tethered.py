"""The tethered policy: the optimized policy as far as beta lets it, and itself a policy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tether._core import policy_calls, validate
from tether._core.arrays import Actions, Contexts, Floats, plain_column
from tether._core.contexts import as_contexts, length, part, take
from tether.control.calibrate import family_and_beta
from tether.control.calibration import Calibration
from tether.control.engine import LAST
from tether.control.families import Family, PathFamily
from tether.policies.policy import PolicyLike, as_policy, picked, positions, shared_actions
from tether.policies.probes import check_probes, warn_not_useful
from tether.sampling.policy_pair import PolicyPair, SamplingInfo, direct_info, together
from tether.sampling.rejection_sampling import MAX_DRAWS
from tether.sampling.samplers import SAMPLERS, draw_tethered, sample_categorical

if TYPE_CHECKING:
    from tether.policies.normalizer import Normalizer

NORMALIZER_DRAWS, NORMALIZER_DRAWS_PER_CONTEXT = 1 << 16, 1 << 8
"""Draws of each policy for a normalizer: without contexts, and in each context."""
NORMALIZER_STREAM = 7919
"""Keeps the draws for normalizers apart from any random stream that the user has."""
MAX_TABLE_SCORES = 1 << 21
"""How many scores the tables have at most that are in memory at the same time."""
INFINITE_LOG_BETA = 1e15
"""A log beta past every log ratio: clip is then the optimized policy on the safe one's actions."""


class Decided(NamedTuple):
    """Actions, one per context, and the log-probability with which each was taken."""

    actions: NDArray[Any]
    log_prob: Floats

    @property
    def propensities(self) -> Floats:
        """The probabilities, or densities, themselves: what a bandit log keeps."""
        return np.asarray(np.exp(self.log_prob))


class Tethered:
    """A policy between a safe and an optimized one: beta 0 is the safe one, inf the optimized one.

    Draws are exact, and over finitely many actions scores are too. Otherwise `log_prob` estimates
    ψ(β, x) from draws of each policy, always with the same seed, to the standard error that
    `normalizer` states. A calibration with `spread=True` is served as it says: each action at a
    beta drawn for it, and `log_prob` is that of the mixture.

    Clip never takes an action that the safe policy never takes. Other families refuse an optimized
    policy that does, unless they were calibrated on propensities alone, and so does an infinite
    beta beyond finitely many actions.

    Parameters
    ----------
    safe, optimized : Policy
        The two policies; a scikit-learn classifier will do.
    beta : float or Calibration
        How far the optimized policy may pull away. A calibration brings its family along, and the
        share of the safe policy that it blended into the optimized one. Both policies must be those
        of its log: the probes that it keeps are scored again.
    family : str or Family, optional
        How beta turns two policies into one; "clip" by default.
    sampler : str, default "auto"
        What proposes for clip: "auto", "safe", "optimized", a mixture ("grid", "overlap",
        "adaptive"), or "metropolis".
    max_draws : int, default 100,000
        An action that takes more proposals than this is an error.

    Examples
    --------
    >>> from tether import Gaussian
    >>> policy = Tethered(Gaussian(0.0), Gaussian(1.0), 0.5)
    >>> policy.sample(3, np.random.default_rng(0)).shape
    (3,)
    """

    def __init__(
        self,
        safe: PolicyLike,
        optimized: PolicyLike,
        beta: float | Calibration,
        *,
        family: str | Family | None = None,
        sampler: str = "auto",
        max_draws: int = MAX_DRAWS,
    ) -> None:
        found = beta if isinstance(beta, Calibration) else None
        self.family, self.log_beta = family_and_beta(beta, family)
        self.safe, self.optimized = as_policy("safe", safe), as_policy("optimized", optimized)
        # At which betas it is served, and the log share of each.
        self.log_betas, self.log_shares = np.array([self.log_beta]), np.zeros(1)
        if found is not None and found.chain is not None and found.chain.spread:
            log_betas, shares = np.append(-np.inf, found.chain.log_betas), found.chain.probabilities
            self.log_betas, self.log_shares = log_betas[shares > 0], np.log(shares[shares > 0])
        self.calibration, self.blend = found, 0.0 if found is None else found.blend
        self.beta = float(beta) if found is None else found.beta  # type: ignore[arg-type]
        if found is not None:
            warn_not_useful(found)
            given = {"safe": self.safe, "optimized": self.optimized}
            if np.isneginf(self.log_betas).all():
                del given["optimized"]  # it is not served
            check_probes(found.probes, given)
        if self.blend:
            from tether.policies.mixture import Mixture

            self.optimized = Mixture.blend(self.optimized, self.safe, self.blend)
        self.sampler = validate.choice("sampler", sampler, SAMPLERS)
        self.max_draws = validate.integer("max_draws", max_draws, 1)
        name, is_clip = self.family.name, self.family.clips and self.family.max_draws is None
        if isinstance(self.family, PathFamily):
            raise TypeError(f"family {name!r} is served by tether.llm.TokenTether")
        if sampler != "auto" and not is_clip:
            raise ValueError(f"sampler {sampler!r} is for clip, not {name!r}")
        self.actions = shared_actions((self.safe, self.optimized))
        self.remembered: Normalizer | None = None  # an earlier estimate of ψ without contexts
        bounded = self.actions is not None or np.inf not in self.log_betas
        clipped, probes = self.family.clips and bounded, None if found is None else found.probes
        # On propensities alone, mix is calibrated at the worst of what the safe policy never does.
        alone = probes is not None and list(probes.fingerprints) == ["optimized"]
        self._pair = PolicyPair(self.safe, self.optimized, strict=not (clipped or alone))
        last = INFINITE_LOG_BETA if clipped else LAST if alone else np.inf
        self._betas = np.where(self.log_betas == np.inf, last, self.log_betas).tolist()
        # One of the two policies alone needs no normalizer.
        needs_none = self.family.normalized or bool(np.isinf(self._betas).all())
        self._marginal = found is not None and not (found.contextual or needs_none)

    def sample(self, contexts: Contexts, rng: np.random.Generator) -> NDArray[Any]:
        """Draw one action per context."""
        return self.sample_with_info(contexts, rng)[0]

    def sample_with_info(
        self, contexts: Contexts, rng: np.random.Generator
    ) -> tuple[NDArray[Any], SamplingInfo]:
        """Draw one action per context, and say what the draws cost."""
        validate.generator("rng", rng)
        contexts = self._as_contexts(contexts)
        if self._draws_exactly:
            actions = self._choose(contexts, rng).actions
            return actions, direct_info("exact", len(actions), 0)
        if len(self._betas) == 1:
            return self._draw_at(self._betas[0], contexts, rng)
        which = sample_categorical(self.log_shares[None], length(contexts), rng)
        rows = [np.flatnonzero(which == k) for k in range(len(self._betas))]
        pieces = [
            self._draw_at(log_beta, take(contexts, each), rng)
            for log_beta, each in zip(self._betas, rows, strict=True)
            if len(each)
        ]
        actions = policy_calls.concatenate_actions([drawn for drawn, _ in pieces], rows)
        return actions, together(f"spread over {len(pieces)} betas", [info for _, info in pieces])

    def decide(self, contexts: Contexts, rng: np.random.Generator) -> Decided:
        """Draw one action per context, with its log-probability; over tables in one pass."""
        validate.generator("rng", rng)
        contexts = self._as_contexts(contexts)
        if self._draws_exactly:
            return self._choose(contexts, rng)
        actions = self.sample(contexts, rng)
        return Decided(actions, self.log_prob(contexts, actions))

    def log_prob(self, contexts: Contexts | None, actions: Actions) -> Floats:
        """Score each action; exact where `normalizer(contexts)` has no error."""
        actions = plain_column("actions", actions)
        contexts = self._as_contexts(contexts, actions)
        if self._betas == [-np.inf]:  # whatever the optimized policy does
            return policy_calls.score("safe", self.safe, contexts, actions)
        if self.actions is not None:
            columns, tables = positions(self.actions, actions), self._tables(contexts)
            served = [picked(self._of_tables(*both), columns[rows]) for rows, both in tables]
            return np.concatenate(served)
        both = self._pair.score(contexts, actions)
        log_psi = [self._normalizer(contexts, log_beta).log_psi for log_beta in self._betas]
        return self._served(*both, log_psi)

    def log_prob_all(self, contexts: Contexts) -> Floats:
        """Score every action in each context, for finitely many actions."""
        if self.actions is None:
            raise TypeError("log_prob_all needs policies that list finitely many actions")
        tables = self._tables(self._as_contexts(contexts))
        return np.concatenate([self._of_tables(*both) for _, both in tables])

    def normalizer(self, contexts: Contexts, more: int = 1) -> Normalizer:
        """Compute the normalizing constant ψ(β, x) in each context, with its standard error."""
        if len(self._betas) > 1:
            raise TypeError("a policy with several betas has a normalizer for each of them")
        return self._normalizer(self._as_contexts(contexts), self._betas[0], more)

    def acceptance(self, contexts: Contexts) -> Floats:
        """Compute the acceptance rate of accept-reject by "auto", before any draw is made."""
        log_psi = self.normalizer(contexts).log_psi
        return np.asarray(np.exp(self.family.log_acceptance(self._betas[0], log_psi)))

    def __repr__(self) -> str:
        spread = f", spread over {len(self._betas)} betas" if len(self._betas) > 1 else ""
        return f"Tethered(beta={self.beta:.6g}, family={self.family.name!r}{spread})"

    def _as_contexts(self, contexts: Any, actions: Any = None) -> Any:
        contexts = as_contexts(contexts, actions)
        if self._marginal and not isinstance(contexts, int):
            raise ValueError(
                "this beta was calibrated on a log without contexts, with a single normalizer, but "
                "contexts are given, and each has a normalizer of its own. Calibrate on a log with "
                "contexts (tether.make_log makes one), or pass the number of actions"
            )
        return contexts

    @property
    def _draws_exactly(self) -> bool:
        """Whether actions are drawn from tables; the safe policy alone acts by itself."""
        if self.actions is None or self._betas == [-np.inf]:
            return False
        return self.sampler == "auto" or bool((self.log_betas == np.inf).all())

    def _choose(self, contexts: Any, rng: np.random.Generator) -> Decided:
        """Actions drawn from tables."""
        assert self.actions is not None
        pieces = []
        for rows, both in self._tables(contexts):
            density = self._of_tables(*both)
            chosen = sample_categorical(density, rows.stop - rows.start, rng)
            pieces.append((self.actions[chosen], picked(density, chosen)))
        return Decided(*map(np.concatenate, zip(*pieces, strict=True)))

    def _draw_at(
        self, log_beta: float, contexts: Any, rng: np.random.Generator
    ) -> tuple[NDArray[Any], SamplingInfo]:
        """One action per context at one beta."""
        if log_beta == -np.inf:
            actions = policy_calls.draw("safe", self.safe, contexts, rng)
            return actions, direct_info("safe policy", len(actions), len(actions))
        if log_beta == np.inf:
            drawn = self._pair.propose(0.0, contexts, rng)
            return drawn.actions, direct_info("optimized policy", len(drawn.actions), 0)
        sampler = "auto" if log_beta == INFINITE_LOG_BETA else self.sampler
        how = {"sampler": sampler, "max_draws": self.max_draws}
        return draw_tethered(self._pair, self.family, log_beta, contexts, rng, **how)  # type: ignore[arg-type]

    def _tables(self, contexts: Any) -> Iterator[tuple[slice, tuple[Floats, Floats]]]:
        """Both policies' scores of every action in consecutive rows of the contexts.

        Without contexts, and where all are alike, a single row stands for all.
        """
        assert self.actions is not None
        count, size = length(contexts), max(1, MAX_TABLE_SCORES // len(self.actions))
        size = count if isinstance(contexts, int) else size
        for start in range(0, count, size):
            own = part(contexts, start, start + size)
            both = self._pair.by_name.items()
            tables = [policy_calls.table(*each, own, self.actions) for each in both]
            if not isinstance(contexts, int):
                tables[0] = np.broadcast_to(tables[0], (length(own), tables[0].shape[1]))
            safe, optimized = np.broadcast_arrays(*tables)
            if max(self._betas) > -np.inf:
                self._pair.check(safe, optimized)
            yield slice(start, start + length(own)), (safe, optimized)

    def _of_tables(self, safe: Floats, optimized: Floats) -> Floats:
        from tether.policies.normalizer import exact_log_psi

        both = safe, optimized
        log_psi = [exact_log_psi(*both, self.family, each)[:, None] for each in self._betas]
        return self._served(*both, log_psi)

    def _served(self, safe: Floats, optimized: Floats, log_psi: list[Floats]) -> Floats:
        """Log-densities of what is served: at one beta, or averaged over several."""
        terms = zip(self._betas, log_psi, self.log_shares, strict=True)
        densities = [
            self.family.log_density(safe, optimized, log_beta, each) + log_share
            for log_beta, each, log_share in terms
        ]
        return np.asarray(np.logaddexp.reduce(densities) if len(densities) > 1 else densities[0])

    def _normalizer(self, contexts: Any, log_beta: float, more: int = 1) -> Normalizer:
        from tether.policies.normalizer import Normalizer, estimated_normalizer, exact_log_psi

        if self.family.normalized or np.isinf(log_beta):
            return Normalizer(np.zeros(1), np.zeros(1))
        if self.actions is not None:
            tables = self._tables(contexts)
            log_psi = [exact_log_psi(*both, self.family, log_beta) for _, both in tables]
            return Normalizer(found := np.concatenate(log_psi), np.zeros(len(found)))
        marginal = isinstance(contexts, int)
        single = marginal and len(self._betas) == 1
        if single and more == 1 and (remembered := self.remembered) is not None:
            return remembered
        draws = more * (NORMALIZER_DRAWS if marginal else NORMALIZER_DRAWS_PER_CONTEXT)
        rng = np.random.default_rng([0, NORMALIZER_STREAM])
        estimate = estimated_normalizer(self._pair, contexts, self.family, log_beta, draws, rng)
        self.remembered = estimate if single else None
        return estimate
