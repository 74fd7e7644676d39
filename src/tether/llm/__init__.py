"""Language models as policies: actions are completions or chat answers.

Models on a server need `tether[api]`, local models `tether[llm]`. Each name is imported when it is
first used, so code that only asks a server loads neither torch nor transformers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tether.llm.causal_policy import CausalPolicy as CausalPolicy
    from tether.llm.chat import ChatPolicy as ChatPolicy
    from tether.llm.chat import chat_action as chat_action
    from tether.llm.chat import chat_context as chat_context
    from tether.llm.chat import chat_rows as chat_rows
    from tether.llm.chat import read_answer as read_answer
    from tether.llm.client import ServerError as ServerError
    from tether.llm.openai_policy import OpenAIPolicy as OpenAIPolicy
    from tether.llm.preflight_checks import Check as Check
    from tether.llm.run_preflight import Preflight as Preflight
    from tether.llm.run_preflight import preflight as preflight
    from tether.llm.scorers import ChatScorer as ChatScorer
    from tether.llm.scorers import CompletionScorer as CompletionScorer
    from tether.llm.scorers import ScoreServer as ScoreServer
    from tether.llm.token_tether import TokenTether as TokenTether
    from tether.llm.token_tether import TokenTethered as TokenTethered

_NAMES = {
    "causal_policy": ("CausalPolicy",),
    "chat": ("ChatPolicy", "chat_action", "chat_context", "chat_rows", "read_answer"),
    "client": ("ServerError",),
    "openai_policy": ("OpenAIPolicy",),
    "preflight_checks": ("Check",),
    "run_preflight": ("Preflight", "preflight"),
    "scorers": ("ChatScorer", "CompletionScorer", "ScoreServer"),
    "token_tether": ("TokenTether", "TokenTethered"),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'tether.llm' has no attribute {name!r}")
    try:
        return getattr(import_module(f"tether.llm.{_MODULES[name]}"), name)
    except ModuleNotFoundError as error:
        extra = "llm" if _MODULES[name] in ("causal_policy", "token_tether") else "api"
        raise ModuleNotFoundError(
            f"tether.llm.{name} needs {error.name}: pip install 'tether[{extra}]'", name=error.name
        ) from error
