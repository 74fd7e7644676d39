"""What each policy of the demonstration led to, and what it shows in two sentences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tether._core.types import Floats

ALPHAS = (0.05, 0.06, 0.08, 0.10)
"""Missed cancers tolerated per patient."""
NAIVE, CHOSEN = "naive threshold", "tether, chosen"
TETHERED = ("tether, mix", "tether, clip", "tether, aimed", CHOSEN)


@dataclass(frozen=True)
class Outcome:
    """Missed cancers and avoided needless biopsies per hundred patients, in every split.

    `alpha` is None for a policy that does not depend on it. `promise` is what the calibration of
    the split states per hundred patients: alpha and the terms for a small log; NaN without one.
    """

    name: str
    alpha: float | None
    missed: Floats
    avoided: Floats
    promise: Floats

    @staticmethod
    def mean_and_error(values: Floats) -> tuple[float, float]:
        """The mean over splits and its standard error."""
        return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))

    @property
    def exceeds_alpha(self) -> bool:
        """Whether the missed cancers exceed alpha by more than two standard errors."""
        risk, error = self.mean_and_error(self.missed)
        return self.alpha is not None and risk > 100 * self.alpha + 2 * error


def most_avoided(outcomes: list[Outcome], name: str, missed: float) -> Outcome:
    """The outcome of a policy that avoids most biopsies while it misses at most so many cancers.

    If it misses more at every alpha, the outcome at the smallest alpha.
    """
    of_policy = [outcome for outcome in outcomes if outcome.name == name]
    within = [outcome for outcome in of_policy if outcome.missed.mean() <= missed]
    return max(within or of_policy[:1], key=lambda outcome: float(outcome.avoided.mean()))


def summarize(outcomes: list[Outcome]) -> tuple[str, str]:
    """One sentence about the cancers missed, and one about the biopsies avoided."""
    by_name = {(outcome.name, outcome.alpha): outcome for outcome in outcomes}
    exceeded = sum(by_name[NAIVE, alpha].exceeds_alpha for alpha in ALPHAS)
    kept = sum(not any(by_name[name, alpha].exceeds_alpha for name in TETHERED) for alpha in ALPHAS)
    missed = (
        f"The naive threshold looked safe on the patients it was tuned on, and misses clearly more "
        f"cancers than tolerated at {exceeded} of {len(ALPHAS)} alphas; tether keeps {kept} of "
        f"{len(ALPHAS)}."
    )
    naive = by_name[NAIVE, ALPHAS[0]]
    spared, naive_missed = naive.avoided.mean(), naive.missed.mean()
    plain, chosen = (most_avoided(outcomes, name, naive_missed) for name in (TETHERED[1], CHOSEN))
    avoided = (
        f"The naive threshold spares {spared:.0f} in 100 a needless biopsy and misses "
        f"{naive_missed:.1f} cancers; missing no more, tether spares {plain.avoided.mean():.0f} "
        f"(clip) and {chosen.avoided.mean():.0f} (chosen; {chosen.missed.mean():.1f} missed): "
        f"{100 * plain.avoided.mean() / spared:.0f} and "
        f"{100 * chosen.avoided.mean() / spared:.0f} % as many."
    )
    return missed, avoided
