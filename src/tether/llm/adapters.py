"""What a local policy is: a model with one of its adapters or none, whose weights do not change.

PEFT puts its layers into the model itself, and only a `PeftModel` switches them on and off. All
facts used here are attributes that PEFT keeps in the layers; the library itself is not imported.

A model's weights can change under a policy: trained in place, merged with an adapter, loaded again.
A checksum over all their bits is compared at each use and is part of the policy's fingerprint. It
costs one pass over the weights, about as much as one token.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

INITIALIZED_FROM_BASE_WEIGHTS = ("pissa", "corda", "olora", "loftq", "lora_ga")
"""Initializations that subtract the adapter from the base weights, so disabling it changes them."""
BYTES_PER_WORD, WORDS_PER_BLOCK = 8, 32
"""What is added up as one integer, and how many of them share a weight in the sum."""


def is_peft(model: Any) -> bool:
    """Whether a model is a `PeftModel`."""
    return hasattr(model, "peft_config") and hasattr(model, "get_base_model")


def base_model(model: Any) -> Any:
    """The model of `transformers` itself."""
    return model.get_base_model() if is_peft(model) else model


def adapter_layers(model: Any) -> list[Any]:
    """The layers that PEFT has put into the model."""
    return [module for module in model.modules() if hasattr(type(module), "adapter_layer_names")]


def check_adapter(model: Any, adapter: str | None) -> str | None:
    """The name of an adapter that the model has, or None where the plain base model is usable."""
    check_usable(model, None)
    configs = model.peft_config if is_peft(model) else {}
    if adapter is not None and adapter not in configs:
        hint = "" if configs else ": pass a PeftModel"
        raise ValueError(f"adapter must be one of {sorted(configs)}, got {adapter!r}{hint}")
    for name, config in configs.items():
        by_tokens = name == adapter and getattr(config, "alora_invocation_tokens", None)
        extra = ("is_prompt_learning", "is_adaption_prompt")
        if by_tokens or any(getattr(config, each, False) for each in extra):
            raise TypeError(
                f"adapter {name!r} works through extra tokens (virtual or aLoRA): use LoRA"
            )
        bias, start = getattr(config, "bias", "none"), getattr(config, "init_lora_weights", True)
        from_base = isinstance(start, str) and start.startswith(INITIALIZED_FROM_BASE_WEIGHTS)
        if adapter is None and (bias != "none" or from_base):
            raise ValueError(
                f"adapter=None is not the model before tuning, pass an untouched one: {name!r} "
                f"changes its own weights (bias={bias!r}, init_lora_weights={start!r})"
            )
    return adapter


def check_usable(model: Any, adapter: str | None) -> None:
    """Refuse a model whose layers would not use the adapter even if it is switched on."""
    layers = adapter_layers(model)
    if layers and not is_peft(model):
        raise ValueError(
            f"the model ({type(model).__name__}) has adapters, which only a PeftModel switches "
            "off: pass what get_peft_model returned to both policies, the safe with adapter=None"
        )
    merged = sorted({name for layer in layers for name in getattr(layer, "merged_adapters", ())})
    if merged:
        raise ValueError(
            f"the adapters {merged} are merged into the model's weights, so no adapter can be "
            f"used on its own: call unmerge_adapter first"
        )
    if adapter is not None and any(layer.disable_adapters for layer in layers):
        raise ValueError("the model's adapters are disabled: call enable_adapter_layers first")


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Put the model in evaluation mode; afterwards restore it, and the adapter that it used."""
    state: list[tuple[Any, str, Any]] = []  # owner, attribute, value
    for module in model.modules():
        state.append((module, "training", module.training))
        # On a model that it trained, accelerate leaves a forward of low precision.
        if "_original_forward" in vars(module) and "forward" in vars(module):
            state.append((module, "forward", vars(module)["forward"]))
            module.forward = module._original_forward
    for layer in adapter_layers(model):
        names = "_active_adapter", "_disable_adapters"
        state += [(layer, name, getattr(layer, name)) for name in names]
    state += [(each, "active_adapter", each.active_adapter) for each in _wrappers(model)]
    try:
        model.eval()
        yield
    finally:
        for owner, name, value in state:
            setattr(owner, name, value)


def use_adapter(model: Any, adapter: str | None) -> None:
    """Switch the layers of a model to one adapter, or to none."""
    for layer in adapter_layers(model):
        layer._disable_adapters = adapter is None
        if adapter is not None:
            layer._active_adapter = [adapter]
    for wrapper in _wrappers(model) if adapter is not None else []:
        wrapper.active_adapter = adapter


def _wrappers(model: Any) -> list[Any]:
    """The objects of PEFT around a model that name an adapter too."""
    around = [model, model.base_model] if is_peft(model) else []
    return [each for each in around if "active_adapter" in vars(each)]


def checksums(model: Any, adapter: str | None) -> tuple[int, ...]:
    """Checksums of the weights of the model itself, and of an adapter."""
    adapter_of = {}  # by the id of each parameter of an adapter
    for layer in adapter_layers(model):
        for attribute in layer.adapter_layer_names:
            by_adapter: Any = getattr(layer, attribute, None)
            for name, part in by_adapter.items() if hasattr(by_adapter, "items") else ():
                for parameter in part.parameters() if hasattr(part, "parameters") else (part,):
                    adapter_of[id(parameter)] = name
    groups: dict[str | None, list[Any]] = {None: [], adapter: []}
    for parameter in model.parameters():
        owner = adapter_of.get(id(parameter))
        if owner in groups:
            groups[owner].append(parameter.data)
    if not all(groups.values()):
        raise ValueError(f"the model has no weights of adapter {adapter!r} (was it unloaded?)")
    return tuple(map(_checksum, groups.values()))


def _checksum(tensors: Iterable[Any]) -> int:
    """A sum of all bits, read as integers, with odd weights by their order, on every device."""
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
        totals[total.device] = totals.get(total.device, 0) + total
    return sum(int(total) for total in totals.values()) % 2**64
