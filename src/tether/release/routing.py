"""Routing by context: the new system of a release may be a pair of systems with a router.

A router says for each key, from what is known of it, with which probability the new system should
answer. The pair "the new system with this probability, otherwise the old one" is a system like any
other, so a release ramps it up by its own rows, and every promise holds for it. If s is the share
of the pair, the new system answers a key with the features x with probability s·P(new | x).

The router's coin is a hash of the key, as the assignment is, but independent of it: a key whose
probability stays has the same answer, and a larger probability only adds keys.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from tether._core.arrays import Booleans
from tether.release.assignment import POSITION_BITS, hashed_positions

ROUTER = b"router"
"""What makes the hashes of routing independent of those of assignment."""


def is_routed(keys: Iterable[str | bytes | int], probabilities: ArrayLike, salt: bytes) -> Booleans:
    """Decide for each key of the routed pair whether the new system answers.

    Parameters
    ----------
    keys : iterable of str, bytes or int
        The keys.
    probabilities : array-like of float
        P(new | features) of each key, from 0 to 1, or one for all.
    salt : bytes
        The salt of the release.

    Returns
    -------
    numpy.ndarray of bool
        True where the new system answers, and False where the old one does.

    Raises
    ------
    ValueError
        If a probability is outside [0, 1], or their number is not that of the keys.

    Examples
    --------
    >>> is_routed(["ann", "bob", "eve"], [1.0, 0.0, 0.5], b"salt")
    array([ True, False, False])
    """
    place = hashed_positions(keys, salt, ROUTER)
    given = np.asarray(probabilities, dtype=np.float64)
    if given.shape not in ((), place.shape):
        raise ValueError(
            f"probabilities must be one number, or one for each of the {len(place)} keys, got "
            f"the shape {given.shape}"
        )
    outside = given[~((given >= 0) & (given <= 1))]
    if outside.size:
        raise ValueError(f"probabilities must be from 0 to 1, got {outside[0]!s}")
    limit = np.floor(np.ldexp(given, POSITION_BITS))  # exact, and at most 2**64
    below = place < np.where(given < 1, limit, 0).astype(np.uint64)
    return np.asarray(below | (given == 1))
