"""Adapters: which of them a model has, and whether it can speak with the one that is asked for.

PEFT puts its layers into the model itself, and only a `PeftModel` switches them on and off. What
is asked of them here are facts that PEFT keeps in the layers; the library itself is not imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

TAKE_APART = ("pissa", "corda", "olora", "loftq", "lora_ga")
"""Starting values that are taken out of the model's weights: without the adapter they are gone."""


def unwrapped(model: Any) -> Any:
    """The model itself, where `torch.compile` stands around it."""
    while (inner := model._modules.get("_orig_mod")) is not None:
        model = inner
    return model


def is_peft(model: Any) -> bool:
    """Whether a model switches its adapters, without asking for the library that makes them."""
    return hasattr(model, "peft_config") and hasattr(model, "get_base_model")


def base_model(model: Any) -> Any:
    """The model of `transformers` inside of whatever stands around it."""
    model = unwrapped(model)
    return unwrapped(model.get_base_model()) if is_peft(model) else model


def chosen(model: Any, adapter: str | None) -> str | None:
    """An adapter that the model has, or None where the model without adapters can be had."""
    ready(model, [None])
    if not is_peft(model):
        if adapter is not None:
            raise ValueError(
                f"adapter is {adapter!r}, but the model has no adapters: wrap it (PEFT)"
            )
        return None
    if adapter is not None and adapter not in model.peft_config:
        raise ValueError(f"adapter must be one of {sorted(model.peft_config)}, got {adapter!r}")
    for name, each in model.peft_config.items():
        if getattr(each, "is_prompt_learning", False):
            raise TypeError("adapters that put tokens before the prompt are not scored; use LoRA")
        if name == adapter and getattr(each, "alora_invocation_tokens", None):
            raise TypeError(f"{name!r} looks for tokens to begin at (aLoRA), which a cache hides")
        if adapter is None:
            _leaves_the_model_alone(name, each)
    return adapter


def mixes(model: Any) -> bool:
    """Whether PEFT takes rows of several adapters in one batch: plain LoRA."""
    return all(
        getattr(each.peft_type, "value", each.peft_type) == "LORA"
        and not getattr(each, "use_dora", False)
        and not getattr(each, "modules_to_save", None)
        and not getattr(each, "target_parameters", None)
        and not getattr(each, "trainable_token_indices", None)
        for each in model.peft_config.values()
    )


def layers(model: Any) -> list[Any]:
    """The parts that PEFT has put in: they all say which of their layers are adapters."""
    return [part for part in model.modules() if hasattr(type(part), "adapter_layer_names")]


def owners(model: Any) -> dict[int, str]:
    """The adapter of each parameter that belongs to one, by the parameter's id."""
    found = {}
    for layer in layers(model):
        for attribute in layer.adapter_layer_names:
            held: Any = getattr(layer, attribute, None)
            for name, part in held.items() if hasattr(held, "items") else ():
                for each in part.parameters() if hasattr(part, "parameters") else (part,):
                    found[id(each)] = name
    return found


def ready(model: Any, adapters: Sequence[str | None]) -> None:
    """Refuse a model whose layers would not speak with these adapters, whatever is switched."""
    found = layers(model)
    if found and not is_peft(model):
        raise ValueError(
            f"the model ({type(model).__name__}) has adapters inside ({len(found)} layers) that "
            f"only a PeftModel switches on and off: pass what get_peft_model returned to both "
            f"policies, with adapter=None to the safe one"
        )
    merged = sorted({name for layer in found for name in getattr(layer, "merged_adapters", ())})
    if merged:
        raise ValueError(
            f"the adapters {merged} are merged into the model's weights, so no adapter can be had "
            f"on its own: call unmerge_adapter first"
        )
    if any(adapters) and any(layer.disable_adapters for layer in found):
        raise ValueError(
            f"the model's adapters are disabled, and adapter is "
            f"{next(each for each in adapters if each)!r}: call enable_adapter_layers first"
        )


def _leaves_the_model_alone(name: str, config: Any) -> None:
    bias, start = getattr(config, "bias", "none"), getattr(config, "init_lora_weights", True)
    if bias != "none":
        raise ValueError(
            f"adapter=None is not the model before tuning: {name!r} trains biases of the model "
            f"itself (bias={bias!r}). Tune with bias='none', or pass an untouched model"
        )
    if isinstance(start, str) and start.startswith(TAKE_APART):
        raise ValueError(
            f"adapter=None is not the model before tuning: {name!r} starts from a part of the "
            f"model's weights (init_lora_weights={start!r}). Pass an untouched model"
        )
