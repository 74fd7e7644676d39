"""The policies of the package other than tethered ones: what they are saved as."""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._core.types import Floats
from tether._core.validate import frozen
from tether.policies.categorical import (
    Categorical,
    ClassifierLogits,
    LogitFunction,
    ProbabilityFunction,
    ReorderedColumns,
    check_normalized,
)
from tether.policies.functions import FunctionPolicy, TorchPolicy
from tether.policies.gaussian import Gaussian
from tether.policies.mixture import Mixture
from tether.policies.policy import FunctionSampler
from tether.policies.ratio import (
    DensityRatio,
    EstimatedLogRatio,
    EstimatedPolicy,
    RatioError,
    ZeroLogRatio,
)
from tether.policies.tables import Pool
from tether.saving.kind import Kind, of_type
from tether.saving.saved_values import callable_value, count, instance, real, vector_or_table

SAVED_SUM_TOLERANCE = 1e-9
"""How far the sum of saved weights may be from 1: they were normalized before."""


def _gaussian_state(policy: Gaussian) -> dict[str, Any]:
    return {"mean": policy._mean, "scale": policy._scale, "cholesky": policy._cholesky}


def _gaussian(mean: Any, scale: Any, cholesky: Any) -> Gaussian:
    mean = mean if callable(mean) else vector_or_table("mean", mean, 0, 1)
    if cholesky is None:
        scale = scale if callable(scale) else vector_or_table("scale", scale, 0, 1)
        return Gaussian(mean, scale)
    factor = vector_or_table("cholesky", cholesky, 2)
    square = factor.shape[0] == factor.shape[1] and factor.shape[0] > 0
    if scale is not None or not square or not np.isfinite(factor).all():
        raise ValueError(f"cholesky must be a finite matrix, got shape {factor.shape}")
    if np.triu(factor, 1).any() or not (np.diag(factor) > 0).all():
        raise ValueError("cholesky must be lower triangular with a positive diagonal")
    policy = Gaussian(mean, covariance=np.eye(len(factor)))
    policy._use_cholesky(factor)  # a factorization of its square could round differently
    return policy


def _categorical_state(policy: Categorical) -> dict[str, Any]:
    table = policy._table if policy._function is None else None
    return {"table": table, "function": policy._function, "actions": policy.actions}


def _categorical(table: Any, function: Any, actions: Any) -> Categorical:
    if (table is None) == (function is None) or not isinstance(actions, np.ndarray):
        raise ValueError("a categorical policy has a table or a function, and actions")
    if table is None:
        return Categorical(callable_value("function", function), actions)
    return Categorical(vector_or_table("table", table, 1, 2), actions)


def _probability_function(function: Any) -> ProbabilityFunction:
    return ProbabilityFunction(callable_value("function", function))


def _logit_function(function: Any, temperature: Any) -> LogitFunction:
    number = real("temperature", temperature)
    if not 0 < number < np.inf:
        raise ValueError(f"temperature must be above 0 and finite, got {number!r}")
    return LogitFunction(callable_value("function", function), number)


def _classifier_logits(classifier: Any) -> ClassifierLogits:
    callable_value("predict_proba", getattr(classifier, "predict_proba", None))
    return ClassifierLogits(classifier)


def _reordered_columns(policy: Any, order: Any) -> ReorderedColumns:
    places = np.asarray(order)
    if places.dtype.kind not in "iu" or sorted(places.tolist()) != list(range(places.size)):
        raise ValueError(f"order must name every column once, got {places.tolist()!r:.80}")
    return ReorderedColumns(instance("policy", policy, Categorical), tuple(places.tolist()))


def _pool(log_probabilities: Any) -> Pool:
    table = vector_or_table("log_probabilities", log_probabilities, 1)
    check_normalized("log_probabilities", table)
    pool = Pool(table)
    pool._table = frozen(table[None])  # normalized once, not twice
    return pool


def _mixture(policies: Any, weights: Any) -> Mixture:
    normalized: Floats = vector_or_table("weights", weights, 1)
    mixture = Mixture(policies, normalized)
    if not abs(normalized.sum() - 1) <= SAVED_SUM_TOLERANCE:
        raise ValueError(f"weights sum to {normalized.sum():.9g}, not to 1")
    mixture.weights = frozen(normalized)  # normalized once, not twice
    return mixture


def _function_policy_state(policy: FunctionPolicy) -> dict[str, Any]:
    return {"sample": policy._sample, "log_prob": policy._log_prob, "name": policy.name}


def _function_policy(sample: Any, log_prob: Any, name: Any) -> FunctionPolicy:
    return FunctionPolicy(sample, log_prob, name=str(name))


def _estimated_state(policy: EstimatedPolicy) -> dict[str, Any]:
    told = {"approximate": policy.approximate, "ratio_error": policy.ratio_error}
    return {**_function_policy_state(policy), **told}


def _estimated(
    sample: Any, log_prob: Any, name: Any, approximate: Any, ratio_error: Any
) -> EstimatedPolicy:
    error = real("ratio_error", ratio_error)
    if not error >= 1 or not isinstance(approximate, (str, type(None))):
        raise ValueError(f"ratio_error must be at least 1, and approximate text, got {error!r}")
    return EstimatedPolicy(str(name), sample, log_prob, approximate, error)


def _estimated_log_ratio(model: Any, features: Any, **draws: Any) -> EstimatedLogRatio:
    if features is not None:
        callable_value("features", features)
    callable_value("predict_proba", getattr(model, "predict_proba", None))
    numbers = {name: count(name, value) for name, value in draws.items()}
    return EstimatedLogRatio(model, features, **numbers)


def _density_ratio(safe: Any, optimized: Any, measured: Any, **draws: Any) -> DensityRatio:
    return DensityRatio(
        instance("safe", safe, EstimatedPolicy),
        instance("optimized", optimized, EstimatedPolicy),
        instance("measured", measured, RatioError),
        **{name: count(name, value) for name, value in draws.items()},
    )


def _ratio_error(content: Any) -> RatioError:
    return RatioError._from_saved(dict(content))


POLICY_KINDS = (
    Kind("gaussian", lambda value: type(value) is Gaussian, _gaussian_state, _gaussian),
    Kind("categorical", lambda value: type(value) is Categorical, _categorical_state, _categorical),
    of_type("probability_function", ProbabilityFunction, "function", build=_probability_function),
    of_type("logit_function", LogitFunction, "function", "temperature", build=_logit_function),
    of_type("classifier_logits", ClassifierLogits, "classifier", build=_classifier_logits),
    Kind(
        "reordered_columns",
        lambda value: type(value) is ReorderedColumns,
        lambda value: {"policy": value.policy, "order": np.asarray(value.order, np.int64)},
        _reordered_columns,
    ),
    Kind(
        "pool",
        lambda value: type(value) is Pool,
        lambda pool: {"log_probabilities": pool._table[0]},
        _pool,
    ),
    Kind(
        "mixture",
        lambda value: type(value) is Mixture,
        lambda mixture: {"policies": list(mixture.policies), "weights": mixture.weights},
        _mixture,
    ),
    Kind(
        "function_policy",
        lambda value: type(value) is FunctionPolicy,
        _function_policy_state,
        _function_policy,
    ),
    Kind(
        "function_sampler",
        lambda value: type(value) is FunctionSampler,
        lambda sampler: {"sample": sampler._function},
        lambda sample: FunctionSampler(callable_value("sample", sample)),
    ),
    Kind(
        "torch_policy",
        lambda value: type(value) is TorchPolicy,
        lambda policy: {"distribution": policy._distribution},
        TorchPolicy,
    ),
    Kind(
        "estimated_policy",
        lambda value: type(value) is EstimatedPolicy,
        _estimated_state,
        _estimated,
    ),
    of_type("zero_log_ratio", ZeroLogRatio),
    of_type(
        *("estimated_log_ratio", EstimatedLogRatio, "model", "features"),
        *("safe_draws", "optimized_draws"),
        build=_estimated_log_ratio,
    ),
    of_type(
        *("density_ratio", DensityRatio, "safe", "optimized", "measured"),
        *("safe_draws", "optimized_draws"),
        build=_density_ratio,
    ),
    Kind(
        "ratio_error",
        lambda value: type(value) is RatioError,
        lambda measured: {"content": measured.to_dict()},
        _ratio_error,
    ),
)
