"""Preflight: is what is scored what is sampled? Measured before a number is trusted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._core import policy_calls
from tether._core.contexts import as_contexts, length, take
from tether._core.types import Floats
from tether.llm.completions import Tokens, whole
from tether.llm.preflight_checks import costs, first_tokens, pair_checks, policy_checks
from tether.llm.preflight_checks.result import Check, Preflight

BETAS = (0.1, 1.0, 10.0)
ASKED = ("sample_scored", "log_prob", "shortened", "cut_off", "ends", "max_new_tokens")
"""What a policy must have, as every policy over completions does."""


@dataclass(frozen=True)
class _Asked:
    """The prompts, and how many completions of each are drawn: most of them in two like calls."""

    prompts: Any
    draws: int

    @property
    def call(self) -> int:
        """Draws of a prompt in each of the first two calls."""
        return self.draws // 2

    def times(self, size: int) -> Any:
        """Every prompt so many times, one after the other."""
        return take(self.prompts, np.repeat(np.arange(length(self.prompts)), size))

    @property
    def rows(self) -> Any:
        """The prompt of every completion."""
        return self.times(self.draws)


@dataclass(frozen=True)
class _Drawn:
    """What one policy drew, and what it said of it while sampling and while scoring."""

    name: str
    policy: Any
    actions: Tokens
    stated: Floats
    own: Floats


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
    and of the two how far they are apart and what a tether between them costs. Policies that end
    differently have no actions in common: then there is nothing to say of the two.
    """
    policy_calls.generator(rng)
    betas = costs.checked(betas)
    prompts = as_contexts(prompts)
    if isinstance(prompts, int):
        raise TypeError(f"prompts must be texts or rows of token ids, got {prompts!r}")
    asked = _Asked(prompts, whole("draws", draws, 3))
    both = (("safe", safe), ("optimized", optimized))
    for name, policy in both:
        for each in ASKED:
            if not hasattr(policy, each):
                raise TypeError(
                    f"{name} must be a policy over completions of prompts, such as CausalPolicy "
                    f"or OpenAIPolicy: {type(policy).__name__} has no {each}"
                )
    drawn = [_draw(name, policy, asked, rng) for name, policy in both]
    checks = [check for each in drawn for check in _alone(each, asked, rng)]
    ends = pair_checks.same_ends(safe, optimized)
    checks.append(ends)
    if ends.status == "fail":
        return Preflight(tuple(checks), (), length(prompts), asked.draws)
    # What the safe policy drew and what the optimized one drew, under the other policy each.
    others = (
        policy_calls.score("optimized", optimized, asked.rows, drawn[0].actions),
        policy_calls.score("safe", safe, asked.rows, drawn[1].actions),
    )
    floor = max(each.value for each in checks if "noise floor" in each.name)
    checks += _together(drawn[0].own, drawn[1].own, others[0], others[1], floor)
    log_safe, log_optimized = (
        np.concatenate([one.reshape(-1, asked.draws), two.reshape(-1, asked.draws)], axis=1)
        for one, two in ((drawn[0].own, others[1]), (others[0], drawn[1].own))
    )
    found = costs.of_betas(log_safe, log_optimized, betas)
    return Preflight(tuple(checks), tuple(found), length(prompts), asked.draws)


def _draw(name: str, policy: Any, asked: _Asked, rng: np.random.Generator) -> _Drawn:
    """Two calls of the same size, and a third for what is left: a seed in the call then shows."""
    actions, stated = [], []
    for size in (asked.call, asked.call, asked.draws - 2 * asked.call):
        if size:
            some, said = policy.sample_scored(asked.times(size), rng)
            actions.append(some.reshape(length(asked.prompts), size, -1))
            stated.append(said.reshape(-1, size))
    every = np.concatenate(actions, axis=1)
    every = every.reshape(-1, every.shape[2])
    own = policy_calls.score(name, policy, asked.rows, every)
    return _Drawn(name, policy, every, np.concatenate(stated, axis=1).ravel(), own)


def _alone(drawn: _Drawn, asked: _Asked, rng: np.random.Generator) -> list[Check]:
    """What concerns one policy."""
    policy, rows = drawn.policy, asked.rows
    some = np.linspace(0, len(drawn.actions) - 1, min(8, len(drawn.actions))).astype(np.int64)
    again = [
        policy.log_prob(take(rows, some[[k]]), drawn.actions[some[[k]]]) for k in range(len(some))
    ]
    found = [
        policy_checks.sampler_against_scorer(drawn.stated, drawn.own),
        policy_checks.noise_floor(drawn.own[some], np.concatenate(again)),
        first_tokens.as_scored(policy.shortened(1), asked.prompts, rng),
        policy_checks.distinct_draws(drawn.actions, drawn.own, asked.draws, asked.call),
        policy_checks.endings(policy, rows, drawn.actions, drawn.own),
        policy_checks.round_trip(policy, drawn.actions),
    ]
    return [policy_checks.named(f"{drawn.name}: {each.name}", each) for each in found]


def _together(
    safe: Floats, optimized: Floats, safe_other: Floats, optimized_other: Floats, floor: float
) -> list[Check]:
    """What concerns both: scores of each policy's draws under itself, then under the other."""
    with np.errstate(invalid="ignore"):
        from_safe, from_optimized = safe_other - safe, optimized_other - optimized
    return [
        pair_checks.alike(np.concatenate([from_safe, from_optimized]), floor),
        pair_checks.reached(optimized_other, safe_other),
        pair_checks.mean_ratio("safe", from_safe),
        pair_checks.mean_ratio("optimized", from_optimized),
        pair_checks.divergence("KL(optimized ‖ safe)", -from_optimized),
        pair_checks.divergence("KL(safe ‖ optimized)", -from_safe),
    ]
