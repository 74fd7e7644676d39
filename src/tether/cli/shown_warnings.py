"""Warnings of a calculation on the command line: one line each, unless the result says them too."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tether._core.warning_categories import TetherWarning

_pending: dict[str, None] = {}
"""The warnings of the calculation that were not shown yet, each once."""


@contextmanager
def warnings_kept() -> Iterator[None]:
    """Keep the warnings of the package that come up here until the result is printed."""
    with warnings.catch_warnings():
        shown_by = warnings.showwarning

        def keep(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, TetherWarning):
                _pending[str(message)] = None
            else:
                shown_by(message, category, *where, **more)

        warnings.showwarning = keep
        yield


def warnings_beside(printed: str) -> list[str]:
    """The warnings that were kept and are not in what is printed; they are kept no longer."""
    text = _one_line(printed)
    messages = [message for message in _pending if _one_line(message) not in text]
    _pending.clear()
    return messages


def _one_line(text: str) -> str:
    return " ".join(text.replace("\n  ! ", "\n").split())
