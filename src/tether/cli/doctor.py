"""`tether doctor`: what is installed, what is missing, and how to get it."""

from __future__ import annotations

import json
import platform
import re
from pathlib import Path
from typing import Any

import tether
from tether._core import validate
from tether._core.extras import installed_version, requirements
from tether._version import __version__
from tether.cli.terminal import VERIFICATION_FAILED, JsonOption, command, print_line


@command(given={"need": (list[str], [], "An extra that must be there, e.g. serve; repeat.")})
def doctor(given: Any, as_json: JsonOption = False) -> int:
    """Show versions and extras, what is missing and how to get it; no network is used.

    The exit code is 1 if a package is too old, or an extra that --need names is incomplete.
    """
    wanted = requirements()
    known = tuple(filter(None, wanted))
    needed = [validate.choice("--need", each, known) for each in given["need"]]
    found: dict[str, dict[str, str | None]] = {}
    problems: dict[str, None] = {}  # each once
    for extra, packages in wanted.items():
        found[extra] = {name: installed_version(name) for name in packages}
        how = f"pip install -U 'tether[{extra}]'" if extra else "pip install -U tether"
        for name, version in found[extra].items():
            oldest = packages[name]
            if version is None and extra in ("", *needed):
                problems[f"{name} is not installed: {how}"] = None
            elif version is not None and _numbers(version) < _numbers(oldest):
                problems[f"{name} {version} is older than {oldest}, which is needed: {how}"] = None
    about = {
        "tether": f"{__version__} in {Path(tether.__file__).parent}",
        "python": f"{platform.python_version()} on {platform.platform()}",
        **found.pop("", {}),
    }
    if as_json:
        print(json.dumps({**about, "extras": found, "problems": [*problems]}, indent=2))
    else:
        for name, value in about.items():
            print_line(f"{name:9} {value}")
        print_line("\nextras")
        for extra, versions in found.items():
            absent = [name for name, version in versions.items() if version is None]
            state = "ready    " + ", ".join(f"{name} {each}" for name, each in versions.items())
            if absent:
                state = f"missing  {', '.join(absent)}: pip install 'tether[{extra}]'"
            print_line(f"  {extra:9} {state}")
        print_line("\n" + "\n".join(f"problem: {each}" for each in problems or ["none"]))
    return VERIFICATION_FAILED if problems else 0


def _numbers(version: str) -> list[int]:
    """The release numbers of a version; unknown versions are new."""
    found = re.match(r"\d+(\.\d+)*", version)
    return [int(part) for part in found[0].split(".")] if found else [1 << 30]
