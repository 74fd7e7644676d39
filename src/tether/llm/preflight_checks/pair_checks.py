"""The measures of a preflight on two policies together: each takes numbers and returns a check."""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._core.types import Floats
from tether.llm.preflight_checks import bets
from tether.llm.preflight_checks.policy_checks import CLOSE, NOTHING
from tether.llm.preflight_checks.result import Check

SIGMAS = 3.0
FEW = 10
"""Effective draws below which a mean is not trusted."""
FAR_APART = 10.0
"""Nats of divergence beyond which clip keeps hardly any draw."""


def same_ends(safe: Any, optimized: Any) -> Check:
    """Whether both policies end at the same tokens and are cut off at the same length."""
    one, two = ((sorted(each.ends.tolist()), each.max_new_tokens) for each in (safe, optimized))
    told = f"ends {one[0]} after at most {one[1]} tokens, in both"
    if one != two:
        told = f"the safe policy ends at {one[0]} ({one[1]} tokens), the optimized at {two[0]} "
        told += f"({two[1]} tokens)"
    advice = "give both policies the same eos_token_id and max_new_tokens"
    return Check("same ends", "pass" if one == two else "fail", float(one == two), told, advice)


def reached(log_safe: Floats, log_optimized: Floats) -> Check:
    """Absolute continuity: completions of one policy that the other cannot produce."""
    outside, unused = int(np.isneginf(log_safe).sum()), int(np.isneginf(log_optimized).sum())
    told = (
        f"the safe policy cannot produce {outside} of {len(log_safe)} optimized completions, the "
        f"optimized one {unused} of {len(log_optimized)} safe ones"
    )
    advice = "no log of the safe policy says what these cost: sample without top_k or top_p"
    status = "fail" if outside else "warn" if unused else "pass"
    return Check("absolute continuity", status, float(outside), told, advice)


def alike(log_ratio: Floats, floor: float) -> Check:
    """Whether the two policies are two at all: scores that differ by more than rounding."""
    with np.errstate(invalid="ignore"):
        apart = np.abs(log_ratio) > min(max(floor, NOTHING), CLOSE)
    told = f"{int(apart.sum())} of {len(apart)} completions have different scores under the two"
    advice = (
        "both policies score alike: one model object in both (PEFT changes the model that it "
        "wraps or merges into), an adapter without effect, or two names for one served model"
    )
    status = "pass" if apart.any() else "warn"
    return Check("different policies", status, float(apart.mean()), told, advice)


def mean_ratio(name: str, log_ratio: Floats) -> Check:
    """The mean of the other policy's probability over this one's, which is 1."""
    count = len(log_ratio)
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = np.exp(log_ratio)
        mean, error = float(ratio.mean()), float(ratio.std(ddof=1) / np.sqrt(count))
    top = log_ratio.max()
    share = np.exp(log_ratio - top) if np.isfinite(top) else np.zeros(count)
    effective = float(share.sum() ** 2 / max((share**2).sum(), 1e-300))
    told = f"{mean:.3g} ± {error:.2g}, on {effective:.0f} effective draws of {count}"
    # Rare draws carry the mean: without them it is too low and its error too small.
    if bets.verdict(bets.shared(bets.on_ratios(log_ratio))) == "fail":
        status = "fail"
        advice = "a mean clearly above 1 is impossible: another distribution is scored than sampled"
    elif effective < FEW or mean < 1 - SIGMAS * error:
        status = "warn"
        advice = "few draws carry the mean: the policies are far apart, or more draws are needed"
    else:
        status, advice = "pass", ""
    return Check(f"mean ratio under the {name} policy", status, mean, told, advice)


def divergence(name: str, log_ratio: Floats) -> Check:
    """A Kullback–Leibler divergence in nats a sequence, which is never negative.

    The product of the other policy's ratios is a bet, so the sum of their logs can only seldom
    be far above zero; the spread of a few draws says nothing of those that are rare.
    """
    mean = float(log_ratio.mean())
    with np.errstate(invalid="ignore"):
        error = float(log_ratio.std(ddof=1) / np.sqrt(len(log_ratio)))
    told = f"{mean:.3g} ± {error:.2g} nats a sequence"
    if bets.verdict(-float(log_ratio.sum())) == "fail":
        advice = "a divergence is not negative: another distribution is scored than sampled"
        return Check(name, "fail", mean, told, advice)
    if mean > FAR_APART:
        advice = "clip keeps hardly any draw: use family 'mix', shorter answers or less tuning"
        return Check(name, "warn", mean, told, advice)
    return Check(name, "pass", mean, told)
