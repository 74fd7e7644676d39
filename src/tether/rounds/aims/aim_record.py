"""What is kept of a round's aim: what was chosen and why, and what it is predicted to lose."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from tether._core import records
from tether.aiming.candidate_simulation import ExpectedReward
from tether.control.calibration_entries import each_of, integer, real, text


@dataclass(frozen=True)
class AimRecord:
    """How a round aimed. Nothing of it carries a promise.

    Parameters
    ----------
    candidate : str
        The name of the candidate that was calibrated; "plain" is the optimized policy as it was
        passed to `begin`.
    why : str
        Why it was chosen, in words.
    rows : int
        How many training rows the loss models and the choice rest on.
    chosen_by : str, optional
        What the choice compared: "reward", as it was observed, or "log ratio", the reward that the
        optimized policy implies, where none was observed. Empty if nothing was compared.
    models : mapping of str to str, optional
        The kind of each loss model: "constant", "linear", "trees", or "given".
    multipliers : mapping of str to float, optional
        How hard each predicted loss tilts the policy; empty for the plain candidate.
    estimates : mapping of str to ExpectedReward, optional
        What each candidate was expected to earn after calibration; empty if nothing was compared.
    before : mapping of str to float, optional
        The predicted losses of the optimized policy as it was passed to `begin`.
    aimed : mapping of str to float, optional
        Those of the chosen candidate.
    predicted : mapping of str to float, optional
        Those of the policy that serves the round: the tethered policy, or the safe one; in a ramp,
        those of the round's own policy.
    plain_log_beta : float, optional
        The log of the beta that the plain optimized policy would have been allowed on the same
        calibration rows, −inf if none; None if it was not computed, as in a ramp.
    seen : mapping of str to int, optional
        The last action of each lane of the store whose context predictions may be averages over.
    digest : str, optional
        The digest under which the aimed policy and its loss models are stored.
    problem : str, optional
        Why they are not stored.
    """

    candidate: str
    why: str
    rows: int
    chosen_by: str = ""
    models: Mapping[str, str] = field(default_factory=dict)
    multipliers: Mapping[str, float] = field(default_factory=dict)
    estimates: Mapping[str, ExpectedReward] = field(default_factory=dict)
    before: Mapping[str, float] = field(default_factory=dict)
    aimed: Mapping[str, float] = field(default_factory=dict)
    predicted: Mapping[str, float] = field(default_factory=dict)
    plain_log_beta: float | None = None
    seen: Mapping[str, int] = field(default_factory=dict)
    digest: str | None = None
    problem: str = ""

    @property
    def plain_beta(self) -> float | None:
        """The beta that the plain optimized policy would have been allowed; 0 if none."""
        if self.plain_log_beta is None:
            return None
        with np.errstate(over="ignore"):
            return float(np.exp(self.plain_log_beta))

    def to_json(self) -> str:
        """Convert to the text that the store keeps.

        Returns
        -------
        str
            JSON text.
        """
        return json.dumps(records.encode(asdict(self)))

    @classmethod
    def from_json(cls, stored: str | None) -> AimRecord | None:
        """Undo `to_json`.

        Parameters
        ----------
        stored : str or None
            What it returned; None in a round that did not aim.

        Returns
        -------
        AimRecord or None
            The record.

        Raises
        ------
        KeyError, TypeError, ValueError
            If it is none.
        """
        if stored is None:
            return None
        content: dict[str, Any] = records.decode(json.loads(stored))
        estimates = {name: ExpectedReward(**each) for name, each in content["estimates"].items()}
        record = cls(**content | {"estimates": estimates})
        record._check()
        return record

    def _check(self) -> None:
        """Raise unless every entry by itself is one that a record can have."""
        for name in ("candidate", "why", "chosen_by", "problem"):
            text(name, getattr(self, name))
        integer("rows", self.rows, 0)
        each_of("models", self.models, self.models, text)
        for name in ("multipliers", "before", "aimed", "predicted"):
            values = getattr(self, name)
            each_of(name, values, values, _finite)
        if self.plain_log_beta is not None:
            real("plain_log_beta", self.plain_log_beta)
        each_of("seen", self.seen, self.seen, lambda name, last: integer(name, last, 0))
        if self.digest is not None:
            text("digest", self.digest)


def _finite(name: str, value: Any) -> None:
    if not np.isfinite(real(name, value)):
        raise ValueError(f"{name} must be finite, got {value!r}")
