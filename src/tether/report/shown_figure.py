"""A matplotlib figure that a notebook shows although pyplot was never imported.

IPython learns how to show figures when pyplot is imported; a figure made without it would be shown
as `<Figure size 640x480 with 1 Axes>`.
"""

from __future__ import annotations

import io

from matplotlib.figure import Figure

SHOWN_DPI = 110
"""Dots per inch of the picture in a notebook."""


class ShownFigure(Figure):
    """A figure that brings its own picture."""

    def _repr_png_(self) -> bytes:
        """What a notebook shows."""
        file = io.BytesIO()
        self.savefig(file, format="png", dpi=SHOWN_DPI, bbox_inches="tight")
        return file.getvalue()
