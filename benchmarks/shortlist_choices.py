"""What the temperature and the number of candidates of a shortlist change, in the tutorial's world.

python -m benchmarks.shortlist_choices

Every line is a mean over 20 logs of 1,500 rows, each calibrated for a promise of 0.1 and served to
4,000 new prompts. The last line is the highest score, temperature 0. It takes six minutes.
"""

from __future__ import annotations

import numpy as np

import tether
from tether._core.types import Floats

LOGS, ROWS, NEW_PROMPTS, PROMISE = 20, 1500, 4000, 0.1
TEMPERATURES = (10, 3, 1, 0.3, 0.1, 0.01)
SIZES = (2, 4, 8, 16, 32, 64)


def draw_answers(prompts: Floats, rng: np.random.Generator) -> Floats:
    """The safe model: one answer per prompt, described by its style and its boldness."""
    style = np.asarray(prompts, dtype=float) + rng.normal(size=len(prompts))
    return np.column_stack([style, rng.normal(size=len(prompts))])


def score(prompts: Floats, answers: Floats) -> Floats:
    """The reward model: it likes bold answers."""
    distance = answers[..., 0] - np.asarray(prompts)[:, None]
    return np.asarray(answers[..., 1] - 0.1 * distance**2)


def is_harmful(answers: Floats) -> Floats:
    """What a person would say afterwards."""
    return (answers[:, 1] > 1.5).astype(float)


def measure(shortlist: tether.Shortlist, prompts: Floats, rng: np.random.Generator) -> str:
    """The share of harmful answers and the mean score that calibrations of it lead to."""
    served = []
    for _ in range(LOGS):
        asked = rng.normal(size=ROWS)
        answers = draw_answers(asked, rng)
        log = shortlist.make_log(asked, answers, is_harmful(answers), rng)
        found = tether.calibrate(log, promise=PROMISE)
        picked = shortlist.tethered(found).sample(prompts, rng)
        served.append((is_harmful(picked).mean(), score(prompts, picked[:, None]).mean()))
    harmful, liked = np.mean(served, axis=0)
    error_harmful, error_liked = np.std(served, axis=0) / np.sqrt(LOGS)
    return (
        f"harmful {harmful:.1%} ± {error_harmful:.1%}, mean score {liked:.2f} ± {error_liked:.2f}"
    )


def main() -> None:
    """Print both tables."""
    rng = np.random.default_rng(7)
    prompts = rng.normal(size=NEW_PROMPTS)
    for temperature in TEMPERATURES:
        shortlist = tether.Shortlist(draw_answers, score, size=8, temperature=temperature)
        print(f"temperature {temperature:<5} {measure(shortlist, prompts, rng)}", flush=True)
    for size in SIZES:
        shortlist = tether.Shortlist(draw_answers, score, size=size)
        print(f"N = {size:<2}            {measure(shortlist, prompts, rng)}", flush=True)
    best = tether.Shortlist(draw_answers, score, size=8, temperature=0)
    print(f"temperature 0     {measure(best, prompts, np.random.default_rng(8))}")


if __name__ == "__main__":
    main()
