"""The labelled claims, how they are split, and what is measured on the questions held out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import tether
from experiments import data


@dataclass(frozen=True)
class Questions:
    """The claims of all questions, three scores each, and where each question comes from."""

    scores: dict[str, np.ndarray]
    supported: np.ndarray
    offsets: np.ndarray
    source: np.ndarray

    @classmethod
    def load(cls, *, stand_in: bool = False) -> Questions:
        """Read the arrays of MedLFQA."""
        arrays = data.load("medlfqa", stand_in=stand_in)
        return cls(
            {name: arrays[name] for name in ("selfeval", "logprob", "frequency")},
            arrays["is_supported"],
            arrays["offsets"],
            arrays["dataset_names"][arrays["dataset_id"]],
        )

    @property
    def count(self) -> int:
        """How many questions there are."""
        return len(self.offsets) - 1

    @property
    def question(self) -> np.ndarray:
        """The question of each claim."""
        return np.repeat(np.arange(self.count), np.diff(self.offsets))

    def claims(self, scores: np.ndarray) -> tether.Claims:
        """All claims with these scores."""
        return tether.Claims(scores, self.supported, self.offsets)


def false_share_and_recall(claims: tether.Claims, threshold: float) -> tuple[float, float]:
    """Mean share of kept claims that are false, and of true claims that are kept, by question.

    A question of which nothing is kept has a false share of 0; one without a true claim has no
    recall and is left out of that mean.
    """
    kept, start = claims.scores >= threshold, claims.offsets[:-1]
    count = np.add.reduceat(kept.astype(float), start)
    true = np.add.reduceat((kept & claims.supported).astype(float), start)
    every = np.add.reduceat(claims.supported.astype(float), start)
    some = every > 0
    share = (count - true) / np.maximum(count, 1)
    return float(share.mean()), float((true[some] / every[some]).mean())
