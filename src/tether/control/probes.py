"""Probes: a few contexts and actions with both log-probabilities, by which policies are recognized.

A beta says nothing of the policies that it was calibrated for. So a log, and the calibration made
of it, keep this record; `tether.policies.probes` makes it and checks it wherever it is served.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tether._core.arrays import Floats, Integers

EXPORT = "export"
"""Under this name a log that a run has exported has its digest, in files and in fingerprints."""


@dataclass(frozen=True, eq=False)
class Probes:
    """What is kept of the policies of a log, in a form that JSON can hold.

    Parameters
    ----------
    fingerprints : dict of str to str
        A digest of each policy; None where a policy contains code and has none.
    actions : Any, optional
        All actions in the order of the tables, or a digest of a long list; None where there are
        infinitely many.
    contexts : Any, optional
        The contexts of the probes, encoded; None where there are no contexts, or no probes.
    probed : Any, optional
        The action of each probe, encoded; None where there are no probes.
    place : ndarray of int
        The row of `contexts` that each probe is in.
    log_safe, log_optimized : ndarray of float, optional
        The log-probability of each probe; None where a policy was not known.
    missing : str, optional
        Why there are no probes; None where there are.
    """

    fingerprints: dict[str, str | None]
    actions: Any = None
    contexts: Any = None
    probed: Any = None
    place: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    log_safe: Floats | None = None
    log_optimized: Floats | None = None
    missing: str | None = None

    def __len__(self) -> int:
        return len(self.place)

    def __repr__(self) -> str:
        return f"Probes({len(self)} probes)"
