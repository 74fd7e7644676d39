"""Write a whole file, or nothing."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_bytes(path: str | Path, content: bytes, *, overwrite: bool = False) -> None:
    """Write under a temporary name, flush, and rename; the mode is 0600."""
    target = Path(path)
    if os.path.lexists(target) and not overwrite:
        raise FileExistsError(f"{target} exists: pass overwrite=True to replace it")
    handle, name = tempfile.mkstemp(prefix=".tether-", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
