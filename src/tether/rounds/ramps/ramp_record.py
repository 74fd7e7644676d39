"""A round of a run that ramps, as it is stored: a round of the safe policy, or a step of a ramp."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import sqlalchemy as sql

from tether.rounds.errors import as_tampering
from tether.rounds.releases.step import Step
from tether.rounds.store import schema
from tether.rounds.store.queries import read_all

ABOUT_POLICY = ("policy", "fingerprint", "policy_digest", "policy_problem")
"""The columns of a round that its policy fills."""


class RampRecord(NamedTuple):
    """A round.

    `step` is None where the round began without a policy. `reference` is the round whose policy
    answers beside the new one, 0 for the safe policy. `first` is the round with which `begin` began
    to ramp this policy; later steps, also those after an alarm was cleared, have the same.
    """

    number: int
    reference: int
    first: int
    step: Step | None

    @property
    def share(self) -> float:
        """The share of the round's policy."""
        return 0.0 if self.step is None else self.step.share

    def to_row(self) -> dict[str, Any]:
        """What it adds to a row of the table of rounds."""
        if self.step is None:
            return {"reference": self.reference}
        row = self.step.to_row()
        content = json.loads(row["calibration"]) | {"first": self.first}
        return row | {"reference": self.reference, "calibration": json.dumps(content)}

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> RampRecord:
        """From a row of the table of rounds."""
        number = int(row["number"])
        if row["calibration"] is None:
            return cls(number, int(row["reference"]), number, None)
        first = json.loads(row["calibration"])["first"]
        return cls(number, int(row["reference"]), int(first), Step.from_row(row))


def read_ramp_records(connection: sql.Connection) -> list[RampRecord]:
    """All rounds in order."""
    with as_tampering("the table of rounds"):
        return [RampRecord.from_row(row) for row in read_all(connection, schema.rounds)]
