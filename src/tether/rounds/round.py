"""One round: acting under the calibrated policy, and observing the losses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether._core import policy_calls, validate
from tether._core.arrays import Actions, Contexts, Floats, Integers
from tether._core.contexts import as_contexts
from tether.control.calibration import Calibration
from tether.control.families import blend_scores
from tether.policies.picker import scoring_once
from tether.policies.policy import Policy, Sampler
from tether.policies.served import call_with_fallback, draw_asking_every_policy
from tether.policies.tethered import Tethered
from tether.rounds.errors import ChangedPolicyError, ClosedError, StoreError, TamperedError
from tether.rounds.outage import Budget
from tether.rounds.path_pairs import PathOptimized
from tether.rounds.policy_registry import SAFE, DeployedPolicy, check_scores
from tether.rounds.recording import NewActions, checked_key
from tether.rounds.returned_rows import TakenActions
from tether.rounds.round_overview import RoundOverview

if TYPE_CHECKING:
    from tether.rounds.controller import Controller


@dataclass(frozen=True)
class Drawn:
    """Actions, who took them (`served`, as a row has it), and their scores."""

    actions: NDArray[Any]
    served: int | Integers
    log_safe: Floats
    log_optimized: Floats | None
    log_prob: Floats | None
    failure: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class Round(RoundOverview):
    """A round that has begun: its policy acts until the next round begins or an alarm is raised.

    Returned by `Controller.begin` and `Controller.round`.

    Parameters
    ----------
    number : int
        The round's number, from 1.
    calibration : Calibration or None
        The calibration; None if there was nothing to calibrate, and `note` says why.
    note : str
        Why the safe policy serves, or how missing losses were counted; often empty.
    """

    number: int
    calibration: Calibration | None
    note: str
    _run: Controller
    _deployed: DeployedPolicy | None

    @property
    def policy(self) -> Policy | Sampler:
        """The policy that acts while no alarm stands: the tethered policy, or the safe one."""
        deployed = None if self._deployed is None else self._deployed.policy
        return self._run._space.served(deployed)

    @property
    def _serves(self) -> bool:
        """Whether another policy than the safe one acts while no alarm stands."""
        return self._deployed is not None

    @property
    def beta(self) -> float:
        """How far the optimized policy may go; 0 if the safe policy serves."""
        return 0.0 if self._deployed is None else self._deployed.policy.beta

    def act(
        self, contexts: Contexts, rng: np.random.Generator, *, key: str | None = None
    ) -> TakenActions:
        """Take one action per context, and store it before it is returned.

        While an alarm stands the safe policy acts. It also acts in a call in which another policy
        is unavailable (a RuntimeError, a lost connection, no memory). Those rows count as the safe
        policy's, which is valid as long as failures do not depend on contexts or actions. A policy
        that rejects its input, returns NaN, or exceeds its cap on draws is an error, and so is one
        that has changed; with fallback="safe" the safe policy acts instead of that one. Each row
        is assigned at random, once, to training or to calibration.

        Parameters
        ----------
        contexts : array-like, data frame or int
            One row per action to take, or the number of actions where there are no contexts.
        rng : numpy.random.Generator
            The source of randomness.
        key : str, optional
            A name for this call. If it was stored already, under the same key, its actions are
            returned again instead of new ones: a call whose answer was lost can be repeated.

        Returns
        -------
        TakenActions
            The actions and their ids.

        Raises
        ------
        RoundOverError
            If a later round has begun.
        ValueError
            If the key was used for other contexts, or a policy rejects its input, returns invalid
            scores, or has changed since it was calibrated.
        RuntimeError
            If the safe policy is unavailable too, or rejection sampling exceeds its cap on draws.
        StoreError
            If the actions could not be stored; with fallback="safe", neither stored nor spooled.
        """
        validate.generator("rng", rng)
        self._run._store.check_open()
        recorder, given, key = self._run._recorder, as_contexts(contexts), checked_key(key)
        if recorder.outage is None:
            return self._act(given, rng, key)
        spooled = None if key is None else recorder.find_spooled(key, given)
        if spooled is not None:
            return self._run._space.taken(*spooled, stored=False)
        budget, attempt = Budget(self._run._store.deadline), uuid4().hex
        try:
            taken = self._act(given, rng, key, budget, attempt)
        except (ClosedError, TamperedError):
            raise
        except StoreError as error:
            return self._act_in_outage(given, rng, key, attempt, error)
        recorder.deliver_some(budget)
        return taken

    def _act(
        self,
        given: Any,
        rng: np.random.Generator,
        key: str | None,
        budget: Budget | None = None,
        attempt: str | None = None,
    ) -> TakenActions:
        """Take actions and store them; the store may take as long as the budget."""
        run, recorder, to_store = self._run, self._run._recorder, None
        known, serves = True, self._serves
        while True:
            with recorder.attempt(budget):
                stored = None if key is None else recorder.find(key, given)
                if stored is not None:
                    return run._space.taken(*stored)
                alarm = recorder.standing_alarm(self.number, serves=serves, known=known)
            if to_store is None:
                to_store = run._space.stored_contexts(given, rng)
            is_safe = alarm is not None or recorder.is_retired
            drawn = self._draw(to_store, rng, by_safe=is_safe or not serves)
            with recorder.attempt(budget):
                taken = self._store(to_store, drawn, alarm, rng, key, attempt)
            if taken is not None:
                return taken
            known = False

    def _act_in_outage(
        self,
        given: Any,
        rng: np.random.Generator,
        key: str | None,
        attempt: str,
        error: StoreError,
    ) -> TakenActions:
        """Let the safe policy act, and keep its actions in the spool."""
        to_store = self._run._space.stored_contexts(given, rng)
        drawn = self._draw(to_store, rng, by_safe=True)
        failure = f"the store was unavailable: {error}"
        new = self._new_actions(to_store, drawn, None, rng, key)
        new = new._replace(failure=failure, attempt=attempt)
        ids = self._run._recorder.spool_actions(new)
        return self._run._space.taken(ids, drawn.actions, to_store, failure, SAFE, stored=False)

    def record(
        self, contexts: Contexts | None, actions: Actions, rng: np.random.Generator
    ) -> TakenActions:
        """Store actions that the safe policy took outside of this run, such as an existing log.

        Only in a round of the safe policy: other logs say nothing about the safe policy. In a run
        on shortlists, fresh candidates are drawn beside each action, see `Shortlist.join`.

        Parameters
        ----------
        contexts : array-like, data frame, int or None
            One row per action, or None or their number where there are no contexts.
        actions : array-like
            The actions that the safe policy took.
        rng : numpy.random.Generator
            Assigns each row to training or to calibration.

        Returns
        -------
        TakenActions
            The actions and their ids.

        Raises
        ------
        ValueError
            If this is not a round of the safe policy.
        RoundOverError
            If a later round has begun.
        StoreError
            If the actions could not be stored.
        """
        validate.generator("rng", rng)
        actions = np.asarray(actions)
        contexts = as_contexts(contexts, actions)
        if not self._is_of_safe:
            raise ValueError(
                f"round {self.number} is not a round of the safe policy: begin one with "
                f"`run.begin()` to record actions of the safe policy"
            )
        contexts, actions = self._run._space.stored_actions(contexts, actions, rng)
        drawn = self._by_safe(contexts, actions)
        while True:
            alarm = self._run._recorder.standing_alarm(self.number, serves=False)
            taken = self._store(contexts, drawn, alarm, rng)
            if taken is not None:
                return taken

    def observe(self, ids: ArrayLike, losses: ArrayLike, rewards: ArrayLike | None = None) -> None:
        """Store the losses of actions; the same as `Controller.observe`.

        Parameters
        ----------
        ids : array-like of int
            The ids of the actions, of this or any other round.
        losses : array-like of float
            One loss per id, in [0, bound].
        rewards : array-like of float, optional
            One finite reward per id.
        """
        self._run.observe(ids, losses, rewards)

    def __repr__(self) -> str:
        note = f", note={self.note!r}" if self.note else ""
        return f"Round({self.number}, beta={self.beta:.6g}{note})"

    @property
    def _is_of_safe(self) -> bool:
        """Whether actions that the safe policy took elsewhere may be recorded in it."""
        return self._deployed is None

    def _draw(self, contexts: Any, rng: np.random.Generator, *, by_safe: bool) -> Drawn:
        """Draw and score; the safe policy does both if what is deployed fails in either.

        Every policy is called in every call, so a failure does not depend on what is drawn.
        """

        def draw_from_safe(failure: str = "") -> Drawn:
            actions = policy_calls.draw("safe", self._run.safe, contexts, rng)
            return self._by_safe(contexts, actions, failure)

        if by_safe:
            return draw_from_safe()
        try:
            return call_with_fallback(lambda: self._by_deployed(contexts, rng), draw_from_safe)
        except ChangedPolicyError as error:  # seen on old rows, whatever is drawn here
            if self._run._recorder.outage is None:
                raise
            return draw_from_safe(str(error))

    def _by_safe(self, contexts: Any, actions: NDArray[Any], failure: str = "") -> Drawn:
        log_safe = policy_calls.score("safe", self._run.safe, contexts, actions, drew=True)
        return Drawn(actions, SAFE, log_safe, None, log_safe, failure)

    def _by_deployed(self, contexts: Any, rng: np.random.Generator) -> Drawn:
        deployed = self._deployed
        assert deployed is not None
        with scoring_once(deployed.optimized, contexts):
            actions = draw_asking_every_policy(deployed.policy, contexts, rng)
            self._check_unchanged(deployed)
            optimized = deployed.optimized
            if isinstance(optimized, PathOptimized):
                optimized = optimized.pair.optimized
            log_safe, log_optimized = policy_calls.score_both(
                self._run.safe, optimized, contexts, actions
            )
            log_prob = _log_prob(deployed, contexts, actions, log_safe, log_optimized)
        return Drawn(actions, self.number, log_safe, log_optimized, log_prob)

    def _store(
        self,
        contexts: Any,
        drawn: Drawn,
        alarm: int | None,
        rng: np.random.Generator,
        key: str | None = None,
        attempt: str | None = None,
    ) -> TakenActions | None:
        """Store the actions; None, and nothing is stored, if the alarm changed in between."""
        new = self._new_actions(contexts, drawn, alarm, rng, key)._replace(attempt=attempt)
        ids = self._run._recorder.write_actions(new)
        if ids is None:
            return None
        return self._run._space.taken(ids, drawn.actions, contexts, drawn.failure, drawn.served)

    def _new_actions(
        self,
        contexts: Any,
        drawn: Drawn,
        alarm: int | None,
        rng: np.random.Generator,
        key: str | None,
    ) -> NewActions:
        """Actions as they are stored; each row is assigned to training or calibration here."""
        names = ("log_safe", "log_optimized", "log_prob")
        return NewActions(
            number=self.number,
            served=drawn.served,
            alarm=alarm,
            contexts=contexts,
            actions=drawn.actions,
            calibration=rng.random(len(drawn.actions)) < self._run.settings.calibration_share,
            scores={name: getattr(drawn, name) for name in names},
            failure=drawn.failure,
            key=key,
        )

    def _check_unchanged(self, deployed: DeployedPolicy) -> None:
        """Refuse a model that was trained further since it was calibrated."""
        is_due = getattr(deployed.optimized, "check_is_due", None)
        if deployed.probe is not None and (is_due is None or is_due()):
            contexts, actions, scores = deployed.probe
            name = f"policy of round {self.number}"
            try:
                check_scores(name, deployed.optimized, contexts, actions, scores, "optimized")
            except Exception:
                if is_due is not None:
                    deployed.optimized.check_again()  # type: ignore[attr-defined]
                raise


def _log_prob(
    deployed: DeployedPolicy,
    contexts: Any,
    actions: NDArray[Any],
    log_safe: Floats,
    log_optimized: Floats,
) -> Floats:
    """The density of the policy that acted; NaN where its normalizer is only estimated."""
    policy = deployed.policy
    if not isinstance(policy, Tethered):  # along a path
        return policy_calls.score("tethered", policy, contexts, actions, drew=True)
    if policy.actions is not None and not isinstance(contexts, int):
        return policy.log_prob(contexts, actions)
    normalized = policy.family.normalized or np.isinf(policy.log_beta)
    if not normalized and deployed.normalizer is None:
        return np.full(len(actions), np.nan)
    log_reference = log_safe
    if deployed.reference != SAFE:
        log_reference = policy_calls.score("last tethered", policy.safe, contexts, actions)
    log_optimized = blend_scores(log_optimized, log_reference, policy.blend)
    log_psi: Floats | float = 0.0
    if not normalized and deployed.normalizer is not None:
        log_psi = deployed.normalizer.log_psi
    return policy.family.log_density(log_reference, log_optimized, policy.log_beta, log_psi)
