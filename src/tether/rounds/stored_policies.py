"""Policies in the store: what a restart would lose otherwise.

A policy is stored once, under its digest, as `tether.saving` writes it: plain arrays and JSON. One
that cannot be saved is not an error; the reason is stored, and after a restart the user passes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sql

from tether.rounds.errors import TamperedError
from tether.rounds.store import chain, schema
from tether.rounds.store.writer import Writer

MAX_STORED_POLICY_BYTES = 2**28
"""Larger policies are not stored: pass them after a restart."""

PolicyLoader = Callable[..., Any]
"""What turns stored bytes into a policy; by default `tether.saving.policy_from_bytes`."""


@dataclass(frozen=True)
class SavedPolicy:
    """A policy as bytes, with their digest; or the reason why it cannot be saved."""

    content: bytes | None = None
    problem: str = ""

    @property
    def digest(self) -> str | None:
        """The name under which it is stored."""
        return None if self.content is None else chain.digest_bytes(self.content).hex()

    def write(self, writer: Writer) -> None:
        """Store it, unless it is stored already."""
        table, digest = schema.policies, self.digest
        if digest is None:
            return
        known = sql.select(table.c.digest).where(table.c.digest == digest)
        if writer.connection.scalar(known) is None:
            writer.record(table, {"digest": digest, "content": self.content})


def save_policy_content(policy: Any) -> SavedPolicy:
    """A policy as bytes, as far as it can be saved."""
    from tether.saving import CannotSaveError, policy_to_bytes

    try:
        content = policy_to_bytes(policy)
    except (CannotSaveError, ImportError) as error:
        return SavedPolicy(problem=str(error))
    if len(content) > MAX_STORED_POLICY_BYTES:
        problem = f"it has {len(content):,} bytes, more than {MAX_STORED_POLICY_BYTES:,}"
        return SavedPolicy(problem=problem)
    return SavedPolicy(content)


def load_stored_policy(connection: sql.Connection, digest: str, load: PolicyLoader | None) -> Any:
    """A stored policy, checked against its digest."""
    from tether.saving import policy_from_bytes

    table = schema.policies
    content = connection.scalar(sql.select(table.c.content).where(table.c.digest == digest))
    if content is None or chain.digest_bytes(bytes(content)).hex() != digest:
        raise TamperedError(f"the stored policy {digest} was changed or removed")
    return (load or policy_from_bytes)(bytes(content))
