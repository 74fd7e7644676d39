"""Releases and runs behind HTTP: OpenFeature, JSON, a gateway between language models, keys."""

try:
    from tether.service.application import make_application
    from tether.service.settings import ServiceSettings, read_service_settings
except ImportError as error:
    raise ImportError(f"tether.service needs pip install 'tether[serve]' ({error})") from error

__all__ = ["ServiceSettings", "make_application", "read_service_settings"]
