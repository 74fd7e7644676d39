"""`tether release assign`: which system answers a key."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from tether._core.visible_text import visible_lines
from tether.cli.table_batches import read_batches
from tether.cli.terminal import JsonOption, StoreName, report_errors

KEY_COLUMN = "key"
SYSTEM_COLUMN = "system"
SECONDS_PER_BATCH = 60.0
"""How long a batch of a file may wait for the store."""


@report_errors
def assign(
    store: StoreName,
    keys: Annotated[
        list[str] | None, typer.Argument(help="The keys: users, sessions, devices.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(help="Keys in the column `key` of a Parquet, CSV or JSON lines file."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Say which system answers each key, and store it: lines of CSV, or of JSON with --json.

    Control characters in keys are printed as escapes; JSON has them exactly. Keys of a file are
    stored and printed a batch at a time; after an error it may be given again.
    """
    from tether.rounds import Release

    if (file is None) == (not keys):
        raise ValueError("name either keys or a --file of them")
    with Release(store, deadline=SECONDS_PER_BATCH) as release:
        batches = iter([keys or []]) if file is None else _keys_of(file)
        for number, batch in enumerate(batches):
            systems = release.assign(batch)
            if number == 0 and not as_json:
                print(f"{KEY_COLUMN},{SYSTEM_COLUMN}")
            sys.stdout.write(_lines(batch, systems, as_json=as_json))


def _keys_of(path: Path) -> Iterator[list[str]]:
    for batch in read_batches(path, texts=(KEY_COLUMN,), numbers=()):
        if KEY_COLUMN not in batch.texts:
            raise ValueError(f"--file {path} must have a column {KEY_COLUMN!r}")
        yield batch.texts[KEY_COLUMN]


def _lines(keys: list[str], systems: list[str], *, as_json: bool) -> str:
    pairs = zip(keys, systems, strict=True)
    if as_json:
        return "".join(
            json.dumps({KEY_COLUMN: key, SYSTEM_COLUMN: system}) + "\n" for key, system in pairs
        )
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(pairs)
    return visible_lines(text.getvalue())
