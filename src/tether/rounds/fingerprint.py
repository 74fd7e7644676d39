"""Telling policies apart: by what they are made of, and by how they score.

A policy is never stored. The store keeps its name, a digest of its parameters where it has plain
ones, and its scores; a policy that is handed in later must agree with all of them.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np

from tether._core import policy_calls
from tether._core.types import Floats

SLACK = 1e-3
"""How far a score may be from the stored one, relatively and absolutely: models round."""
PROBES = 256
"""How many stored actions a policy scores again to show that it is the same."""


def fingerprint(policy: Any) -> str | None:
    """A policy's own `fingerprint` (text, or a function that gives it), or a digest of its parts.

    What a tethered policy remembers once it has been used is no part of it. None where a part is
    neither numbers nor text nor a policy of these, such as a function: then only the scores tell.
    """
    own = getattr(policy, "fingerprint", None)
    if own is not None:
        return str(own() if callable(own) else own)
    text = _described(policy)
    return None if text is None else blake2b(text.encode(), digest_size=16).hexdigest()


def describe(family: Any) -> str | None:
    """What a family is made of, in the same words every time; None where that is not plain.

    A family of the user's has a name, but the name alone does not tell its parameters.
    """
    return _described(getattr(family, "__dict__", {}))


def check_scores(
    name: str, policy: Any, contexts: Any, actions: Any, expected: Floats, kind: str = "safe"
) -> None:
    """Refuse a policy that scores stored actions otherwise than it did."""
    same_scores(name, policy_calls.score(kind, policy, contexts, actions), expected, kind)


def same_scores(name: str, scores: Floats, expected: Floats, kind: str) -> None:
    """The same, of scores that are there."""
    both_zero = np.isneginf(scores) & np.isneginf(expected)
    with np.errstate(invalid="ignore"):
        off = np.abs(scores - expected) > SLACK * (1 + np.abs(expected))
    off = (off | (np.isneginf(scores) != np.isneginf(expected))) & ~both_zero
    if off.any():
        row = int(np.argmax(off))
        raise ValueError(
            f"the {kind} policy is not the {name!r} of this store: it scores a stored action "
            f"{scores[row]:.6g} where {expected[row]:.6g} was stored ({int(off.sum())} of "
            f"{len(off)} differ). Was it trained further in place? Each round needs a policy of "
            f"its own: hand a copy to `begin`"
        )


def _described(value: Any) -> str | None:
    if value is None or isinstance(value, (bool, int, float, str, bytes, np.generic)):
        return repr(value)
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "O":
            return _described(value.tolist())
        content = blake2b(np.ascontiguousarray(value).tobytes()).hexdigest()
        return f"{value.dtype.str}{value.shape}{content}"
    if isinstance(value, (list, tuple)):
        parts = [_described(item) for item in value]
    elif isinstance(value, dict):
        ordered = sorted(value.items(), key=lambda pair: repr(pair[0]))  # not an array's long repr
        parts = [_described(item) for pair in ordered for item in pair]
    elif type(value).__module__.startswith("tether.") and hasattr(value, "__dict__"):
        made_of = {name: part for name, part in vars(value).items() if name != "_remembered"}
        parts = [_described(made_of)]
    else:
        return None
    if any(part is None for part in parts):
        return None
    return f"{type(value).__name__}({','.join(map(str, parts))})"
