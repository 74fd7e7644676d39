"""A decoder-only transformer of Pythia's architecture (GPT-NeoX), written for many short sequences.

What transformers computes, with two ways that it lacks: completions of few prompts share the
prompts' keys and values, and tokens are drawn for thousands of sequences at a time. Parameters have
the names of transformers' `GPTNeoXForCausalLM`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

Cache = list[tuple[Tensor, Tensor]]
"""The keys and values of each layer: rows × heads × positions × width of a head."""


@dataclass(frozen=True)
class Shape:
    """The sizes of a model; the defaults are those of Pythia-14M, but for the vocabulary."""

    vocabulary: int
    width: int = 128
    layers: int = 6
    heads: int = 4
    rotary: float = 0.25
    """The share of a head's dimensions that turn with the position."""
    base: float = 10_000.0


class Attention(nn.Module):
    """Causal self-attention with rotary positions."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.size = shape.width // shape.heads
        self.turning = int(self.size * shape.rotary)
        self.base = shape.base
        self.query_key_value = nn.Linear(shape.width, 3 * shape.width)
        self.dense = nn.Linear(shape.width, shape.width)

    def forward(
        self, x: Tensor, start: int, past: tuple[Tensor, Tensor] | None, *, roomy: bool = False
    ) -> tuple:
        """The output, and keys and values with those of the past before them.

        A `roomy` past has places for what is to come, and is written into.
        """
        rows, length, width = x.shape
        parts = self.query_key_value(x).view(rows, length, self.heads, 3 * self.size)
        query, key, value = parts.transpose(1, 2).chunk(3, dim=-1)
        query, key = self._turned(query, start), self._turned(key, start)
        if past is not None and roomy:
            stop = start + length
            past[0][:, :, start:stop], past[1][:, :, start:stop] = key, value
            key, value = past[0][:, :, :stop], past[1][:, :, :stop]
        elif past is not None:
            key = torch.cat([past[0].expand(rows, -1, -1, -1), key], dim=2)
            value = torch.cat([past[1].expand(rows, -1, -1, -1), value], dim=2)
        mask = None
        if past is not None and length > 1:
            mask = torch.ones(length, key.shape[2], dtype=torch.bool, device=x.device)
            mask = mask.tril(key.shape[2] - length)
        found = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=past is None
        )
        return self.dense(found.transpose(1, 2).reshape(rows, length, width)), (key, value)

    def _turned(self, x: Tensor, start: int) -> Tensor:
        steps = torch.arange(0, self.turning, 2, device=x.device, dtype=torch.float32)
        place = torch.arange(start, start + x.shape[2], device=x.device, dtype=torch.float32)
        angle = torch.outer(place, self.base ** (-steps / self.turning)).repeat(1, 2)
        turn, rest = x[..., : self.turning], x[..., self.turning :]
        left, right = turn.chunk(2, dim=-1)
        turned = turn * angle.cos() + torch.cat([-right, left], dim=-1) * angle.sin()
        return torch.cat([turned.to(x.dtype), rest], dim=-1)


class Perceptron(nn.Module):
    """Two layers, four times as wide in between."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.dense_h_to_4h = nn.Linear(shape.width, 4 * shape.width)
        self.dense_4h_to_h = nn.Linear(4 * shape.width, shape.width)

    def forward(self, x: Tensor) -> Tensor:
        """As wide out as in."""
        return self.dense_4h_to_h(functional.gelu(self.dense_h_to_4h(x)))


class Layer(nn.Module):
    """Attention and perceptron side by side."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.input_layernorm = nn.LayerNorm(shape.width)
        self.post_attention_layernorm = nn.LayerNorm(shape.width)
        self.attention = Attention(shape)
        self.mlp = Perceptron(shape)

    def forward(
        self, x: Tensor, start: int, past: tuple[Tensor, Tensor] | None, *, roomy: bool = False
    ) -> tuple:
        """The output, and the layer's keys and values."""
        attended, kept = self.attention(self.input_layernorm(x), start, past, roomy=roomy)
        return x + attended + self.mlp(self.post_attention_layernorm(x)), kept


class Body(nn.Module):
    """Everything before the last projection."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embed_in = nn.Embedding(shape.vocabulary, shape.width)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.final_layer_norm = nn.LayerNorm(shape.width)


class Transformer(nn.Module):
    """Tokens to logits; `past` holds what came before, one row for all or one for each."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.gpt_neox = Body(shape)
        self.embed_out = nn.Linear(shape.width, shape.vocabulary, bias=False)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(
        self, tokens: Tensor, past: Cache | None = None, filled: int | None = None
    ) -> tuple[Tensor, Cache]:
        """The logits after each token, and the keys and values of all tokens so far.

        With `filled`, so many places of the past are filled, and the next ones are filled here:
        drawing token after token then takes no new memory.
        """
        start = filled or (0 if past is None else past[0][0].shape[2])
        x = self.gpt_neox.embed_in(tokens)
        kept: Cache = []
        for number, layer in enumerate(self.gpt_neox.layers):
            before = None if past is None else past[number]
            x, pair = layer(x, start, before, roomy=filled is not None)
            kept.append(pair)
        return self.embed_out(self.gpt_neox.final_layer_norm(x)), kept


def make_model(shape: Shape, seed: int, device: str) -> Transformer:
    """A model with random weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Transformer(shape)
    return model.to(device)
