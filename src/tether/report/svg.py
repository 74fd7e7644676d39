"""From matplotlib to SVG inside a page: no fonts, no colors, no styles of its own.

Artists are drawn in stand-in colors, one for each role; here they become classes, so that the
page's style sheet decides what a role looks like: in light, in dark and on paper.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from tether.report.markup import Markup, element

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED, HAIR, ACCENT, OVER, PAPER = (f"#0000{10 * n:02x}" for n in range(1, 7))
_ROLES = dict(
    zip(
        (INK, MUTED, HAIR, ACCENT, OVER, PAPER),
        ("ink", "muted", "hair", "accent", "over", "paper"),
        strict=True,
    )
)
_KEPT = {"stroke-width", "stroke-dasharray", "fill-opacity", "stroke-opacity", "opacity"}
_KEPT |= {"text-anchor", "font-size", "font-weight", "stroke-linecap"}
_USUAL = {("text-anchor", "start"), ("font-size", "12px"), ("stroke-linecap", "square")}
FONT = 12.0
ABOVE, LOW = 30.0, 30.0
"""The margin above a drawing, and the most below it that has no room for words of its own."""


@contextmanager
def settings() -> Iterator[None]:
    """Matplotlib as it comes, whatever the user's style is; theirs is back afterwards."""
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError(
            "reports and plots are drawn with matplotlib: pip install 'tether[plot]'"
        ) from error
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        yield


def blank(
    width: float, height: float, left: float = 46.0, right: float = 12.0, below: float = 28.0
) -> tuple[Figure, Axes]:
    """An empty figure of that many pixels, with axes in the manner of all charts.

    Margins are fixed, since to fit them to their words costs more than to draw.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width / 72, height / 72), dpi=72)
    figure.patch.set_visible(False)
    inner = width - left - right, height - below - ABOVE
    axes = figure.add_axes((left / width, below / height, inner[0] / width, inner[1] / height))
    axes.patch.set_visible(False)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(HAIR)
    axes.grid(axis="y", color=HAIR, linewidth=1)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelcolor=MUTED, labelsize=FONT, pad=6)
    axes.tick_params(axis="x", pad=8)
    return figure, axes


def label(axes: Axes, x: str, y: str) -> None:
    """Name the axes where they are read first: y above its numbers, x before or below its own."""
    figure, box = axes.figure, axes.get_position()
    style: dict[str, Any] = {"color": MUTED, "fontsize": FONT}
    figure.text(0, 1 - 2 / figure.bbox.height, y, ha="left", va="top", **style)
    if box.y0 * figure.bbox.height > LOW:
        figure.text(box.x1, 3 / figure.bbox.height, x, ha="right", va="bottom", **style)
    else:
        figure.text(0, box.y0 - 8 / figure.bbox.height, x, ha="left", va="top", **style)


def places(axes: Axes, x: Any, y: Any) -> NDArray[np.float64]:
    """Where points of the data lie in the drawing, from its upper left corner."""
    axes.get_ylim()  # limits that matplotlib finds by itself are found when asked for
    where = axes.transData.transform(np.column_stack([x, y]))
    where[:, 1] = axes.figure.bbox.height - where[:, 1]
    return np.asarray(where)


def svg(figure: Figure, *, name: str, label: str, points: Any = None, extra: Any = None) -> Markup:
    """The figure as an `svg` element; `points` are places that can be pointed at, in order.

    `name` is unique in the page and ends in -wide, -narrow or -only; `extra` goes on top. Without
    a `label`, an element called NAME-words says what there is to see.
    """
    from matplotlib import rc_context

    written = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(written, format="svg", metadata={"Date": None})
    root = ElementTree.fromstring(written.getvalue())
    known: dict[str, str] = {}
    if points is not None:
        points = json.dumps(np.round(points, 1).tolist(), separators=(",", ":"))
    return element(
        "svg",
        [_rewritten(child, name, known) for child in root],
        extra,
        class_=name.rsplit("-", 1)[-1],
        viewBox=f"0 0 {figure.bbox.width:.0f} {figure.bbox.height:.0f}",
        role="img",
        aria_label=label or None,
        aria_labelledby=None if label else f"{name}-words",
        data_points=points,
    )


def _rewritten(
    node: ElementTree.Element, name: str, known: dict[str, str], group: str = ""
) -> Markup | None:
    """One element of matplotlib's, with classes for its colors and numbers to a tenth of a pixel.

    A group with a gid "~class round" keeps it as class and data-round; what a curve looks like is
    left to the style sheet altogether, since there is one for every round.
    """
    tag = node.tag.rsplit("}", 1)[-1]
    if tag in ("metadata", "style"):
        return None
    if tag == "g":
        gid = node.get("id", "")
        kind, _, number = gid[1:].partition(" ") if gid.startswith("~") else ("", "", "")
        inner = [_rewritten(child, name, known, group or kind) for child in node]
        attributes = {
            "class_": kind.replace("+", " ") or None,
            "data_round": number or None,
            "clip-path": _reference(node.get("clip-path"), name, known),
        }
        if not any(inner):
            return None
        bare = not any(attributes.values())
        return Markup("".join(filter(None, inner))) if bare else element("g", inner, **attributes)
    attributes = {} if group.startswith("curve") else _styled(node.get("style", ""))
    for key, value in node.attrib.items():
        key = key.rsplit("}", 1)[-1]
        if key == "id":
            attributes[key] = known.setdefault(value, f"{name}-{len(known)}")
        elif key == "href":
            attributes[key] = "#" + known.setdefault(value[1:], f"{name}-{len(known)}")
        elif key == "clip-path":
            attributes[key] = _reference(value, name, known)
        elif key not in ("style", "transform"):
            attributes[key] = _short(value)
    inner = [_rewritten(child, name, known) for child in node]
    if tag == "defs" and not any(inner):
        return None
    return element(
        tag, node.text.strip() if tag == "text" and node.text else "", inner, **attributes
    )


def _styled(style: str) -> dict[str, Any]:
    """Style declarations as attributes: roles become classes, the rest is kept where it matters."""
    classes, attributes = [], {}
    for key, _, value in (part.strip().partition(": ") for part in style.split(";")):
        if key in ("fill", "stroke"):
            if value in _ROLES:
                classes.append(f"{key}-{_ROLES[value]}")
            elif value == "none":
                attributes[key] = value
        elif key in _KEPT and (key, value) not in _USUAL:
            attributes[key] = value.removesuffix("px")
    return ({"class_": " ".join(classes)} if classes else {}) | attributes


def _short(numbers: str) -> str:
    """Numbers rounded to a tenth, in as few characters as a path needs."""
    text = re.sub(r"-?\d+\.\d+", lambda m: f"{float(m[0]):.1f}".removesuffix(".0"), numbers)
    return re.sub(r"\s*([A-Za-z])\s*", r"\1", text.replace("-0 ", "0 ")).strip()


def _reference(value: str | None, name: str, known: dict[str, str]) -> str | None:
    if value is None:
        return None
    return f"url(#{known.setdefault(value[5:-1], f'{name}-{len(known)}')})"
