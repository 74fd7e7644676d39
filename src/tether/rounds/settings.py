"""The terms of a run: what it was made with, and is held to for as long as it lasts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tether._core import validate
from tether.control.test_weight import TEST_WEIGHT_NAMES

MISSING = ("wait", "worst_case", "exclude")
AGAINST = ("safe", "last")


@dataclass(frozen=True)
class Terms:
    """Every setting that the promise rests on; a store is refused by anyone with other ones."""

    safe: str
    alpha: float
    bound: float
    family: str
    family_mark: str | None
    test_weight: str | float
    calibration_share: float
    missing: str
    enough: float
    against: str
    watched: float
    delta: float
    normalizer_draws: int | None
    seed: int
    created: str

    def __post_init__(self) -> None:
        validate.number("bound", self.bound, above=0, below=np.inf)
        validate.number("alpha", self.alpha, above=0, below=self.bound)
        if isinstance(self.test_weight, str):
            validate.choice("test_weight", self.test_weight, TEST_WEIGHT_NAMES)
        else:
            validate.number("test_weight", self.test_weight, above=0, below=np.inf)
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise ValueError(f"seed must be a whole number of at least 0, got {self.seed!r}")
        if not isinstance(self.safe, str) or not self.safe:
            raise ValueError(f"name must be a word for the safe policy, got {self.safe!r}")
        if self.calibration_share != 1 or isinstance(self.calibration_share, bool):
            validate.number("calibration_share", self.calibration_share, above=0, below=1)
        if self.enough != 1:
            validate.number("enough", self.enough, above=0, below=1)
        validate.choice("missing", self.missing, MISSING)
        validate.choice("against", self.against, AGAINST)
        validate.number("watched", self.watched, above=0, below=self.bound)
        if self.watched < self.alpha:
            raise ValueError(
                f"watched is {self.watched:g}, below alpha = {self.alpha:g}: the monitor would "
                f"alarm on a policy that keeps its promise"
            )
        validate.number("delta", self.delta, above=0, below=1)

    def to_dict(self) -> dict[str, Any]:
        """As the store keeps them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Terms:
        """From what the store has, which may hold more."""
        return cls(**{name: stored[name] for name in cls.__dataclass_fields__})

    def check_same(self, stored: Terms, store: str) -> None:
        """Refuse a store that was made with other terms."""
        for name, given in self.to_dict().items():
            kept = getattr(stored, name)
            if name not in ("seed", "created") and kept != given:
                raise ValueError(
                    f"{name} is {given!r} but {store} was made with {kept!r}: a run keeps its "
                    f"terms; begin a new store for new ones"
                )


def watched_by_default(alpha: float, bound: float) -> float:
    """Half more than alpha, but at most halfway to the bound.

    Calibration promises alpha on average over logs, so one policy in several is a little above
    it; a monitor set at alpha itself would call them all out.
    """
    return float(min(1.5 * alpha, (alpha + bound) / 2))
