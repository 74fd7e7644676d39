"""Logs of which it is certain that a calibration on them does not hold."""

from __future__ import annotations

REFUTED_WORDS = "a calibration on this log does not hold"
"""Words by which a warning that refutes a log is recognized, also once saved."""
