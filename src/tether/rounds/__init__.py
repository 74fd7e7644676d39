"""Over time: the controller, the store, and what a run has been so far.

Names are imported when they are asked for, since they come with a database library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tether.rounds.controller import Controller
    from tether.rounds.errors import (
        LossesMissingError,
        RoundOverError,
        RoundTakenError,
        StoreError,
    )
    from tether.rounds.history import Alarm, Estimate, History, RoundRecord
    from tether.rounds.history_reader import read_history
    from tether.rounds.round import Round, Taken
    from tether.rounds.store.alarms import resume
    from tether.rounds.store.export import export_run, import_run
    from tether.rounds.training_rows import TrainingRows

__all__ = [
    "Alarm",
    "Controller",
    "Estimate",
    "History",
    "LossesMissingError",
    "Round",
    "RoundOverError",
    "RoundRecord",
    "RoundTakenError",
    "StoreError",
    "Taken",
    "TrainingRows",
    "export_run",
    "import_run",
    "read_history",
    "resume",
]

_FILES = {
    "store.alarms": ("resume",),
    "controller": ("Controller",),
    "errors": ("LossesMissingError", "RoundOverError", "RoundTakenError", "StoreError"),
    "store.export": ("export_run", "import_run"),
    "history": ("Alarm", "Estimate", "History", "RoundRecord"),
    "history_reader": ("read_history",),
    "round": ("Round", "Taken"),
    "training_rows": ("TrainingRows",),
}


def __getattr__(name: str) -> Any:
    for file, names in _FILES.items():
        if name in names:
            try:
                return getattr(import_module(f"tether.rounds.{file}"), name)
            except ImportError as error:
                raise ImportError(
                    f"tether.rounds.{name} needs pip install 'tether[rounds]' ({error})"
                ) from error
    raise AttributeError(f"module 'tether.rounds' has no attribute {name!r}")
