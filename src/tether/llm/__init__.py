"""Language models under a tether: completions as actions, their log-probabilities exact.

Needs the extra `tether[llm]`; each name asks for its own part of it only when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tether.llm.causal import CausalPolicy
    from tether.llm.checking import preflight
    from tether.llm.openai import OpenAIPolicy
    from tether.llm.prompt_mixture import PromptMixture
    from tether.llm.report import Check, Cost, Preflight
    from tether.llm.server import ServerError
    from tether.llm.serving import Served, serve

__all__ = [
    "CausalPolicy",
    "Check",
    "Cost",
    "OpenAIPolicy",
    "Preflight",
    "PromptMixture",
    "Served",
    "ServerError",
    "preflight",
    "serve",
]

_HOMES = {
    "CausalPolicy": "causal",
    "Check": "report",
    "Cost": "report",
    "OpenAIPolicy": "openai",
    "Preflight": "report",
    "PromptMixture": "prompt_mixture",
    "Served": "serving",
    "ServerError": "server",
    "preflight": "checking",
    "serve": "serving",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tether.llm' has no attribute {name!r}")
    try:
        return getattr(import_module(f"tether.llm.{_HOMES[name]}"), name)
    except ImportError as error:
        raise ImportError(f"tether.llm.{name} needs pip install 'tether[llm]' ({error})") from error
