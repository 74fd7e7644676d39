"""Checks of a preflight on two policies together, and what a tether between them would cost.

Each function takes scores of draws and returns a check or costs.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tether._core import validate
from tether._core.averaged_bets import log_average
from tether._core.types import Floats
from tether.control.families import Clip
from tether.llm.completion_policy import CompletionPolicy
from tether.llm.preflight_checks import bets
from tether.llm.preflight_checks.policy_checks import MAX_PASSING_GAP, NEGLIGIBLE_GAP
from tether.llm.preflight_checks.result import MAX_DIVERGENCE, Check, Cost
from tether.policies.normalizer import clipped_normalizer

STANDARD_ERRORS = 3.0
"""How many standard errors a mean ratio may be below 1 before the check warns."""
MIN_TRUSTED_DRAWS = 10
"""Effective draws below which a mean is not trusted."""


def check_same_ends(safe: CompletionPolicy, optimized: CompletionPolicy) -> Check:
    """Whether both policies have the same end tokens and the same maximal length."""
    (safe_ends, safe_length), (optimized_ends, optimized_length) = (
        (sorted(policy.end_token_ids.tolist()), policy.max_new_tokens)
        for policy in (safe, optimized)
    )
    same = (safe_ends, safe_length) == (optimized_ends, optimized_length)
    measured = f"end tokens {safe_ends} and at most {safe_length} tokens for both"
    if not same:
        measured = (
            f"the safe policy has end tokens {safe_ends} and at most {safe_length} tokens, the "
            f"optimized policy {optimized_ends} and {optimized_length}"
        )
    advice = "give both policies the same eos_token_id and max_new_tokens"
    return Check("same ends", "pass" if same else "fail", float(same), measured, advice)


def check_separate_servers(safe: CompletionPolicy, optimized: CompletionPolicy) -> Check:
    """Whether the safe policy can still answer when the optimized one's server has ended."""
    addresses = [policy.address for policy in (safe, optimized)]
    same = addresses[0] == addresses[1]
    measured = f"the safe policy is at {addresses[0]}, the optimized policy at {addresses[1]}"
    if same:
        measured = f"both policies are at {addresses[0]}, so they become unavailable together"
    advice = "a fallback needs a second server: serve the safe policy by one of its own"
    return Check("separate servers", "warn" if same else "pass", float(not same), measured, advice)


def check_shared_support(log_safe: Floats, log_optimized: Floats) -> Check:
    """Whether one policy draws completions that the other cannot produce.

    Takes the scores of each policy on the draws of the other one.
    """
    outside, unused = int(np.isneginf(log_safe).sum()), int(np.isneginf(log_optimized).sum())
    measured = (
        f"the safe policy cannot produce {outside} of {len(log_safe)} optimized completions, the "
        f"optimized policy {unused} of {len(log_optimized)} safe ones"
    )
    advice = "a log of the safe policy has no losses of these: sample without top_k or top_p"
    status = "fail" if outside else "warn" if unused else "pass"
    return Check("absolute continuity", status, float(outside), measured, advice)


def check_different(log_ratio: Floats, noise_floor: float) -> Check:
    """Whether the scores of the two policies differ by more than rounding."""
    with np.errstate(invalid="ignore"):
        tolerance = min(max(noise_floor, NEGLIGIBLE_GAP), MAX_PASSING_GAP)
        different = np.abs(log_ratio) > tolerance
    measured = (
        f"{int(different.sum())} of {len(different)} completions have different scores under the "
        f"two policies"
    )
    advice = (
        "both policies have the same scores: one model object in both (PEFT changes the model "
        "that it wraps or merges into), an adapter without effect, or two names of one served model"
    )
    status = "pass" if different.any() else "warn"
    return Check("different policies", status, float(different.mean()), measured, advice)


def check_mean_ratio(policy_name: str, log_ratio: Floats) -> Check:
    """Whether the mean of the other policy's probability over this one's is 1, as it must be."""
    count = len(log_ratio)
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = np.exp(log_ratio)
        mean, error = float(ratio.mean()), float(ratio.std(ddof=1) / np.sqrt(count))
    top = log_ratio.max()
    share = np.exp(log_ratio - top) if np.isfinite(top) else np.zeros(count)
    effective = float(share.sum() ** 2 / max((share**2).sum(), 1e-300))
    measured = f"{mean:.3g} ± {error:.2g}, on {effective:.0f} effective draws of {count}"
    # Rare draws dominate the mean: without them it is too low and its error too small.
    if bets.verdict(log_average(bets.bet_on_ratios(log_ratio))) == "fail":
        status = "fail"
        advice = (
            "a mean clearly above 1 is impossible: the scored distribution is not the sampled one"
        )
    elif effective < MIN_TRUSTED_DRAWS or mean < 1 - STANDARD_ERRORS * error:
        status = "warn"
        advice = "few draws dominate the mean: the policies are far apart, or more draws are needed"
    else:
        status, advice = "pass", ""
    return Check(f"mean ratio under the {policy_name} policy", status, mean, measured, advice)


def check_logged_by_safe(log_safe: Floats, log_optimized: Floats) -> Check:
    """Whether completions that the safe policy drew can be its draws, and not the other's.

    The ratio of the probabilities is what a bet on the optimized policy is paid.
    """
    with np.errstate(invalid="ignore"):
        log_ratio = np.where(log_optimized == log_safe, 0.0, log_optimized - log_safe)
    log_wealth = log_average(bets.bet_on_ratios(log_ratio))
    measured = (
        f"the logged completions are {float(-log_ratio.mean()):.3g} nats likelier under the safe "
        f"policy than under the optimized one"
    )
    advice = (
        "the optimized policy is likelier to have drawn them: were the two policies exchanged, or "
        "is the log that of another policy?"
    )
    return Check(
        "logged by the safe policy", bets.verdict(log_wealth), log_wealth, measured, advice
    )


def check_divergence(name: str, log_ratio: Floats) -> Check:
    """Whether a Kullback–Leibler divergence, in nats per sequence, is non-negative as it must be.

    The product of the inverse ratios is the wealth of a bet, so the sum of the log ratios is rarely
    far below zero; the spread of a few draws says nothing about rare ones.
    """
    mean = float(log_ratio.mean())
    with np.errstate(invalid="ignore"):
        error = float(log_ratio.std(ddof=1) / np.sqrt(len(log_ratio)))
    measured = f"{mean:.3g} ± {error:.2g} nats per sequence"
    if bets.verdict(-float(log_ratio.sum())) == "fail":
        advice = "a divergence is not negative: the scored distribution is not the sampled one"
        return Check(name, "fail", mean, measured, advice)
    if mean > MAX_DIVERGENCE:
        advice = "clip accepts hardly any draw: use best of N, shorter completions, less tuning"
        return Check(name, "warn", mean, measured, advice)
    return Check(name, "pass", mean, measured)


def check_betas(betas: Iterable[float]) -> tuple[float, ...]:
    """Betas, each of which must be at least 0."""
    betas = tuple(betas)
    for index, beta in enumerate(betas):
        if not validate.real(f"betas[{index}]", beta) >= 0:
            raise ValueError(f"betas[{index}] must be at least 0, got {beta!r}")
    return tuple(float(beta) for beta in betas)


def estimate_costs(
    log_safe: Floats, log_optimized: Floats, betas: tuple[float, ...]
) -> tuple[Cost, ...]:
    """Acceptance rates of clip from ψ at each prompt; mix accepts every draw.

    One row per prompt: scores of n draws of the safe policy, then of n of the optimized one.
    """
    overlapping = np.asarray(np.isfinite(np.minimum(log_safe, log_optimized)).any(axis=1))
    costs = []
    for beta in betas:
        acceptance = np.zeros(len(overlapping))  # 0 where no draw is possible for both policies
        with np.errstate(divide="ignore", invalid="ignore"):
            log_beta = float(np.log(beta))
            if np.isinf(log_beta):
                acceptance[:] = 1.0
            elif overlapping.any():
                normalizer = clipped_normalizer(
                    log_safe[overlapping], log_optimized[overlapping], log_beta
                )
                log_acceptance = Clip().log_acceptance(log_beta, normalizer.log_psi)
                acceptance[overlapping] = np.exp(log_acceptance)
            draws = float((1 / acceptance).mean())
        costs.append(Cost("clip", beta, float(acceptance.mean()), draws))
    return (*costs, *(Cost("mix", beta, 1.0, 1.0) for beta in betas))
