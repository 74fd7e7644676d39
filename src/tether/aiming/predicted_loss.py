"""What a policy is predicted to lose, by loss models, averaged over contexts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tether._core.types import Contexts
from tether.aiming.aimed_policy import policy_tables
from tether.aiming.loss_model import LossModel
from tether.aiming.multipliers import mean_losses


def predicted_losses(
    policy: Any, loss_models: Mapping[str, LossModel], contexts: Contexts
) -> dict[str, float]:
    """Average the predicted losses of a policy over contexts, exactly over its actions.

    Parameters
    ----------
    policy : FinitePolicy
        The policy, over finitely many actions.
    loss_models : mapping of str to callable
        For each loss, a function of (contexts, actions) that returns predicted losses.
    contexts : array-like or int
        The contexts, or 1 where there are none.

    Returns
    -------
    dict of str to float
        The mean predicted loss of each name.

    Examples
    --------
    >>> import tether
    >>> policy = tether.Categorical.from_probabilities([0.75, 0.25])
    >>> predicted_losses(policy, {"harm": lambda contexts, actions: 0.4 * actions}, 1)
    {'harm': 0.1}
    """
    if not loss_models:
        return {}
    table, predicted = policy_tables(policy, loss_models, contexts)
    means = mean_losses(np.asarray(table), predicted)
    return dict(zip(loss_models, means.tolist(), strict=True))
