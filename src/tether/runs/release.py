"""A release: a ramp from an old system to a new one, with everything in a store."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike

from tether._core import validate
from tether._core.arrays import Floats
from tether.runs.body import pack, unpack
from tether.runs.decide_share import decide_share, is_over
from tether.runs.errors import StoreError
from tether.runs.event_log import Event, Transaction
from tether.runs.keys import hashed_positions, is_new, is_routed
from tether.runs.run import ROWS_PER_EVENT, Run
from tether.runs.settings import RELEASE, OldSystem, Settings, step_length
from tether.runs.shares import GROWTH_FACTOR, Guardrail
from tether.runs.state import NEW, OLD, State, Unit

if TYPE_CHECKING:
    from tether._core.signing import PrivateKey

Key = str | bytes | int
SYSTEMS = ("old", "new")
NO_ROW = (1 << 63) - 1


class Release(Run):
    """Ramps a new system up in steps, so that each expected loss stays within its guardrail.

    A row is a key in a step. Promised: the expected loss of what is served in the next step is at
    most what its guardrail tolerates, on average (`tether.runs.shares` has the proofs). A new
    system whose own rows are shown to exceed it is stopped, in the transaction that sees the loss.
    Assumed: losses lie in [0, bound], and the length of a step is decided when it begins.

    Parameters
    ----------
    store : str or pathlib.Path
        Where the release is kept: a path (SQLite) or the URL of an SQLite or PostgreSQL database. A
        new release is created if there is none; an existing one continues.
    guardrails : mapping, optional
        What is tolerated of each loss, by name: the expected loss, between 0 and 1; a `Guardrail`;
        or `tether.relative`. May be left out if the release exists.
    old : mapping, optional
        What is known of the old system beforehand, for every absolute guardrail: its losses, one
        for each key, or one number, a bound on its expected loss. Without it the first step has a
        share of 0 and its rows are used; relative guardrails need none of it.
    step : int or datetime.timedelta, optional
        A step ends after so many rows, or so much time; by default by `advance`.
    stop : float or None, default 0.05
        The probability that a new system within its guardrails is ever stopped by mistake; None
        turns the stop off.
    growth : float, default 3.0
        A share is at most so many times the last one plus 2 %.
    sticky : bool, default True
        Whether a key stays with its system while the share grows. With False every step draws anew.
    outcome_deadline : datetime.timedelta, optional
        After so much time an outcome that has not arrived counts as the worst loss for the stop
        too, and the rows of a step are used.
    deadline : float, default 5.0
        How many seconds a call may wait for the store.
    fallback : {"old"}, optional
        What answers when the store does not answer within the deadline: with "old" the old system,
        and nothing is stored of it. By default an error.
    key : str, pathlib.Path or Ed25519PrivateKey, optional
        The private key that signs every step, alarm and act, and with them all rows before.

    Raises
    ------
    ValueError
        If an argument is invalid, or the store was created with other settings.
    StoreError
        If the store cannot be opened.

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
        stop: float | None = 0.05,
        growth: float = GROWTH_FACTOR,
        sticky: bool = True,
        outcome_deadline: timedelta | None = None,
        deadline: float = 5.0,
        fallback: str | None = None,
        key: PrivateKey | None = None,
    ) -> None:
        self._fallback = (
            None if fallback is None else validate.choice("fallback", fallback, ("old",))
        )
        given = None
        if guardrails is not None:
            units, seconds = step_length(step)
            limits = _limits(guardrails)
            given = Settings(
                RELEASE,
                datetime.now(UTC).isoformat(timespec="seconds"),
                limits,
                stop=None if stop is None else validate.number("stop", stop, above=0, below=1),
                growth=validate.number("growth", growth, above=1, below=1e6),
                units_per_step=units,
                step_seconds=seconds,
                outcome_deadline=None
                if outcome_deadline is None
                else outcome_deadline.total_seconds(),
                sticky=bool(sticky),
                salt=secrets.token_bytes(16).hex(),
                old=_old_systems(old, limits),
            )
        sign = None
        if key is not None:
            from tether._core.signing import read_private_key
            from tether._core.signing import sign as sign_bytes

            private = read_private_key(key)

            def sign(head: bytes) -> str:
                return sign_bytes(head, private, purpose="tether release")

        free = ("salt",) if old is not None else ("salt", "old")
        super().__init__(store, given, deadline=deadline, sign=sign, free=free)
        self._salt = bytes.fromhex(self.settings.salt)
        self._submit(self._begin_if_due, 60.0)

    # ---- calls --------------------------------------------------------------------------------

    @overload
    def assign(self, keys: Key) -> str: ...  # type: ignore[overload-overlap]

    @overload
    def assign(self, keys: Iterable[Key]) -> list[str]: ...

    def assign(self, keys: Key | Iterable[Key]) -> str | list[str]:
        """Say which system answers each key, and store it before it is returned.

        Parameters
        ----------
        keys : str, bytes or int, or an iterable of these
            The users, sessions or requests.

        Returns
        -------
        str or list of str
            "old" or "new" for each key.
        """
        single = isinstance(keys, (str, bytes, int, np.integer))
        listed = [_as_bytes(key) for key in ([keys] if single else keys)]
        names = list(dict.fromkeys(listed))
        try:
            found = self._submit(lambda t: self._assign(t, names))
        except StoreError:
            if self._fallback is None:
                raise
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

        Returns
        -------
        bool or list of bool
            True where the new system of the pair answers.
        """
        single = isinstance(keys, (str, bytes, int, np.integer))
        found = is_routed([keys] if single else list(keys), probabilities, self._salt)
        return bool(found[0]) if single else found.tolist()

    def observe(
        self,
        keys: Key | Iterable[Key],
        losses: Mapping[str, ArrayLike],
        *,
        system: str | Iterable[str] | None = None,
        keep_first: bool = False,
    ) -> int:
        """Store the losses of keys, once they are known.

        Parameters
        ----------
        keys : str, bytes or int, or an iterable of these
            Keys that were assigned before.
        losses : mapping of str to array-like
            By guardrail, one for each key, from 0 to the bound; NaN where one is not known yet.
        system : str or iterable of str, optional
            The system that answered; needed where both have answered a key, or with a fallback.
        keep_first : bool, default False
            Whether another value for a loss that is known already is passed over instead of
            refused.

        Returns
        -------
        int
            How many losses were new.
        """
        single = isinstance(keys, (str, bytes, int, np.integer))
        listed = [_as_bytes(key) for key in ([keys] if single else keys)]
        given = None
        if system is not None:
            given = [system] * len(listed) if isinstance(system, str) else list(system)
            for each in given:
                validate.choice("system", each, SYSTEMS)
            validate.same_length("system", given, "keys", len(listed))
        limits = self.settings.limits
        columns = {name: _losses(name, losses[name], len(listed), limits) for name in losses}
        if not columns:
            raise ValueError(f"losses must have at least one of {list(limits)}, got none")
        return self._submit(lambda t: self._observe(t, listed, columns, given, keep_first))

    def advance(self) -> Unit:
        """Begin the next step, where steps do not end by themselves.

        The moment must not depend on losses.

        Returns
        -------
        Unit
            The step that has begun.
        """

        def job(t: Transaction) -> Unit:
            settings = t.state.given
            if settings.units_per_step is not None or settings.step_seconds is not None:
                raise ValueError("the steps of this release end by themselves: step was given")
            self._begin(t)
            begun: Unit = t.state.units[-1]
            return begun

        return self._submit(job)

    @property
    def share(self) -> float:
        """The new system's share of the keys at this moment."""

        def job(t: Transaction) -> float:
            self._begin_if_due(t)
            return float(t.state.share)

        return self._submit(job)

    @property
    def step(self) -> Unit:
        """The present step."""

        def job(t: Transaction) -> Unit:
            self._begin_if_due(t)
            present: Unit = t.state.units[-1]
            return present

        return self._submit(job)

    # ---- jobs ---------------------------------------------------------------------------------

    def _begin(self, t: Transaction) -> None:
        header = decide_share(t.state, t.now)
        t.append("round", pack({**header, "decision": header["decision"]}))

    def _begin_if_due(self, t: Transaction) -> None:
        if not t.state.units or is_over(t.state, t.now):
            self._begin(t)

    def _assign(self, t: Transaction, keys: list[bytes]) -> dict[bytes, int]:
        answers: dict[bytes, int] = {}
        waiting = keys
        while waiting:
            self._begin_if_due(t)
            state: State = t.state
            places = positions_in(state, waiting)
            arms = is_new(places, state.share).astype(np.int32)
            names = [_claim(arm, key) for arm, key in zip(arms.tolist(), waiting, strict=True)]
            known = t.find(names)
            begin = state.units[-1].before
            fresh = [k for k, name in enumerate(names) if _latest(known.get(name)) < begin]
            left = len(fresh)
            limit = state.given.units_per_step
            if limit is not None and state.standing is None:
                left = min(left, limit - (state.rows.size - begin))
            now = len(waiting) if left == len(fresh) else fresh[left]
            for start in range(0, left, ROWS_PER_EVENT):
                chosen = fresh[start : min(start + ROWS_PER_EVENT, left)]
                self._append_rows(t, waiting, names, known, places, arms, chosen)
            answers |= dict(zip(waiting[:now], arms[:now].tolist(), strict=True))
            waiting = waiting[now:]
        self._finish(t)
        return answers

    @staticmethod
    def _append_rows(
        t: Transaction,
        keys: list[bytes],
        names: list[bytes],
        known: dict[bytes, bytes],
        places: Any,
        arms: Any,
        chosen: list[int],
    ) -> None:
        first = t.state.rows.size
        claim = {
            names[k]: (first + n).to_bytes(8, "little")
            + _latest(known.get(names[k])).to_bytes(8, "little", signed=True)
            for n, k in enumerate(chosen)
        }
        header = {"unit": len(t.state.units), "first": first}
        texts = np.array([keys[k].decode("utf-8", "surrogateescape") for k in chosen], dtype=object)
        columns = {"key": texts, "arm": arms[chosen], "position": places[chosen]}
        t.append("rows", pack(header, **columns), claim)

    def _observe(
        self,
        t: Transaction,
        keys: list[bytes],
        losses: Mapping[str, Floats],
        system: list[str] | None,
        keep_first: bool,
    ) -> int:
        rows = self._rows_of(t, keys, system, losses)
        stored = self._store_losses(t, rows, losses, keep_first)
        self._finish(t)
        return stored

    @staticmethod
    def _rows_of(
        t: Transaction, keys: list[bytes], system: list[str] | None, losses: Mapping[str, Floats]
    ) -> Any:
        """The row of each outcome: the key's last, or the one before if that still waits."""
        arms = [
            None if system is None else SYSTEMS.index(each) for each in system or [""] * len(keys)
        ]
        if system is None:
            arms = [None] * len(keys)
        names = [_claim(arm, key) for key in keys for arm in (OLD, NEW)]
        known, rows = t.find(names), []
        for key, arm in zip(keys, arms, strict=True):
            claims = [known.get(_claim(each, key)) for each in (OLD, NEW)]
            mine = (
                [claims[arm]] if arm is not None else [each for each in claims if each is not None]
            )
            if not mine or mine[0] is None:
                raise ValueError(
                    f"key {key!r} was never assigned"
                    + ("" if arm is None else f" to the {SYSTEMS[arm]} system")
                )
            if len(mine) > 1 and t.state.share < 1 and arm is None:
                mine = [max(mine, key=_latest)]
            last, before = _latest(mine[0]), int.from_bytes(mine[0][8:], "little", signed=True)
            waits = before >= 0 and all(np.isnan(t.state.loss(name)[before]) for name in losses)
            rows.append(before if waits and not t.state.rows["withdrawn"][before] else last)
        return np.array(rows, dtype=np.int64)


def positions_in(state: State, keys: list[bytes]) -> Any:
    """The positions of keys in the present step."""
    salt = bytes.fromhex(state.given.salt)
    if state.given.sticky:
        return hashed_positions(keys, salt)
    return hashed_positions(keys, salt + b"%d" % len(state.units))


def check(state: State, event: Event) -> Iterator[str]:
    """Whether an event may follow: the rules of the calls themselves, for verification."""
    if event.kind == "round":
        header, _ = unpack(event.body)
        due = not state.units or is_over(state, event.at)
        by_hand = state.given.units_per_step is None and state.given.step_seconds is None
        if not due and not by_hand:
            yield f"event {event.seq}: step {header['number']} began before the last one was over"
        expected, _ = unpack(pack(decide_share(state, event.at)))
        if header["level"] != expected["level"]:
            yield (
                f"event {event.seq}: share {header['number']} is {header['level']:.6g}, but "
                f"the rows give {expected['level']:.6g}"
            )
        elif header != expected:
            yield f"event {event.seq}: step {header['number']} says something else than its rows"
    elif event.kind == "rows":
        _, columns = unpack(event.body)
        keys = [str(key).encode("utf-8", "surrogateescape") for key in columns["key"]]
        places = positions_in(state, keys)
        if (places != columns["position"]).any():
            yield f"event {event.seq}: a position is not the hash of its key"
        elif (is_new(places, state.share) != (columns["arm"] == NEW)).any():
            yield f"event {event.seq}: a key was answered by another system than its hash says"
    elif event.kind == "losses":
        header, columns = unpack(event.body)
        for name in header["losses"]:
            values, bound = columns[f"loss/{name}"], state.given.limits[name].bound
            if ((values < 0) | (values > bound)).any():
                yield f"event {event.seq}: a loss {name!r} is outside [0, {bound:g}]"


def claims_of(event: Event, known: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """The entries of the index that an event makes, given those before it."""
    if event.kind != "rows":
        return {}
    header, columns = unpack(event.body)
    found = {}
    for place, (key, arm) in enumerate(zip(columns["key"], columns["arm"].tolist(), strict=True)):
        name = _claim(arm, str(key).encode("utf-8", "surrogateescape"))
        before = _latest(known.get(name))
        row = header["first"] + place
        found[name] = row.to_bytes(8, "little") + before.to_bytes(8, "little", signed=True)
    return found


def _claim(arm: int, key: bytes) -> bytes:
    return b"k%d" % arm + key


def _latest(claim: bytes | None) -> int:
    return -1 if claim is None else int.from_bytes(claim[:8], "little", signed=True)


def _as_bytes(key: Key) -> bytes:
    if isinstance(key, bytes):
        return key
    if isinstance(key, str):
        return key.encode("utf-8", "surrogateescape")
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
        return str(int(key)).encode()
    raise TypeError(f"a key must be a str, bytes or int, got {key!r}")


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
        bound, values = limits[name].bound, np.asarray(given, dtype=np.float64)
        if values.ndim == 0:
            declared = validate.number(
                f"old[{name!r}]", float(values), above=0, below=bound, including=(0,)
            )
            found[name] = OldSystem(declared=declared)
            continue
        values = _losses(f"old[{name!r}]", values, len(values), {f"old[{name!r}]": limits[name]})
        unknown = np.isnan(values)
        total = float(values[~unknown].sum() + bound * unknown.sum())
        found[name] = OldSystem(len(values), total)
    return found


def _losses(name: str, given: ArrayLike, count: int, limits: Mapping[str, Guardrail]) -> Floats:
    if name not in limits:
        raise ValueError(f"losses has {name!r}, but the guardrails are {list(limits)}")
    values = np.atleast_1d(np.asarray(given, dtype=np.float64))
    if values.shape != (count,):
        raise ValueError(
            f"losses[{name!r}] must have one number for each of the {count} keys, got "
            f"shape {values.shape}"
        )
    outside = (values < 0) | (values > limits[name].bound)
    if outside.any():
        raise ValueError(
            f"losses[{name!r}] must be from 0 to {limits[name].bound:g}, got {values[outside][0]!s}"
        )
    return values
