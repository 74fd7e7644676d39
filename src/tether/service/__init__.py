"""Releases and runs behind HTTP: OpenFeature, JSON, a gateway between language models, keys."""

try:
    from tether.service.access import add_key, remove_key
    from tether.service.application import make_application, run_service
    from tether.service.settings import ServiceSettings, read_service_settings
except ImportError as error:
    raise ImportError(f"tether.service needs pip install 'tether[serve]' ({error})") from error

__all__ = [
    "ServiceSettings",
    "add_key",
    "make_application",
    "read_service_settings",
    "remove_key",
    "run_service",
]
