"""Aimed policies: an optimized policy, tilted away from actions that are predicted to cost much."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core.contexts import as_contexts
from tether._core.types import Contexts, Floats
from tether.aiming.loss_model import LossModel, predict_losses, predict_table
from tether.aiming.multipliers import tilted
from tether.policies.picker import Picker, ShortlistRows
from tether.policies.policy import FinitePolicy
from tether.policies.tables import TablePolicy


class AimedPolicy(TablePolicy):
    """π(a | x)·exp(−Σ_j λ_j·l̂_j(x, a)), normalized: exact over finitely many actions.

    Parameters
    ----------
    policy : FinitePolicy
        The policy that is tilted.
    loss_models : mapping of str to callable
        For each loss, a function of (contexts, actions) that returns predicted losses.
    multipliers : mapping of str to float
        For each loss, how hard it tilts.
    """

    def __init__(
        self,
        policy: FinitePolicy,
        loss_models: Mapping[str, LossModel],
        multipliers: Mapping[str, float],
    ) -> None:
        self.policy, self.loss_models = policy, dict(loss_models)
        self.multipliers = {name: float(multipliers[name]) for name in self.loss_models}
        self.actions = policy.actions

    def log_prob_all(self, contexts: Contexts) -> Floats:
        """Compute the log-probability of every action in each context.

        Parameters
        ----------
        contexts : array-like or int
            Contexts, or the number of actions where there are none.

        Returns
        -------
        ndarray of shape (contexts, actions) or (1, actions)
            One row per context; a single row where there are no contexts.
        """
        values = np.array(list(self.multipliers.values()))
        if not values.any():
            return self.policy.log_prob_all(as_contexts(contexts))
        return tilted(*policy_tables(self.policy, self.loss_models, contexts), values)

    def __repr__(self) -> str:
        return f"AimedPolicy({self.policy!r}, multipliers={_shown(self.multipliers)})"


class AimedScore:
    """The score of a shortlist's candidates, tilted by predicted losses.

    Parameters
    ----------
    picker : Picker
        What picks without the tilt.
    loss_models : mapping of str to callable
        For each loss, a function of (contexts, actions) that returns predicted losses.
    multipliers : mapping of str to float
        For each loss, how hard it tilts.
    """

    def __init__(
        self,
        picker: Picker,
        loss_models: Mapping[str, LossModel],
        multipliers: Mapping[str, float],
    ) -> None:
        self.picker, self.loss_models = picker, dict(loss_models)
        self.multipliers = {name: float(multipliers[name]) for name in self.loss_models}

    def __call__(self, contexts: Contexts, candidates: NDArray[Any]) -> Floats:
        """Score the candidates of each context.

        Parameters
        ----------
        contexts : array-like or int
            One row per context, or their number.
        candidates : ndarray of shape (contexts, N) or (contexts, N, …)
            The candidates.

        Returns
        -------
        ndarray of shape (contexts, N)
            One score per candidate.
        """
        rows = ShortlistRows(contexts, candidates)
        values = np.array(list(self.multipliers.values()))
        return np.asarray(
            self.picker.log_prob_all(rows)
            - np.tensordot(values, predicted_of_candidates(self.loss_models, rows), 1)
        )

    def __repr__(self) -> str:
        return f"AimedScore(multipliers={_shown(self.multipliers)})"


def policy_tables(
    policy: FinitePolicy, models: Mapping[str, LossModel], contexts: Contexts
) -> tuple[Floats, Floats]:
    """The log-probabilities of every action, and its predicted losses.

    Their shapes are (contexts, actions) and (losses, contexts, actions), with a single context
    where there are none.
    """
    checked = as_contexts(contexts)
    table = policy.log_prob_all(checked)
    if isinstance(checked, int) and len(table) == 1:
        checked = 1
    predicted = np.array(
        [
            predict_table(_named(name), model, checked, policy.actions)
            for name, model in models.items()
        ]
    )
    return np.broadcast_to(table, predicted.shape[1:]), predicted


def predicted_of_candidates(models: Mapping[str, LossModel], rows: ShortlistRows) -> Floats:
    """The predicted losses of every candidate, of shape (losses, rows, N)."""
    contexts, actions = rows.pairs()
    shape = (len(rows), rows.size)
    return np.array(
        [
            predict_losses(_named(name), model, contexts, actions).reshape(shape)
            for name, model in models.items()
        ]
    )


def _named(name: str) -> str:
    return f"the loss model {name!r}" if name else "the loss model"


def _shown(multipliers: Mapping[str, float]) -> str:
    if set(multipliers) == {""}:
        return f"{multipliers['']:.4g}"
    return "{" + ", ".join(f"{name!r}: {each:.4g}" for name, each in multipliers.items()) + "}"
