"""Policies and results as files: plain arrays and JSON that another process can serve and check."""

from tether.saving.objects import CannotSaveError
from tether.saving.save_and_load import (
    load,
    policy_from_bytes,
    policy_to_bytes,
    save_policy,
)
from tether.saving.verify_record import verify_record

__all__ = [
    "CannotSaveError",
    "load",
    "policy_from_bytes",
    "policy_to_bytes",
    "save_policy",
    "verify_record",
]
