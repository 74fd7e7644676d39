"""Over time: runs of rounds and releases, in a store."""

from tether.runs.actions import Actions, TrainingRows
from tether.runs.controller import Controller
from tether.runs.export import import_run
from tether.runs.export_log import open_log
from tether.runs.history import Estimate, History, UnitRecord
from tether.runs.plan import plan_release
from tether.runs.release import Release
from tether.runs.round import Round
from tether.runs.run import Run
from tether.runs.settings import Settings
from tether.runs.shares import Guardrail, relative
from tether.runs.state import Act, Alarm

__all__ = [
    "Act",
    "Actions",
    "Alarm",
    "Controller",
    "Estimate",
    "Guardrail",
    "History",
    "Release",
    "Round",
    "Run",
    "Settings",
    "TrainingRows",
    "UnitRecord",
    "import_run",
    "open_log",
    "plan_release",
    "relative",
]
