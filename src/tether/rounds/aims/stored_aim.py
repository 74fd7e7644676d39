"""Aimed policies in the store: each is kept without the policy that was aimed, which is kept apart.

So a policy that could not be stored, and is passed again after a restart, is aimed as before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sql

from tether.aiming.aimed_policy import AimedPolicy
from tether.aiming.candidates import PLAIN
from tether.aiming.position_score import PositionScore
from tether.policies.picker import Picker
from tether.rounds.aims.aim_record import AimRecord
from tether.rounds.errors import TamperedError, as_tampering
from tether.rounds.stored_policies import PolicyLoader, load_stored_policy

AIMED_NAME = "{}, aimed"
"""The name under which a user passes an aimed policy that could not be stored."""


def read_aim(row: Mapping[str, Any]) -> AimRecord | None:
    """How a round aimed, from its row; None if it did not."""
    with as_tampering(f"the aim of round {row['number']}"):
        return AimRecord.from_json(row["aim"])


def load_aim(
    connection: sql.Connection, record: AimRecord, given: Any, load: PolicyLoader | None
) -> AimedPolicy:
    """What was stored of a round's aim: the chosen candidate with its loss models."""
    assert record.digest is not None
    stored = load_stored_policy(connection, record.digest, load, given)
    if not isinstance(stored, AimedPolicy):
        raise TamperedError(f"the stored policy {record.digest} is not an aimed one")
    return stored


def aimed_policy(
    row: Mapping[str, Any],
    given: Any,
    load: Callable[[AimRecord], AimedPolicy],
    passed: Callable[[str], Any],
) -> Any:
    """The policy that a round calibrated, from the one that it was given.

    `load` reads what is stored of it, and `passed` looks it up among what the user passes.
    """
    record = read_aim(row)
    if record is None or record.candidate == PLAIN:
        return given
    if record.digest is not None:
        return served_form(load(record).policy, given)
    name = AIMED_NAME.format(row["policy"])
    policy = passed(name)
    if policy is None:
        raise ValueError(
            f"the aimed policy of round {row['number']} is not in the store ({record.problem}): "
            f"pass it as policies={{{name!r}: …}}, or retire the round. While a round lasts it is "
            f"`run.round.policy.optimized`"
        )
    return policy


def served_form(chosen: Any, given: Any) -> Any:
    """A chosen candidate as a run serves it: on shortlists, as a picker."""
    if chosen is given or not isinstance(given, Picker):
        return chosen
    return Picker(PositionScore(chosen), given.size)
