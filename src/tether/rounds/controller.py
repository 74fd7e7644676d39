"""The controller: a loop that the user runs, round after round, with everything in a store."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from threading import RLock

import numpy as np
from numpy.typing import ArrayLike

from tether._core import validate
from tether._core.contexts import take
from tether._core.types import Contexts, Integers
from tether.control.blend import DEFAULT_BLEND
from tether.control.calibrate import find_target
from tether.control.families import find_family
from tether.control.family import Family
from tether.policies.policy import PolicyLike
from tether.policies.shortlist import Shortlist
from tether.rounds import interventions
from tether.rounds.action_space import ActionSpace, OptimizedLike
from tether.rounds.begin_round import begin_round, present_round
from tether.rounds.history import History
from tether.rounds.history_reader import read_history
from tether.rounds.monitors import Monitors
from tether.rounds.policy_registry import PolicyLookup, PolicyRegistry, describe_family
from tether.rounds.recording import Recorder
from tether.rounds.returned_rows import TakenActions, TrainingRows
from tether.rounds.round import Round
from tether.rounds.score_columns import ScoreColumns
from tether.rounds.settings import Settings, check_arguments, default_alarm_risk, stored_settings
from tether.rounds.store.database import DEFAULT_DEADLINE, Store
from tether.rounds.store.queries import now
from tether.rounds.store.rows import Rows

DEFAULT_MAX_SILENCE = 10_000
"""How many actions without a loss raise an alarm, unless the user says otherwise."""


class Controller:
    """Keeps an optimized policy on its tether, round after round, with everything in a store.

    Promised for each round: what `calibrate` promises, with all past rounds in the log's mixture.
    Assumed, in addition to its assumptions: the optimized policy learns from `training_rows` alone.

    If the optimized policy is unavailable the safe policy acts, and those rows count as the safe
    policy's. An alarm, raised when the mean loss of a round is shown to exceed `alarm_risk` or the
    scores of contexts shift, sends all traffic to the safe policy until `resume`.

    Parameters
    ----------
    safe : Policy, classifier, torch distribution or Shortlist
        The safe policy. With a `Shortlist` its candidates are stored, and every round picks one.
    store : str or pathlib.Path
        Where the run is kept: a path (SQLite) or the URL of an SQLite or PostgreSQL database. A
        new run is created if there is none; an existing one continues.
    alpha : float, optional
        The tolerated expected loss, between 0 and `bound`. Give this or `promise`.
    promise : float, optional
        The largest promise that a round may state, all its terms included.
    confidence : float, optional
        The probability over logs with which each round's promise holds, see `calibrate`.
    bound : float, default 1.0
        The largest possible loss.
    family : str or Family, default "clip"
        The family of tethered policies: "clip", "mix", "budgeted_clip(N)" or an object.
    test_weight : {"empirical", "analytic"} or float, default "empirical"
        How the test point is weighted.
    calibration_share : float, default 0.5
        The share of rows that are set apart for calibration, at random and permanently.
    missing : {"wait", "worst_case", "exclude"}, default "wait"
        How rows without a loss are treated. "wait" refuses to calibrate until a share
        `min_observed_share` of each round's losses has arrived, and counts the rest as the worst
        loss. "worst_case" counts them so at once. "exclude" leaves them out, which is valid only if
        losses are missing at random.
    min_observed_share : float, default 1.0
        The share of losses that missing="wait" waits for, in (0, 1].
    against : {"safe", "last"}, default "safe"
        The policy that beta is measured against. With "last", the last deployed policy, the policy
        can go further over the rounds, and each promise rests on those of all rounds before.
    alarm_risk : float, optional
        The risk above which the risk monitor raises an alarm, between `alpha` and `bound`; by
        default the smaller of 1.5 times alpha and the midpoint of alpha and the bound.
    false_alarm_probability : float, default 0.05
        For each monitor, the probability that it ever raises a false alarm.
    context_score : callable, optional
        A function from contexts to one number per context; if given, a shift of these raises an
        alarm too.
    policies : mapping or callable, optional
        Past optimized policies by the names under which their rounds began; needed after a restart.
    name : str, default "safe"
        The name of the safe policy.
    draws : int, optional
        Draws of each policy for a calibration, per context if there are contexts; by default as
        many as rows, between 1,000 and 100,000 (after many rounds fewer, at most 500,000 divided by
        the number of rounds), or 16 per context, and more where there are fewer than 256 contexts.
    normalizer_draws : int, optional
        Draws per context with which an estimate of a past policy's density begins; there are more
        where it is not precise enough.
    ratio_error : float, default 1.0
        A factor by which every importance weight may be wrong, as `tether preflight` measures it.
    blend : float, default 0.01
        The share of the safe policy that is blended into optimized policies that never take some
        actions; 0 turns it off.
    max_silence : int, datetime.timedelta or None, default 10,000
        How many actions, or how much time, without a single loss raise an alarm.
    deadline : float, default 5.0
        How many seconds a call may wait for the store.
    seed : int, default 0
        The seed of the draws for calibrations and of the shift monitor.

    Raises
    ------
    ValueError
        If an argument is invalid, or the store was created with other settings or another policy.
    StoreError
        If the store cannot be opened.

    References
    ----------
    "Conformal Policy Control", ICML 2026.

    Examples
    --------
    >>> import numpy as np, tether
    >>> rng = np.random.default_rng(0)
    >>> run = tether.Controller(tether.Gaussian(0.0), promise=0.1, store="sqlite://")
    >>> taken = run.begin().act(500, rng)  # the safe policy
    >>> run.observe(taken.ids, losses=(taken.actions > 2).astype(float))
    >>> taken = run.begin(tether.Gaussian(0.5)).act(100, rng)
    """

    def __init__(
        self,
        safe: PolicyLike | Shortlist,
        *,
        store: str | Path,
        alpha: float | None = None,
        promise: float | None = None,
        confidence: float | None = None,
        bound: float = 1.0,
        family: str | Family = "clip",
        test_weight: str | float = "empirical",
        calibration_share: float = 0.5,
        missing: str = "wait",
        min_observed_share: float = 1.0,
        against: str = "safe",
        alarm_risk: float | None = None,
        false_alarm_probability: float = 0.05,
        context_score: Callable[[Contexts], ArrayLike] | None = None,
        policies: PolicyLookup = None,
        name: str = "safe",
        draws: int | None = None,
        normalizer_draws: int | None = None,
        ratio_error: float = 1.0,
        blend: float = DEFAULT_BLEND,
        max_silence: int | timedelta | None = DEFAULT_MAX_SILENCE,
        deadline: float = DEFAULT_DEADLINE,
        seed: int = 0,
    ) -> None:
        self._space = ActionSpace(safe)
        self.safe = self._space.safe
        self._family = find_family(family)
        bound = validate.number("bound", bound, above=0, below=np.inf)
        target, named = find_target(alpha, promise)
        tolerated = validate.number(target, named, above=0, below=bound)
        check_arguments(test_weight, self._family, context_score)
        given = Settings(
            safe=name,
            alpha=tolerated,
            bound=bound,
            family=self._family.name,
            family_mark=describe_family(self._family),
            test_weight=test_weight,
            calibration_share=calibration_share,
            missing=missing,
            min_observed_share=min_observed_share,
            against=against,
            alarm_risk=default_alarm_risk(tolerated, bound) if alarm_risk is None else alarm_risk,
            false_alarm_probability=false_alarm_probability,
            normalizer_draws=normalizer_draws,
            seed=seed,
            created=now(),
            shortlist=self._space.size,
            target=target,
            confidence=confidence,
            ratio_error=ratio_error,
            blend=blend,
            max_silent_actions=None if isinstance(max_silence, timedelta) else max_silence,
            max_silent_seconds=(
                max_silence.total_seconds() if isinstance(max_silence, timedelta) else None
            ),
        )
        self._store, self._draws = Store(store, deadline=deadline), draws
        try:
            self.settings = stored_settings(self._store, given, self._space)
        except BaseException:
            self._store.close()
            raise
        self._lock = RLock()  # of the rows, scores and policies that are kept in memory
        self._rows, self._scores = Rows(), ScoreColumns(self._store)
        self._registry = PolicyRegistry(
            self._store, self.safe, self._family, policies, normalizer_draws, self._space.optimized
        )
        self._recorder = Recorder(self._store, Monitors(self.settings, context_score))

    def begin(self, optimized: OptimizedLike | None = None, *, name: str | None = None) -> Round:
        """Calibrate how far `optimized` may go, and begin the next round with it.

        The safe policy serves the whole round if there is no optimized policy, no loss to calibrate
        on, no beta that passes, or an alarm stands; the round's `note` says which.

        Every round keeps its policy, to weight its rows later: a model that is trained further in
        place is another policy, and is refused. Pass a copy.

        Parameters
        ----------
        optimized : Policy, classifier or torch distribution, optional
            The optimized policy of the round; on shortlists also a score of candidates, a function
            of (contexts, candidates).
        name : str, default "safe"
            The name under which the policy is looked up after a restart; "round 3" and so on by
            default.

        Returns
        -------
        Round
            The new round.

        Raises
        ------
        LossesMissingError
            If missing="wait" and too few losses have arrived.
        RoundTakenError
            If another process has begun this round meanwhile.
        ValueError
            If a policy has changed, is not available, or takes actions that the safe one never
            takes.
        StoreError
            If the round could not be stored.
        """
        with self._lock:
            return begin_round(self, optimized, name)

    @property
    def round(self) -> Round | None:
        """The present round, also after a restart; None before the first."""
        with self._lock:
            return present_round(self)

    def observe(self, ids: ArrayLike, losses: ArrayLike, rewards: ArrayLike | None = None) -> None:
        """Store the losses of actions of any round: late, and in any order.

        Either all of them are stored or none. A loss that is stored already may be repeated, and
        changes nothing; another loss for the same action is refused.

        Parameters
        ----------
        ids : array-like of int
            The ids of the actions.
        losses : array-like of float
            One loss per id, in [0, bound].
        rewards : array-like of float, optional
            One finite reward per id.

        Raises
        ------
        ValueError
            If an id is unknown or has another loss already, or a loss is outside [0, bound].
        StoreError
            If the losses could not be stored.
        """
        self._recorder.observe(ids, losses, rewards, self.settings.bound)

    def withdraw(self, ids: ArrayLike, reason: str, *, actor: str | None = None) -> None:
        """Exclude actions that were never carried out, such as those of a process that crashed.

        Only for reasons that are unrelated to the loss: excluding rows because of their losses or
        actions would bias every later calibration.

        Parameters
        ----------
        ids : array-like of int
            The ids of the actions.
        reason : str
            Why they were not carried out; stored with them.
        actor : str, optional
            Who withdraws them; by default the name of the operating system's user.

        Raises
        ------
        ValueError
            If the reason is empty, or an id is unknown or was observed before.
        StoreError
            If it could not be stored.
        """
        reason = interventions.checked_reason("the actions are withdrawn", reason)
        self._recorder.withdraw(ids, reason, interventions.checked_actor(actor))

    def pending(self) -> TakenActions:
        """The actions whose loss is still missing, oldest first.

        Returns
        -------
        TakenActions
            The actions and their ids.
        """
        with self._lock:
            self._refresh()
            return self._taken(np.flatnonzero(self._rows.pending))

    def training_rows(self) -> TrainingRows:
        """The rows that an optimizer may learn from: training rows whose loss is known.

        The calibration rows, on which the next calibration rests, cannot be read.

        Returns
        -------
        TrainingRows
            The rows as columns, oldest first.
        """
        with self._lock:
            self._refresh()
            rows = self._rows
            where = np.flatnonzero(rows.observed & ~rows.calibration)
            return TrainingRows.select(rows, where, self._taken(where))

    def halt(self, reason: str, *, actor: str | None = None) -> None:
        """Send all traffic to the safe policy, in every process, until `resume`.

        Parameters
        ----------
        reason : str
            Why; stored with it.
        actor : str, optional
            Who does it; by default the name of the operating system's user.
        """
        interventions.halt(self._store, reason, actor)

    def resume(self, reason: str, *, actor: str | None = None) -> None:
        """Clear the alarms that stand; the monitors restart.

        Parameters
        ----------
        reason : str
            Why they may be cleared; stored with it.
        actor : str, optional
            Who does it; by default the name of the operating system's user.

        Raises
        ------
        ValueError
            If the reason is empty, or no alarm stands.
        """
        interventions.resume(self._store, reason, actor)

    def retire(self, number: int, reason: str, *, actor: str | None = None) -> None:
        """Leave the rows of a round's policy out of later calibrations, since the policy is lost.

        Only for reasons that are unrelated to the losses of the round.

        Parameters
        ----------
        number : int
            The number of the round.
        reason : str
            Why; stored with it.
        actor : str, optional
            Who does it; by default the name of the operating system's user.
        """
        interventions.retire(self._store, number, reason, actor)

    def history(self) -> History:
        """The run so far.

        Returns
        -------
        History
            Settings, rounds and alarms.
        """
        return read_history(self._store)

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def __enter__(self) -> Controller:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        named = f"{self.settings.target}={self.settings.alpha:g}"
        return f"Controller({named}, store={self._store.name!r})"

    def _refresh(self) -> None:
        with self._store.reading() as connection:
            self._rows.refresh(connection)

    def _taken(self, where: Integers) -> TakenActions:
        rows = self._rows
        if not len(rows):
            return TakenActions(rows.ids, np.empty(0), 0)
        ids, actions = rows.ids[where], rows.actions[where]
        return self._space.taken(ids, actions, take(rows.contexts, where))
