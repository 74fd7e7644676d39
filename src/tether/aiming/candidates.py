"""Candidates to choose from: the optimized policy, and aimed versions of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tether._core import validate
from tether.aiming.aim_at_alpha import THE_LOSS, aim, aimed_shortlist
from tether.aiming.aimed_policy import AimedPolicy
from tether.aiming.fitted_loss import fit_loss
from tether.aiming.tempered_policy import TemperedPolicy
from tether.aiming.training_rows import LoggedRows
from tether.control.families import Family
from tether.policies.policy import as_policy, is_finite
from tether.policies.shortlist import Shortlist

Fit: TypeAlias = Callable[[LoggedRows, np.random.Generator], Mapping[str, Any]]
"""From training rows to a loss model for each loss, by name."""
PLAIN = "plain"
"""The name of the optimized policy as it is."""
SHORTLIST_SIZES_TO_TRY = (4, 16)
"""Sizes of shortlists of a policy over infinitely many actions."""


@dataclass(frozen=True)
class Candidate:
    """A policy that may be calibrated, with its family.

    Parameters
    ----------
    policy : Policy or Shortlist
        What is calibrated in place of the optimized policy.
    family : str or Family, default "clip"
        How beta turns it and the safe policy into one.
    """

    policy: Any
    family: str | Family = "clip"


def aimed_candidates(
    optimized: Any,
    alpha: float | Mapping[str, float],
    *,
    bound: float | Mapping[str, float] = 1.0,
    fit: Fit | None = None,
    multiples: Sequence[float] = (1.0, 2.0, 4.0),
    temperatures: Sequence[float] = (1.0, 0.5),
    families: Sequence[str | Family] = (),
    sizes: Sequence[int] | None = None,
) -> Callable[[LoggedRows, np.random.Generator], dict[str, Any]]:
    """Make a function that fits a loss model on training rows and aims the optimized policy by it.

    The log-probabilities of the optimized policy, and of the safe one if the rows have it, are
    features of the loss model.

    Parameters
    ----------
    optimized : Policy or Shortlist
        The optimized policy. One over infinitely many actions is aimed through shortlists of the
        rows' safe policy, as is a `Shortlist`.
    alpha : float or mapping of str to float
        What is tolerated of the loss, or of each loss.
    bound : float or mapping of str to float, default 1.0
        The largest possible loss, or that of each loss.
    fit : callable, optional
        A function of (rows, rng) that returns a loss model for each loss, by name, in place of
        `fit_loss`.
    multiples : sequence of float, default (1, 2, 4)
        How much to tilt, in units of the multiplier at which the predicted loss is alpha.
    temperatures : sequence of float, default (1, 0.5)
        Temperatures of the optimized policy before it is tilted.
    families : sequence of str or Family, default ()
        Families other than clip in which the optimized policy as it is may be calibrated: "mix".
    sizes : sequence of int, optional
        Sizes of shortlists to try; by default none over finitely many actions, where there is an
        exact tilt, and 4 and 16 over infinitely many.

    Returns
    -------
    callable
        A function of (rows, rng) that returns policies by name, the optimized one first: for
        `choose`. Where the loss model is a constant, there is nothing to aim by, and nothing is
        tilted. Over infinitely many actions the first one is the first shortlist.

    Raises
    ------
    TypeError, ValueError
        If multiples or temperatures are not one or more numbers above 0; when it is called, if a
        shortlist is needed, and the rows have no safe policy.

    Examples
    --------
    >>> import tether
    >>> optimized = tether.Categorical.from_probabilities([0.2, 0.8])
    >>> rng = np.random.default_rng(0)
    >>> actions = rng.integers(2, size=400)
    >>> harm = (rng.random(400) < 0.4 * actions).astype(float)
    >>> rows = LoggedRows(400, actions, harm, actions.astype(float))
    >>> build = aimed_candidates(optimized, 0.1, temperatures=(1.0,))
    >>> list(build(rows, rng))
    ['plain', 'aimed × 1', 'aimed × 2', 'aimed × 4']
    """
    given = optimized if isinstance(optimized, Shortlist) else as_policy("optimized", optimized)
    targets = alpha if isinstance(alpha, Mapping) else {THE_LOSS: alpha}
    tilts, warmths = positive("multiples", multiples), positive("temperatures", temperatures)

    def fit_each(rows: LoggedRows, rng: np.random.Generator) -> dict[str, Any]:
        known = [each for each in (rows.safe, given) if hasattr(each, "log_prob")]
        losses = rows.losses if isinstance(rows.losses, Mapping) else {THE_LOSS: rows.losses}
        return {
            name: fit_loss(
                rows.contexts,
                rows.actions,
                values,
                rng=rng,
                bound=bound[name] if isinstance(bound, Mapping) else bound,
                policies=known,
            )
            for name, values in losses.items()
        }

    def build(rows: LoggedRows, rng: np.random.Generator) -> dict[str, Any]:
        models = dict((fit or fit_each)(rows, rng))
        bases = _bases(given, rows.safe, warmths, sizes)
        candidates = {name: base for name, base in bases.items() if _as_it_is(name, base)}
        candidates |= {
            str(getattr(family, "name", family)): Candidate(given, family) for family in families
        }
        if any(getattr(model, "kind", "") != "constant" for model in models.values()):
            for name, base in bases.items():
                suffix = name.removeprefix(PLAIN).removeprefix(", ")
                for multiple, policy in _tilted(base, models, targets, rows, tilts, rng):
                    candidates[f"aimed × {multiple:g}{suffix and ', ' + suffix}"] = policy
        return candidates

    return build


def positive(name: str, values: Any) -> tuple[float, ...]:
    """One or more numbers above 0."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be a sequence of numbers, got {values!r}")
    numbers = tuple(validate.number(name, each, above=0, below=np.inf) for each in values)
    if not numbers:
        raise ValueError(f"{name} must have at least one number, got {values!r}")
    return numbers


def _bases(
    given: Any, safe: Any, temperatures: Sequence[float], sizes: Sequence[int] | None
) -> dict[str, Any]:
    """What may be tilted, by name: the policy at each temperature, and shortlists of it."""
    if isinstance(given, Shortlist):
        return {PLAIN: given}
    bases: dict[str, Any] = {}
    if is_finite(given):
        bases[PLAIN] = given
        for temperature in temperatures:
            if temperature != 1:
                bases[_warm(PLAIN, temperature)] = TemperedPolicy(given, temperature)
        sizes, temperatures = sizes or (), (1.0,)
    if sizes is None:
        sizes = SHORTLIST_SIZES_TO_TRY
    if sizes and safe is None:
        raise TypeError(
            "the rows have no safe policy, whose draws are the candidates of a shortlist: pass "
            "LoggedRows(…, safe=safe)"
        )
    for size in sizes:
        for temperature in temperatures:
            name = _warm(f"shortlist of {size}", temperature)
            bases[name] = Shortlist(safe, given, size=size, temperature=temperature)
    return bases


def _warm(name: str, temperature: float) -> str:
    return name if temperature == 1 else f"{name}, temperature {temperature:g}"


def _as_it_is(name: str, base: Any) -> bool:
    """Whether it is a candidate without a tilt: all but policies at another temperature."""
    return name == PLAIN or isinstance(base, Shortlist)


def _tilted(
    base: Any,
    models: Mapping[str, Any],
    alphas: Mapping[str, float],
    rows: LoggedRows,
    multiples: Sequence[float],
    rng: np.random.Generator,
) -> Iterator[tuple[float, Any]]:
    """Multiples of the tilt at which the predicted loss is alpha; none if it is lower anyway."""
    short = isinstance(base, Shortlist)
    no_contexts = isinstance(rows.contexts, int) and not short
    solved = aim(base, models, 1 if no_contexts else rows.contexts, alphas, rng=rng).multipliers
    if not any(solved.values()):
        return
    for multiple in multiples:
        tilt = {name: multiple * value for name, value in solved.items()}
        yield (
            multiple,
            aimed_shortlist(base, models, tilt) if short else AimedPolicy(base, models, tilt),
        )
