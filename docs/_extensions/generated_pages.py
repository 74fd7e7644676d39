"""Writes the pages that are made from something else, anew at every build.

- the API reference, one page for each room from the names that it exports. A name that two rooms
  export is described where it is first met, in the order of `ROOMS`;
- the command line, from the help texts of its commands;
- the experiments, from the READMEs beside them, with links that hold in the site.
"""

import importlib
import inspect
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import typer
from numpydoc.xref import DEFAULT_LINKS
from sphinx.application import Sphinx

from tether.cli.app import __doc__ as about
from tether.cli.app import app as command_line

ROOMS = {
    "tether": "The everyday names",
    "tether.control": "How far: beta from a log",
    "tether.thresholds": "Which threshold",
    "tether.policies": "Who acts",
    "tether.sampling": "How to draw",
    "tether.aiming": "More of the gain",
    "tether.learn": "Estimators in the shape of scikit-learn",
    "tether.scan": "Logs larger than memory",
    "tether.runs": "Over time: rounds and releases",
    "tether.monitor": "Is it holding",
    "tether.llm": "Language models",
    "tether.bo": "Bayesian optimization",
    "tether.service": "The HTTP service",
    "tether.saving": "Policies as files",
    "tether.view": "What to show of a run",
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


def reference_page(room: str, title: str, names: list[str]) -> str:
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


INTRODUCTION = """# The command line

What `tether COMMAND --help` says, for every command. It needs the extra `cli`, and some
commands need further [extras](../start/install.md). A value marked with … can be given several
times.
"""
LIST = re.compile(r"<list\[(\w+)\]>")
"""A value that can be given several times."""


def commands(group: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield every command with its full name, those of subgroups too."""
    for key, command in group.commands.items():
        full = f"{name} {key}"
        if hasattr(command, "commands"):
            yield from commands(command, full)
        else:
            yield full, command


def command_line_page() -> str:
    """Return the page, in MyST's Markdown."""
    group = typer.main.get_command(command_line)
    codes = about.partition("\n\n")[2].strip().replace("\n", " ")
    parts = [INTRODUCTION, f"{codes}\n"]
    context = type(group).context_class(group, info_name="tether")
    parts.append("## Options of `tether` itself\n")
    parts.append(_table(group, context))
    for name, command in commands(group, "tether"):
        context = type(command).context_class(command, info_name=name)
        usage = command.get_usage(context).removeprefix("Usage: ")
        first, _, rest = (command.help or "").partition("\n\n")
        parts += [f"## {name}\n", f"{_escaped(first)}\n"]
        parts += [f"{_escaped(each)}\n" for each in rest.split("\n\n") if each]
        parts += [f"```text\n{usage}\n```\n", _table(command, context)]
    return "\n".join(parts)


def _table(command: Any, context: Any) -> str:
    """Return the arguments and options of a command as a table."""
    rows = ["| argument or option | meaning |", "| --- | --- |"]
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is None or record[0].startswith("--help"):
            continue
        left = LIST.sub(r"<\1> …", record[0])
        rows.append(f"| {_cell(f'`{left}`')} | {_cell(_escaped(record[1]))} |")
    return "\n".join(rows) + "\n" if rows[2:] else ""


def _cell(text: str) -> str:
    """Return a text in which no line divides the row of a table, not even in code."""
    return re.sub(r"(?<!\\)\|", r"\\|", text)


def _escaped(text: str) -> str:
    """Return a text on one line in which only code is markup, with options as code."""
    parts = " ".join(text.split()).split("`")
    for place in range(0, len(parts), 2):  # the others are code already
        plain = re.sub(r"([\\|*_<>\[\]])", r"\\\1", parts[place])
        parts[place] = re.sub(r"(?<![\w-])(--[a-z][a-z-]*)", r"`\1`", plain)
    return "`".join(parts)


README_LINK = re.compile(r"\]\((?P<path>[^)#\s:]+)(?P<anchor>#[^)\s]*)?\)")
"""A link of Markdown to a file, with its path and its anchor."""
TABLE_ROW = re.compile(r"^\| \[(?P<name>\w+)\]\(\w+/README\.md\)", re.M)
"""A row of the overview, which names an experiment."""


def moved(text: str, old: Path, new: Path, pages: dict[Path, Path]) -> str:
    """Return a text with links that hold at another place, and lead to pages where they exist."""

    def replace(link: re.Match[str]) -> str:
        file = Path(os.path.normpath(old.parent / link["path"]))
        target = os.path.relpath(pages.get(file, file), new.parent)
        return f"]({Path(target).as_posix()}{link['anchor'] or ''})"

    return README_LINK.sub(replace, text)


def experiment_pages(root: Path, folder: Path) -> dict[Path, str]:
    """Return the overview and a page for each experiment that it names, by where they go."""
    source = root / "experiments"
    overview = source / "README.md"
    names = TABLE_ROW.findall(overview.read_text("utf-8"))
    pages = {source / name / "README.md": folder / f"{name}.md" for name in names}
    pages[overview] = folder / "index.md"
    texts = {new: moved(old.read_text("utf-8"), old, new, pages) for old, new in pages.items()}
    listed = "\n".join(names)
    texts[folder / "index.md"] += f"\n\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n"
    return texts


def write_pages(app: Sphinx, config: object) -> None:
    """Write the pages that have changed, before Sphinx looks for pages."""
    source = Path(app.srcdir)
    pages = experiment_pages(source.parent, source / "experiments")
    pages[source / "reference" / "command_line.md"] = command_line_page()
    for room, names in names_by_room().items():
        pages[source / "reference" / f"{room}.rst"] = reference_page(room, ROOMS[room], names)
    for path, text in pages.items():
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    DEFAULT_LINKS.clear()  # of numpydoc: they lead to other sites, and nothing is fetched here
    app.connect("config-inited", write_pages)
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
