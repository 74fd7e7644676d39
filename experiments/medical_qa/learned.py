"""A score learned from the three: how likely a claim is true, given them and its answer."""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from experiments.medical_qa.claims import Questions


def features(questions: Questions) -> np.ndarray:
    """The three scores; their means in the answer; the claim's rank in it by each; its place."""
    start, question = questions.offsets[:-1], questions.question
    sizes = np.diff(questions.offsets)[question]
    place = np.arange(len(question)) - start[question]
    columns = list(questions.scores.values())
    means = [np.add.reduceat(column, start)[question] / sizes for column in columns]
    ranks = []
    for column in columns:
        order = np.lexsort((column, question))
        rank = np.empty(len(column))
        rank[order] = place  # places run from 0 in each answer, and `order` keeps answers together
        ranks.append(rank / sizes)
    return np.column_stack([*columns, *means, *ranks, sizes, place / sizes])


def fit(table: np.ndarray, supported: np.ndarray, forests: int) -> np.ndarray:
    """Log-odds for every row of `table`; rows where `supported` is -1 are not learned from.

    Never falls as one of the three scores rises. The mean of a few forests of different seeds.
    """
    known = supported >= 0
    rising = [1, 1, 1] + [0] * (table.shape[1] - 3)
    total = np.zeros(len(table))
    for seed in range(forests):
        model = HistGradientBoostingClassifier(
            learning_rate=0.04,
            max_iter=120,
            max_leaf_nodes=16,
            min_samples_leaf=100,
            l2_regularization=5.0,
            max_features=0.4,
            monotonic_cst=rising,
            random_state=seed,
        )
        total += model.fit(table[known], supported[known]).decision_function(table)
    return np.round(total / forests, 6)  # equal leaves, equal scores: sums differ in last digits
