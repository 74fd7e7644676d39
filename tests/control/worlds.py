"""Small worlds of every family, and their weights written down as the definitions read.

`World.weights(log_beta)` has one row per row of the log, computed one by one and without any of the
package's kernels; `World.test(log_beta)` is the test weight, in the same unit.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import cached_property
from itertools import permutations
from typing import Any

import numpy as np

from tether.control.calibrate import calibrate
from tether.control.columns import PolicyPath
from tether.control.families import Family
from tether.control.log import Log, Proposals

KINDS = ("clip", "mix", "tables", "budgeted tables", "draws", "path", "own")
ENDS = 1000.0


class Geometric(Family):
    """A family of a user's own: safe·ρ^(β/(1+β)), up to its normalizing constant."""

    name = "geometric"

    def log_kernel(self, log_safe, log_optimized, log_beta):
        share = 1 / (1 + np.exp(-np.clip(log_beta, -500, 500)))
        return (1 - share) * log_safe + share * log_optimized


def table_log(loss, action, safe, optimized, **more):
    """A log whose rows took these actions of their tables; one table serves all rows."""
    rows = np.arange(len(action))
    tables = [np.broadcast_to(each, (len(rows), np.shape(each)[-1])) for each in (safe, optimized)]
    own = (each[rows, action] for each in tables)
    return Log(loss, *own, log_safe_all=tables[0], log_optimized_all=tables[1], **more)


@dataclass
class World:
    """A log with proposals, a family, and constraints by name: alpha and bound."""

    kind: str
    columns: dict[str, Any]
    losses: dict[str, np.ndarray]
    draws: dict[str, Any] | None
    alphas: dict[str, float]
    bounds: dict[str, float]
    ratio_error: float = 1.0
    test_weight: str | float = "empirical"
    family: Any = "clip"
    more: dict[str, Any] = field(default_factory=dict)

    def log(self, rows=slice(None)):
        """The log of some of the rows."""
        scalars = ("safe_share", "max_ratio")
        columns = {k: v if k in scalars else v[rows] for k, v in self.columns.items()}
        if self.kind == "path":
            columns["policy_path"] = PolicyPath("token_mix", self.more["t"], columns.pop("path"))
        losses = {name: each[rows] for name, each in self.losses.items()}
        return Log(losses, columns.pop("log_safe"), columns.pop("log_optimized"), **columns)

    def proposals(self):
        """The proposals, if there are any."""
        if self.draws is None:
            return None
        columns = dict(self.draws)
        if self.kind == "path":
            path, at = columns.pop("path"), columns.pop("drawn_at")
            columns["policy_path"] = PolicyPath("token_mix", self.more["t"], path, drawn_at=at)
        return Proposals(columns.pop("log_safe"), columns.pop("log_optimized"), **columns)

    def calibrate(self, rows=slice(None)):
        """What the package finds; that random scores look wrong is no matter here."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            asked = {"alpha": self.alphas, "bound": self.bounds, "family": self.family}
            asked |= {"test_weight": self.test_weight, "ratio_error": self.ratio_error}
            return calibrate(self.log(rows), self.proposals(), **asked)

    def __len__(self):
        return len(self.columns["log_safe"])

    @cached_property
    def reach(self):
        """A log beta past all ratios, by so much that the analytic test weight has failed."""
        most = [np.abs(self.columns["log_optimized"] - self.columns["log_safe"]).max()]
        if "log_safe_all" in self.columns:
            tables = self.columns["log_optimized_all"] - self.columns["log_safe_all"]
            most.append(np.abs(tables).max())
        if self.draws is not None:
            most.append(np.abs(self.draws["log_optimized"] - self.draws["log_safe"]).max())
        return max(most) + 40

    # ---- the definitions -----------------------------------------------------------------------

    def _base(self, of):
        return of["log_safe"] - of.get("log_mix", of["log_safe"])

    def _point(self, ratio, base, log_beta, row=None):
        """The weight of an action with a ratio and a base, in the context of a row."""
        if self.kind == "mix":
            return np.exp(base + np.logaddexp(0, ratio + log_beta) - np.logaddexp(0, log_beta))
        log_beta = np.clip(log_beta, -self.reach, self.reach)  # further out nothing changes
        if self.kind == "clip":
            return np.exp(base + min(0.0, ratio - log_beta))
        if self.kind == "own":
            return np.exp(base + ratio / (1 + np.exp(-log_beta)))
        if self.kind in ("tables", "budgeted tables"):
            safe = np.exp(self.columns["log_safe_all"][row])
            optimized = np.exp(self.columns["log_optimized_all"][row])
            beta = np.exp(log_beta)
            psi = np.minimum(optimized, beta * safe).sum()
            clip = np.exp(min(ratio, log_beta)) / psi
            if self.kind == "tables":
                return np.exp(base) * clip
            kept = min(psi / min(beta, 1.0), 1.0)
            share = 1 - (1 - kept) ** self.more["budget"]
            return np.exp(base) * (share * clip + 1 - share)
        tries, fallback = self._averages(log_beta, row)
        proposed = np.exp(min(ratio, log_beta) - min(log_beta, 0.0))
        return np.exp(base) * (proposed * tries + fallback)

    def _averages(self, log_beta, row):
        """S and D over every order of the proposals of a row."""
        safe, optimized = self.more["safe"][row], self.more["optimized"][row]
        accept = np.exp(np.minimum(0.0, safe - log_beta if log_beta < 0 else log_beta - optimized))
        orders = [np.cumprod(1 - np.array(each)) for each in permutations(accept)]
        tries = np.mean([1 + each[:-1].sum() for each in orders])
        return tries, float(np.prod(1 - accept))

    def weights(self, log_beta):
        """The weight of every row; for clip without contexts and own families up to a factor."""
        columns = self.columns
        base, ratio = self._base(columns), columns["log_optimized"] - columns["log_safe"]
        if self.kind == "path":
            return np.exp(
                self._path(columns, log_beta) - columns.get("log_mix", columns["log_safe"])
            )
        return np.array([self._point(ratio[i], base[i], log_beta, i) for i in range(len(self))])

    def _path(self, of, log_beta):
        every = np.concatenate(([-np.inf], self.more["t"], [np.inf]))
        table = np.column_stack((of["log_safe"], of["path"], of["log_optimized"]))
        return table[:, np.searchsorted(every, log_beta)]

    def test(self, log_beta):
        """The test weight, in the unit of the weights."""
        share = self.columns.get("safe_share", 1.0)
        if self.test_weight == "analytic":
            rows = [0] if self.kind == "clip" else range(len(self))
            if self.kind == "draws":
                beta = np.exp(np.clip(log_beta, -self.reach, self.reach))
                return (self.more["budget"] * max(beta, 1) + 1) / share
            return max(self._point(ENDS, 0.0, log_beta, i) for i in rows) / share
        if self.kind in ("tables", "budgeted tables"):
            safe = self.columns["log_safe_all"]
            ratio = self.columns["log_optimized_all"] - safe
            base = safe - self.columns.get("log_mix_all", safe)
            every = [
                self._point(ratio[i, j], base[i, j], log_beta, i)
                for i in range(len(self))
                for j in range(safe.shape[1])
            ]
            return max(every)
        if self.kind == "draws":
            drawn = np.column_stack((self.more["safe"], self.more["optimized"]))
            base = self.more.get("base", np.zeros(drawn.shape))
            every = [
                self._point(r, b, log_beta, i)
                for i in range(len(self))
                for r, b in zip(drawn[i], base[i], strict=True)
            ]
            return max(every)
        draws = self.draws
        if self.kind == "path":
            log_w = self._path(draws, log_beta) - draws.get("log_mix", draws["log_safe"])
            return np.exp(log_w[draws["drawn_at"] <= max(log_beta, self.more["t"][0])]).max()
        ratio, base = draws["log_optimized"] - draws["log_safe"], self._base(draws)
        return max(self._point(r, b, log_beta) for r, b in zip(ratio, base, strict=True))

    def passes(self, log_beta, keep=slice(None)):
        """Whether Σ (l − α)·w + (B − α)·w ≤ 0 for every loss (a dictionary), ties included."""
        weights, test, found = self.weights(log_beta)[keep], self.test(log_beta), {}
        for name, loss in self.losses.items():
            alpha, bound, g = self.alphas[name], self.bounds[name], self.ratio_error
            factor = np.where(loss[keep] > alpha, g, 1 / g)
            lost = float(np.sum(factor * weights * loss[keep]) + g * bound * test)
            allowed = alpha * float(np.sum(factor * weights) + g * test)
            found[name] = lost <= allowed * (1 + 1e-10)
        return found


def make_world(seed, kind, *, rows=None, mixture=False, losses=1, wide=1.0):
    """A random world; `wide` is the standard deviation of log ratios."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    n = int(rng.integers(3, 16)) if rows is None else rows
    more: dict[str, Any] = {}
    columns: dict[str, Any] = {}

    def scores(count):
        safe = -rng.exponential(1.0, count)
        ratio = rng.normal(0, wide, count)
        return safe, safe + (np.round(2 * ratio) / 2 if seed % 3 == 0 else ratio)

    def mixed(safe):
        return np.logaddexp(safe, safe + rng.normal(0, 1, safe.shape)) - np.log(2)

    draws = None
    if "tables" in kind:
        tables = rng.normal(0, wide, (2, n, 3))
        tables -= np.logaddexp.reduce(tables, axis=2)[:, :, None]
        place = np.arange(n), rng.integers(3, size=n)
        columns = {"log_safe": tables[0][place], "log_optimized": tables[1][place]}
        columns |= {"log_safe_all": tables[0], "log_optimized_all": tables[1]}
        if mixture:
            other = np.log(rng.dirichlet(np.ones(3), n))
            columns["log_mix_all"] = np.logaddexp(tables[0], other) - np.log(2)
            columns["log_mix"] = columns["log_mix_all"][place]
    else:
        columns["log_safe"], columns["log_optimized"] = scores(n)
        if mixture:
            columns["log_mix"] = mixed(columns["log_safe"])
    if mixture:
        columns["safe_share"] = 0.5
    if kind in ("clip", "mix", "own"):
        draws = dict(zip(("log_safe", "log_optimized"), scores(12), strict=True))
    elif kind == "draws":
        budget = int(rng.integers(1, 4))
        columns["context"] = rng.permutation(n)
        safe, optimized = scores(2 * budget * n)
        ratio = (optimized - safe).reshape(n, 2, budget)[columns["context"]]
        more |= {"safe": ratio[:, 0], "optimized": ratio[:, 1], "budget": budget}
        source = np.tile(np.repeat(["safe", "optimized"], budget), n)
        draws = {"log_safe": safe, "log_optimized": optimized, "source": source}
        draws["context"] = np.repeat(np.arange(n), 2 * budget)
    elif kind == "path":
        more["t"] = np.array([-2.0, 0.0, 1.5])

        def path(of):
            at = of["log_optimized"][:, None] + more["t"]
            return np.logaddexp(of["log_safe"][:, None], at) - np.logaddexp(0, more["t"])

        columns["path"] = path(columns)
        draws = dict(zip(("log_safe", "log_optimized"), scores(40), strict=True))
        draws |= {"path": path(draws), "drawn_at": np.repeat([*more["t"], np.inf], 10)}
    if mixture and draws is not None:
        draws["log_mix"] = mixed(draws["log_safe"])
        if kind == "draws":
            base = (draws["log_safe"] - draws["log_mix"]).reshape(n, -1)
            more["base"] = base[columns["context"]]
    if kind == "budgeted tables":
        more["budget"] = int(rng.integers(1, 5))
    named = {"harm": rng.choice([0.0, 1.0], n, p=[0.9, 0.1])}
    if losses == 2:
        named["delay"] = 3 * rng.random(n) ** 3
    alphas = {"harm": float(rng.choice([0.15, 0.3, 0.5])), "delay": 1.2}
    family = {
        "mix": "mix",
        "own": Geometric(),
        "path": "token_mix",
        "budgeted tables": f"budgeted_clip({more.get('budget')})",
    }.get(kind, "clip")
    return World(
        kind=kind,
        columns=columns,
        losses=named,
        draws=draws,
        alphas={name: alphas[name] for name in named},
        bounds={name: {"harm": 1.0, "delay": 3.0}[name] for name in named},
        family=family,
        more=more,
    )
