"""A run behind HTTP: `tether serve examples/served_run.toml` (see docs/how_to/serve.md).

A clinic decides for each patient whether to wait or to treat. The safe policy treats one patient in
five. What it learns from is its own: the rows that an optimizer may see.
"""

from __future__ import annotations

import numpy as np

import tether
from tether.runs import Controller, TrainingRows

ACTIONS = ["wait", "treat"]
FEATURES = 2


def make_controller(store: str) -> Controller:
    """The run: at most 15 patients in 100 may be harmed."""
    safe = tether.Categorical.from_probabilities([0.8, 0.2], actions=ACTIONS)
    return Controller(safe, store, alpha=0.15, missing="worst_case", fallback="safe", deadline=1.0)


def make_optimized(rows: TrainingRows) -> tether.Categorical:
    """Treat where the training rows show a reward: logistic regression by a few gradient steps."""
    treated = rows.actions == "treat"
    features = _features(rows.contexts)[treated]
    paid = np.nan_to_num(rows.reward[treated]) > 0
    weights = np.zeros(FEATURES + 1)
    for _ in range(200):
        weights += 0.5 * features.T @ (paid - _sigmoid(features @ weights)) / max(len(paid), 1)
    return tether.policies.policy_from("served_run:PatientPolicy", weights=weights.tolist())


class PatientPolicy:
    """Treats a patient with a probability that depends on the features."""

    def __init__(self, weights: list[float]) -> None:
        self.weights, self.actions = np.asarray(weights), np.array(ACTIONS)

    def log_prob_all(self, contexts: np.ndarray) -> np.ndarray:
        """The log-probability of each action in each context."""
        treat = np.clip(_sigmoid(_features(contexts) @ self.weights), 0.02, 0.98)
        return np.log(np.column_stack([1 - treat, treat]))

    def log_prob(self, contexts: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """The log-probability of each action."""
        column = (np.asarray(actions) == "treat").astype(int)
        return self.log_prob_all(contexts)[np.arange(len(column)), column]

    def sample(self, contexts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One action per context."""
        is_treated = rng.random(len(contexts)) < np.exp(self.log_prob_all(contexts)[:, 1])
        return self.actions[is_treated.astype(int)]


def _features(contexts: np.ndarray) -> np.ndarray:
    return np.column_stack([np.ones(len(contexts)), np.asarray(contexts)])


def _sigmoid(values: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-values))
