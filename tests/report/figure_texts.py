"""The texts of a figure as they are drawn: which of them cover each other or leave the figure."""

from __future__ import annotations

from itertools import combinations

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

SLACK = 1.0
"""How many pixels two boxes may share: the rounding of their corners."""


def drawn_texts(figure):
    """Every text that is visible in the figure, with its box in pixels."""
    canvas = FigureCanvasAgg(figure)
    if figure.stale:
        figure.draw_without_rendering()  # lays the texts out, paints no pixel
    hidden = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
                if not low <= tick.get_loc() <= high:
                    hidden |= {tick.label1, tick.label2}
    renderer = canvas.get_renderer()
    for text in figure.findobj(Text):
        if text.get_visible() and text.get_text().strip() and text not in hidden:
            yield text, text.get_window_extent(renderer)


def overlaps(figure):
    """Pairs of texts of which one covers a part of the other."""
    found = []
    for (first, a), (second, b) in combinations(drawn_texts(figure), 2):
        across = min(a.x1, b.x1) - max(a.x0, b.x0)
        along = min(a.y1, b.y1) - max(a.y0, b.y0)
        if across > SLACK and along > SLACK:
            found.append((first.get_text(), second.get_text()))
    return found


def cut_off(figure):
    """Texts that leave the figure."""
    box = figure.bbox
    return [
        text.get_text()
        for text, place in drawn_texts(figure)
        if place.x0 < box.x0 - SLACK
        or place.y0 < box.y0 - SLACK
        or place.x1 > box.x1 + SLACK
        or place.y1 > box.y1 + SLACK
    ]
