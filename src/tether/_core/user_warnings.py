"""Warnings that point at the user's line, however deep in the package they arise."""

from __future__ import annotations

import sys
import warnings

from tether._core.warning_categories import TetherWarning


def warn_user(message: str, category: type[TetherWarning]) -> None:
    """Warn at the line outside the package that led here."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _is_inside(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _is_inside(module: str) -> bool:
    return module == "tether" or module.startswith("tether.")
