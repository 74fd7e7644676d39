"""Tempered policies: an optimized policy that is sharper or flatter."""

from __future__ import annotations

from tether._core import validate
from tether._core.types import Contexts, Floats
from tether.policies.policy import FinitePolicy
from tether.policies.tables import TablePolicy
from tether.sampling.discrete import log_softmax


class TemperedPolicy(TablePolicy):
    """π(a | x)^(1/temperature), normalized, over finitely many actions.

    Parameters
    ----------
    policy : FinitePolicy
        The policy.
    temperature : float
        Below 1 likely actions become more likely, above 1 less.

    Raises
    ------
    ValueError
        If the temperature is not above 0 and finite.
    """

    def __init__(self, policy: FinitePolicy, temperature: float) -> None:
        self.policy = policy
        self.temperature = validate.number("temperature", temperature, above=0, below=float("inf"))
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
        return log_softmax(self.policy.log_prob_all(contexts), self.temperature)

    def __repr__(self) -> str:
        return f"TemperedPolicy({self.policy!r}, temperature={self.temperature:g})"
