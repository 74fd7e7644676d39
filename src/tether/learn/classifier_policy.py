"""A fitted classifier as a policy over given classes, some of which it may not know."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether.policies.categorical import Categorical


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
    return Categorical.from_classifier(classifier, classes)
