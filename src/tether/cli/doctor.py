"""`tether doctor`: what is installed, what is missing, and how to get it."""

from __future__ import annotations

import json
import platform
import re
from pathlib import Path
from typing import Annotated

import typer

import tether
from tether._core import validate
from tether._core.extras import installed_version, requirements
from tether._version import __version__
from tether.cli.terminal import VERIFICATION_FAILED, JsonOption, command, print_line


@command()
def doctor(
    need: Annotated[
        list[str] | None,
        typer.Option(help="An extra that must be there, such as serve; repeat for several."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show versions and extras, what is missing and how to get it; no network is used.

    The exit code is 1 if a package is too old, or an extra that --need names is incomplete.
    """
    wanted = requirements()
    needed = [validate.choice("--need", each, tuple(filter(None, wanted))) for each in need or ()]
    found = {
        extra: {name: installed_version(name) for name in packages}
        for extra, packages in wanted.items()
    }
    problems = _problems(wanted, found, ["", *needed])
    about = {
        "tether": f"{__version__} in {Path(tether.__file__).parent}",
        "python": f"{platform.python_version()} on {platform.platform()}",
        **found.pop("", {}),
    }
    if as_json:
        print(json.dumps({**about, "extras": found, "problems": problems}, indent=2))
    else:
        for name, value in about.items():
            print_line(f"{name:9} {value}")
        print_line("\nextras")
        for extra, packages in found.items():
            absent = [name for name, version in packages.items() if version is None]
            state = "ready    " + ", ".join(f"{name} {each}" for name, each in packages.items())
            if absent:
                state = f"missing  {', '.join(absent)}: pip install 'tether[{extra}]'"
            print_line(f"  {extra:9} {state}")
        print_line("\n" + "\n".join(f"problem: {each}" for each in problems or ["none"]))
    if problems:
        raise typer.Exit(VERIFICATION_FAILED)


def _problems(
    wanted: dict[str, dict[str, str]], found: dict[str, dict[str, str | None]], needed: list[str]
) -> list[str]:
    """What is too old, and what is missing although it is needed."""
    problems: dict[str, None] = {}
    for extra, packages in wanted.items():
        how = f"pip install -U 'tether[{extra}]'" if extra else "pip install -U tether"
        for name, oldest in packages.items():
            version = found[extra][name]
            if version is None and extra in needed:
                problems[f"{name} is not installed: {how}"] = None
            elif version is not None and _numbers(version) < _numbers(oldest):
                old = f"{name} {version} is older than {oldest}, which is needed"
                problems[f"{old}: {how}"] = None
    return list(problems)


def _numbers(version: str) -> list[int]:
    """The release numbers of a version; unknown versions are new."""
    found = re.match(r"\d+(\.\d+)*", version)
    return [int(part) for part in found[0].split(".")] if found else [1 << 30]
