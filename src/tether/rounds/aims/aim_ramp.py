"""Aiming a policy that is to be ramped: its share is decided by its own rows, not by weights.

There is nothing to choose on the training rows, since a ramp rests on no likelihood ratio: a policy
that is predicted to lose more than alpha is tilted until it is not.
"""

from __future__ import annotations

import numpy as np

from tether.policies.policy import Policy
from tether.rounds.aims.aim_round import (
    AIM_STREAM,
    RoundAim,
    aimed_at_alpha,
    finite_policy,
    not_aimed,
)
from tether.rounds.aims.aim_settings import AimSettings
from tether.rounds.aims.training_log import read_rows_to_fit
from tether.rounds.settings import Settings
from tether.rounds.store.rows import Rows


def aim_ramp(
    aim: AimSettings, settings: Settings, rows: Rows, given: Policy, number: int
) -> RoundAim:
    """Aim a policy at alpha by the training rows."""
    checked = finite_policy(given)
    rng = np.random.default_rng([settings.seed, number, AIM_STREAM])
    logged = read_rows_to_fit(rows, list(settings.limits), rng)
    if logged is None:
        return not_aimed(checked)
    models = aim.models(logged, rng, settings.limits)
    return aimed_at_alpha(settings, checked, models, rows, len(logged))
