"""Language models as policies: actions are completions, with exact log-probabilities.

Needs the extra `tether[llm]`. Each name is imported when it is first used, so that
`import tether.llm` loads neither torch nor transformers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tether.llm.local.causal_policy import CausalPolicy
    from tether.llm.preflight_checks.result import Check, Cost, Preflight
    from tether.llm.preflight_checks.run import preflight
    from tether.llm.prompt_mixture import PromptMixture
    from tether.llm.server.openai_policy import OpenAIPolicy
    from tether.llm.server.server_error import ServerError

__all__ = [
    "CausalPolicy",
    "Check",
    "Cost",
    "OpenAIPolicy",
    "Preflight",
    "PromptMixture",
    "ServerError",
    "preflight",
]

_MODULES = {
    "CausalPolicy": "tether.llm.local.causal_policy",
    "Check": "tether.llm.preflight_checks.result",
    "Cost": "tether.llm.preflight_checks.result",
    "OpenAIPolicy": "tether.llm.server.openai_policy",
    "Preflight": "tether.llm.preflight_checks.result",
    "PromptMixture": "tether.llm.prompt_mixture",
    "ServerError": "tether.llm.server.server_error",
    "preflight": "tether.llm.preflight_checks.run",
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
