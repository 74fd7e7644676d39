"""What is known of each kind of object that can be saved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from typing import Any

from tether.saving.permissions import Permissions


@dataclass(frozen=True)
class Member:
    """Bytes that become a member of the file, such as the weights of a model."""

    content: bytes
    ending: str


@dataclass(frozen=True)
class Kind:
    """How objects of a kind are recognized, taken apart and put together again.

    `state` returns everything that determines what an object does: plain values, arrays, members
    and other objects that can be saved. `build` takes the same by name. `notes` are what goes along
    without being part of it, such as cached results; `attach` puts them back.
    """

    name: str
    recognizes: Callable[[Any], bool]
    state: Callable[[Any], dict[str, Any]]
    build: Callable[..., Any]
    notes: Callable[[Any], dict[str, Any]] | None = None
    attach: Callable[..., None] | None = None
    asks: bool = False
    """Whether `build` takes the permissions as its first argument."""

    def make(self, permissions: Permissions, state: dict[str, Any]) -> Any:
        """An object from its state."""
        asked = (permissions,) if self.asks else ()
        try:
            signature(self.build).bind(*asked, **state)
        except TypeError as error:
            raise ValueError(f"its entries are not those of a {self.name}: {error}") from error
        return self.build(*asked, **state)


def of_type(
    name: str, made_of: type, *fields: str, build: Callable[..., Any] | None = None
) -> Kind:
    """The kind of a class whose attributes are, under the same names, what it is built from."""
    return Kind(
        name,
        lambda value: type(value) is made_of,
        lambda value: {field: getattr(value, field) for field in fields},
        made_of if build is None else build,
    )
