"""Preflight: is what is scored what is sampled? Measured before a number is trusted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether import _ask
from tether._check import Floats
from tether._contexts import length, settled, take
from tether.control.families import Clip
from tether.llm import measures
from tether.llm.completions import Tokens, whole
from tether.llm.report import Check, Cost, Preflight

BETAS = (0.1, 1.0, 10.0)
FIRST_TOKENS = 64
"""Draws of the first token alone at each prompt, to see what its sampler is."""
FEW_PROMPTS = 8


@dataclass(frozen=True)
class _Drawn:
    """What one policy drew, what it said of it while sampling, and both policies' scores."""

    name: str
    policy: Any
    actions: Tokens
    stated: Floats
    log_safe: Floats
    log_optimized: Floats

    @property
    def own(self) -> Floats:
        """The scores under the policy that drew."""
        return self.log_safe if self.name == "safe" else self.log_optimized


def preflight(
    safe: Any,
    optimized: Any,
    prompts: Any,
    rng: np.random.Generator,
    *,
    draws: int = 16,
    betas: tuple[float, ...] = BETAS,
) -> Preflight:
    """Whether the log-probabilities of two language policies can be trusted, on some prompts.

    Both draw `draws` completions of each prompt, which both then score. Says of each policy how
    far sampler and scorer are apart, whether anything else than its own distribution is sampled,
    and of the two how far they are apart and what a tether between them costs.
    """
    _ask.generator(rng)
    draws = whole("draws", draws, 3)
    prompts = settled(prompts)
    if isinstance(prompts, int):
        raise TypeError(f"prompts must be texts or rows of token ids, got {prompts!r}")
    count = length(prompts)
    asked = take(prompts, np.repeat(np.arange(count), draws))
    checks: list[Check] = []
    drawn = []
    for name, policy in (("safe", safe), ("optimized", optimized)):
        actions, stated = _drawn_by(policy, asked, rng)
        scores = [
            _ask.score(who, each, asked, actions)
            for who, each in (("safe", safe), ("optimized", optimized))
        ]
        drawn.append(_Drawn(name, policy, actions, stated, scores[0], scores[1]))
    for each in drawn:
        checks += _alone(each, asked, prompts, draws, rng)
    checks += _together(drawn[0], drawn[1])
    costs = _costs(drawn[0], drawn[1], count, draws, betas)
    return Preflight(tuple(checks), tuple(costs), count, draws)


def _drawn_by(policy: Any, asked: Any, rng: np.random.Generator) -> tuple[Tokens, Floats]:
    if hasattr(policy, "sample_scored"):
        actions, stated = policy.sample_scored(asked, rng)
        return actions, stated
    actions = np.asarray(policy.sample(asked, rng))
    return actions, np.full(len(actions), np.nan)


def _alone(
    drawn: _Drawn, asked: Any, prompts: Any, draws: int, rng: np.random.Generator
) -> list[Check]:
    """What concerns one policy."""
    some = np.linspace(0, len(drawn.actions) - 1, min(8, len(drawn.actions))).astype(np.int64)
    again = np.concatenate(
        [drawn.policy.log_prob(take(asked, some[k : k + 1]), drawn.actions[some[k : k + 1]])
         for k in range(len(some))]
    )  # fmt: skip
    few = take(prompts, np.arange(min(FEW_PROMPTS, length(prompts))))
    first = drawn.policy.shortened(1)
    here = take(few, np.repeat(np.arange(length(few)), FIRST_TOKENS))
    tokens = first.sample(here, rng)
    likely = first.log_prob(here, tokens)
    found = [
        measures.sampler_against_scorer(drawn.stated, drawn.own),
        measures.noise_floor(drawn.own[some], again),
        measures.first_tokens(tokens[:, 0], likely, FIRST_TOKENS),
        measures.distinct_draws(drawn.actions, drawn.own, draws),
        measures.endings(drawn.policy, asked, drawn.actions, drawn.own),
        measures.round_trip(drawn.policy, drawn.actions),
    ]
    return [measures.named(f"{drawn.name}: {each.name}", each) for each in found]


def _together(safe: _Drawn, optimized: _Drawn) -> list[Check]:
    """What concerns the two policies together."""
    return [
        measures.same_ends(safe.policy, optimized.policy),
        measures.reached(optimized.log_safe, safe.log_optimized),
        measures.mean_ratio("safe", safe.log_optimized - safe.log_safe),
        measures.mean_ratio("optimized", optimized.log_safe - optimized.log_optimized),
        measures.divergence("KL(optimized ‖ safe)", optimized.log_optimized - optimized.log_safe),
        measures.divergence("KL(safe ‖ optimized)", safe.log_safe - safe.log_optimized),
    ]


def _costs(
    safe: _Drawn, optimized: _Drawn, count: int, draws: int, betas: tuple[float, ...]
) -> list[Cost]:
    """Acceptance of clip from ψ at each prompt, estimated from both policies' draws; mix is one."""

    def rows(one: Floats, two: Floats) -> NDArray[np.float64]:
        return np.concatenate([one.reshape(count, draws), two.reshape(count, draws)], axis=1)

    log_safe = rows(safe.log_safe, optimized.log_safe)
    log_optimized = rows(safe.log_optimized, optimized.log_optimized)
    log_mass = np.logaddexp(log_safe, log_optimized) + np.log(draws)
    clip, costs = Clip(), []
    for beta in betas:
        log_beta = float(np.log(beta))
        kernel = clip.log_kernel(log_safe, log_optimized, log_beta)
        log_psi = np.logaddexp.reduce(kernel - log_mass, axis=1)
        kept = np.exp(np.asarray(clip.log_acceptance(log_beta, log_psi)))
        costs.append(Cost("clip", float(beta), float(kept.mean()), float((1 / kept).mean())))
    return costs + [Cost("mix", float(beta), 1.0, 1.0) for beta in betas]
