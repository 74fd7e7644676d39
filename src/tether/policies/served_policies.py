"""Whether the policies that are served are those that a calibration is of.

Exchanged policies, or another model, would be served without a word: nothing in a beta tells. So
`make_log` notes a digest of each policy that has one and, over finitely many actions, what both
give to all actions in a few contexts of the log. A saved calibration has the digests alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core import policy_calls
from tether._core.contexts import length, take
from tether._core.types import Floats
from tether._core.user_warnings import warn_user
from tether._core.warning_categories import AssumptionWarning, PromiseWarning
from tether.control.calibration import Calibration, why_not_useful
from tether.control.families import Family
from tether.control.scored_by import ScoredBy
from tether.policies.fingerprint import fingerprint
from tether.policies.policy import Policy, is_finite

PROBES = 16
"""In how many contexts of the log the scores of both policies are kept."""
SAME_POLICY_TOLERANCE = 1e-3
"""How far probabilities may be from the noted ones: models round."""


def note_policies(
    safe: Policy | None,
    optimized: Policy,
    contexts: Any,
    known: NDArray[Any] | None,
    tables: Mapping[str, Floats],
) -> ScoredBy:
    """What is noted of the policies of a log; `tables` are their scores of all actions."""
    digests = {
        name: digest
        for name, policy in (("safe", safe), ("optimized", optimized))
        if policy is not None and (digest := fingerprint(policy)) is not None
    }
    probed = min(PROBES, length(contexts))
    if known is None or not {"safe", "optimized"} <= set(tables):
        return ScoredBy(known, digests)
    rows = np.unique(np.linspace(0, length(contexts) - 1, probed).astype(np.int64))
    scores = {
        name: tables[name] if len(tables[name]) == 1 else tables[name][rows]
        for name in ("safe", "optimized")
    }
    return ScoredBy(known, digests, take(contexts, rows), scores)


def check_served(safe: Policy, optimized: Policy, found: Calibration) -> None:
    """Refuse policies that are not those of the calibration, as far as this can be told.

    A calibration without a useful promise is a warning.
    """
    warn_not_useful(found)
    given = {"safe": safe, "optimized": optimized}
    noted = found.scored_by
    if noted is not None and "safe" in noted.probe_scores:
        _compare_scores(given, noted)
    elif found.policies:
        _compare_digests(given, found.policies)


def warn_not_useful(found: Calibration | None) -> None:
    """Say that a policy is made of a calibration without a useful promise.

    A beta of 0 is the safe policy, which is what should be served then.
    """
    if found is None or not found.exists or _is_told.get() or not _known_useless(found):
        return
    warn_user(
        f"this policy is of a calibration that is not useful; serve the safe policy instead. "
        f"{why_not_useful(found)}",
        PromiseWarning,
    )


def _known_useless(found: Calibration) -> bool:
    """Whether it is known that a calibration is not useful.

    A promise that nobody has asked for yet is not computed for this: its stability may take long.
    """
    stated = "promise_terms" in vars(found)  # computed before, or loaded
    return not found.covered or bool(found.refuted_by) or (stated and not found.useful)


@contextmanager
def told_elsewhere() -> Iterator[None]:
    """Make policies without this warning, where runs say it in their own way."""
    token = _is_told.set(True)
    try:
        yield
    finally:
        _is_told.reset(token)


_is_told: ContextVar[bool] = ContextVar("_is_told", default=False)


def default_outside(found: Calibration | None, family: Family) -> str:
    """What to do with actions that only the optimized policy takes: what was calibrated."""
    restricted = found is not None and found.outside_share > 0
    return "never" if restricted and family.clips else "error"


def require_safe(safe: Any, beta: Any) -> None:
    """Say how a calibration without a safe policy is served."""
    if safe is not None:
        return
    share = getattr(beta, "optimized_share", None)
    if share is None:
        raise TypeError("safe must be a policy, got None")
    if not beta.exists or _known_useless(beta):
        why = why_not_useful(beta) if beta.exists else "no beta passes"
        raise TypeError(
            f"safe must be a policy, got None. This calibration is not useful: leave all requests "
            f"where they are. {why}"
        )
    raise TypeError(
        f"safe must be a policy, got None. This calibration of mix is served without one: give the "
        f"optimized policy a share of {share:.4g} of the requests, at random, and leave the others "
        f"where they are"
    )


def _compare_scores(given: Mapping[str, Policy], noted: ScoredBy) -> None:
    """Let both policies score the noted contexts again."""
    found: dict[str, Floats] = {}
    assert noted.actions is not None
    for name, policy in given.items():
        if not is_finite(policy) or not np.array_equal(policy.actions, noted.actions):
            raise ValueError(
                f"the {name} policy is not the one that the log was scored under: it has other "
                f"actions. Calibrate on a log of the policies that are to be served"
            )
        try:
            found[name] = policy_calls.table(name, policy, noted.probe_contexts)
        except RuntimeError:  # it is unavailable now, and cannot be compared
            return
    if all(_same(found[name], noted.probe_scores[name]) for name in found):
        return
    if _same(found["safe"], noted.probe_scores["optimized"]) and _same(
        found["optimized"], noted.probe_scores["safe"]
    ):
        raise ValueError(_exchanged())
    for name, scores in found.items():
        if not _same(scores, noted.probe_scores[name]):
            now, then = np.broadcast_arrays(np.exp(scores), np.exp(noted.probe_scores[name]))
            where = np.unravel_index(int(np.argmax(np.abs(now - then))), now.shape)
            raise ValueError(
                f"the {name} policy is not the one that the log was scored under: in a context of "
                f"the log it takes the action {noted.actions[where[1]].item()!r} with probability "
                f"{now[where]:.4g}, and with {then[where]:.4g} when the log was made. Calibrate on "
                f"a log of the policies that are to be served"
            )


def _same(first: Floats, second: Floats) -> bool:
    return bool((np.abs(np.exp(first) - np.exp(second)) <= SAME_POLICY_TOLERANCE).all())


def _compare_digests(given: Mapping[str, Policy], noted: Mapping[str, str]) -> None:
    """Compare the digests that both have; a policy that was built otherwise may still be equal."""
    own = {name: fingerprint(policy) for name, policy in given.items() if name in noted}
    if set(own) == {"safe", "optimized"} and (
        (own["safe"], own["optimized"]) == (noted["optimized"], noted["safe"])
        and noted["safe"] != noted["optimized"]
    ):
        raise ValueError(_exchanged())
    for name, digest in own.items():
        if digest is not None and digest != noted[name]:
            warn_user(
                f"the {name} policy does not look like the one that the log was scored under: its "
                f"digest is another. If it is not the same policy, calibrate on a log of the "
                f"policies that are to be served",
                AssumptionWarning,
            )


def _exchanged() -> str:
    return (
        "safe and optimized are exchanged: in the log that was calibrated on, the policy passed as "
        "safe is the optimized one. Write Tethered(safe, optimized, calibration)"
    )
