"""Shortlists over several rounds, of a pool without contexts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import tether


@dataclass
class ShortlistRounds:
    """Rounds of shortlists: each calibration row keeps its candidates, so past picks are exact."""

    safe: Any
    size: int
    rows: list[Any] = field(default_factory=list)
    places: list[np.ndarray] = field(default_factory=list)
    picks: list[Any] = field(default_factory=list)

    def begin(self, actions: np.ndarray, rng: np.random.Generator) -> None:
        """The safe policy's calibration rows: fresh candidates are drawn beside each action."""
        drawn, place = tether.Shortlist(self.safe, size=self.size).join(None, actions, rng)
        self.rows, self.places = [drawn], [place]
        self.picks = [tether.Pool.uniform(self.size)]

    def calibrate(self, optimized: Any, alpha: float, costly: np.ndarray) -> Any:
        """The tethered shortlist, from the rows of all rounds."""
        shortlist = tether.Shortlist(self.safe, optimized, size=self.size)
        counts = [len(place) for place in self.places]
        candidates = np.concatenate([each.candidates for each in self.rows])
        rows, place = (
            tether.policies.ShortlistRows(sum(counts), candidates),
            np.concatenate(self.places),
        )
        log = tether.make_log(
            shortlist.uniform,
            shortlist.required_picker,
            rows,
            place,
            costly[rows.picked(place)],
            logged_by=tether.Mixture(self.picks, counts),
        )
        found = tether.calibrate(log, alpha=alpha)
        return shortlist.tethered(replace(found, probes=None))  # of a log that was made above

    def keep(self, policy: Any, rows: Any, place: np.ndarray) -> None:
        """Keep the calibration rows of a round."""
        self.rows.append(rows)
        self.places.append(place)
        self.picks.append(policy.pick)
