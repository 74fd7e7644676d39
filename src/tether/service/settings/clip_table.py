"""What a tethered gateway needs where both upstreams tell log-probabilities.

Completions are then drawn by a budgeted clip or, with `candidates`, are the best of N by the log
ratio of the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tether.service.settings.toml_tables import Table

CLIP_FAMILY = "clip"
"""The family of a new upstream without candidates."""
CLIP_OPTIONS = ("budget", "max_new_tokens", "eos_token_id", "tokenizer", "new")
"""The settings of the table `gateway` that only a new upstream has."""
NEW_UPSTREAM_OPTIONS = ("url", "model", "api_key_variable", "timeout", "retries")
"""The settings of the new upstream."""


@dataclass(frozen=True)
class ClipSettings:
    """How completions are drawn from a safe and a new upstream.

    Parameters
    ----------
    budget : int or None
        How many completions are proposed at most before the safe upstream's is taken; None where
        they are the best of N.
    max_new_tokens : int
        The longest completion.
    eos_token_id : tuple of int
        The tokens that end one.
    tokenizer : str or None
        The folder of a tokenizer; without one prompts are lists of token ids.
    """

    budget: int | None
    max_new_tokens: int
    eos_token_id: tuple[int, ...]
    tokenizer: str | None = None


def read_clip(table: Table, folder: Path) -> ClipSettings:
    """Read the settings of completions."""
    budget = None
    if not table.has("candidates"):
        budget = table.integer("budget", 8, least=1, most=10_000)
    elif table.has("budget"):
        raise ValueError(
            f"{table.full('budget')} is of a clip, and {table.full('candidates')} of best of N: "
            f"give one of them"
        )
    tokens = table.integer("max_new_tokens", 64, least=1, most=1_000_000)
    tokenizer, given = table.optional_text("tokenizer"), table.take("eos_token_id")
    ends = [given] if isinstance(given, int) else given
    is_valid = isinstance(ends, list) and ends and all(type(each) is int for each in ends)
    if not is_valid:
        raise ValueError(
            f"{table.full('eos_token_id')} must be a token id or a list of them, got {given!r:.80}"
        )
    found = None if tokenizer is None else str(folder / tokenizer)
    return ClipSettings(budget, tokens, tuple(ends), found)
