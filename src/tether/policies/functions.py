"""Policies made of code: of two functions, or by a function at an import path."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether._core.arrays import shown
from tether._core.files import import_path
from tether.policies.policy import CheckedPolicy


class FunctionPolicy(CheckedPolicy):
    """A policy whose draws and scores come from two functions.

    They must agree: `log_prob` must score the distribution that `sample` draws from. Where scores
    are estimates, the attribute `approximate` says of what, and `ratio_error` is the factor by
    which the density may be off; `make_log` hands both on.

    Parameters
    ----------
    sample : callable
        Function of (contexts, rng) that returns one action per context.
    log_prob : callable
        Function of (contexts, actions) that returns one log-probability per action.

    Examples
    --------
    >>> uniform = FunctionPolicy(
    ...     sample=lambda contexts, rng: rng.random(contexts),
    ...     log_prob=lambda contexts, actions: np.where((actions >= 0) & (actions < 1), 0, -np.inf),
    ... )
    >>> uniform.log_prob(3, [0.5, 0.1, 2.0])
    array([  0.,   0., -inf])
    """

    approximate: str | None = None
    ratio_error: float = 1.0

    def __init__(
        self,
        sample: Callable[[Any, np.random.Generator], ArrayLike],
        log_prob: Callable[[Any, NDArray[Any]], ArrayLike],
    ) -> None:
        for argument, value in (("sample", sample), ("log_prob", log_prob)):
            if not callable(value):
                raise TypeError(f"{argument} must be a function, got {value!r}")
        self._sample, self._log_prob = sample, log_prob

    def __repr__(self) -> str:
        return f"{type(self).__name__}({shown(self._sample)})"


_recipes: dict[int, tuple[weakref.ref[Any], dict[str, Any]]] = {}
"""How objects were made: the import path of a function or class, and its arguments."""


def policy_from(path: str, /, **arguments: Any) -> Any:
    """Call the function at an import path, and remember how, so that what it made can be saved.

    `tether.save_policy` then writes the path and the arguments, and `tether.load` makes the call
    again: the function must make the same policy each time, and the policy must not be changed
    afterwards. Of torch modules the current weights are saved as well.

    Parameters
    ----------
    path : str
        "package.module:function", or a class instead of a function; not in the script that is being
        run, because another process would not find it.
    **arguments : Any
        Arguments of the function: numbers, text, lists, dictionaries, arrays, policies.

    Returns
    -------
    Any
        What the function returned: a policy, or a part of one, such as a score for a shortlist.

    Examples
    --------
    >>> policy_from("tether.policies:Gaussian", mean=0.5).log_prob(1, [0.5]).round(3)
    array([-0.919])
    """
    function = import_path(path)
    if not callable(function):
        raise TypeError(f"path must lead to a function or a class, {path!r} is {function!r}")
    made = function(**arguments)
    remember(made, path, arguments)
    return made


def remember(made: Any, path: str, arguments: dict[str, Any]) -> None:
    """Remember how an object was made, as long as it exists. A copy of it is another object."""
    key = id(made)
    try:
        reference = weakref.ref(made, lambda _: _recipes.pop(key, None))
    except TypeError:
        raise TypeError(
            f"path must lead to a function that makes a policy, or a part of one; {path!r} "
            f"returned {made!r}"
        ) from None
    _recipes[key] = (reference, {"path": path, "arguments": arguments})


def recipe_of(value: Any) -> dict[str, Any] | None:
    """The `path` and the `arguments` with which `policy_from` made an object, or None."""
    reference, recipe = _recipes.get(id(value), (None, None))
    return recipe if reference is not None and reference() is value else None
