"""A round of a run that ramps: each action is answered by the reference or by the new policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tether._core import policy_calls
from tether._core.arrays import Booleans
from tether._core.contexts import length, take
from tether.policies.policy import Sampler
from tether.release.ramp_result import RampShare
from tether.rounds.errors import RoundOverError
from tether.rounds.outage import Budget
from tether.rounds.policy_registry import SAFE
from tether.rounds.ramps.ramp_record import RampRecord
from tether.rounds.recording import NewActions
from tether.rounds.returned_rows import TakenActions
from tether.rounds.round import Drawn, Round

if TYPE_CHECKING:
    from tether.policies.policy import Policy


@dataclass(frozen=True)
class CoinSampler:
    """Draws each action from one of two policies, by a coin that knows nothing of the contexts.

    Parameters
    ----------
    reference : Sampler
        The policy that answers otherwise.
    optimized : Sampler
        The policy that answers with a probability of `share`.
    share : float
        The share of `optimized`.
    """

    reference: Sampler
    optimized: Sampler
    share: float

    def sample(self, contexts: Any, rng: np.random.Generator) -> NDArray[Any]:
        """Draw one action per context.

        Parameters
        ----------
        contexts : array-like or int
            One row per context, or the number of actions where there are no contexts.
        rng : numpy.random.Generator
            The source of randomness.

        Returns
        -------
        ndarray
            One action per context.
        """
        return self.draw(contexts, rng)[0]

    def draw(self, contexts: Any, rng: np.random.Generator) -> tuple[NDArray[Any], Booleans]:
        """Draw one action per context, and say which of them `optimized` took.

        Parameters
        ----------
        contexts : array-like or int
            One row per context, or the number of actions where there are no contexts.
        rng : numpy.random.Generator
            The source of randomness.

        Returns
        -------
        tuple of ndarray
            The actions, and whether each is of `optimized`.
        """
        is_new = rng.random(length(contexts)) < self.share
        pieces, order = [], []
        for name, policy, mine in (
            ("reference", self.reference, ~is_new),
            ("optimized", self.optimized, is_new),
        ):
            where = np.flatnonzero(mine)
            if len(where):
                own = contexts if len(where) == len(mine) else take(contexts, where)
                pieces.append(policy_calls.draw(name, policy, own, rng))  # type: ignore[arg-type]
                order.append(where)
        if not pieces:
            return policy_calls.draw("reference", self.reference, contexts, rng), is_new  # type: ignore[arg-type]
        drawn = policy_calls.concatenate_actions(pieces)
        return np.asarray(drawn[np.argsort(np.concatenate(order), kind="stable")]), is_new


@dataclass(frozen=True, eq=False, repr=False)
class RampRound(Round):
    """A round of a run with family="ramp": a step of a ramp, or a round of the safe policy.

    It stays in use while later steps of the same policy begin: `act` acts in the present one.
    `Controller.round` is the present step itself. No log-probabilities are used or stored.

    Returned by `Controller.begin`, `Controller.advance` and `Controller.round`.

    Parameters
    ----------
    number : int
        The round's number, from 1.
    calibration : None
        There is none; see `ramp_share`.
    note : str
        Why the safe policy serves; often empty.
    """

    _stored: RampRecord

    @property
    def share(self) -> float:
        """The probability with which the round's policy answers an action; 0 without one."""
        return self._stored.share

    @property
    def ramp_share(self) -> RampShare | None:
        """The share with the bounds and the promise that it rests on; None without a policy."""
        return None if self._stored.step is None else self._stored.step.ramp_share

    @property
    def reference(self) -> int:
        """The round whose policy answers the other actions; 0 is the safe policy."""
        return self._stored.reference

    @property
    def policy(self) -> Policy | Sampler:
        """What acts while no alarm stands: the safe policy, or one of two by a coin."""
        return self._coin if self._serves else self._run.safe

    @property
    def beta(self) -> float:
        """A ramp has no beta; see `share`."""
        raise AttributeError("a round of a ramp has a share, not a beta")

    @property
    def _serves(self) -> bool:
        return self.share > 0

    @property
    def _is_of_safe(self) -> bool:
        return self._stored.step is None

    @property
    def _coin(self) -> CoinSampler:
        registry = self._run._registry
        return CoinSampler(
            registry.ramped(self.reference), registry.ramped(self.number), self.share
        )

    def __repr__(self) -> str:
        note = f", note={self.note!r}" if self.note else ""
        return f"RampRound({self.number}, share={self.share:.6g}{note})"

    def _act(
        self,
        given: Any,
        rng: np.random.Generator,
        key: str | None,
        budget: Budget | None = None,
        attempt: str | None = None,
    ) -> TakenActions:
        """Act in the present step, which may have to begin first."""
        while True:
            if key is not None:
                with self._run._recorder.attempt(budget):
                    stored = self._run._recorder.find(key, given)
                if stored is not None:
                    return self._run._space.taken(*stored)
            present = self._run._step_in_use(self)
            try:
                return Round._act(present, given, rng, key, budget, attempt)
            except RoundOverError:
                if self._is_of_safe:
                    raise  # otherwise the next turn says whether the ramp goes on

    def _draw(self, contexts: Any, rng: np.random.Generator, *, by_safe: bool) -> Drawn:
        if not by_safe:
            self._coin  # noqa: B018 (a policy that is not available is an error, no failure)
        return super()._draw(contexts, rng, by_safe=by_safe)

    def _by_safe(self, contexts: Any, actions: NDArray[Any], failure: str = "") -> Drawn:
        return Drawn(actions, SAFE, np.zeros(len(actions)), None, None, failure)

    def _by_deployed(self, contexts: Any, rng: np.random.Generator) -> Drawn:
        actions, is_new = self._coin.draw(contexts, rng)
        served = np.where(is_new, self.number, self.reference).astype(np.int64)
        return Drawn(actions, served, np.zeros(len(actions)), None, None)

    def _new_actions(self, *given: Any) -> NewActions:
        step = self._stored.step
        return super()._new_actions(*given)._replace(cleared=None if step is None else step.cleared)
