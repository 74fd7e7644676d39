"""Preflight: is what is scored what is sampled? Measured before scores are trusted."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tether._core import policy_calls, progress, validate
from tether._core.arrays import Floats
from tether._core.contexts import as_contexts, length, take
from tether._core.records import Saved
from tether.llm import preflight_checks as checks
from tether.llm.completions import CompletionPolicy, Tokens
from tether.llm.openai_policy import OpenAIPolicy
from tether.llm.preflight_checks import DIVERGENCE, MAX_DIVERGENCE, NOISE_FLOOR, STATUSES, Check

NEAR_DIVERGENCE = 2.0
"""Nats up to which mix passes a share worth having."""
MAX_SCORED_ALONE = 8
"""Completions that are scored one by one to measure rounding."""


@dataclass(frozen=True)
class Preflight(Saved):
    """Whether the scores of two language policies can be trusted.

    Parameters
    ----------
    checks : tuple of Check
        The checks of each policy, then of both together.
    prompts, draws : int
        The number of prompts, and of draws of each policy at each prompt.
    """

    checks: tuple[Check, ...]
    prompts: int
    draws: int

    @property
    def passed(self) -> bool:
        """Whether no check failed; warnings are for the reader to judge."""
        return all(check.status != "fail" for check in self.checks)

    @property
    def ratio_error(self) -> float:
        """The factor by which rounding alone may change a ratio of the two policies' densities.

        The log ratio is off by at most the noise floors of both policies together. Pass it to
        `tether.calibrate` as `ratio_error`.
        """
        return math.exp(sum(each.value for each in self.checks if NOISE_FLOOR in each.name))

    @property
    def divergence(self) -> float | None:
        """The larger Kullback–Leibler divergence in nats per answer; None if not measured."""
        values = [check.value for check in self.checks if check.name.startswith(DIVERGENCE)]
        return max(0.0, *values) if values else None

    @property
    def advice(self) -> str:
        """Which family fits the distance of the two policies, in words; empty if it is unknown."""
        nats = self.divergence
        if nats is None:
            return ""
        fits = "near enough for clip, mix, the token level and best of N"
        if nats > NEAR_DIVERGENCE:
            fits = "mix passes hardly any share; the token level and best of N work at any distance"
        if nats > MAX_DIVERGENCE:
            fits = "too far for clip and mix, which hardly move: use the token level or best of N"
        return f"at {nats:.2g} nats per answer: {fits}"

    def __str__(self) -> str:
        found = [check.status for check in self.checks]
        totals = ", ".join(f"{found.count(status)} {status}" for status in STATUSES)
        title = f"preflight on {self.prompts} prompts, {self.draws} draws of each policy: {totals}"
        share = f"{100 * (self.ratio_error - 1):.2g} %"
        lines = [title, *(f"  {line}" for each in self.checks for line in str(each).split("\n"))]
        lines.append(f"  rounding changes ratios of probabilities by at most {share} (ratio_error)")
        return "\n".join([*lines, *([f"  → {self.advice}"] if self.advice else [])])


def preflight(
    safe: CompletionPolicy,
    optimized: CompletionPolicy,
    prompts: ArrayLike,
    rng: np.random.Generator,
    *,
    draws: int = 16,
) -> Preflight:
    """Check whether the log-probabilities of two language policies can be trusted.

    Both policies draw `draws` completions of each prompt, which both then score. The result says
    for each policy how far sampler and scorer are apart and whether anything but its own
    distribution is sampled, and for the two together whether they read the same tokens, which
    everything else requires, and how far apart they are.

    Parameters
    ----------
    safe, optimized : CausalPolicy or OpenAIPolicy
        The two policies.
    prompts : array_like of str, or of int with shape (n, length)
        The prompts: texts, or rows of token ids padded with −1.
    rng : numpy.random.Generator
        The source of randomness.
    draws : int, default 16
        The number of completions that each policy draws per prompt, at least 3.

    Examples
    --------
    >>> result = preflight(safe, optimized, prompts, rng)  # doctest: +SKIP
    >>> result.passed  # doctest: +SKIP
    True
    """
    validate.generator("rng", rng)
    validate.integer("draws", draws, 3)
    contexts = as_contexts(prompts)
    if isinstance(contexts, int):
        raise TypeError(f"prompts must be texts or rows of token ids, got {prompts!r}")
    pair = {"safe": safe, "optimized": optimized}
    for name, policy in pair.items():
        if not isinstance(policy, CompletionPolicy):
            raise TypeError(
                f"{name} must be a policy over completions of prompts, such as CausalPolicy or "
                f"OpenAIPolicy, got {type(policy).__name__}"
            )
    with progress.step("preflight", total=5) as advance:
        drawn = []
        for name, policy in pair.items():
            drawn.append(_draw(name, policy, contexts, draws, rng))
            advance(1)
        found = []
        for name, each, other in zip(pair, drawn, (optimized, safe), strict=True):
            own = _checks_of_one(each, draws, other, rng)
            found += [replace(check, name=f"{name}: {check.name}") for check in own]
            advance(1)
        same = checks.same_actions(safe, optimized, contexts)
        found += [same, *checks.chat_format(safe, optimized, contexts)]
        if same.status == "pass":
            by_safe, by_optimized = drawn
            of_safe = policy_calls.score("optimized", optimized, by_safe.rows, by_safe.actions)
            of_optimized = policy_calls.score("safe", safe, by_safe.rows, by_optimized.actions)
            noise = max(check.value for check in found if NOISE_FLOOR in check.name)
            with np.errstate(invalid="ignore"):
                at_safe, at_optimized = of_safe - by_safe.scored, of_optimized - by_optimized.scored
            found += checks.of_both(at_safe, at_optimized, noise)
        advance(1)
    return Preflight(tuple(found), length(contexts), int(draws))


class _Draws(NamedTuple):
    """The draws of one policy, with the log-probabilities stated by its sampler and its scorer."""

    policy: CompletionPolicy
    rows: Any  # the prompt of every completion
    actions: Tokens
    stated: Floats
    scored: Floats


def _draw(
    name: str, policy: CompletionPolicy, prompts: Any, draws: int, rng: np.random.Generator
) -> _Draws:
    """Draw completions of each prompt in two calls, which reveal a seed set per call."""
    pieces, stated, count = [], [], length(prompts)
    for size in (draws // 2, draws - draws // 2):
        asked = take(prompts, np.repeat(np.arange(count), size))
        completions, log_probs = policy.sample_scored(asked, rng)
        pieces.append(completions.reshape(count, size, -1))
        stated.append(log_probs.reshape(count, size))
    actions = np.concatenate(pieces, axis=1).reshape(count * draws, -1)
    rows = take(prompts, np.repeat(np.arange(count), draws))
    scored = policy_calls.score(name, policy, rows, actions)
    return _Draws(policy, rows, actions, np.concatenate(stated, axis=1).ravel(), scored)


def _checks_of_one(
    drawn: _Draws, draws: int, other: CompletionPolicy, rng: np.random.Generator
) -> list[Check]:
    policy, rows, actions, stated, scored = drawn
    few = checks.spread(len(actions), MAX_SCORED_ALONE)
    alone = [policy.log_prob(take(rows, row), actions[row]) for row in few[:, None]]
    found = [
        checks.sampler_against_scorer(stated, scored),
        checks.noise_floor(scored[few], np.concatenate(alone)),
        checks.distinct_draws(actions, scored, draws),
        checks.ends(policy, actions),
        checks.round_trip(policy, actions),
    ]
    if isinstance(policy, OpenAIPolicy):  # what a server draws is not in our hands
        found.append(checks.sampling_settings(policy, rows, actions))
        if isinstance(other, OpenAIPolicy):
            found.append(checks.under_traffic(drawn, other, rng))
    return found
