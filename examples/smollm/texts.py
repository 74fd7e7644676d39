"""Texts of many sentences: their loss and reward, and what clip would take."""

from __future__ import annotations

import numpy as np
from examples.smollm.draws import Draws
from examples.smollm.model import TEXT_TOKENS

from tether.llm.preflight_checks.pair_checks import estimate_costs

MAX_WORDS = 12
"""A sentence with more words is long."""
ALPHAS = (0.25, 0.3, 0.4)


def sentence_lengths(text: str, cut_off: bool) -> list[int]:
    """Words of each finished sentence: one per line, and none that was cut off."""
    lines = text.split("\n")
    found = [len(line.split()) for line in (lines[:-1] if cut_off else lines) if line.strip()]
    return found or [len(text.split())]


def judged(draws: Draws) -> Draws:
    """The draws with their loss and reward.

    The loss is the share of sentences that are long, the reward the mean number of words per
    sentence.
    """
    lengths = [
        sentence_lengths(str(text), bool(cut))
        for text, cut in zip(draws["text"], draws["cut_off"], strict=True)
    ]
    return {
        **draws,
        "loss": np.array([np.mean(np.array(each) > MAX_WORDS) for each in lengths]),
        "words": np.array([float(np.mean(each)) for each in lengths]),
    }


def describe(paired: Draws) -> str:
    """How far the policies are apart, and the draws that clip would take at a beta of 1."""
    ratio = paired["log_optimized"] - paired["log_safe"]
    is_safe = paired["source"] == "safe"
    rows = [np.flatnonzero(paired["subject"] == each) for each in np.unique(paired["subject"])]
    rows = [np.concatenate([each[is_safe[each]], each[~is_safe[each]]]) for each in rows]
    scores = [np.stack([paired[name][each] for each in rows]) for name in SCORES]
    draws = estimate_costs(*scores, (1.0,))[0].draws
    return (
        f"{len(ratio)} texts of up to {TEXT_TOKENS} tokens: KL {-ratio[is_safe].mean():.1f} nats "
        f"from the safe policy's side, {ratio[~is_safe].mean():.1f} from the optimized one's; "
        f"clip at beta 1 would take about {draws:.2g} draws per text"
    )


SCORES = ("log_safe", "log_optimized")
