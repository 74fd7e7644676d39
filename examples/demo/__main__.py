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
from pathlib import Path

import numpy as np
from examples.demo import clinic
from examples.demo.clinic import AIMED, ALPHAS, CLIP, NAIVE, WATCH
from examples.demo.picture import draw
from rich.console import Console
from rich.progress import track

from tether.runs import Controller
from tether.view import write_report

WORK = Path(__file__).parent / "work"
SPLITS = 40
ROUNDS, PATIENTS_PER_ROUND, ROUND_PROMISE = 6, 300, 0.08


def simulate(splits, console):
    """Missed and avoided (columns) of every policy and alpha, one row per split."""
    rows = {}
    with ProcessPoolExecutor(2) as processes:
        done = processes.map(clinic.deployments, range(splits))
        for found in track(done, "random splits", splits, console=console, transient=True):
            for name, alpha, values in found:
                rows.setdefault((name, alpha), []).append(values)
    return {key: np.array(values) for key, values in rows.items()}


def exceeds(outcomes, name, alpha):
    """Whether the missed cancers exceed alpha by more than two standard errors."""
    missed = outcomes[name, alpha][:, 0]
    return bool(missed.mean() > 100 * alpha + 2 * missed.std(ddof=1) / np.sqrt(len(missed)))


def summarize(outcomes):
    """One sentence about the cancers missed, and one about the biopsies avoided."""
    kept = {
        name: sum(not exceeds(outcomes, name, alpha) for alpha in ALPHAS)
        for name in (NAIVE, CLIP, AIMED)
    }
    naive_missed, naive_avoided = outcomes[NAIVE, ALPHAS[0]].mean(axis=0)
    means = [outcomes[AIMED, alpha].mean(axis=0) for alpha in ALPHAS]
    within = [each for each in means if each[0] <= naive_missed] or means[:1]
    missed, avoided = max(within, key=lambda each: each[1])
    return (
        f"The naive threshold looked safe on the patients it was tuned on, and misses clearly more "
        f"cancers than tolerated at {len(ALPHAS) - kept[NAIVE]} of {len(ALPHAS)} alphas; tether "
        f"keeps {min(kept[CLIP], kept[AIMED])} of {len(ALPHAS)}.",
        f"The naive threshold spares {naive_avoided:.0f} in 100 a needless biopsy and misses "
        f"{naive_missed:.1f} cancers; missing no more, tether spares {avoided:.0f} ({missed:.1f} "
        f"missed): {100 * avoided / naive_avoided:.0f} % as many.",
    )


def print_table(outcomes, console):
    """One line per policy and tolerated number of missed cancers."""
    console.print(f"of 100 patients{'tolerated':>22}{'cancers missed':>20}{'biopsies avoided':>22}")
    for (name, alpha), values in outcomes.items():
        mean, error = values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))
        tolerated = "" if alpha is None else f"{100 * alpha:g}"
        missed, avoided = (f"{mean[k]:.1f} ± {error[k]:.1f}" for k in (0, 1))
        too_many = "  too many" if alpha is not None and exceeds(outcomes, name, alpha) else ""
        console.print(f"  {name:<17}{tolerated:>16}{missed:>20}{avoided:>22}{too_many}")


def run_rounds(console):
    """Several rounds with a store and a report; after each the model learns from training rows."""
    features, malignant = clinic.load_patients()
    rng, safe = np.random.default_rng([0, len(features)]), clinic.make_safe_policy()
    optimized, every, diagnoses = None, [], {}  # known to the clinic afterwards, by action id
    promise = f"promising at most {100 * ROUND_PROMISE:g} missed cancers in 100 on average"
    console.print(f"{ROUNDS} rounds of {PATIENTS_PER_ROUND} patients, {promise}:")
    with Controller(safe, promise=ROUND_PROMISE, store=WORK / "demo.db") as run:
        for number in range(1, 1 + ROUNDS):
            patients = rng.integers(len(features), size=PATIENTS_PER_ROUND)
            round_ = run.begin(optimized, name=optimized and f"model {number}")
            taken = round_.act(features[patients], rng)
            watched = taken.actions == WATCH
            missed, avoided = watched & malignant[patients], watched & ~malignant[patients]
            run.observe(taken.ids, 1.0 * missed, rewards=1.0 * avoided)
            diagnoses.update(zip(taken.ids.tolist(), malignant[patients].tolist(), strict=True))
            every += (100.0 * missed).tolist()
            told = f"missed {100 * missed.mean():4.1f}   avoided {100 * avoided.mean():4.1f}"
            console.print(f"  round {number}: beta {round_.beta:7.3g}   {told}")
            rows = run.training_rows()
            known = [diagnoses[each] for each in rows.ids.tolist()]
            score = clinic.new_model().fit(rows.contexts, known).decision_function
            optimized = clinic.make_optimized_policy(score, safe)
        average = f"{np.mean(every):.1f} ± {np.std(every) / len(every) ** 0.5:.1f}"
        console.print(f"  missed on average: {average} in 100")
        write_report(run.history(), WORK / "report.html", overwrite=True)


def main(splits=SPLITS):
    """Run the demonstration, print its table, and save its picture, store and report."""
    console = Console(width=100, highlight=False)
    WORK.mkdir(exist_ok=True)
    for old in WORK.glob("demo.db*"):
        old.unlink()
    outcomes = simulate(splits, console)
    print_table(outcomes, console)
    for sentence in (sentences := summarize(outcomes)):
        console.print(sentence)
    draw(outcomes, sentences, WORK / "demo.png")
    run_rounds(console)
    console.print(f"Picture: {WORK / 'demo.png'}\nReport:  {WORK / 'report.html'}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
