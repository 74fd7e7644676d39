"""Writes the pages of the API reference: one for each room, from the names it exports.

A name that two rooms export is described where it is first met, in the order of `ROOMS`, so that
every public name has one page.
"""

import importlib
import inspect
from functools import cache
from pathlib import Path
from typing import Any

from numpydoc.xref import DEFAULT_LINKS
from sphinx.application import Sphinx

ROOMS = {
    "tether": "The everyday names",
    "tether.control": "How far: beta from a log",
    "tether.thresholds": "Which threshold",
    "tether.policies": "Who acts",
    "tether.sampling": "How to draw",
    "tether.aiming": "More of the gain",
    "tether.learn": "Estimators in the shape of scikit-learn",
    "tether.scan": "Logs larger than memory",
    "tether.release": "Two systems that tell no probabilities",
    "tether.rounds": "Over time",
    "tether.monitor": "Is it holding",
    "tether.llm": "Language models",
    "tether.bo": "Bayesian optimization",
    "tether.service": "The HTTP service",
    "tether.saving": "Policies as files",
    "tether.report": "Reports",
    "tether.verification": "Checks of saved results",
}
"""Every room that has public names, with the title of its page."""


def names_by_room() -> dict[str, list[str]]:
    """Return the public names that the page of each room describes, without modules."""
    described: set[int] = set()
    pages: dict[str, list[str]] = {}
    for room in ROOMS:
        module = importlib.import_module(room)
        pages[room] = []
        for name in getattr(module, "__all__", vars(module)):
            value = getattr(module, name)
            if name.startswith("_") or inspect.ismodule(value) or id(value) in described:
                continue
            described.add(id(value))
            pages[room].append(name)
    return pages


@cache
def addresses() -> dict[str, str]:
    """Return the full name under which each public name is described, by the name alone."""
    full: dict[str, str] = {}
    for room, names in names_by_room().items():
        for name in names:
            full.setdefault(name, f"{room}.{name}")
    return full


def addresses_of_classes() -> dict[str, str]:
    """Return those of classes, which are the types of parameters."""
    return {
        name: full
        for name, full in addresses().items()
        if inspect.isclass(getattr(importlib.import_module(full.rpartition(".")[0]), name))
    }


def resolve(app: Sphinx, env: Any, node: Any, content: Any) -> Any:
    """Link a name in a docstring that another room describes."""
    full = addresses().get(node["reftarget"]) if node.get("refdomain") == "py" else None
    if full is None:
        return None
    domain = env.get_domain("py")
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", full, node, content)


def page(room: str, title: str, names: list[str]) -> str:
    """Return the page of one room, in reStructuredText."""
    module = importlib.import_module(room)
    heading = f"``{room}``: {title}"
    first, *rest = inspect.getdoc(module).split("\n\n")
    entries = "\n".join(f"   {name}" for name in names)
    return "\n\n".join(
        [
            f".. currentmodule:: {room}",
            f"{heading}\n{'=' * len(heading)}",
            first,
            *rest,
            f".. autosummary::\n   :toctree: generated\n   :nosignatures:\n\n{entries}\n",
        ]
    )


def write_pages(app: Sphinx, config: object) -> None:
    """Write the pages that have changed, before Sphinx looks for pages."""
    folder = Path(app.srcdir) / "reference"
    for room, names in names_by_room().items():
        text, path = page(room, ROOMS[room], names), folder / f"{room}.rst"
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    DEFAULT_LINKS.clear()  # of numpydoc: they lead to other sites, and nothing is fetched here
    app.connect("config-inited", write_pages)
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
