"""Saved calibrations that someone has changed."""

import copy
import json
from pathlib import Path

from tether._core import records


def entries_of(path):
    return json.loads(Path(path).read_text())


def with_digest(entries):
    """The entries as a forger leaves them who knows how the digest is made."""
    kept = {name: value for name, value in entries.items() if name != "digest"}
    unsigned = {name: value for name, value in kept.items() if name != "signature"}
    return {**kept, "digest": records.content_digest(unsigned)}


def places(value, path=()):
    """Every place in nested plain values."""
    if path:
        yield path
    if isinstance(value, dict):
        for name in value:
            yield from places(value[name], (*path, name))
    elif isinstance(value, list) and len(value) <= 4:
        for number in range(len(value)):
            yield from places(value[number], (*path, number))


def edited(entries, path, change):
    """A copy with one value changed."""
    made = copy.deepcopy(entries)
    parent = made
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = change(parent[path[-1]])
    return made


def removed(entries, path):
    made = copy.deepcopy(entries)
    parent = made
    for step in path[:-1]:
        parent = parent[step]
    del parent[path[-1]]
    return made
