"""Weights: whether a policy still is what it was.

A policy is its weights, and a model's weights can change under it: trained in place, merged with
an adapter, loaded anew. A checksum over all their bits is compared at each use; it costs one
reading of the weights, as much as a single token of the model does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tether.llm.local.adapters import owners

WORD, BLOCK = 8, 32
"""Bytes that are added up as one number, and such numbers of a block."""


@dataclass
class Weights:
    """The model's weights when a policy was made, and its adapter's when it was first used."""

    adapter: str | None
    base: int
    own: int | None = None


def weights_of(model: Any, adapter: str | None) -> Weights:
    """The weights of a policy that is being made; its adapter may still be trained."""
    return Weights(adapter, _sums(model, [])[None])


def unchanged(model: Any, weights: Sequence[Weights]) -> None:
    """Refuse policies whose weights are not those that they were."""
    found = _sums(model, [each.adapter for each in weights])
    for each in weights:
        if found[None] != each.base:
            raise ValueError(
                "the model's weights changed since this policy was made (trained in place, merged "
                "with an adapter, loaded or converted): it would be another policy. Make a policy "
                "when its weights are final, and give each its own weights or its own adapter"
            )
        if each.adapter is None:
            continue
        if each.own is None:
            each.own = found[each.adapter]
        if found[each.adapter] != each.own:
            raise ValueError(
                f"adapter {each.adapter!r} changed since this policy was first used: it would be "
                f"another policy. Make a new one, and train a copy of the adapter if both are used"
            )


def _sums(model: Any, adapters: Sequence[str | None]) -> dict[str | None, int]:
    owned = owners(model)
    groups: dict[str | None, list[Any]] = {each: [] for each in (None, *adapters)}
    for parameter in model.parameters():
        owner = owned.get(id(parameter))
        if owner in groups:
            groups[owner].append(parameter.data)
    gone = [name for name, group in groups.items() if not group]
    if gone:
        raise ValueError(f"the model has no weights of adapter {gone[0]!r} in it (unloaded?)")
    return {name: _checksum(group) for name, group in groups.items()}


def _checksum(tensors: Iterable[Any]) -> int:
    """A sum of all bits, taken as whole numbers, in which places count; alike on every device.

    Tensors and the blocks in them are weighed by odd numbers in their order, so that another order
    is another sum; within a block the order is not seen.
    """
    totals: dict[Any, Any] = {}
    for place, tensor in enumerate(tensors):
        # What has no memory of its own, or a layout of its own, cannot be read as plain bytes.
        if tensor.is_meta or type(tensor) is not torch.Tensor or not tensor.numel():
            continue
        held = tensor.contiguous().view(-1).view(torch.uint8)
        if held.storage_offset() % WORD:
            held = held.clone()
        even = len(held) - len(held) % (BLOCK * WORD)
        blocks = held[:even].view(torch.int64).view(-1, BLOCK).sum(dim=1)
        weight = torch.arange(1, 2 * len(blocks) + 1, 2, device=held.device)
        total = (2 * place + 1) * ((blocks * weight).sum() + held[even:].sum())
        known = totals.get(total.device)
        totals[total.device] = total if known is None else known + total
    return sum(int(total) for total in totals.values()) % 2**64
