"""Whom to send to biopsy: the demonstration, on data that ships with scikit-learn.

A clinic refers almost every patient to biopsy. A model trained on a hundred patients would spare
most of those without cancer, but would also miss cancers. How far may the clinic follow the model
if it tolerates a given number of missed cancers per hundred patients? The question is answered on
many random splits of the Wisconsin breast-cancer data, in two processes; then the same clinic runs
several rounds, with a model that learns. Everything is written into `examples/demo/work`.

Run it with `make demo`, or `python -m examples.demo [SPLITS]`; it needs `tether[demo]`.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # each process has a core of its own

import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from examples.demo import clinic
from examples.demo.clinic import ALPHAS, CHOSEN, NAIVE, WATCH
from examples.demo.picture import draw
from rich.console import Console
from rich.progress import track
from rich.table import Table

import tether

WORK = Path(__file__).parent / "work"
SPLITS, SEED = 40, 0
ROUNDS, PATIENTS_PER_ROUND, ROUND_PROMISE = 6, 300, 0.08
TETHERED = ("tether, mix", "tether, clip", "tether, aimed", CHOSEN)


def one_split(split, seed=SEED):
    """All deployments of a split."""
    return list(clinic.deployments(seed, split))


def simulate(splits, console):
    """Missed, avoided and promise (columns) of every policy and alpha, one row per split."""
    rows = {}
    with ProcessPoolExecutor(2) as processes:
        done = processes.map(partial(one_split), range(splits))
        for found in track(done, "random splits", splits, console=console, transient=True):
            for name, alpha, *values in found:
                rows.setdefault((name, alpha), []).append(values)
    return {key: np.array(values) for key, values in rows.items()}


def exceeds(outcomes, name, alpha):
    """Whether the missed cancers exceed alpha by more than two standard errors."""
    missed = outcomes[name, alpha][:, 0]
    return bool(missed.mean() > 100 * alpha + 2 * missed.std(ddof=1) / np.sqrt(len(missed)))


def summarize(outcomes):
    """One sentence about the cancers missed, and one about the biopsies avoided."""
    exceeded = sum(exceeds(outcomes, NAIVE, alpha) for alpha in ALPHAS)
    kept = sum(not any(exceeds(outcomes, name, alpha) for name in TETHERED) for alpha in ALPHAS)
    naive_missed, naive_avoided, _ = outcomes[NAIVE, ALPHAS[0]].mean(axis=0)
    means = [outcomes[CHOSEN, alpha].mean(axis=0) for alpha in ALPHAS]
    within = [each for each in means if each[0] <= naive_missed] or means[:1]
    missed, avoided, _ = max(within, key=lambda each: each[1])
    return (
        f"The naive threshold looked safe on the patients it was tuned on, and misses clearly more "
        f"cancers than tolerated at {exceeded} of {len(ALPHAS)} alphas; tether keeps {kept} of "
        f"{len(ALPHAS)}.",
        f"The naive threshold spares {naive_avoided:.0f} in 100 a needless biopsy and misses "
        f"{naive_missed:.1f} cancers; missing no more, tether spares {avoided:.0f} ({missed:.1f} "
        f"missed): {100 * avoided / naive_avoided:.0f} % as many.",
    )


def table(outcomes):
    """One row per policy and tolerated number of missed cancers."""
    splits = len(outcomes["safe", None])
    title = f"Of 100 patients, over {splits} random splits (± one standard error; median promise)"
    headings = ("policy", "tolerated", "cancers missed", "needless biopsies avoided", "promise")
    made, before = Table(*headings, title=title, title_justify="left"), None
    for (name, alpha), values in outcomes.items():
        if alpha != before:
            made.add_section()
        before, error = alpha, values.std(axis=0, ddof=1) / np.sqrt(splits)
        missed, avoided = (f"{values[:, k].mean():5.1f} ± {error[k]:.1f}" for k in (0, 1))
        too_many = alpha is not None and exceeds(outcomes, name, alpha)
        promise = "" if np.isnan(values[:, 2]).any() else f"{np.median(values[:, 2]):.1f}"
        tolerated = "" if alpha is None else f"{100 * alpha:g}"
        cells = name, tolerated, missed + "  too many" * too_many, avoided, promise
        made.add_row(*cells, style="red" if too_many else None)
    return made


def run_rounds(console):
    """Several rounds with a store and a report; after each the model learns from training rows."""
    features, malignant = clinic.load_patients()
    rng, safe = np.random.default_rng([SEED, len(features)]), clinic.make_safe_policy()
    optimized, diagnoses = None, {}  # by the id of the action, as known to the clinic afterwards
    console.print(
        f"{ROUNDS} rounds of {PATIENTS_PER_ROUND} patients, promising at most "
        f"{100 * ROUND_PROMISE:g} missed cancers in 100:"
    )
    settings = {"promise": ROUND_PROMISE, "store": WORK / "demo.db", "name": "refer nine in ten"}
    with tether.Controller(safe, **settings) as run:
        for number in range(1, 1 + ROUNDS):
            patients = rng.integers(len(features), size=PATIENTS_PER_ROUND)
            round_ = run.begin(optimized, name=optimized and f"model {number}")
            taken = round_.act(features[patients], rng)
            watched = taken.actions == WATCH
            missed, avoided = watched & malignant[patients], watched & ~malignant[patients]
            round_.observe(taken.ids, 1.0 * missed, 1.0 * avoided)
            diagnoses.update(zip(taken.ids.tolist(), malignant[patients].tolist(), strict=True))
            console.print(
                f"  round {number}: beta {round_.beta:7.3g}   cancers missed "
                f"{100 * missed.mean():4.1f}   needless biopsies avoided "
                f"{100 * avoided.mean():4.1f}   (of 100)"
            )
            rows = run.training_rows()
            known = [diagnoses[each] for each in rows.ids.tolist()]
            score = clinic.new_model().fit(rows.contexts, known).decision_function
            optimized = clinic.make_optimized_policy(score, safe)
        tether.report.write(run.history(), WORK / "report.html", overwrite=True)


def main(splits=SPLITS):
    """Run the demonstration, print its table, and save its picture, store and report."""
    console = Console(width=100, highlight=False)
    WORK.mkdir(exist_ok=True)
    for old in WORK.glob("demo.db*"):
        old.unlink()
    outcomes = simulate(splits, console)
    console.print(table(outcomes))
    for sentence in (sentences := summarize(outcomes)):
        console.print(sentence)
    draw(outcomes, sentences, WORK / "demo.png")
    run_rounds(console)
    console.print(f"Picture: {WORK / 'demo.png'}\nReport:  {WORK / 'report.html'}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
