"""`tether keygen`: a pair of keys to sign with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tether._core import signing
from tether.cli.terminal import print_line, report_errors


@report_errors
def keygen(
    name: Annotated[Path, typer.Argument(help="Write NAME.key and NAME.pub.")],
) -> None:
    """Make a pair of Ed25519 keys: NAME.key signs and stays secret, NAME.pub checks."""
    made = signing.generate_keys(name)
    print_line(f"Private key: {name}{signing.PRIVATE_ENDING} (keep it secret)")
    print_line(f"Public key:  {name}{signing.PUBLIC_ENDING}")
    print_line(f"Key id:      {made}")
