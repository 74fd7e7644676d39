"""Ed25519 signatures: who vouches for a record, for readers who trust a key and not the disk.

Keys are files in the format of OpenSSH, without a passphrase: those of ``ssh-keygen -t ed25519``
can be used too, and ``ssh-keygen -lf NAME.pub`` prints the same fingerprint as `key_id`. What is
signed begins with its purpose, so that a signature of one kind of content is none of another kind.
Needs `cryptography` (extra `signing`).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from tether._core import files

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

    PrivateKey: TypeAlias = Ed25519PrivateKey | str | Path
    PublicKey: TypeAlias = Ed25519PublicKey | str | Path

SIGNATURE_PREFIX = "ed25519:"
"""How every signature begins."""
SIGNATURE_BYTES = 64
PRIVATE_ENDING, PUBLIC_ENDING = ".key", ".pub"


def generate_keys(name: str | Path) -> str:
    """Write a new pair of keys, NAME.key (mode 0600) and NAME.pub; existing files are kept.

    Parameters
    ----------
    name : str or pathlib.Path
        The path of both files without their endings.

    Returns
    -------
    str
        The `key_id` of the pair.

    Raises
    ------
    FileExistsError
        If there is such a file already.
    ImportError
        If `cryptography` is not installed.
    """
    name = files.as_path("name", name)
    serialization, ed25519 = _library()
    private = ed25519.Ed25519PrivateKey.generate()
    places = [Path(f"{name}{ending}") for ending in (PRIVATE_ENDING, PUBLIC_ENDING)]
    for place in places:
        files.require_target(place)
    hidden = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    files.write_bytes(places[0], hidden)
    files.write_bytes(places[1], _public_line(private.public_key()) + b"\n")
    return key_id(private.public_key())


def read_private_key(key: PrivateKey) -> Ed25519PrivateKey:
    """Read the key that signs; a key that others may read is refused.

    Parameters
    ----------
    key : str, pathlib.Path or Ed25519PrivateKey
        A file that `generate_keys` or ``ssh-keygen -t ed25519`` wrote, or the key itself.

    Returns
    -------
    Ed25519PrivateKey
        The key.

    Raises
    ------
    PermissionError
        If the file can be read by the group or by others.
    ValueError
        If the file is not an Ed25519 private key without a passphrase.
    """
    serialization, ed25519 = _library()
    read: Ed25519PrivateKey
    if isinstance(key, ed25519.Ed25519PrivateKey):
        read = key
        return read
    path = _existing_file("key", key)
    if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise PermissionError(
            f"{path} can be read by others than its owner and is not used as a private key: "
            f"chmod 600 {path}"
        )
    try:
        loaded = serialization.load_ssh_private_key(path.read_bytes(), password=None)
    except Exception as error:  # the library raises many kinds for what is no key
        raise ValueError(
            f"{path} is not a private key in the format of OpenSSH without a passphrase, as "
            f"`tether keygen` writes it"
        ) from error
    if not isinstance(loaded, ed25519.Ed25519PrivateKey):
        raise ValueError(f"{path} is not an Ed25519 key")
    read = loaded
    return read


def read_public_key(key: PublicKey) -> Ed25519PublicKey:
    """Read the key that signatures are checked with.

    Parameters
    ----------
    key : str, pathlib.Path or Ed25519PublicKey
        A file with one line "ssh-ed25519 …", or the key itself.

    Returns
    -------
    Ed25519PublicKey
        The key.

    Raises
    ------
    ValueError
        If the file is not an Ed25519 public key.
    """
    serialization, ed25519 = _library()
    read: Ed25519PublicKey
    if isinstance(key, ed25519.Ed25519PublicKey):
        read = key
        return read
    path = _existing_file("key", key)
    content = path.read_bytes()
    if b"PRIVATE KEY" in content:
        raise ValueError(f"{path} is a private key: signatures are checked with the public one")
    try:
        loaded = serialization.load_ssh_public_key(content)
    except Exception as error:
        raise ValueError(f"{path} is not a public key in the format of OpenSSH") from error
    if not isinstance(loaded, ed25519.Ed25519PublicKey):
        raise ValueError(f"{path} is not an Ed25519 key")
    read = loaded
    return read


def key_id(key: Ed25519PrivateKey | Ed25519PublicKey) -> str:
    """Return the fingerprint of a key pair, as OpenSSH shows it.

    Parameters
    ----------
    key : Ed25519PrivateKey or Ed25519PublicKey
        Either key of the pair.

    Returns
    -------
    str
        "SHA256:" and 43 characters.
    """
    _, ed25519 = _library()
    public = key.public_key() if isinstance(key, ed25519.Ed25519PrivateKey) else key
    blob = base64.b64decode(_public_line(public).split()[1])
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def sign(content: bytes, key: PrivateKey, *, purpose: str) -> str:
    """Sign content for one purpose.

    Parameters
    ----------
    content : bytes
        What is signed.
    key : str, pathlib.Path or Ed25519PrivateKey
        The private key.
    purpose : str
        What the content is, such as "tether record"; a signature holds for its purpose alone.

    Returns
    -------
    str
        The signature as text.
    """
    signed = read_private_key(key).sign(_with_purpose(content, purpose))
    return SIGNATURE_PREFIX + base64.b64encode(signed).decode()


def verify(content: bytes, signature: str, key: PublicKey, *, purpose: str) -> bool:
    """Check a signature that `sign` made.

    Parameters
    ----------
    content : bytes
        What should have been signed.
    signature : str
        The signature.
    key : str, pathlib.Path or Ed25519PublicKey
        The public key of whoever is trusted.
    purpose : str
        What the content is.

    Returns
    -------
    bool
        Whether the owner of the key signed exactly this content for this purpose.
    """
    public = read_public_key(key)
    from cryptography.exceptions import InvalidSignature

    raw = _signature_bytes(signature)
    if raw is None:
        return False
    try:
        public.verify(raw, _with_purpose(content, purpose))
    except (InvalidSignature, ValueError):
        return False
    return True


def is_signature(text: object) -> bool:
    """Whether a text has the form of a signature, whoever made it and of whatever.

    Parameters
    ----------
    text : object
        What stands where a signature is expected.

    Returns
    -------
    bool
        Whether `sign` can have returned it.
    """
    return _signature_bytes(text) is not None


def _signature_bytes(signature: object) -> bytes | None:
    """The bytes of a signature; None if it is none."""
    if not isinstance(signature, str) or not signature.startswith(SIGNATURE_PREFIX):
        return None
    try:
        raw = base64.b64decode(signature.removeprefix(SIGNATURE_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if len(raw) == SIGNATURE_BYTES else None


def _with_purpose(content: bytes, purpose: str) -> bytes:
    """Content after its purpose and the length of this, so that no two pairs are the same bytes."""
    name = purpose.encode()
    return b"%d:%b%b" % (len(name), name, content)


def _public_line(key: Any) -> bytes:
    serialization, _ = _library()
    line: bytes = key.public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    return line


def _existing_file(name: str, path: Any) -> Path:
    if not isinstance(path, (str, Path)):
        raise TypeError(f"{name} must be the path of a key file or a key, got {path!r}")
    file = files.as_path(name, path)
    if not file.is_file():
        raise FileNotFoundError(f"there is no key file {path}")
    return file


def _library() -> tuple[Any, Any]:
    """The parts of `cryptography` that are used."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise ImportError("signing needs cryptography: pip install 'tether[signing]'") from error
    return serialization, ed25519
