"""What a round begins with, and how it is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.exc import IntegrityError

from tether._core.arrays import Floats
from tether.control.calibration import Calibration, why_not_useful
from tether.control.proposals import Proposals
from tether.policies.normalizer import Normalizer
from tether.policies.policy import Policy
from tether.policies.tethered import Tethered
from tether.rounds.errors import RoundTakenError
from tether.rounds.kept import Kept
from tether.rounds.policy_registry import SAFE, DeployedPolicy, PolicyRegistry, fingerprint
from tether.rounds.score_columns import DRAWS, ScoreColumns
from tether.rounds.settings import Settings
from tether.rounds.silence import end_silence
from tether.rounds.store import schema
from tether.rounds.store.checkpoints import write_checkpoints
from tether.rounds.store.database import PATIENCE_FOR_ROWS, Store
from tether.rounds.store.queries import (
    calibration_to_json,
    now,
    read_settings,
    storable_text,
    write_settings,
)
from tether.rounds.store.score_pieces import piece_rows
from tether.rounds.store.writer import Writer
from tether.rounds.stored_policies import SavedPolicy

PROBES_PER_CALL = 4
"""Rows that the optimized policy scores again in every `act`, to show that it is unchanged."""


@dataclass(frozen=True)
class RoundStart:
    """What a round begins with; the safe policy serves alone where `deployed` is None.

    `all_actions` are the columns of the tables, where there are finitely many actions.
    """

    note: str = ""
    calibration: Calibration | None = None
    deployed: DeployedPolicy | None = None
    reference: int = SAFE
    proposals: Proposals | None = None
    all_actions: NDArray[Any] | None = None

    def deploying(
        self,
        settings: Settings,
        registry: PolicyRegistry,
        optimized: Policy,
        normalize: Callable[[Tethered], Normalizer | None],
        probe: tuple[Any, NDArray[Any], Floats],
    ) -> RoundStart:
        """The same with the policy that its calibration allows; the safe one where it allows none.

        `normalize` finds the normalizing constant of the policy, where there are no contexts.
        """
        calibration, note = self.calibration, self.note
        assert calibration is not None
        if not calibration.exists:
            return replace(self, note=_joined(_why_none(settings), note))
        if not calibration.useful:
            note = _joined(why_not_useful(calibration), note)
        policy = registry.tethered(optimized, self.reference, calibration)
        normalizer = None
        if isinstance(policy, Tethered):
            normalizer = normalize(policy)
            if normalizer is not None:
                policy.remember(normalizer)
        deployed = DeployedPolicy(optimized, policy, self.reference, normalizer, probe)
        return replace(self, note=note, deployed=deployed)

    def save(
        self,
        store: Store,
        number: int,
        name: str,
        optimized: Policy | None,
        seen: str,
        scores: ScoreColumns,
        checkpoints: list[dict[str, Any]],
        saved: SavedPolicy,
        losses: Iterable[str],
    ) -> None:
        """Store the round, with the scores and draws from which it can be recomputed.

        `seen` says which rows it was calibrated on. Silence of the `losses` counts from now on.
        """
        deployed = self.deployed
        normalizer = None if deployed is None else deployed.normalizer
        row = {
            "number": number,
            "policy": None if optimized is None else name,
            "fingerprint": None if optimized is None else fingerprint(optimized),
            "policy_digest": saved.digest,
            "policy_problem": storable_text(saved.problem) or None,
            "reference": self.reference,
            "log_beta": -np.inf if deployed is None else deployed.policy.log_beta,
            "log_psi": None if normalizer is None else float(normalizer.log_psi[0]),
            "log_psi_error": None if normalizer is None else float(normalizer.standard_error[0]),
            "seen": seen,
            "calibration": calibration_to_json(self.calibration),
            "note": self.note,
            "begun": now(),
        }
        listed = self.all_actions
        try:
            with store.writing(exclusive=True, patience=PATIENCE_FOR_ROWS) as writer:
                saved.write(writer)
                scores.save(writer, number)
                self._save_proposals(writer, number)
                if listed is not None and "listed_actions" not in read_settings(writer.connection):
                    write_settings(writer, {"listed_actions": listed.tolist()})
                write_checkpoints(writer, checkpoints)
                writer.record(schema.rounds, row)  # last: its signature covers all of these
                kept = Kept(writer.connection)
                end_silence(kept, losses, writer.lanes)
                kept.save()
        except IntegrityError as error:
            raise RoundTakenError(
                f"round {number} was begun by another process while this one calibrated: use "
                f"`run.round`, or begin the next round"
            ) from error

    def _save_proposals(self, writer: Writer, number: int) -> None:
        proposals = self.proposals
        if proposals is None:
            return
        context = proposals.context
        columns = {
            "log_safe": proposals.log_safe,
            "log_optimized": proposals.log_optimized,
            "log_mix": proposals.log_mix,
            "from_safe": proposals.from_safe,
            "context": None if context is None else context.view(np.float64),
        }
        if (path := proposals.policy_path) is not None:
            columns |= {"log_path": path.log_density, "drawn_at": path.drawn_at}
            columns["log_beta"] = path.log_beta
        for name, values in columns.items():
            if values is not None:
                writer.score_pieces(piece_rows(number, DRAWS + name, 0, [number], values[None]))


def alarm_note(alarm: int) -> str:
    """Why the safe policy serves in a round that began while an alarm stood."""
    return f"alarm {alarm} stood when the round began: the safe policy serves"


def _why_none(settings: Settings) -> str:
    """Why the safe policy serves where there is no beta."""
    if settings.confidence is not None:
        return "no beta is certified: the safe policy serves"
    if settings.target == "promise":
        return "the recorded draw leaves the round to the safe policy"
    return "no beta passes: the safe policy serves"


def _joined(reason: str, note: str) -> str:
    return f"{reason}; {note}" if note else reason
