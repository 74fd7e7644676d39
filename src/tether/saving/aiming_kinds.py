"""Aimed policies and fitted loss models: what they are saved as."""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._core.types import Floats
from tether.aiming.aimed_policy import AimedPolicy, AimedScore
from tether.aiming.fitted_loss import FittedLoss
from tether.aiming.held_out_fits import LARGEST_LOG_ODDS
from tether.aiming.loss_model import EstimatorLosses
from tether.aiming.pair_features import PairFeatures
from tether.aiming.position_score import PositionScore
from tether.aiming.saved_log_odds import LinearLogOdds, TreeLogOdds, saved_log_odds
from tether.aiming.tempered_policy import TemperedPolicy
from tether.policies.picker import Picker
from tether.saving.kind import Kind, of_type
from tether.saving.saved_values import callable_value, count, finite, instance, vector_or_table

_TILT = ("loss_models", "multipliers")


def _aimed_policy(policy: Any, loss_models: Any, multipliers: Any) -> AimedPolicy:
    return AimedPolicy(policy, *_tilt(loss_models, multipliers))


def _aimed_score(picker: Any, loss_models: Any, multipliers: Any) -> AimedScore:
    return AimedScore(instance("picker", picker, Picker), *_tilt(loss_models, multipliers))


def _tilt(loss_models: Any, multipliers: Any) -> tuple[dict[str, Any], dict[str, float]]:
    if not isinstance(loss_models, dict) or not isinstance(multipliers, dict):
        raise ValueError("loss_models and multipliers must be mappings")
    if list(loss_models) != list(multipliers):
        raise ValueError(
            f"multipliers must have the losses {list(loss_models)}, got {list(multipliers)}"
        )
    models = {name: callable_value("loss model", each) for name, each in loss_models.items()}
    return models, {name: finite("multiplier", each) for name, each in multipliers.items()}


def _fitted_loss_state(fitted: FittedLoss) -> dict[str, Any]:
    names = ("kind", "bound", "improvement", "features", "shift", "slope")
    models = tuple(saved_log_odds(model, LARGEST_LOG_ODDS) for model in fitted.models)
    return {"models": models, **{name: getattr(fitted, name) for name in names}}


def _linear(coefficients: Any, intercept: Any) -> LinearLogOdds:
    slopes = vector_or_table("coefficients", coefficients, 1)
    if not np.isfinite(slopes).all():
        raise ValueError("coefficients must be finite")
    return LinearLogOdds(slopes, finite("intercept", intercept))


def _trees(baseline: Any, depth: Any, **nodes: Any) -> TreeLogOdds:
    """Trees whose children come after their parents, so that every walk ends."""
    shape = np.shape(nodes["value"])
    kinds = {"threshold": "f", "value": "f", "missing_left": "b"}
    for name, array in nodes.items():
        if not isinstance(array, np.ndarray) or array.dtype.kind != kinds.get(name, "i"):
            raise ValueError(f"{name} must be an array of another type, got {repr(array)[:80]}")
        if array.shape != shape or len(shape) != 2 or not array.size:
            raise ValueError(f"{name} must be a table of trees and nodes, got {array.shape}")
    place, left, right = np.arange(shape[1])[None], nodes["left"], nodes["right"]
    inner = (place < left) & (place < right) & (left < shape[1]) & (right < shape[1])
    if not (inner | ((left == place) & (right == place))).all() or nodes["feature"].min() < 0:
        raise ValueError("a node must be a leaf, or have two later nodes of its tree as children")
    if not np.isfinite(nodes["value"]).all():
        raise ValueError("value must be finite")
    return TreeLogOdds(finite("baseline", baseline), depth=count("depth", depth, shape[1]), **nodes)


def _fitted_loss(kind: Any, models: Any, features: Any, **numbers: Any) -> FittedLoss:
    if not isinstance(models, tuple) or not isinstance(kind, str):
        raise ValueError("a fitted loss has a kind and a tuple of models")
    instance("features", features, PairFeatures)
    for model in models:
        instance("model", model, LinearLogOdds | TreeLogOdds)
    checked = {name: finite(name, value) for name, value in numbers.items()}
    if not checked["bound"] > 0:
        raise ValueError(f"bound must be above 0, got {checked['bound']!r}")
    return FittedLoss(kind=kind, models=models, features=features, **checked)


def _pair_features(
    indicated: Any,
    words: Any,
    means: Any,
    scales: Any,
    products: Any,
    policies: Any,
    centers: Any,
    spreads: Any,
) -> PairFeatures:
    if indicated is not None and not (isinstance(indicated, np.ndarray) and indicated.ndim == 1):
        raise ValueError("indicated must be a list of actions, or None")
    if not isinstance(words, tuple) or not all(
        each is None or (isinstance(each, np.ndarray) and each.dtype.kind == "U" and each.ndim == 1)
        for each in words
    ):
        raise ValueError("words must be a list of words, or None, for each column of the contexts")
    features = PairFeatures.__new__(PairFeatures)
    features.indicated, features.words = indicated, words
    features.means, features.scales = _standardization("scales", means, scales)
    features.centers, features.spreads = _standardization("spreads", centers, spreads)
    if not isinstance(products, bool) or not isinstance(policies, tuple):
        raise ValueError("products must be True or False, and policies a tuple")
    if len(policies) != len(features.centers):
        raise ValueError("there must be one center for each of the policies")
    for policy in policies:
        callable_value("log_prob", getattr(policy, "log_prob", None))
    features.products, features.policies = products, policies
    return features


def _standardization(name: str, means: Any, scales: Any) -> tuple[Floats, Floats]:
    """Means and scales of as many columns."""
    means, scales = vector_or_table(name, means, 1), vector_or_table(name, scales, 1)
    if means.shape != scales.shape or not (scales > 0).all():
        raise ValueError(f"{name} must be above 0, one for each of the means")
    return means, scales


def _estimator_losses(estimator: Any, features: Any) -> EstimatorLosses:
    if features is not None:
        callable_value("features", features)
    callable_value("predict", getattr(estimator, "predict", None))
    return EstimatorLosses(estimator, features)


AIMING_KINDS = (
    of_type("aimed_policy", AimedPolicy, "policy", *_TILT, build=_aimed_policy),
    of_type("aimed_score", AimedScore, "picker", *_TILT, build=_aimed_score),
    of_type("tempered_policy", TemperedPolicy, "policy", "temperature"),
    of_type("position_score", PositionScore, "policy"),
    Kind(
        "fitted_loss",
        lambda value: type(value) is FittedLoss,
        _fitted_loss_state,
        _fitted_loss,
    ),
    of_type("linear_log_odds", LinearLogOdds, "coefficients", "intercept", build=_linear),
    of_type(
        *("tree_log_odds", TreeLogOdds, "baseline", "feature", "threshold", "missing_left"),
        *("left", "right", "value", "depth"),
        build=_trees,
    ),
    of_type(
        *("pair_features", PairFeatures, "indicated", "words", "means", "scales", "products"),
        *("policies", "centers", "spreads"),
        build=_pair_features,
    ),
    of_type("estimator_losses", EstimatorLosses, "estimator", "features", build=_estimator_losses),
)
