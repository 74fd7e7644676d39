"""Whether a store can be trusted: its hash chain, what follows from its rows, its signatures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sql

from tether._core.signing import key_id, read_private_key, read_public_key
from tether._core.verification import Finding, Verification
from tether.rounds.any_settings import any_settings
from tether.rounds.errors import StoreError, TamperedError, as_tampering
from tether.rounds.interventions import checked_actor
from tether.rounds.run_settings import decides_shares
from tether.rounds.store import queries, schema
from tether.rounds.store.chain_signer import chain_checker, chain_signer
from tether.rounds.store.checkpoints import find_wrong_checkpoints
from tether.rounds.store.database import PATIENCE_FOR_ROWS, Store
from tether.rounds.store.import_run import check_export
from tether.rounds.store.lanes import CONTROL_LANE, read_lanes
from tether.rounds.store.verify_run import find_tampering
from tether.rounds.store.writer import ACTIONS, OBSERVATIONS
from tether.rounds.verify_alarms import find_wrong_alarms
from tether.rounds.verify_calibrations import is_of_the_package
from tether.rounds.verify_decisions import find_wrong_decisions
from tether.rounds.verify_kept import find_wrong_sums
from tether.rounds.verify_observations import find_wrong_observations
from tether.rounds.verify_shift import find_wrong_shift

if TYPE_CHECKING:
    from tether._core.signing import PrivateKey, PublicKey

SIGN = "sign"
"""The act in the audit trail that only signs what is there."""


def verify_store(store: str | Path, *, key: PublicKey | None = None) -> Verification:
    """Check everything in a store against its hash chain, and its signatures against a key.

    Parameters
    ----------
    store : str or pathlib.Path
        The path or URL of an existing store.
    key : str, pathlib.Path or Ed25519PublicKey, optional
        The public key that must have signed it.

    Returns
    -------
    Verification
        What was checked, and what is wrong.

    Raises
    ------
    StoreError
        If there is no store, or it cannot be read.
    """
    opened = Store(store, create=False, check=False)
    try:
        with opened.reading(patience=PATIENCE_FOR_ROWS) as connection:
            findings = tuple(find_all(connection, key))
    finally:
        opened.close()
    return Verification(opened.name, findings)


def verify_export(path: str | Path, *, key: PublicKey | None = None) -> Verification:
    """Check an exported run as an import would, and its signatures against a key.

    Parameters
    ----------
    path : str or pathlib.Path
        A Parquet file written by `export_run`.
    key : str, pathlib.Path or Ed25519PublicKey, optional
        The public key that must have signed it.

    Returns
    -------
    Verification
        What was checked, and what is wrong.
    """
    check = None if key is None else chain_checker(key)
    found = check_export(path, check_signature=check)
    if found.findings:
        wrong = (Finding("export", False, text) for text in found.findings)
        return Verification(str(path), tuple(wrong))
    whole = Finding("export", True, f"the hash chain is complete, heads {found.heads.hex()}")
    signed = "not signed" if found.signature is None else "signed, not checked without a key"
    by_whom = Finding("signature", None, signed)
    if key is not None:
        by_whom = Finding("signature", True, f"by {key_id(read_public_key(key))}")
    return Verification(str(path), (whole, by_whom))


def sign_store(store: str | Path, key: PrivateKey, actor: str | None = None) -> None:
    """Sign everything that a store holds now, as a new entry of its audit trail.

    Parameters
    ----------
    store : str or pathlib.Path
        The path or URL of an existing store.
    key : str, pathlib.Path or Ed25519PrivateKey
        The private key.
    actor : str, optional
        Who signs; by default the name of the operating system's user.

    Raises
    ------
    StoreError
        If there is no store, or it cannot be written.
    """
    opened = Store(store, create=False, sign=chain_signer(key))
    try:
        with opened.writing(exclusive=True) as writer:
            if not queries.read_settings(writer.connection):
                raise StoreError(f"{opened.name} holds no run of tether yet")
            reason = f"with the key {key_id(read_private_key(key))}"
            queries.write_audit(writer, SIGN, checked_actor(actor), reason)
    finally:
        opened.close()


def find_all(connection: sql.Connection, key: PublicKey | None) -> Iterator[Finding]:
    """The findings about the store of a connection, in order."""
    wrong = list(find_tampering(connection)) or list(find_wrong_checkpoints(connection))
    yield from (Finding("hash chain", False, text) for text in wrong)
    if wrong:
        return  # nothing else can be relied on
    lanes = read_lanes(connection)
    entries = sum(lane.last_entry for lane in lanes.values())
    rows = sum(lane.last_action for lane in lanes.values())
    yield Finding("hash chain", True, f"{entries:,} entries and {rows:,} actions are as written")
    try:
        with as_tampering("the settings"):
            settings = queries.read_settings(connection)
    except TamperedError as error:
        yield Finding("settings", False, str(error))
        return
    yield from _check_decisions(connection, settings)
    if settings:
        yield from _check_observations(connection, settings)
    yield from _check_signatures(connection, key)


def _check_observations(connection: sql.Connection, settings: dict[str, Any]) -> Iterator[Finding]:
    """Whether tether can have written the observations, and the monitors follow from them."""
    name = "observations"
    wrong: list[str] = []
    try:
        with as_tampering("the state of the monitors"):
            own = any_settings(settings)
            wrong += find_wrong_observations(connection, own.limits)
            if not wrong:
                name = "monitors"
                wrong += find_wrong_sums(connection, own)
                wrong += find_wrong_shift(connection, own)
                wrong += find_wrong_alarms(connection, own)
    except TamperedError as error:
        wrong.append(str(error))
    yield from (Finding(name, False, text) for text in wrong)
    if not wrong:
        yield Finding(name, True, "their state follows from losses and contexts")


def _check_decisions(connection: sql.Connection, settings: dict[str, Any]) -> Iterator[Finding]:
    """Whether shares follow from the rows, and each calibration agrees with itself."""
    name = "steps" if decides_shares(settings) else "calibrations"
    wrong = find_wrong_decisions(connection, settings)
    yield from (Finding(name, False, text) for text in wrong)
    if wrong:
        return
    text = "their shares and systems follow from the rows"
    if not decides_shares(settings):
        query = sql.select(sql.func.count(schema.rounds.c.calibration))
        text = f"{connection.scalar(query) or 0:,} were computed again from the rows"
        if not is_of_the_package(settings["family"]):
            yield Finding(name, None, "not computed again: the family is not one of the package")
            return
    yield Finding(name, True, text)


def _check_signatures(connection: sql.Connection, key: PublicKey | None) -> Iterator[Finding]:
    """Whether the last signature is the key's, and how much was written after it."""
    entry = schema.entries
    query = sql.select(entry.c.lane, entry.c.number, entry.c.head, entry.c.signature)
    query = query.where(entry.c.signature.is_not(None)).order_by(entry.c.lane, entry.c.number)
    signed = []
    for lane, number, head, signature in connection.execute(query):
        if lane != CONTROL_LANE or not str(signature).startswith("ed25519:"):
            text = f"that of entry {number} of lane {lane} is none that tether writes"
            yield Finding("signature", False, text)
            return
        signed.append((number, head, signature))
    if key is None:
        text = f"{len(signed):,} signatures, not checked without a key" if signed else "not signed"
        yield Finding("signature", None, text)
        return
    is_of_the_key = chain_checker(key)
    for number, head, signature in signed:
        if not is_of_the_key(bytes(head), signature):
            yield Finding("signature", False, f"that of entry {number} is not the key's")
            return
    if not signed:
        yield Finding("signature", False, "the store is not signed")
        return
    later = read_lanes(connection)[CONTROL_LANE].last_entry - signed[-1][0]
    who = f"by {key_id(read_public_key(key))}"
    yield Finding("signature", True, f"{len(signed):,} {who}, the last at entry {signed[-1][0]}")
    actions, losses = (
        _rows_after(connection, signed[-1][0], each) for each in (ACTIONS, OBSERVATIONS)
    )
    if later or actions or losses:
        text = f"{later:,} records, {actions:,} actions and {losses:,} losses were written after it"
        yield Finding("signature", None, text)


def _rows_after(connection: sql.Connection, number: int, kind: str) -> int:
    """How many actions or losses were written after an entry of the control lane."""
    entry = schema.entries
    query = sql.select(entry.c.heads).where(entry.c.lane == CONTROL_LANE, entry.c.number == number)
    heads = json.loads(connection.scalar(query) or "{}")
    rows = entry.c.last - entry.c.first + 1
    total = 0
    for lane in read_lanes(connection):
        if lane >= 0:
            last = heads.get(str(lane), [0])[0]
            later = sql.select(sql.func.sum(rows)).where(
                entry.c.lane == lane, entry.c.kind == kind, entry.c.number > last
            )
            total += int(connection.scalar(later) or 0)
    return total
