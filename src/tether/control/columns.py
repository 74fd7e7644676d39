"""The columns of a log: which there are, and when they contradict themselves or each other."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tether._core import validate
from tether._core.arrays import Booleans, Floats, Losses
from tether._core.rows import Block
from tether.control.families import PathFamily

SHARE_TOLERANCE = 1e-6
"""How far, in logs, a mixture may be below the safe policy's share of it."""
SAME_ACTION_TOLERANCE = 1e-4
"""How far the scores of a row may be from those of its action in the tables."""
MIN_ROWS_OF_PROBABILITIES = 20
"""Fewer rows of log-densities than this may all lie between 0 and 1 by chance."""
ACTION_TABLES = ("log_safe_all", "log_optimized_all", "log_mix_all")


@dataclass(frozen=True)
class Acting:
    """The policies that acted in the rows of a log, where it was not always the safe policy.

    Parameters
    ----------
    log_logged : ndarray of float
        The log-density of each row's action under the policy that acted in that row.
    log_logged_all : ndarray of float, optional
        The same for every action of the row's tables (rows × actions).
    log_base_limit : ndarray of float, optional
        For each row, the log of a number that safe over acting density cannot exceed at any action
        in the row's context: 0 where the safe policy acted, log(1 + β) where mix did. Infinite by
        default. It must not depend on the action that was taken.
    """

    log_logged: Floats
    log_logged_all: Floats | None = None
    log_base_limit: Floats | None = None

    def __post_init__(self) -> None:
        validate.log_probabilities("log_logged", self.log_logged)
        if self.log_logged_all is not None:
            validate.log_probabilities("log_logged_all", self.log_logged_all, ndim=2, zero=True)


class PolicyPath:
    """The log-density of the tethered policy at each of several betas, for every row.

    A policy that is tethered at every token, or in any other way inside of an action, has a density
    that the scores of the two policies do not determine; a path is its table. The betas must not
    depend on the losses. At a beta of 0 the policy is the safe one and at an infinite beta the
    optimized one, whose scores the log has; between two betas of the path the policy at the smaller
    one is served.

    Parameters
    ----------
    family : str
        The name of what beta does: "token_clip" or "token_mix" for `tether.llm.TokenTether`.
    log_beta : array_like
        Log betas, finite and increasing.
    log_density : array_like
        The normalized log-density of each row at each beta (rows × betas); −inf where the policy
        at that beta never takes the action.
    drawn_at : array_like, optional
        For proposals, the log beta of the policy that drew each row: −inf for the safe one, inf for
        the optimized one.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, shape or values.

    Examples
    --------
    >>> PolicyPath("token_mix", [-1.0, 0.0], [[-3.0, -2.5], [-1.0, -1.5]])
    PolicyPath(token_mix, 2 rows, 2 betas)
    """

    def __init__(
        self,
        family: str,
        log_beta: ArrayLike,
        log_density: ArrayLike,
        *,
        drawn_at: ArrayLike | None = None,
    ) -> None:
        self.family = PathFamily(family).name
        self.log_beta = validate.frozen(np.array(log_beta, dtype=np.float64))
        betas = self.log_beta
        if betas.ndim != 1 or not len(betas) or not np.isfinite(betas).all():
            raise ValueError(f"log_beta must be a sequence of finite numbers, got {log_beta!r:.80}")
        if not (np.diff(betas) > 0).all():
            raise ValueError(f"log_beta must increase, got {betas!r:.200}")
        table = np.array(log_density, dtype=np.float64)
        if table.ndim != 2 or table.shape[1] != len(betas) or not len(table):
            raise ValueError(
                f"log_density must have one row per action and {len(betas)} columns, one per beta, "
                f"got shape {table.shape}"
            )
        if np.isnan(table).any() or (table == np.inf).any():
            raise ValueError("log_density must hold log-densities below inf, got NaN or inf")
        self.log_density = validate.frozen(table)
        self.drawn_at: Floats | None = None
        if drawn_at is not None:
            levels = np.array(drawn_at, dtype=np.float64)
            validate.same_length("drawn_at", levels, "log_density", len(table))
            if np.isnan(levels).any():
                raise ValueError("drawn_at must hold log betas, got NaN")
            self.drawn_at = validate.frozen(levels)

    def __len__(self) -> int:
        return len(self.log_density)

    def __repr__(self) -> str:
        return f"PolicyPath({self.family}, {len(self)} rows, {len(self.log_beta)} betas)"


def refuse_probabilities(name: str, scores: Floats) -> None:
    """Raise if a column of log-probabilities holds probabilities."""
    low, high = scores.min(), scores.max()
    if len(scores) >= MIN_ROWS_OF_PROBABILITIES and 0 <= low < high <= 1:
        raise ValueError(
            f"{name} must hold log-probabilities, but all its {len(scores)} values lie between 0 "
            f"and 1 ({low:.4g} to {high:.4g}), as probabilities do: take their logarithm. If these "
            f"are log-densities, subtract log_safe from all columns of scores: only differences "
            f"count"
        )


def named_losses(loss: Losses, rows: int) -> dict[str, Floats]:
    """Each loss by its name, checked."""
    columns = list(getattr(loss, "columns", ()))
    if len(columns) > 1 and not isinstance(loss, Mapping):
        raise ValueError(
            f"loss is a frame with the columns {columns[:5]}: several losses are passed as a "
            f"mapping of columns by name, dict(frame); one loss is a column"
        )
    named = loss if isinstance(loss, Mapping) else {"loss": loss}
    if not named:
        raise ValueError("loss is an empty mapping; at least one loss is needed")
    checked: dict[str, Floats] = {}
    for key, values in named.items():
        if not isinstance(key, str):
            raise TypeError(f"loss must be named by strings, got the name {key!r}")
        name = f"loss[{key!r}]" if isinstance(loss, Mapping) else "loss"
        checked[key] = validate.losses(name, values)
        validate.same_length(name, checked[key], "log_safe", rows)
    return checked


def checked_share(columns: Block, safe_share: float | None) -> float | None:
    """The share of rows that the safe policy produced, compared with the mixture."""
    if "log_mix" not in columns:
        if safe_share is not None and validate.real("safe_share", safe_share) != 1:
            raise ValueError(
                f"safe_share is {safe_share!r} but without log_mix the safe policy produced "
                f"every row; give log_mix too"
            )
        return 1.0
    if safe_share is None:
        return None
    share = validate.number("safe_share", safe_share, above=0, below=1, including=(1,))
    least = columns["log_safe"] + np.log(share)
    short = columns["log_mix"] < least - SHARE_TOLERANCE
    if short.any():
        row = int(np.argmax(short))
        raise ValueError(
            f"log_mix[{row}] is {columns['log_mix'][row]:g}, below log_safe + log(safe_share) = "
            f"{least[row]:g}: a mixture with that share of the safe policy is at least this large"
        )
    return share


def checked_max_ratio(columns: Block, max_ratio: float | None) -> float | None:
    """A number that no ratio exceeds, compared with the rows."""
    if max_ratio is None:
        return None
    validate.number("max_ratio", max_ratio, above=1, below=np.inf, including=(1,))
    log_ratio = columns["log_optimized"] - columns["log_safe"]
    beyond = log_ratio > np.log(max_ratio) + SHARE_TOLERANCE
    if beyond.any():
        row = int(np.argmax(beyond))
        raise ValueError(
            f"row {row} has the ratio exp(log_optimized - log_safe) = "
            f"{np.exp(log_ratio[row]):.6g}, above max_ratio = {max_ratio!r} "
            f"({int(beyond.sum())} such row(s))"
        )
    return float(max_ratio)


def check_table_names(names: Collection[str]) -> None:
    """Refuse tables without those that must be with them."""
    if ("log_safe_all" in names) != ("log_optimized_all" in names):
        lacking = "log_optimized_all" if "log_safe_all" in names else "log_safe_all"
        raise ValueError(f"{lacking} is missing: give the tables of both policies, or neither")
    if "log_mix_all" in names and "log_safe_all" not in names:
        raise ValueError("log_mix_all needs log_safe_all and log_optimized_all as well")
    if "log_safe_all" in names and ("log_mix_all" in names) != ("log_mix" in names):
        lacking = "log_mix" if "log_mix_all" in names else "log_mix_all"
        raise ValueError(
            f"{lacking} is missing: with tables the mixture must be known at every action, not "
            f"only at the actions taken"
        )


def check_tables(columns: Block) -> None:
    """Refuse tables that contradict each other, or the rows."""
    check_table_names(columns)
    tables = {name: columns[name] for name in ACTION_TABLES if name in columns}
    if not tables:
        return
    shape = columns["log_safe_all"].shape
    matches: Booleans = np.ones(shape, dtype=np.bool_)
    for name, table in tables.items():
        if table.shape != shape:
            raise ValueError(f"{name} has shape {table.shape} but log_safe_all {shape}")
        total = np.exp(table).sum(axis=1)
        off = np.abs(total - 1) > validate.TABLE_SUM_TOLERANCE
        if off.any():
            row = int(np.argmax(off))
            hint = "it must list every action"
            if abs(table[row].sum() - 1) <= validate.TABLE_SUM_TOLERANCE:
                hint = "its values look like probabilities: take their logarithm"
            raise ValueError(
                f"{name}[{row}] has probabilities that sum to {total[row]:.6g}, not to 1; {hint}"
            )
        taken = columns[name.removesuffix("_all")][:, None]
        matches &= np.isclose(table, taken, rtol=SAME_ACTION_TOLERANCE, atol=SAME_ACTION_TOLERANCE)
    absent = ~matches.any(axis=1)
    if absent.any():
        row = int(np.argmax(absent))
        raise ValueError(
            f"row {row} took an action with log_safe {columns['log_safe'][row]:g} and "
            f"log_optimized {columns['log_optimized'][row]:g}: no action of its tables "
            f"(log_safe_all, log_optimized_all) has these and its log_mix"
        )


def acting_columns(acting: Acting, columns: Block) -> Block:
    """What the rows carry of the policies that acted, checked against the rows."""
    rows, found = len(columns["log_safe"]), {"log_logged": acting.log_logged}
    validate.same_length("log_logged", acting.log_logged, "log_safe", rows)
    if (table := acting.log_logged_all) is not None:
        if "log_safe_all" not in columns:
            raise ValueError("log_logged_all needs log_safe_all and log_optimized_all in the log")
        if table.shape != columns["log_safe_all"].shape:
            shape = columns["log_safe_all"].shape
            raise ValueError(f"log_logged_all has shape {table.shape} but log_safe_all {shape}")
        found["log_logged_all"] = table
    if (limit := acting.log_base_limit) is not None:
        validate.same_length("log_base_limit", limit, "log_safe", rows)
        excess = columns["log_safe"] - acting.log_logged - limit
        if not (excess <= SHARE_TOLERANCE).all():
            row = int(np.argmax(~(excess <= SHARE_TOLERANCE)))
            raise ValueError(
                f"log_base_limit[{row}] is {limit[row]:g}, below log_safe − log_logged = "
                f"{columns['log_safe'][row] - acting.log_logged[row]:g} of its own row"
            )
        found["log_base_limit"] = limit
    return found
