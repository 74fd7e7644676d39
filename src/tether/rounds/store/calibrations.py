"""Calibrations as text in the store."""

from __future__ import annotations

import json

from tether._core import records
from tether.control.calibration import Calibration


def write_calibration(found: Calibration | None) -> str | None:
    """A calibration as JSON, diagnostics included."""
    return None if found is None else json.dumps(records.encode(found.to_dict()))


def read_calibration(text: str | None) -> Calibration | None:
    """Undo `write_calibration`."""
    return None if text is None else Calibration.from_dict(json.loads(text))
