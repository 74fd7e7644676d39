"""Estimators in the shape of scikit-learn: a tethered classifier, and a calibrated threshold."""

from tether._core.extras import require

require("tether.learn", "sklearn")

from tether.learn.classifiers import TetheredClassifier, ThresholdClassifier  # noqa: E402

__all__ = ["TetheredClassifier", "ThresholdClassifier"]
