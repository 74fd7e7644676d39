"""The clinic of the demonstration: its patients, its two policies, and one random split of them.

A safe policy refers nine of ten patients to biopsy. The optimized policy follows a model trained on
a hundred patients. Actions are "watch" and "refer"; the loss is 1 for a cancer that is watched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Booleans, Floats
from tether.control.calibrate import calibrate
from tether.control.calibration import Calibration
from tether.policies.categorical import Categorical
from tether.policies.make_log import make_log
from tether.policies.mixture import Mixture
from tether.policies.policy import Policy

TRAINING_PATIENTS, LOGGED_PATIENTS = 100, 330
"""Patients to train on and patients in the log; the other 139 are held out."""
FEATURES_USED = 20
"""The model sees the mean and the error of ten measurements of cell nuclei, not the extremes."""
SAFE_WATCH_SHARE = 0.1
"""The share of patients whom the safe policy watches rather than refers."""
REFERRAL_LOG_ODDS, REFERRAL_SCALE = 3.0, 1.5
"""The log-odds of cancer at which the optimized policy refers half of the patients, and the width
of the transition around it."""
SAFE_BLEND = 0.02
"""The share of the safe policy that is mixed into the optimized one."""
WATCH, REFER = "watch", "refer"

Choices: TypeAlias = NDArray[np.str_]
"""One of "watch" and "refer" per patient."""
Score: TypeAlias = Callable[[Floats], Floats]
"""From the features of patients to their log-odds of cancer."""


def load_patients() -> tuple[Floats, Booleans]:
    """Load the features of every patient, and whether the tumor is malignant."""
    try:
        from sklearn.datasets import load_breast_cancer
    except ImportError as error:
        raise ImportError("the demonstration needs pip install 'tether[demo]'") from error
    data = load_breast_cancer()
    return data.data[:, :FEATURES_USED], data.target == 0


def train_score(features: Floats, malignant: Booleans) -> Score:
    """Fit a logistic regression on these patients."""
    score: Score = _unfitted_model().fit(features, malignant).decision_function
    return score


def predict_unseen(features: Floats, malignant: Booleans) -> Floats:
    """Predict the log-odds of each of these patients by a model that was fitted on others."""
    from sklearn.model_selection import cross_val_predict

    return np.asarray(
        cross_val_predict(_unfitted_model(), features, malignant, method="decision_function")
    )


def _unfitted_model() -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(C=1.0, solver="newton-cholesky"))


def make_safe_policy() -> Categorical:
    """The policy that refers almost everybody, whatever the features."""
    probabilities = [SAFE_WATCH_SHARE, 1 - SAFE_WATCH_SHARE]
    return Categorical.from_probabilities(probabilities, actions=[WATCH, REFER])


def make_optimized_policy(score: Score, safe: Policy) -> Policy:
    """The policy of a model, blended with a little of the safe policy."""

    def logits(features: Floats) -> Floats:
        refer = (score(features) - REFERRAL_LOG_ODDS) / REFERRAL_SCALE
        return np.column_stack([np.zeros(len(features)), refer])

    model = Categorical.from_logits(logits, actions=[WATCH, REFER])
    return Mixture.blend(model, safe, safe_share=SAFE_BLEND)


class Clinic:
    """One random split: a trained model, a log of the safe policy, and held-out patients.

    The context of a patient is the log-odds of cancer that the model predicts. `unseen_log_odds`
    are those of the training patients by models that have not seen them (five folds), as the
    model has not seen the patients whom it will meet.
    """

    def __init__(self, features: Floats, malignant: Booleans, rng: np.random.Generator) -> None:
        order = rng.permutation(len(features))
        training, logged, held_out = np.split(
            order, [TRAINING_PATIENTS, TRAINING_PATIENTS + LOGGED_PATIENTS]
        )
        self.rng, self.malignant = rng, malignant
        self.training, self.logged, self.held_out = training, logged, held_out
        self.log_odds = train_score(features[training], malignant[training])(features)
        self.unseen_log_odds = predict_unseen(features[training], malignant[training])
        self.safe = make_safe_policy()
        self.optimized = make_optimized_policy(lambda log_odds: log_odds, self.safe)
        self.actions = self.safe.sample(self.log_odds[logged], rng)
        self.missed = (self.actions == WATCH) & malignant[logged]

    def calibrate(self, optimized: Policy, alpha: float, family: str) -> Calibration:
        """Find how far an optimized policy may be followed, from the log alone."""
        contexts = self.log_odds[self.logged]
        log = make_log(self.safe, optimized, contexts, self.actions, self.missed)
        return calibrate(log, alpha=alpha, family=family)

    def apply_naive_threshold(self, alpha: float) -> Choices:
        """Apply the largest threshold that missed at most this share of the training patients."""
        log_odds = self.log_odds[self.training]
        order = np.argsort(log_odds)
        missed = np.cumsum(self.malignant[self.training][order]) / len(order)
        threshold = log_odds[order][np.searchsorted(missed, alpha + 1e-9) - 1]
        return np.where(self.log_odds[self.held_out] <= threshold, WATCH, REFER)

    def deploy(self, policy: Policy) -> Choices:
        """Sample the policy's actions for the held-out patients."""
        return policy.sample(self.log_odds[self.held_out], self.rng)

    def count_outcomes(self, actions: Choices) -> tuple[float, float]:
        """Count missed cancers and avoided needless biopsies per hundred held-out patients."""
        watched, malignant = actions == WATCH, self.malignant[self.held_out]
        return 100 * (watched & malignant).mean(), 100 * (watched & ~malignant).mean()
