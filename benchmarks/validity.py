"""Whether every promise of the package holds, in worlds where the truth is known: `make validity`.

This file has the runner and the cases of one calibration: a world, a number of rows and a
procedure, repeated on fresh logs, with the risk that is served beside what was asked and stated. A
right procedure holds if the mean is within three standard errors of what is promised; a wrong one
has to break, by the same measure: a validity check that cannot fail shows nothing.

    python -m benchmarks.validity                     # everything, at full length
    python -m benchmarks.validity --runs 50 --only promise
    python -m benchmarks.validity --room thresholds
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

import tether
from benchmarks import cases as cases_of_means
from benchmarks.cases import verdict
from benchmarks.worlds import (
    World,
    gaussian,
    many_prompts,
    rare_harm,
    rise_and_fall,
    unequal_contexts,
)

Array = np.ndarray
GRID = np.linspace(-8, 8, 1025)
"""Log betas among which wrong procedures look."""
ROOMS = (
    "validity_releases",
    "validity_rounds",
    "validity_thresholds",
    "validity_monitors",
    "validity_ratios",
    "gains",
    "mistakes",
)
"""Modules of this folder with further cases."""


@dataclass(frozen=True)
class Outcome:
    """One log: the risk that is served, what was stated of it, and the share of the gain kept."""

    risk: float
    stated: float
    kept: float


Procedure = Callable[[World, int, float, np.random.Generator], Outcome]


@dataclass(frozen=True)
class Case:
    """A procedure in a world, and whether it is wrong on purpose."""

    world: World
    rows: int
    asked: float
    rule: str
    procedure: Procedure
    wrong: bool = False
    error: float | None = None  # with a confidence: how often the risk may exceed what was asked
    runs: int = 400

    @property
    def name(self) -> str:
        return f"{self.world.name}, {self.rows} rows, {self.rule}"

    def simulate(self, runs: int, seed: int = 0) -> Line:
        """So many logs."""
        rng = np.random.default_rng([seed, self.rows, len(self.rule)])
        found = [self.procedure(self.world, self.rows, self.asked, rng) for _ in range(runs)]
        return Line(self, *(np.array(each) for each in zip(*map(_numbers, found), strict=True)))


def _numbers(outcome: Outcome) -> tuple[float, float, float]:
    return outcome.risk, outcome.stated, outcome.kept


@dataclass(frozen=True)
class Line:
    """What the repeats of a case gave."""

    case: Case
    risk: Array
    stated: Array
    kept: Array

    @property
    def excess(self) -> float:
        """By how many standard errors what was served exceeds what was promised."""
        if self.case.error is not None:
            above = self.risk > self.case.asked * (1 + 1e-9)
            return _errors_above(above.mean(), self.case.error, above.std(), len(above))
        promised = max(self.case.asked, float(self.stated.mean()))
        return _errors_above(self.risk.mean(), promised, self.risk.std(), len(self.risk))

    @property
    def held(self) -> bool:
        return self.excess <= 3

    def __str__(self) -> str:
        error = self.risk.std() / np.sqrt(len(self.risk))
        above = np.mean(self.risk > self.case.asked * (1 + 1e-9))
        return (
            f"{self.case.world.name:28s} n {self.case.rows:6d}  {self.case.rule:34s} asked "
            f"{self.case.asked:.3f}  stated {self.stated.mean():.4f}  served "
            f"{self.risk.mean():.4f} "
            f"± {error:.4f}  above {above:4.0%}  gain {self.kept.mean():4.0%}  "
            f"{verdict(self.held, self.case.wrong)}"
        )


def _errors_above(mean: float, limit: float, deviation: float, runs: int) -> float:
    return (mean - limit) / max(deviation / np.sqrt(runs), 1e-9)


# ---- procedures -------------------------------------------------------------------------------


def calibrated(family: str = "clip", **arguments: object) -> Procedure:
    """The package: `alpha`, or `rule="promise"`, with anything else that `calibrate` takes."""
    rule = arguments.pop("rule", "alpha")

    def run(world: World, rows: int, asked: float, rng: np.random.Generator) -> Outcome:
        log, proposals = world.log(rows, rng)
        seed = {"seed": int(rng.integers(1 << 32))} if rule == "promise" else {}
        found = tether.calibrate(
            log, proposals, family=family, **{rule: asked}, **seed, **arguments
        )
        return _outcome(
            world, found.family, found.log_beta, asked, found.promise if found.exists else asked
        )

    return run


def _outcome(world: World, family: str, log_beta: float, asked: float, stated: float) -> Outcome:
    name = "clip" if family.startswith("budgeted") else family
    best = world.best_gain(name, asked)
    kept = world.gain(family, log_beta) / best if best > 0 else np.nan
    return Outcome(world.risk(family, log_beta), stated, kept)


def _weights(world: World, context: Array, action: Array) -> Array:
    """Exact weights of clip at all log betas of the grid (betas × rows)."""
    tables = np.array([world.policy("clip", each) for each in GRID])
    return tables[:, context, action] / world.safe[context, action]


def looks_safe(world: World, rows: int, asked: float, rng: np.random.Generator) -> Outcome:
    """Wrong: the largest beta whose weighted mean loss is at most alpha, without a test point."""
    context, action, loss = world.rows(rows, rng)
    weights = _weights(world, context, action)
    passing = np.flatnonzero(weights @ loss <= asked * weights.sum(axis=1))
    log_beta = GRID[passing[-1]] if len(passing) else -np.inf
    return _outcome(world, "clip", log_beta, asked, asked)


def last_root(world: World, rows: int, asked: float, rng: np.random.Generator) -> Outcome:
    """Wrong: the last beta that passes, though some before it do not; chosen with hindsight."""
    context, action, loss = world.rows(rows, rng)
    weights = _weights(world, context, action)
    top = np.array([(world.policy("clip", each) / world.safe).max() for each in GRID])
    passing = np.flatnonzero(weights @ (loss - asked) + (1 - asked) * top <= 0)
    log_beta = GRID[passing[-1]] if len(passing) else -np.inf
    return _outcome(world, "clip", log_beta, asked, asked)


def global_normalizer(world: World, rows: int, asked: float, rng: np.random.Generator) -> Outcome:
    """Wrong with contexts: one normalizer for all of them."""
    context, action, loss = world.rows(rows, rng)
    log_safe, log_optimized = (
        np.log(each[context, action]) for each in (world.safe, world.optimized)
    )
    found = tether.calibrate(tether.Log(loss, log_safe, log_optimized), alpha=asked)
    return _outcome(world, "clip", found.log_beta, asked, asked)


def estimated_normalizer(draws: int) -> Procedure:
    """Wrong: each weight is divided by an estimate of its context's normalizer."""

    def run(world: World, rows: int, asked: float, rng: np.random.Generator) -> Outcome:
        context, action, loss = world.rows(rows, rng)
        ratio = world.optimized / world.safe
        drawn = ratio[np.repeat(context, draws), _draw(world, np.repeat(context, draws), rng)]
        beta = np.exp(GRID[::8])[:, None]
        psi = np.array([np.minimum(drawn, each).reshape(rows, draws).mean(axis=1) for each in beta])
        weights = np.minimum(ratio[context, action], beta) / psi
        fails = weights @ (loss - asked) > 0
        first = int(fails.argmax()) if fails.any() else len(fails)
        log_beta = GRID[::8][first - 1] if first else -np.inf
        return _outcome(world, "clip", log_beta, asked, asked)

    return run


def _draw(world: World, context: Array, rng: np.random.Generator) -> Array:
    from benchmarks.worlds import draw

    return draw(world.safe[context], rng)


def boldest_look(looks: int = 10) -> Procedure:
    """Wrong: the promise is asked for at several numbers of rows, and the boldest answer served."""

    def run(world: World, rows: int, asked: float, rng: np.random.Generator) -> Outcome:
        from dataclasses import replace

        context, action, loss = world.rows(rows, rng)
        log_tables = [np.log(each[context]) for each in (world.safe, world.optimized)]
        found = -np.inf
        for count in np.linspace(rows / looks, rows, looks).astype(int):
            part = slice(0, count)
            scores = [each[np.arange(rows), action][part] for each in log_tables]
            tables = dict(
                zip(
                    ("log_safe_all", "log_optimized_all"),
                    (t[part] for t in log_tables),
                    strict=True,
                )
            )
            log = tether.Log(loss[part], *scores, context=context[part], **tables)
            seen = tether.calibrate(log, promise=asked, seed=int(rng.integers(1 << 32)))
            found = max(found, seen.log_beta)
        return _outcome(replace(world), "clip", found, asked, asked)

    return run


# ---- cases ------------------------------------------------------------------------------------


def cases() -> Iterator[Case]:
    """Every case, the wrong ones beside the right ones."""
    yield from _alpha_cases()
    yield from _promise_cases()
    yield from _confidence_cases()


def _alpha_cases() -> Iterator[Case]:
    for rows in (50, 200, 1000):
        for weight in ("empirical", "analytic"):
            yield Case(gaussian(), rows, 0.1, f"alpha, {weight}", calibrated(test_weight=weight))
        yield Case(gaussian(), rows, 0.1, "alpha, mix", calibrated("mix"))
    yield Case(gaussian(), 20, 0.1, "no test point", looks_safe, wrong=True)
    for rows in (200, 1000):
        yield Case(rise_and_fall(), rows, 0.12, "alpha", calibrated())
    yield Case(rise_and_fall(), 200, 0.075, "last root", last_root, wrong=True)
    for rows in (1000, 5000):
        yield Case(rare_harm(), rows, 0.1, "alpha", calibrated(), runs=300)
    for rows in (100, 300, 1000):
        yield Case(unequal_contexts(), rows, 0.12, "alpha", calibrated())
        yield Case(unequal_contexts(), rows, 0.12, "alpha, mix", calibrated("mix"))
        family = "budgeted_clip(4)"
        yield Case(unequal_contexts("draws", 4), rows, 0.12, f"alpha, {family}", calibrated(family))
    yield Case(
        unequal_contexts(), 300, 0.12, "one normalizer for all", global_normalizer, wrong=True
    )
    yield Case(many_prompts(), 4000, 0.075, "alpha", calibrated("budgeted_clip(4)"), runs=60)
    yield Case(
        many_prompts(),
        4000,
        0.075,
        "estimated normalizer",
        estimated_normalizer(2),
        wrong=True,
        runs=30,
    )


def _promise_cases() -> Iterator[Case]:
    promise = {"rule": "promise"}
    for rows in (100, 300, 1000, 3000):
        yield Case(gaussian(1.645), rows, 0.1, "promise", calibrated(**promise))
        yield Case(unequal_contexts(), rows, 0.12, "promise", calibrated(**promise))
        yield Case(unequal_contexts(), rows, 0.12, "promise, mix", calibrated("mix", **promise))
    for rows in (1000, 5000, 20000):
        yield Case(rare_harm(), rows, 0.1, "promise", calibrated(**promise), runs=200)
    yield Case(
        many_prompts(), 1000, 0.09, "promise", calibrated("budgeted_clip(4)", **promise), runs=60
    )
    tables = unequal_contexts()
    yield Case(tables, 1000, 0.12, "boldest of ten looks", boldest_look(), wrong=True, runs=300)


def _confidence_cases() -> Iterator[Case]:
    for confidence in (0.9, 0.5):
        for rows in (300, 1000):
            for world, asked in ((gaussian(), 0.1), (unequal_contexts(), 0.12)):
                rule = f"alpha, confidence {confidence}"
                sure = calibrated(confidence=confidence)
                yield Case(world, rows, asked, rule, sure, error=1 - confidence)
    held = calibrated()
    yield Case(
        unequal_contexts(), 300, 0.12, "alpha read as confidence 0.9", held, wrong=True, error=0.1
    )


def climbs() -> Iterator[cases_of_means.Case]:
    """Hill climbing over small worlds: expected losses over the promise, summed over all logs.

    With the level at the promise itself, which is wrong, it has to find one above 1.
    """
    from tests.control.test_chain import climbed

    def repeat(right: bool, rng: np.random.Generator) -> float:
        def level(promise: object, stake: object, rows: int) -> object:
            return promise - 1 / (stake * (rows + 1)) if right else promise

        return climbed(level, steps=3000, starts=20)

    for right in (True, False):
        name = "hill climbing against the soft chain" + ("" if right else ", level at the promise")
        yield cases_of_means.Case(name, partial(repeat, right), 1.0, not right, runs=1)


def all_cases() -> Iterator[tuple[str, object]]:
    """The cases of every room, each with its room."""
    yield from (("policies", case) for case in (*cases(), *climbs()))
    for room in ROOMS:
        module = importlib.import_module(f"benchmarks.{room}")
        yield from ((room.removeprefix("validity_"), case) for case in module.cases())


def main() -> None:
    """Print every case; exit with 1 if one does not do what it should."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.validity", description=__doc__)
    parser.add_argument("--runs", type=int, help="repeats of each case, instead of its own number")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--room", default="", help="policies, thresholds, monitors, …")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    wrong = 0
    for room, case in all_cases():
        if options.room in ("", room) and options.only in case.name:
            line = case.simulate(options.runs or case.runs, options.seed)
            print(line, flush=True)
            wrong += line.held == case.wrong
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
