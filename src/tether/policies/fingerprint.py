"""A policy's fingerprint: a digest by which it is recognized, where it is made of plain values."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np

from tether.control.families import Family


def fingerprint(policy: Any) -> str | None:
    """A policy's own `fingerprint` (a string, or a method that returns it), or a digest of it.

    What a tethered policy caches when it is used is not part of it. None if it contains anything
    but numbers, text and policies made of these, such as a function: then only its scores count.
    """
    own = getattr(policy, "fingerprint", None)
    if own is not None:
        return str(own() if callable(own) else own)
    text = _describe(policy)
    return None if text is None else blake2b(text.encode(), digest_size=16).hexdigest()


def describe_family(family: Family) -> str | None:
    """The parameters of a family, always in the same form; None if they are not plain values.

    A user's own family has a name, but the name alone does not determine its parameters.
    """
    return _describe(getattr(family, "__dict__", {}))


def _describe(value: Any) -> str | None:
    own = getattr(value, "fingerprint", None)
    if isinstance(own, str):
        return repr(own)
    if value is None or isinstance(value, (bool, int, float, str, bytes, np.generic)):
        return repr(value)
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "O":
            return _describe(value.tolist())
        content = blake2b(np.ascontiguousarray(value).tobytes()).hexdigest()
        return f"{value.dtype.str}{value.shape}{content}"
    if isinstance(value, (list, tuple)):
        parts = [_describe(item) for item in value]
    elif isinstance(value, dict):
        ordered = sorted(value.items(), key=lambda pair: repr(pair[0]))  # not an array's long repr
        parts = [_describe(item) for pair in ordered for item in pair]
    elif type(value).__module__.startswith("tether.") and hasattr(value, "__dict__"):
        made_of = {name: part for name, part in vars(value).items() if name != "_remembered"}
        parts = [_describe(made_of)]
    else:
        return None
    if any(part is None for part in parts):
        return None
    return f"{type(value).__name__}({','.join(map(str, parts))})"
