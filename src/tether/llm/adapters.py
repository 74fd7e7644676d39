"""Adapters of a model: which it has, whether one can be used, and switching to it for a while.

PEFT puts its layers into the model itself, and only a `PeftModel` switches them on and off. All
facts used here are attributes that PEFT keeps in the layers; the library itself is not imported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

INITIALIZED_FROM_BASE_WEIGHTS = ("pissa", "corda", "olora", "loftq", "lora_ga")
"""Initializations that subtract the adapter from the base weights, so disabling it changes them."""


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


def parameter_adapters(model: Any) -> dict[int, str]:
    """The adapter that each adapter parameter belongs to, by the parameter's `id`."""
    adapters = {}
    for layer in adapter_layers(model):
        for attribute in layer.adapter_layer_names:
            by_adapter: Any = getattr(layer, attribute, None)
            for name, part in by_adapter.items() if hasattr(by_adapter, "items") else ():
                for parameter in part.parameters() if hasattr(part, "parameters") else (part,):
                    adapters[id(parameter)] = name
    return adapters


def check_adapter(model: Any, adapter: str | None) -> str | None:
    """The name of an adapter that the model has, or None where the plain base model is usable."""
    check_usable(model, [None])
    configs = model.peft_config if is_peft(model) else {}
    if adapter is not None and adapter not in configs:
        raise ValueError(
            f"adapter must be one of the model's, {sorted(configs)}, got {adapter!r}"
            + ("" if configs else ": pass a PeftModel")
        )
    for name, config in configs.items():
        if getattr(config, "is_prompt_learning", False):
            raise TypeError("adapters that prepend virtual tokens are not supported; use LoRA")
        if name == adapter and getattr(config, "alora_invocation_tokens", None):
            raise TypeError(
                f"adapter {name!r} is activated by tokens (aLoRA), which is not supported: they "
                f"would be hidden in the key-value cache"
            )
        bias = getattr(config, "bias", "none")
        start = getattr(config, "init_lora_weights", True)
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
    special = ("use_dora", "modules_to_save", "target_parameters", "trainable_token_indices")
    return all(
        getattr(config.peft_type, "value", config.peft_type) == "LORA"
        and not any(getattr(config, name, None) for name in special)
        for config in model.peft_config.values()
    )


def check_usable(model: Any, adapters: Sequence[str | None]) -> None:
    """Refuse a model whose layers would not use these adapters, whatever is switched."""
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


@contextmanager
def switched_to(model: Any, adapters: Sequence[str | None]) -> Iterator[None]:
    """Put the model in evaluation mode with this adapter or none; afterwards restore its state.

    With several adapters nothing is switched: each row of a batch names its own. Also removes what
    must not affect scores: hooks that PEFT leaves on the model where a shared pass fails, and the
    low-precision forward that accelerate leaves on a model that it trained.
    """
    modules = list(model.modules())
    hooks = [(registry, dict(registry)) for module in modules for registry in _hooks(module)]
    accelerated = [
        (module, vars(module)["forward"])
        for module in modules
        if "_original_forward" in vars(module) and "forward" in vars(module)
    ]
    training = [(module, module.training) for module in modules]
    trainable = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    names = ("_active_adapter", "_disable_adapters")
    switches = [(e, name, getattr(e, name)) for e in adapter_layers(model) for name in names]
    switches += [
        (wrapper, "active_adapter", wrapper.active_adapter)
        for wrapper in ([model, model.base_model] if is_peft(model) else [])
        if "active_adapter" in vars(wrapper)
    ]
    model.eval()
    for module, _ in accelerated:
        module.forward = module._original_forward
    try:
        with _using(model, adapters):
            yield
    finally:
        for registry, before in hooks:
            registry.clear()
            registry.update(before)
        for module, forward in accelerated:
            module.forward = forward
        for owner, name, value in switches:
            setattr(owner, name, value)
        for module, mode in training:
            module.training = mode
        for parameter, requires_grad in trainable:
            parameter.requires_grad_(requires_grad)


def _hooks(module: Any) -> list[Any]:
    """The registries of functions that are called around a module's forward."""
    names = ("_forward_pre_hooks", "_forward_hooks")
    return [getattr(module, name + end) for name in names for end in ("", "_with_kwargs")]


def _using(model: Any, adapters: Sequence[str | None]) -> AbstractContextManager[Any]:
    if len(adapters) > 1 or not is_peft(model):
        return nullcontext()
    adapter = adapters[0]
    if adapter is None:
        disabled: AbstractContextManager[Any] = model.disable_adapter()
        return disabled
    if any(layer._active_adapter not in (adapter, [adapter]) for layer in adapter_layers(model)):
        model.set_adapter(adapter)
    return nullcontext()
