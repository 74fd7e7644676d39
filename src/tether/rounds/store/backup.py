"""A copy of an SQLite store, made while the run goes on."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from itertools import islice
from pathlib import Path

from tether._core import files
from tether.rounds.errors import StoreError, TamperedError
from tether.rounds.store.database import PATIENCE_FOR_COPIES, Store
from tether.rounds.store.import_run import MAX_FINDINGS
from tether.rounds.store.store_files import sqlite_file
from tether.rounds.store.verify_run import find_tampering


def backup_run(store: str | Path, path: str | Path, *, overwrite: bool = False) -> None:
    """Copy an SQLite store to another file, while other processes write to it.

    The copy is a store: the run as it was at one moment, checked against its hash chain. It is
    written completely or not at all. A backup is never replaced, since it is a store.

    Parameters
    ----------
    store : str or pathlib.Path
        The path or URL of an existing SQLite store.
    path : str or pathlib.Path
        The file to write.
    overwrite : bool, default False
        Whether to replace an existing file that is not a database.

    Raises
    ------
    ValueError
        If the store is not an SQLite file.
    TamperedError
        If the store is not as it was written.
    StoreError
        If there is no store, it holds no run, or it cannot be read.
    OSError
        If the file exists, or cannot be written.
    """
    if sqlite_file(store) is None:
        raise ValueError(
            "only an SQLite store in a file is backed up by tether: of PostgreSQL make backups "
            "with pg_dump, and a file with this run alone with `tether export`"
        )
    files.require_target(path, overwrite=overwrite)
    opened = Store(store, create=False)
    try:
        with files.replacing(path, overwrite=overwrite) as temporary:
            with opened.reading(patience=PATIENCE_FOR_COPIES) as connection:
                source = connection.connection.driver_connection
                assert isinstance(source, sqlite3.Connection)
                _copy(source, temporary, opened.name)
            _check(temporary, opened.name)
    finally:
        opened.close()


def _copy(source: sqlite3.Connection, path: Path, name: str) -> None:
    try:
        with closing(sqlite3.connect(path)) as target:
            source.backup(target)  # all at once: in steps, every write would begin it anew
            target.execute("PRAGMA journal_mode=DELETE").fetchall()  # one file, complete in itself
    except sqlite3.Error as error:
        raise StoreError(f"could not copy {name}: {error}") from error


def _check(path: Path, name: str) -> None:
    copy = Store(path, create=False, check=False)
    try:
        with copy.reading(patience=PATIENCE_FOR_COPIES) as connection:
            findings = list(islice(find_tampering(connection), MAX_FINDINGS))
    finally:
        copy.close()
    if findings:
        raise TamperedError(
            f"{name} is not as it was written, and no backup was made: {'; '.join(findings)}"
        )
