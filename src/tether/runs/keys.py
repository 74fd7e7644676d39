"""Which system answers a key: a salted hash against the share, sticky and monotone.

A key has a position: a 64-bit integer from BLAKE2b with the salt as its key. It depends on nothing
else, so it is uniform and independent of every loss. The new system answers the keys whose position
is below floor(share·2⁶⁴), an integer, so two machines can never disagree by rounding. While the
share grows, every key of the new system stays there; a smaller share takes back those that came
last. A share of 0 is nobody and a share of 1 everybody.

Routing by context: a router says for each key, from what is known of it, with which probability the
new system should answer. The pair "the new system with this probability, otherwise the old one" is
a system like any other, so a release ramps it up by its own rows, and every promise holds for it.
The router's coin is a hash of the key too, independent of the assignment.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether._core.arrays import Booleans
from tether._core.validate import real

POSITION_BITS = 64
"""The number of bits of a position."""
LONGEST_KEY = 1024
"""The most bytes of a key."""
LONGEST_SALT = 64
"""The most bytes that BLAKE2b takes as its key."""


def positions(keys: Iterable[str | bytes | int], salt: bytes) -> NDArray[np.uint64]:
    """Compute the position of each key, from 0 to 2⁶⁴ − 1.

    Parameters
    ----------
    keys : iterable of str, bytes or int
        Keys. Text is encoded as UTF-8 and an integer is the same key as its decimal digits.
    salt : bytes
        1 to 64 random bytes, chosen once for a release and kept: another salt is another
        assignment.

    Returns
    -------
    numpy.ndarray of uint64
        One position per key.

    Raises
    ------
    TypeError
        If `keys` is a single key, a key is of another type, or the salt is not bytes.
    ValueError
        If the salt is empty or longer than 64 bytes.

    Examples
    --------
    >>> positions(["ann", b"ann", "bob"], b"salt") >> np.uint64(48)
    array([38978, 38978, 14873], dtype=uint64)
    """
    return hashed_positions(keys, salt)


def hashed_positions(
    keys: Iterable[str | bytes | int], salt: bytes, purpose: bytes = b""
) -> NDArray[np.uint64]:
    """Positions for a purpose; those for different purposes are independent."""
    if not isinstance(salt, bytes):
        raise TypeError(f"salt must be bytes, got {salt!r}")
    if not 1 <= len(salt) <= LONGEST_SALT:
        raise ValueError(f"salt must have 1 to {LONGEST_SALT} bytes, got {len(salt)}")
    if isinstance(keys, (str, bytes, bytearray, memoryview)):
        raise TypeError(f"keys must be several keys, such as [{keys!r}], got {keys!r}")
    prepared = blake2b(digest_size=POSITION_BITS // 8, key=salt, person=purpose)
    digests = []
    for key in keys:
        each = prepared.copy()
        each.update(key if type(key) is bytes else as_bytes(key))
        digests.append(each.digest())
    return np.frombuffer(b"".join(digests), dtype=">u8").astype(np.uint64)


def position_limit(share: float) -> int:
    """Convert a share to the integer that positions are compared with.

    Parameters
    ----------
    share : float
        From 0 to 1.

    Returns
    -------
    int
        The floor of share·2⁶⁴; the product is exact.

    Raises
    ------
    ValueError
        If the share is outside [0, 1].

    Examples
    --------
    >>> position_limit(0.0), position_limit(0.5) == 2**63, position_limit(1.0) == 2**64
    (0, True, True)
    """
    checked = real("share", share)
    if not 0 <= checked <= 1:
        raise ValueError(f"share must be from 0 to 1, got {share!r}")
    return int(checked * 2.0**POSITION_BITS)


def is_new(position: NDArray[np.uint64], share: float) -> Booleans:
    """Decide for each position whether the new system answers.

    Parameters
    ----------
    position : numpy.ndarray of uint64
        What `positions` returned.
    share : float
        The new system's share, from 0 to 1.

    Returns
    -------
    numpy.ndarray of bool
        True for the new system.

    Raises
    ------
    ValueError
        If the share is outside [0, 1].

    Examples
    --------
    >>> is_new(np.array([0, 2**63, 2**64 - 1], dtype=np.uint64), 0.5)
    array([ True, False, False])
    """
    limit = position_limit(share)
    if limit == 0:
        return np.zeros(np.shape(position), bool)
    return np.asarray(position <= np.uint64(limit - 1))  # 2⁶⁴ itself is no uint64


def as_bytes(key: str | bytes | int) -> bytes:
    """A key as it is hashed and stored: text as UTF-8, an integer as its decimal digits."""
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
        return str(int(key)).encode()
    if isinstance(key, str):
        key = key.encode("utf-8", "surrogatepass")
    if not isinstance(key, bytes):
        raise TypeError(f"keys must be str, bytes or int, got {key!r}")
    if not 1 <= len(key) <= LONGEST_KEY:
        raise ValueError(f"keys must have 1 to {LONGEST_KEY} bytes, got {len(key)}: {key[:20]!r}")
    return key


def pack_keys(keys: list[bytes]) -> dict[str, NDArray[Any]]:
    """Keys as columns of an event."""
    ends = np.cumsum([len(key) for key in keys], dtype=np.int64)
    return {"key_end": ends, "key": np.frombuffer(b"".join(keys), np.uint8)}


def unpack_keys(columns: dict[str, NDArray[Any]]) -> list[bytes]:
    """Undo `pack_keys`."""
    content, ends = columns["key"].tobytes(), columns["key_end"].tolist()
    return [content[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]


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
