"""`tether doctor`: what is installed, what is missing, and how to get it."""

from __future__ import annotations

import json
import platform
import re
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

import tether
from tether._core import validate
from tether._core.extras import EXTRAS, REQUIRED, Package, is_installed
from tether._version import __version__
from tether.cli.terminal import VERIFICATION_FAILED, JsonOption, print_line, report_errors


@report_errors
def doctor(
    need: Annotated[
        list[str] | None,
        typer.Option(help=f"An extra that must be there; repeat for several: {', '.join(EXTRAS)}."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show versions and extras, what is missing and how to get it; no network is used.

    The exit code is 1 if a package is too old, or an extra that --need names is incomplete.
    """
    needed = [validate.choice("--need", each, EXTRAS) for each in need or ()]
    problems = _problems(needed)
    extras = {name: {e.name: _version(e) for e in each} for name, each in EXTRAS.items()}
    about = {
        "tether": f"{__version__} in {Path(tether.__file__).parent}",
        "python": f"{platform.python_version()} on {platform.platform()}",
        **{each.name: _version(each) for each in REQUIRED},
    }
    if as_json:
        print(json.dumps({**about, "extras": extras, "problems": problems}, indent=2))
    else:
        for name, value in about.items():
            print_line(f"{name:9} {value}")
        print_line("\nextras")
        for extra, packages in extras.items():
            absent = [name for name, version in packages.items() if version is None]
            state = "ready    " + ", ".join(f"{name} {each}" for name, each in packages.items())
            if absent:
                state = f"missing  {', '.join(absent)}: pip install 'tether[{extra}]'"
            print_line(f"  {extra:9} {state}")
        print_line("\n" + "\n".join(f"problem: {each}" for each in problems or ["none"]))
    if problems:
        raise typer.Exit(VERIFICATION_FAILED)


def _problems(needed: list[str]) -> list[str]:
    """What is too old, and what is missing although it is needed."""
    found: dict[str, None] = {}
    for extra, packages in {"": REQUIRED, **EXTRAS}.items():
        how = f"pip install -U 'tether[{extra}]'" if extra else "pip install -U tether"
        for each in packages:
            version = _version(each)
            if version is None and (not extra or extra in needed):
                found[f"{each.name} is not installed: {how}"] = None
            elif version is not None and _numbers(version) < _numbers(each.oldest):
                old = f"{each.name} {version} is older than {each.oldest}, which is needed"
                found[f"{old}: {how}"] = None
    return list(found)


def _version(package: Package) -> str | None:
    """The version of a package; one that cannot be found where modules are is not installed."""
    if not is_installed(package.module):
        return None
    try:
        return metadata.version(package.name)
    except metadata.PackageNotFoundError:
        return "of unknown version"


def _numbers(version: str) -> list[int]:
    """The release numbers of a version; unknown versions are new."""
    found = re.match(r"\d+(\.\d+)*", version)
    return [int(part) for part in found[0].split(".")] if found else [1 << 30]
