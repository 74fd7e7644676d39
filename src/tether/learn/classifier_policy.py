"""A fitted classifier as a policy over given classes, some of which it may not know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Floats
from tether.policies.categorical import Categorical


@dataclass(frozen=True)
class ClassProbabilities:
    """The probabilities that a classifier predicts, with columns for these classes."""

    classifier: Any
    classes: NDArray[Any]

    def __call__(self, contexts: Any) -> Floats:
        """One row per context; a class that the classifier does not know has probability 0."""
        predicted = np.asarray(self.classifier.predict_proba(contexts), dtype=np.float64)
        table = np.zeros((len(predicted), len(self.classes)))
        table[:, np.searchsorted(self.classes, self.classifier.classes_)] = predicted
        return table


def classifier_policy(name: str, classifier: Any, classes: NDArray[Any]) -> Categorical:
    """The policy that takes each class with the probability that the classifier predicts."""
    if not hasattr(classifier, "predict_proba"):
        raise TypeError(
            f"{name} must be a classifier with predict_proba, got {classifier!r}; "
            f"sklearn.calibration.CalibratedClassifierCV gives one to others"
        )
    unknown = np.setdiff1d(classifier.classes_, classes)
    if len(unknown):
        raise ValueError(
            f"{name} has the class {unknown[0].item()!r}, which is not among {classes[:5].tolist()}"
        )
    return Categorical.from_probabilities(ClassProbabilities(classifier, classes), classes)
