"""Draws where they matter: gain and risk with a plan of draws, at equal numbers of draws.

"uniform" gives every context the same number of draws. "planned" has as many in all: some in
training contexts, to plan by, a pilot in each calibration context, and the rest by
`tether.plan_draws`. "16 × uniform" shows what is left to gain. One rule is wrong on purpose: where
there was a loss, it draws again and keeps what weighs least. The gain is in percent of that of the
best beta, with standard errors over runs; "lead" is the difference to "uniform" on the same rows,
in points.

Exits with 1 if a rule that is not wrong has a risk above alpha by more than three standard errors.
`--worth` shows predictions of `tether.draws_worth` beside what twice the draws bring.
"""

from __future__ import annotations

import argparse

import numpy as np

import tether
from benchmarks.far_contexts_world import OPTIMIZED, SAFE, FarContexts

BLOCKS = 4
"""Blocks of draws per context with uniform draws."""
REDRAWS = 32
"""How often the wrong rule draws."""
ERRORS = 3.0
WORLDS = {
    "10 nats apart": FarContexts(),
    "3 nats apart": FarContexts(alpha=0.07, farthest=np.sqrt(18.0), block=4),
}


def uniform(world, training, contexts, log, rng, blocks=BLOCKS):
    """The same number of draws in every context."""
    return tether.make_proposals(SAFE, OPTIMIZED, contexts, blocks * world.block, rng)


def many(world, training, contexts, log, rng):
    """Sixteen times as many."""
    return uniform(world, training, contexts, log, rng, 16 * BLOCKS)


def planned(world, training, contexts, log, rng):
    """As many as uniform draws, those in training contexts and the pilots included."""
    spent = max(world.block, 6)
    proposals = tether.make_proposals(SAFE, OPTIMIZED, training, spent, rng)
    found = tether.calibrate(
        world.log(training, rng), proposals, alpha=world.alpha, family=world.family
    )
    beta = found.beta if 0 < found.beta < np.inf else 1.0
    plan = tether.plan_draws(
        proposals,
        beta=beta,
        draws=BLOCKS * world.block - spent,
        family=world.family,
        pilot=min(4, spent - 2),
    )
    return tether.make_proposals(SAFE, OPTIMIZED, contexts, plan, rng)


def redrawn(world, training, contexts, log, rng):
    """Wrong: where there was a loss, draws again and again, and keeps what weighs least."""
    drawn = [uniform(world, None, contexts, log, rng) for _ in range(REDRAWS)]
    safe, optimized = (
        np.array([getattr(each, name) for each in drawn]) for name in ("log_safe", "log_optimized")
    )
    rows = len(contexts)
    ratio = np.minimum(optimized - safe, 0.0).reshape(REDRAWS, 2, rows, -1).mean(axis=3).sum(axis=1)
    lost = log.loss["loss"] > world.alpha
    chosen = np.where(lost, ratio.argmax(axis=0), 0)  # more accepted, so fewer tries, less weight
    chosen = np.tile(np.repeat(chosen, BLOCKS * world.block), 2)
    column = np.arange(len(chosen))
    return tether.Proposals(
        safe[chosen, column],
        optimized[chosen, column],
        context=drawn[0].context,
        source=np.where(drawn[0].from_safe, "safe", "optimized"),
    )


RULES = {"uniform": uniform, "planned": planned, "16 × uniform": many, "redrawn (wrong)": redrawn}


def run(world: FarContexts, rule, rows: int, number: int) -> tuple[float, float, float]:
    """Risk, gain in percent of the best one, and draws of each policy per context."""
    rng = np.random.default_rng([number, rows])
    contexts, training = world.contexts(rows, rng), world.contexts(rows, rng)
    log = world.log(contexts, rng)
    proposals = rule(world, training, contexts, log, rng)
    found = tether.calibrate(log, proposals, alpha=world.alpha, family=world.family)
    risk, reward = world.outcome(found.log_beta)
    return risk, 100 * reward / world.best()[1], len(proposals) / rows / 2


def worth(world: FarContexts, rows: int, runs: int) -> None:
    """Predictions of what twice the draws bring, beside what they bring."""
    predicted, errors, brought = [], [], []
    for number in range(runs):
        rng = np.random.default_rng([number, rows])
        contexts = world.contexts(rows, rng)
        log = world.log(contexts, rng)
        found = [
            tether.calibrate(
                log,
                uniform(world, None, contexts, log, rng, blocks),
                alpha=world.alpha,
                family=world.family,
            )
            for blocks in (2, 4)
        ]
        if all(np.isfinite(each.log_beta) for each in found):
            prediction = tether.draws_worth(found[0], rng, splits=4)
            predicted.append(prediction.log_beta_gain)
            errors.append(prediction.log_beta_error)
            brought.append(found[1].log_beta - found[0].log_beta)
    print(
        f"n = {rows}: log beta with twice the draws: predicted {np.mean(predicted):+.3f} ± "
        f"{_error(predicted):.3f} (stated error of one prediction {np.mean(errors):.2f}), brought "
        f"{np.mean(brought):+.3f} ± {_error(brought):.3f}"
    )


def _error(values) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--rows", type=int, nargs="*", default=[50, 200, 1000])
    parser.add_argument("--worlds", nargs="*", choices=list(WORLDS), default=list(WORLDS))
    parser.add_argument("--rules", nargs="*", choices=list(RULES), default=list(RULES))
    parser.add_argument("--worth", action="store_true")
    given = parser.parse_args()
    kept = True
    for name in given.worlds:
        world = WORLDS[name]
        for rows in given.rows:
            if given.worth:
                worth(world, rows, given.runs)
                continue
            gains = {}
            for rule in given.rules:
                found = np.array(
                    [run(world, RULES[rule], rows, number) for number in range(given.runs)]
                )
                risk, error = found[:, 0].mean(), _error(found[:, 0])
                gains[rule] = found[:, 1]
                lead = gains[rule] - gains.get("uniform", gains[rule])
                broken = risk > world.alpha + ERRORS * error
                kept &= "wrong" in rule or not broken
                print(
                    f"{name:<14}{rows:>6}  {rule:<17}risk {risk:.4f} ± {error:.4f} (alpha "
                    f"{world.alpha:g}{', BROKEN' if broken else ''})  gain {gains[rule].mean():.1f}"
                    f" ± {_error(gains[rule]):.1f}  lead {lead.mean():+.1f} ± {_error(lead):.1f}"
                    f"  draws {found[:, 2].mean():.1f}",
                    flush=True,
                )
    return 0 if kept else 1


if __name__ == "__main__":
    raise SystemExit(main())
