"""False claims and recall on medical answers: `python -m experiments.medical_qa`.

Every split draws the questions anew into those that calibrate and those that are tested on, so the
promise of each method can be read off the mean over splits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tether
from experiments import harness
from experiments.medical_qa import figures, learned
from experiments.medical_qa.claims import Questions, false_share_and_recall

Select = Callable[[Any, float], tether.Selection]
METHODS: dict[str, Select] = {
    "gCRC": lambda swept, alpha: tether.gcrc(swept, alpha=alpha),
    "monotonized CRC": lambda swept, alpha: tether.thresholds.monotonized_crc(swept, alpha=alpha),
    "LTT, delta = alpha": lambda swept, alpha: tether.thresholds.ltt(
        swept, alpha=alpha, confidence=1 - alpha, pvalue="hoeffding_bentkus"
    ),
    "LTT, delta = 0.1": lambda swept, alpha: tether.thresholds.ltt(
        swept, alpha=alpha, confidence=0.9, pvalue="hoeffding_bentkus"
    ),
    "CRC": lambda swept, alpha: tether.thresholds.crc(swept, alpha=alpha),
}
GRID = "gCRC on a grid"
MEASURES = ("false_share", "false_share_error", "recall", "recall_error")
REFERENCE = [  # of an independent run: score, method, alpha, false share, recall
    ("selfeval", "gCRC", 0.03, 0.030, 0.328),
    ("selfeval", "gCRC", 0.04, 0.040, 0.674),
    ("selfeval", "gCRC", 0.05, 0.050, 0.896),
    ("logprob", "gCRC", 0.01, 0.009, 0.319),
    ("logprob", "gCRC", 0.02, 0.020, 0.792),
    ("frequency", "gCRC", 0.04, 0.040, 0.924),
    ("selfeval", "monotonized CRC", 0.05, 0.028, 0.251),
    ("selfeval", "LTT, delta = alpha", 0.05, 0.042, 0.724),
]


def shuffled(task: harness.Task, questions: Questions, split: int) -> np.ndarray:
    """The questions in the random order of a split, the same in every part of the experiment."""
    return np.random.default_rng([task["seed"], split]).permutation(questions.count)


def summary(found: np.ndarray) -> dict[str, float]:
    """Means and standard errors over splits of the false share and the recall."""
    return dict(
        zip(
            MEASURES,
            (*harness.mean_and_error(found[:, 0]), *harness.mean_and_error(found[:, 1])),
            strict=True,
        )
    )


def singles(task: harness.Task, questions: Questions) -> list[dict]:
    """Each score by itself, whole ties and spread ones, every method and alpha."""
    rows, cut = [], round(task["calibration"] * questions.count)
    names = [*METHODS, GRID]
    for score in task["scores"]:
        whole = questions.scores[score]
        for ties in ("whole", "spread"):
            found = np.empty((len(names), len(task["alphas"]), task["splits"], 2))
            for split in range(task["splits"]):
                order, values = shuffled(task, questions, split), whole
                if ties == "spread":
                    rng = np.random.default_rng([task["seed"], split, 1])
                    values = whole + rng.uniform(0, task["jitter"], len(whole))
                claims = questions.claims(values)
                calibrate, test = claims.take(order[:cut]), claims.take(order[cut:])
                swept = tether.thresholds.sweep(calibrate)
                shares = np.linspace(0, 1, task["grid"])
                grid = np.unique(np.quantile(calibrate.scores, shares, method="nearest"))
                coarse = tether.thresholds.sweep(calibrate, grid)
                for i, name in enumerate(names):
                    for j, alpha in enumerate(task["alphas"]):
                        if name == GRID:
                            chosen = tether.gcrc(coarse, alpha=alpha)
                        else:
                            chosen = METHODS[name](swept, alpha)
                        # Where none passes, keep nothing: the safest of a grid may still fail.
                        threshold = chosen.threshold if chosen.exists else np.inf
                        found[i, j, split] = false_share_and_recall(test, threshold)
            rows += [
                {
                    "score": score,
                    "ties": ties,
                    "method": name,
                    "alpha": alpha,
                    **summary(found[i, j]),
                    "splits": task["splits"],
                    "calibration_questions": cut,
                    "test_questions": questions.count - cut,
                }
                for i, name in enumerate(names)
                for j, alpha in enumerate(task["alphas"])
            ]
    return rows


def combined(task: harness.Task, questions: Questions) -> list[dict]:
    """Learned score, chosen by gCRC, beside the best single one, on the same questions held out."""
    alphas = [alpha for alpha in task["alphas"] if alpha <= task["learned_up_to"] + 1e-12]
    cut = round(task["calibration"] * questions.count)
    first = round(task["learning"] * questions.count)
    table = learned.features(questions)
    names = ["learned", *task["scores"]]
    found = np.empty((len(names), len(alphas), task["learned_splits"], 2))
    for split in range(task["learned_splits"]):
        order = shuffled(task, questions, split)
        label = np.where(
            np.isin(questions.question, order[:first]), questions.supported.astype(int), -1
        )
        scores = {"learned": learned.fit(table, label, task["forests"]), **questions.scores}
        for i, name in enumerate(names):
            rng = np.random.default_rng([task["seed"], split, 1])
            spread = scores[name] + rng.uniform(0, task["jitter"], len(scores[name]))
            claims = questions.claims(spread)
            # The learned score has never seen the questions that calibrate it.
            calibrate = claims.take(order[first if name == "learned" else 0 : cut])
            swept, test = tether.thresholds.sweep(calibrate), claims.take(order[cut:])
            for j, alpha in enumerate(alphas):
                chosen = tether.gcrc(swept, alpha=alpha)
                found[i, j, split] = false_share_and_recall(test, chosen.threshold)
    rows = []
    for j, alpha in enumerate(alphas):
        best = 1 + int(found[1:, j, :, 1].mean(axis=1).argmax())
        gain, error = harness.mean_and_error(found[0, j, :, 1] - found[best, j, :, 1])
        one = summary(found[best, j])
        rows.append(
            {
                "alpha": alpha,
                **summary(found[0, j]),
                "best_single_score": names[best],
                "its_false_share": one["false_share"],
                "its_recall": one["recall"],
                "its_recall_error": one["recall_error"],
                "gain": gain,
                "gain_error": error,
                "splits": task["learned_splits"],
                "learning_questions": first,
                "calibration_questions": cut - first,
                "its_calibration_questions": cut,
            }
        )
    return rows


def sources(task: harness.Task, questions: Questions) -> list[dict]:
    """The false share in each source: one threshold for all questions, or one for each source."""
    claims = questions.claims(questions.scores["logprob"])
    cut = round(task["calibration"] * questions.count)
    names = np.unique(questions.source)
    found: dict[tuple[str, float, str], list] = {}
    for split in range(task["sources_splits"]):
        order = shuffled(task, questions, split)
        calibrate, label = claims.take(order[:cut]), questions.source[order[:cut]]
        held = {
            name: claims.take(order[cut:][questions.source[order[cut:]] == name]) for name in names
        }
        swept = tether.thresholds.sweep(calibrate)
        for alpha in task["sources_alphas"]:
            one = tether.gcrc(swept, alpha=alpha).threshold
            each = tether.gcrc(calibrate, alpha=alpha, groups=label)
            for name in names:
                own = each.for_group(name).threshold
                for way, threshold in (("one for all", one), ("one a source", own)):
                    measured = false_share_and_recall(held[name], threshold)
                    found.setdefault((name, alpha, way), []).append(measured)
    return [
        {
            "source": name,
            "questions": int((questions.source == name).sum()),
            "alpha": alpha,
            "threshold": way,
            **summary(np.array(values)),
            "splits": task["sources_splits"],
        }
        for (name, alpha, way), values in found.items()
    ]


def beside_reference(rows: list[dict]) -> list[dict]:
    """The reference points and what this run finds there, with ties spread as there."""
    spread = {
        (row["score"], row["method"], row["alpha"]): row for row in rows if row["ties"] == "spread"
    }
    return [
        {
            "score": score,
            "method": method,
            "alpha": alpha,
            "reference_false_share": share,
            "reference_recall": recall,
            **{key: spread[score, method, alpha][key] for key in MEASURES},
        }
        for score, method, alpha, share, recall in REFERENCE
        if (score, method, alpha) in spread
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    task = harness.begin(__file__, arguments)
    questions = Questions.load(stand_in=task.quick)
    rows = singles(task, questions)
    task.table("methods", rows)
    points = beside_reference(rows)
    task.table("reference", points)
    better = combined(task, questions)
    task.table("learned", better)
    by_source = sources(task, questions)
    task.table("sources", by_source)
    figures.methods(task, rows)
    figures.learned(task, better)
    figures.sources(task, by_source)
    for row in points:
        print(
            f"{row['score']:9s} {row['method']:18s} alpha {row['alpha']:g}: false share "
            f"{row['false_share']:.4f} ± {row['false_share_error']:.4f} (reference "
            f"{row['reference_false_share']:.3f}), recall {row['recall']:.4f} ± "
            f"{row['recall_error']:.4f} (reference {row['reference_recall']:.3f})"
        )
    for row in better:
        print(
            f"learned, alpha {row['alpha']:g}: false share {row['false_share']:.4f} ± "
            f"{row['false_share_error']:.4f}, recall {row['recall']:.4f}, "
            f"{row['gain']:+.4f} ± {row['gain_error']:.4f} beside {row['best_single_score']}"
        )
    task.close()


if __name__ == "__main__":
    main()
