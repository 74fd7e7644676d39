"""The controller: a loop that the user runs, round after round, with everything in a store."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from tether._core import validate
from tether._core.arrays import Contexts
from tether._core.words import DurabilityWarning
from tether.control.families import DEFAULT_BLEND, Family, PathFamily, find_family
from tether.policies.policy import PolicyLike
from tether.policies.shortlist import Shortlist
from tether.rounds.action_space import ActionSpace, OptimizedLike
from tether.rounds.begin_round import begin_round, present_round
from tether.rounds.monitors import Monitors
from tether.rounds.outage import find_outage
from tether.rounds.path_pairs import check_path_settings
from tether.rounds.policy_registry import PolicyLookup, PolicyRegistry
from tether.rounds.ramps.begin_ramp import (
    advance,
    begin_ramp,
    present_ramp_round,
    step_in_use,
)
from tether.rounds.ramps.ramp_round import RampRound
from tether.rounds.recording import Recorder
from tether.rounds.round import Round
from tether.rounds.run_records import RunRecords
from tether.rounds.run_settings import RAMP_FAMILY
from tether.rounds.score_columns import ScoreColumns
from tether.rounds.settings import settings_from_arguments, stored_settings
from tether.rounds.store.chain_signer import chain_signer
from tether.rounds.store.database import Store
from tether.rounds.store.deadline import DEADLINE_SECONDS
from tether.rounds.store.durability import durability_warnings
from tether.rounds.stored_policies import PolicyLoader

if TYPE_CHECKING:
    from tether._core.signing import PrivateKey

DEFAULT_MAX_SILENCE = 10_000
"""How many actions without a loss raise an alarm, unless the user says otherwise."""


class Controller(RunRecords):
    """Keeps an optimized policy on its tether, round after round, with everything in a store.

    Promised for each round: what `calibrate` promises, with all past rounds in the log's mixture,
    or in a ramp what `ramp_share` promises.
    Assumed, in addition to its assumptions: the optimized policy learns from `training_rows` alone,
    and of several candidates the one that `begin` is given was chosen on training rows too.

    If the optimized policy is unavailable the safe policy acts, and those rows count as the safe
    policy's. An alarm sends all traffic to the safe policy until `resume`; it is raised when a mean
    loss of a round is shown to exceed its `alarm_risk`, or the scores of contexts shift.

    Parameters
    ----------
    safe : Policy, classifier, torch distribution or Shortlist
        The safe policy. With a `Shortlist` its candidates are stored, and every round picks one.
    store : str or pathlib.Path
        Where the run is kept: a path (SQLite) or the URL of an SQLite or PostgreSQL database. A
        new run is created if there is none; an existing one continues.
    alpha : float or mapping of str to float, optional
        The tolerated expected loss, between 0 and `bound`; with several losses, one for each by
        name. Give this or `promise`.
    promise : float or mapping of str to float, optional
        The expected loss that every round promises on average over logs, by the soft chain with one
        recorded draw a round; the number of rows of a round must not depend on their losses.
    confidence : float, optional
        The probability over logs with which each round's promise holds, see `calibrate`.
    bound : float or mapping of str to float, default 1.0
        The largest possible loss; one for all losses, or one for each.
    family : str or Family, default "clip"
        The family of tethered policies: "clip", "mix", "budgeted_clip(N)" or an object. With
        "ramp" rounds are released by ramp instead (:doc:`/explanation/release`): each action is
        answered by the reference policy or by the optimized one, whose share grows with its own
        rows. Then policies need no log-probabilities. With "token_clip" or "token_mix" the safe
        policy is a local language model and each round begins with a `tether.llm.TokenTether`.
    test_weight : {"empirical", "analytic"} or float, default "empirical"
        How the test point is weighted.
    calibration_share : float, default 0.5
        The share of rows that are set apart for calibration, at random and permanently.
    missing : {"wait", "worst_case", "exclude"}, optional
        How rows of which a loss is missing are treated. "wait", the default, refuses to calibrate
        until a share `min_observed_share` of each round's losses has arrived, and counts the rest
        as the worst loss. "worst_case" counts them so at once, and is what a ramp does. "exclude"
        leaves them out, which is valid only if losses are missing at random.
    min_observed_share : float, default 1.0
        The share of losses that missing="wait" waits for, in (0, 1].
    against : {"safe", "last"}, default "safe"
        The policy that beta is measured against. With "last", the last deployed policy, the policy
        can go further over the rounds, and each promise rests on those of all rounds before. In a
        ramp, the reference: with "last", the last policy that reached a share of 1.
    alarm_risk : float or mapping of str to float, optional
        The risk above which the risk monitor raises an alarm, between `alpha` and `bound`; by
        default the smaller of 1.5 times alpha and the midpoint of alpha and the bound.
    false_alarm_probability : float, default 0.05
        For each monitor, the probability that it ever raises a false alarm.
    context_score : callable, optional
        A function from contexts to one number per context; if given, a shift of these raises an
        alarm too.
    policies : mapping or callable, optional
        Past optimized policies by the names under which their rounds began; after a restart those
        are needed that could not be stored.
    load : callable, optional
        How stored policies are loaded; by default `tether.saving.policy_from_bytes`.
    name : str, default "safe"
        The name of the safe policy.
    draws : int, optional
        Draws of each policy for a calibration, per context if there are contexts; by default as
        many as rows, between 1,000 and 100,000 (after many rounds fewer, at most 500,000 divided by
        the number of rounds), or 16 per context, and more where there are fewer than 256 contexts.
        With a tether at every token, draws of the policy at each beta, 32 by default.
    normalizer_draws : int, optional
        Draws per context with which an estimate of a past policy's density begins; there are more
        where it is not precise enough.
    ratio_error : float, default 1.0
        A factor by which every importance weight may be wrong, as `tether preflight` measures it.
    blend : float, default 0.01
        The share of the safe policy that is blended into optimized policies that never take some
        actions; 0 turns it off.
    max_silence : int, datetime.timedelta or None, default 10,000
        How many actions, or how much time, without a single loss raise an alarm; with several
        losses, without any one of them.
    deadline : float, default 5.0
        How many seconds a call may wait for the store.
    fallback : {"safe"}, optional
        What acts when the store does not answer within the deadline: with "safe" the safe policy,
        and its actions wait in a local file until they can be stored. By default an error.
    spool : str or pathlib.Path, optional
        That file, one for each process; by default beside an SQLite store.
    key : str, pathlib.Path or Ed25519PrivateKey, optional
        The private key that signs every round, alarm and act, and with them all rows before.
    actions_per_step : int, optional
        In a ramp, a step ends with the call of `act` in which it reaches so many actions; by
        default by `advance`.
    seed : int, default 0
        The seed of the draws for calibrations and of the shift monitor.

    Raises
    ------
    ValueError
        If an argument is invalid, or the store was created with other settings or another policy.
    StoreError
        If the store cannot be opened.

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
        alpha: float | Mapping[str, float] | None = None,
        promise: float | Mapping[str, float] | None = None,
        confidence: float | None = None,
        bound: float | Mapping[str, float] = 1.0,
        family: str | Family = "clip",
        test_weight: str | float = "empirical",
        calibration_share: float = 0.5,
        missing: str | None = None,
        min_observed_share: float = 1.0,
        against: str = "safe",
        alarm_risk: float | Mapping[str, float] | None = None,
        false_alarm_probability: float = 0.05,
        context_score: Callable[[Contexts], ArrayLike] | None = None,
        policies: PolicyLookup = None,
        load: PolicyLoader | None = None,
        name: str = "safe",
        draws: int | None = None,
        normalizer_draws: int | None = None,
        ratio_error: float = 1.0,
        blend: float = DEFAULT_BLEND,
        max_silence: int | timedelta | None = DEFAULT_MAX_SILENCE,
        deadline: float = DEADLINE_SECONDS,
        fallback: str | None = None,
        spool: str | Path | None = None,
        key: PrivateKey | None = None,
        actions_per_step: int | None = None,
        seed: int = 0,
    ) -> None:
        is_ramp = isinstance(family, str) and family == RAMP_FAMILY
        self._family = None if is_ramp else find_family(family)
        space = ActionSpace(safe, draws_only=is_ramp, family=self._family)
        self.safe = space.safe
        if isinstance(self._family, PathFamily):
            check_path_settings(
                self._family,
                against=against,
                test_weight=test_weight,
                on_shortlists=space.size is not None,
            )
        if is_ramp and draws is not None:
            raise ValueError(f"draws does not exist for family='ramp', got {draws!r}")
        if draws is not None:
            draws = validate.integer_at_least("draws", draws)
        given = settings_from_arguments(
            self._family,
            context_score,
            alpha=alpha,
            promise=promise,
            max_silence=max_silence,
            safe=name,
            bound=bound,
            test_weight=test_weight,
            calibration_share=calibration_share,
            missing=missing,
            min_observed_share=min_observed_share,
            against=against,
            alarm_risk=alarm_risk,
            false_alarm_probability=false_alarm_probability,
            normalizer_draws=normalizer_draws,
            seed=seed,
            shortlist=space.size,
            confidence=confidence,
            ratio_error=ratio_error,
            blend=blend,
            actions_per_step=actions_per_step,
        )
        sign = None if key is None else chain_signer(key)
        opened, self._draws = Store(store, deadline=deadline, sign=sign), draws
        try:
            settings = stored_settings(opened, given, space)
            outage = find_outage(opened, fallback, spool)
            self._monitors = Monitors(settings, context_score)
            recorder = Recorder(opened, self._monitors, outage)
        except BaseException:
            opened.close()
            raise
        super().__init__(opened, settings, space, recorder)
        self._scores = ScoreColumns(opened)
        self._registry = PolicyRegistry(
            opened, self.safe, self._family, policies, normalizer_draws, space.optimized, load
        )
        recorder.catch_up()  # a process may have been killed before it did
        with opened.reading() as connection:
            for text in durability_warnings(connection):
                warnings.warn(text, DurabilityWarning, stacklevel=2)

    def begin(self, optimized: OptimizedLike | None = None, *, name: str | None = None) -> Round:
        """Calibrate how far `optimized` may go, and begin the next round with it.

        In a ramp it begins with the share that even a loss of the bound everywhere could not hurt.

        The safe policy serves the whole round if there is no optimized policy, no loss to calibrate
        on, no beta that passes, or an alarm stands; the round's `note` says which.

        Every round keeps its policy, to weight its rows later: a model that is trained further in
        place is another policy, and is refused. Pass a copy.

        Parameters
        ----------
        optimized : Policy, classifier or torch distribution, optional
            The optimized policy of the round; on shortlists also a score of candidates, a function
            of (contexts, candidates), and in a run that is tethered at every token a
            `tether.llm.TokenTether` of the run's safe policy and the optimized one.
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
            begin = begin_ramp if self.settings.is_ramp else begin_round
            return begin(self, optimized, name)

    def advance(self) -> RampRound:
        """Begin the next step of the present policy in a ramp, with a share from its rows so far.

        The moment must not depend on losses, or the promise in expectation is lost. While an alarm
        stands the share is 0.

        Returns
        -------
        RampRound
            The round that has begun.

        Raises
        ------
        ValueError
            If the family is not "ramp", there is no policy, its steps end by themselves, or the
            policy has changed.
        StoreError
            If it could not be stored.
        """
        with self._lock:
            return advance(self)

    @property
    def round(self) -> Round | None:
        """The present round, also after a restart; None before the first."""
        with self._lock:
            return present_ramp_round(self) if self.settings.is_ramp else present_round(self)

    def _step_in_use(self, handle: RampRound) -> RampRound:
        return step_in_use(handle)
