"""The table of kinds: for each class that is saved, its attributes and what they are built into."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import numpy as np

from tether._core import records, validate
from tether._core.files import import_path_of
from tether.aiming.fitted_loss import FittedLoss, PairFeatures
from tether.aiming.loss_models import EstimatorLosses
from tether.aiming.tilted_policies import AimedPolicy, AimedScore, TemperedPolicy
from tether.control.calibration import Calibration
from tether.control.families import BudgetedClip, Clip, Mix
from tether.policies import (
    FunctionPolicy,
    Gaussian,
    Mixture,
    Normalizer,
    Picker,
    Pool,
    Shortlist,
    Tethered,
    TetheredShortlist,
    categorical,
    ratio,
)
from tether.policies.decision import Decision
from tether.policies.decision_rows import LoggedRows, Question, RecordedPolicy
from tether.policies.functions import recipe_of
from tether.policies.kept_contexts import keep, kept
from tether.policies.policy import FunctionSampler
from tether.policies.probes import told_elsewhere
from tether.saving import models
from tether.saving.objects import CannotSaveError, Kind, Permissions

METHODS_CALLED = (
    *("decision_function", "forward", "log_prob", "log_prob_all", "log_ratio", "predict"),
    *("predict_log_proba", "predict_proba", "sample", "score_samples", "transform"),
)
"""Methods that may be saved as functions: they compute, and neither change nor write anything."""
SAVE_METHOD, LOAD_METHOD = "tether_save", "tether_load"
"""The two methods of a class that says itself how it is saved."""
_FUNCTIONS = ("_sample", "_log_prob", "approximate", "ratio_error")


def _categorical(table: Any, function: Any, actions: Any) -> categorical.Categorical:
    return categorical.Categorical(function if table is None else table, actions)


def _function_policy(approximate: Any, ratio_error: Any, **functions: Any) -> FunctionPolicy:
    policy = FunctionPolicy(**functions)
    policy.approximate, policy.ratio_error = approximate, ratio_error
    return policy


def _pool(table: Any) -> Pool:
    return Pool.__new__(Pool)._make("log_probabilities", table, None)  # normalized already


def _shortlist(size: Any, picker: Any = None, **state: Any) -> Picker | Shortlist:
    if validate.integer("size", size, 2) > 1_000_000:  # its positions are listed at once
        raise ValueError(f"size of a saved shortlist must be at most 1,000,000, got {size!r:.80}")
    if "optimized" in state:
        return Picker(size=size, **state)
    return Shortlist(size=size, optimized=picker, **state)


def _tethered_state(policy: Tethered) -> dict[str, Any]:
    names = ("safe", "family", "sampler", "max_draws")
    optimized: Any = policy.optimized
    return {
        **{name: getattr(policy, name) for name in names},
        "optimized": optimized.policies[0] if policy.blend else optimized,
        "beta": policy.beta if policy.calibration is None else policy.calibration,
        "normalizer": policy.remembered,
    }


def _tethered(
    safe: Any, optimized: Any, beta: Any, normalizer: Normalizer | None, **options: Any
) -> Tethered:
    with told_elsewhere():
        policy = Tethered(safe, optimized, beta, **options)
    policy.remembered = normalizer
    return policy


def _pair_features(**state: Any) -> PairFeatures:
    features = PairFeatures.__new__(PairFeatures)
    for name in ("scales", "spreads"):
        if not (validate.floats(name, np.append(state[name], 1.0)) > 0).all():
            raise ValueError(f"{name} must be above 0")
    vars(features).update(state)
    return features


def _of(cls: Any, *attributes: str, build: Callable[..., Any] | None = None) -> tuple[type, Kind]:
    """A class that is built from attributes, which may be private; by default those of a record."""
    names = attributes or tuple(each.name for each in fields(cls))

    def state(value: Any) -> dict[str, Any]:
        return {name.lstrip("_"): getattr(value, name, None) for name in names}

    return cls, Kind(cls.__name__, state, build or cls)


ROWS = Kind(
    "LoggedRows",
    lambda rows: {**vars(rows), "contexts": keep(rows.contexts, np.inf)},
    lambda contexts, **columns: LoggedRows(kept(contexts), **columns),
)
CALIBRATION = Kind(
    "Calibration",
    lambda found: {"value": records.encode(found)},
    partial(records.decode, Calibration),
)
BY_CLASS: dict[type, Kind] = dict(
    (
        _of(Gaussian, "_mean", "_scale"),
        _of(categorical.Categorical, "_table", "_function", "actions", build=_categorical),
        _of(categorical.TableFunction),
        _of(categorical.ClassifierLogits),
        _of(RecordedPolicy, "actions", "_known", "_table"),
        _of(Question),
        (LoggedRows, ROWS),
        _of(Decision),
        _of(Pool, "_table", build=_pool),
        _of(Mixture, "policies", "weights"),
        _of(FunctionPolicy, *_FUNCTIONS, build=_function_policy),
        _of(FunctionSampler),
        _of(ratio.EstimatedLogRatio),
        _of(ratio.DensityRatio),
        (Calibration, CALIBRATION),
        (Tethered, Kind("Tethered", _tethered_state, _tethered)),
        _of(Normalizer),
        _of(Clip),
        _of(Mix),
        _of(BudgetedClip),
        _of(Picker, "optimized", "size", "temperature", "_safe", build=_shortlist),
        _of(Shortlist, "safe", "size", "temperature", "picker", build=_shortlist),
        _of(TetheredShortlist, "shortlist", "pick"),
        _of(AimedPolicy, "policy", "loss_models", "multipliers"),
        _of(AimedScore, "policy", "loss_models", "multipliers"),
        _of(TemperedPolicy, "policy", "temperature"),
        _of(FittedLoss),
        (PairFeatures, Kind("PairFeatures", lambda value: dict(vars(value)), _pair_features)),
        _of(EstimatorLosses, "estimator", "features"),
    )
)
"""Classes of the package; each constructor checks what it is given."""


def _function_state(function: Any) -> dict[str, Any]:
    path = import_path_of(function)
    if path is None:
        name = getattr(function, "__qualname__", repr(function))
        raise CannotSaveError(
            f"is a function without an import path ({name!r}): define it at the top level of a "
            f"module, or make the policy with tether.policies.policy_from('module:function', …)"
        )
    return {"path": path}


def _method_state(method: MethodType) -> dict[str, Any]:
    if method.__name__ not in METHODS_CALLED:
        raise CannotSaveError(
            f"is the method {method.__name__!r}; saved are only {', '.join(METHODS_CALLED)}"
        )
    return {"of": method.__self__, "name": method.__name__}


def _load_method(of: Any, name: str) -> Any:
    if name not in METHODS_CALLED:
        raise ValueError(f"{name!r:.80} is not a method of {type(of).__name__} to be called")
    return getattr(of, name)


def _own_state(value: Any) -> dict[str, Any]:
    path, saved = import_path_of(type(value)), getattr(value, SAVE_METHOD)()
    if path is None or not hasattr(value, LOAD_METHOD) or not isinstance(saved, dict):
        raise CannotSaveError(
            f"has the method {SAVE_METHOD}, which must return a dictionary; its class must have "
            f"{LOAD_METHOD} and be found at an import path"
        )
    return {"path": path, "saved": saved}


def _load_own(permissions: Permissions, path: str, saved: dict[str, Any]) -> Any:
    return getattr(permissions.find(path), LOAD_METHOD)(saved)


OWN = Kind("own", _own_state, _load_own, asks=True)
MODULE = Kind("module", models.module_state, models.load_module, asks=True)
MADE = Kind("made", lambda value: dict(recipe_of(value) or {}), models.made_again, asks=True)
MODEL = Kind("model", models.sklearn_state, models.load_sklearn, asks=True)
METHOD = Kind("method", _method_state, _load_method)
PARTIAL = Kind(
    "partial",
    lambda value: {"function": value.func, "arguments": list(value.args), "named": value.keywords},
    lambda function, arguments, named: partial(function, *arguments, **named),
)
FUNCTION = Kind("function", _function_state, Permissions.find, asks=True)
OTHERS = (OWN, MODULE, MADE, MODEL, METHOD, PARTIAL, FUNCTION)
KINDS = {kind.name: kind for kind in (*BY_CLASS.values(), *OTHERS)}
"""Every kind by its name in a file."""


def kind_of(value: Any) -> Kind | None:
    """The kind of an object; None if it cannot be saved."""
    is_method = isinstance(value, MethodType) and not isinstance(value.__self__, type)
    choices = (
        (OWN, hasattr(type(value), SAVE_METHOD)),
        (MODULE, models.derives_from(value, "torch.nn.", "Module")),
        (MADE, recipe_of(value) is not None),
        (BY_CLASS.get(type(value)), type(value) in BY_CLASS),
        (MODEL, models.derives_from(value, "sklearn.base", "BaseEstimator")),
        (METHOD, is_method),
        (PARTIAL, type(value) is partial),
        (FUNCTION, isinstance(value, FunctionType | BuiltinFunctionType | MethodType)),
    )
    return next((kind for kind, recognized in choices if recognized), None)
