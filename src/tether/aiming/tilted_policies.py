"""Optimized policies that are tilted by predicted losses, or made sharper or flatter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core import validate
from tether._core.types import Contexts, Floats
from tether.aiming.loss_models import LossModel, candidate_losses, policy_tables
from tether.policies.picker import Picker, ShortlistRows
from tether.policies.policy import FinitePolicy
from tether.policies.tables import TablePolicy
from tether.sampling.discrete import log_softmax


class _Tilt:
    """One multiplier for each loss model, checked."""

    def __init__(
        self, loss_models: Mapping[str, LossModel], multipliers: Mapping[str, float]
    ) -> None:
        if set(loss_models) != set(multipliers) or not all(map(callable, loss_models.values())):
            raise ValueError(
                f"multipliers must have the losses of loss_models, {sorted(loss_models)}, got "
                f"{sorted(multipliers)}"
            )
        self.loss_models = dict(loss_models)
        self.multipliers = {
            name: validate.number("multipliers", multipliers[name], above=-np.inf, below=np.inf)
            for name in loss_models
        }

    def _penalty(self, predicted: Floats) -> Floats:
        return np.tensordot(np.array(list(self.multipliers.values())), predicted, 1)


class AimedPolicy(_Tilt, TablePolicy):
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
        super().__init__(loss_models, multipliers)
        self.policy, self.actions = policy, policy.actions

    def log_prob_all(self, contexts: Contexts) -> Floats:
        """Compute the log-probability of every action in each context."""
        if not any(self.multipliers.values()):
            return self.policy.log_prob_all(contexts)
        table, predicted = policy_tables(self.policy, self.loss_models, contexts)
        return log_softmax(table - self._penalty(predicted))

    def __repr__(self) -> str:
        return f"AimedPolicy({self.policy!r}, multipliers={self.multipliers})"


class AimedScore(_Tilt):
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
        super().__init__(loss_models, multipliers)
        self.picker = picker

    def __call__(self, contexts: Contexts, candidates: NDArray[Any]) -> Floats:
        """Score the candidates of each context."""
        rows = ShortlistRows(contexts, candidates)
        predicted = candidate_losses(self.loss_models, rows)
        return np.asarray(self.picker.log_prob_all(rows) - self._penalty(predicted))

    def __repr__(self) -> str:
        return f"AimedScore(multipliers={self.multipliers})"


class TemperedPolicy(TablePolicy):
    """π(a | x)^(1/temperature), normalized, over finitely many actions.

    Parameters
    ----------
    policy : FinitePolicy
        The policy.
    temperature : float
        Below 1 likely actions become more likely, above 1 less.
    """

    def __init__(self, policy: FinitePolicy, temperature: float) -> None:
        self.policy, self.actions = policy, policy.actions
        self.temperature = validate.number("temperature", temperature, above=0, below=np.inf)

    def log_prob_all(self, contexts: Contexts) -> Floats:
        """Compute the log-probability of every action in each context."""
        return log_softmax(self.policy.log_prob_all(contexts), self.temperature)

    def __repr__(self) -> str:
        return f"TemperedPolicy({self.policy!r}, temperature={self.temperature:g})"


class PositionScore:
    """Scores candidates by the log-probabilities that a policy gives to their positions.

    A picker with this score, at a temperature of 1, is that policy.

    Parameters
    ----------
    policy : FinitePolicy
        A policy over positions, whose contexts are `ShortlistRows`: a picker that is tilted or
        tempered.
    """

    def __init__(self, policy: FinitePolicy) -> None:
        self.policy = policy

    def __call__(self, contexts: Contexts, candidates: NDArray[Any]) -> Floats:
        """Score the candidates of each context."""
        rows = ShortlistRows(contexts, candidates)
        return np.broadcast_to(self.policy.log_prob_all(rows), (len(rows), rows.size))

    def __repr__(self) -> str:
        return f"PositionScore({self.policy!r})"
