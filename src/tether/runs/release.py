"""A release: a ramp from an old system to a new one, with everything in a store."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from tether._core import signing, validate
from tether._core.arrays import Integers, plain_array
from tether.runs.actions import named_losses
from tether.runs.body import Columns, pack
from tether.runs.decide_share import decide_share, is_over
from tether.runs.errors import FinalLossError, TamperedError
from tether.runs.event_log import Transaction
from tether.runs.keys import (
    NEW,
    OLD,
    as_bytes,
    assigned,
    is_routed,
    key_name,
    last_rows,
    standing_rows,
)
from tether.runs.outbox import Outbox
from tether.runs.run import Run, append_rows, losses_in
from tether.runs.settings import RELEASE, OldSystem, Settings, rows_or_seconds
from tether.runs.shares import GROWTH_FACTOR, Guardrail
from tether.runs.state import LOSS, State, Unit

Key = str | bytes | int
SYSTEMS = ("old", "new")
MAX_SILENCE = 10_000
"""So many rows without one of the losses raise an alarm, where there is no outcome deadline."""


class Release(Run):
    """Ramps a new system up in steps, so that each expected loss stays within its guardrail.

    A row is a key in a step. Promised: the expected loss of what is served in the next step is at
    most what its guardrail tolerates, on average over what may happen in a step;
    `tether.runs.shares` says under which conditions, and proves it. A new system whose own rows are
    shown to exceed a guardrail is stopped in the transaction that sees the loss; rows of keys that
    return to it are judged when the step ends. Then the old system answers until `resume`.

    Parameters
    ----------
    store : str or pathlib.Path
        Where the release is kept: a path (SQLite) or the URL of an SQLite or PostgreSQL database.
        A new release is created if there is none; one with the same settings continues.
    guardrails : mapping, optional
        What is tolerated of each loss, by name: the expected loss, between 0 and 1; a `Guardrail`;
        or `tether.relative`. May be left out if the release exists.
    old : mapping, optional
        What is known of the old system beforehand, for every absolute guardrail: its losses, one
        for each key, or one number, a bound on its expected loss. If that is too small, so much
        more than tolerated may be served. Without it the first step has a share of 0 and its rows
        are used; relative guardrails need none of it.
    step : int or datetime.timedelta, optional
        A step ends after so many rows, or so much time; by default by `advance`.
    confidence : float, optional
        Keep to the absolute guardrails with this probability in all steps together, instead of on
        average.
    stop : float or None, default 0.05
        The probability that a new system within its guardrails is ever stopped by mistake; None
        turns the stop off.
    growth : float, default 3.0
        A share is at most so many times the last one plus 2 %.
    sticky : bool, default True
        Whether a key stays with its system while the share grows. With False every step draws anew.
    outcome_deadline : datetime.timedelta, optional
        After so much time an outcome that has not arrived counts as the worst loss for the stop
        too; until then a step that is over waits for its outcomes.
    fallback : {"old"}, or a path, optional
        What happens when the store does not answer within the deadline: with "old" the old system
        answers, and what happens meanwhile is kept in memory until the store is back. With a path
        it is kept in that file, which outlives the process. By default an error.
    deadline, key : optional
        As for `Run.open`. The key signs everything; every process that writes needs it.

    Examples
    --------
    >>> release = Release("sqlite://", {"complaint": 0.02}, old={"complaint": 0.01})
    >>> round(release.share, 4)
    0.0101
    >>> system = release.assign("ann")
    >>> release.observe("ann", {"complaint": 0.0})
    1
    >>> release.advance().number
    2
    """

    def __init__(
        self,
        store: str | Path,
        guardrails: Mapping[str, float | Guardrail] | None = None,
        *,
        old: Mapping[str, ArrayLike] | None = None,
        step: int | timedelta | None = None,
        confidence: float | None = None,
        stop: float | None = 0.05,
        growth: float = GROWTH_FACTOR,
        sticky: bool = True,
        outcome_deadline: timedelta | None = None,
        deadline: float = 5.0,
        fallback: str | Path | None = None,
        key: signing.PrivateKey | None = None,
    ) -> None:
        given = None
        if guardrails is not None:
            units, seconds = rows_or_seconds("step", step)
            if not isinstance(outcome_deadline, timedelta | None):
                raise TypeError(
                    f"outcome_deadline must be a datetime.timedelta, got {outcome_deadline!r}"
                )
            limits = _limits(guardrails)
            if confidence is not None:
                validate.number("confidence", confidence, above=0, below=1)
                if any(each.is_relative for each in limits.values()):
                    raise ValueError(
                        "confidence is only available for absolute guardrails, got a relative one"
                    )
            given = Settings(
                RELEASE,
                limits,
                confidence=confidence,
                stop=None if stop is None else validate.number("stop", stop, above=0, below=1),
                growth=validate.number("growth", growth, above=1, below=1e6),
                units_per_step=units,
                step_seconds=seconds,
                outcome_deadline=rows_or_seconds("outcome_deadline", outcome_deadline)[1],
                sticky=bool(sticky),
                salt=secrets.token_bytes(16).hex(),
                old=_old_systems(old, limits),
                max_silence=MAX_SILENCE if outcome_deadline is None else None,
            )
        outbox = Outbox.of(fallback, "old")
        free = ("salt",) if old is not None else ("salt", "old")
        super().__init__(store, given, deadline=deadline, key=key, outbox=outbox, free=free)
        if self.settings.kind != RELEASE:
            self.close()
            raise ValueError(
                f"{self._log.database.name} holds a {self.settings.kind}, not a release"
            )
        if not self._log.is_read_only:
            self.submit(self.begin_if_due, 60.0)

    # ---- calls --------------------------------------------------------------------------------

    @overload
    def assign(self, keys: Key) -> str: ...  # type: ignore[overload-overlap]

    @overload
    def assign(self, keys: Iterable[Key]) -> list[str]: ...

    def assign(self, keys: Key | Iterable[Key]) -> str | list[str]:
        """Say which system answers each key, "old" or "new", and store it before it is returned.

        Keys are users, sessions or requests: one str, bytes or int, or an iterable of these.
        """
        single, listed = _listed(keys)
        names = list(dict.fromkeys(listed))
        try:
            found = self._call("assign", {}, {"key": np.array(names, dtype=object)})
        except TamperedError:  # a store that is not as it was written is not obeyed
            found = None
        if found is None:
            found = dict.fromkeys(names, OLD)
        answers = [SYSTEMS[found[key]] for key in listed]
        return answers[0] if single else answers

    def routes(self, keys: Key | Iterable[Key], probabilities: ArrayLike) -> bool | list[bool]:
        """Decide within a routed pair of systems whether the new one answers each key.

        Parameters
        ----------
        keys : str, bytes or int, or an iterable of these
            Keys that `assign` gave to "new".
        probabilities : array-like
            P(new | what is known of the key), from 0 to 1.
        """
        single, listed = _listed(keys)
        found = is_routed(listed, probabilities, bytes.fromhex(self.settings.salt)).tolist()
        return bool(found[0]) if single else found

    def observe(
        self,
        keys: Key | Iterable[Key],
        losses: Mapping[str, ArrayLike],
        *,
        system: str | Iterable[str] | None = None,
        step: int | None = None,
        keep_first: bool = False,
    ) -> int:
        """Store the losses of keys, once they are known: all that are given, or none.

        A loss that is known already may be repeated, and changes nothing; another value of it is
        refused (a `FinalLossError`).

        Parameters
        ----------
        keys : str, bytes or int, or an iterable of these
            Keys that were assigned before.
        losses : mapping of str to array-like
            By guardrail, one for each key, from 0 to the bound; NaN where one is not known yet.
        system : str or iterable of str, optional
            The system that answered; by default the one that answered the key last.
        step : int, optional
            The number of the step in which the keys were assigned; by default the last for each.
        keep_first : bool, default False
            Whether another value of a known loss is passed over instead of refused.

        Returns
        -------
        int
            How many losses were new, or are kept for the store.
        """
        _, listed = _listed(keys)
        if not listed:
            return 0
        arms = _arms(system, len(listed))
        step = None if step is None else validate.integer("step", step, 1)
        columns = named_losses(losses, self.settings.limits, len(listed), of="keys")
        header = {"step": step, "keep_first": keep_first}
        held = {"arm": arms, "key": np.array(listed, dtype=object), **columns}
        found: int | None = self._call("observe", header, held)
        if found is None:
            return int(sum((~np.isnan(values)).sum() for values in columns.values()))
        return found

    def advance(self) -> Unit:
        """Begin the next step, where steps do not end by themselves.

        The moment must not depend on losses.
        """
        return self.submit(self.next_step)

    @property
    def share(self) -> float:
        """The new system's share of the keys at this moment; 0 while an alarm stands."""
        tampered = self._log.tampered is not None
        return 0.0 if tampered else self.submit(lambda t: self._present(t).share)

    @property
    def step(self) -> Unit:
        """The present step."""
        return self.submit(lambda t: self._present(t).units[-1])

    # ---- jobs ---------------------------------------------------------------------------------

    def next_step(self, t: Transaction) -> Unit:
        """Begin the next step inside a transaction; an error if steps end by themselves."""
        if t.state.given.units_per_step is not None or t.state.given.step_seconds is not None:
            raise ValueError(
                "advance is for steps by hand: those of this release end by themselves"
            )
        t.append("round", pack(decide_share(t.state, t.now)))
        return t.state.units[-1]

    def begin_if_due(self, t: Transaction) -> None:
        """Begin the next step inside a transaction, if the present one is over.

        A process without the key of a signed release only looks at it.
        """
        if not t.log.is_read_only and (not t.state.units or is_over(t.state, t.now)):
            t.append("round", pack(decide_share(t.state, t.now)))

    def _present(self, t: Transaction) -> State:
        self.begin_if_due(t)
        return t.state

    def assign_in(
        self, t: Transaction, keys: list[bytes], outage: bool = False
    ) -> tuple[dict[bytes, int], set[bytes]]:
        """The system of each key, and the keys whose row is new; a call is answered in one step."""
        state, index = self._present(t), t.find([key_name(key) for key in keys])
        columns = assigned(state, keys, index, outage=outage)
        columns["key"] = np.array(keys, dtype=object)
        is_fresh = columns["before"] < state.units[-1].before
        t.repeat(columns["before"][~is_fresh])
        fresh = {name: each[is_fresh] for name, each in columns.items()}
        append_rows(t, {"outage": outage}, fresh, index)
        arms = dict(zip(keys, columns["arm"].tolist(), strict=True))
        return arms, set(fresh["key"].tolist())

    def observe_in(
        self,
        t: Transaction,
        keys: list[bytes],
        arms: Integers,
        losses: Columns,
        step: int | None = None,
        keep_first: bool = False,
        skip_unknown: bool = False,
    ) -> tuple[int, int]:
        """Store losses inside a transaction: how many are new, and how many keys have no row."""
        given = _rows_of(t, keys, arms, step, skip_unknown)
        found = np.flatnonzero(given >= 0)
        rows, back = np.unique(given[found], return_inverse=True)
        whole = {name: np.full(len(rows), np.nan) for name in losses}
        for name, values in losses.items():
            known = np.flatnonzero(~np.isnan(values[found]))[::-1]  # the first one of a key stays
            place, held = back[known], values[found][known]
            whole[name][place] = held
            if not keep_first and (held != whole[name][place]).any():
                name = name.removeprefix(LOSS)
                raise FinalLossError(f"losses[{name!r}] has two values for one key")
        return self._store_losses(t, rows, whole, keep_first), len(keys) - len(found)

    def _carry_out(
        self, t: Transaction, kind: str, header: dict[str, Any], columns: Columns
    ) -> Any:
        keys = columns["key"].tolist()
        if kind == "assign":
            return self.assign_in(t, keys, "outage" in header)[0]
        how = header["step"], header["keep_first"]
        return self.observe_in(t, keys, columns["arm"], losses_in(columns), *how)[0]


def _rows_of(
    t: Transaction, keys: list[bytes], arms: Integers, step: int | None, skip_unknown: bool
) -> Integers:
    """The row of each key: the last of the system that answered, or that of a step."""
    state = t.state
    last = last_rows(t.find([key_name(key) for key in keys]), keys)
    by_system = np.stack([standing_rows(state, last[:, arm]) for arm in (OLD, NEW)], axis=1)
    rows: Integers = by_system.max(axis=1)
    given = arms >= 0
    rows[given] = by_system[given, arms[given]]
    if step is not None:
        if step > len(state.units):
            raise ValueError(
                f"step must be at most the present one, {len(state.units)}, got {step}"
            )
        while len(later := np.flatnonzero(rows >= state.end_of(step))):
            rows[later] = standing_rows(state, state.rows["before"][rows[later]])
        rows[rows < state.units[step - 1].before] = -1
    missing = np.flatnonzero(rows < 0)
    if len(missing) and not skip_unknown:
        k = int(missing[0])
        where = "" if arms[k] < 0 else f" to the {SYSTEMS[arms[k]]} system"
        where += "" if step is None else f" in step {step}"
        key = keys[k].decode(errors="replace")
        raise ValueError(f"key {key!r} was not assigned{where}; nothing was stored")
    return rows


# ---- arguments ----------------------------------------------------------------------------------


def _listed(keys: Key | Iterable[Key]) -> tuple[bool, list[bytes]]:
    if isinstance(keys, (str, bytes, int, np.integer)):
        return True, [as_bytes(keys)]
    return False, [as_bytes(key) for key in keys]


def _arms(system: str | Iterable[str] | None, count: int) -> Integers:
    """The system of each key as a number; -1 where it is not said."""
    if system is None:
        return np.full(count, -1)
    given = [system] * count if isinstance(system, str) else list(system)
    validate.same_length("system", given, "keys", count)
    arms = [SYSTEMS.index(validate.choice("system", each, SYSTEMS)) for each in given]
    return np.array(arms, dtype=np.int64)


def _limits(guardrails: Mapping[str, float | Guardrail]) -> dict[str, Guardrail]:
    if not isinstance(guardrails, Mapping) or not guardrails:
        raise TypeError(f"guardrails must be a mapping of losses by name, got {guardrails!r}")
    return {
        str(name): each if isinstance(each, Guardrail) else Guardrail(validate.real(name, each))
        for name, each in guardrails.items()
    }


def _old_systems(
    old: Mapping[str, ArrayLike] | None, limits: Mapping[str, Guardrail]
) -> dict[str, OldSystem]:
    if old is None:
        return {}
    absolute = {name for name, each in limits.items() if not each.is_relative}
    if set(old) != absolute:
        raise ValueError(
            f"old has {sorted(old)}, but the absolute guardrails are {sorted(absolute)}"
        )
    found = {}
    for name, given in old.items():
        word, bound, values = f"old[{name!r}]", limits[name].bound, plain_array(given)
        if values.ndim == 0:
            declared = validate.number(word, values.item(), above=0, below=bound, including=(0,))
            found[name] = OldSystem(declared=declared)
        else:
            (values,) = named_losses({name: values}, limits, len(values), name="old").values()
            total = float(np.nan_to_num(values, nan=bound).sum())
            found[name] = OldSystem(len(values), total)
    return found
