"""Code by its import path: functions, methods, what `policy_from` made, and classes that save."""

from __future__ import annotations

from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from tether._core.import_paths import import_path_of
from tether.policies.functions import Recipe, recipe_of, remember
from tether.saving.errors import CannotSaveError
from tether.saving.kind import Kind
from tether.saving.permissions import Permissions
from tether.saving.saved_values import callable_value

METHODS_CALLED = frozenset(
    ("decision_function", "forward", "log_prob", "log_prob_all", "log_ratio", "predict")
) | frozenset(("predict_log_proba", "predict_proba", "sample", "score_samples", "transform"))
"""Methods that may be saved as functions: they compute, and neither change nor write anything."""
SAVE_METHOD, LOAD_METHOD = "tether_save", "tether_load"
"""The two methods of a class that says itself how it is saved."""


def _is_function(value: Any) -> bool:
    if isinstance(value, MethodType):
        return isinstance(value.__self__, type)
    return isinstance(value, (FunctionType, BuiltinFunctionType))


def _function_state(function: Any) -> dict[str, Any]:
    path = import_path_of(function)
    if path is None:
        name = getattr(function, "__qualname__", repr(function))
        raise CannotSaveError(
            f"is a function that no import path leads to ({name!r} of module "
            f"{getattr(function, '__module__', None)!r}). Define it at the top level of a module "
            f"that can be imported, not in the script that is run; or make the policy with "
            f"tether.policy_from('package.module:function', …); or give its class the methods "
            f"{SAVE_METHOD} and {LOAD_METHOD}"
        )
    return {"path": path}


def _load_function(permissions: Permissions, path: str) -> Any:
    found = permissions.find(path)
    if not callable(found):
        raise ValueError(f"import path {path!r} leads to {found!r}, which is not a function")
    return found


def _method_state(method: MethodType) -> dict[str, Any]:
    if method.__name__ not in METHODS_CALLED:
        raise CannotSaveError(
            f"is the method {method.__name__!r} of {type(method.__self__).__name__}; only these "
            f"methods are saved as functions: {', '.join(sorted(METHODS_CALLED))}"
        )
    return {"of": method.__self__, "name": method.__name__}


def _load_method(of: Any, name: str) -> Any:
    found = getattr(of, name) if isinstance(name, str) and name in METHODS_CALLED else None
    if not callable(found):
        raise ValueError(f"{str(name)[:80]!r} is not a method of {type(of).__name__} to be called")
    return found


def _partial_state(value: partial[Any]) -> dict[str, Any]:
    return {"function": value.func, "arguments": list(value.args), "named": dict(value.keywords)}


def _load_partial(function: Any, arguments: list[Any], named: dict[str, Any]) -> Any:
    return partial(callable_value("function", function), *arguments, **named)


def _recipe_state(value: Any) -> dict[str, Any]:
    recipe = recipe_of(value)
    assert recipe is not None  # recognized by it
    return {"path": recipe.path, "arguments": recipe.arguments}


def follow_recipe(permissions: Permissions, path: str, arguments: dict[str, Any]) -> Any:
    """Make an object again as `policy_from` made it, and remember this."""
    made = _load_function(permissions, path)(**arguments)
    remember(made, Recipe(path, arguments))
    return made


def _own_state(value: Any) -> dict[str, Any]:
    cls = type(value)
    path = import_path_of(cls)
    if path is None or not hasattr(cls, LOAD_METHOD):
        lacking = f"has no {LOAD_METHOD}" if path else "is not found at any import path"
        raise CannotSaveError(
            f"has the method {SAVE_METHOD}, but its class {cls.__qualname__!r} {lacking}"
        )
    saved = getattr(value, SAVE_METHOD)()
    if not isinstance(saved, dict):
        raise CannotSaveError(
            f"has the method {SAVE_METHOD}, which must return a dictionary, got {saved!r}"
        )
    return {"path": path, "saved": saved}


def _load_own(permissions: Permissions, path: str, saved: dict[str, Any]) -> Any:
    cls: Any = permissions.find(path)
    if not isinstance(cls, type) or not hasattr(cls, LOAD_METHOD):
        raise ValueError(f"import path {path!r} does not lead to a class with {LOAD_METHOD}")
    made = getattr(cls, LOAD_METHOD)(saved)
    if not isinstance(made, cls):
        raise ValueError(f"{LOAD_METHOD} of {path!r} returned {made!r}")
    return made


RECIPE = Kind(
    "made", lambda value: recipe_of(value) is not None, _recipe_state, follow_recipe, asks=True
)
OWN = Kind(
    "own",
    lambda value: hasattr(type(value), SAVE_METHOD),
    _own_state,
    _load_own,
    asks=True,
)
FUNCTION_KINDS = (
    Kind("function", _is_function, _function_state, _load_function, asks=True),
    Kind("method", lambda value: isinstance(value, MethodType), _method_state, _load_method),
    Kind("partial", lambda value: type(value) is partial, _partial_state, _load_partial),
)
