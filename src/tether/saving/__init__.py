"""Policies on the disk: files of plain arrays and JSON that another process can serve."""

from tether.saving.objects import CannotSaveError
from tether.saving.save_and_load import (
    load_policy,
    policy_digest,
    policy_from_bytes,
    policy_to_bytes,
    save_policy,
)

__all__ = [
    "CannotSaveError",
    "load_policy",
    "policy_digest",
    "policy_from_bytes",
    "policy_to_bytes",
    "save_policy",
]
