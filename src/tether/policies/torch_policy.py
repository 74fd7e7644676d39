"""Torch distributions as policies, where torch is already installed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core import policy_calls
from tether._core.contexts import as_contexts, length
from tether._core.types import Floats


class TorchPolicy:
    """A torch distribution, or a function of the contexts that returns one with a row for each.

    What lies outside the distribution's support has a score of −inf.

    Torch draws with a seed that the numpy generator gives and its global state is left as it was,
    so the same generator gives the same actions. Scores are computed without gradients.
    """

    def __init__(self, distribution: Any) -> None:
        self._distribution = distribution
        self._fixed = not callable(distribution)
        if self._fixed and tuple(distribution.batch_shape):
            raise ValueError(
                f"the torch distribution has batch_shape {tuple(distribution.batch_shape)}: wrap "
                f"it in torch.distributions.Independent, so that it scores a whole action"
            )
        self.actions: NDArray[Any] | None = None
        if self._fixed and distribution.has_enumerate_support and not distribution.event_shape:
            self.actions = distribution.enumerate_support(expand=False).cpu().numpy()

    def sample(self, contexts: Any, rng: np.random.Generator) -> NDArray[Any]:
        """One action for each context."""
        policy_calls.generator(rng)
        import torch

        contexts = as_contexts(contexts)
        with torch.no_grad(), torch.random.fork_rng():
            torch.manual_seed(int(rng.integers(2**63)))
            if self._fixed:
                drawn = self._distribution.sample((length(contexts),))
            else:
                drawn = self._answer(contexts).sample()
        return np.asarray(drawn.cpu().numpy())

    def log_prob(self, contexts: Any, actions: Any) -> Floats:
        """The log-probability of each action, as double-precision numbers."""
        import torch

        actions = np.array(actions)  # torch wants arrays that it may write to
        contexts = as_contexts(contexts, actions)
        with torch.no_grad():
            answer = self._distribution if self._fixed else self._answer(contexts)
            scores = _scores(answer, torch.as_tensor(actions))
        return np.asarray(scores.cpu().numpy(), dtype=np.float64)

    def log_prob_all(self, contexts: Any) -> Floats:
        """The log-probability of every action, for a distribution over finitely many."""
        if self.actions is None:
            raise TypeError("this torch distribution does not list its actions")
        as_contexts(contexts)
        return self.log_prob(len(self.actions), self.actions)[None]

    def _answer(self, contexts: Any) -> Any:
        answer = self._distribution(contexts)
        if tuple(answer.batch_shape) != (length(contexts),):
            raise ValueError(
                f"the function returned a torch distribution of batch_shape "
                f"{tuple(answer.batch_shape)} for {length(contexts)} context(s)"
            )
        return answer


def _scores(distribution: Any, actions: Any) -> Any:
    """Scores with −inf outside the support, where torch would raise or make up a number."""
    import torch

    try:
        support = distribution.support
    except NotImplementedError:
        return distribution.log_prob(actions)
    inside = support.check(actions)
    if inside.all() or actions.shape[1:] != distribution.event_shape:
        return distribution.log_prob(actions)
    if not inside.any():
        return torch.full(inside.shape, -torch.inf, dtype=torch.float64)
    # An action of the support stands in for each one outside it, whose score is not looked at.
    if distribution.batch_shape:
        with torch.random.fork_rng():
            stand_in = distribution.sample().to(actions.dtype)
    else:
        stand_in = actions[inside.to(torch.int8).argmax()].expand_as(actions)
    spread = inside.reshape(inside.shape + (1,) * len(distribution.event_shape))
    scores = distribution.log_prob(torch.where(spread, actions, stand_in))
    return torch.where(inside, scores, -torch.inf)
