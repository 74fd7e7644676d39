"""Worlds for logs in parts: the same rows in memory and behind a function that applies kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import tether


def in_pieces(columns: dict[str, Any], rng: np.random.Generator, pieces: int = 4, shuffle=False):
    """A function that applies a kernel to random pieces of columns, some of them without rows."""
    rows = len(next(iter(columns.values())))
    order = rng.permutation(rows) if shuffle else np.arange(rows)
    parts = np.split(order, np.sort(rng.integers(0, rows + 1, size=pieces - 1)))
    if shuffle:
        parts = [parts[k] for k in rng.permutation(len(parts))]

    def apply(kernel):
        return [
            kernel.partial({name: columns[name][part] for name in kernel.columns})
            for part in parts
            if len(part)
        ]

    return apply


@dataclass(frozen=True)
class World:
    """Columns of a log and of proposals, and the arguments of a calibration."""

    log: dict[str, Any]
    proposals: dict[str, Any] | None
    log_settings: dict[str, Any]
    settings: dict[str, Any]

    def in_memory(self):
        log = {name: values for name, values in self.log.items()}
        losses = [name for name in log if name.startswith("loss")]
        named = {name: log.pop(name) for name in losses}
        loss = named["loss"] if losses == ["loss"] else named
        made = tether.Log(loss, **log, **self.log_settings)
        drawn = None if self.proposals is None else tether.Proposals(**self.proposals)
        return tether.calibrate(made, drawn, **self.settings)

    def in_parts(self, rng, pieces=4, shuffle=False, source=in_pieces):
        losses = [name for name in self.log if name.startswith("loss")]
        mix = "log_mix" if "log_mix" in self.log else None
        log = tether.Log.scan(
            source(self.log, rng, pieces, shuffle),
            context=None,
            loss="loss" if losses == ["loss"] else losses,
            log_mix=mix,
            **self.log_settings,
        )
        drawn = None
        if self.proposals is not None:
            draws = source(self.proposals, rng, 3, shuffle)
            drawn = tether.Proposals.scan(draws, context=None, log_mix=mix)
        return tether.calibrate(log, drawn, **self.settings)


def marginal_world(rng: np.random.Generator) -> World:
    """Any log without contexts: ties, zeros, ratios past ±700, one row, mixtures, two losses."""
    rows, drawn = int(rng.choice([1, 2, 5, 20, 100, 500])), int(rng.choice([1, 3, 30, 200]))
    spread, ties = rng.choice([0.1, 1.0, 5.0, 300.0]), rng.random() < 0.4
    family = str(rng.choice(["clip", "mix"]))
    mixed = bool(rng.random() < 0.4)

    def scores(count: int) -> dict[str, np.ndarray]:
        safe = rng.normal(size=count) * rng.choice([1.0, 50.0])
        ratio = rng.normal(size=count) * spread
        ratio = np.round(2 * ratio) / 2 if ties else ratio
        columns = {"log_safe": safe, "log_optimized": safe + ratio}
        if mixed:
            columns["log_mix"] = np.logaddexp(
                np.log(0.6) + safe, np.log(0.4) + columns["log_optimized"]
            )
        return columns

    log, proposals = scores(rows), scores(drawn)
    if rng.random() < 0.3:
        log["log_optimized"][rng.random(rows) < 0.2] = -np.inf
    weight: Any = rng.choice(["empirical", "analytic", "fixed"])
    weight = float(rng.uniform(0.5, 30)) if weight == "fixed" else str(weight)
    if family == "mix" and weight == "analytic":
        weight = "empirical"
    kind = rng.random()
    loss = (rng.random(rows) < 0.3).astype(float) if kind < 0.5 else rng.random(rows)
    losses = {"loss": loss}
    alpha: Any = float(rng.choice([0.05, 0.2, 0.3, 0.5, 0.9]))
    if rng.random() < 0.3:
        losses = {"loss_harm": loss, "loss_delay": rng.random(rows) / 2}
        alpha = {"loss_harm": alpha, "loss_delay": 0.3}
    settings = {"alpha": alpha, "family": family, "test_weight": weight}
    settings["ratio_error"] = float(rng.choice([1.0, 1.0, 1.3]))
    without = family == "clip" and rng.random() < 0.25
    shares = {"safe_share": 0.6} if mixed else {}
    return World({**losses, **log}, None if without else proposals, shares, settings)


def table_columns(rng: np.random.Generator, rows: int, actions: int) -> dict[str, Any]:
    """Tables of all actions, and the losses of the actions taken."""

    def normalized(scores):
        return scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)

    safe = normalized(rng.normal(size=(rows, actions)))
    optimized = safe + rng.normal(size=(rows, actions)) * rng.choice([0.5, 2.0])
    if rng.random() < 0.3:
        optimized[np.arange(rows), rng.integers(0, actions, rows)] = -np.inf
    optimized = normalized(optimized)
    action = (rng.random((rows, 1)) > np.cumsum(np.exp(safe), axis=1)).sum(axis=1)
    action = np.minimum(action, actions - 1)
    taken = np.arange(rows), action
    return {
        "loss": ((action == 0) & (rng.random(rows) < 0.7)).astype(float),
        "log_safe": safe[taken],
        "log_optimized": optimized[taken],
        "log_safe_all": safe,
        "log_optimized_all": optimized,
    }


def stored_draws(rng: np.random.Generator, columns: dict[str, Any], count: int) -> dict[str, Any]:
    """Draws of both policies for every row of tables, as columns of lists."""
    rows = np.arange(len(columns["loss"]))[:, None]
    found = {}
    for policy in ("safe", "optimized"):
        shares = np.cumsum(np.exp(columns[f"log_{policy}_all"]), axis=1)
        drawn = np.stack(
            [(rng.random((len(rows), 1)) > shares).sum(axis=1) for _ in range(count)], axis=1
        )
        drawn = np.minimum(drawn, shares.shape[1] - 1)
        for name in ("log_safe", "log_optimized"):
            found[f"{policy}.{name}"] = columns[f"{name}_all"][rows, drawn]
    return found


def both(rng, rows, actions, draws, **settings):
    """The same calibration in memory and in parts, and the log in parts."""
    columns = table_columns(rng, rows, actions)
    plain = {name: columns[name] for name in ("loss", "log_safe", "log_optimized")}
    if not draws:
        memory = tether.calibrate(tether.Log(**columns), **settings)
        log = tether.Log.scan(
            in_pieces(columns, rng),
            log_safe_all="log_safe_all",
            log_optimized_all="log_optimized_all",
        )
        return memory, tether.calibrate(log, **settings), log
    stored = stored_draws(rng, columns, draws)
    joined = {
        name: np.concatenate([stored[f"safe.{name}"], stored[f"optimized.{name}"]], axis=1).ravel()
        for name in ("log_safe", "log_optimized")
    }
    labels = np.repeat(np.arange(rows), 2 * draws)
    source = np.tile(np.repeat(["safe", "optimized"], draws), rows)
    proposals = tether.Proposals(**joined, context=labels, source=source)
    memory = tether.calibrate(tether.Log(**plain, context=np.arange(rows)), proposals, **settings)
    log = tether.Log.scan(
        in_pieces({**plain, **stored}, rng),
        safe_draws=["safe.log_safe", "safe.log_optimized"],
        optimized_draws=["optimized.log_safe", "optimized.log_optimized"],
    )
    return memory, tether.calibrate(log, **settings), log


def contextual_world(seed: int):
    """Both calibrations of a small log with tables or stored draws, and the log in parts."""
    rng = np.random.default_rng(seed)
    rows, actions = int(rng.choice([1, 2, 3, 5, 12, 40, 150])), int(rng.choice([2, 2, 5]))
    draws = int(rng.choice([0, 0, 1, 2, 3]))
    weight: Any = rng.choice(["empirical", "analytic", "fixed", "fixed"])
    weight = float(rng.choice([1.0, 4.0])) if weight == "fixed" else str(weight)
    alpha = float(rng.choice([0.2, 0.3, 1 / 3, 0.5, 0.5]))
    return both(rng, rows, actions, draws, alpha=alpha, test_weight=weight)
