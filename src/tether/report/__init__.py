"""A run of `tether.rounds` as one HTML file; `tether.view` has what replaces it."""

from __future__ import annotations

from tether.report.page import render, write

__all__ = ["render", "write"]
