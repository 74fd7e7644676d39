"""Verification of a saved record: its digest, what it says, who signed it, and its log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tether._core import files, records, signing
from tether._core.verification import Finding, Verification
from tether.control.calibration import Calibration
from tether.control.calibration_checks import find_problems
from tether.control.calibration_record import lacking_entries
from tether.control.log import Log
from tether.control.proposals import Proposals
from tether.verification.recomputation import check_log
from tether.verification.record_kinds import find_kind

if TYPE_CHECKING:
    from tether._core.signing import PublicKey


def verify_record(
    path: str | Path,
    *,
    key: PublicKey | None = None,
    log: Log | None = None,
    proposals: Proposals | None = None,
) -> Verification:
    """Check a file that a `save` method wrote.

    Its content must have the digest that the file states, and must not contradict itself. With a
    key, the content must be signed by it. With a log, a calibration must come from exactly this log
    and these proposals, and calibrating again with its settings must give the same result.

    Parameters
    ----------
    path : str or pathlib.Path
        The file.
    key : str or pathlib.Path, optional
        The file of the public key that must have signed the content.
    log : Log, optional
        The log that a calibration must come from.
    proposals : Proposals, optional
        The proposals that it must come from.

    Returns
    -------
    Verification
        One finding for each check; `ok` where all hold.

    Raises
    ------
    OSError
        If the file, or that of the key, cannot be read.
    ValueError
        If `key` is not a public key, or `proposals` are given without a log.

    Examples
    --------
    >>> import tempfile, tether
    >>> log = tether.Log([0.0] * 50, [0.0] * 50, [0.0] * 50)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tether.calibrate(log, alpha=0.1).save(f"{folder}/found.json")
    ...     verify_record(f"{folder}/found.json", log=log).ok
    True
    """
    if proposals is not None and log is None:
        raise ValueError("proposals are compared together with a log: give log too")
    path = files.as_path("path", path)
    return Verification(str(path), tuple(_findings(path, key, log, proposals)))


def _findings(
    path: str | Path, key: PublicKey | None, log: Log | None, proposals: Proposals | None
) -> Iterator[Finding]:
    try:
        entries = records.parse(path)
    except ValueError as error:
        yield Finding("format", False, str(error))
        return
    problem = records.digest_problem(entries)
    digest = entries.get(records.DIGEST_ENTRY)
    yield Finding("digest", problem is None, problem or f"the content has the digest {digest}")
    consistent = True
    for finding in _consistency(entries):
        consistent = consistent and finding.ok is not False
        yield finding
    yield _signature(entries, key, changed=problem is not None)
    if entries["kind"] != Calibration._kind:
        if log is not None:
            yield Finding("log", False, f"a {entries['kind']} does not say which log it is from")
        return
    if consistent:
        found = Calibration._from_saved(records.content_of(entries))
        yield from check_log(found, log, proposals)


def _consistency(entries: dict[str, Any]) -> Iterator[Finding]:
    """Whether the content can be what it says to be."""
    kind = entries["kind"]
    record = find_kind(kind)
    if record is None:
        yield Finding("content", False, f"{kind!r} is not a kind of record that tether saves")
        return
    content, problems = records.content_of(entries, record._text_entries), []
    if record is Calibration and not lacking_entries(content):
        problems = list(find_problems(content))
    if not problems:
        try:
            record._from_saved(content)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            problems = [records.described(error)]
    for problem in problems:
        yield Finding("content", False, problem)
    if not problems:
        yield Finding("content", True, f"a complete {kind} that agrees with itself")


def _signature(entries: dict[str, Any], key: PublicKey | None, *, changed: bool) -> Finding:
    signature = entries.get(records.SIGNATURE_ENTRY)
    if key is not None:
        problem = records.signature_problem(entries, key)
        if problem is None and changed:
            problem = "the signature is not for this content, which was changed"
        signer = signing.key_id(signing.read_public_key(key))
        return Finding("signature", problem is None, problem or f"signed by {signer}")
    if signature is None:
        return Finding("signature", None, "not signed: whoever can write the file can forge it")
    named = signature.get("key") if isinstance(signature, dict) else None
    return Finding("signature", None, f"says to be signed by {named}: give the public key")
