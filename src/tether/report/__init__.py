"""What to show: results as figures, side by side and in notebooks; a run as one HTML file.

Computes nothing.

The charts of the HTML report are drawn by matplotlib as SVG and embedded in the page; their colors
are left to its style sheet. Compared with plotly (4 MB inlined) and Vega-Lite (0.8 MB), this costs
about 10 kB per chart, works without JavaScript and in print, follows light and dark themes, and
needs no third-party bundle. The price is a small script of our own for reading points and
selecting a round.

Names are imported on first use: `Calibration.plot` needs `tether.report.figures` alone,
neither the page nor the records of `tether.rounds`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tether.report.comparison import Comparison, compare
    from tether.report.page import render, write

__all__ = ["Comparison", "compare", "render", "write"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'tether.report' has no attribute {name!r}")
    if name in ("Comparison", "compare"):
        from tether.report import comparison

        return getattr(comparison, name)
    from tether.report import page

    return getattr(page, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
