"""The demonstration is run once for all tests of its parts."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from tether.demo import biopsy
from tether.demo.biopsy_outcomes import Outcome


@dataclass(frozen=True)
class DemoRun:
    outcomes: list[Outcome]
    output: list[str]
    folder: Path


@pytest.fixture(scope="session")
def demo_run(tmp_path_factory) -> DemoRun:
    output, folder = [], tmp_path_factory.mktemp("demo") / "new folder"
    return DemoRun(biopsy.run(folder, splits=6, show=output.append), output, folder)
