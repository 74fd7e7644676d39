"""Switching: a model that speaks with one adapter for a while, and is left as it was found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from tether.llm.adapters import is_peft, layers


@contextmanager
def switched(model: Any, adapters: Sequence[str | None]) -> Iterator[None]:
    """The model in evaluation, with this adapter or none; afterwards all is as it was.

    With several adapters nothing is switched: each row of a batch names its own.
    """
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
    try:
        with _speaking(model, adapters):
            yield
    finally:
        for part, name, value in active:
            setattr(part, name, value)
        for part, mode in modes:
            part.training = mode
        for each, learns in learning:
            each.requires_grad_(learns)


def _speaking(model: Any, adapters: Sequence[str | None]) -> Any:
    if len(adapters) > 1 or not is_peft(model):
        return nullcontext()
    if adapters[0] is None:
        return model.disable_adapter()
    named = adapters[0]
    if any(layer._active_adapter not in (named, [named]) for layer in layers(model)):
        model.set_adapter(named)
    return nullcontext()
