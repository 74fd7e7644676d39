"""Switching: a model that speaks with one adapter for a while, and is left as it was found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from tether.llm.local.adapters import is_peft, layers


@contextmanager
def switched(model: Any, adapters: Sequence[str | None]) -> Iterator[None]:
    """The model in evaluation, with this adapter or none; afterwards all is as it was.

    With several adapters nothing is switched: each row of a batch names its own. Where a pass fails
    PEFT leaves the hooks that it does so with, and where accelerate has trained it leaves a forward
    in low precision: neither has a say in what is scored.
    """
    hooks = [(held, dict(held)) for part in model.modules() for held in _hooks(part)]
    trained = [(part, vars(part)["forward"]) for part in model.modules() if _trained(part)]
    modes = [(part, part.training) for part in model.modules()]
    learning = [(each, each.requires_grad) for each in model.parameters()]
    active = [
        (part, name, getattr(part, name))
        for part in layers(model)
        for name in ("_active_adapter", "_disable_adapters")
    ]
    around = [model, model.base_model] if is_peft(model) else []
    active += [
        (part, "active_adapter", part.active_adapter)
        for part in around
        if "active_adapter" in vars(part)
    ]
    model.eval()
    for part, _ in trained:
        part.forward = part._original_forward
    try:
        with _speaking(model, adapters):
            yield
    finally:
        for held, before in hooks:
            held.clear()
            held.update(before)
        for part, forward in trained:
            part.forward = forward
        for part, name, value in active:
            setattr(part, name, value)
        for part, mode in modes:
            part.training = mode
        for each, learns in learning:
            each.requires_grad_(learns)


def _hooks(part: Any) -> list[Any]:
    """What is called around a part's forward."""
    names = ("_forward_pre_hooks", "_forward_hooks")
    return [getattr(part, name + end) for name in names for end in ("", "_with_kwargs")]


def _trained(part: Any) -> bool:
    """Whether accelerate has put a forward of its own before the model's."""
    return "_original_forward" in vars(part) and "forward" in vars(part)


def _speaking(model: Any, adapters: Sequence[str | None]) -> Any:
    if len(adapters) > 1 or not is_peft(model):
        return nullcontext()
    if adapters[0] is None:
        return model.disable_adapter()
    named = adapters[0]
    if any(layer._active_adapter not in (named, [named]) for layer in layers(model)):
        model.set_adapter(named)
    return nullcontext()
