"""Texts of many sentences: their loss and reward, and what clip would take."""

from __future__ import annotations

import numpy as np
from examples.smollm.draws import Draws
from examples.smollm.model import TEXT_TOKENS

MAX_WORDS = 12
"""A sentence with more words is long."""
ALPHAS = (0.15, 0.2, 0.25)


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
    """How far the policies are apart, and the draws that clip would take at a beta of 1.

    Each subject and each policy tells the acceptance by itself, as the mean of min(1, ratio) over
    its own draws. They are few, so their range is shown.
    """
    ratio = paired["log_optimized"] - paired["log_safe"]
    is_safe = paired["source"] == "safe"
    draws = [
        1 / np.minimum(1, np.exp(sign * ratio[(paired["subject"] == subject) & rows])).mean()
        for subject in np.unique(paired["subject"])
        for sign, rows in ((1, is_safe), (-1, ~is_safe))
    ]
    return (
        f"{len(ratio)} texts of up to {TEXT_TOKENS} tokens: KL {-ratio[is_safe].mean():.1f} nats "
        f"from the safe policy's side, {ratio[~is_safe].mean():.1f} from the optimized one's; "
        f"draws per text that clip would take at beta 1, by the texts of each subject and policy: "
        f"{min(draws):,.0f} to {max(draws):,.0f}"
    )
