"""Releases and runs behind HTTP: OpenFeature, JSON, a gateway for language models, metrics, keys.

Names are imported on first use, since they need a web server.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tether.service.access import add_key as add_key
    from tether.service.access import remove_key as remove_key
    from tether.service.application import make_application as make_application
    from tether.service.server import run_service as run_service
    from tether.service.settings import ServiceSettings as ServiceSettings
    from tether.service.settings import read_service_settings as read_service_settings

_MODULES = {
    "ServiceSettings": "settings",
    "add_key": "access",
    "make_application": "application",
    "read_service_settings": "settings",
    "remove_key": "access",
    "run_service": "server",
}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'tether.service' has no attribute {name!r}")
    try:
        return getattr(import_module(f"tether.service.{_MODULES[name]}"), name)
    except ImportError as error:
        raise ImportError(
            f"tether.service.{name} needs pip install 'tether[serve]' ({error})"
        ) from error
