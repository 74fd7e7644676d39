"""Outcomes that are reported twice in one call: the same ones count once, others contradict."""

from __future__ import annotations

from collections.abc import Sequence


def counted_places(
    keys: Sequence[bytes | str], outcomes: Sequence[object], *, keep_first: bool
) -> list[int]:
    """Where each key is for the first time.

    A later outcome of a key must equal its first one, unless `keep_first` says that those of a key
    come in order.

    >>> counted_places(["ann", "bob", "ann"], [0.0, 1.0, 0.0], keep_first=False)
    [0, 1]
    """
    places: dict[bytes | str, int] = {}
    for place, (key, outcome) in enumerate(zip(keys, outcomes, strict=True)):
        first = places.setdefault(key, place)
        if outcome != outcomes[first] and not keep_first:
            shown = key if isinstance(key, str) else key.decode()
            raise ValueError(
                f"key {shown!r} has two outcomes that differ, {outcomes[first]} and {outcome}: one "
                f"row is one key and system, with one loss. If they are of different systems, name "
                f"these; if losses of a key come in order, skip the later ones with keep_first"
            )
    return list(places.values())
