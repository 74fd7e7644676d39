"""How long one answer takes under each family, one prompt at a time: ratios to a plain answer."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from examples.smollm import model
from examples.smollm.best_of_n import SIZES

import tether
from tether.llm import CausalPolicy, CompletionScorer

CLIP_BETA, MIX_BETA = 1.0, 1.0


def count_words(prompt: str, texts: list[str]) -> list[float]:
    """The score that needs no model."""
    return [float(len(text.split())) for text in texts]


def tasks(safe: CausalPolicy, optimized: CausalPolicy, with_clip: bool) -> dict[str, Any]:
    """What serves one answer, by name; without clip only what asks the optimized policy nothing."""
    found: dict[str, Any] = {"plain": safe}
    if with_clip:
        found["clip"] = tether.Tethered(safe, optimized, CLIP_BETA)
        found["mix"] = tether.Tethered(safe, optimized, MIX_BETA, family="mix")
    for size in SIZES:
        of = tether.Shortlist(safe, CompletionScorer(count_words, safe), size=size)
        found[f"best of {size}, words"] = of.tethered(1.0)
        if with_clip:
            of = tether.Shortlist(safe, optimized, size=size)
            found[f"best of {size}, log ratio"] = of.tethered(1.0)
    return found


def measure(
    safe: CausalPolicy,
    optimized: CausalPolicy,
    path: Path,
    report: Callable[[str], None],
    *,
    answers: int,
    with_clip: bool,
) -> dict[str, float]:
    """Processor seconds per answer of each family; each is kept in a file once it is known."""
    spent: dict[str, float] = json.loads(path.read_text()) if path.exists() else {}
    for name, policy in tasks(safe, optimized, with_clip).items():
        if name in spent:
            continue
        rng = np.random.default_rng([20, answers])
        if not spent:
            policy.sample(model.PROMPTS[:1], rng)  # warms up
        begun = time.process_time()
        for number in range(answers):
            policy.sample(model.PROMPTS[[number % len(model.PROMPTS)]], rng)
        spent[name] = (time.process_time() - begun) / answers
        path.write_text(json.dumps(spent))
        report(f"{path.stem}: {name}, {spent[name] / spent['plain']:.2f} of a plain answer")
    return {name: seconds / spent["plain"] for name, seconds in spent.items()}
