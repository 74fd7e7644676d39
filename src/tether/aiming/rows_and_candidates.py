"""Candidates to choose from: the optimized policy, and aimed versions of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tether.aiming.aim import THE_LOSS, aim, tilt
from tether.aiming.fitted_loss import fit_loss
from tether.aiming.tilted_policies import TemperedPolicy
from tether.control.families import Family
from tether.policies.decision_rows import LoggedRows
from tether.policies.policy import as_policy, is_finite
from tether.policies.shortlist import Shortlist

PLAIN, SHORTLIST_SIZES_TO_TRY = "plain", (4, 16)
"""The name of the optimized policy as it is; sizes of shortlists over infinitely many actions."""
MULTIPLES, TEMPERATURES = (1.0, 2.0, 4.0), (1.0, 0.5)
"""How much to tilt, in units of the multiplier at which the predicted loss is alpha, and at which
temperatures of the optimized policy."""


Build: TypeAlias = Callable[[LoggedRows, np.random.Generator], Mapping[str, Any]]
"""From training rows to candidates by name, the plain one first."""


@dataclass(frozen=True)
class Candidate:
    """A policy or shortlist to calibrate in place of the optimized one, with its family."""

    policy: Any
    family: str | Family = "clip"


def aimed_candidates(
    optimized: Any,
    alpha: float | Mapping[str, float],
    *,
    bound: float | Mapping[str, float] = 1.0,
    families: Sequence[str | Family] = (),
    sizes: Sequence[int] | None = None,
) -> Build:
    """Make a function that fits a loss model on training rows and aims the optimized policy by it.

    Parameters
    ----------
    optimized : Policy or Shortlist
        The optimized policy. One over infinitely many actions is aimed through shortlists of the
        rows' safe policy, as is a `Shortlist`.
    alpha, bound : float or mapping of str to float
        The tolerated expected loss and the largest possible one, 1 by default; or one per loss.
    families : sequence of str or Family, default ()
        Families other than clip for the optimized policy as it is, untilted: "mix".
    sizes : sequence of int, optional
        Sizes of shortlists to try; by default 4 and 16 over infinitely many actions, else none.

    Returns
    -------
    callable
        A function of (rows, rng) that returns policies by name, the optimized one (or the first
        shortlist) first: for `choose`. Where the loss model is a constant, nothing is tilted.
    """
    given = optimized if isinstance(optimized, Shortlist) else as_policy("optimized", optimized)
    targets = alpha if isinstance(alpha, Mapping) else {THE_LOSS: alpha}

    def build(rows: LoggedRows, rng: np.random.Generator) -> dict[str, Any]:
        known = [each for each in (rows.policy, given) if hasattr(each, "log_prob")]
        columns, models = (rows.contexts, rows.actions), {}
        for name, losses in rows.losses.items():
            limit = bound[name] if isinstance(bound, Mapping) else bound
            models[name] = fit_loss(*columns, losses, rng=rng, bound=limit, policies=known)
        bases = _bases(given, rows.policy, sizes)
        warm = [name for name, base in bases.items() if isinstance(base, TemperedPolicy)]
        candidates = {name: base for name, base in bases.items() if name not in warm}
        for family in families:
            candidates[str(getattr(family, "name", family))] = Candidate(given, family)
        if all(model.kind == "constant" for model in models.values()):
            return candidates
        for name, base in bases.items():
            suffix = name.removeprefix(PLAIN).removeprefix(", ")
            single = isinstance(rows.contexts, int) and not isinstance(base, Shortlist)
            aimed = aim(base, models, 1 if single else rows.contexts, targets, rng=rng)
            for multiple in MULTIPLES if any(aimed.multipliers.values()) else ():
                harder = {loss: multiple * each for loss, each in aimed.multipliers.items()}
                title = f"aimed × {multiple:g}{suffix and ', ' + suffix}"
                candidates[title] = tilt(base, models, harder)
        return candidates

    return build


def _bases(given: Any, safe: Any, sizes: Sequence[int] | None) -> dict[str, Any]:
    """What may be tilted, by name: the policy at each temperature, and shortlists of it."""
    if isinstance(given, Shortlist):
        return {PLAIN: given}
    bases, temperatures = dict[str, Any](), list(TEMPERATURES)
    if is_finite(given):
        bases[PLAIN] = given
        for warmth in temperatures[1:]:
            bases[f"{PLAIN}, temperature {warmth:g}"] = TemperedPolicy(given, warmth)
        sizes, temperatures = sizes or (), temperatures[:1]
    if safe is None and sizes != ():
        raise TypeError("safe is required for shortlists, whose candidates it draws")
    for size in SHORTLIST_SIZES_TO_TRY if sizes is None else sizes:
        for warmth in temperatures:
            suffix = "" if warmth == 1 else f", temperature {warmth:g}"
            shortlist = Shortlist(safe, given, size=size, temperature=warmth)
            bases[f"shortlist of {size}{suffix}"] = shortlist
    return bases
