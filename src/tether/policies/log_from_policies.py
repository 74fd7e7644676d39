"""From policies to the tables that calibration wants."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core import policy_calls, validate
from tether._core.contexts import as_contexts, labels, length, take
from tether._core.types import Floats
from tether.control.log import Log
from tether.control.proposals import Proposals
from tether.policies.categorical import picked, positions
from tether.policies.mixture import shared_actions
from tether.policies.policy import Policy, as_policy


def make_log(
    safe: Any,
    optimized: Any,
    contexts: Any,
    actions: Any,
    losses: Any,
    *,
    logged_by: Any = None,
    safe_share: float | None = None,
) -> Log:
    """What was done and what it cost, scored under both policies: a `Log` to calibrate on.

    With contexts the log is contextual, each row labelled by its context's content, and over
    finitely many actions it lists all their scores, which makes every normalizer exact. With None
    or a number for contexts it is marginal.
    `logged_by` is the policy that produced the rows where it was not the safe one: after several
    rounds a `Mixture` of those deployed, in which `safe_share` is the safe policy's share.

    >>> from tether import Gaussian, Tethered, calibrate
    >>> rng = np.random.default_rng(0)
    >>> safe, optimized = Gaussian(0.0), Gaussian(1.0)
    >>> actions = safe.sample(500, rng)
    >>> log = make_log(safe, optimized, None, actions, losses=actions > 1.5)
    >>> proposals = make_proposals(safe, optimized, None, 500, rng)
    >>> found = calibrate(log, proposals, alpha=0.15)
    >>> Tethered(safe, optimized, found).sample(3, rng).round(2)
    array([ 0.41, -0.21,  0.71])
    """
    safe, optimized = as_policy("safe", safe), as_policy("optimized", optimized)
    names = {"safe": safe, "optimized": optimized}
    if logged_by is not None:
        names["logged_by"] = as_policy("logged_by", logged_by)
    actions = np.asarray(actions)
    contexts = as_contexts(contexts, actions)
    known = shared_actions(tuple(names.values()))
    columns: dict[str, Any] = {}
    if known is None or isinstance(contexts, int):
        both = policy_calls.score_both(safe, optimized, contexts, actions)
        columns = {_column("safe"): both[0], _column("optimized"): both[1]}
        if logged_by is not None:
            scores = policy_calls.score("logged_by", names["logged_by"], contexts, actions)
            columns[_column("logged_by")] = scores
    else:
        place = positions(known, actions)
        for name, policy in names.items():
            table = policy_calls.table(name, policy, contexts)
            every = np.broadcast_to(table, (len(place), table.shape[1]))
            columns[f"{_column(name)}_all"], columns[_column(name)] = every, picked(table, place)
    if not isinstance(contexts, int):
        columns["context"] = labels(contexts)
    logged = "safe" if logged_by is None else "logged_by"
    _possible(logged, columns[_column(logged)])
    return Log(losses, **columns, safe_share=safe_share)


def make_proposals(
    safe: Any,
    optimized: Any,
    contexts: Any,
    draws: int,
    rng: np.random.Generator,
    *,
    logged_by: Any = None,
) -> Proposals | None:
    """Fresh draws of each policy, `draws` in each context (of the same contexts as the log's).

    Contexts are recognized by their content (in which 1 and 1.0 differ): their order does not
    matter, equal ones share their draws, and calibration refuses a log with one that has none.
    Where there are none, a number stands for so many, and None for one: `draws` in all. None comes
    back where the log has contexts and lists every action already, so that the same lines serve
    every kind of policy.
    """
    safe, optimized = as_policy("safe", safe), as_policy("optimized", optimized)
    if isinstance(draws, bool) or not isinstance(draws, (int, np.integer)) or draws < 1:
        raise ValueError(f"draws must be a whole number of at least 1, got {draws!r}")
    contexts = 1 if contexts is None else as_contexts(contexts)
    alone = isinstance(contexts, int)
    policies = [safe, optimized]
    if logged_by is not None:
        logged_by = as_policy("logged_by", logged_by)
        policies.append(logged_by)
    if not alone and shared_actions(policies) is not None:
        return None
    place = np.repeat(np.arange(length(contexts)), draws)
    asked = len(place) if alone else take(contexts, place)
    pieces = [
        _scored(name, drawn_by, safe, optimized, logged_by, asked, rng)
        for name, drawn_by in (("safe", safe), ("optimized", optimized))
    ]
    log_safe, log_optimized, log_mix = (np.concatenate(each) for each in zip(*pieces, strict=True))
    return Proposals(
        log_safe,
        log_optimized,
        context=None if alone else np.tile(labels(contexts)[place], 2),
        log_mix=None if logged_by is None else log_mix,
        source=np.repeat(["safe", "optimized"], length(asked)),
    )


def _scored(
    name: str,
    drawn_by: Policy,
    safe: Policy,
    optimized: Policy,
    logged_by: Any,
    contexts: Any,
    rng: np.random.Generator,
) -> tuple[Floats, Floats, NDArray[Any]]:
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


def _possible(name: str, log_logged: Floats) -> None:
    if log_logged.min() == -np.inf:
        what = "a finite log-probability, since the log says that it took this action"
        validate.reject(f"the {name} policy's log_prob", log_logged, np.isneginf(log_logged), what)
