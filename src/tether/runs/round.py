"""One round: acting under what was decided, and storing it before it is returned."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tether._core import policy_calls, validate
from tether._core.arrays import Contexts, Floats, Integers
from tether._core.contexts import as_contexts, labels, length, take
from tether.control.calibration import Calibration
from tether.policies.served import draw_asking_every_policy, is_draw_limit
from tether.policies.shortlist import Picker
from tether.policies.tethered import Tethered
from tether.runs.actions import CALL_BITS, WAITED, Actions
from tether.runs.body import Columns, pack
from tether.runs.decide_beta import needs_normalizer
from tether.runs.decide_ramp import decide_ramp, is_ramp_over
from tether.runs.errors import ChangedPolicyError, RoundOverError, StoreError, TamperedError
from tether.runs.event_log import Transaction
from tether.runs.keys import action_name
from tether.runs.log_rows import encode_rows, same_formats
from tether.runs.policies import Coin, Deployed, read_calibration
from tether.runs.run import append_rows
from tether.runs.state import SAFE, State, Unit

if TYPE_CHECKING:
    from tether.runs.controller import Controller

MAX_NAME_LENGTH = 200
"""How long an idempotency key or the name of a policy may be."""


@dataclass(frozen=True)
class Drawn:
    """Actions of one call before they are stored, with columns of who took each and their scores.

    The arm is 1 for the round's policy, 0 for the safe one, and −k for that of round k.
    """

    contexts: Any
    actions: NDArray[Any]
    columns: Columns
    failure: str = ""


class Round:
    """A round that has begun: its policy acts until the next round begins or an alarm is raised.

    Returned by `Controller.begin`, `Controller.advance` and `Controller.round`. In a ramp it stays
    in use while later steps of the same policy begin.

    Attributes
    ----------
    number : int
        The round's number, from 1.
    note : str
        Why the safe policy serves, or what else has to be known; often empty.
    reference : int
        The round whose policy the level is measured against; 0 is the safe policy.
    decision : dict
        What the round was decided on, as plain values.
    """

    def __init__(self, run: Controller, unit: Unit, deployed: Deployed | None) -> None:
        self._run, self._policies = run, run._policies
        self._unit, self._deployed = unit, deployed
        self._is_ramp = run.settings.decides_shares
        self.number, self.reference, self.decision = unit.number, unit.reference, unit.decision
        self.note = str(unit.decision.get("reason", ""))

    def __repr__(self) -> str:
        level = f"share={self.share:.6g}" if self._is_ramp else f"beta={self.beta:.6g}"
        return f"Round({self.number}, {level}{f', note={self.note!r}' if self.note else ''})"

    @property
    def beta(self) -> float:
        """How far the optimized policy may go; 0 if the safe policy serves."""
        if self._is_ramp:
            raise AttributeError("a round of a ramp has a share, not a beta")
        with np.errstate(over="ignore"):
            return float(np.exp(self._unit.level))

    @property
    def share(self) -> float:
        """In a ramp, the probability with which the round's policy answers an action."""
        if not self._is_ramp:
            raise AttributeError("only a round of a ramp has a share; this one has a beta")
        return self._unit.level

    @property
    def calibration(self) -> Calibration | None:
        """The calibration; None if there was nothing to calibrate, and `note` says why."""
        return read_calibration(self._run._log, self._unit)

    @property
    def policy(self) -> Any:
        """The policy that acts while no alarm stands: the tethered policy, or the safe one."""
        if self._is_ramp and self._deployed is not None and self.share > 0:
            return self._coin(self._unit)
        return self._policies.served(None if self._is_ramp else self._deployed)

    def act(
        self,
        contexts: Contexts,
        rng: np.random.Generator,
        *,
        keys: str | Sequence[str] | None = None,
    ) -> Actions:
        """Take one action per context, and store it before it is returned.

        While an alarm stands the safe policy acts. It also acts in a call in which another policy
        is unavailable (a RuntimeError, a lost connection, no memory); those rows count as the safe
        policy's, which is valid as long as failures do not depend on contexts or actions. A policy
        that rejects its input, returns NaN or has changed is an error. Each row is assigned at
        random, once, to training or to calibration.

        Parameters
        ----------
        contexts : array-like, data frame or int
            One row per action to take, or the number of actions where there are no contexts.
        rng : numpy.random.Generator
            The source of randomness.
        keys : str or sequence of str, optional
            A name for each action. One that was stored under its name already is returned again
            instead of a new one: a call whose answer was lost can be repeated.

        Raises
        ------
        RoundOverError
            If a later round has begun.
        ValueError
            If a key was used for another context, or a policy rejects its input, returns invalid
            scores, or has changed since it was calibrated.
        StoreError
            If the actions could not be stored; with fallback="safe", not in the outbox either.
        """
        validate.generator("rng", rng)
        given = as_contexts(contexts)
        names = _checked_keys(keys, length(given))
        log, error = self._run._log, StoreError("it did not answer before")
        try:
            if log.is_available or log.outbox is None:
                return self._act(given, rng, names)
        except StoreError as found:  # a store that is not as it was written is not obeyed
            if log.outbox is None and not isinstance(found, TamperedError):
                raise
            error = found
        return self._act_in_outage(given, rng, names, error)

    def _act(self, given: Any, rng: np.random.Generator, names: list[str] | None) -> Actions:
        run, unit, state = self._run, self._unit, self._run._log.state
        stopped = state.settings is not None and state.is_stopped  # as this process last saw it
        while True:
            known = {} if names is None else self._find_keys(names, given)
            missing = np.array([k for k in range(length(given)) if k not in known], dtype=np.int64)
            if not len(missing):
                return run._read_actions(np.array([*known.values()], np.int64))
            contexts = self._with_candidates(take(given, missing) if known else given, rng)
            drawn = self._draw(unit, contexts, rng, by_safe=stopped)
            new = None if names is None else [names[k] for k in missing.tolist()]
            stored = self._store(unit, drawn, rng, new, stopped)
            if not isinstance(stored, np.ndarray):  # something has changed since
                unit, stopped = stored
            elif not known:
                arm = drawn.columns["arm"].astype(np.int64)
                served = np.where(arm > 0, unit.number, -arm)
                rows = drawn.contexts, drawn.actions, served
                return Actions.of(stored, *rows, failure=drawn.failure)

    def _act_in_outage(
        self, given: Any, rng: np.random.Generator, names: list[str] | None, error: StoreError
    ) -> Actions:
        """Let the safe policy act; its actions wait in the outbox, or have no ids."""
        contexts, log = self._with_candidates(given, rng), self._run._log
        drawn = self._by_safe(contexts, rng, f"the store was unavailable: {error}")
        ids = np.full(len(drawn.actions), -1, np.int64)
        if log.outbox is not None:
            first = WAITED + (secrets.randbits(40) << CALL_BITS)
            columns = self._columns(drawn, rng, names)
            header, encoded = _encoded(log.state, drawn)
            log.outbox.add("rows", pack(header | {"waited": first}, **columns, **encoded))
            log.is_available = False  # until the writer has reached the store again
            ids = first + np.arange(len(drawn.actions), dtype=np.int64)
        return Actions.of(ids, contexts, drawn.actions, SAFE, failure=drawn.failure, stored=False)

    def _record(self, contexts: Any, actions: Any, rng: np.random.Generator) -> Actions:
        """Store what the safe policy did elsewhere."""
        if (shortlist := self._policies.shortlist) is not None:
            contexts, actions = shortlist.join(contexts, actions, rng)
        stored = self._store(self._unit, self._scored_by_safe(contexts, actions), rng)
        assert isinstance(stored, np.ndarray)
        return Actions.of(stored, contexts, actions, SAFE)

    # ---- storing ------------------------------------------------------------------------------

    def _store(
        self,
        unit: Unit,
        drawn: Drawn,
        rng: np.random.Generator,
        keys: list[str] | None = None,
        stopped: bool | None = None,
    ) -> Integers | tuple[Unit, bool]:
        """Store actions; their rows, or the present step and whether it is stopped if that changed.

        `stopped` is what the caller assumed; None if it does not matter.
        """
        columns = self._columns(drawn, rng, keys)

        def job(t: Transaction) -> Integers | tuple[Unit, bool]:
            state, present = t.state, t.state.units[-1]
            if state.given.decides_shares and unit.policy is not None and is_ramp_over(state):
                t.append("round", pack(decide_ramp(state, unit.policy, begins=False)))
                return state.units[-1], state.is_stopped
            if present.number != unit.number:
                if present.policy is not None and present.policy == unit.policy:
                    return present, state.is_stopped
                raise RoundOverError(
                    f"round {unit.number} is over: round {present.number} has begun; act in "
                    f"`run.round`"
                )
            if stored_rows(t, keys or []) or stopped not in (None, state.is_stopped):
                return present, state.is_stopped
            header, encoded = _encoded(state, drawn)
            first = append_rows(t, header, columns | encoded, {})
            return first + np.arange(len(drawn.actions), dtype=np.int64)

        return self._run.submit(job)

    def _columns(self, drawn: Drawn, rng: np.random.Generator, keys: list[str] | None) -> Columns:
        run, columns = self._run, dict(drawn.columns)
        columns["calibration"] = rng.random(len(drawn.actions)) < run.settings.calibration_share
        if keys is not None:
            columns["key"] = np.array(keys, dtype=object)
        if run._context_score is not None:
            plain = getattr(drawn.contexts, "contexts", drawn.contexts)
            answer, name = run._context_score(plain), "context_score's result"
            scores = validate.floats(name, answer, meaning="score", finite=True)
            validate.same_length(name, scores, "contexts", length(plain))
            columns["context_score"] = scores
        return columns

    def _find_keys(self, keys: list[str], contexts: Any) -> dict[int, int]:
        """The rows that were stored under some of the keys, by position."""

        def job(t: Transaction) -> dict[int, int]:
            found = stored_rows(t, keys)
            t.repeat(np.array([*found.values()], np.int64))
            return found

        known = self._run.submit(job)
        if known and not isinstance(contexts, int):
            stored, places = self._run._read_actions(np.array([*known.values()])), [*known]
            wrong = np.flatnonzero(labels(stored.contexts) != labels(contexts)[places])
            if len(wrong):
                raise ValueError(f"key {keys[places[wrong[0]]]!r} was used for another context")
        return known

    # ---- drawing ------------------------------------------------------------------------------

    def _draw(self, unit: Unit, contexts: Any, rng: np.random.Generator, *, by_safe: bool) -> Drawn:
        """Draw and score; the safe policy does both if what is deployed fails in either.

        Every policy is called in every call, so a failure does not depend on what is drawn.
        """
        if by_safe or self._deployed is None or (self._is_ramp and unit.level == 0):
            return self._by_safe(contexts, rng)
        try:
            return self._by_deployed(unit, contexts, rng)
        except RuntimeError as error:  # a policy is unavailable
            if is_draw_limit(error):
                raise
            return self._by_safe(contexts, rng, str(error))
        except ChangedPolicyError as error:  # seen on old rows, whatever is drawn here
            if self._run._log.outbox is None:
                raise
            return self._by_safe(contexts, rng, str(error))

    def _by_safe(self, contexts: Any, rng: np.random.Generator, failure: str = "") -> Drawn:
        actions = policy_calls.draw("safe", self._policies.safe, contexts, rng)
        return self._scored_by_safe(contexts, actions, failure)

    def _scored_by_safe(self, contexts: Any, actions: Any, failure: str = "") -> Drawn:
        columns: Columns = {"arm": np.zeros(len(actions), np.int32)}
        if not self._is_ramp:
            log_safe = policy_calls.score("safe", self._policies.safe, contexts, actions, drew=True)
            columns |= {"log_safe": log_safe, "log_prob": log_safe}
        return Drawn(contexts, actions, columns, failure)

    def _with_candidates(self, contexts: Any, rng: np.random.Generator) -> Any:
        shortlist = self._policies.shortlist
        return contexts if shortlist is None else shortlist.draw(contexts, rng)

    def _coin(self, unit: Unit) -> Coin:
        assert self._deployed is not None
        reference = self._policies.policy(unit.reference)
        return Coin(reference, self._deployed.policy, unit.level)

    def _by_deployed(self, unit: Unit, contexts: Any, rng: np.random.Generator) -> Drawn:
        deployed = self._deployed
        assert deployed is not None
        if self._is_ramp:
            actions, is_new = self._coin(unit).draw(contexts, rng)
            arm = np.where(is_new, 1, -unit.reference).astype(np.int32)
            return Drawn(contexts, actions, {"arm": arm})
        policy, optimized = deployed.policy, deployed.optimized
        if deployed.probe is not None and deployed.probe.is_due(optimized):
            deployed.probe.check(f"policy of round {self.number}", optimized)
        if isinstance(optimized, Picker):  # its score, which may be a large model, is asked once
            actions, log_prob = policy.decide(contexts, rng)
        else:
            actions = draw_asking_every_policy(policy, contexts, rng)
            log_prob = _log_prob(policy, contexts, actions)
        log_safe = policy_calls.score("safe", self._policies.safe, contexts, actions)
        arm = np.ones(len(actions), np.int32)
        columns = {"arm": arm, "log_safe": log_safe, "log_prob": log_prob}
        return Drawn(contexts, actions, columns)


def _log_prob(policy: Any, contexts: Any, actions: Any) -> Floats:
    """The density of the policy that acted; NaN where its normalizer is only estimated."""
    unlisted = isinstance(policy, Tethered) and policy.actions is None
    in_context = not isinstance(contexts, int)
    if unlisted and in_context and needs_normalizer(policy.family, policy.log_beta):
        policy_calls.score("optimized", policy.optimized, contexts, actions)  # they must be valid
        return np.full(len(actions), np.nan)
    return policy_calls.score("tethered", policy, contexts, actions, drew=True)


def stored_rows(t: Transaction, keys: list[str]) -> dict[int, int]:
    """The rows that stand under some of the keys, by position."""
    found = t.find([action_name(key) for key in keys])
    held = ((k, found.get(action_name(key))) for k, key in enumerate(keys))
    rows = {k: int.from_bytes(row, "little") for k, row in held if row is not None}
    return {k: row for k, row in rows.items() if t.state.rows["answers"][row]}


def _encoded(state: State, drawn: Drawn) -> tuple[dict[str, Any], Columns]:
    """The header and the columns of contexts and actions, in the formats of the run."""
    formats = same_formats(state.formats, drawn.contexts, drawn.actions)
    header = {"formats": formats, "failure": drawn.failure[:500]}
    return header, encode_rows(drawn.contexts, drawn.actions, formats)


def _checked_keys(keys: str | Sequence[str] | None, count: int) -> list[str] | None:
    if keys is None:
        return None
    names = [keys] if isinstance(keys, str) else list(keys)
    validate.same_length("keys", names, "contexts", count)
    for each in names:
        if not isinstance(each, str) or not 0 < len(each) <= MAX_NAME_LENGTH or "\0" in each:
            raise ValueError(
                f"keys must be text of 1 to {MAX_NAME_LENGTH} characters without NUL, got {each!r}"
            )
    if len(set(names)) < len(names):
        raise ValueError(f"keys must be unique, got {names!r:.200}")
    return names
