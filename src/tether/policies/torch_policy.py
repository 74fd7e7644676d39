"""Torch distributions as policies, where torch is already installed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core import validate
from tether._core.contexts import as_contexts, length
from tether._core.shown import shown
from tether._core.types import Actions, Contexts, Floats


class TorchPolicy:
    """A torch distribution, or a function of the contexts that returns one, as a policy.

    Actions outside the support of the distribution have a log-probability of −inf. Torch is seeded
    from the numpy generator and its global state is restored, so the same generator gives the same
    actions. Scores are computed without gradients.

    Parameters
    ----------
    distribution : torch.distributions.Distribution or callable
        A distribution with an empty batch shape, or a function of the contexts that returns a
        distribution with one batch entry per context.

    Raises
    ------
    ValueError
        If a distribution has a batch shape.

    Examples
    --------
    >>> import torch  # doctest: +SKIP
    >>> policy = TorchPolicy(torch.distributions.Normal(0.0, 1.0))  # doctest: +SKIP
    >>> policy.log_prob(1, [0.0]).round(3)  # doctest: +SKIP
    array([-0.919])
    """

    def __init__(self, distribution: Any) -> None:
        self._distribution = distribution
        self._fixed = not callable(distribution)
        if self._fixed and tuple(distribution.batch_shape):
            raise ValueError(
                f"the torch distribution has batch_shape {tuple(distribution.batch_shape)}: wrap "
                f"it in torch.distributions.Independent, so that it scores an action as a whole"
            )
        self.actions: NDArray[Any] | None = None
        if self._fixed and distribution.has_enumerate_support and not distribution.event_shape:
            self.actions = distribution.enumerate_support(expand=False).cpu().numpy()

    def __repr__(self) -> str:
        of = self._distribution if self._fixed else "a function of the contexts"
        return f"TorchPolicy({shown(of) if self._fixed else of})"

    def sample(self, contexts: Contexts, rng: np.random.Generator) -> NDArray[Any]:
        """Draw one action per context.

        Parameters
        ----------
        contexts : array-like or int
            One row per context, or the number of actions where there are no contexts.
        rng : numpy.random.Generator
            Source of the seed for torch.

        Returns
        -------
        ndarray
            One action per context.
        """
        validate.generator("rng", rng)
        import torch

        contexts = as_contexts(contexts)
        with torch.no_grad(), torch.random.fork_rng():
            torch.manual_seed(int(rng.integers(2**63)))
            if self._fixed:
                drawn = self._distribution.sample((length(contexts),))
            else:
                drawn = self._evaluate(contexts).sample()
        return np.asarray(drawn.cpu().numpy())

    def log_prob(self, contexts: Contexts, actions: Actions) -> Floats:
        """Compute the log-probability of each action, as double-precision numbers.

        Parameters
        ----------
        contexts : array-like or int
            One row per context, or the number of actions where there are no contexts.
        actions : array-like
            One action per context.

        Returns
        -------
        ndarray of float64
            One log-probability or log-density per action; −inf outside the support.
        """
        import torch

        actions = np.array(actions)  # torch requires writable arrays
        contexts = as_contexts(contexts, actions)
        with torch.no_grad():
            distribution = self._distribution if self._fixed else self._evaluate(contexts)
            scores = _log_prob_on_support(distribution, torch.as_tensor(actions))
        return np.asarray(scores.cpu().numpy(), dtype=np.float64)

    def log_prob_all(self, contexts: Contexts) -> Floats:
        """Compute the log-probability of every action, for a distribution over finitely many.

        Parameters
        ----------
        contexts : array-like or int
            Contexts, which do not matter to a fixed distribution, or their number.

        Returns
        -------
        ndarray of shape (1, actions)
            A single row, valid in every context.

        Raises
        ------
        TypeError
            If the distribution cannot enumerate its support.
        """
        if self.actions is None:
            raise TypeError("this torch distribution does not list its actions")
        as_contexts(contexts)
        return self.log_prob(len(self.actions), self.actions)[None]

    def _evaluate(self, contexts: Any) -> Any:
        distribution = self._distribution(contexts)
        if tuple(distribution.batch_shape) != (length(contexts),):
            raise ValueError(
                f"the function returned a torch distribution of batch_shape "
                f"{tuple(distribution.batch_shape)} for {length(contexts)} context(s)"
            )
        return distribution


def _log_prob_on_support(distribution: Any, actions: Any) -> Any:
    """Log-probabilities, −inf outside the support, where torch would raise or return nonsense."""
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
    # Replace each action outside the support by one inside it, whose score is not used.
    if distribution.batch_shape:
        with torch.random.fork_rng():
            stand_in = distribution.sample().to(actions.dtype)
    else:
        stand_in = actions[inside.to(torch.int8).argmax()].expand_as(actions)
    mask = inside.reshape(inside.shape + (1,) * len(distribution.event_shape))
    scores = distribution.log_prob(torch.where(mask, actions, stand_in))
    return torch.where(inside, scores, -torch.inf)
