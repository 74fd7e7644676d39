"""Writes the reference page of the command line, from the help texts of its commands.

The page is written anew at every build and is not kept.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from sphinx.application import Sphinx

from tether.cli.app import __doc__ as about
from tether.cli.app import app as command_line

PAGE = "command_line.md"
INTRODUCTION = """# The command line

What `tether COMMAND --help` says, for every command. It needs `pip install 'tether[cli]'`, and some
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


def page() -> str:
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


def write_page(app: Sphinx, config: object) -> None:
    """Write the page if it has changed, before Sphinx looks for pages."""
    text, path = page(), Path(app.srcdir) / "reference" / PAGE
    if not path.exists() or path.read_text("utf-8") != text:
        path.write_text(text, "utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("config-inited", write_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
