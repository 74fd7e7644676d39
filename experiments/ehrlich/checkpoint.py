"""Runs on disk: after every round a run is left so that another process can go on with it.

A run's folder holds each round's model and prompts once, and `state.pt` with everything else.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from experiments.ehrlich.loop import Run
from experiments.ehrlich.model import Transformer
from experiments.ehrlich.policy import Prompted
from experiments.ehrlich.rows import Rows, Served
from experiments.ehrlich.start import Start


def _write(kept: Any, path: Path) -> None:
    """Whole or not at all."""
    torch.save(kept, path.with_suffix(".part"))
    path.with_suffix(".part").replace(path)


def save(run: Run, folder: Path) -> None:
    """Leave the run as it is after its last round."""
    folder.mkdir(parents=True, exist_ok=True)
    last = len(run.table) - 1
    weights = {key: value.cpu() for key, value in run.current.model.state_dict().items()}
    seeds = torch.as_tensor(run.current.seeds)
    _write({"weights": weights, "seeds": seeds}, folder / f"round-{last:02d}.pt")
    rows = None
    if run.rows is not None:
        past = [None if each is None else torch.as_tensor(each) for each in run.rows.log_past]
        plain = (run.rows.actions, run.rows.loss, run.rows.log_safe)
        rows = [*(torch.as_tensor(each) for each in plain), past]
    state = {
        "table": run.table,
        "counts": run.counts,
        "served": [
            (each.optimized is not None, each.log_beta, each.log_psi) for each in run.served
        ],
        "training": [torch.as_tensor(each) for each in run.training],
        "rows": rows,
        "stock_used": run.safe.used,
        "base": run.base,
        "rng": run.rng.bit_generator.state,
    }
    _write(state, folder / "state.pt")


def _model(start: Start, folder: Path, number: int) -> Prompted:
    kept = torch.load(folder / f"round-{number:02d}.pt", weights_only=True)
    model = Transformer(start.model.shape).to(next(start.model.parameters()).device)
    model.load_state_dict(kept["weights"])
    return Prompted(model.eval(), kept["seeds"].numpy(), start.language)


def resume(run: Run, folder: Path) -> Run:
    """Bring a fresh run to where its folder left it; without a folder it stays fresh."""
    if not (folder / "state.pt").exists():
        return run
    state = torch.load(folder / "state.pt", weights_only=True)
    run.table, run.counts = state["table"], state["counts"]
    run.training = [each.numpy() for each in state["training"]]
    run.rng.bit_generator.state = state["rng"]
    run.safe.used = state["stock_used"]
    for number, (optimized, log_beta, log_psi) in enumerate(state["served"]):
        policy = _model(run.start, folder, number) if optimized else None
        run.served.append(Served(policy, run.family, log_beta, log_psi))
    run.current = _model(run.start, folder, len(run.table) - 1)
    run.base = state["base"]
    run.model = _model(run.start, folder, run.base).model
    if state["rows"] is not None:
        actions, loss, log_safe, past = state["rows"]
        log_past = tuple(None if each is None else each.numpy() for each in past)
        run.rows = Rows(actions.numpy(), loss.numpy(), log_safe.numpy(), log_past)
    return run


def table(folder: Path) -> list[dict[str, Any]]:
    """What a run has reported so far."""
    if not (folder / "state.pt").exists():
        return []
    return torch.load(folder / "state.pt", weights_only=True)["table"]


def save_table(table: list[dict[str, Any]], folder: Path) -> None:
    """Keep what a run reported that is not gone on with."""
    folder.mkdir(parents=True, exist_ok=True)
    _write({"table": table}, folder / "state.pt")


def finish(folder: Path) -> None:
    """A finished run needs its models no more, only what it reported."""
    for path in folder.glob("round-*.pt"):
        path.unlink()
