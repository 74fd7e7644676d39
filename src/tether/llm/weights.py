"""Checksums of weights: whether a policy still is the policy that was made.

A policy is its weights, and a model's weights can change under it: trained in place, merged with
an adapter, loaded again. A checksum over all their bits is compared at each use and is part of the
policy's fingerprint. It costs one pass over the weights, about as much as one token.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tether.llm.adapters import parameter_adapters

BYTES_PER_WORD, WORDS_PER_BLOCK = 8, 32
"""What is added up as one integer, and how many of them share a weight in the sum."""


@dataclass
class Weights:
    """The adapter of a policy (None for the plain model), and the checksums of its weights.

    That of an adapter is taken at its first use: until then it may be trained.
    """

    adapter: str | None
    base_sum: int
    adapter_sum: int | None = None

    @classmethod
    def of(cls, model: Any, adapter: str | None) -> Weights:
        """The weights of a policy that is being made."""
        return cls(adapter, _sums_by_adapter(model, [])[None])

    def __str__(self) -> str:
        own = "" if self.adapter_sum is None else f"+{self.adapter_sum:016x}"
        return f"{self.base_sum:016x}{own}"


def check_unchanged(model: Any, policies: Sequence[Weights]) -> None:
    """Refuse policies whose weights have changed; note an adapter's checksum at its first use."""
    sums = _sums_by_adapter(model, [each.adapter for each in policies])
    for each in policies:
        if sums[None] != each.base_sum:
            raise ValueError(
                "the model's weights changed since this policy was made (trained in place, merged "
                "with an adapter, loaded or converted), so it would be another policy: make a "
                "policy when its weights are final, and give each its own weights or adapter"
            )
        if each.adapter is not None and each.adapter_sum is None:
            each.adapter_sum = sums[each.adapter]
        if each.adapter is not None and sums[each.adapter] != each.adapter_sum:
            raise ValueError(
                f"adapter {each.adapter!r} changed since this policy was first used: make a new "
                f"policy, and train a copy of the adapter if both are used"
            )


def _sums_by_adapter(model: Any, adapters: Sequence[str | None]) -> dict[str | None, int]:
    """The checksum of the base weights (None) and of each adapter."""
    adapter_of = parameter_adapters(model)
    groups: dict[str | None, list[Any]] = {adapter: [] for adapter in (None, *adapters)}
    for parameter in model.parameters():
        adapter = adapter_of.get(id(parameter))
        if adapter in groups:
            groups[adapter].append(parameter.data)
    missing = [adapter for adapter, group in groups.items() if not group]
    if missing:
        raise ValueError(f"the model has no weights of adapter {missing[0]!r} (was it unloaded?)")
    return {adapter: _checksum(group) for adapter, group in groups.items()}


def _checksum(tensors: Iterable[Any]) -> int:
    """A position-dependent sum of all bits, read as integers; the same on every device.

    Tensors, and blocks within a tensor, are weighted by odd numbers in their order, so that another
    order gives another sum; within a block the order does not matter.
    """
    totals: dict[Any, Any] = {}
    for index, tensor in enumerate(tensors):
        # Tensors without memory of their own or with a special layout are not plain bytes.
        if tensor.is_meta or type(tensor) is not torch.Tensor or not tensor.numel():
            continue
        data = tensor.contiguous().view(-1).view(torch.uint8)
        if data.storage_offset() % BYTES_PER_WORD:
            data = data.clone()
        in_blocks = len(data) - len(data) % (WORDS_PER_BLOCK * BYTES_PER_WORD)
        blocks = data[:in_blocks].view(torch.int64).view(-1, WORDS_PER_BLOCK).sum(dim=1)
        weight = torch.arange(1, 2 * len(blocks) + 1, 2, device=data.device)
        total = (2 * index + 1) * ((blocks * weight).sum() + data[in_blocks:].sum())
        known = totals.get(total.device)
        totals[total.device] = total if known is None else known + total
    return sum(int(total) for total in totals.values()) % 2**64
