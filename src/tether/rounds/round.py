"""One round: acting under the policy that was calibrated, and hearing what it cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tether._core import policy_calls
from tether._core.contexts import as_contexts
from tether._core.types import Floats
from tether.control.calibration import Calibration
from tether.policies.serve_with_fallback import call_with_fallback, draw_asking_every_policy
from tether.policies.tethered import Tethered
from tether.rounds.fingerprint import check_scores
from tether.rounds.round_log import SAFE, Deployed

if TYPE_CHECKING:
    from tether.rounds.controller import Controller


@dataclass(frozen=True)
class Taken:
    """Actions that are in the store, with the ids under which their losses are reported.

    It may be used where an array of the actions is wanted.
    """

    ids: NDArray[np.int64]
    actions: NDArray[Any]
    contexts: Any
    """What they answer; their number where there are no contexts."""
    failure: str = ""
    """What went wrong, where the safe policy took them since the round's policy failed."""

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.actions)

    def __getitem__(self, key: Any) -> Any:
        return self.actions[key]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.actions, dtype=dtype, copy=bool(copy) or None)


@dataclass(frozen=True)
class _Drawn:
    """Actions and their scores, by what is deployed or, where that is None, by the safe policy."""

    actions: NDArray[Any]
    deployed: Deployed | None
    log_safe: Floats
    log_optimized: Floats | None
    log_prob: Floats
    failure: str = ""


class Round:
    """A round that has begun: `policy` acts, until the next round begins or an alarm is raised.

    `calibration` is None where there was nothing to calibrate; `note` then says why the safe
    policy serves.
    """

    def __init__(
        self,
        run: Controller,
        number: int,
        calibration: Calibration | None,
        note: str,
        deployed: Deployed | None,
    ) -> None:
        self.number, self.calibration, self.note = number, calibration, note
        self._run, self._deployed = run, deployed

    @property
    def policy(self) -> Any:
        """What acts while no alarm stands: the tethered policy, or the safe one."""
        return self._run.safe if self._deployed is None else self._deployed.policy

    @property
    def beta(self) -> float:
        """How far the optimized policy may pull away; 0 where the safe policy serves."""
        return 0.0 if self._deployed is None else self._deployed.policy.beta

    def act(self, contexts: Any, rng: np.random.Generator) -> Taken:
        """One action in each context, durable before it is returned; a number asks for so many.

        While an alarm stands the safe policy acts, and so it does in a call in which another policy
        is gone (a RuntimeError, a lost connection, no memory): its rows count as its own, which is
        right as long as that has nothing to do with contexts or answers. A policy that refuses what
        it is asked, returns what is no number, or gives up at its cap, is an error. Each row is
        assigned to training or to calibration here, by chance and for good.
        """
        policy_calls.generator(rng)
        contexts = as_contexts(contexts)
        while True:
            alarm = self._run._alarm()
            drawn = self._draw(contexts, None if alarm is not None else self._deployed, rng)
            taken = self._keep(contexts, drawn, alarm, rng)
            if taken is not None:
                return taken

    def record(self, contexts: Any, actions: Any, rng: np.random.Generator) -> Taken:
        """Take in actions that the safe policy took elsewhere, before there was this store.

        Only a round of the safe policy can: nobody else's log says what the safe policy does.
        """
        policy_calls.generator(rng)
        actions = np.asarray(actions)
        contexts = as_contexts(contexts, actions)
        if self._deployed is not None:
            raise ValueError(
                f"round {self.number} is not a round of the safe policy: begin one with "
                f"`run.begin()` to record what the safe policy did"
            )
        drawn = self._by_safe(contexts, actions)
        while True:
            taken = self._keep(contexts, drawn, self._run._alarm(), rng)
            if taken is not None:
                return taken

    def observe(self, ids: Any, losses: Any, rewards: Any = None) -> None:
        """Report what actions cost: see `Controller.observe`."""
        self._run.observe(ids, losses, rewards)

    def __repr__(self) -> str:
        note = f", note={self.note!r}" if self.note else ""
        return f"Round({self.number}, beta={self.beta:.6g}{note})"

    def _draw(self, contexts: Any, deployed: Deployed | None, rng: np.random.Generator) -> _Drawn:
        """Draw and score; the safe policy does both if what is deployed fails in either.

        Every policy is called in every call, so a failure does not depend on what is drawn.
        """

        def draw_from_safe(failure: str = "") -> _Drawn:
            actions = policy_calls.draw("safe", self._run.safe, contexts, rng)
            return self._by_safe(contexts, actions, failure)

        if deployed is None:
            return draw_from_safe()
        return call_with_fallback(
            lambda: self._by_deployed(contexts, deployed, rng), draw_from_safe
        )

    def _by_safe(self, contexts: Any, actions: NDArray[Any], failure: str = "") -> _Drawn:
        log_safe = policy_calls.score("safe", self._run.safe, contexts, actions, drew=True)
        return _Drawn(actions, None, log_safe, None, log_safe, failure)

    def _by_deployed(self, contexts: Any, deployed: Deployed, rng: np.random.Generator) -> _Drawn:
        actions = draw_asking_every_policy(deployed.policy, contexts, rng)
        self._check_unchanged(deployed)
        log_safe, log_optimized = policy_calls.score_both(
            self._run.safe, deployed.optimized, contexts, actions
        )
        log_prob = _log_prob(deployed, contexts, actions, log_safe, log_optimized)
        return _Drawn(actions, deployed, log_safe, log_optimized, log_prob)

    def _keep(
        self, contexts: Any, drawn: _Drawn, alarm: int | None, rng: np.random.Generator
    ) -> Taken | None:
        """Store; None where an alarm came in between, and nothing was stored."""
        names = ("log_safe", "log_optimized", "log_prob")
        ids = self._run._write_actions(
            number=self.number,
            served=SAFE if drawn.deployed is None else self.number,
            alarm=alarm,
            contexts=contexts,
            actions=drawn.actions,
            scores={name: getattr(drawn, name) for name in names},
            failure=drawn.failure,
            rng=rng,
        )
        return None if ids is None else Taken(ids, drawn.actions, contexts, drawn.failure)

    def _check_unchanged(self, deployed: Deployed) -> None:
        """What was calibrated is what acts: a model may have been trained further meanwhile."""
        if deployed.probe is not None:
            contexts, actions, scores = deployed.probe
            name = f"policy of round {self.number}"
            check_scores(name, deployed.optimized, contexts, actions, scores, "optimized")


def _log_prob(
    deployed: Deployed,
    contexts: Any,
    actions: NDArray[Any],
    log_safe: Floats,
    log_optimized: Floats,
) -> Floats:
    """The density of what acted; NaN where it takes a normalizer that only draws could tell."""
    policy: Tethered = deployed.policy
    if policy.actions is not None and not isinstance(contexts, int):
        return policy.log_prob(contexts, actions)
    plain = policy.family.normalized or np.isinf(policy.log_beta)
    if not plain and deployed.log_psi is None:
        return np.full(len(actions), np.nan)
    log_reference = log_safe
    if deployed.reference != SAFE:
        log_reference = policy_calls.score("last tethered", policy.safe, contexts, actions)
    log_psi = 0.0 if plain or deployed.log_psi is None else deployed.log_psi
    return policy.family.log_density(log_reference, log_optimized, policy.log_beta, log_psi)
