"""`tether doctor`: what is installed, what is missing, and how to get it."""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import tether
from tether._core import validate
from tether._core.extras import EXTRAS, REQUIRED, Package, is_installed
from tether._version import __version__
from tether.cli.terminal import VERIFICATION_FAILED, JsonOption, report_errors, show


@report_errors
def doctor(
    need: Annotated[
        list[str] | None,
        typer.Option(help=f"An extra that must be there; repeat for several: {', '.join(EXTRAS)}."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show versions and extras, what is missing and how to get it; no network is used.

    The exit code is 1 if a package is too old, an extra that --need names is incomplete, or a small
    calibration does not give what it should.
    """
    needed = [validate.choice("--need", each, EXTRAS) for each in need or ()]
    found = Installation.look(needed)
    show(found, as_json=as_json)
    if found.problems:
        raise typer.Exit(VERIFICATION_FAILED)


@dataclass(frozen=True)
class Installation:
    """The versions of what is installed, by extra; None where a package is missing."""

    required: dict[str, str | None]
    extras: dict[str, dict[str, str | None]]
    problems: list[str]

    @classmethod
    def look(cls, needed: list[str]) -> Installation:
        """Look up all packages, and try a calibration."""
        problems: dict[str, None] = {}
        for extra, packages in {"": REQUIRED, **EXTRAS}.items():
            how = f"pip install -U 'tether[{extra}]'" if extra else "pip install -U tether"
            for each in packages:
                version = _version(each)
                if version is None and (not extra or extra in needed):
                    problems[f"{each.name} is not installed: {how}"] = None
                elif version is not None and _numbers(version) < _numbers(each.oldest):
                    old = f"{each.name} {version} is older than {each.oldest}, which is needed"
                    problems[f"{old}: {how}"] = None
        if wrong := _calibration_problem():
            problems[wrong] = None
        extras = {name: {e.name: _version(e) for e in each} for name, each in EXTRAS.items()}
        return cls({each.name: _version(each) for each in REQUIRED}, extras, list(problems))

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain values."""
        return {
            "tether": __version__,
            "location": str(Path(tether.__file__).parent),
            "python": platform.python_version(),
            "platform": platform.platform(),
            "packages": self.required,
            "extras": self.extras,
            "problems": self.problems,
        }

    def __str__(self) -> str:
        about = self.to_dict()
        lines = [
            f"tether    {about['tether']} in {about['location']}",
            f"python    {about['python']} on {about['platform']}",
            *(f"{name:9} {version}" for name, version in self.required.items()),
            "",
            "extras",
        ]
        for extra, packages in self.extras.items():
            absent = [name for name, version in packages.items() if version is None]
            state = "ready    " + ", ".join(f"{name} {each}" for name, each in packages.items())
            if absent:
                state = f"missing  {', '.join(absent)}: pip install 'tether[{extra}]'"
            lines.append(f"  {extra:9} {state}")
        verdict = [f"problem: {each}" for each in self.problems]
        return "\n".join(
            [*lines, "", *(verdict or ["no problems; a calibration gives what it should"])]
        )


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


def _calibration_problem() -> str | None:
    """Calibrate on a log without losses and with equal policies: beta is near alpha·n/(1 − alpha).

    The weights are min(1, beta) and the test weight beta; the grid is at most one step below.
    """
    rows, alpha = 32, 0.1
    try:
        log = tether.Log(np.zeros(rows), np.zeros(rows), np.zeros(rows))
        beta = tether.calibrate(log, alpha=alpha, test_weight="analytic").beta
    except Exception as error:
        return f"a calibration fails: {error!r:.200}"
    known = alpha * rows / (1 - alpha)
    if 0.98 * known <= beta <= known * (1 + 1e-9):
        return None
    return f"a calibration gives beta {beta:.9g}, not {known:.9g}"
