"""The likeliest tokens at every position of given completions, from the logits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from tether._core import progress
from tether._core.types import Integers
from tether.llm.completions import Tokens
from tether.llm.local.batched_model import BatchedModel, pack_rows
from tether.llm.local.weight_checksum import WeightChecksum
from tether.llm.prompts import Prompt
from tether.llm.token_tables import TABLE_TOKENS, TokenTables


def likely_tokens(
    batched: BatchedModel,
    prompts: Sequence[Prompt],
    actions: Tokens,
    lengths: Integers,
    checksum: WeightChecksum,
) -> TokenTables:
    """Tables for every token of every completion, one pass over each."""
    places, tokens, log_probs = [], [], []
    prefix_lengths = np.array([len(prompt) for prompt in prompts], dtype=np.int64)
    with (
        batched.running([checksum], prompts[0]),
        progress.step("reading likely tokens", total=len(prompts)) as step,
    ):
        for batch in pack_rows(prefix_lengths, lengths, batched.batch_tokens):
            given, present = batched.pad_completions(actions[batch], int(lengths[batch].max()))
            prompt, mask = batched.pad_prompts([prompts[row] for row in batch])
            mask = torch.cat([mask, present[:, :-1].long()], dim=1)
            joined = torch.cat([prompt, given[:, :-1]], dim=1)
            logits = batched.forward(joined, mask, given.shape[1], None).logits
            for column in range(given.shape[1]):
                table = batched.log_softmax(logits[:, column])
                best = table.topk(min(TABLE_TOKENS, table.shape[1]), dim=1)
                rows = present[:, column].cpu().numpy()
                places += [(row, column) for row in batch[rows]]
                tokens.append(best.indices.cpu().numpy()[rows])
                log_probs.append(best.values.double().cpu().numpy()[rows])
            step.advance(len(batch))
    where = np.array(places)
    order = np.lexsort((where[:, 1], where[:, 0]))
    return TokenTables(
        row=where[order, 0],
        position=where[order, 1],
        tokens=np.concatenate(tokens)[order],
        log_probs=np.concatenate(log_probs)[order],
    )
