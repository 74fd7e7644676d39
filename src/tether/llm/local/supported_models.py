"""Which models are supported: those that are asked in batches and answer as they do alone.

The scores of other models would be wrong without a sign of it, so they are refused: a part of them
when the policy is made, the rest when it is first used, on a few tokens of the first prompt.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import torch
from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

from tether.llm.local.adapters import base_model
from tether.llm.prompts import Prompt

if TYPE_CHECKING:
    from tether.llm.local.runner import Runner

FEW = 8
"""Tokens of the first prompt that are asked for."""

_known: WeakSet[Any] = WeakSet()


def causal(model: Any) -> int:
    """The size of the vocabulary of a causal language model; anything else is refused."""
    what = "model must be a causal language model of transformers"
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"{what}, loaded (AutoModelForCausalLM.from_pretrained), got {model!r:.80}")
    inner = base_model(model)
    kind: str = type(inner).__name__
    config: Any = getattr(inner, "config", None)
    if getattr(config, "is_encoder_decoder", False):
        raise TypeError(f"model must be a decoder, got an encoder-decoder: {config.model_type}")
    ask = getattr(inner, "get_output_embeddings", None)
    if config is None or ask is None or (head := ask()) is None:
        raise TypeError(f"{what}, with a head that predicts tokens, got {kind}")
    hidden = {"input_ids", "attention_mask"} - set(accepted(model))
    if hidden:
        raise TypeError(
            f"{what}: the forward of {kind} does not name {sorted(hidden)}, so that it cannot be "
            f"told whether it takes positions. Pass the model inside of it"
        )
    return int(head.weight.shape[0])


def accepted(model: Any) -> Any:
    """The arguments that the model itself names, whatever stands around it."""
    return inspect.signature(base_model(model).forward).parameters


def check(runner: Runner, prompt: Prompt) -> None:
    """Refuse, once for each model, what cannot be asked in batches that go on from a cache."""
    model = base_model(runner.model)
    if model in _known:
        return
    name = f"{type(model).__name__} ({model.config.model_type})"
    tokens, mask = runner.left([prompt[:FEW]])
    found = runner.forward(tokens, mask, tokens.shape[1], keep_cache=True)
    cache = getattr(found, "past_key_values", None)
    kinds = {type(each) for each in getattr(cache, "layers", None) or ()}
    if type(cache) is not DynamicCache or not kinds <= {DynamicLayer, DynamicSlidingWindowLayer}:
        names = ", ".join(sorted(each.__name__ for each in kinds))
        kept = f"a {type(cache).__name__} of {names}" if kinds else "no cache"
        raise TypeError(
            f"{name} returns {kept}: only models whose every layer keeps keys and values, all of "
            f"them or those of a sliding window, are supported, and no recurrent ones"
        )
    own = runner.model(input_ids=tokens, attention_mask=mask, use_cache=False).logits
    apart = (found.logits.float().softmax(-1) - own.float().softmax(-1)).abs().max()
    if float(apart) > torch.finfo(own.dtype).eps ** 0.5:
        raise TypeError(
            f"{name} counts positions in a way of its own: at positions 0, 1, 2, … its "
            f"probabilities differ by {float(apart):.2g} from those without any (as in RoBERTa)"
        )
    _known.add(model)
