"""How many labelled answers a share among all that is shown takes, against a formula.

python -m benchmarks.labels_for_shown_share

The formula is factor · most_claims / room, where room is the mean over answers of share · shown −
false at the largest threshold. Every figure is the share of 25 simulated sets of labelled answers
for which a threshold has a useful promise. It takes a minute.
"""

from __future__ import annotations

import numpy as np

import tether
from tether._core.types import Booleans, Floats, Integers

SHARE, MOST_CLAIMS, SETS = 0.1, 12, 25


def answer(count: int, ease: float, rng: np.random.Generator) -> tuple[Integers, Floats, Booleans]:
    """Answers of three to twelve claims: their sizes, scores and labels."""
    sizes = rng.integers(3, 13, size=count)
    easy = np.repeat(rng.normal(ease, 0.8, size=count), sizes)
    is_true = rng.random(len(easy)) < 1 / (1 + np.exp(-easy))
    confidence = 1.5 * is_true + 0.7 * easy + rng.normal(size=len(easy))
    return sizes, 1 / (1 + np.exp(-0.6 * confidence - 1)), is_true


def main() -> None:
    """Print one line per world and largest threshold."""
    rng = np.random.default_rng(5)
    loss = tether.FalseAmongShown(SHARE, most_claims=MOST_CLAIMS)
    for ease in (0.5, 1.0, 1.6):
        for largest in (0.88, 0.92):
            _, scores, is_true = answer(40_000, ease, rng)
            shown = scores >= largest
            room = (SHARE * shown.sum() - (shown & ~is_true).sum()) / 40_000
            line = [f"ease {ease}, largest threshold {largest}, room {room:.3f} per answer:"]
            for factor in (1, 2, 3):
                count, useful = int(np.ceil(factor * MOST_CLAIMS / room)), 0
                for _ in range(SETS):
                    sizes, scores, is_true = answer(count, ease, rng)
                    claims = tether.Claims(scores, is_true, np.append(0, np.cumsum(sizes)))
                    grid = np.linspace(0.5, largest, 41)
                    useful += tether.gcrc(claims, grid, promise=SHARE, loss=loss).useful
                line.append(f"{count} answers {useful / SETS:.0%},")
            print(" ".join(line), flush=True)


if __name__ == "__main__":
    main()
