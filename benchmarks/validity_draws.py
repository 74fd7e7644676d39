"""Many rows and few draws: what is served where normalizing constants are not known.

In the worlds of two prompts every draw counts: rows that share draws are no independent evidence of
what these draws are like.

Wrong on purpose is the plug-in normalizer: weights divided by an estimate of the normalizing
constant of each context, from the same draws. Its error does not shrink with the number of rows.
"""

from __future__ import annotations

from functools import partial

import numpy as np

import tether
from benchmarks.prompt_world import ALPHA, NEAR, PromptWorld, clip_risk
from benchmarks.validity_table import Case, Served

LOG_BETAS = np.linspace(-3, 4, 141)
"""Where the plug-in procedure looks, in steps of 0.05."""
SIZES = (  # rows, draws of each policy, whether for each row, runs
    (20_000, 2, False, 200),
    (20_000, 4, False, 200),
    (20_000, 16, False, 200),
    (20_000, 2, True, 60),
    (20_000, 4, True, 60),
    (20_000, 16, True, 30),
    (200, 4, False, 400),
    (200, 4, True, 400),
)
MANY = 20_000
"""With so many rows some procedures and promises are run less often."""


def cases() -> list[Case]:
    """Clip, mix and the plug-in normalizer, by number of rows and draws."""
    found = [
        Case(world.name, "clip, empirical", {"loss": world.alpha}, run, 300, 40)
        for world in (_two_prompts(fresh=False), _two_prompts(fresh=True))
        for run in [partial(calibrated, world, "clip", "empirical")]
    ]
    for rows, draws, fresh, repeats in SIZES:
        world, many = PromptWorld(rows, draws, fresh), rows == MANY
        procedures = [("clip, empirical", partial(calibrated, world, "clip", "empirical"), repeats)]
        if not (many and fresh):
            run = partial(calibrated, world, "clip", "analytic")
            procedures.append(("clip, analytic", run, min(repeats, 60 if many else repeats)))
            run = partial(calibrated, world, "mix", "empirical")
            procedures.append(("mix, empirical", run, repeats))
        if many and not fresh:
            procedures.append(("clip, plug-in ψ (wrong)", partial(plugged_in, world), 30))
        found += [
            Case(
                world.name,
                name,
                {"loss": ALPHA},
                run,
                runs,
                promised=8 if many else 100,
                wrong="wrong" in name,
            )
            for name, run, runs in procedures
        ]
    return found


def _two_prompts(*, fresh: bool) -> PromptWorld:
    return PromptWorld(
        2_000, 8, fresh, 2, harmful_shift=2.0, harmless_shift=1.0, harm=0.5, alpha=0.276
    )


def calibrated(
    world: PromptWorld, family: str, test_weight: str, rng: np.random.Generator
) -> list[Served]:
    """One run of the package."""
    log, proposals = world.collect(rng)
    return world.served(
        tether.calibrate(log, proposals, alpha=world.alpha, family=family, test_weight=test_weight)
    )


def plugged_in(world: PromptWorld, rng: np.random.Generator) -> list[Served]:
    """Clip with weights min(ρ, β)/ψ̂, where ψ̂ is the mean over the draws of a context."""
    log, proposals = world.collect(rng)
    ratio = np.exp(log.log_optimized - log.log_safe)
    drawn = np.exp(proposals.log_optimized - proposals.log_safe)
    contexts = np.bincount(proposals.context)
    loss, found = log.loss["loss"], -np.inf
    for log_beta in LOG_BETAS:
        beta = np.exp(log_beta)
        # A draw comes from either policy alike, with density (safe + optimized)/2.
        kernel = 2 * np.minimum(drawn, beta) / (1 + drawn)
        psi = np.bincount(proposals.context, kernel) / contexts
        weight = np.minimum(ratio, beta) / psi[log.context]
        largest = (np.minimum(drawn, beta) / psi[proposals.context]).max()
        if ((loss - ALPHA) * weight).sum() + (1 - ALPHA) * largest > 0:
            break
        found = float(log_beta)
    return [Served({"loss": float(clip_risk(found, NEAR)) / 2}, found)]
