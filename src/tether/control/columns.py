"""The columns of logs and proposals: how they are named, and when they contradict each other.

Columns of arrays, of frames and of files go the same way: a mapping of the names that kernels
know to values, checked at once in memory and block by block where they are read in parts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from tether._core import frames, validate
from tether._core.arrays import Booleans, Floats, Integers, Losses
from tether._core.rows import BLOCK, Block, Rows
from tether.control.families import PATH_NAME

if TYPE_CHECKING:
    from tether.control.log import Log, Proposals

T = TypeVar("T")

SHARE_TOLERANCE = 1e-6  # how far, in logs, a mixture may be below the safe policy's share of it
SAME_ACTION_TOLERANCE = 1e-4  # how far the scores of a row may be from those of its tables
MIN_ROWS_OF_PROBABILITIES = 20  # fewer log-densities may all lie between 0 and 1 by chance
MAX_STANDARD_ERRORS = 6.0  # a mass further above 1 than this is an error, not chance
DRAW_COLUMNS = ("log_safe", "log_optimized", "log_mix")
ACTION_TABLES = ("log_safe_all", "log_optimized_all", "log_mix_all", "log_logged_all")
LOG_COLUMNS = (*DRAW_COLUMNS, "reward", "log_logged", "log_base_limit", *ACTION_TABLES)
SCANNED_COLUMNS = (*LOG_COLUMNS, "safe_draws", "optimized_draws")
SOURCES = ("safe", "optimized")


class PolicyPath:
    """The log-density of the tethered policy at each of several betas, for every row.

    A policy that is tethered at every token has a density that the scores of the two policies do
    not determine; a path is its table. The betas must not depend on the losses. Between two of them
    the policy at the smaller one is served; at 0 and inf it is the safe and the optimized policy.

    Parameters
    ----------
    family : str
        The family of the path: "token_clip" or "token_mix" for `tether.llm.TokenTether`.
    log_beta : array_like
        Log betas, finite and increasing.
    log_density : array_like
        The normalized log-density of each row at each beta (rows × betas); −inf where the policy
        at that beta never takes the action.
    drawn_at : array_like, optional
        For proposals, the log beta of the policy that drew each row: −inf for the safe one, inf for
        the optimized one.

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
        if not isinstance(family, str) or not PATH_NAME.fullmatch(family):
            named = "'token_clip', 'token_mix' or, with the share of a blend, 'token_clip(0.01)'"
            raise ValueError(f"the family of a path must be {named}, got {family!r}")
        self.family = family
        self.log_beta = betas = validate.floats("log_beta", log_beta)
        table = validate.log_probabilities("log_density", log_density, ndim=2, zero=True)
        increases = np.isfinite(betas).all() and (np.diff(betas) > 0).all()
        if not increases or table.shape[1] != len(betas):
            raise ValueError(
                f"log_beta must hold finite numbers that increase, and log_density a column for "
                f"each of them, got {betas!r:.200} and {table.shape[1]} columns"
            )
        self.log_density, self.drawn_at = table, None
        if drawn_at is not None:
            self.drawn_at = validate.floats("drawn_at", drawn_at)
            validate.same_length("drawn_at", self.drawn_at, "log_density", len(table))

    def __len__(self) -> int:
        return len(self.log_density)

    def __repr__(self) -> str:
        return f"PolicyPath({self.family}, {len(self)} rows, {len(self.log_beta)} betas)"


class Columned:
    """What a log and proposals share: columns that lie in `rows`, wherever that is."""

    rows: Rows
    _known: ClassVar[tuple[str, ...]]

    def __getattr__(self, name: str) -> Any:
        """A column of rows in memory, or None; an error where rows lie in files."""
        if name not in self._known:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self.rows.columns.get(name)

    def __len__(self) -> int:
        return len(self.rows)


# ---- where columns are -------------------------------------------------------------------------

Chosen = dict[str, str | Sequence[str]]
"""For each column that kernels know, where it is: a name, or several names of a table."""


def choose(
    known: Sequence[str],
    named: Mapping[str, str | Sequence[str] | None],
    accepted: Sequence[str],
    loss: str | Sequence[str] = (),
) -> Chosen:
    """Where each column is, of a frame or of files with the known names.

    A column `log_mix` is used if there is one, and so are tables called by the name of a table, or
    by that name and an underscore.
    """
    if odd := set(named) - set(accepted):
        raise TypeError(f"there is no argument {min(odd)!r}; columns are {', '.join(accepted)}")
    names = [loss] if isinstance(loss, str) else list(loss)
    if len(set(names)) < len(names) or ("reward" in accepted and not names):
        raise ValueError(f"loss must name at least one column, and none twice, got {loss!r}")
    columns: Chosen = {"loss/loss" if loss == name else f"loss/{name}": name for name in names}
    columns |= {"log_safe": "log_safe", "log_optimized": "log_optimized"}
    for name in ("log_mix", *(each for each in ACTION_TABLES if each in accepted)):
        several = [each for each in known if each.startswith(f"{name}_")]
        if name in known:
            columns[name] = name
        elif several and name != "log_mix":
            columns[name] = several
    columns |= {name: given for name, given in named.items() if given is not None}
    columns = {name: place for name, place in columns.items() if place or place == ""}
    check_names(columns)
    needed = DRAW_COLUMNS[: 3 if "log_mix" in columns else 2]
    for policy in SOURCES if "safe_draws" in columns else ():
        drawn = columns[f"draws_{policy}"] = columns.pop(f"{policy}_draws")
        if isinstance(drawn, str) or len(drawn) != len(needed):
            raise ValueError(
                f"{policy}_draws must name {len(needed)} columns of lists, with "
                f"{', '.join(needed)} of the draws, got {drawn!r}"
            )
    return columns


def used(columns: Chosen) -> set[str]:
    """The names that columns have where they are read."""
    several = ([name] if isinstance(name, str) else name for name in columns.values())
    return {each for names in several for each in names}


def read(frame: Any, columns: Chosen) -> dict[str, Any]:
    """The chosen columns of a frame."""
    return {
        name: frames.column(frame, name.partition("/")[0], column)
        if isinstance(column, str)
        else np.column_stack([frames.column(frame, name, each) for each in column])
        for name, column in columns.items()
    }


# ---- what columns must satisfy -----------------------------------------------------------------


def checked(given: Mapping[str, Any], *, draws: bool = False) -> Block:
    """Columns as arrays of one length, None left out; −inf is accepted where it has a meaning."""
    columns: Block = {}
    for name, values in given.items():
        if values is None:
            continue
        if name.startswith("loss/"):
            shown = "loss" if name == "loss/loss" else f"loss[{name[5:]!r}]"
            columns[name] = validate.losses(shown, values)
        elif name == "reward":
            columns[name] = validate.floats(name, values, meaning="reward", finite=True)
        elif name.startswith(("draws_", "base_")):
            columns[name] = values
            if np.isnan(values).any():
                validate.reject(name, values, np.isnan(values), "the log ratio of a draw")
        elif name in ("log_base_limit", "drawn_at"):
            columns[name] = validate.floats(name, values)
        elif name in ("from_safe", "by_safe"):
            columns[name] = np.asarray(values, np.bool_)
        else:
            table = name.endswith(("_all", "_path"))
            zero = draws or table or name == "log_optimized"
            columns[name] = validate.log_probabilities(name, values, ndim=1 + table, zero=zero)
    for name, column in columns.items():
        validate.same_length(name, column, "log_safe", len(columns["log_safe"]))
    return columns


def check_log(given: Mapping[str, Any], safe_share: float | None, max_ratio: float | None) -> Block:
    """The checked columns of a log; an error if they contradict each other or what is stated."""
    columns = checked(given)
    refuse_probabilities(columns)
    _check_tables(columns)
    if safe_share is not None and "log_mix" in columns:
        least, log_mix = columns["log_safe"] + np.log(safe_share), columns["log_mix"]
        text = "log_mix[{row}] is {:g}, below its smallest value log_safe + log(safe_share) = {:g}"
        _reject_first(log_mix < least - SHARE_TOLERANCE, text, log_mix, least)
    if max_ratio is not None:
        log_ratio, most = columns["log_optimized"] - columns["log_safe"], np.log(max_ratio)
        text = f"row {{row}} has log_optimized − log_safe = {{:g}}, above log(max_ratio) = {most:g}"
        _reject_first(log_ratio > most + SHARE_TOLERANCE, text, log_ratio)
    if (limit := columns.get("log_base_limit")) is not None:
        base = columns["log_safe"] - columns["log_logged"]
        text = "log_base_limit[{row}] is {:g}, below log_safe − log_logged = {:g} of its own row"
        _reject_first(~(base - limit <= SHARE_TOLERANCE), text, limit, base)
    return columns


def _reject_first(bad: Booleans, text: str, *values: Floats) -> None:
    """Raise with the values of the first bad row, if there is one."""
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(text.format(*(each[row] for each in values), row=row))


def refuse_probabilities(columns: Block) -> None:
    """Raise if a column of log-probabilities holds probabilities."""
    for name in ("log_safe", "log_optimized"):
        low, high = columns[name].min(), columns[name].max()
        if len(columns[name]) >= MIN_ROWS_OF_PROBABILITIES and 0 <= low < high <= 1:
            raise ValueError(
                f"{name} must hold log-probabilities, but all its values lie between 0 and 1 "
                f"({low:.4g} to {high:.4g}): take their logarithm; if these are log-densities, "
                f"subtract log_safe from all columns of scores: only differences count"
            )


def named_losses(loss: Losses) -> dict[str, Any]:
    """Each loss by the name of its column."""
    if not isinstance(loss, Mapping):
        return {"loss/loss": loss}
    if not loss or not all(isinstance(name, str) for name in loss):
        raise TypeError(f"loss must name losses by strings, at least one, got {list(loss)[:3]}")
    return {f"loss/{name}": values for name, values in loss.items()}


NEEDED = (
    *((("log_safe_all",), "log_optimized_all"), (("log_optimized_all",), "log_safe_all")),
    *((("log_mix_all",), "log_safe_all"), (("log_mix_all",), "log_mix")),
    (("log_mix", "log_safe_all"), "log_mix_all"),  # at every action, not only at those taken
    *((("log_logged_all",), "log_safe_all"), (("log_logged_all",), "log_logged")),
    *((("log_base_limit",), "log_logged"), (("by_safe",), "log_logged")),
    *((("safe_draws",), "optimized_draws"), (("optimized_draws",), "safe_draws")),
)
"""Columns, and the one that they need together."""


def check_names(names: Collection[str]) -> None:
    """Refuse columns that do not go together, or need another one which is missing."""
    for present, needed in NEEDED:
        if needed not in names and all(name in names for name in present):
            raise ValueError(f"{needed} is missing: {' and '.join(present)} cannot do without it")
    if "safe_draws" in names and "log_safe_all" in names:
        raise ValueError("safe_draws are not needed with log_safe_all: the tables are exact")


def _check_tables(columns: Block) -> None:
    """Refuse tables that contradict each other, or the rows."""
    check_names(columns)
    if "log_safe_all" not in columns:
        return
    shape = columns["log_safe_all"].shape
    matches: Booleans = np.ones(shape, dtype=np.bool_)
    for name in ACTION_TABLES:
        if (table := columns.get(name)) is None:
            continue
        if table.shape != shape:
            raise ValueError(f"{name} has shape {table.shape} but log_safe_all {shape}")
        total = np.exp(table).sum(axis=1)
        _reject_first(
            np.abs(total - 1) > validate.TABLE_SUM_TOLERANCE,
            f"{name}[{{row}}] has probabilities that sum to {{:.6g}}, not to 1 (the values "
            f"themselves sum to {{:.6g}}): it must list the logarithms of all of them",
            *(total, table.sum(axis=1)),
        )
        taken = columns[name.removesuffix("_all")][:, None]
        matches &= np.isclose(table, taken, rtol=SAME_ACTION_TOLERANCE, atol=SAME_ACTION_TOLERANCE)
    _reject_first(
        np.asarray(~matches.any(axis=1)),
        "row {row} took an action with log_safe {:g} and log_optimized {:g}: no action of its "
        "tables (log_safe_all, log_optimized_all) has these, its log_mix and its log_logged",
        *(columns["log_safe"], columns["log_optimized"]),
    )


def check_draws(given: Mapping[str, Any]) -> Block:
    """The checked columns of proposals; no policy makes a draw that it cannot make."""
    columns = checked(given, draws=True)
    if columns["log_safe"].any():  # else the other column holds log ratios, often positive
        refuse_probabilities(columns)
    if "drawn_at" in columns:
        return columns
    for policy, drew in (("safe", columns["from_safe"]), ("optimized", ~columns["from_safe"])):
        values = columns[f"log_{policy}"]
        text = f"log_{policy}[{{row}}] is {{:g}}, but the {policy} policy drew this row"
        _reject_first(drew & np.isneginf(values), text, values)
    return columns


def from_safe(source: Any, rows: int) -> Booleans:
    """Which draws the safe policy made."""
    if isinstance(source, str):
        return np.full(rows, validate.choice("source", source, SOURCES) == "safe")
    names = validate.labels("source", source, rows)
    unknown = ~np.isin(names, SOURCES)
    if unknown.any():
        validate.reject("source", names, unknown, "'safe' or 'optimized'")
    return np.asarray(names == "safe")


# ---- what rows and draws have in common --------------------------------------------------------


class Changed(Rows):
    """Rows whose blocks are changed when they are read."""

    def __init__(self, rows: Rows, change: Callable[[Block], Block]) -> None:
        self._rows, self._change, self.names = rows, change, rows.names

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def columns(self) -> Block:
        """All rows as one block."""
        return self._change(self._rows.columns)

    def map(self, kernel: Callable[[Block], T], size: int = BLOCK) -> Iterator[T]:
        """What a kernel returns for each changed block."""
        change = self._change  # without the rows, for kernels that travel to other processes
        return self._rows.map(lambda block: kernel(change(block)), size)


@dataclass(frozen=True)
class Match:
    """Which context each row and each draw is in; one context for all where there are none.

    `rows` says how many rows each context has, and `counts` how many draws of the safe (first) and
    of the optimized policy.
    """

    row: Integers
    draw: Integers
    rows: Integers
    counts: Integers

    @property
    def foreseeing(self) -> tuple[float, float]:
        """How many draws of each policy the next action is foreseen by.

        With m_x draws in a context that has a share p_x of the rows, the smallest m_x/p_x.
        """
        used = self.rows > 0
        safe, optimized = (self.counts[:, used] / self.rows[used]).min(axis=1) * self.rows.sum()
        return float(safe), float(optimized)


def match(log: Log, proposals: Proposals) -> Match:
    """The contexts of rows and draws; an error if a context of the log has no draws."""
    if log.context is None or proposals.context is None:
        if log.contextual or proposals.context is not None:
            present, lacking = ("log", "proposals") if log.contextual else ("proposals", "log")
            raise ValueError(f"the {present} has contexts but the {lacking} has none; give both")
        none, made = np.zeros(1, np.int64), int(proposals.from_safe.sum())
        counts = np.array([[made], [len(proposals) - made]], np.int64)
        return Match(none, none, np.array([len(log)]), counts)
    if (log.context.dtype.kind in "US") != (proposals.context.dtype.kind in "US"):
        kinds = f"{log.context.dtype} in the log and {proposals.context.dtype} in the proposals"
        raise TypeError(f"context is {kinds}: labels must have the same type to be matched")
    every = np.concatenate((log.context, proposals.context))
    place = np.unique(every, return_inverse=True)[1]
    row, draw = np.split(place, [len(log)])
    size, drew = place.max() + 1, (proposals.from_safe, ~proposals.from_safe)
    counts = np.array([np.bincount(draw[each], minlength=size) for each in drew], np.int64)
    if (absent := (counts.sum(axis=0) == 0)[row]).any():
        missing = np.unique(log.context[absent])
        raise ValueError(
            f"proposals has no draw in context {log.context[np.argmax(absent)]!s} of the log "
            f"({len(missing)} such context(s))"
        )
    return Match(row, draw, np.bincount(row, minlength=size), counts)


def check_normalizer(proposals: Proposals, matched: Match) -> None:
    """Refuse draws that do not come from the policies whose log-probabilities they carry.

    The integral of the optimized density over the actions of the safe policy is at most one. An
    estimate clearly above one means that the distribution scored is not the one sampled from.
    """
    safe, optimized = matched.counts[:, matched.draw].astype(np.float64)
    if not safe.any():
        return  # each draw contributes optimized/(n·optimized): the estimate is 1
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        ratio = np.exp(proposals.log_optimized - proposals.log_safe)
        terms = (safe + optimized) / (safe / ratio + optimized)
    terms = np.where(np.isnan(terms), 0.0, terms)
    refuse_larger_mass("proposals: the normalizer", len(terms), terms.sum(), float(terms @ terms))


def refuse_larger_mass(name: str, size: float, total: float, squares: float) -> None:
    """Raise if the mean of estimates of a mass of at most one is larger by more than chance."""
    mean = total / size
    # A few draws may agree by chance, so a standard deviation below one is not trusted.
    error = np.sqrt(max(squares / size - mean**2, 1.0) / size)
    if not mean <= 1 + MAX_STANDARD_ERRORS * error:
        raise ValueError(
            f"{name} comes out as {mean:.4g} ± {error:.2g} and can be at most 1: the draws do not "
            f"come from the policies whose log-probabilities they carry"
        )


def ratios_of_draws(safe: Floats, optimized: Floats, mix: Floats | None = None) -> list[Floats]:
    """Log ratios of draws, and with a mixture their log bases.

    A draw that the safe policy cannot make is always rejected: its ratio is infinite.
    """
    possible = (safe > -np.inf) | np.isnan(safe)
    with np.errstate(invalid="ignore"):
        found = [np.where(possible, optimized - safe, np.inf)]
        return found if mix is None else [*found, np.where(possible, safe - mix, -np.inf)]


def with_ratios(block: Block) -> Block:
    """The block with log ratios of stored draws, and their log bases, in place of their scores."""
    found = dict(block)
    for policy in SOURCES:
        if (scores := block.get(f"draws_{policy}")) is None:
            continue
        safe, optimized, *mix = np.split(scores, 3 if "log_mix" in block else 2, axis=1)
        found[f"draws_{policy}"], *base = ratios_of_draws(safe, optimized, *mix)
        found |= {f"base_{policy}": each for each in base}
    return found
