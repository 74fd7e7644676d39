"""Features as scikit-learn's own estimators check them; frames stay frames."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data

from tether._core.plain_arrays import is_missing, plain_column
from tether._core.row_indexes import check_row_indexes
from tether._core.shown import shown


def checked_features(estimator: Any, X: Any, *, reset: bool = False) -> Any:
    """Features that are counted and named as in `fit`, where `reset` notes their number and names.

    A frame is passed on to the classifiers as it is, since they may select columns by name; what
    values are accepted is up to them.
    """
    if hasattr(X, "columns"):
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        return X
    options = {"accept_sparse": "csr", "dtype": None, "ensure_all_finite": "allow-nan"}
    features = validate_data(estimator, X, reset=reset, **options)
    if features.dtype == object:
        for place, value in np.ndenumerate(features):
            if not (is_missing(value) or isinstance(value, (str, bytes, numbers.Real))):
                raise TypeError(
                    f"X{list(place)} is {shown(value)}: each argument must be a string or a number"
                )
    return features


def features_noted(estimator: Any, *classifiers: Any) -> bool:
    """Take over the number and names of features of the first fitted classifier that knows names.

    Without one there is nothing to compare with, and the rows to calibrate on say them.
    """
    for each in classifiers:
        if hasattr(each, "feature_names_in_"):
            estimator.feature_names_in_ = each.feature_names_in_
            estimator.n_features_in_ = len(each.feature_names_in_)
            return True
    return False


def labelled_rows(estimator: Any, X: Any, y: Any) -> tuple[Any, NDArray[Any]]:
    """The features and labels of `fit`, checked; their number and names are noted."""
    if y is None:
        raise ValueError("fit requires y to be passed, but the target y is None")
    check_row_indexes({"X": X, "y": y})
    X = checked_features(estimator, X, reset=True)
    check_consistent_length(X, y)
    check_classification_targets(y)
    return X, plain_column("y", column_or_1d(y, warn=True))


def shared_tags(tags: Any, *estimators: Any) -> Any:
    """The tags of an estimator that accepts what all of these do."""
    inner = [get_tags(each).input_tags for each in estimators]
    tags.input_tags.sparse = all(each.sparse for each in inner)
    tags.input_tags.allow_nan = all(each.allow_nan for each in inner)
    tags.input_tags.string = all(each.string for each in inner)
    tags.input_tags.categorical = all(each.categorical for each in inner)
    return tags
