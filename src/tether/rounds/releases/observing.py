"""Losses of keys: each belongs to the row of the key and the system that answered it.

With a fallback the caller names the system. Without, a loss is of the row that came last; but a
write that was given up may have succeeded, and then that row is one of the new system, while the
old one has answered. And a key that the old system answered without a row has nothing to observe.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether._core.validate import choice, reject_masked, same_length
from tether.rounds.checked_observations import MAX_IDS_SHOWN
from tether.rounds.errors import FinalLossError
from tether.rounds.limits import Limits
from tether.rounds.recording import Recorder
from tether.rounds.releases.key_rows import (
    NEW,
    OLD,
    Key,
    KeyRow,
    key_content,
    listed_keys,
    read_key_rows,
)
from tether.rounds.store.database import Store


class ObservedKeys(NamedTuple):
    """What came of losses.

    Parameters
    ----------
    new : int
        How many losses were new.
    without_row : int
        How many keys were skipped, because the old system has no row of them.
    counts : mapping
        How many losses were new, by system and guardrail.
    moved : str, default ""
        Which of the skipped keys have a row of the new system, in words; empty if none has.
    """

    new: int
    without_row: int
    counts: Mapping[tuple[str, str], int]
    moved: str = ""


def observe_keys(
    store: Store,
    recorder: Recorder,
    limits: Limits,
    keys: Key | Iterable[Key],
    losses: ArrayLike | Mapping[str, ArrayLike],
    system: str | Iterable[str] | None,
    *,
    keep_first: bool,
    may_lack_rows: bool,
) -> ObservedKeys:
    """Store losses of keys.

    If the old system `may_lack_rows`, its keys without a row are skipped.
    """
    contents = [key_content(key) for key in listed_keys(keys)]
    systems = _systems(system, len(contents))
    if system is None and may_lack_rows:
        raise ValueError(
            "system must be named in a release with fallback='old': pass what `assign` returned, "
            "got None"
        )
    if not contents:
        return ObservedKeys(0, 0, {})
    if len(set(zip(contents, systems, strict=True))) < len(contents):
        raise ValueError("keys must have each key once for a system: one row is one key and system")
    with store.reading() as connection:
        known = read_key_rows(connection, contents)
    rows = [_row(known.get(key, {}), by) for key, by in zip(contents, systems, strict=True)]
    has_row = np.array([row is not None for row in rows])
    may_lack = np.array([may_lack_rows and by == OLD for by in systems])
    moved = _under_another_system(contents, systems, known)
    _refuse_unknown(contents, systems, has_row | may_lack, moved)
    named = _named(losses, limits)
    for name, values in named.items():
        argument = f"losses[{name!r}]" if isinstance(losses, Mapping) else "losses"
        same_length(argument, values, "keys", len(contents))
    if not has_row.all():
        named = {name: values[has_row] for name, values in named.items()}
    without_row = int((~has_row).sum())
    if not has_row.any():
        return ObservedKeys(0, without_row, {}, moved)
    ids = np.array([row.id for row in rows if row is not None])
    try:
        new = recorder.observe(ids, named, None, limits, keep_first=keep_first)
        counts = _counts(new.by_loss(limits), known, set(ids.tolist()))
        return ObservedKeys(len(new), without_row, counts, moved)
    except FinalLossError as error:
        of_key = dict(zip(ids.tolist(), _chosen(contents, has_row), strict=True))
        different = [of_key[each] for each in error.ids]
        raise ValueError(
            f"{_listed_keys(different)} {_were(different)} already observed with another loss "
            f"({len(different)} of {len(ids)}): a loss is final, and nothing of this call was "
            f"stored. The loss of a key is that of its first unit under the system: leave out "
            f"those of later units, or, if losses of a key come in order, skip them with keep_first"
        ) from error


def skipped_text(found: ObservedKeys) -> str:
    """Why losses were skipped, in words; empty if none were."""
    if not found.without_row:
        return ""
    many = "key was" if found.without_row == 1 else "keys were"
    who = f", although {found.moved}" if found.moved else ""
    return (
        f"{found.without_row:,} {many} skipped: the old system has no row of "
        f"{'it' if found.without_row == 1 else 'them'}{who}. That is right if the old system "
        f"answered while the store was unavailable; otherwise the key or the system is wrong"
    )


def _counts(
    new: Mapping[str, NDArray[Any]], known: Mapping[bytes, Mapping[str, KeyRow]], ids: set[int]
) -> dict[tuple[str, str], int]:
    """How many losses are new, by system and guardrail."""
    system_of = {
        row.id: system for rows in known.values() for system, row in rows.items() if row.id in ids
    }
    found = Counter(
        (system_of[each], name) for name, actions in new.items() for each in actions.tolist()
    )
    return dict(found)


def _chosen(contents: Sequence[bytes], has_row: NDArray[np.bool_]) -> list[bytes]:
    return [key for key, found in zip(contents, has_row.tolist(), strict=True) if found]


def _listed_keys(keys: Sequence[bytes]) -> str:
    """Some of the keys, for a message."""
    shown = ", ".join(repr(key.decode()) for key in keys[:MAX_IDS_SHOWN])
    return f"key{'s'[: len(keys) > 1]} {shown}{', …' if len(keys) > MAX_IDS_SHOWN else ''}"


def _were(keys: Sized) -> str:
    return "was" if len(keys) == 1 else "were"


def _systems(given: str | Iterable[str] | None, count: int) -> list[str | None]:
    """The system of each key, where it is named."""
    if given is None:
        return [None] * count
    listed = [given] * count if isinstance(given, str) else list(given)
    same_length("system", np.array(listed, object), "keys", count)
    for each in {given} if isinstance(given, str) else set(listed):
        choice("system", each, (OLD, NEW))
    return [*listed]


def _under_another_system(
    contents: Sequence[bytes],
    systems: Sequence[str | None],
    known: Mapping[bytes, Mapping[str, KeyRow]],
) -> str:
    """Which keys have a row of the other system alone, and since which step, in words."""
    told = []
    for named, other in ((OLD, NEW), (NEW, OLD)):
        rows = {
            key: known[key][other]
            for key, by in zip(contents, systems, strict=True)
            if by == named and known.get(key, {}).keys() == {other}
        }
        if rows:
            step, first = next(iter(rows.values())).step, ", the first of them"
            who = f"{_listed_keys(list(rows))} {_were(rows)}"
            told.append(f'{who} assigned "{other}"{first if len(rows) > 1 else ""} in step {step}')
    return ", and ".join(told)


def _refuse_unknown(
    contents: Sequence[bytes],
    systems: Sequence[str | None],
    found: NDArray[np.bool_],
    moved: str,
) -> None:
    """Refuse keys that have no row; `moved` says which have one of the other system."""
    if found.all():
        return
    first = int(np.argmin(found))
    unknown = _chosen(contents, ~found)
    by = "" if systems[first] is None else f" to the {systems[first]} system"
    instead = f". But {moved}: name the system that was assigned" if moved else ""
    raise ValueError(
        f"{_listed_keys(unknown)} {_were(unknown)} never assigned{by} ({len(unknown)} of "
        f"{len(contents)}): nothing of this call was stored{instead}"
    )


def _row(known: Mapping[str, KeyRow], system: str | None) -> KeyRow | None:
    """The row of a system, or the latest."""
    if system is not None:
        return known.get(system)
    return max(known.values(), key=lambda row: (row.step, row.id), default=None)


def _named(losses: Any, limits: Limits) -> dict[str, Any]:
    if isinstance(losses, Mapping):
        return {name: _listed(f"losses[{name!r}]", values) for name, values in losses.items()}
    if len(limits) > 1:
        raise TypeError(f"losses must be a mapping with some of the names {list(limits)}")
    return {next(iter(limits)): _listed("losses", losses)}


def _listed(name: str, values: Any) -> NDArray[Any]:
    reject_masked(name, values)
    return np.atleast_1d(np.asarray(values))
