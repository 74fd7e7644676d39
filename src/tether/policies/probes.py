"""Whether the policies that are served are those that a calibration is of.

A beta does not say which policies it is for. So `make_log` keeps probes, and whatever serves a
calibration, in memory or loaded, has both policies score them again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core import policy_calls
from tether._core.arrays import Booleans, Floats, Integers
from tether._core.contexts import labels, length, take
from tether._core.words import AssumptionWarning, PromiseWarning, warn_user
from tether.control.calibration import Calibration, why_not_useful
from tether.control.log import Probes
from tether.policies.kept_contexts import keep, kept
from tether.policies.policy import Policy, different_actions, is_finite, positions

PROBED_CONTEXTS = 8
"""In how many contexts of the log probes are taken."""
PROBED_ACTIONS = 32
"""How many actions are probed in a context where all of them are listed."""
LOG_TOLERANCE, RELATIVE_TOLERANCE = 0.05, 0.01
"""How far log-probabilities may be apart, and densities by this part of their log as well: models
round, and a batch of another size is summed in another order."""
MAX_LISTED_ACTIONS = 1000
"""Of longer lists of actions only a digest is kept."""
NOT_WHAT_IT_IS = ("calibration", "remembered")
"""Attributes of a tethered policy that do not determine what it does."""
NEGLIGIBLE_PROBABILITY = 1e-6
"""What is added to probabilities of listed actions: far below it nothing is compared."""


def fingerprint(policy: Any) -> str | None:
    """A policy's own `fingerprint`, a string or a method; or a digest, None if it contains code."""
    own = getattr(policy, "fingerprint", None)
    if own is not None:
        return str(own() if callable(own) else own)
    try:
        return blake2b(_describe(policy).encode(), digest_size=16).hexdigest()
    except TypeError:
        return None


def _describe(value: Any) -> str:
    """Everything that determines what an object does; a TypeError if that contains code."""
    own = getattr(value, "fingerprint", None)
    if isinstance(own, str):
        return repr(own)
    if value is None or isinstance(value, (bool, int, float, str, bytes, np.generic)):
        return repr(value)
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "O":
            return _describe(value.tolist())
        content = blake2b(np.ascontiguousarray(value).tobytes()).hexdigest()
        return f"{value.dtype.str}{value.shape}{content}"
    if isinstance(value, (list, tuple)):
        parts: Iterable[Any] = value
    elif isinstance(value, dict):  # sorted by its keys alone: an array's repr is long
        parts = (part for key in sorted(value, key=repr) for part in (key, value[key]))
    elif type(value).__module__.startswith("tether.") and hasattr(value, "__dict__"):
        parts = [{name: part for name, part in vars(value).items() if name not in NOT_WHAT_IT_IS}]
    else:
        raise TypeError(f"{type(value).__name__} contains code")
    return f"{type(value).__name__}({','.join(map(_describe, parts))})"


def take_probes(
    policies: Mapping[str, Any],
    contexts: Any,
    actions: NDArray[Any],
    scores: Mapping[str, Floats],
    rows: int = PROBED_CONTEXTS,
) -> Probes:
    """Probes at some rows of a log: its own actions, with their scores by policy.

    Where scores are tables, of many actions in some contexts: all `actions` are listed.
    """
    tables = next(iter(scores.values())).ndim > 1
    digests = {name: fingerprint(policy) for name, policy in policies.items()}
    chosen = _evenly(1 if tables and isinstance(contexts, int) else length(contexts), rows)
    if not isinstance(contexts, int):
        chosen = np.union1d(_different(contexts, rows), chosen[:0] if tables else chosen)
    place, listed = np.arange(len(chosen)), None
    if tables:
        listed, columns = encode_actions(actions), _evenly(len(actions), PROBED_ACTIONS)
        shape = (length(contexts), len(actions))
        place, probed = np.repeat(place, len(columns)), np.tile(actions[columns], len(chosen))
        at = {
            name: np.broadcast_to(table, shape)[chosen][:, columns].ravel()
            for name, table in scores.items()
        }
    else:
        probed = actions[chosen]
        at = {name: np.array(column[chosen]) for name, column in scores.items()}
    try:
        held = None if isinstance(contexts, int) else keep(take(contexts, chosen))
        held_actions = keep(probed)
    except TypeError as error:
        return Probes(digests, listed, missing=str(error))
    return Probes(digests, listed, held, held_actions, place, at.get("safe"), at.get("optimized"))


def _different(contexts: Any, most: int) -> Integers:
    """Positions of at most so many different contexts, among rows that are evenly spread."""
    near = _evenly(length(contexts), 64 * most)
    first = near[np.unique(labels(take(contexts, near)), return_index=True)[1]]
    return np.sort(first)[_evenly(len(first), most)]


def _evenly(count: int, most: int) -> Integers:
    """At most so many positions, evenly spread."""
    return np.unique(np.linspace(0, count - 1, min(most, count)).astype(np.int64))


def check_probes(probes: Probes | None, given: Mapping[str, Any]) -> None:
    """Refuse policies, by name, that are not those of the probes; a ValueError says which."""
    if probes is None:
        return
    for name, policy in given.items():
        if probes.actions is None or name == "candidates" or not is_finite(policy):
            continue
        if encode_actions(policy.actions) != probes.actions:
            how = "the lists differ"
            if not isinstance(probes.actions, str):
                how = different_actions("the log", probes.actions, name, policy.actions)
            raise ValueError(f"the {name} policy's actions are not those of the log: {how}")
    noted, now = {"safe": probes.log_safe, "optimized": probes.log_optimized}, dict[str, Floats]()
    for name, policy in given.items():
        why = probes.missing or ("" if probes.probed is not None else "there are no probes")
        if noted.get(name) is not None:
            try:
                now[name] = _score(name, policy, probes)
                continue
            except RuntimeError as error:  # it is unavailable now
                why = str(error)
        _compare_digests(name, policy, probes, why)
    wrong = [name for name, scores in now.items() if not _same(scores, noted[name], probes).all()]
    if not wrong:
        return
    others = {"safe": "optimized", "optimized": "safe"}
    if len(now) == 2 and all(_same(now[n], noted[others[n]], probes).all() for n in now):
        raise ValueError(
            "safe and optimized are exchanged: in the log that was calibrated on, the policy "
            "passed as safe is the optimized one"
        )
    found = [_difference(name, now[name], noted[name], probes) for name in wrong]
    raise ValueError(
        ". ".join([*found, "Calibrate on a log of the policies that are to be served"])
    )


def _compare_digests(name: str, policy: Any, probes: Probes, why: str) -> None:
    """Compare the digests where nothing can be scored, and say `why` if there are none."""
    then, now = probes.fingerprints.get(name), fingerprint(policy)
    if then is None or now is None:
        if why and name in probes.fingerprints:
            told = f"whether the {name} policy is the one that was calibrated cannot be checked"
            warn_user(f"{told}: {why}", AssumptionWarning)
    elif then != now:
        raise ValueError(
            f"the {name} policy is not the one of the log that was calibrated on: its fingerprint "
            f"was {then}, and is {now}"
        )


def _score(name: str, policy: Policy, probes: Probes) -> Floats:
    """The log-probabilities that a policy gives to the probes now."""
    contexts = None if probes.contexts is None else kept(probes.contexts)
    actions = kept(probes.probed)
    try:
        if is_finite(policy):
            table = policy_calls.table(name, policy, 1 if contexts is None else contexts)
            place = probes.place if len(table) > 1 else np.zeros(len(actions), dtype=np.int64)
            return table[place, positions(policy.actions, actions)]
        where = len(actions) if contexts is None else take(contexts, probes.place)
        return policy_calls.score(name, policy, where, actions)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"the {name} policy is not the one of the log that was calibrated on: it cannot score "
            f"the contexts and actions of that log: {error}"
        ) from error


def _same(first: Floats, second: Any, probes: Probes) -> Booleans:
    """Which log-probabilities are the same up to rounding."""
    room: Any = LOG_TOLERANCE
    if probes.actions is not None:
        first, second = (np.log(np.exp(each) + NEGLIGIBLE_PROBABILITY) for each in (first, second))
    else:
        room = LOG_TOLERANCE + RELATIVE_TOLERANCE * np.abs(second)
    with np.errstate(invalid="ignore"):
        return np.asarray((np.abs(first - second) <= room) | (first == second))


def _difference(name: str, now: Floats, then: Any, probes: Probes) -> str:
    same = _same(now, then, probes)
    with np.errstate(invalid="ignore"):  # where both are impossible
        worst = int(np.argmax(np.where(same, -1.0, np.abs(now - then))))
    action = kept(probes.probed)[worst]
    return (
        f"the {name} policy is not the one of the log that was calibrated on: in a context of the "
        f"log it takes the action {str(action)[:60]!r} with log-probability {now[worst]:.4g}, and "
        f"with {then[worst]:.4g} when the log was made ({int((~same).sum())} of {len(same)} probes "
        f"differ)"
    )


def warn_not_useful(found: Calibration | None) -> None:
    """Say that a policy is made of a calibration without a useful promise."""
    if found is None or not found.exists or _is_told.get() or found.useful:
        return
    warn_user(
        f"this calibration is not useful; serve the safe policy instead: {why_not_useful(found)}",
        PromiseWarning,
    )


@contextmanager
def told_elsewhere() -> Iterator[None]:
    """Make policies without this warning, where runs say it in their own way."""
    token = _is_told.set(True)
    try:
        yield
    finally:
        _is_told.reset(token)


_is_told: ContextVar[bool] = ContextVar("_is_told", default=False)


def encode_actions(actions: NDArray[Any]) -> Any:
    """A list of actions as JSON values, sorted, or a digest of a long one."""
    listed = np.sort(actions).tolist()
    if len(listed) <= MAX_LISTED_ACTIONS:
        return listed
    return blake2b(json.dumps(listed, default=str).encode(), digest_size=16).hexdigest()
