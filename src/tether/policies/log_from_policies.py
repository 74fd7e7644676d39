"""The log and the proposals of a calibration, scored under the policies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tether._core import policy_calls, validate
from tether._core.contexts import as_contexts, labels, length, take
from tether._core.plain_arrays import plain_column
from tether._core.row_indexes import check_row_indexes
from tether._core.types import Actions, Contexts, Floats, Integers, Losses
from tether.control.contradictions import (
    ratio_contradiction,
    taken_too_often,
    with_lacking_actions,
)
from tether.control.log import Log
from tether.control.log_checks import warn_and_keep
from tether.control.proposals import Proposals
from tether.control.repeated_rows import repeated_rows_warning
from tether.policies.aligned_actions import align_actions
from tether.policies.estimated_policy import approximation_of
from tether.policies.logged_actions import lacking_actions_warning, logged_positions
from tether.policies.policy import Policy, PolicyLike, as_policy, is_finite, shared_actions
from tether.policies.propensities import (
    checked_propensities,
    compare_with_policy,
    log_of_propensities,
    max_ratio_of,
)
from tether.policies.served_policies import note_policies
from tether.policies.shortlist import Shortlist
from tether.policies.table_policy import picked, positions


def make_log(
    safe: PolicyLike | Shortlist | None,
    optimized: PolicyLike | Callable[..., Any],
    contexts: Contexts | None,
    actions: Actions,
    losses: Losses,
    *,
    rewards: ArrayLike | None = None,
    propensities: ArrayLike | None = None,
    min_propensity: float | None = None,
    logged_by: PolicyLike | None = None,
    safe_share: float | None = None,
    rng: np.random.Generator | None = None,
) -> Log:
    """Score logged actions under both policies and build a `Log` to calibrate on.

    With contexts the log is contextual, and each row is labelled by the content of its context.
    Over finitely many actions it lists the scores of all of them, which makes every normalizing
    constant exact. Without contexts it is marginal. With a `Shortlist` as the safe policy, fresh
    candidates are drawn beside each action, and `Shortlist.tethered` serves the result.

    A bandit log, with the probability of the action that was shown, does not need the safe policy:
    pass None and the propensities. Without contexts and with two actions everything can be
    calibrated from such a log; with more actions mix, given `min_propensity` or a number as test
    weight. Clip then needs the safe policy, whose probabilities of the other actions are not in the
    log.

    Parameters
    ----------
    safe : Policy, Shortlist or None
        The safe policy; None if only `propensities` are known of it.
    optimized : Policy
        The optimized policy; beside a shortlist, it may be a score of candidates.
    contexts : array-like, int or None
        One row per action; None or the number of actions where there are no contexts.
    actions : array-like
        The actions that were taken.
    losses : array-like of float, or mapping
        The loss of each action, or several losses by name.
    rewards : array-like of float, optional
        What each action brought, any finite numbers. Calibration does not use them; `tether.gain`
        does.
    propensities : array-like of float, optional
        The probability with which the safe policy chose each action. Beside a safe policy they are
        compared with its own, which are used.
    min_propensity : float, optional
        A number that the safe policy's probability of any action in any context is not below, over
        finitely many actions. It bounds the weights of mix.
    logged_by : Policy, optional
        The policy that took the actions if it was not the safe policy: after several rounds, a
        `Mixture` of the deployed policies.
    safe_share : float, optional
        The share of the safe policy in `logged_by`.
    rng : numpy.random.Generator, optional
        The source of randomness for the candidates of a shortlist; only for a shortlist.

    Returns
    -------
    Log
        The log, with the scores of both policies in every row.

    Raises
    ------
    ValueError
        If lengths do not match, a policy returns invalid scores, the policy that took the actions
        gives one of them probability 0, or propensities contradict it or each other.

    Warns
    -----
    AssumptionWarning
        If actions are in the log more rarely or more often than the policies or propensities say,
        or more rows occur several times than by chance, as in a table of files that overlap.

    Examples
    --------
    >>> from tether import Gaussian, Tethered, calibrate
    >>> rng = np.random.default_rng(0)
    >>> safe, optimized = Gaussian(0.0), Gaussian(1.0)
    >>> actions = safe.sample(500, rng)
    >>> log = make_log(safe, optimized, None, actions, losses=actions > 1.5)
    >>> proposals = make_proposals(safe, optimized, None, 500, rng)
    >>> calibration = calibrate(log, proposals, alpha=0.15)
    >>> Tethered(safe, optimized, calibration).sample(3, rng).round(2)
    array([ 0.41, -0.21,  0.71])

    A bandit log with three items, shown at random with the logged propensities:

    >>> from tether import Categorical
    >>> new = Categorical.from_probabilities([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]])
    >>> segment, item = rng.integers(2, size=400), rng.integers(3, size=400)
    >>> no_click = rng.random(400) < 0.5
    >>> log = make_log(None, new, segment, item, no_click,
    ...                propensities=np.full(400, 1 / 3), min_propensity=1 / 3)
    >>> calibrate(log, alpha=0.6, family="mix").exists
    True
    """
    given = {"contexts": contexts, "actions": actions, "losses": losses}
    check_row_indexes({**given, "rewards": rewards, "propensities": propensities})
    if isinstance(safe, Shortlist):
        for_policies = (logged_by, safe_share, propensities, min_propensity)
        if any(each is not None for each in for_policies):
            raise ValueError(
                "logged_by, safe_share and propensities are not for shortlists: a "
                "tether.Controller keeps the candidates of several rounds"
            )
        picked_by = safe.with_optimized(optimized)
        rng = validate.generator("rng", rng)
        return picked_by.make_log(contexts, actions, losses, rng, rewards=rewards)
    optimized = as_policy("optimized", optimized)
    actions = plain_column("actions", actions)
    contexts = as_contexts(contexts, actions)
    _check_lengths(losses, rewards, len(actions))
    if propensities is not None and logged_by is not None:
        raise ValueError(
            "propensities are the safe policy's probabilities of its own actions, so they cannot "
            "be combined with logged_by"
        )
    if safe is None:
        if propensities is None:
            raise TypeError(
                "safe is None: pass the safe policy, or the propensities with which it chose the "
                "actions"
            )
        log = log_of_propensities(
            optimized, contexts, actions, losses, propensities, min_propensity, rewards
        )
        shown = positions(optimized.actions, actions) if is_finite(optimized) else None
        return warn_and_keep(log, repeated_rows_warning(log, shown))
    safe, optimized = align_actions(as_policy("safe", safe), optimized)
    policies = {"safe": safe, "optimized": optimized}
    if logged_by is not None:
        policies["logged_by"] = as_policy("logged_by", logged_by)
    known = shared_actions(tuple(policies.values()))
    columns: dict[str, Any] = {}
    tables: dict[str, Floats] = {}
    logging_policy = "safe" if logged_by is None else "logged_by"
    finite = is_finite(optimized)
    if known is None:
        log_safe, log_optimized = policy_calls.score_both(safe, optimized, contexts, actions)
        columns = {_column("safe"): log_safe, _column("optimized"): log_optimized}
        if logged_by is not None:
            scores = policy_calls.score("logged_by", policies["logged_by"], contexts, actions)
            columns[_column("logged_by")] = scores
    else:
        taken = logged_positions("safe", known, actions)
        for name, policy in policies.items():
            tables[name] = policy_calls.table(name, policy, contexts)
            columns[_column(name)] = picked(tables[name], taken)
            if not isinstance(contexts, int):
                shape = (len(taken), len(known))
                columns[f"{_column(name)}_all"] = np.broadcast_to(tables[name], shape)
    if not isinstance(contexts, int):
        columns["context"] = labels(contexts)
    if propensities is not None:
        stated = checked_propensities(propensities, len(actions), finite=finite)
        compare_with_policy(stated, columns["log_safe"])
    log_logged = columns[_column(logging_policy)]
    _check_possible(logging_policy, log_logged)
    max_ratio = max_ratio_of(min_propensity, tables.get("safe", columns["log_safe"]), finite=finite)
    lacking = contradiction = None
    if known is not None:
        logged_table = tables[logging_policy]
        lacking = lacking_actions_warning(
            known, taken, tables["optimized"], logged_table, None, log_logged
        )
    approximate, ratio_error = approximation_of(*policies.values())
    log = Log(
        losses,
        **columns,
        safe_share=safe_share,
        max_ratio=max_ratio,
        approximate=approximate,
        ratio_error=ratio_error,
        reward=rewards,
        scored_by=note_policies(safe, optimized, contexts, known, tables),
    )
    if known is not None and logged_by is None and approximate is None:
        contradiction = taken_too_often(
            *(known, taken, np.exp(log_logged), len(known), "probability"),
            "Actions and contexts look as if they were from different rows, actions are coded in "
            "another order than the safe policy's, or another policy took them",
        ) or ratio_contradiction(log.log_optimized - log.log_safe, ratio_error)
    copies = repeated_rows_warning(log, None if known is None else taken)
    return warn_and_keep(log, with_lacking_actions(contradiction, lacking), copies)


def _check_lengths(losses: Losses, rewards: ArrayLike | None, rows: int) -> None:
    """Refuse losses and rewards that are not as many as the actions."""
    columns: dict[str, Any] = {"losses": losses, "rewards": rewards}
    if isinstance(losses, Mapping):
        columns |= {f"losses[{name!r}]": each for name, each in losses.items()}
    for name, column in columns.items():
        if isinstance(column, (list, tuple)) or len(getattr(column, "shape", ())) > 0:
            validate.same_length(name, column, "actions", rows)


def make_proposals(
    safe: PolicyLike | Shortlist,
    optimized: PolicyLike | Callable[..., Any],
    contexts: Contexts | None,
    draws: int,
    rng: np.random.Generator,
    *,
    logged_by: PolicyLike | None = None,
) -> Proposals | None:
    """Draw fresh actions from each policy in each context, scored under both policies.

    Contexts are matched to those of the log by their content (in which 1 and 1.0 differ): their
    order does not matter, equal contexts share their draws, and calibration refuses a log with a
    context that has none.

    Parameters
    ----------
    safe : Policy or Shortlist
        The safe policy.
    optimized : Policy
        The optimized policy.
    contexts : array-like, int or None
        The contexts of the log. Without contexts, an integer multiplies the number of draws, and
        None stands for 1.
    draws : int
        Draws from each policy per context, at least 1. A context that is listed several times, as
        for the rows of a log, gets as many for each time.
    rng : numpy.random.Generator
        Source of randomness.
    logged_by : Policy, optional
        The policy that took the actions of the log, as in `make_log`.

    Returns
    -------
    Proposals or None
        The draws; None if the log has contexts and lists the scores of all actions already, as it
        does for a shortlist, so that no draws are needed.

    Raises
    ------
    ValueError
        If `draws` is not an integer of at least 1, or a policy returns invalid actions or scores.

    Examples
    --------
    >>> from tether import Gaussian
    >>> rng = np.random.default_rng(0)
    >>> len(make_proposals(Gaussian(0.0), Gaussian(1.0), None, 100, rng))
    200
    """
    if isinstance(safe, Shortlist):
        return None
    safe, optimized = align_actions(as_policy("safe", safe), as_policy("optimized", optimized))
    draws = validate.integer_at_least("draws", draws)
    contexts = 1 if contexts is None else as_contexts(contexts)
    marginal = isinstance(contexts, int)
    policies = [safe, optimized]
    if logged_by is not None:
        logged_by = as_policy("logged_by", logged_by)
        policies.append(logged_by)
    if not marginal and shared_actions(policies) is not None:
        return None
    return _fresh_draws(safe, optimized, logged_by, contexts, draws, rng)


def _fresh_draws(
    safe: Policy,
    optimized: Policy,
    logged_by: Policy | None,
    contexts: Any,
    counts: int | Integers,
    rng: np.random.Generator,
) -> Proposals:
    """Draws of both policies, so many in each context."""
    marginal = isinstance(contexts, int)
    rows = np.repeat(np.arange(length(contexts)), counts)
    repeated = len(rows) if marginal else take(contexts, rows)
    pieces = [
        _draw_and_score(name, drawn_by, safe, optimized, logged_by, repeated, rng)
        for name, drawn_by in (("safe", safe), ("optimized", optimized))
    ]
    log_safe, log_optimized, log_mix = (
        np.concatenate(scores) for scores in zip(*pieces, strict=True)
    )
    return Proposals(
        log_safe,
        log_optimized,
        context=None if marginal else np.tile(labels(contexts)[rows], 2),
        log_mix=None if logged_by is None else log_mix,
        source=np.repeat(["safe", "optimized"], length(repeated)),
    )


def _draw_and_score(
    name: str,
    drawn_by: Policy,
    safe: Policy,
    optimized: Policy,
    logged_by: Policy | None,
    contexts: Any,
    rng: np.random.Generator,
) -> tuple[Floats, Floats, Floats]:
    actions = policy_calls.draw(name, drawn_by, contexts, rng)
    log_safe, log_optimized = policy_calls.score_both(
        safe,
        optimized,
        contexts,
        actions,
        drew_safe=name == "safe",
        drew_optimized=name == "optimized",
    )
    if logged_by is None:
        return log_safe, log_optimized, log_safe
    log_mix = policy_calls.score("logged_by", logged_by, contexts, actions)
    return log_safe, log_optimized, log_mix


def _column(name: str) -> str:
    return "log_mix" if name == "logged_by" else f"log_{name}"


def _check_possible(name: str, log_logged: Floats) -> None:
    if log_logged.min() == -np.inf:
        expected = "a finite log-probability, because the log states that it took this action"
        validate.reject(
            f"the {name} policy's log_prob", log_logged, np.isneginf(log_logged), expected
        )
