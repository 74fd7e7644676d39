"""Signatures of heads of the hash chain."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tether._core import signing

if TYPE_CHECKING:
    from tether._core.signing import PrivateKey, PublicKey

CHAIN_PURPOSE = "head of a run's hash chain"
"""What these signatures are made for, so that they are good for nothing else."""


def chain_signer(key: PrivateKey) -> Callable[[bytes], str]:
    """A function that signs heads with a private key."""
    private = signing.read_private_key(key)
    return lambda head: signing.sign(head, private, purpose=CHAIN_PURPOSE)


def chain_checker(key: PublicKey) -> Callable[[bytes, str], bool]:
    """A function that says whether a signature of a head is one of the key."""
    public = signing.read_public_key(key)
    return lambda head, signature: signing.verify(head, signature, public, purpose=CHAIN_PURPOSE)
