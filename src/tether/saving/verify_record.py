"""Verification of a saved record: its digest, its content, who signed it, and its log."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tether._core import records, signing
from tether.control.calibrate import calibrate
from tether.control.calibration import Calibration
from tether.control.log import Log, Proposals
from tether.control.plan import Plan
from tether.monitor import KeyMonitor, RiskMonitor, ShiftMonitor
from tether.saving.archive import unpack
from tether.saving.save_and_load import MAX_POLICY_BYTES
from tether.thresholds.selection import Selection

if TYPE_CHECKING:
    from tether._core.signing import PublicKey

RESULT_TOLERANCE = 1e-6
"""How far two computations on different machines may be apart, relatively."""


@dataclass(frozen=True)
class Finding:
    """One thing that was checked, and whether it holds; None if it could not be checked."""

    name: str
    ok: bool | None
    text: str


@dataclass(frozen=True)
class Verification:
    """Everything that was checked of a file or a store."""

    subject: str
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return all(each.ok is not False for each in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """The subject, the findings and whether all is well, as plain values."""
        return {**records.to_plain(self), "ok": self.ok}

    def __str__(self) -> str:
        known = [each.ok for each in self.findings if each.ok is not None]
        said = f"{len(known)} of {len(known)} checks passed"
        if not self.ok:
            said = f"{known.count(False)} of {len(known)} checks failed"
        marks = {True: "ok", False: "WRONG", None: "not checked"}
        lines = [f"  {marks[each.ok]:<11}  {each.name}: {each.text}" for each in self.findings]
        return "\n".join([f"{self.subject}: {said}", *lines])


def verify_record(
    path: str | Path,
    *,
    key: PublicKey | None = None,
    log: Log | None = None,
    proposals: Proposals | None = None,
) -> Verification:
    """Check a file that a `save` method wrote, with one finding for each check.

    Its content must have the digest that the file states, and be complete. With a key, the content
    must be signed by it. With a log, calibrating again must give the same result.

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

    Raises
    ------
    OSError, ValueError
        If a file cannot be read, `key` is no public key, or `proposals` are given without a log.

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
    key = None if key is None else signing.read_public_key(key)
    return Verification(str(path), tuple(_findings(Path(path), key, log, proposals)))


def _findings(
    path: Path, key: PublicKey | None, log: Log | None, proposals: Proposals | None
) -> Iterator[Finding]:
    content = path.read_bytes()
    try:
        if content.startswith(b"PK"):
            unpack(content, MAX_POLICY_BYTES)
            yield Finding("digest", True, "the policies and rows have the digest in the archive")
            yield Finding("signature", None if key is None else False, "archives are not signed")
            return
        entries = records.parse(path)
        digest, signature = (Finding(*each) for each in records.findings(entries, key))
        yield from (digest, signature)
        if not digest.ok:
            return
        kind = entries["kind"]
        record = {records.kind_of(each): each for each in _record_classes()}.get(kind)
        if record is None:
            raise ValueError(f"{kind!r} is not a kind of record that tether saves")
        found = record.load(path)
    except ValueError as error:
        yield Finding("format", False, str(error))
        return
    yield Finding("content", True, f"a complete {kind}")
    if isinstance(found, Calibration) and log is not None:
        yield _recomputed(found, log, proposals)
    elif isinstance(found, Calibration):
        yield Finding("result", None, f"from {found.rows:,} rows: give the log to calibrate again")
    elif log is not None:
        yield Finding("result", False, f"a {kind} is not computed from a log")


def _record_classes() -> tuple[type[records.Saved], ...]:
    from tether.llm.run_preflight import Preflight

    monitors = (RiskMonitor, ShiftMonitor, KeyMonitor)
    return (Calibration, Plan, Selection, Preflight, *monitors)


def _recomputed(found: Calibration, log: Log, proposals: Proposals | None) -> Finding:
    """Whether the log gives this result."""
    try:
        again = calibrate(log, proposals, **settings_of(found))
    except (ValueError, TypeError) as error:
        if str(error).startswith("family must be"):
            return Finding("result", None, f"{found.family!r} is not a family of the package")
        return Finding("result", False, f"calibrating on the log fails: {error}")
    one, other = _determined(found), _determined(again)
    differs = next((name for name in one if not _close(one[name], other.get(name))), "")
    if found.chain is not None and found.log_beta != found.chain.log_beta:
        differs = "beta than the one that it served"
    told = f"a different {differs}" if differs else "the same"
    return Finding("result", not differs, f"calibrating again gives {told}")


def settings_of(found: Calibration) -> dict[str, Any]:
    """The arguments with which a calibration was made, as far as it says them."""
    target = "promise" if found.rule == "promise" else "alpha"
    weight, own = found.measured.test_weight, {}
    if found.chain is not None:
        levels = {name: level for name, level in found.chain.levels.items() if level > 0}
        own = {"spread": found.chain.spread, "safe_risk": levels or None}
    return {
        **own,
        target: {name: each.alpha for name, each in found.losses.items()},
        "bound": {name: each.bound for name, each in found.losses.items()},
        "ratio_error": max(each.ratio_error for each in found.losses.values()),
        "confidence": found.confidence,
        "family": found.family,
        "blend": found.blend,
        "test_weight": "empirical" if weight == "max_ratio" else weight,
    }


def _determined(result: Calibration) -> dict[str, Any]:
    """What the log determines of a result; of a soft chain not what depends on its draw."""
    chain, losses = result.chain, result.losses
    if chain is None:
        return {
            "beta": result.log_beta,
            "number of rows": result.rows,
            "risk or promise": losses,
            "effective sample size": result.measured.effective_sample_size,
        }
    return {
        "safe mean": {name: each.safe_mean for name, each in losses.items()},
        "level": chain.levels,
        "stake": chain.stakes,
        "share": chain.shares,
        "sequence of betas": chain.log_betas,
    }


def _close(first: Any, second: Any) -> bool:
    """Whether values are the same up to rounding, also inside lists and mappings."""
    one: list[Any] = []
    other: list[Any] = []
    alike = records.to_plain(first, one.append) == records.to_plain(second, other.append)
    return alike and all(map(_same, one, other))


def _same(one: Any, other: Any) -> bool:
    if not (isinstance(one, float) and isinstance(other, (int, float))):
        return bool(one == other)
    close = math.isclose(one, other, rel_tol=RESULT_TOLERANCE, abs_tol=1e-12)
    return close or (math.isnan(one) and math.isnan(other))
