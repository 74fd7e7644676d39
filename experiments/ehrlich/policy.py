"""A language model with a few prompts, taken as one policy over sequences of fixed length.

An action is a sequence of as many states as the function asks for. At every place the model chooses
among the states alone: all other tokens are masked, in sampling, scoring and training alike, so an
action is infeasible only where the function forbids it.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from experiments.ehrlich.function import Ehrlich, Sequences
from experiments.ehrlich.model import Cache, Transformer

Floats = NDArray[np.float64]


class Language:
    """The tokens of one function: its states, and one before and one after a prompt's sequence."""

    def __init__(self, function: Ehrlich) -> None:
        self.function, self.states, self.length = function, function.states, function.length
        self.begin, self.answer = function.states, function.states + 1
        self.vocabulary = function.states + 2

    def prompts(self, seeds: Sequences) -> NDArray[np.int64]:
        """The text before an answer: begin, the seed sequence, answer."""
        edge = np.ones((len(seeds), 1), dtype=np.int64)
        return np.concatenate([self.begin * edge, seeds, self.answer * edge], axis=1)


def log_probs(model: Transformer, prompt: Tensor | Cache, actions: Tensor, states: int) -> Tensor:
    """Log-probability of each action after its prompt, among sequences of states, in float32.

    `prompt` is a row of tokens for each action, or its keys and values without the last token,
    which then is the first of `actions`.
    """
    if isinstance(prompt, Tensor):
        logits, _ = model(torch.cat([prompt, actions[:, :-1]], dim=1))
        logits, written = logits[:, prompt.shape[1] - 1 :], actions
    else:
        logits, _ = model(actions[:, :-1], prompt)
        written = actions[:, 1:]
    allowed = logits[..., :states].float().transpose(1, 2)
    return -torch.nn.functional.cross_entropy(allowed, written, reduction="none").sum(dim=1)


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
    def sample(self, contexts: Any, rng: np.random.Generator) -> Sequences:
        """So many actions as `contexts` says, which is a number."""
        count = int(contexts)
        prompt = torch.as_tensor(rng.integers(len(self.seeds), size=count), device=self.device)
        generator = torch.Generator(self.device).manual_seed(int(rng.integers(2**63)))
        parts = []
        for part in prompt.split(self.batch):
            noise = torch.empty(
                self.language.length, len(part), self.language.states, device=self.device
            ).exponential_(generator=generator)
            few = self.device.type == "cuda" and len(part) <= MOST_REPLAYED
            parts.append(replayed(self, part, noise) if few else self.written(part, noise))
        return torch.cat(parts).cpu().numpy()

    def written(self, prompt: Tensor, noise: Tensor) -> Tensor:
        """An answer to each prompt, by exponential noise for every place and row."""
        cache = [
            (self._with_room(key, prompt), self._with_room(value, prompt))
            for key, value in self.cache
        ]
        filled = self.cache[0][0].shape[2]
        token = torch.full((len(prompt), 1), self.language.answer, device=self.device)
        written = []
        for place in range(self.language.length):
            logits, _ = self.model(token, cache, filled + place)
            chances = logits[:, -1, : self.language.states].softmax(dim=-1)
            token = (chances / noise[place]).argmax(dim=-1, keepdim=True)
            written.append(token)
        return torch.cat(written, dim=1)

    def _with_room(self, prompts: Tensor, which: Tensor) -> Tensor:
        """Keys or values of some prompts, with places for the answer after them."""
        _, heads, length, size = prompts.shape
        room = prompts.new_empty(len(which), heads, length + self.language.length, size)
        room[:, :, :length] = prompts[which]
        return room

    @torch.no_grad()
    def log_prob(self, contexts: Any, actions: Any) -> Floats:
        """Of each action over all prompts; `contexts` is not looked at."""
        tokens = torch.as_tensor(np.asarray(actions), device=self.device)
        answer = torch.full((len(tokens), 1), self.language.answer, device=self.device)
        tokens = torch.cat([answer, tokens], dim=1)
        prompts, parts = len(self.seeds), []
        for rows in tokens.split(max(1, self.batch // prompts)):
            which = torch.arange(prompts, device=self.device).repeat_interleave(len(rows))
            cache = [(key[which], value[which]) for key, value in self.cache]
            scores = log_probs(self.model, cache, rows.repeat(prompts, 1), self.language.states)
            parts.append(scores.view(prompts, -1).double().logsumexp(dim=0) - np.log(prompts))
        return torch.cat(parts).cpu().numpy()


class Replay:
    """A CUDA graph that writes so many answers to so many prompts, for any policy of one shape.

    A few answers take thousands of small kernels, and most of the time is spent on their launches.
    """

    def __init__(self, policy: Prompted, rows: int) -> None:
        self.policy = copy.copy(policy)
        self.policy.model = copy.deepcopy(policy.model)
        self.policy.cache = [(key.clone(), value.clone()) for key, value in policy.cache]
        self.prompt = torch.zeros(rows, dtype=torch.long, device=policy.device)
        language = policy.language
        self.noise = torch.ones(language.length, rows, language.states, device=policy.device)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # libraries set themselves up before the capture
            self.policy.written(self.prompt, self.noise)
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            self.actions = self.policy.written(self.prompt, self.noise)

    @staticmethod
    def tensors(policy: Prompted) -> list[Tensor]:
        """What differs between policies of one shape."""
        return [*policy.model.parameters(), *(each for pair in policy.cache for each in pair)]

    def __call__(self, policy: Prompted, prompt: Tensor, noise: Tensor) -> Tensor:
        """What `policy.written` returns."""
        for ours, theirs in zip(self.tensors(self.policy), self.tensors(policy), strict=True):
            ours.copy_(theirs)
        self.prompt[: len(prompt)] = prompt
        self.noise[:, : len(prompt)] = noise
        self.graph.replay()
        return self.actions[: len(prompt)].clone()


MOST_REPLAYED = 1024
REPLAYS: dict[tuple[Any, ...], Replay] = {}


def replayed(policy: Prompted, prompt: Tensor, noise: Tensor) -> Tensor:
    """What `policy.written` returns, by a graph for the next power of two rows."""
    rows = max(64, 1 << (len(prompt) - 1).bit_length())
    key = policy.model.shape, len(policy.seeds), rows
    if key not in REPLAYS:
        REPLAYS[key] = Replay(policy, rows)
    return REPLAYS[key](policy, prompt, noise)


@dataclass
class Stocked:
    """The safe policy with draws in stock, drawn and scored once for every run of a seed.

    Scoring its draws under all its prompts is what accept-reject spends most on. A run takes each
    draw at most once, in order, and draws afresh when it has used them up.
    """

    policy: Prompted
    actions: Sequences
    scores: Floats
    used: int = 0
    known: dict[bytes, float] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.known = dict(zip(map(bytes, self.actions), self.scores.tolist(), strict=True))

    def sample(self, contexts: Any, rng: np.random.Generator) -> Sequences:
        """So many actions: the next of the stock, then fresh ones."""
        count = int(contexts)
        taken = self.actions[self.used : self.used + count]
        self.used += len(taken)
        if len(taken) == count:
            return taken
        return np.concatenate([taken, self.policy.sample(count - len(taken), rng)])

    def log_prob(self, contexts: Any, actions: Any) -> Floats:
        """Remembered where the action is in stock."""
        actions = np.ascontiguousarray(actions, dtype=self.actions.dtype)
        scores = np.array([self.known.get(bytes(row), np.nan) for row in actions])
        new = np.isnan(scores)
        if new.any():
            scores[new] = self.policy.log_prob(contexts, actions[new])
        return scores
