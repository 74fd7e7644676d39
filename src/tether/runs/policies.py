"""The policies of a run: what they choose from, how they are kept, and how they are recognized.

On shortlists the candidates are stored with the context, and the position of the picked one as the
action, so every policy is a finite table. A round along a path is given a pair of policies.

Every round keeps its policy, since its rows are weighted by it later: in memory while the process
lives, in the store where it can be saved, and otherwise the user passes it by its name. One that is
passed again must have the stored fingerprint, and score a few stored actions as it did.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import RLock
from typing import Any

import numpy as np
import sqlalchemy as sql
from numpy.typing import NDArray

from tether._core import policy_calls
from tether._core.arrays import Booleans, Floats, shown
from tether._core.contexts import length
from tether._core.records import decode
from tether.control.calibration import Calibration
from tether.control.families import Family, PathFamily
from tether.policies.normalizer import Normalizer
from tether.policies.policy import Sampler, as_policy, as_sampler
from tether.policies.probes import fingerprint, told_elsewhere
from tether.policies.shortlist import Picker, Shortlist, TetheredShortlist
from tether.policies.tethered import Tethered
from tether.runs.body import unpack
from tether.runs.errors import ChangedPolicyError, TamperedError
from tether.runs.event_log import Event, EventLog, blob_digest, blobs, follow, read_events
from tether.runs.log_rows import decode_rows
from tether.runs.state import SAFE, Unit

SCORE_TOLERANCE = 1e-3
"""How far a score may be from the stored one, relative and absolute: models round."""
PROBES = 4
"""How many stored actions the optimized policy scores again in every `act`."""
MAX_STORED_POLICY_BYTES = 1 << 28
"""Larger policies are not stored: pass them after a restart."""

PolicyLookup = Mapping[str, Any] | Callable[[str], Any] | None


class PathOptimized:
    """The optimized policy of a round along a path: that of its pair, with the pair.

    A pair has `safe`, `optimized`, `family`, `log_betas`, `path_scores`, `make_proposals` and
    `tethered`, as `tether.llm.TokenTether` has them.
    """

    def __init__(self, pair: Any) -> None:
        self.pair = pair
        self.sample, self.log_prob = pair.optimized.sample, pair.optimized.log_prob


class Coin:
    """Draws each action from one of two policies, by a coin that knows nothing of the contexts."""

    def __init__(self, reference: Sampler, optimized: Sampler, share: float) -> None:
        self.reference, self.optimized, self.share = reference, optimized, share

    def sample(self, contexts: Any, rng: np.random.Generator) -> NDArray[Any]:
        """Draw one action per context."""
        return self.draw(contexts, rng)[0]

    def draw(self, contexts: Any, rng: np.random.Generator) -> tuple[NDArray[Any], Booleans]:
        """Draw one action per context, and say which of them `optimized` took."""
        is_new = rng.random(length(contexts)) < self.share
        both = {"reference": self.reference, "optimized": self.optimized}
        return policy_calls.draw_chosen(both, is_new, contexts, rng), is_new


@dataclass
class Probe:
    """A few stored contexts and actions, with the optimized policy's scores of them."""

    contexts: Any
    actions: NDArray[Any]
    scores: Floats
    checked_at: float = -math.inf

    def check(self, name: str, policy: Any) -> None:
        """Refuse a policy that scores them differently."""
        now = policy_calls.score("optimized", policy, self.contexts, self.actions)
        compare_scores(name, now, self.scores)
        self.checked_at = time.monotonic()

    def is_due(self, policy: Any) -> bool:
        """Whether the last check is longer ago than the `check_every` of a policy or score."""
        every = getattr(getattr(policy, "optimized", policy), "check_every", 0.0)
        return time.monotonic() - self.checked_at >= every


@dataclass(frozen=True)
class Deployed:
    """What a round serves, and what it is made of."""

    optimized: Any
    policy: Any
    probe: Probe | None = None


class Policies:
    """The safe policy of a run as its rows are stored, and the policies of its rounds.

    `log`, from which they are restored, is given once it is open. `safe_fingerprint` is that of the
    safe policy, which draws the candidates on shortlists; empty if unknown.
    """

    log: EventLog

    def __init__(self, safe: Any, family: Family | None, lookup: PolicyLookup) -> None:
        self._path = family if isinstance(family, PathFamily) else None
        self._ramps = family is None
        self._lookup = lookup if callable(lookup) else (lookup or {}).get
        self.shortlist = safe if isinstance(safe, Shortlist) else None
        if self.shortlist is not None and (self._ramps or self._path):
            raise TypeError(
                f"safe must be a policy, not a shortlist, for this family, got {safe!r}"
            )
        given = safe if self.shortlist is None else self.shortlist.uniform
        self.safe: Any = (as_sampler if self._ramps else as_policy)("safe", given)
        self._drawing = self.safe if self.shortlist is None else self.shortlist.safe
        self.safe_fingerprint = fingerprint(self._drawing) or ""
        self._deployed: dict[int | str, Deployed] = {}  # by round, a ramp by its policy's name
        self._lock = RLock()

    def optimized(self, name: str, given: Any) -> Any:
        """What a user passes as the optimized policy, over what is stored."""
        if self._path is not None:
            if not hasattr(given, "path_scores"):
                raise TypeError(
                    f"{name} must be a tether.llm.TokenTether(safe, optimized) in a run of family "
                    f"{self._path.name!r}, got {shown(given)}"
                )
            if given.family != self._path.name or given.safe is not self.safe:
                raise ValueError(
                    f"{name} must be a pair of family {self._path.name!r} with the run's own safe "
                    f"policy, got {shown(given)}"
                )
            return PathOptimized(given)
        if self.shortlist is not None:
            return given if isinstance(given, Picker) else self.shortlist.picker_of(given)
        return as_sampler(name, given) if self._ramps else as_policy(name, given)

    def served(self, deployed: Deployed | None) -> Any:
        """The policy that acts, as a user calls it."""
        if deployed is None:
            return self._drawing
        if self.shortlist is None:
            return deployed.policy
        return TetheredShortlist(self.shortlist, deployed.policy)

    def tethered(self, optimized: Any, reference: int, calibration: Calibration) -> Any:
        """The calibrated policy between the reference and the optimized one."""
        with told_elsewhere():
            if isinstance(optimized, PathOptimized):
                return optimized.pair.tethered(calibration)
            return Tethered(self.policy(reference), optimized, calibration)

    # ---- what was begun before ----------------------------------------------------------------

    def policy(self, number: int) -> Any:
        """The policy that a round deployed; the safe policy for 0."""
        if number == SAFE:
            return self.safe
        return self.of(self.log.submit(lambda t: t.state.units[number - 1])).policy

    def of(self, unit: Unit) -> Deployed:
        """What a round deploys, restored from the store if this process has not begun it."""
        key = self._key_of(unit)
        with self._lock:
            if key not in self._deployed:
                self._deployed[key] = self._restore(unit)
            return self._deployed[key]

    def keep(self, unit: Unit, deployed: Deployed) -> None:
        """Keep what a round deploys that this process has begun."""
        self._deployed[self._key_of(unit)] = deployed

    def _key_of(self, unit: Unit) -> int | str:
        return str(unit.policy) if self._ramps else unit.number

    def _restore(self, unit: Unit) -> Deployed:
        """The user's policy by its name, or else the stored one; it must be the same as it was."""
        seq = self.log.submit(lambda t: t.state.policies[str(unit.policy)]["event"])
        held, columns = unpack(_read_event(self.log, seq).body)
        optimized = self._look_up(unit, held)
        own = fingerprint(optimized)
        if own and held["fingerprint"] and own != held["fingerprint"]:
            raise ChangedPolicyError(
                f"policies[{unit.policy!r}] is not the policy of round {unit.number}: its "
                f"fingerprint is {own}, and {held['fingerprint']} is stored"
            )
        if self._ramps:
            return Deployed(optimized, optimized)
        rows = decode_rows(columns, held["formats"], len(columns["score"]))
        probe = Probe(*rows, columns["score"])
        probe.check(f"policy {unit.policy!r} of round {unit.number}", optimized)
        calibration = read_calibration(self.log, unit)
        assert calibration is not None
        policy = self.tethered(optimized, unit.reference, calibration)
        if (log_psi := unit.decision["log_psi"]) is not None:
            policy.remembered = Normalizer(np.array(log_psi[:1]), np.array(log_psi[1:]))
        return Deployed(optimized, policy, probe)

    def _look_up(self, unit: Unit, held: Mapping[str, Any]) -> Any:
        name = str(unit.policy)
        policy = self._lookup(name)
        if policy is None and held["blob"] is not None:
            from tether.saving import policy_from_bytes

            policy = policy_from_bytes(_read_blob(self.log, held["blob"]))
        if policy is None:
            raise ValueError(
                f"the policy {name!r} of round {unit.number} is not available: pass policies="
                f"{{{name!r}: …}} to tether.Controller (a gateway: gateway.scorers), or "
                f"retire the round. It could not be stored: {held['problem']}"
            )
        return self.optimized(f"policies[{name!r}]", policy)


def read_calibration(log: EventLog, unit: Unit) -> Calibration | None:
    """The calibration that a round began with; None where there was nothing to calibrate."""
    header, _ = unpack(_read_event(log, unit.event).body)
    found: Calibration | None = decode(Calibration | None, header.get("calibration"), "calibration")
    return found


def _read_event(log: EventLog, seq: int) -> Event:
    """One event, which was folded before; it must not have been changed since."""
    found = log.read(lambda connection: list(read_events(connection, seq - 2, seq)))
    if len(found) < 2:
        raise TamperedError(f"event {seq} of the run is gone")
    return next(follow(found[1:], seq - 1, found[0].head))


def _read_blob(log: EventLog, digest: str) -> bytes:
    query = sql.select(blobs.c.content).where(blobs.c.digest == digest)
    content = log.read(lambda connection: connection.execute(query).scalar())
    if content is None or blob_digest(bytes(content)) != digest:
        raise TamperedError(f"the stored policy {digest} was changed or removed")
    return bytes(content)


def saved(policy: Any) -> tuple[bytes | None, str]:
    """A policy as bytes, or the reason why it cannot be saved."""
    from tether.saving import CannotSaveError, policy_to_bytes

    try:
        content = policy_to_bytes(policy)
    except (CannotSaveError, ImportError) as error:
        return None, str(error)
    if len(content) > MAX_STORED_POLICY_BYTES:
        return None, f"it has {len(content):,} bytes, more than {MAX_STORED_POLICY_BYTES:,}"
    return content, ""


def compare_scores(name: str, scores: Floats, expected: Floats) -> None:
    """Refuse scores that differ from the stored ones."""
    differs = ~np.isclose(scores, expected, rtol=SCORE_TOLERANCE, atol=SCORE_TOLERANCE)
    if differs.any():
        row = int(np.argmax(differs))
        raise ChangedPolicyError(
            f"the {name} has changed: it scores a stored action {scores[row]:.6g}, but "
            f"{expected[row]:.6g} was stored ({int(differs.sum())} of {len(differs)} scores "
            f"differ). If it was trained further in place, pass a copy of it to `begin`"
        )
