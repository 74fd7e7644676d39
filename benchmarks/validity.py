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
from typing import Any

import numpy as np

import tether
from benchmarks.cases import Case, Line
from benchmarks.worlds import World, draw, gaussian, many_prompts, rare_harm, rise_and_fall
from benchmarks.worlds import unequal_contexts as unequal
from tether._core.rows import Rows

Array = np.ndarray
BUDGET = "budgeted_clip(4)"
GRID = np.linspace(-8, 8, 1025)
"""Log betas among which wrong procedures look."""
OTHERS = ("validity_releases", "validity_rounds", "validity_thresholds", "validity_monitors")
OTHERS += ("validity_ratios", "gains", "mistakes")
"""Modules of this folder with further cases."""


Outcome = tuple[float, float, float]
"""One log: the risk that is served, what was stated of it, and the share of the gain kept."""
Procedure = Callable[[World, int, float, np.random.Generator], Outcome]


@dataclass(frozen=True)
class Calibrated(Case):
    """A procedure on logs of a world: the mean risk, or with a confidence how often it is above."""

    asked: float = 0.0
    is_share: bool = False

    def simulate(self, runs: int, seed: int = 0) -> Line:
        risk, stated, kept = self.repeats(runs, seed).T
        above = risk > self.asked * (1 + 1e-9)
        note = f", above {above.mean():.0%} of the time"
        note += "" if np.isnan(kept).all() else f", gain {np.nanmean(kept):.0%}"
        if self.is_share:
            return Line(self, above[:, None] * 1.0, self.limit, f", served {risk.mean():.4f}{note}")
        return Line(self, risk[:, None], max(self.asked, float(stated.mean())), note)


def case(
    world: World, rows: int, asked: float, rule: str, procedure: Procedure, **more: Any
) -> Calibrated:
    """A case; `error` is how often the risk may exceed what was asked, with a confidence."""
    error = more.pop("error", None)
    name = f"{world.name}, {rows} rows, {rule}, asked {asked:g}"
    repeat, is_share = partial(procedure, world, rows, asked), error is not None
    return Calibrated(name, repeat, error or asked, asked=asked, is_share=is_share, **more)


# ---- procedures -------------------------------------------------------------------------------


def calibrated(family: str = "clip", **arguments: object) -> Procedure:
    """The package: `alpha`, or `rule="promise"`, with anything else that `calibrate` takes."""
    rule = arguments.pop("rule", "alpha")

    def run(world: World, rows: int, asked: float, rng: np.random.Generator) -> Outcome:
        log, proposals = world.log(rows, rng)
        seed = {"seed": int(rng.integers(1 << 32))} if rule == "promise" else {}
        asking = {rule: asked, **seed, **arguments}
        found = tether.calibrate(log, proposals, family=family, **asking)
        stated = found.promise if found.exists else asked
        return _outcome(world, found.family, found.log_beta, asked, stated)

    return run


def _outcome(world: World, family: str, log_beta: float, asked: float, stated: float) -> Outcome:
    name = "clip" if family.startswith("budgeted") else family
    best = world.best_gain(name, asked)
    kept = world.gain(family, log_beta) / best if best > 0 else np.nan
    return world.risk(family, log_beta), stated, kept


def last_passing(test_point: bool) -> Procedure:
    """Wrong: the last beta that passes, though some before it do not, or without a test point."""

    def run(world: World, rows: int, asked: float, rng: np.random.Generator) -> Outcome:
        context, action, loss = world.rows(rows, rng)
        tables = np.array([world.policy("clip", each) for each in GRID]) / world.safe
        top = test_point * (1 - asked) * tables.max(axis=(1, 2))
        passing = np.flatnonzero(tables[:, context, action] @ (loss - asked) + top <= 0)
        log_beta = GRID[passing[-1]] if len(passing) else -np.inf
        return _outcome(world, "clip", log_beta, asked, asked)

    return run


def global_normalizer(world: World, rows: int, asked: float, rng: np.random.Generator) -> Outcome:
    """Wrong with contexts: one normalizer for all of them."""
    context, action, loss = world.rows(rows, rng)
    scores = [np.log(each[context, action]) for each in (world.safe, world.optimized)]
    found = tether.calibrate(tether.Log(loss, *scores), alpha=asked)
    return _outcome(world, "clip", found.log_beta, asked, asked)


def estimated_normalizer(draws: int) -> Procedure:
    """Wrong: each weight is divided by an estimate of its context's normalizer."""

    def run(world: World, rows: int, asked: float, rng: np.random.Generator) -> Outcome:
        context, action, loss = world.rows(rows, rng)
        ratio = world.optimized / world.safe
        drawn = ratio[np.repeat(context, draws), draw(world.safe[np.repeat(context, draws)], rng)]
        beta = np.exp(GRID[::8])[:, None]
        psi = np.array([np.minimum(drawn, each).reshape(rows, draws).mean(axis=1) for each in beta])
        weights = np.minimum(ratio[context, action], beta) / psi
        fails = weights @ (loss - asked) > 0
        first = int(fails.argmax()) if fails.any() else len(fails)
        log_beta = GRID[::8][first - 1] if first else -np.inf
        return _outcome(world, "clip", log_beta, asked, asked)

    return run


def boldest_look(looks: int = 10) -> Procedure:
    """Wrong: the promise is asked for at several numbers of rows, and the boldest answer served."""

    def run(world: World, rows: int, asked: float, rng: np.random.Generator) -> Outcome:
        columns, found = world.log(rows, rng)[0].rows.columns, -np.inf
        for count in np.linspace(rows / looks, rows, looks).astype(int):
            first = Rows({name: each[:count] for name, each in columns.items()})
            log = tether.Log.of_rows(first, contextual=True)
            seen = tether.calibrate(log, promise=asked, seed=int(rng.integers(1 << 32)))
            found = max(found, seen.log_beta)
        return _outcome(world, "clip", found, asked, asked)

    return run


def searched(world: World, rows: int, asked: float, rng: np.random.Generator) -> Outcome:
    """Wrong: the largest alpha whose stated terms add up to at most what was asked."""
    log = world.log(rows, rng)[0]
    for alpha in asked * np.linspace(1, 0.97, 4):
        found = tether.calibrate(log, alpha=alpha, family="mix")
        if found.exists and found.promise <= asked:
            return _outcome(world, "mix", found.log_beta, asked, asked)
    return _outcome(world, "mix", -np.inf, asked, asked)


# ---- cases ------------------------------------------------------------------------------------


def cases() -> Iterator[Calibrated]:
    """Every case, the wrong ones beside the right ones."""
    yield from _alpha_cases()
    yield from _promise_cases()
    yield from _confidence_cases()


def _alpha_cases() -> Iterator[Calibrated]:
    for rows in (50, 200, 1000):
        for weight in ("empirical", "analytic"):
            yield case(gaussian(), rows, 0.1, f"alpha, {weight}", calibrated(test_weight=weight))
        yield case(gaussian(), rows, 0.1, "alpha, mix", calibrated("mix"))
    yield case(gaussian(), 20, 0.1, "no test point", last_passing(False), wrong=True)
    for rows in (200, 1000):
        yield case(rise_and_fall(), rows, 0.12, "alpha", calibrated())
    yield case(rise_and_fall(), 200, 0.075, "last root", last_passing(True), wrong=True)
    yield case(rare_harm(2000), 2000, 0.1, "alpha, mix", calibrated("mix"), runs=300)
    for rows in (100, 300, 1000):
        yield case(unequal(), rows, 0.12, "alpha", calibrated())
        yield case(unequal(), rows, 0.12, "alpha, mix", calibrated("mix"))
        yield case(unequal("draws", 4), rows, 0.12, f"alpha, {BUDGET}", calibrated(BUDGET))
    yield case(unequal(), 300, 0.12, "one normalizer for all", global_normalizer, wrong=True)
    prompts, estimated = many_prompts(), estimated_normalizer(2)
    yield case(prompts, 4000, 0.075, "alpha", calibrated(BUDGET), runs=60)
    yield case(prompts, 4000, 0.075, "estimated normalizer", estimated, wrong=True, runs=30)


def _promise_cases() -> Iterator[Calibrated]:
    clip, mix, budgeted = (calibrated(each, rule="promise") for each in ("clip", "mix", BUDGET))
    known = calibrated("mix", rule="promise", safe_risk=0.098)
    for rows in (100, 300, 1000, 3000):
        yield case(gaussian(1.645), rows, 0.1, "promise", clip)
        yield case(unequal(), rows, 0.12, "promise", clip)
        yield case(unequal(), rows, 0.12, "promise, mix", mix)
    for rows in (1000, 5000, 20000):
        yield case(rare_harm(rows, 0.084), rows, 0.1, "promise", clip, runs=200)
    for rule, run in (("promise, mix, safe risk known", known), ("alpha searched", searched)):
        yield case(rare_harm(2000), 2000, 0.1, rule, run, wrong=run is searched)
    yield case(many_prompts(), 1000, 0.09, "promise", budgeted, runs=60)
    yield case(unequal(), 1000, 0.12, "boldest of ten looks", boldest_look(), wrong=True, runs=300)


def _confidence_cases() -> Iterator[Calibrated]:
    for confidence in (0.9, 0.5):
        for rows in (300, 1000):
            for world, asked in ((gaussian(), 0.1), (unequal(), 0.12)):
                rule = f"alpha, confidence {confidence}"
                sure = calibrated(confidence=confidence)
                yield case(world, rows, asked, rule, sure, error=1 - confidence)
    rule = "alpha read as confidence 0.9"
    yield case(unequal(), 300, 0.12, rule, calibrated(), wrong=True, error=0.1)


def climbs() -> Iterator[Case]:
    """Hill climbing over small worlds: expected losses over the promise, summed over all logs."""
    from tests.control.test_chain import climbed

    def right(promise: Any, stake: Any, rows: int) -> Any:
        return promise - 1 / (stake * (rows + 1))

    for told, level in (("", right), (", level at the promise", lambda promise, *_: promise)):
        repeat = partial(lambda level, rng: climbed(level, steps=3000, starts=20), level)
        yield Case(f"hill climbing against the soft chain{told}", repeat, 1.0, bool(told), runs=1)


def all_cases() -> Iterator[tuple[str, object]]:
    """The cases of every room, each with its room."""
    yield from (("policies", case) for case in (*cases(), *climbs()))
    for room in OTHERS:
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
