"""Draws of a policy that is tethered at every token: one token at a time for a batch of prompts."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tether._core.types import Floats
from tether.llm.completions import PADDING, Tokens
from tether.llm.local.batched_model import distinct_prompts
from tether.llm.local.paired_model import PairedModel, PairState
from tether.llm.local.sampler import draw_tokens
from tether.llm.local.token_rule import TokenRule
from tether.llm.prompts import Prompt


class TokenDraws:
    """Completions that are being drawn; `step` draws the next token of each unfinished one.

    Every call must be made while the pair of models is running. A prompt that occurs several times
    is read once.
    """

    def __init__(
        self, pair: PairedModel, rule: TokenRule, log_beta: float, prompts: list[Prompt], width: int
    ) -> None:
        self.pair, self.rule, self.log_beta = pair, rule, log_beta
        distinct, index = distinct_prompts(prompts)
        log_safe, log_optimized, state = pair.read_prompts(distinct)
        place = torch.as_tensor(index, device=pair.device)
        self._tables: tuple[Any, Any] = log_safe[place], log_optimized[place]
        self._state: PairState = state.selected(place, pair.policies)
        self._ends = torch.as_tensor(pair.safe.end_token_ids, device=pair.device)
        self._active = np.arange(len(prompts))
        self.width = width
        self.tokens: Tokens = np.full((len(prompts), self.width), PADDING, dtype=np.int64)
        self.scores: Floats = np.zeros(len(prompts))
        self.position = 0

    def step(self, rng: np.random.Generator) -> bool:
        """Draw one token of every unfinished completion; False where that finished the last."""
        table = self.rule.log_table(*self._tables, self.log_beta)
        drawn = draw_tokens(table, rng, self.pair.safe.temperature)
        self.tokens[self._active, self.position] = drawn.cpu().numpy()
        chosen = table.gather(1, drawn[:, None])[:, 0]
        self.scores[self._active] += chosen.cpu().numpy()
        self.position += 1
        unfinished = ~torch.isin(drawn, self._ends)
        if self.position == self.width or not unfinished.any():
            return False
        if not unfinished.all():  # finished rows leave the batch
            keep = torch.nonzero(unfinished)[:, 0]
            self._state = self._state.selected(keep, self.pair.policies)
            drawn, self._active = drawn[keep], self._active[keep.cpu().numpy()]
        ones = torch.ones_like(drawn[:, None])
        safe, optimized = self.pair.go_on(self._state, drawn[:, None], ones)
        self._tables = safe.column(0), optimized.column(0)
        return True
