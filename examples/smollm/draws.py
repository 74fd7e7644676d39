"""Draws of both policies, in blocks that are kept in a folder, so that a run can be continued."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from examples.smollm import model

from tether.llm import CausalPolicy

SENTENCE_BLOCKS, TEXT_BLOCKS = 6, 4
"""How many blocks there are of sentences and of longer texts: a study is made in each."""
SENTENCES = {"safe": 100, "optimized": 40}
TEXTS = {"safe": 24}
PAIRED_TEXTS = {"safe": 8, "optimized": 8}
"""Draws per subject in a block, by policy. Paired texts are scored under both policies."""

Draws = dict[str, np.ndarray]


def sentences(
    safe: CausalPolicy, optimized: CausalPolicy, folder: Path, report: Callable[[str], None]
) -> list[Draws]:
    """Blocks of sentences on every subject, scored under both policies."""
    return _blocks(safe, optimized, folder, "sentences", SENTENCE_BLOCKS, SENTENCES, True, report)


def texts(
    safe: CausalPolicy, optimized: CausalPolicy, folder: Path, report: Callable[[str], None]
) -> tuple[list[Draws], Draws]:
    """Blocks of longer texts of the safe policy, and a few texts of both, scored under both."""
    drawn = _blocks(safe, optimized, folder, "texts", TEXT_BLOCKS, TEXTS, False, report)
    [paired] = _blocks(safe, optimized, folder, "paired-texts", 1, PAIRED_TEXTS, True, report)
    return drawn, paired


def _blocks(
    safe: CausalPolicy,
    optimized: CausalPolicy,
    folder: Path,
    name: str,
    count: int,
    sizes: dict[str, int],
    scored: bool,
    report: Callable[[str], None],
) -> list[Draws]:
    made = []
    for block in range(count):
        path = folder / f"{name}-{block}.npz"
        if not path.exists():
            rng = np.random.default_rng([10, block, len(name)])
            np.savez(path, **_draw(safe, optimized, sizes, scored, rng))
            report(f"{name}, block {block + 1} of {count}")
        made.append(dict(np.load(path)))
    return made


def joined(blocks: Sequence[Draws]) -> Draws:
    """All blocks as one."""
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}


def _draw(
    safe: CausalPolicy,
    optimized: CausalPolicy,
    sizes: dict[str, int],
    scored: bool,
    rng: np.random.Generator,
) -> Draws:
    made: list[Draws] = []
    for source, count in sizes.items():
        policy = safe if source == "safe" else optimized
        subject = np.repeat(np.arange(len(model.PROMPTS)), count)
        prompts = model.PROMPTS[subject]
        actions = policy.sample(prompts, rng)
        drawn: dict[str, Any] = {
            "subject": subject,
            "source": np.full(len(subject), source, dtype="<U9"),
            "cut_off": policy.cut_off(actions),
            "tokens": (actions >= 0).sum(axis=1),
            "text": np.array(policy.texts(actions)),
        }
        if scored:
            scores = safe.log_prob_both(optimized, prompts, actions)
            drawn |= dict(zip(("log_safe", "log_optimized"), scores, strict=True))
        made.append(drawn)
    return joined(made)
