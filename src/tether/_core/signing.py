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
from collections.abc import Callable
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

PRIVATE_ENDING, PUBLIC_ENDING = ".key", ".pub"
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
    endings = (PRIVATE_ENDING, PUBLIC_ENDING)
    secret_file, public_file = (Path(f"{name}{ending}") for ending in endings)
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
    file = isinstance(key, (str, Path)) and os.path.isfile(key) and os.name == "posix"
    if file and stat.S_IMODE(os.stat(str(key)).st_mode) & 0o077:
        raise PermissionError(
            f"{key} can be read by others than its owner and is not used as a private key: "
            f"chmod 600 {key}"
        )
    read: Ed25519PrivateKey = _read(
        key,
        ed25519.Ed25519PrivateKey,
        lambda content: serialization.load_ssh_private_key(content, password=None),
        "a private key in the format of OpenSSH without a passphrase, as `tether keygen` writes it",
    )
    return read


def read_public_key(key: PublicKey) -> Ed25519PublicKey:
    """Read the key that signatures are checked with: a file with one line "ssh-ed25519 …"."""
    serialization, ed25519 = _library()
    kind, load = ed25519.Ed25519PublicKey, serialization.load_ssh_public_key
    read: Ed25519PublicKey = _read(key, kind, load, "a public key in the format of OpenSSH")
    return read


def _read(key: Any, kind: Any, load: Callable[[bytes], Any], described: str) -> Any:
    if isinstance(key, kind):
        return key
    if not isinstance(key, (str, Path)):
        raise TypeError(f"key must be the path of a key file or a key, got {key!r}")
    if not Path(key).is_file():
        raise FileNotFoundError(f"there is no key file {key}")
    try:
        loaded = load(Path(key).read_bytes())
    except Exception as error:  # the library raises many kinds for what is no key
        raise ValueError(f"{key} is not {described}") from error
    if not isinstance(loaded, kind):
        raise ValueError(f"{key} is not an Ed25519 key")
    return loaded


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


def _library() -> tuple[Any, Any]:
    """The parts of `cryptography` that are used."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise ImportError("signing needs cryptography: pip install 'tether[signing]'") from error
    return serialization, ed25519
