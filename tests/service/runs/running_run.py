"""The run of examples/served_run.py behind HTTP."""

from pathlib import Path
from typing import Any

from tests.service.running import PATIENT
from tether.service.settings.run_table import RunTable
from tether.service.settings.service_settings import ServiceSettings

EXAMPLES = Path(__file__).parents[3] / "examples"


def run_settings(store: Any, **options: Any) -> ServiceSettings:
    """Settings of the example on any free port."""
    functions = ("served_run:make_controller", "served_run:make_optimized")
    table = RunTable(*functions, store=str(store), folder=EXAMPLES)
    return ServiceSettings(str(store), run=table, port=0, **{"limits": PATIENT} | options)
