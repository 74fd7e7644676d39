"""Violation rates of calibrated policies against alpha, in blocks of draws that share none."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from examples.smollm import results
from examples.smollm.draws import Draws

import tether
from tether.control.families import find_family

ALPHAS = (0.06, 0.08, 0.1, 0.125, 0.15, 0.2)
FAMILIES = ("clip", "mix")
SOURCES = ("safe", "optimized")
LOG_ROWS = 200
SPLITS = 10


def tables(draws: Draws, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """A log, proposals and an evaluation set that share no draw.

    The log consists of rows of the safe policy. The remaining draws of both policies are split in
    halves, subject by subject: one for the proposals, one to evaluate the deployed policy.
    """
    safe = rng.permutation(np.flatnonzero(draws["source"] == "safe"))
    logged, left = safe[:LOG_ROWS], safe[LOG_ROWS:]
    rest = rng.permutation(np.append(left, np.flatnonzero(draws["source"] == "optimized")))
    key = draws["subject"] + 1000 * (draws["source"] == "safe")
    rest = rest[np.argsort(key[rest], kind="stable")]
    proposed, evaluated = rest[::2], rest[1::2]
    log = tether.Log(
        draws["loss"][logged],
        draws["log_safe"][logged],
        draws["log_optimized"][logged],
        context=draws["subject"][logged],
    )
    proposals = tether.Proposals(
        draws["log_safe"][proposed],
        draws["log_optimized"][proposed],
        context=draws["subject"][proposed],
        source=draws["source"][proposed],
    )
    return log, proposals, evaluated


def deployed(
    draws: Draws, evaluated: Any, family: str, log_beta: float
) -> tuple[float, float, float]:
    """Violation rate, words and draws per action of a tethered policy, from both policies' draws.

    In each context, draws of both policies are importance-weighted: the weight is the tethered
    density over that of their mixture.
    """
    chosen = find_family(family)
    by_subject = []
    for subject in np.unique(draws["subject"]):
        rows = evaluated[draws["subject"][evaluated] == subject]
        log_safe, log_optimized = draws["log_safe"][rows], draws["log_optimized"][rows]
        from_safe = draws["source"][rows] == "safe"
        log_mixture = np.logaddexp(
            log_safe + np.log(from_safe.sum()), log_optimized + np.log((~from_safe).sum())
        )
        if np.isneginf(log_beta):
            kernel = log_safe
        else:
            kernel = chosen.log_kernel(log_safe, log_optimized, log_beta)
        weight = np.exp(kernel - log_mixture)
        log_psi = np.log(weight.sum())
        acceptance = 1.0 if family == "mix" else np.exp(chosen.log_acceptance(log_beta, log_psi))
        weight /= weight.sum()
        rate, words = weight @ draws["loss"][rows], weight @ draws["words"][rows]
        by_subject.append((rate, words, 1 / acceptance))
    rate, words, per_action = np.mean(by_subject, axis=0)
    return float(rate), float(words), float(per_action)


def study(blocks: Sequence[Draws], rng: np.random.Generator) -> list[dict[str, Any]]:
    """For each family and alpha: the deployed policy, averaged over splits and blocks of draws."""
    found = np.stack([_splits(block, rng, SPLITS) for block in blocks])
    kinds = itertools.product(FAMILIES, ALPHAS)
    return [
        results.row(family, alpha, of_blocks)
        for (family, alpha), of_blocks in zip(kinds, found.swapaxes(0, 1), strict=True)
    ]


def _splits(draws: Draws, rng: np.random.Generator, count: int) -> np.ndarray:
    """Rate, words, beta, safe only, draws and tokens per action, by family and alpha and split.

    Draws are proposed by the safe policy if beta is below 1, and else by the optimized one.
    """
    found = np.empty((len(FAMILIES) * len(ALPHAS), count, 6))
    lengths = {each: draws["tokens"][draws["source"] == each].mean() for each in SOURCES}
    for split in range(count):
        log, proposals, evaluated = tables(draws, rng)
        for index, (family, alpha) in enumerate(itertools.product(FAMILIES, ALPHAS)):
            result = tether.calibrate(log, proposals, alpha=alpha, family=family)
            rate, words, drawn = deployed(draws, evaluated, family, result.log_beta)
            tokens = lengths["safe" if result.beta < 1 else "optimized"]
            exists = result.exists
            found[index, split] = rate, words, result.beta, not exists, drawn, drawn * tokens
    return found
