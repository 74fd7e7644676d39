"""Ed25519 signatures: who vouches for a record, for readers who trust a key and not the disk.

Keys are files in the format of OpenSSH, without a passphrase: those of ``ssh-keygen -t ed25519``
can be used too, and ``ssh-keygen -lf NAME.pub`` prints the same fingerprint as `key_id`. What is
signed begins with its purpose, so that a signature of one kind of content is not valid for another.
Needs `cryptography` (extra `signing`).
"""

from __future__ import annotations

import base64
import hashlib
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from tether._core import files
from tether._core.extras import require

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
    """Write a new pair of keys, NAME.key (mode 0600) and NAME.pub; return its fingerprint."""
    private = _part("asymmetric.ed25519").Ed25519PrivateKey.generate()
    secret, public = Path(f"{name}.key"), Path(f"{name}.pub")
    files.require_target(secret)
    files.require_target(public)
    form = _part("serialization")
    kinds = form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption()
    files.write_bytes(secret, private.private_bytes(*kinds))
    files.write_bytes(public, _public_line(private.public_key()) + b"\n")
    return key_id(private)


def read_private_key(key: PrivateKey) -> Ed25519PrivateKey:
    """Read the key that signs; a file that others may read is refused."""
    found: Ed25519PrivateKey = _read("private", key, password=None)
    if isinstance(key, (str, Path)) and stat.S_IMODE(Path(key).stat().st_mode) & 0o077:
        raise PermissionError(f"the private key {key} can be read by others: run chmod 600 {key}")
    return found


def read_public_key(key: PublicKey) -> Ed25519PublicKey:
    """Read the key that signatures are checked with: a file with one line "ssh-ed25519 …"."""
    found: Ed25519PublicKey = _read("public", key)
    return found


def _read(which: str, key: Any, **options: Any) -> Any:
    kind = getattr(_part("asymmetric.ed25519"), f"Ed25519{which.capitalize()}Key")
    if isinstance(key, kind):
        return key
    content = Path(key).read_bytes()
    try:
        loaded = getattr(_part("serialization"), f"load_ssh_{which}_key")(content, **options)
    except Exception as error:  # the library raises many kinds for input that is not a key
        raise ValueError(
            f"{key} is not a {which} key of OpenSSH without a passphrase, as `tether keygen` writes"
        ) from error
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


def verify(content: bytes, signature: Any, key: PublicKey, *, purpose: str) -> bool:
    """Whether the owner of the key signed exactly this content for this purpose."""
    public = read_public_key(key)
    from cryptography.exceptions import InvalidSignature

    if not isinstance(signature, str) or not signature.startswith(SIGNATURE_PREFIX):
        return False
    try:
        raw = base64.b64decode(signature.removeprefix(SIGNATURE_PREFIX), validate=True)
        public.verify(raw, _with_purpose(content, purpose))
    except (InvalidSignature, ValueError):
        return False
    return True


def _with_purpose(content: bytes, purpose: str) -> bytes:
    """Content after its purpose and the length of this, so that no two pairs are the same bytes."""
    name = purpose.encode()
    return b"%d:%b%b" % (len(name), name, content)


def _public_line(key: Any) -> bytes:
    form = _part("serialization")
    line: bytes = key.public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH)
    return line


def _part(name: str) -> Any:
    return require("signing", f"cryptography.hazmat.primitives.{name}")
