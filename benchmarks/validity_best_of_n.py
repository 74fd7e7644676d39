"""Best of N over random languages: old logs joined by fresh draws, and two rounds of a controller.

Wrong on purpose: all N answers of a context are drawn with one seed while the log is made, so that
they are copies of one answer and picking seems to change nothing.
"""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np

import tether
from benchmarks.language_world import ALPHA, PROMPTS, Language
from benchmarks.validity_table import Case, Served
from tether.policies.shortlist_rows import ShortlistRows

SIZES = (4, 8, 16)
FAMILIES = ("clip", "mix")


def cases() -> list[Case]:
    """Every size and family with few and with many rows; rounds; copied answers."""
    found = []
    for rows, repeats in ((50, 200), (3_000, 40)):
        for size in SIZES:
            world = f"languages, best of {size}, n = {rows:,}"
            for family in FAMILIES:
                run = partial(joined, size, rows, family)
                found.append(Case(world, family, {"loss": ALPHA}, run, repeats, 30))
        run = partial(two_rounds, 8, rows)
        world = f"languages, best of 8, {rows:,} rows"
        procedure = "Controller, clip"
        found.append(Case(world, procedure, {"loss": ALPHA}, run, repeats // 2, 10, first_round=2))
        if rows > 1000:
            run = partial(one_seed, 8, rows)
            world = f"languages, best of 8, n = {rows:,}"
            found.append(
                Case(world, "clip, one seed (wrong)", {"loss": ALPHA}, run, 20, 5, wrong=True)
            )
    return found


def joined(size: int, rows: int, family: str, rng: np.random.Generator) -> list[Served]:
    """An old log of the safe model, joined by fresh draws; picked by a tuned model."""
    language = Language.random(rng)
    shortlist = language.shortlist(size, 1)
    prompts = rng.integers(PROMPTS, size=rows)
    answers = language.draw(prompts, rng)
    log = shortlist.make_log(prompts, answers, language.losses(prompts, answers), rng)
    found = tether.calibrate(log, alpha=ALPHA, family=family)
    risk = language.risk(size, 1, family, found.log_beta, rng)
    return [Served({"loss": risk}, found.log_beta, found)]


def two_rounds(size: int, rows: int, rng: np.random.Generator) -> list[Served]:
    """An old log, then a round of each of two tuned models; what both deploy."""
    language, served = Language.random(rng), []
    run = tether.Controller(
        language.shortlist(size),
        alpha=ALPHA,
        family="clip",
        store="sqlite://",
        calibration_share=1.0,
        alarm_risk=0.99,
        seed=int(rng.integers(2**31)),
    )
    with run:
        prompts = rng.integers(PROMPTS, size=rows)
        taken = run.begin().record(prompts, language.draw(prompts, rng), rng)
        run.observe(taken.ids, language.losses(prompts, taken.actions))
        for model in (0, 1):
            begun = run.begin(language.shortlist(size, model).picker)
            found = begun.calibration
            risk = language.risk(size, model, "clip", found.log_beta, rng)
            served.append(Served({"loss": risk}, found.log_beta, found))
            prompts = rng.integers(PROMPTS, size=rows)
            taken = begun.act(prompts, rng)
            begun.observe(taken.ids, language.losses(prompts, taken.actions))
    return served


def one_seed(size: int, rows: int, rng: np.random.Generator) -> list[Served]:
    """The same as `joined`, but each logged answer stands N times among its candidates."""
    language = Language.random(rng)
    prompts = rng.integers(PROMPTS, size=rows)
    answers = language.draw(prompts, rng)
    copies = ShortlistRows(prompts, np.repeat(answers[:, None], size, axis=1))
    index, losses = rng.integers(size, size=rows), language.losses(prompts, answers)
    with warnings.catch_warnings():  # of the copies, which are the point here
        warnings.simplefilter("ignore", tether.AssumptionWarning)
        log = language.shortlist(size, 1).log_of_rows(copies, index, losses)
    found = tether.calibrate(log, alpha=ALPHA)
    risk = language.risk(size, 1, "clip", found.log_beta, rng)
    return [Served({"loss": risk}, found.log_beta, found)]
