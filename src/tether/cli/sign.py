"""`tether sign`: sign everything that a store holds now."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tether.cli.terminal import ActorOption, StoreName, print_line, report_errors


@report_errors
def sign(
    store: StoreName,
    key: Annotated[Path, typer.Option(help="The private key, see `tether keygen`.")],
    actor: ActorOption = None,
) -> None:
    """Sign everything that a store holds now; `tether verify STORE --key …` checks it."""
    from tether.rounds import sign_store

    sign_store(store, key, actor)
    print_line("Signed. What is written from now on is not covered by this signature.")
