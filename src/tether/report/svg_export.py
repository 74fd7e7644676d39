"""From a matplotlib figure to SVG inside a page, without fonts, colors or styles of its own."""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np

from tether._core.arrays import Floats
from tether.report.chart_canvas import COLOR_ROLES
from tether.report.html_elements import Markup, element

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KEPT_STYLES = {
    "stroke-width",
    "stroke-dasharray",
    "fill-opacity",
    "stroke-opacity",
    "opacity",
    "text-anchor",
    "font-size",
    "font-weight",
    "stroke-linecap",
}
DEFAULT_STYLES = {("text-anchor", "start"), ("font-size", "12px"), ("stroke-linecap", "square")}
"""Styles that need not be written, since the page has them anyway."""
ROUND_GROUP_PREFIX = "~"


def round_group_id(kind: str, round_number: int, *, selected: bool) -> str:
    """The matplotlib gid of what belongs to one round: becomes class and data-round in the page."""
    return f"{ROUND_GROUP_PREFIX}{kind}{'+selected' if selected else ''} {round_number}"


def figure_to_svg(
    figure: Figure,
    *,
    name: str,
    label: str,
    points: Floats | None = None,
    overlay: Markup | None = None,
) -> Markup:
    """Convert a figure to an `svg` element.

    `name` is unique in the page and ends in -wide, -narrow or -only. `points` are the pixel
    positions of the points that can be read, in order; `overlay` is added on top. If `label` is
    empty, the element with the id NAME-description is the text alternative.
    """
    from matplotlib import rc_context

    output = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(output, format="svg", metadata={"Date": None})
    root = ElementTree.fromstring(output.getvalue())
    new_ids: dict[str, str] = {}
    positions = None
    if points is not None:
        positions = json.dumps(np.round(points, 1).tolist(), separators=(",", ":"))
    return element(
        "svg",
        [_rewrite(child, name, new_ids) for child in root],
        overlay,
        class_=name.rsplit("-", 1)[-1],
        viewBox=f"0 0 {figure.bbox.width:.0f} {figure.bbox.height:.0f}",
        role="img",
        aria_label=label or None,
        aria_labelledby=None if label else f"{name}-description",
        data_points=positions,
    )


def _rewrite(
    node: ElementTree.Element, name: str, new_ids: dict[str, str], group: str = ""
) -> Markup | None:
    """Rewrite an element: classes instead of colors, and numbers rounded to a tenth of a pixel.

    A group with a `round_group_id` keeps it as class and data-round. Curves have no style of their
    own, since there is one for every round: all of it is left to the style sheet.
    """
    tag = node.tag.rsplit("}", 1)[-1]
    if tag in ("metadata", "style"):
        return None
    if tag == "g":
        return _rewrite_group(node, name, new_ids, group)
    attributes = {} if group.startswith("curve") else _style_attributes(node.get("style", ""))
    for key, value in node.attrib.items():
        key = key.rsplit("}", 1)[-1]
        if key == "id":
            attributes[key] = new_ids.setdefault(value, f"{name}-{len(new_ids)}")
        elif key == "href":
            attributes[key] = "#" + new_ids.setdefault(value[1:], f"{name}-{len(new_ids)}")
        elif key == "clip-path":
            attributes[key] = _new_url(value, name, new_ids)
        elif key not in ("style", "transform"):
            attributes[key] = _shorten_numbers(value)
    children = [_rewrite(child, name, new_ids) for child in node]
    if tag == "defs" and not any(children):
        return None
    text = node.text.strip() if tag == "text" and node.text else ""
    return element(tag, text, children, **attributes)


def _rewrite_group(
    node: ElementTree.Element, name: str, new_ids: dict[str, str], group: str
) -> Markup | None:
    """Rewrite a group; one that is empty is dropped, one without attributes is unwrapped."""
    gid = node.get("id", "")
    kind, round_number = "", ""
    if gid.startswith(ROUND_GROUP_PREFIX):
        kind, _, round_number = gid.removeprefix(ROUND_GROUP_PREFIX).partition(" ")
    children = [_rewrite(child, name, new_ids, group or kind) for child in node]
    clip_path = node.get("clip-path")
    attributes = {
        "class_": kind.replace("+", " ") or None,
        "data_round": round_number or None,
        "clip-path": None if clip_path is None else _new_url(clip_path, name, new_ids),
    }
    if not any(children):
        return None
    if not any(attributes.values()):
        return Markup("".join(filter(None, children)))
    return element("g", children, **attributes)


def _style_attributes(style: str) -> dict[str, str]:
    """Convert style declarations to attributes: colors become classes, the rest stays if needed."""
    classes, attributes = [], {}
    for key, _, value in (part.strip().partition(": ") for part in style.split(";")):
        if key in ("fill", "stroke"):
            if value in COLOR_ROLES:
                classes.append(f"{key}-{COLOR_ROLES[value]}")
            elif value == "none":
                attributes[key] = value
        elif key in KEPT_STYLES and (key, value) not in DEFAULT_STYLES:
            attributes[key] = value.removesuffix("px")
    return ({"class_": " ".join(classes)} if classes else {}) | attributes


def _shorten_numbers(text: str) -> str:
    """Round numbers to a tenth, and leave out the spaces that a path does not need."""
    text = re.sub(r"-?\d+\.\d+", lambda match: f"{float(match[0]):.1f}".removesuffix(".0"), text)
    return re.sub(r"\s*([A-Za-z])\s*", r"\1", text.replace("-0 ", "0 ")).strip()


def _new_url(value: str, name: str, new_ids: dict[str, str]) -> str:
    """Convert a reference url(#id) to the new id."""
    return f"url(#{new_ids.setdefault(value[5:-1], f'{name}-{len(new_ids)}')})"
