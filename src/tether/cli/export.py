"""`tether export`: a run as one Parquet table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tether.cli.terminal import ForceOption, KeyOption, StoreName, print_line, report_errors


@report_errors
def export(
    store: StoreName,
    out: Annotated[Path, typer.Argument(help="The Parquet file to write.")],
    force: ForceOption = False,
    key: KeyOption = None,
) -> None:
    """Write a complete run as one Parquet table, from which every round can be audited."""
    from tether.rounds import export_run
    from tether.rounds.store.chain_signer import chain_signer

    if out.suffix != ".parquet":
        raise ValueError(f"the file must end in .parquet, got {out}")
    sign = None if key is None else chain_signer(key)
    export_run(store, out, overwrite=force, sign=sign)
    print_line(f"Exported: {out}")
