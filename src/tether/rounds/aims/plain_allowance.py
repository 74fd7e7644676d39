"""What the optimized policy as it was given would be allowed on the calibration rows of a round."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core import policy_calls
from tether.control.calibration import Calibration
from tether.control.log import Log
from tether.control.proposals import Proposals
from tether.policies.policy import Policy
from tether.policies.table_policy import picked, positions


def plain_allowance(
    plain: Policy,
    log: Log,
    contexts: Any,
    actions: NDArray[Any],
    all_actions: NDArray[Any] | None,
    calibrate: Callable[[Policy, Log], tuple[Proposals | None, Calibration]],
) -> float | None:
    """The log of its beta on the same rows; None if it cannot be calibrated.

    It is only shown: it decides nothing, and no failure of it stops the round.
    """
    try:
        return calibrate(plain, _rescored(log, plain, contexts, actions, all_actions))[1].log_beta
    except (ValueError, RuntimeError):
        return None


def _rescored(
    log: Log, plain: Policy, contexts: Any, actions: NDArray[Any], all_actions: NDArray[Any] | None
) -> Log:
    """The same rows, scored by another optimized policy."""
    changed = copy.copy(log)
    if all_actions is None:
        changed.log_optimized = policy_calls.score("optimized", plain, contexts, actions)
        return changed
    table = policy_calls.table("optimized", plain, contexts)
    changed.log_optimized_all = np.broadcast_to(table, (len(actions), len(all_actions)))
    changed.log_optimized = picked(changed.log_optimized_all, positions(all_actions, actions))
    return changed
