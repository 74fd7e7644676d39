"""The log of the next round as Parquet, for a calibration elsewhere, and what comes back of it.

The files carry the digest of what they hold, `Log.scan` reads it and a calibration keeps it. A run
accepts the calibration if the log that it would make itself has the same digest.
"""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether.control.calibration import Calibration
from tether.control.chain import draw_uniform
from tether.control.log import EXPORT, Log, Proposals
from tether.runs.decide_beta import Evidence, told
from tether.runs.state import LOSS

ARGUMENTS = "calibrate.json"
"""The file with the arguments of `Log.scan` and of `calibrate`."""


def write_log(folder: Path, evidence: Evidence) -> str:
    """Write the log, its draws, and the arguments of `calibrate` as JSON; the log's digest."""
    import pyarrow as pa
    from pyarrow import parquet

    log, drawn, columns = evidence.log, evidence.contents.draws, _columns(evidence)
    folder.mkdir(parents=True, exist_ok=True)
    digest = _digest(columns, drawn)
    held = {EXPORT: json.dumps([digest, evidence.known.seq])}
    table = pa.table({name: _arrow(values) for name, values in columns.items()})
    parquet.write_table(table.replace_schema_metadata(held), folder / "log.parquet")
    if drawn is not None:
        source = np.where(drawn["from_safe"], "safe", "optimized")
        kept = {name: each for name, each in drawn.items() if name != "from_safe"}
        parquet.write_table(pa.table({**kept, "source": source}), folder / "proposals.parquet")
    share = log.safe_share if log.has_mixture else None
    scan: dict[str, Any] = {"loss": list(log.loss_names), "context": None, "safe_share": share}
    if "log_logged" in log.rows.names:
        scan |= {"log_logged": "log_logged", "log_base_limit": "log_base_limit"}
    told_to = {"scan": scan, "calibrate": {**evidence.asked, "ratio_error": log.ratio_error}}
    (folder / ARGUMENTS).write_text(json.dumps(told_to, indent=1) + "\n")
    return digest


def open_log(folder: str | Path) -> tuple[Log, Proposals | None, dict[str, Any]]:
    """Open what `Controller.export_log` wrote, to calibrate it on this machine.

    Returns
    -------
    tuple of Log, Proposals or None, and dict
        The log, which is read in parts, its draws, and the other arguments of `calibrate`.

    Examples
    --------
    >>> log, proposals, arguments = open_log("export")  # doctest: +SKIP
    >>> found = tether.calibrate(log, proposals, **arguments)  # doctest: +SKIP
    >>> run.begin(policy, calibration=found)  # doctest: +SKIP
    """
    from pyarrow import parquet

    held = json.loads(Path(folder, ARGUMENTS).read_text())
    log = Log.scan(Path(folder, "log.parquet"), **held["scan"])
    path = Path(folder, "proposals.parquet")
    drawn = Proposals.from_frame(parquet.read_table(path), context=None) if path.exists() else None
    return log, drawn, held["calibrate"]


def accepted(evidence: Evidence, found: Calibration) -> tuple[dict[str, Any], Calibration]:
    """A calibration that was made elsewhere as a decision, if it is of this log and these rules."""
    if exported(found)[0] != _digest(_columns(evidence), evidence.contents.draws):
        raise ValueError(
            "calibration is not of the log of this run and this policy: its digest differs from "
            "that of the export"
        )
    rule, asked, log = evidence.known.given.rule, evidence.asked, evidence.log
    losses, chain = found.losses.items(), found.chain
    own = {
        rule: {key: each.alpha for key, each in losses},
        "bound": {key: each.bound for key, each in losses},
        "confidence": found.confidence,
        "family": found.family,
        "seed": asked["seed"],
        "looks": 1 if chain is None else chain.looks,
    }
    if found.confidence is None and found.rule != rule:
        own[rule] = None
    if chain is not None and chain.uniform != draw_uniform(log.rows, asked["seed"]):
        own["seed"] = None
    for name, value in asked.items():
        if own[name] != value:
            raise ValueError(
                f"calibration was made with another {name} than the run asks for, {value!r}: pass "
                f"what {ARGUMENTS} in the export says"
            )
    return told(evidence, replace(found, probes=None))


def exported(found: Calibration) -> tuple[str, int]:
    """The digest of the log that a calibration is of, and the event up to which the log goes."""
    held = None if found.probes is None else found.probes.fingerprints.get(EXPORT)
    if held is None:
        raise ValueError(
            "calibration must come from a log that `export_log` wrote: it has no digest"
        )
    digest, seen = json.loads(held)
    return str(digest), int(seen)


def _columns(evidence: Evidence) -> dict[str, NDArray[Any]]:
    log, drawn = evidence.log, evidence.contents.draws
    listed = "log_logged_all" in log.rows.names
    if listed or log.policy_path is not None or (drawn is not None and "context" in drawn):
        raise ValueError(
            "export_log is for runs without contexts, or with alpha over finitely many actions: "
            "files do not hold all that the calibration of this run needs"
        )
    return {name.removeprefix(LOSS): values for name, values in log.rows.columns.items()}


def _digest(*held: dict[str, NDArray[Any]] | None) -> str:
    state = blake2b(digest_size=16)
    for columns in held:
        for name, values in sorted((columns or {}).items()):
            state.update(f"{name}{values.dtype.str}{values.shape}".encode())
            state.update(np.ascontiguousarray(values).tobytes())
    return state.hexdigest()


def _arrow(values: NDArray[Any]) -> Any:
    import pyarrow as pa

    if values.ndim == 1:
        return pa.array(values)
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])
