"""A run, computed again by a process that had no part in it, and written down as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.rounds.export_audit import recompute_calibrations
from tests.rounds.worker_process import open_run
from tether.rounds import export_run, import_run, verify_export, verify_store


def recompute(url: str, folder: str) -> None:
    """Everything that follows from the rows: of the store, and of a copy by export and import."""
    export, copy = Path(folder) / "run.parquet", Path(folder) / "copy.db"
    export_run(url, export)
    import_run(export, copy, actor="test")
    found = {
        "wrong": [str(each) for each in _wrong(verify_store(url), verify_export(export))],
        "wrong in the copy": [str(each) for each in _wrong(verify_store(copy))],
        "calibrations": recompute_calibrations(export),
    }
    for name, store in (("store", url), ("copy", str(copy))):
        with open_run(store) as run:
            found[name] = read_run(run)
    (Path(folder) / "recomputed.json").write_text(json.dumps(found))


def read_run(run: Any) -> dict[str, Any]:
    """What a run says of itself, as plain values."""
    history, training = run.history(), run.training_rows()
    return {
        "pending": sorted(run.pending().ids.tolist()),
        "training": dict(
            sorted(zip(map(str, training.ids.tolist()), training.loss.tolist(), strict=True))
        ),
        "rounds": {str(each.number): _numbers(each) for each in history.rounds},
        "safe": _means(history.safe_losses, history.safe_reward),
        "alarms": [[each.round, each.monitor, each.message] for each in history.alarms],
        "standing": None if history.alarm is None else history.alarm.number,
    }


def _wrong(*verifications: Any) -> list[Any]:
    return [each for found in verifications for each in found.findings if each.ok is False]


def _numbers(record: Any) -> dict[str, Any]:
    counted = ("rows", "safe_rows", "calibration_rows", "observed", "withdrawn", "beta")
    found = {name: getattr(record, name) for name in counted}
    return found | _means(record.losses, record.reward)


def _means(losses: Any, reward: Any) -> dict[str, Any]:
    loss = losses.get("loss")
    return {
        "loss": None if loss is None else [loss.count, loss.mean, loss.lower, loss.upper],
        "reward": None if reward is None else [reward.count, reward.mean],
    }
