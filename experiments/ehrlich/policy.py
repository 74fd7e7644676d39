"""A language model with a few prompts, taken as one policy over sequences of tokens.

An action is what the model wrote: `length` + 1 tokens, or fewer and then the end token, repeated to
fill the row. Whatever it wrote is an action, also what is no sequence of the right length.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from experiments.ehrlich.function import Ehrlich, Sequences
from experiments.ehrlich.model import Cache, Transformer

SPECIAL = 3
"""Tokens beside the states of the function: end, begin and answer, in this order."""


class Language:
    """The tokens of one function: how prompts are written and actions are read."""

    def __init__(self, function: Ehrlich) -> None:
        self.function = function
        self.end, self.begin, self.answer = range(function.states, function.states + SPECIAL)
        self.vocabulary = function.states + SPECIAL
        self.written = function.length + 1

    def prompts(self, seeds: Sequences) -> NDArray[np.int64]:
        """The text before an answer: begin, the seed sequence, answer."""
        edge = np.ones((len(seeds), 1), dtype=np.int64)
        return np.concatenate([self.begin * edge, seeds, self.answer * edge], axis=1)

    def actions(self, sequences: Sequences) -> NDArray[np.int64]:
        """Sequences as the model writes them, with the end after them."""
        end = np.full((len(sequences), 1), self.end)
        return np.concatenate([sequences, end], axis=1)

    def read(self, actions: NDArray[np.int64]) -> tuple[Sequences, NDArray[np.bool_]]:
        """The sequences in the actions, and which of them are sequences of the right length."""
        body = actions[:, :-1]
        parsed = (body < self.function.states).all(axis=1) & (actions[:, -1] == self.end)
        return np.where(parsed[:, None], body, 0), parsed

    def values(self, actions: NDArray[np.int64]) -> NDArray[np.float64]:
        """The objective of each action; −inf for an infeasible one and for what is no sequence."""
        sequences, parsed = self.read(actions)
        return np.where(parsed, self.function(sequences), -np.inf)


def token_log_probs(model: Transformer, prompt: Tensor | Cache, actions: Tensor, end: int) -> Any:
    """Log-probability of each action after its prompt, the end token included, in float32.

    `prompt` is a row of tokens for each action, or its keys and values, without the last token,
    which then is the first of `actions`.
    """
    if isinstance(prompt, Tensor):
        logits, _ = model(torch.cat([prompt, actions[:, :-1]], dim=1))
        logits, written = logits[:, prompt.shape[1] - 1 :], actions
    else:
        logits, _ = model(actions[:, :-1], prompt)
        written = actions[:, 1:]
    chosen = -torch.nn.functional.cross_entropy(
        logits.float().transpose(1, 2), written, reduction="none"
    )
    ended = (written == end).cumsum(dim=1)
    counts = (ended == 0) | ((ended == 1) & (written == end))  # up to the first end token
    return (chosen * counts).sum(dim=1)


class Prompted:
    """A tether policy without contexts: a prompt is drawn evenly, then the model's answer to it.

    `log_prob` is the log of the mean over all prompts of the answer's probability.
    """

    def __init__(
        self, model: Transformer, seeds: Sequences, language: Language, *, batch: int = 4096
    ) -> None:
        self.model, self.language, self.batch, self.seeds = model, language, batch, seeds
        self.device = next(model.parameters()).device
        tokens = torch.as_tensor(language.prompts(seeds), device=self.device)
        with torch.no_grad():
            _, self.cache = model.eval()(tokens[:, :-1])

    @torch.no_grad()
    def sample(self, contexts: Any, rng: np.random.Generator) -> NDArray[np.int64]:
        """So many actions as `contexts` says, which is a number."""
        count = int(contexts)
        prompt = torch.as_tensor(rng.integers(len(self.seeds), size=count), device=self.device)
        generator = torch.Generator(self.device).manual_seed(int(rng.integers(2**63)))
        parts = [self._written(part, generator) for part in prompt.split(self.batch)]
        return torch.cat(parts).cpu().numpy()

    def _written(self, prompt: Tensor, generator: torch.Generator) -> Tensor:
        cache = [
            (self._with_room(key, prompt), self._with_room(value, prompt))
            for key, value in self.cache
        ]
        filled = self.cache[0][0].shape[2]
        token = torch.full((len(prompt), 1), self.language.answer, device=self.device)
        over = torch.zeros(len(prompt), 1, dtype=torch.bool, device=self.device)
        written = []
        for place in range(self.language.written):
            logits, _ = self.model(token, cache, filled + place)
            noise = torch.empty_like(logits[:, -1]).exponential_(generator=generator)
            token = (logits[:, -1].softmax(dim=-1) / noise).argmax(dim=-1, keepdim=True)
            token = token.masked_fill(over, self.language.end)
            over = over | (token == self.language.end)
            written.append(token)
        return torch.cat(written, dim=1)

    def _with_room(self, prompts: Tensor, which: Tensor) -> Tensor:
        """Keys or values of some prompts, with places for the answer after them."""
        _, heads, length, size = prompts.shape
        room = prompts.new_empty(len(which), heads, length + self.language.written, size)
        room[:, :, :length] = prompts[which]
        return room

    @torch.no_grad()
    def log_prob(self, contexts: Any, actions: Any) -> NDArray[np.float64]:
        """Of each action over all prompts; `contexts` is not looked at."""
        tokens = torch.as_tensor(np.asarray(actions), device=self.device)
        answer = torch.full((len(tokens), 1), self.language.answer, device=self.device)
        tokens = torch.cat([answer, tokens], dim=1)
        prompts = len(self.seeds)
        parts = []
        for rows in tokens.split(max(1, self.batch // prompts)):
            which = torch.arange(prompts, device=self.device).repeat_interleave(len(rows))
            cache = [(key[which], value[which]) for key, value in self.cache]
            every = rows.repeat(prompts, 1)
            scores = token_log_probs(self.model, cache, every, self.language.end)
            parts.append(scores.view(prompts, -1).double().logsumexp(dim=0) - np.log(prompts))
        return torch.cat(parts).cpu().numpy()
