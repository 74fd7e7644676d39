"""Over time: runs of rounds and releases, in a store."""

from tether.runs.export import import_run
from tether.runs.history import Estimate, History, UnitRecord
from tether.runs.release import Release
from tether.runs.run import Run
from tether.runs.settings import Settings
from tether.runs.shares import Guardrail, relative
from tether.runs.state import Act, Alarm

__all__ = [
    "Act",
    "Alarm",
    "Estimate",
    "Guardrail",
    "History",
    "Release",
    "Run",
    "Settings",
    "UnitRecord",
    "import_run",
    "relative",
]
