"""Which policy acted in each row: what a promise with a confidence needs to know of past rounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tether._core.types import Floats
from tether._core.validate import log_probabilities

if TYPE_CHECKING:
    from tether.control.log import Log


@dataclass(frozen=True)
class Acting:
    """The policies that acted in the rows of a log, where it was not always the safe policy.

    Parameters
    ----------
    log_logged : ndarray of float
        The log-density of each row's action under the policy that acted in that row.
    log_logged_all : ndarray of float, optional
        The same for every action of the row's tables (rows × actions).
    log_base_limit : ndarray of float, optional
        For each row, the log of a number that safe over acting density cannot exceed at any action
        in the row's context: 0 where the safe policy acted, log(1 + β) where mix did. Infinite by
        default. It must not depend on the action that was taken.
    """

    log_logged: Floats
    log_logged_all: Floats | None = None
    log_base_limit: Floats | None = None

    def __post_init__(self) -> None:
        log_probabilities("log_logged", self.log_logged)
        if self.log_logged_all is not None:
            log_probabilities("log_logged_all", self.log_logged_all, ndim=2, zero=True)


def acting_in(log: Log) -> Acting | None:
    """Who acted in each row of a log; None where only the mixture of several policies is known."""
    if log.acting is not None or log.log_mix is not None:
        return log.acting
    return Acting(log.log_safe, log.log_safe_all, np.zeros(len(log)))
