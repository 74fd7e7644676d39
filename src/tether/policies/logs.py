"""The log and the proposals of a calibration, scored under the policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether._core import policy_calls, validate
from tether._core.arrays import (
    Actions,
    Contexts,
    Floats,
    Losses,
    check_row_indexes,
    plain_column,
)
from tether._core.contexts import as_contexts, column_labels, labels, length, take
from tether.control.columns import SOURCES
from tether.control.log import Log, Proposals
from tether.policies.policy import (
    Policy,
    PolicyLike,
    as_policy,
    is_finite,
    picked,
    positions,
    shared_actions,
)
from tether.policies.probes import take_probes
from tether.policies.tethered import Tethered

PROPENSITY_TOLERANCE = 0.01
"""How far, relatively, a logged propensity may be from the probability that it states."""
MAX_PROPENSITY = 1 + 1e-6
"""A probability, with room for rounding."""


def make_log(
    safe: PolicyLike | None,
    optimized: PolicyLike,
    contexts: Contexts | None,
    actions: Actions,
    losses: Losses,
    *,
    rewards: ArrayLike | None = None,
    propensities: ArrayLike | None = None,
    min_propensity: float | None = None,
    logged_by: PolicyLike | None = None,
    safe_share: float | None = None,
) -> Log:
    """Score logged actions under both policies and build a `Log` to calibrate on.

    With contexts the log is contextual, and each row is labelled by the content of its context.
    Over finitely many actions it lists the scores of all of them, which makes every normalizing
    constant exact. The log keeps probes, a few contexts and actions with both scores: a calibration
    saves them, and they are scored again wherever it is served. A `Shortlist` makes its own log.

    A bandit log does not need the safe policy: pass None and the propensities. Without contexts and
    two actions everything can be calibrated from it; with more actions mix, and `alpha` then needs
    `min_propensity` or a number as test weight.

    Parameters
    ----------
    safe : Policy or None
        The safe policy; None if only `propensities` are known of it.
    optimized : Policy
        The optimized policy.
    contexts : array-like, int or None
        One row per action; None or the number of actions where there are no contexts.
    actions : array-like
        The actions that were taken.
    losses : array-like of float, or mapping
        The loss of each action, or several losses by name.
    rewards : array-like of float, optional
        What each action brought; gains are estimated from it.
    propensities : array-like of float, optional
        The probability with which the safe policy chose each action. Beside a safe policy they are
        compared with its own, which are used.
    min_propensity : float, optional
        A lower bound on the safe policy's probability of any action in any context, over finitely
        many actions. It bounds the weights of mix.
    logged_by : Policy, optional
        The policy that took the actions if it was not the safe policy: after several rounds or
        months, a `Mixture` of the policies that acted, weighted by their numbers of rows.
    safe_share : float, optional
        The share of the safe policy in `logged_by`.

    Returns
    -------
    Log
        The log, with the scores of both policies in every row.

    Examples
    --------
    >>> from tether import Gaussian, Tethered, calibrate
    >>> rng = np.random.default_rng(0)
    >>> safe, optimized = Gaussian(0.0), Gaussian(1.0)
    >>> actions = safe.sample(500, rng)
    >>> log = make_log(safe, optimized, None, actions, losses=actions > 1.5)
    >>> proposals = make_proposals(safe, optimized, None, 500, rng)
    >>> Tethered(safe, optimized, calibrate(log, proposals, alpha=0.15)).sample(3, rng).shape
    (3,)
    """
    given = {"contexts": contexts, "actions": actions, "losses": losses}
    check_row_indexes({**given, "rewards": rewards, "propensities": propensities})
    actions = plain_column("actions", actions)
    contexts = as_contexts(contexts, actions)
    if propensities is not None and logged_by is not None:
        raise ValueError(
            "propensities are those of the safe policy: leave them out beside logged_by"
        )
    stated: dict[str, Any] = {"reward": rewards, "safe_share": safe_share}
    if not isinstance(contexts, int):
        stated["context"] = labels(contexts)
    if safe is None and propensities is None:
        raise TypeError("safe is None, and so are propensities: pass one of them")
    policies = _by_name(safe, optimized, logged_by)
    noted = {name: each for name, each in policies.items() if name != "logged_by"}
    known = shared_actions(tuple(policies.values()))
    tables: dict[str, Floats] = {}
    if known is None:
        scores = {n: policy_calls.score(n, each, contexts, actions) for n, each in policies.items()}
        probes = take_probes(noted, contexts, actions, scores)
    else:
        taken = positions(known, actions, next(iter(policies)))
        asked = contexts, known
        tables = {name: policy_calls.table(name, each, *asked) for name, each in policies.items()}
        scores = {name: picked(table, taken) for name, table in tables.items()}
        probes = take_probes(noted, contexts, known, tables)
    finite = is_finite(policies["optimized"])
    if propensities is not None:
        stated_of_safe = checked_propensities(propensities, len(actions), finite=finite)
        if safe is not None:
            compare_with_policy(stated_of_safe, scores["safe"])
        else:
            check_one_policy(stated_of_safe, contexts, actions)
            scores["safe"] = np.log(stated_of_safe)
            if known is not None and len(known) == 2:  # the other action had what is left
                with np.errstate(divide="ignore"):
                    other = np.log1p(-stated_of_safe)
                own = taken[:, None] == np.arange(2)
                tables["safe"] = np.where(own, scores["safe"][:, None], other[:, None])
    lowest = tables.get("safe", scores["safe"])
    if known is not None and "safe" not in tables and len(known) > 1:  # others share what is left
        left = 1 - np.exp(lowest) * (1 - PROPENSITY_TOLERANCE)
        lowest = np.minimum(lowest, np.log(left / (len(known) - 1)))
    stated["max_ratio"] = max_ratio_of(min_propensity, lowest, finite=finite)
    if known is not None and "safe" in tables and not isinstance(contexts, int):
        for name, table in tables.items():
            column = f"log_{'mix' if name == 'logged_by' else name}_all"
            stated[column] = np.broadcast_to(table, (len(taken), len(known)))
    approximate, ratio_error = approximation_of(*policies.values())
    return Log(
        losses,
        scores["safe"],
        scores["optimized"],
        log_mix=scores.get("logged_by"),
        warnings=[approximate] if approximate else [],
        ratio_error=ratio_error,
        probes=probes,
        **stated,
    )


def _by_name(safe: PolicyLike | None, optimized: PolicyLike, logged_by: Any) -> dict[str, Policy]:
    """The policies of a log, as errors call them."""
    given = {"safe": safe, "optimized": optimized, "logged_by": logged_by}
    passed = {name: each for name, each in given.items() if each is not None or name == "optimized"}
    return {name: as_policy(name, each) for name, each in passed.items()}


def checked_propensities(propensities: ArrayLike, rows: int, *, finite: bool) -> Floats:
    """One positive number per row, at most 1 if there are finitely many actions."""
    values = validate.floats("propensities", propensities)
    validate.same_length("propensities", values, "actions", rows)
    bad = ~((values > 0) & (values <= (MAX_PROPENSITY if finite else np.inf)) & np.isfinite(values))
    if bad.any():
        accepted = "a probability above 0" + (" and at most 1" if finite else "")
        if values.max() <= 0:
            accepted += "; these look like log-probabilities: pass numpy.exp of them"
        if finite and values.min() > 0 and 1 < values.max() <= 100:
            accepted += f" (40 % is 0.4; the largest is {values.max():g})"
        validate.reject("propensities", values, bad, accepted)
    return np.minimum(values, 1.0) if finite else values


def compare_with_policy(propensities: Floats, scores: Floats, name: str = "safe") -> None:
    """Refuse propensities that are not the probabilities of the actions by the named policy."""
    off = ~(np.abs(np.log(propensities) - scores) <= PROPENSITY_TOLERANCE)
    if not off.any():
        return
    row = int(np.argmax(off))
    after = ". If a tethered policy took them, pass it as logged_by" if name == "safe" else ""
    raise ValueError(
        f"propensities disagree with the {name} policy in {int(off.sum())} of {len(off)} row(s) by "
        f"more than {PROPENSITY_TOLERANCE:.0%} (row {row}: {propensities[row]:.6g} in the log, "
        f"{np.exp(scores[row]):.6g} by the policy): the {name} policy is not the one that took "
        f"these actions, or contexts or actions are in another order or coding{after}"
    )


def check_one_policy(propensities: Floats, contexts: Any, actions: NDArray[Any]) -> None:
    """Refuse propensities that differ for the same action in the same context."""
    columns = [labels(actions)] + ([] if isinstance(contexts, int) else [labels(contexts)])
    _, group = np.unique(column_labels(columns), return_inverse=True)
    lowest = np.full(len(actions), np.inf)
    np.minimum.at(lowest, group, propensities)
    varies = np.log(propensities) - np.log(lowest[group]) > PROPENSITY_TOLERANCE
    if not varies.any():
        return
    row = int(np.argmax(varies))
    other = int(np.argmax((group == group[row]) & (propensities == lowest[group[row]])))
    one, other = sorted((row, other))
    where = "" if isinstance(contexts, int) else " in equal contexts"
    raise ValueError(
        f"rows {one} and {other} took the action {actions[one]!s}{where} with the propensities "
        f"{propensities[one]:.6g} and {propensities[other]:.6g}: the policy that took them depends "
        f"on more than the contexts passed. Pass everything that it depended on as contexts. If "
        f"these are rows of several policies or months, pass the safe policy and logged_by"
    )


def max_ratio_of(min_propensity: float | None, log_safe: Floats, *, finite: bool) -> float | None:
    """The largest ratio that a smallest propensity allows; it is compared with all known scores."""
    if min_propensity is None:
        return None
    smallest = validate.number("min_propensity", min_propensity, above=0, below=1)
    if not finite:
        raise ValueError(
            f"min_propensity is {min_propensity!r}, but densities may be above 1: where actions "
            f"cannot be listed, build tether.Log with max_ratio instead"
        )
    lowest = float(log_safe.min())
    if lowest < np.log(smallest) - PROPENSITY_TOLERANCE:
        raise ValueError(
            f"min_propensity is {min_propensity!r}, but the safe policy takes an action with the "
            f"probability {np.exp(lowest):.6g} or less"
        )
    return float(max(1 / smallest, np.exp(-lowest)))


def approximation_of(*policies: Policy) -> tuple[str | None, float]:
    """What is approximate about the densities of policies, and the largest factor they are off by.

    A policy says so by its attributes `approximate` and `ratio_error`; the parts of mixtures and of
    tethered policies are asked as well. (None, 1.0) where nothing is approximate.
    """
    sentence, error = None, 1.0
    for policy in policies:
        parts = (policy.safe, policy.optimized) if isinstance(policy, Tethered) else ()
        inner, inner_error = approximation_of(*parts, *getattr(policy, "policies", ()))
        sentence = sentence or getattr(policy, "approximate", None) or inner
        error = max(error, getattr(policy, "ratio_error", 1.0), inner_error)
    return sentence, error


def make_proposals(
    safe: PolicyLike,
    optimized: PolicyLike,
    contexts: Contexts | None,
    draws: int,
    rng: np.random.Generator,
    *,
    logged_by: PolicyLike | None = None,
) -> Proposals | None:
    """Draw fresh actions from each policy in each row of the contexts, scored under both policies.

    Pass the contexts of the log row by row: then every row has draws of its own, which `promise`
    and `confidence` need, as many of each policy as an action may take proposals (16 unless the
    family says otherwise). Contexts are matched to those of the log by their content (in which 1
    and 1.0 differ); rows in equal contexts share draws where there are too few.

    Parameters
    ----------
    safe, optimized : Policy
        The two policies.
    contexts : array-like, int or None
        The contexts of the log. Without contexts, an integer multiplies the number of draws, and
        None stands for 1.
    draws : int
        Draws from each policy per row of the contexts, at least 1.
    rng : numpy.random.Generator
        Source of randomness.
    logged_by : Policy, optional
        The policy that took the actions of the log, as in `make_log`.

    Returns
    -------
    Proposals or None
        The draws; None if the log has contexts and lists the scores of all actions already, so
        that no draws are needed.
    """
    policies = _by_name(safe, optimized, logged_by)
    contexts = 1 if contexts is None else as_contexts(contexts)
    draws = validate.integer("draws", draws)
    if not isinstance(contexts, int) and shared_actions(tuple(policies.values())) is not None:
        return None
    marginal = isinstance(contexts, int)
    rows = np.repeat(np.arange(length(contexts)), draws)
    repeated = len(rows) if marginal else take(contexts, rows)
    drawn = [draw_and_score(by, policies, repeated, rng) for by in SOURCES]
    log_safe, log_optimized, *log_mix = map(np.concatenate, zip(*drawn, strict=True))
    return Proposals(
        log_safe,
        log_optimized,
        context=None if marginal else np.tile(labels(contexts)[rows], 2),
        log_mix=log_mix[0] if log_mix else None,
        source=np.repeat(SOURCES, len(rows)),
    )


def draw_and_score(
    drawn_by: str, policies: Mapping[str, Policy], contexts: Any, rng: np.random.Generator
) -> list[Floats]:
    """Draw one action per context from one of the policies, and score it under every policy."""
    actions = policy_calls.draw(drawn_by, policies[drawn_by], contexts, rng)
    return [
        policy_calls.score(name, each, contexts, actions, drew=name == drawn_by)
        for name, each in policies.items()
    ]
