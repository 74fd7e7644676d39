"""What is installed: Python, tether, its packages and extras, and whether a calibration works."""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

import tether
from tether._core.extras import EXTRAS, REQUIRED, Package, is_installed
from tether._version import __version__


@dataclass(frozen=True)
class InstalledPackage:
    """A package that tether can use: its version, or None where it is not installed."""

    package: Package
    version: str | None

    @property
    def is_too_old(self) -> bool:
        """Whether it is installed, but older than what tether needs."""
        return self.version is not None and _numbers(self.version) < _numbers(self.package.oldest)

    @property
    def problem(self) -> str | None:
        """What is wrong with it, if anything."""
        if self.version is None:
            return f"{self.package.name} is not installed"
        if self.is_too_old:
            oldest = self.package.oldest
            return f"{self.package.name} {self.version} is older than {oldest}, which is needed"
        return None


@dataclass(frozen=True)
class Installation:
    """An installation of tether, and which of its extras are `needed`."""

    needed: tuple[str, ...] = ()

    @cached_property
    def required(self) -> tuple[InstalledPackage, ...]:
        """The packages that every installation has."""
        return tuple(_look_up(each) for each in REQUIRED)

    @cached_property
    def extras(self) -> dict[str, tuple[InstalledPackage, ...]]:
        """The packages of each extra."""
        return {name: tuple(map(_look_up, packages)) for name, packages in EXTRAS.items()}

    @cached_property
    def problems(self) -> list[str]:
        """What has to be mended: packages that are too old, needed extras, a wrong calibration."""
        found = [f"{each.problem}: pip install -U tether" for each in self.required if each.problem]
        for name, packages in self.extras.items():
            for each in packages:
                if each.is_too_old or (each.problem and name in self.needed):
                    found.append(f"{each.problem}: pip install -U 'tether[{name}]'")
        wrong = _calibration_problem()
        return list(dict.fromkeys(found)) + ([] if wrong is None else [wrong])

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain values."""
        return {
            "tether": __version__,
            "location": str(Path(tether.__file__).parent),
            "python": platform.python_version(),
            "platform": platform.platform(),
            "packages": {each.package.name: each.version for each in self.required},
            "extras": {
                name: {each.package.name: each.version for each in packages}
                for name, packages in self.extras.items()
            },
            "needed": list(self.needed),
            "problems": self.problems,
        }

    def __str__(self) -> str:
        about = self.to_dict()
        lines = [
            f"tether    {about['tether']} in {about['location']}",
            f"python    {about['python']} on {about['platform']}",
            *(f"{each.package.name:9} {each.version}" for each in self.required),
            "",
            "extras",
        ]
        for name, packages in self.extras.items():
            lines.append(f"  {name:9} {_state(name, packages)}")
        lines += ["", *(f"problem: {each}" for each in self.problems)]
        if not self.problems:
            lines.append("no problems; a calibration gives what it should")
        return "\n".join(lines)


def _state(name: str, packages: tuple[InstalledPackage, ...]) -> str:
    wrong = [each for each in packages if each.problem]
    if not wrong:
        return "ready    " + ", ".join(f"{each.package.name} {each.version}" for each in packages)
    return (
        f"missing  {', '.join(each.package.name for each in wrong)}: pip install 'tether[{name}]'"
    )


def _look_up(package: Package) -> InstalledPackage:
    """The version of a package; one that cannot be found where modules are is not installed."""
    if not is_installed(package.module):
        return InstalledPackage(package, None)
    try:
        return InstalledPackage(package, metadata.version(package.name))
    except metadata.PackageNotFoundError:
        return InstalledPackage(package, "of unknown version")


def _numbers(version: str) -> tuple[int, ...]:
    """The release numbers of a version, without trailing zeros; unknown versions are new."""
    found = re.match(r"\d+(\.\d+)*", version)
    if found is None:
        return (1 << 30,)
    numbers = [int(part) for part in found[0].split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def _calibration_problem() -> str | None:
    """Calibrate on a log whose beta is known, alpha·n / (1 − alpha); what is wrong, if anything.

    Without losses, and with equal policies, the weights are min(1, beta) and the test weight beta.
    """
    rows, alpha = 32, 0.1
    try:
        log = tether.Log(np.zeros(rows), np.zeros(rows), np.zeros(rows))
        beta = tether.calibrate(log, alpha=alpha, test_weight="analytic").beta
    except Exception as error:
        return f"a calibration fails: {error!r:.200}"
    known = alpha * rows / (1 - alpha)
    if abs(beta - known) <= 1e-6:
        return None
    return f"a calibration gives beta {beta:.9g}, not {known:.9g}"
