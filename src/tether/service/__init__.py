"""A release behind HTTP: OpenFeature, JSON, a gateway for language models, metrics, API keys.

Names are imported on first use, since they need a web server.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tether.service.access.api_keys import ApiKeys, add_key, remove_key
    from tether.service.application import make_application
    from tether.service.settings.gateway_table import GatewaySettings, UpstreamSettings
    from tether.service.settings.service_settings import ServiceSettings, read_service_settings
    from tether.service.web_server import run_service

__all__ = [
    "ApiKeys",
    "GatewaySettings",
    "ServiceSettings",
    "UpstreamSettings",
    "add_key",
    "make_application",
    "read_service_settings",
    "remove_key",
    "run_service",
]

_NAMES_BY_MODULE = {
    "access.api_keys": ("ApiKeys", "add_key", "remove_key"),
    "application": ("make_application",),
    "web_server": ("run_service",),
    "settings.gateway_table": ("GatewaySettings", "UpstreamSettings"),
    "settings.service_settings": ("ServiceSettings", "read_service_settings"),
}


def __getattr__(name: str) -> Any:
    for module, names in _NAMES_BY_MODULE.items():
        if name in names:
            try:
                return getattr(import_module(f"tether.service.{module}"), name)
            except ImportError as error:
                raise ImportError(
                    f"tether.service.{name} needs pip install 'tether[serve]' ({error})"
                ) from error
    raise AttributeError(f"module 'tether.service' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
