"""Preflight: is what is scored what is sampled? Measured before scores are trusted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tether._core import policy_calls, progress, validate
from tether._core.contexts import as_contexts, length, take
from tether._core.types import Floats
from tether.llm.completion_policy import CompletionPolicy
from tether.llm.completions import Tokens
from tether.llm.preflight_checks import pair_checks, policy_checks
from tether.llm.preflight_checks.result import NOISE_FLOOR, Check, Preflight
from tether.llm.preflight_checks.traffic import check_under_traffic

DEFAULT_BETAS = (0.1, 1.0, 10.0)
"""The betas at which costs are estimated, by default."""
REQUIRED_ATTRIBUTES = (
    "sample_scored",
    "log_prob",
    "rescoring",
    "token_tables",
    "shortened",
    "cut_off",
    "end_token_ids",
    "max_new_tokens",
)
"""What a policy must have, as every policy over completions does."""
STAGES = 7
"""Draws, checks and traffic of each policy, and the checks of both: what progress counts."""
MAX_SCORED_ALONE = 8
"""Completions that are scored one by one to measure rounding."""


@dataclass(frozen=True)
class _DrawPlan:
    """The prompts, and how many completions of each are drawn: most of them in two equal calls."""

    prompts: Any
    draws: int

    @property
    def per_call(self) -> int:
        """Draws of a prompt in each of the first two calls."""
        return self.draws // 2

    @property
    def rows(self) -> Any:
        """The prompt of every completion."""
        return self.repeat_prompts(self.draws)

    def repeat_prompts(self, times: int) -> Any:
        """Every prompt several times, one prompt after the other."""
        return take(self.prompts, np.repeat(np.arange(length(self.prompts)), times))


@dataclass(frozen=True)
class _Draws:
    """The draws of one policy, with the log-probabilities stated by its sampler and its scorer."""

    name: str
    policy: CompletionPolicy
    actions: Tokens
    stated: Floats
    scored: Floats


def preflight(
    safe: CompletionPolicy,
    optimized: CompletionPolicy,
    prompts: ArrayLike,
    rng: np.random.Generator,
    *,
    draws: int = 16,
    betas: tuple[float, ...] = DEFAULT_BETAS,
    logged: tuple[ArrayLike, ArrayLike] | None = None,
) -> Preflight:
    """Check whether the log-probabilities of two language policies can be trusted.

    Both policies draw `draws` completions of each prompt, which both then score. The result says
    for each policy how far sampler and scorer are apart and whether anything but its own
    distribution is sampled, and for the two together how far apart they are and what a tether
    between them costs. Policies with different end tokens or lengths have no actions in common, so
    nothing is measured for the two together.

    Parameters
    ----------
    safe : CausalPolicy or OpenAIPolicy
        The safe policy.
    optimized : CausalPolicy or OpenAIPolicy
        The optimized policy.
    prompts : array_like of str, or of int with shape (n, length)
        The prompts: texts, or rows of token ids padded with −1.
    rng : numpy.random.Generator
        The source of randomness.
    draws : int, default 16
        The number of completions that each policy draws per prompt, at least 3.
    betas : tuple of float, optional
        The betas at which acceptance rates are estimated, each at least 0.
    logged : tuple of array_like, optional
        Prompts and completions that the safe policy is known to have drawn, such as those of a log:
        they show whether the two policies were exchanged.

    Returns
    -------
    Preflight
        All checks, and the costs at each beta.

    Raises
    ------
    TypeError
        If a policy is not a policy over completions, or `prompts` is a number.
    ValueError
        If `draws` or `betas` is out of range.

    Examples
    --------
    >>> result = preflight(safe, optimized, prompts, rng)  # doctest: +SKIP
    >>> result.passed  # doctest: +SKIP
    True
    """
    validate.generator("rng", rng)
    betas = pair_checks.check_betas(betas)
    contexts = as_contexts(prompts)
    if isinstance(contexts, int):
        raise TypeError(f"prompts must be texts or rows of token ids, got {prompts!r}")
    plan = _DrawPlan(contexts, validate.integer_at_least("draws", draws, 3))
    for name, policy in (("safe", safe), ("optimized", optimized)):
        for attribute in REQUIRED_ATTRIBUTES:
            if not hasattr(policy, attribute):
                raise TypeError(
                    f"{name} must be a policy over completions of prompts, such as CausalPolicy "
                    f"or OpenAIPolicy: {type(policy).__name__} has no {attribute}"
                )
    with progress.step("preflight", total=STAGES) as stages:
        return _preflight(
            safe.rescoring(), optimized.rescoring(), plan, rng, betas, logged, stages.advance
        )


def _preflight(
    safe: CompletionPolicy,
    optimized: CompletionPolicy,
    plan: _DrawPlan,
    rng: np.random.Generator,
    betas: tuple[float, ...],
    logged: tuple[ArrayLike, ArrayLike] | None,
    next_stage: Callable[[], None],
) -> Preflight:
    by_safe = _draw("safe", safe, plan, rng)
    next_stage()
    by_optimized = _draw("optimized", optimized, plan, rng)
    next_stage()
    checks = []
    for drawn in (by_safe, by_optimized):
        checks += _check_one(drawn, plan, rng)
        next_stage()
    for drawn, other in ((by_safe, optimized), (by_optimized, safe)):
        if safe.is_served and optimized.is_served:
            checks.append(_check_under_traffic(drawn, other, plan, rng))
        next_stage()
    if safe.is_served and optimized.is_served:
        checks.append(pair_checks.check_separate_servers(safe, optimized))
    if logged is not None:
        checks.append(_check_logged(safe, optimized, *logged))
    same_ends = pair_checks.check_same_ends(safe, optimized)
    checks.append(same_ends)
    if same_ends.status == "fail":
        return Preflight(tuple(checks), (), length(plan.prompts), plan.draws)
    optimized_of_safe = policy_calls.score("optimized", optimized, plan.rows, by_safe.actions)
    safe_of_optimized = policy_calls.score("safe", safe, plan.rows, by_optimized.actions)
    noise_floor = max(check.value for check in checks if NOISE_FLOOR in check.name)
    checks += _check_both(
        by_safe.scored, by_optimized.scored, optimized_of_safe, safe_of_optimized, noise_floor
    )
    log_safe, log_optimized = (
        np.concatenate([scores.reshape(-1, plan.draws) for scores in of_both], axis=1)
        for of_both in (
            (by_safe.scored, safe_of_optimized),
            (optimized_of_safe, by_optimized.scored),
        )
    )
    costs = pair_checks.estimate_costs(log_safe, log_optimized, betas)
    next_stage()
    return Preflight(tuple(checks), costs, length(plan.prompts), plan.draws)


def _draw(name: str, policy: CompletionPolicy, plan: _DrawPlan, rng: np.random.Generator) -> _Draws:
    """Two calls of equal size, which reveal a seed set per call, and a third for the rest."""
    pieces, stated = [], []
    for size in (plan.per_call, plan.per_call, plan.draws - 2 * plan.per_call):
        if size:
            completions, log_probabilities = policy.sample_scored(plan.repeat_prompts(size), rng)
            pieces.append(completions.reshape(length(plan.prompts), size, -1))
            stated.append(log_probabilities.reshape(-1, size))
    actions = np.concatenate(pieces, axis=1)
    actions = actions.reshape(-1, actions.shape[2])
    scored = policy_calls.score(name, policy, plan.rows, actions)
    return _Draws(name, policy, actions, np.concatenate(stated, axis=1).ravel(), scored)


def _check_one(drawn: _Draws, plan: _DrawPlan, rng: np.random.Generator) -> list[Check]:
    """The checks of one policy."""
    policy, rows, actions = drawn.policy, plan.rows, drawn.actions
    alone = np.linspace(0, len(actions) - 1, min(MAX_SCORED_ALONE, len(actions))).astype(np.int64)
    one_by_one = [policy.log_prob(take(rows, row), actions[row]) for row in alone[:, None]]
    checks = [
        policy_checks.check_sampler_against_scorer(drawn.stated, drawn.scored),
        policy_checks.check_noise_floor(drawn.scored[alone], np.concatenate(one_by_one)),
        policy_checks.draw_and_check_first_tokens(policy.shortened(1), plan.prompts, rng),
        policy_checks.check_later_tokens(policy, rows, actions),
        policy_checks.check_distinct_draws(actions, drawn.scored, plan.draws, plan.per_call),
        policy_checks.check_ends(policy, rows, actions, drawn.scored),
        policy_checks.check_round_trip(policy, actions),
    ]
    return [replace(check, name=f"{drawn.name}: {check.name}") for check in checks]


def _check_under_traffic(
    drawn: _Draws, other: CompletionPolicy, plan: _DrawPlan, rng: np.random.Generator
) -> Check:
    found = check_under_traffic(drawn.policy, other, plan.rows, drawn.actions, drawn.scored, rng)
    return replace(found, name=f"{drawn.name}: {found.name}")


def _check_logged(
    safe: CompletionPolicy, optimized: CompletionPolicy, prompts: ArrayLike, actions: ArrayLike
) -> Check:
    rows = np.asarray(actions)
    contexts = as_contexts(prompts, rows)
    log_safe = policy_calls.score("safe", safe, contexts, rows)
    log_optimized = policy_calls.score("optimized", optimized, contexts, rows)
    return pair_checks.check_logged_by_safe(log_safe, log_optimized)


def _check_both(
    safe: Floats,
    optimized: Floats,
    optimized_of_safe: Floats,
    safe_of_optimized: Floats,
    noise_floor: float,
) -> list[Check]:
    """The checks of both: scores of each policy's draws under itself, then under the other."""
    with np.errstate(invalid="ignore"):
        log_ratio_safe = optimized_of_safe - safe
        log_ratio_optimized = safe_of_optimized - optimized
    return [
        pair_checks.check_different(
            np.concatenate([log_ratio_safe, log_ratio_optimized]), noise_floor
        ),
        pair_checks.check_shared_support(safe_of_optimized, optimized_of_safe),
        pair_checks.check_mean_ratio("safe", log_ratio_safe),
        pair_checks.check_mean_ratio("optimized", log_ratio_optimized),
        pair_checks.check_divergence("KL(optimized ‖ safe)", -log_ratio_optimized),
        pair_checks.check_divergence("KL(safe ‖ optimized)", -log_ratio_safe),
    ]
