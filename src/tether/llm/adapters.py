"""What a local policy is: a model with one of its adapters or none, whose weights do not change.

PEFT puts its layers into the model itself, and only a `PeftModel` switches them on and off. All
facts used here are attributes that PEFT keeps in the layers; the library itself is not imported.

A model's weights can change under a policy: trained in place, merged with an adapter, loaded again.
A checksum over all their bits is compared at each use and is part of the policy's fingerprint. It
costs one pass over the weights, about as much as one token.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import torch

INITIALIZED_FROM_BASE_WEIGHTS = ("pissa", "corda", "olora", "loftq", "lora_ga")
"""Initializations that subtract the adapter from the base weights, so disabling it changes them."""
BYTES_PER_WORD, WORDS_PER_BLOCK = 8, 32
"""What is added up as one integer, and how many of them share a weight in the sum."""


def unwrapped(model: Any) -> Any:
    """The model inside the wrapper of `torch.compile`, if there is one."""
    while (inner := model._modules.get("_orig_mod")) is not None:
        model = inner
    return model


def is_peft(model: Any) -> bool:
    """Whether a model is a `PeftModel`."""
    return hasattr(model, "peft_config") and hasattr(model, "get_base_model")


def base_model(model: Any) -> Any:
    """The model of `transformers` inside all wrappers."""
    model = unwrapped(model)
    return unwrapped(model.get_base_model()) if is_peft(model) else model


def adapter_layers(model: Any) -> list[Any]:
    """The layers that PEFT has put into the model."""
    return [module for module in model.modules() if hasattr(type(module), "adapter_layer_names")]


def check_adapter(model: Any, adapter: str | None) -> str | None:
    """The name of an adapter that the model has, or None where the plain base model is usable."""
    model = check_usable(model, [None])
    configs = model.peft_config if is_peft(model) else {}
    if adapter is not None and adapter not in configs:
        hint = "" if configs else ": pass a PeftModel"
        raise ValueError(f"adapter must be one of {sorted(configs)}, got {adapter!r}{hint}")
    for name, config in configs.items():
        by_tokens = name == adapter and getattr(config, "alora_invocation_tokens", None)
        if getattr(config, "is_prompt_learning", False) or by_tokens:
            raise TypeError(
                f"adapter {name!r} works through extra tokens (virtual tokens or aLoRA), which is "
                f"not supported: use LoRA"
            )
        bias, start = getattr(config, "bias", "none"), getattr(config, "init_lora_weights", True)
        from_base = isinstance(start, str) and start.startswith(INITIALIZED_FROM_BASE_WEIGHTS)
        if adapter is None and (bias != "none" or from_base):
            raise ValueError(
                f"adapter=None is not the model before tuning: {name!r} changes weights of the "
                f"model itself (bias={bias!r}, init_lora_weights={start!r}). Pass an untouched "
                f"model"
            )
    return adapter


def can_mix_adapters(model: Any) -> bool:
    """Whether PEFT accepts rows of several adapters in one batch: plain LoRA only."""
    model = unwrapped(model)
    special = ("use_dora", "modules_to_save", "target_parameters", "trainable_token_indices")
    return all(
        getattr(config.peft_type, "value", config.peft_type) == "LORA"
        and not any(getattr(config, name, None) for name in special)
        for config in model.peft_config.values()
    )


def check_usable(model: Any, adapters: Sequence[str | None]) -> Any:
    """The plain model; refused if its layers would not use these adapters even if switched on."""
    model = unwrapped(model)
    layers = adapter_layers(model)
    if layers and not is_peft(model):
        raise ValueError(
            f"the model ({type(model).__name__}) contains adapters that only a PeftModel switches "
            f"on and off: pass what get_peft_model returned to both policies, with adapter=None to "
            f"the safe one"
        )
    merged = sorted({name for layer in layers for name in getattr(layer, "merged_adapters", ())})
    if merged:
        raise ValueError(
            f"the adapters {merged} are merged into the model's weights, so no adapter can be "
            f"used on its own: call unmerge_adapter first"
        )
    if any(adapters) and any(layer.disable_adapters for layer in layers):
        raise ValueError("the model's adapters are disabled: call enable_adapter_layers first")
    return model


@contextmanager
def switched_to(model: Any, adapters: Sequence[str | None]) -> Iterator[None]:
    """Put the model in evaluation mode with this adapter or none; afterwards restore its state."""
    state: list[tuple[Any, str, Any]] = []  # owner, attribute, value
    for module in model.modules():
        state.append((module, "training", module.training))
        # On a model that it trained, accelerate leaves a forward of low precision.
        if "_original_forward" in vars(module) and "forward" in vars(module):
            state.append((module, "forward", vars(module)["forward"]))
            module.forward = module._original_forward
    state += [(each, "requires_grad", each.requires_grad) for each in model.parameters()]
    for layer in adapter_layers(model):
        names = "_active_adapter", "_disable_adapters"
        state += [(layer, name, getattr(layer, name)) for name in names]
    for wrapper in [model, model.base_model] if is_peft(model) else []:
        if "active_adapter" in vars(wrapper):
            state.append((wrapper, "active_adapter", wrapper.active_adapter))
    try:
        model.eval()
        disabled: AbstractContextManager[Any] = nullcontext()
        if is_peft(model) and len(adapters) == 1:  # else each row of a batch names its own
            (own,) = adapters
            if own is None:
                disabled = model.disable_adapter()
            elif any(each._active_adapter not in (own, [own]) for each in adapter_layers(model)):
                model.set_adapter(own)
        with disabled:
            yield
    finally:
        for owner, name, value in state:
            setattr(owner, name, value)


class Weights(NamedTuple):
    """The adapter of a policy (None for the plain model), and the checksums of its weights."""

    adapter: str | None
    base_sum: int
    adapter_sum: int

    def __str__(self) -> str:
        own = "" if self.adapter is None else f"+{self.adapter_sum:016x}"
        return f"{self.base_sum:016x}{own}"


def weights_of(model: Any, adapters: Sequence[str | None]) -> tuple[Weights, ...]:
    """The weights of policies as they are now."""
    sums = _sums_by_adapter(model, adapters)
    return tuple(Weights(each, sums[None], sums[each]) for each in adapters)


def check_unchanged(model: Any, policies: Sequence[Weights]) -> None:
    """Refuse policies whose weights have changed since they were made."""
    now = weights_of(model, [each.adapter for each in policies])
    for each, found in zip(policies, now, strict=True):
        changed = "the model's weights" if found.base_sum != each.base_sum else None
        if changed is None and found != each:
            changed = f"the weights of adapter {each.adapter!r}"
        if changed:
            raise ValueError(
                f"{changed} changed since this policy was made (trained in place, merged, loaded "
                f"or converted), so it would be another policy: make a policy when its weights are "
                f"final, and give each its own weights or adapter"
            )


def _sums_by_adapter(model: Any, adapters: Sequence[str | None]) -> dict[str | None, int]:
    """The checksum of the base weights (None) and of each adapter."""
    adapter_of = {}  # by the id of each parameter of an adapter
    for layer in adapter_layers(model):
        for attribute in layer.adapter_layer_names:
            by_adapter: Any = getattr(layer, attribute, None)
            for name, part in by_adapter.items() if hasattr(by_adapter, "items") else ():
                for parameter in part.parameters() if hasattr(part, "parameters") else (part,):
                    adapter_of[id(parameter)] = name
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
