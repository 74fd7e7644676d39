"""The scoreboard of mistakes: which of them the checks of a log notice, and what they suspect.

One row is a world and a number of rows, one column a mistake; a cell is the share of logs about
which something is said. The first column has no mistake: it is the share of false alarms.

    python -m benchmarks.mistakes [runs]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from scipy.special import log_softmax, softmax

from benchmarks.cases import Case
from benchmarks.worlds import draw
from tether._core.rows import Rows
from tether.control.checks import checks, findings

Columns = dict[str, np.ndarray]
World = Callable[[np.random.Generator, int], Columns]
SCORES = ("log_safe", "log_optimized")
LIMIT, PEAKED_LIMIT = 0.02, 0.1
"""The most false alarms, as a share of logs: few rows of peaked policies do lack what they do."""


def gaussian(
    rng: np.random.Generator, rows: int, shift: float = 1.0, scale: float = 0.8
) -> Columns:
    """Actions on a line, without contexts."""
    a = rng.normal(size=rows)
    optimized = -(((a - shift) / scale) ** 2) / 2 - np.log(scale)
    return {"loss/loss": (a > 1.5) * 1.0, "log_safe": -(a**2) / 2, "log_optimized": optimized}


def classes(rng: np.random.Generator, rows: int, actions: int = 5) -> Columns:
    """Eight contexts that come back, five actions, no tables."""
    known = np.random.default_rng(1)
    safe, optimized = (known.dirichlet(np.full(actions, 2.0), 8) for _ in range(2))
    context = rng.integers(0, 8, rows)
    found = listed(rng, safe[context], optimized[context])
    columns = {name: column for name, column in found.items() if not name.endswith("_all")}
    return {**columns, "context": context * 1.0}


def listed(rng: np.random.Generator, safe: np.ndarray, optimized: np.ndarray) -> Columns:
    """Rows with tables of all actions; the first action harms most."""
    rows = np.arange(len(safe))
    action = draw(safe, rng)
    columns = {"loss/loss": (rng.random(len(safe)) < 0.05 + 0.15 * (action == 0)) * 1.0}
    for name, table in (("log_safe", safe), ("log_optimized", optimized)):
        columns |= {name: np.log(table[rows, action]), f"{name}_all": np.log(table)}
    return columns


def features(rng: np.random.Generator, rows: int, actions: int = 5) -> Columns:
    """Contexts with features, softmax policies, tables."""
    known = np.random.default_rng(2)
    x = rng.normal(size=(rows, 4))
    safe, optimized = (softmax(x @ known.normal(size=(4, actions)), axis=1) for _ in range(2))
    return listed(rng, safe, optimized)


def peaked(rng: np.random.Generator, rows: int) -> Columns:
    """Classifiers that are nearly sure, with a small share of exploration."""
    known = np.random.default_rng(3)
    x = rng.normal(size=(rows, 4))
    tables = (0.95 * softmax(3 * x @ known.normal(size=(4, 5)), axis=1) + 0.01 for _ in range(2))
    return listed(rng, *tables)


def twice(rng: np.random.Generator, rows: int) -> Columns:
    """Every context is there twice, by design, and answered anew."""
    known = np.random.default_rng(2)
    x = np.repeat(rng.normal(size=(rows // 2, 4)), 2, axis=0)
    found = listed(rng, *(softmax(x @ known.normal(size=(4, 5)), axis=1) for _ in range(2)))
    return {**found, "context": np.repeat(np.arange(rows // 2), 2) * 1.0}


def taken(columns: Columns) -> np.ndarray:
    """The action of each row: the one whose score in the table is its own."""
    return np.abs(columns["log_safe_all"] - columns["log_safe"][:, None]).argmin(axis=1)


def rescored(columns: Columns, table: np.ndarray) -> Columns:
    """The same rows with other scores of the optimized policy."""
    own = table[np.arange(len(table)), taken(columns)]
    return {**columns, "log_optimized_all": table, "log_optimized": own}


def chosen(columns: Columns, which: np.ndarray) -> Columns:
    return {name: column[which] for name, column in columns.items()}


def swapped(rng: np.random.Generator, c: Columns) -> Columns:
    names = {"log_safe": "log_optimized", "log_optimized": "log_safe"}
    names |= {f"{a}_all": f"{b}_all" for a, b in list(names.items())}
    return {name: c[names.get(name, name)] for name in c}


def per_score(change: Callable[[np.ndarray], np.ndarray], *names: str) -> Callable[..., Columns]:
    def mistake(rng: np.random.Generator, c: Columns) -> Columns:
        return {name: change(column) if name in names else column for name, column in c.items()}

    return mistake


def shuffled(rng: np.random.Generator, c: Columns) -> Columns:
    """Scores of the safe policy from other rows."""
    return {**c, "log_safe": rng.permutation(c["log_safe"])}


def shuffled_actions(rng: np.random.Generator, c: Columns) -> Columns:
    """Actions of other rows, scored under the right policies."""
    rows, action = np.arange(len(c["log_safe"])), rng.permutation(taken(c))
    return {**c, **{name: c[f"{name}_all"][rows, action] for name in SCORES}}


def as_logits(rng: np.random.Generator, c: Columns) -> Columns:
    """Probabilities of the optimized policy taken for logits."""
    return rescored(c, log_softmax(np.exp(c["log_optimized_all"]), axis=1))


def repeated(rng: np.random.Generator, c: Columns) -> Columns:
    rows = len(c["log_safe"])
    return chosen(c, np.concatenate((np.arange(rows), np.arange(rows // 4))))


def filtered(rng: np.random.Generator, c: Columns) -> Columns:
    """A fifth of the rows is left out, those that the optimized policy prefers most."""
    ratio = c["log_optimized"] - c["log_safe"]
    return chosen(c, np.flatnonzero(ratio < np.quantile(ratio, 0.8)))


def no_action(rng: np.random.Generator, c: Columns) -> Columns:
    """The rows of one action are left out."""
    first = np.abs(c["log_safe_all"][:, 0] - c["log_safe"]) < 1e-9
    return chosen(c, np.flatnonzero(~first))


def trained(rng: np.random.Generator, c: Columns) -> Columns:
    """The optimized policy avoids the actions that were harmful in this very log."""
    table = c["log_optimized_all"].copy()
    table[np.arange(len(table)), taken(c)] -= 5 * c["loss/loss"]
    return rescored(c, log_softmax(table, axis=1))


WORLDS: dict[str, World] = {
    "gaussian": gaussian,
    "far": partial(gaussian, shift=2.0, scale=1.0),  # ratios have heavy tails
    "classes": classes,
    "features": features,
    "two": partial(features, actions=2),
    "peaked": peaked,
    "twice": twice,
}
MISTAKES: dict[str, Callable[[np.random.Generator, Columns], Columns]] = {
    "none": lambda rng, c: c,
    "swapped": swapped,
    "sign": per_score(np.negative, *SCORES),
    "base 10": per_score(lambda x: x / np.log(10), *SCORES),
    "temperature": per_score(lambda x: 1.3 * x, "log_safe"),
    "shuffled scores": shuffled,
    "shuffled actions": shuffled_actions,
    "copied column": lambda rng, c: {**c, "log_optimized": c["log_safe"]},
    "repeated rows": repeated,
    "filtered rows": filtered,
    "an action left out": no_action,
    "trained on it": trained,
    "logits": as_logits,
}
WITHOUT_TABLES = {"sign", "base 10", "temperature", "shuffled scores"}
WITH_TABLES = {"shuffled actions", "an action left out", "trained on it", "logits"}
"""Where these mistakes can be made: tables that are no distributions are refused anyway."""


def share_noticed(world: World, mistake: str, rows: int, runs: int, seed: int = 0) -> float:
    """The share of logs about which something is said; NaN where the mistake cannot be made."""
    noticed = 0
    for run in range(runs):
        rng = np.random.default_rng((seed, run))
        columns = world(rng, rows)
        if mistake in (WITHOUT_TABLES if "log_safe_all" in columns else WITH_TABLES):
            return np.nan
        made = Rows(MISTAKES[mistake](rng, columns))
        noticed += bool(findings(made, made.together(it=checks(made, 1.0))["it"], None, 1.0))
    return noticed / runs


def cases() -> Iterator[Case]:
    """Alarms about right logs, by world and number of rows, and about one with a mistake."""

    def noticed(world: World, mistake: str, rows: int, rng: np.random.Generator) -> float:
        return share_noticed(world, mistake, rows, 1, seed=int(rng.integers(1 << 32)))

    for name, world in WORLDS.items():
        limit = PEAKED_LIMIT if world is peaked else LIMIT
        for rows, runs in ((200, 300), (3000, 40)):
            right = partial(noticed, world, "none", rows)
            yield Case(
                f"checks of right logs, {name}, {rows} rows: alarms", right, limit, runs=runs
            )
        wrong = partial(noticed, world, "swapped", 3000)
        yield Case(f"checks, {name}, columns swapped, 3000 rows: alarms", wrong, limit, True, 40)


def main() -> None:
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    print("world, rows".ljust(18), *(name[:12].rjust(13) for name in MISTAKES), sep="")
    for name, world in WORLDS.items():
        for rows in (50, 200, 2000, 20000):
            runs = max(most * 200 // max(rows, 200), 10)
            cells = [share_noticed(world, mistake, rows, runs) for mistake in MISTAKES]
            shown = ("-" if np.isnan(cell) else f"{cell:.2f}" for cell in cells)
            print(f"{name} {rows}".ljust(18), *(cell.rjust(13) for cell in shown), sep="")


if __name__ == "__main__":
    main()
