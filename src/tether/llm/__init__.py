"""Language models under a tether: completions as actions, their log-probabilities exact.

Needs the extra `tether[llm]`; each name asks for its own part of it only when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tether.llm.causal import CausalPolicy
    from tether.llm.prompt_mixture import PromptMixture

__all__ = [
    "CausalPolicy",
    "Check",
    "Cost",
    "Fallback",
    "OpenAIPolicy",
    "Preflight",
    "PromptMixture",
    "Served",
    "preflight",
]

_HOMES = {
    "CausalPolicy": "causal",
    "Check": "preflight",
    "Cost": "preflight",
    "Fallback": "fallback",
    "OpenAIPolicy": "openai",
    "Preflight": "preflight",
    "PromptMixture": "prompt_mixture",
    "Served": "fallback",
    "preflight": "preflight",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tether.llm' has no attribute {name!r}")
    return getattr(import_module(f"tether.llm.{_HOMES[name]}"), name)
