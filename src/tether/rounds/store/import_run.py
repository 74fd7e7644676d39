"""A store from an exported run, after everything in the file has been checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import sqlalchemy as sql
from sqlalchemy.exc import IntegrityError

from tether._core import files
from tether.rounds.any_settings import any_settings
from tether.rounds.errors import StoreError, TamperedError
from tether.rounds.interventions import checked_actor
from tether.rounds.releases.key_rows import create_key_index
from tether.rounds.replayed_monitors import recompute_kept
from tether.rounds.run_settings import RELEASE_KIND
from tether.rounds.store import queries, schema
from tether.rounds.store.database import PATIENCE_FOR_COPIES, Store
from tether.rounds.store.export_reader import ExportFile, readable_errors
from tether.rounds.store.fill_store import StoreFiller
from tether.rounds.store.followed_lane import ENTRIES_PER_QUERY, read_entries
from tether.rounds.store.lanes import CONTROL_LANE
from tether.rounds.store.store_files import sqlite_file
from tether.rounds.store.verify_run import find_tampering
from tether.rounds.verify_calibrations import find_wrong_calibrations
from tether.rounds.verify_observations import find_wrong_observations

IMPORT = "import"
"""The act in the audit trail that is stored with an imported run."""
MAX_FINDINGS = 20
"""How many findings are listed."""


@dataclass(frozen=True)
class ExportCheck:
    """What checking an export found.

    Parameters
    ----------
    findings : tuple of str
        What is wrong with it, one sentence each; empty if all is well.
    heads : bytes
        The digest of the heads of all lanes: what `signature` should be a signature of.
    signature : str or None
        The signature in the file, which has not been checked unless this was asked for.
    """

    findings: tuple[str, ...]
    heads: bytes = b""
    signature: str | None = None

    def __str__(self) -> str:
        return "\n".join(self.findings) or "the hash chain of the run is complete and unchanged"


def import_run(path: str | Path, store: str | Path, *, actor: str | None = None) -> None:
    """Fill a new store with what `export_run` wrote.

    The file is checked completely before anything is stored. The monitors continue where they were,
    and the import becomes part of the audit trail.

    Parameters
    ----------
    path : str or pathlib.Path
        A Parquet file written by `export_run`.
    store : str or pathlib.Path
        The path or URL of the new store.
    actor : str, optional
        Who does it; by default the name of the operating system's user.

    Raises
    ------
    ValueError
        If the file is not a complete export.
    TamperedError
        If the file is not as it was written; the message lists what was found.
    StoreError
        If the file is of another version, or the store already holds a run or cannot be written.
    """
    actor = checked_actor(actor)
    file = ExportFile(path)
    try:
        with (
            _new_store(store) as opened,
            readable_errors(path),
            opened.writing(exclusive=True, patience=PATIENCE_FOR_COPIES) as writer,
        ):
            _check_empty(writer.connection, opened.name)
            findings = tuple(islice(_fill(writer.connection, file), MAX_FINDINGS))
            if findings:
                raise TamperedError(
                    f"{path} is not as it was written, and was not imported: {'; '.join(findings)}"
                )
            settings = any_settings(queries.read_settings(writer.connection))
            recompute_kept(writer.connection, settings)
            if settings.kind == RELEASE_KIND:
                create_key_index(writer.connection)
            reason = f"{Path(path).name}, heads {file.heads.hex()}"
            queries.write_audit(writer, IMPORT, actor, reason)
    finally:
        file.close()


def check_export(
    path: str | Path, *, check_signature: Callable[[bytes, str], bool] | None = None
) -> ExportCheck:
    """Check an export as `import_run` does, without a store.

    Parameters
    ----------
    path : str or pathlib.Path
        A Parquet file written by `export_run`.
    check_signature : callable, optional
        A function of bytes and a signature that says whether it is one of a key that is trusted.
        If given, the export must be signed, and every signature in its hash chain must be valid.

    Returns
    -------
    ExportCheck
        What is wrong, and the signature of the export.

    Raises
    ------
    OSError
        If there is no such file, or it cannot be opened.
    """
    path = files.as_path("path", path)
    try:
        file = ExportFile(path)
    except (FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except (ValueError, StoreError) as error:
        return ExportCheck((str(error),))
    with TemporaryDirectory() as folder:
        try:
            with _new_store(Path(folder) / "run.db") as opened, readable_errors(path):
                found = list(_findings_of(opened, file, check_signature))
        except (ValueError, StoreError) as error:
            found = [str(error)]
        finally:
            file.close()
    return ExportCheck(tuple(found), file.heads, file.signature)


class _UndoError(Exception):
    """Rolls a transaction back."""


def _findings_of(
    store: Store, file: ExportFile, check_signature: Callable[[bytes, str], bool] | None
) -> Iterator[str]:
    found: list[str] = []
    try:
        with store.writing(exclusive=True, patience=PATIENCE_FOR_COPIES) as writer:
            found += islice(_fill(writer.connection, file), MAX_FINDINGS)
            if check_signature is not None:
                found += _wrong_signatures(writer.connection, file, check_signature)
            raise _UndoError
    except _UndoError:
        pass
    yield from found


def _fill(connection: sql.Connection, file: ExportFile) -> Iterator[str]:
    """Fill an empty store; what is wrong with what is in it then."""
    try:
        StoreFiller(connection, file).fill()
    except IntegrityError as error:
        cause = " ".join(str(error.orig).split())[:200]
        yield f"rows are there twice, or lack a value ({cause})"
        return
    try:
        wrong = list(find_tampering(connection))
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        wrong = [f"the hash chain has an entry that tether cannot have written ({error!r:.200})"]
    yield from wrong
    if not wrong:
        settings = any_settings(queries.read_settings(connection))
        yield from find_wrong_observations(connection, settings.limits)
        if settings.kind != RELEASE_KIND:
            yield from find_wrong_calibrations(connection)


def _wrong_signatures(
    connection: sql.Connection, file: ExportFile, check: Callable[[bytes, str], bool]
) -> Iterator[str]:
    if file.signature is None:
        yield "the export is not signed"
    elif not check(file.heads, file.signature):
        yield "the signature of the export is not one of a trusted key"
    after = 0
    while entries := read_entries(connection, CONTROL_LANE, after, ENTRIES_PER_QUERY):
        for entry in entries:
            if entry["signature"] is not None and not check(entry["head"], entry["signature"]):
                yield (
                    f"the signature of entry {entry['number']} of the hash chain ({entry['kind']}) "
                    f"is not one of a trusted key"
                )
        after = entries[-1]["number"]


@contextmanager
def _new_store(url: str | Path) -> Iterator[Store]:
    """A store, which is removed again if it was created here and filling it fails."""
    plain = sqlite_file(url)
    existed = plain is None or plain.exists()
    opened = Store(url)
    try:
        yield opened
    except BaseException:
        opened.close()
        if not existed and plain is not None:
            for ending in ("", "-wal", "-shm", "-queue"):
                Path(f"{plain}{ending}").unlink(missing_ok=True)
        raise
    opened.close()


def _check_empty(connection: sql.Connection, name: str) -> None:
    tables = (schema.lanes, schema.entries, schema.actions)
    filled = (connection.execute(sql.select(table).limit(1)).first() for table in tables)
    if queries.read_settings(connection) or any(row is not None for row in filled):
        raise StoreError(f"{name} holds a run already; import into a new store")
