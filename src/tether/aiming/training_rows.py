"""Training rows of the safe policy: what was done, what it cost and what it earned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import ArrayLike, NDArray

from tether._core import validate
from tether._core.contexts import as_contexts, take
from tether._core.plain_arrays import plain_column
from tether._core.row_indexes import check_row_indexes
from tether._core.types import Actions, Contexts, Floats, Integers, Losses
from tether.policies.picker import without_candidates


@dataclass(frozen=True)
class LoggedRows:
    """Rows of a log of the safe policy, with rewards.

    Parameters
    ----------
    contexts : array-like, data frame or int
        One row per action, or their number where there are no contexts.
    actions : ndarray
        One action per row.
    losses : ndarray of float, or mapping of str to ndarray
        The loss of each action, or several losses by name.
    rewards : ndarray of float
        The reward of each action.
    safe : Policy, optional
        The safe policy. Its log-probabilities, if it has any, are features of loss models.
    """

    contexts: Any
    actions: NDArray[Any]
    losses: Floats | Mapping[str, Floats]
    rewards: Floats
    safe: Any = None

    def __len__(self) -> int:
        return len(self.actions)

    def take(self, index: Integers) -> LoggedRows:
        """Select rows.

        Parameters
        ----------
        index : ndarray of int
            Which, in this order.

        Returns
        -------
        LoggedRows
            These rows.
        """
        return LoggedRows(
            take(self.contexts, index),
            self.actions[index],
            each_loss(self.losses, lambda loss: loss[index]),
            self.rewards[index],
            self.safe,
        )

    def without_candidates(self) -> LoggedRows:
        """Replace positions among candidates by the candidates themselves.

        Returns
        -------
        LoggedRows
            The same rows where there are no candidates.
        """
        contexts, actions = without_candidates(self.contexts, self.actions)
        return replace(self, contexts=contexts, actions=actions)


def as_rows(
    contexts: Contexts | None,
    actions: Actions,
    losses: Losses,
    rewards: ArrayLike,
    safe: Any = None,
) -> LoggedRows:
    """Rows from columns, checked for equal lengths."""
    columns = {"contexts": contexts, "actions": actions, "losses": losses, "rewards": rewards}
    check_row_indexes(columns)
    taken = plain_column("actions", actions)
    checked = as_contexts(contexts, taken)
    loss = each_loss(losses, lambda values: validate.floats("losses", values))
    reward = validate.rewards("rewards", rewards, len(taken))
    for values in loss.values() if isinstance(loss, Mapping) else (loss,):
        validate.same_length("losses", values, "actions", len(taken))
    return LoggedRows(checked, taken, loss, reward, safe)


def each_loss(losses: Any, change: Callable[[Any], Any]) -> Any:
    """Change the loss of each row, or each of several losses by name."""
    if isinstance(losses, Mapping):
        return {name: change(values) for name, values in losses.items()}
    return change(losses)
