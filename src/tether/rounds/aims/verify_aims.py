"""Whether the predictions of rounds follow from the loss models and policies that are stored.

Predicted losses are computed again, from the contexts of training rows that the round had seen, and
the candidate, its multipliers and the kinds of loss models are compared with what is stored. Why it
was chosen, and what the plain policy would have been allowed, is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sqlalchemy as sql

from tether.aiming.candidates import PLAIN
from tether.aiming.predicted_loss import predicted_losses
from tether.policies.served_policies import told_elsewhere
from tether.policies.shortlist import Shortlist
from tether.policies.tethered import Tethered
from tether.rounds.aims.aim_record import AimRecord
from tether.rounds.aims.aim_round import kind_of_model
from tether.rounds.aims.stored_aim import load_aim, read_aim, served_form
from tether.rounds.aims.training_log import last_actions, prediction_contexts
from tether.rounds.errors import TamperedError
from tether.rounds.policy_registry import SAFE
from tether.rounds.ramps.ramp_record import RampRecord
from tether.rounds.settings import Settings
from tether.rounds.store import schema
from tether.rounds.store.queries import calibration_from_json, read_all
from tether.rounds.store.rows import Rows
from tether.rounds.stored_policies import load_stored_policy

PREDICTION_TOLERANCE = 1e-6
"""How far a prediction may be from the stored one, relative to the largest possible loss."""


@dataclass
class CheckedAims:
    """How many predictions were computed again, those that are wrong, and why others were not."""

    checked: int = 0
    wrong: list[str] = field(default_factory=list)
    not_checked: list[str] = field(default_factory=list)


def check_aims(connection: sql.Connection, stored: Mapping[str, Any]) -> CheckedAims:
    """Compute the predictions of every round again; `stored` are the settings of the run."""
    found = CheckedAims()
    rounds = {row["number"]: row for row in read_all(connection, schema.rounds)}
    aimed = [number for number, row in rounds.items() if row["aim"] is not None]
    if stored.get("aim") is None:
        found.wrong += [f"round {number}: the run does not aim" for number in aimed]
        return found
    settings = Settings.from_dict(stored)
    policies = _Policies(connection, stored, rounds)
    rows = Rows(len(settings.limits))
    rows.refresh(connection)
    for number, row in rounds.items():
        if row["aim"] is None or (settings.is_ramp and RampRecord.from_row(row).first != number):
            continue
        try:
            record = read_aim(row)
            assert record is not None
            if record.models and record.digest is None:
                found.not_checked.append(f"round {number}: {record.problem}")
                continue
            wrong = _wrong(settings, policies, rows, record, number)
        except TamperedError as error:
            wrong = str(error)
        except (ImportError, ValueError, TypeError) as error:
            found.not_checked.append(f"round {number}: {error}")
            continue
        if wrong:
            found.wrong.append(f"round {number}: {wrong}")
        found.checked += 1
    return found


def _wrong(
    settings: Settings, policies: _Policies, rows: Rows, record: AimRecord, number: int
) -> str | None:
    """What is wrong with the predictions of a round."""
    if not record.models:
        empty = AimRecord(PLAIN, record.why, 0, plain_log_beta=record.plain_log_beta)
        return None if record == empty else "it has predictions without a loss model"
    given = policies.given(number)
    base = given or policies.safe
    stored = load_aim(policies.connection, record, base, None)
    models = stored.loss_models
    if (record.candidate == PLAIN) != (stored.policy is base):
        return f"its candidate is {record.candidate!r}, but another policy is stored"
    if record.multipliers != getattr(stored.policy, "multipliers", {}):
        return f"its multipliers {record.multipliers} are not those of the stored policy"
    if record.models != {name: kind_of_model(model) for name, model in models.items()}:
        return f"its loss models {record.models} are not those that are stored"
    if not settings.is_ramp and record.seen != last_actions(policies.seen(number)):
        return "its predictions are not of the rows that the round had seen"
    contexts = prediction_contexts(rows, record.seen)
    if contexts is None:
        return "its predictions are of no context"
    serving = policies.aimed(number) if settings.is_ramp else policies.serving(number)
    compared = {"predicted": (record.predicted, serving)}
    if given is not None:
        compared["before"] = (record.before, given)
        compared["aimed"] = (record.aimed, policies.aimed(number))
    for name, (told, policy) in compared.items():
        again = predicted_losses(policy, models, contexts)
        for loss, value in again.items():
            tolerated = PREDICTION_TOLERANCE * settings.limits[loss].bound
            if not abs(told.get(loss, np.nan) - value) <= tolerated:
                return (
                    f"the stored loss model predicts {loss} = {value:.6g} ({name}), and the round "
                    f"says {told.get(loss, np.nan):.6g}"
                )
        if set(told) != set(again):
            return f"it has predictions of other losses than the run ({name})"
    return None


class _Policies:
    """The policies of a store, by the rounds that they served."""

    def __init__(
        self,
        connection: sql.Connection,
        stored: Mapping[str, Any],
        rounds: Mapping[int, Mapping[str, Any]],
    ) -> None:
        self.connection, self._rounds = connection, rounds
        safe = self._load(stored.get("safe_policy"))
        self.safe = safe.uniform if isinstance(safe, Shortlist) else safe

    def given(self, number: int) -> Any:
        """The policy that was passed to `begin`; None if it is not stored."""
        return self._load(self._rounds[number]["policy_digest"])

    def seen(self, number: int) -> str:
        """How much of each lane a round had read."""
        return str(self._rounds[number]["seen"])

    def aimed(self, number: int) -> Any:
        """The policy that a round calibrated."""
        row, given = self._rounds[number], self.given(number)
        record = read_aim(row)
        if given is None or record is None or record.digest is None:
            return given
        return served_form(load_aim(self.connection, record, given, None).policy, given)

    def serving(self, number: int) -> Any:
        """The policy that a round deployed; the safe policy for 0."""
        row = self._rounds.get(number)
        if number == SAFE or row is None or row["log_beta"] == -np.inf:
            return self._required(self.safe, "safe policy")
        calibration = calibration_from_json(row["calibration"])
        assert calibration is not None
        aimed = self._required(self.aimed(number), f"policy of round {number}")
        with told_elsewhere():
            return Tethered(self.serving(row["reference"]), aimed, calibration)

    def _load(self, digest: str | None) -> Any:
        return None if digest is None else load_stored_policy(self.connection, digest, None)

    def _required(self, policy: Any, name: str) -> Any:
        if policy is None:
            raise ValueError(f"the {name} is not stored")
        return policy
