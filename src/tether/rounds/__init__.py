"""Over time: the controller, its store, and the history of a run.

Names are imported on first use, since they need a database library.
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
        TamperedError,
    )
    from tether.rounds.history import Alarm, AuditRecord, Estimate, History, RoundRecord
    from tether.rounds.history_reader import read_history
    from tether.rounds.interventions import halt, resume, retire
    from tether.rounds.limits import Limit
    from tether.rounds.ramps.ramp_round import RampRound
    from tether.rounds.releases.release import Release
    from tether.rounds.releases.release_history import ReleaseHistory, StepRecord, SystemRecord
    from tether.rounds.releases.release_history_reader import read_release
    from tether.rounds.releases.step import Step
    from tether.rounds.reopened_run import reopen
    from tether.rounds.returned_rows import TakenActions, TrainingRows
    from tether.rounds.round import Round
    from tether.rounds.store.backup import backup_run
    from tether.rounds.store.export import export_run
    from tether.rounds.store.import_run import import_run
    from tether.rounds.store_verification import sign_store, verify_export, verify_store

__all__ = [
    "Alarm",
    "AuditRecord",
    "Controller",
    "Estimate",
    "History",
    "Limit",
    "LossesMissingError",
    "RampRound",
    "Release",
    "ReleaseHistory",
    "Round",
    "RoundOverError",
    "RoundRecord",
    "RoundTakenError",
    "Step",
    "StepRecord",
    "StoreError",
    "SystemRecord",
    "TakenActions",
    "TamperedError",
    "TrainingRows",
    "backup_run",
    "export_run",
    "halt",
    "import_run",
    "read_history",
    "read_release",
    "reopen",
    "resume",
    "retire",
    "sign_store",
    "verify_export",
    "verify_store",
]

_NAMES_BY_MODULE = {
    "controller": ("Controller",),
    "errors": (
        "LossesMissingError",
        "RoundOverError",
        "RoundTakenError",
        "StoreError",
        "TamperedError",
    ),
    "history": ("Alarm", "AuditRecord", "Estimate", "History", "RoundRecord"),
    "history_reader": ("read_history",),
    "interventions": ("halt", "resume", "retire"),
    "limits": ("Limit",),
    "ramps.ramp_round": ("RampRound",),
    "releases.release": ("Release",),
    "releases.release_history": ("ReleaseHistory", "StepRecord", "SystemRecord"),
    "releases.release_history_reader": ("read_release",),
    "releases.step": ("Step",),
    "reopened_run": ("reopen",),
    "returned_rows": ("TakenActions", "TrainingRows"),
    "round": ("Round",),
    "store.backup": ("backup_run",),
    "store.export": ("export_run",),
    "store.import_run": ("import_run",),
    "store_verification": ("sign_store", "verify_export", "verify_store"),
}


def __getattr__(name: str) -> Any:
    for module, names in _NAMES_BY_MODULE.items():
        if name in names:
            try:
                return getattr(import_module(f"tether.rounds.{module}"), name)
            except ImportError as error:
                raise ImportError(
                    f"tether.rounds.{name} needs pip install 'tether[rounds]' ({error})"
                ) from error
    raise AttributeError(f"module 'tether.rounds' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
