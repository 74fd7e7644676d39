"""The table `run` of the settings: functions that make a controller and its optimized policies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tether._core.files import split_import_path
from tether.service.settings.release_table import read_store
from tether.service.settings.toml_tables import Table

RUN_OPTIONS = ("controller", "optimized", "store", "store_variable", "calls_at_once")
"""The settings of the table `run`."""


@dataclass(frozen=True)
class RunTable:
    """Which run is served.

    Parameters
    ----------
    controller : str
        The import path of a function that returns an open `tether.Controller`.
    optimized : str or None
        The import path of a function of the training rows that returns an optimized policy.
    store : str or None
        The path or URL of the store, which is passed to `controller`; None to pass nothing.
    calls_at_once : int
        How many calls of `act` run at once, each with the contexts of many requests.
    folder : pathlib.Path
        The folder of the file, where modules are looked for too.
    """

    controller: str
    optimized: str | None = None
    store: str | None = None
    calls_at_once: int = 4
    folder: Path = Path()


def read_run(table: Table, folder: Path) -> RunTable:
    """Read the table `run`."""
    controller, optimized = table.text("controller"), table.optional_text("optimized")
    for name, path in (("controller", controller), ("optimized", optimized)):
        try:
            if path is not None:
                split_import_path(path)
        except ValueError as error:
            raise ValueError(f"run.{name}: {error}") from None
    has_store = table.has("store") or table.has("store_variable")
    made = RunTable(
        controller,
        optimized,
        read_store(table, folder) if has_store else None,
        table.integer("calls_at_once", 4, least=1, most=256),
        folder,
    )
    table.finish(RUN_OPTIONS)
    return made
