"""Policies made by a function that is named by its import path, so that they can be saved."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

from tether._core.import_paths import import_path


@dataclass(frozen=True)
class Recipe:
    """How an object was made: the import path of a function or class, and its arguments."""

    path: str
    arguments: dict[str, Any]


def policy_from(path: str, /, **arguments: Any) -> Any:
    """Call the function at an import path, and remember how, so that what it made can be saved.

    `tether.save_policy` then writes the path and the arguments, and `tether.load_policy` makes the
    call again. So the function must make the same policy each time, and the policy must not be
    changed afterwards. The exception are torch modules, whose current weights are saved as well.

    Parameters
    ----------
    path : str
        "package.module:function", or a class instead of a function. It cannot be in the script that
        is being run, because another process would not find it.
    **arguments : Any
        Arguments of the function: numbers, text, lists, dictionaries, arrays, policies.

    Returns
    -------
    Any
        What the function returned: a policy, or a part of one, such as a score for a shortlist, a
        function for a mean or a torch module.

    Raises
    ------
    ValueError
        If nothing is found at the path.
    TypeError
        If it is not callable, or returned something that cannot be remembered, such as a number.

    Examples
    --------
    >>> policy = policy_from("tether.policies:Gaussian", mean=0.5)
    >>> policy.log_prob(1, [0.5]).round(3)
    array([-0.919])
    """
    function = import_path(path)
    if not callable(function):
        raise TypeError(f"path must lead to a function or a class, {path!r} is {function!r}")
    made = function(**arguments)
    remember(made, Recipe(path, dict(arguments)))
    return made


def remember(made: Any, recipe: Recipe) -> None:
    """Remember how an object was made, as long as it exists. A copy of it is another object."""
    key = id(made)
    try:
        reference = weakref.ref(made, lambda _: _recipes.pop(key, None))
    except TypeError:
        raise TypeError(
            f"path must lead to a function that makes a policy, or a part of one; "
            f"{recipe.path!r} returned {made!r}, which cannot be remembered"
        ) from None
    _recipes[key] = (reference, recipe)


def recipe_of(value: Any) -> Recipe | None:
    """How `policy_from` made an object; None if it did not."""
    reference, recipe = _recipes.get(id(value), (None, None))
    return recipe if reference is not None and reference() is value else None


_recipes: dict[int, tuple[weakref.ref[Any], Recipe]] = {}
