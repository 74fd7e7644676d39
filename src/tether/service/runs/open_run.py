"""Opening a run for a service: the user's functions make the controller and its policies."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tether._core.files import import_path
from tether.rounds.controller import Controller
from tether.rounds.served_run import ServedRun
from tether.service.settings.run_table import RunTable


def open_run(table: RunTable) -> ServedRun:
    """The run of a service, open; its present round acts."""
    make = named_function("run.controller", table.controller, table.folder)
    improve = None
    if table.optimized is not None:
        improve = named_function("run.optimized", table.optimized, table.folder)
    made = make() if table.store is None else make(table.store)
    if not isinstance(made, Controller):
        raise TypeError(f"run.controller must return a tether.Controller, got {made!r:.80}")
    try:
        return ServedRun(made, improve)
    except BaseException:
        made.close()
        raise


def named_function(name: str, path: str, folder: Path) -> Callable[..., Any]:
    """The function at an import path; `folder` is searched too, after everything else."""
    place = str(folder.resolve())
    if place not in sys.path:
        sys.path.append(place)
    try:
        found = import_path(path)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    if not callable(found):
        raise ValueError(f"{name} must name a function, {path!r} is {found!r:.80}")
    return found  # type: ignore[no-any-return]
