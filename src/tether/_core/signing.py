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


def generate_keys(name: str | Path) -> str:
    """Write a new pair of keys, NAME.key (mode 0600) and NAME.pub; existing files are kept.

    Parameters
    ----------
    name : str or pathlib.Path
        The path of both files without their endings.

    Returns
    -------
    str
        The fingerprint of the pair, as OpenSSH shows it.

    Raises
    ------
    FileExistsError
        If there is such a file already.
    """
    serialization, ed25519 = _library()
    private = ed25519.Ed25519PrivateKey.generate()
    secret_file, public_file = (Path(f"{name}{ending}") for ending in (".key", ".pub"))
    files.require_target(secret_file)
    files.require_target(public_file)
    form = serialization.PrivateFormat.OpenSSH
    secret = private.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    files.write_bytes(secret_file, secret)
    files.write_bytes(public_file, _public_line(private.public_key()) + b"\n")
    return key_id(private)


def read_private_key(key: PrivateKey) -> Ed25519PrivateKey:
    """Read the key that signs; a file that others may read is refused."""
    serialization, ed25519 = _library()
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key  # type: ignore[return-value]
    path = _existing_file(key)
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
    return loaded  # type: ignore[return-value]


def read_public_key(key: PublicKey) -> Ed25519PublicKey:
    """Read the key that signatures are checked with: a file with one line "ssh-ed25519 …"."""
    serialization, ed25519 = _library()
    if isinstance(key, ed25519.Ed25519PublicKey):
        return key  # type: ignore[return-value]
    path = _existing_file(key)
    content = path.read_bytes()
    if b"PRIVATE KEY" in content:
        raise ValueError(f"{path} is a private key: signatures are checked with the public one")
    try:
        loaded = serialization.load_ssh_public_key(content)
    except Exception as error:
        raise ValueError(f"{path} is not a public key in the format of OpenSSH") from error
    if not isinstance(loaded, ed25519.Ed25519PublicKey):
        raise ValueError(f"{path} is not an Ed25519 key")
    return loaded  # type: ignore[return-value]


def key_id(key: Ed25519PrivateKey | Ed25519PublicKey) -> str:
    """The fingerprint of a key pair, from either key, as OpenSSH shows it."""
    public = key.public_key() if hasattr(key, "public_key") else key
    blob = base64.b64decode(_public_line(public).split()[1])
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def sign(content: bytes, key: PrivateKey, *, purpose: str) -> str:
    """Sign content for one purpose, such as "tether record"; the signature holds for it alone."""
    signed = read_private_key(key).sign(_with_purpose(content, purpose))
    return SIGNATURE_PREFIX + base64.b64encode(signed).decode()


def verify(content: bytes, signature: str, key: PublicKey, *, purpose: str) -> bool:
    """Whether the owner of the key signed exactly this content for this purpose."""
    public = read_public_key(key)
    from cryptography.exceptions import InvalidSignature

    if not isinstance(signature, str) or not signature.startswith(SIGNATURE_PREFIX):
        return False
    try:
        raw = base64.b64decode(signature.removeprefix(SIGNATURE_PREFIX), validate=True)
        public.verify(raw, _with_purpose(content, purpose))
    except (InvalidSignature, binascii.Error, ValueError):
        return False
    return True


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


def _existing_file(path: Any) -> Path:
    if not isinstance(path, (str, Path)):
        raise TypeError(f"key must be the path of a key file or a key, got {path!r}")
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no key file {path}")
    return Path(path)


def _library() -> tuple[Any, Any]:
    """The parts of `cryptography` that are used."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise ImportError("signing needs cryptography: pip install 'tether[signing]'") from error
    return serialization, ed25519
