"""Language models as policies: actions are completions, with exact log-probabilities or without.

Needs the extra `tether[llm]`. Each name is imported when it is first used, so that
`import tether.llm` loads neither torch nor transformers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tether.llm.completion_scorer import CompletionScorer
    from tether.llm.local.causal_policy import CausalPolicy
    from tether.llm.local.token_tether import TokenTether
    from tether.llm.local.token_tethered import TokenTethered
    from tether.llm.preflight_checks.result import Check, Cost, Preflight
    from tether.llm.preflight_checks.run import preflight
    from tether.llm.prompt_mixture import PromptMixture
    from tether.llm.server.chat_messages import chat_action, chat_context, read_answer
    from tether.llm.server.chat_policy import ChatPolicy
    from tether.llm.server.chat_scorer import ChatScorer, ScoreServer
    from tether.llm.server.openai_policy import OpenAIPolicy
    from tether.llm.server.server_error import ServerError

__all__ = [
    "CausalPolicy",
    "ChatPolicy",
    "ChatScorer",
    "Check",
    "CompletionScorer",
    "Cost",
    "OpenAIPolicy",
    "Preflight",
    "PromptMixture",
    "ScoreServer",
    "ServerError",
    "TokenTether",
    "TokenTethered",
    "chat_action",
    "chat_context",
    "preflight",
    "read_answer",
]

_MODULES = {
    "CausalPolicy": "tether.llm.local.causal_policy",
    "ChatPolicy": "tether.llm.server.chat_policy",
    "ChatScorer": "tether.llm.server.chat_scorer",
    "Check": "tether.llm.preflight_checks.result",
    "CompletionScorer": "tether.llm.completion_scorer",
    "Cost": "tether.llm.preflight_checks.result",
    "OpenAIPolicy": "tether.llm.server.openai_policy",
    "Preflight": "tether.llm.preflight_checks.result",
    "PromptMixture": "tether.llm.prompt_mixture",
    "ScoreServer": "tether.llm.server.chat_scorer",
    "ServerError": "tether.llm.server.server_error",
    "TokenTether": "tether.llm.local.token_tether",
    "TokenTethered": "tether.llm.local.token_tethered",
    "chat_action": "tether.llm.server.chat_messages",
    "chat_context": "tether.llm.server.chat_messages",
    "preflight": "tether.llm.preflight_checks.run",
    "read_answer": "tether.llm.server.chat_messages",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'tether.llm' has no attribute {name!r}")
    try:
        return getattr(import_module(_MODULES[name]), name)
    except ImportError as error:
        raise ImportError(
            f"tether.llm.{name} needs optional dependencies: pip install 'tether[llm]' ({error})"
        ) from error


def __dir__() -> list[str]:
    return sorted(__all__)
