"""The controller: a loop that the user runs, round after round, with everything in a store."""

from __future__ import annotations

import json
import logging
import math
import re
import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sql
from numpy.typing import ArrayLike

from tether._core import records, validate
from tether._core.arrays import Contexts, Floats, Integers
from tether._core.contexts import as_contexts, labels, length
from tether.control.calibrate import find_target
from tether.control.calibration import Calibration, LossResult
from tether.control.families import BudgetedClip, Clip, Family, Mix, PathFamily, find_family
from tether.policies.logs import approximation_of
from tether.policies.normalizer import Normalizer
from tether.policies.policy import PolicyLike
from tether.policies.probes import fingerprint
from tether.policies.shortlist import Shortlist
from tether.runs.actions import (
    CALL_BITS,
    WAITED,
    Actions,
    Losses,
    TrainingRows,
    checked_ids,
    named_losses,
    rows_of,
)
from tether.runs.body import pack, unpack
from tether.runs.check_controller import claim_of, claimed
from tether.runs.decide_beta import (
    SAFE,
    Decision,
    Snapshot,
    check_support,
    decide_beta,
    make_log,
    past_rounds,
    rows_in_use,
)
from tether.runs.decide_ramp import decide_ramp, is_ramp_over
from tether.runs.errors import ChangedPolicyError, RoundOverError, RoundTakenError, TamperedError
from tether.runs.event_log import Event, Transaction, blob_digest, blobs, events
from tether.runs.log_rows import (
    Contents,
    cut,
    decode_rows,
    encode_rows,
    formats_of,
    same_formats,
)
from tether.runs.outbox import Outbox, Waiting
from tether.runs.policies import Deployed, Policies, PolicyLookup, Probe, check_blob, saved
from tether.runs.round import Drawn, Round
from tether.runs.run import PATIENCE, ROWS_PER_EVENT, Run, act_header
from tether.runs.score import Scorer, find_normalizer
from tether.runs.settings import CONTROLLER, RAMP, Settings
from tether.runs.shares import Guardrail
from tether.runs.state import State, Unit

if TYPE_CHECKING:
    from tether._core.signing import PrivateKey

logger = logging.getLogger("tether.runs")

MISSING = ("wait", "worst_case", "exclude")
MAX_NAME_LENGTH = 200
CURVE_POINTS = 100


class Controller(Run):
    """Keeps an optimized policy on its tether, round after round, with everything in a store.

    Promised for each round: what `calibrate` promises, with all past rounds in the log's mixture,
    or in a ramp that the expected loss is at most what is tolerated.

    Assumed, in addition to its assumptions: the optimizer learns from `training_rows` alone, and of
    several candidates the one that `begin` is given was chosen on training rows too
    (`tether.choose`). Each round tells the optimizer its beta, a point of a fixed grid and so at
    most ten bits of the calibration rows; an optimizer that decodes those, or that keeps the
    candidate with the largest beta, is outside of the promise. Calibrations on the same rows are
    counted, and the count is in the note of the round.

    If the optimized policy is unavailable the safe policy acts, and those rows count as the safe
    policy's. An alarm sends all traffic to the safe policy until `resume`; it is raised, in the
    transaction that sees the loss, when the round's policy is shown to lose more than 1.5 times
    what is tolerated (but at most halfway to the bound), when contexts shift, or when losses stop
    arriving.

    Parameters
    ----------
    safe : Policy, classifier, torch distribution or Shortlist
        The safe policy. With a `Shortlist` its candidates are stored, and every round picks one.
    store : str or pathlib.Path
        Where the run is kept: a path (SQLite) or the URL of an SQLite or PostgreSQL database. A
        new run is created if there is none; an existing one continues.
    alpha : float or mapping of str to float, optional
        The tolerated expected loss of the paper's rule, between 0 and `bound`; with several losses,
        one for each by name. Give this or `promise`.
    promise : float or mapping of str to float, optional
        The expected loss that every round promises on average over logs, by the soft chain with one
        recorded draw a round; the number of rows of a round must not depend on their losses.
    confidence : float, optional
        The probability over logs with which each round's promise holds, see `calibrate`. Further
        calibrations on the same rows are certified at a higher one.
    bound : float or mapping of str to float, default 1.0
        The largest possible loss; one for all losses, or one for each.
    family : str or Family, default "clip"
        The family of tethered policies: "clip", "mix", "budgeted_clip(N)". With "ramp" each action
        is answered by the reference policy or by the optimized one, whose share grows with its own
        rows, step by step: by `advance`, or after N actions with "ramp(N)"; policies then need no
        log-probabilities. With "token_clip" or "token_mix" the safe policy is a local language
        model and each round begins with a `tether.llm.TokenTether`.
    calibration_share : float, default 0.5
        The share of rows that are set apart for calibration, at random and permanently.
    missing : {"wait", "worst_case", "exclude"}, default "wait"
        How rows of which a loss is missing are treated. "wait" refuses to calibrate until all have
        arrived, "worst_case" counts them as the bound, as a ramp does, and "exclude" leaves them
        out, which is valid only if losses are missing at random.
    against : {"safe", "last"}, default "safe"
        The policy that beta is measured against. With "last", the last deployed policy, the policy
        can go further over the rounds, and each promise rests on those of all rounds before. In a
        ramp, the reference: with "last", the last policy that reached a share of 1.
    stop : float or None, default 0.05
        For each monitor, the probability that it ever raises a false alarm; None turns them off.
    max_silence : int, datetime.timedelta or None, default 10,000
        How many actions, or how much time, without one of the losses raise an alarm.
    context_score : callable, optional
        A function from contexts to one number per context; if given, a shift of these raises an
        alarm too.
    policies : mapping or callable, optional
        Past optimized policies by the names under which their rounds began; after a restart those
        are needed that could not be stored.
    deadline : float, default 5.0
        How many seconds a call may wait for the store.
    fallback : {"safe"}, or a path, optional
        What acts when the store does not answer within the deadline: with "safe" the safe policy,
        and its actions wait in memory until they can be stored; with a path, in that file, one for
        each process. By default an error.
    key : str, pathlib.Path or Ed25519PrivateKey, optional
        The private key that signs every round, alarm and act, and with them all rows before.
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
    >>> from tether.runs import Controller
    >>> rng = np.random.default_rng(0)
    >>> run = Controller(tether.Gaussian(0.0), store="sqlite://", promise=0.1)
    >>> taken = run.begin().act(500, rng)  # the safe policy
    >>> run.observe(taken.ids, taken.actions > 2)
    500
    >>> taken = run.begin(tether.Gaussian(0.5)).act(100, rng)
    """

    def __init__(
        self,
        safe: PolicyLike | Shortlist,
        store: str | Path,
        *,
        alpha: float | Mapping[str, float] | None = None,
        promise: float | Mapping[str, float] | None = None,
        confidence: float | None = None,
        bound: float | Mapping[str, float] = 1.0,
        family: str | Family = "clip",
        calibration_share: float = 0.5,
        missing: str = "wait",
        against: str = "safe",
        stop: float | None = 0.05,
        max_silence: int | timedelta | None = 10_000,
        context_score: Callable[[Any], ArrayLike] | None = None,
        policies: PolicyLookup = None,
        deadline: float = 5.0,
        fallback: str | Path | None = None,
        key: PrivateKey | None = None,
        seed: int = 0,
    ) -> None:
        chosen, step = _find_family(family)
        self._policies = Policies(safe, chosen, policies)
        self._context_score = context_score
        rule, tolerated = find_target(alpha, promise)
        if chosen is None and confidence is not None:
            raise ValueError(f"a ramp has no confidence, got {confidence!r}")
        if isinstance(chosen, PathFamily) and against != "safe":
            raise ValueError(f"against must be 'safe' for {chosen.name!r}, got {against!r}")
        quiet = max_silence
        given = Settings(
            CONTROLLER,
            datetime.now(UTC).isoformat(timespec="seconds"),
            _limits(rule, tolerated, bound),
            rule=rule,
            confidence=None
            if confidence is None
            else validate.number("confidence", confidence, above=0.5, below=1),
            seed=validate.integer("seed", seed, 0),
            stop=None if stop is None else validate.number("stop", stop, above=0, below=1),
            units_per_step=step,
            safe=self._policies.safe_fingerprint,
            family=RAMP if chosen is None else chosen.name,
            calibration_share=validate.number(
                "calibration_share", calibration_share, above=0, below=1, including=(1,)
            ),
            missing=validate.choice("missing", missing, MISSING),
            against=validate.choice("against", against, ("safe", "last")),
            shortlist=None if self._policies.shortlist is None else self._policies.shortlist.size,
            watches_contexts=context_score is not None,
            max_silence=None
            if quiet is None or isinstance(quiet, timedelta)
            else validate.integer("max_silence", quiet, 1),
            max_silent_seconds=quiet.total_seconds() if isinstance(quiet, timedelta) else None,
        )
        outbox = None
        if fallback is not None:
            outbox = Outbox(None if fallback == "safe" else fallback)
        self._lock, self._contents = RLock(), Contents()
        super().__init__(store, given, deadline=deadline, key=key, outbox=outbox, free=("safe",))
        known, own = self.settings.safe, self._policies.safe_fingerprint
        if known and own and known != own:
            self.close()
            raise ChangedPolicyError(
                f"safe is not the safe policy that {self._log.database.name} was created with: its "
                f"fingerprint is {own}, and {known} is stored"
            )

    @property
    def safe(self) -> Any:
        """The safe policy; on shortlists, a uniform pick among the candidates."""
        return self._policies.safe

    # ---- rounds -------------------------------------------------------------------------------

    def begin(
        self,
        policy: Any = None,
        *,
        name: str | None = None,
        calibration: Calibration | None = None,
    ) -> Round:
        """Calibrate how far `policy` may go, and begin the next round with it.

        The safe policy serves the whole round if there is no policy, no loss to calibrate on, no
        beta that passes, or an alarm stands; the round's `note` says which. In a ramp a policy
        begins with the share that even a loss of the bound everywhere could not hurt.

        Every round keeps its policy, to weight its rows later: a model that is trained further in
        place is another policy, and is refused. Pass a copy.

        Parameters
        ----------
        policy : Policy, classifier or torch distribution, optional
            The optimized policy of the round; on shortlists also a score of candidates, a function
            of (contexts, candidates), and in a run that is tethered at every token a
            `tether.llm.TokenTether` of the run's safe policy and the optimized one.
        name : str, optional
            The name under which the policy is looked up after a restart; "round 3" and so on by
            default.
        calibration : Calibration, optional
            What `calibrate` found elsewhere on the log that `export_log` wrote for this policy.

        Returns
        -------
        Round
            The new round.

        Raises
        ------
        LossesMissingError
            If missing="wait" and losses have not arrived.
        RoundTakenError
            If another process has begun this round meanwhile.
        ValueError
            If a policy has changed, is not available, or takes actions that the safe one never
            takes.
        StoreError
            If the round could not be stored.
        """
        with self._lock:
            optimized = None if policy is None else self._policies.optimized("policy", policy)
            known, standing = self._refresh()
            number = len(known.units) + 1
            name = f"round {number}" if name is None else _checked_name(name)
            if self.settings.decides_shares:
                return self._begin_ramp(number, optimized, name)
            if optimized is None:
                decision = Decision(note="no policy was given")
            elif standing is not None:
                decision = Decision(note=f"alarm {standing} stood: the safe policy serves")
            else:
                self._policies.check_served(policy)
                return self._begin_calibrated(known, number, optimized, name, calibration)
            return self._store_round(known, number, decision, optimized, name)

    def advance(self) -> Round:
        """Begin the next step of the present policy in a ramp, with a share from its rows so far.

        The moment must not depend on losses. While an alarm stands the share is 0.

        Returns
        -------
        Round
            The round that has begun.
        """
        if not self.settings.decides_shares or self.settings.units_per_step is not None:
            raise ValueError(
                "advance is for family='ramp': another family has no steps, and those of "
                "'ramp(N)' end by themselves"
            )

        def job(t: Transaction) -> Unit:
            if t.state.last is None or t.state.last.policy is None:
                raise ValueError("advance needs a policy that is ramped: pass one to `begin`")
            return self._next_step(t)

        return self._round_of(self._submit(job))

    @property
    def round(self) -> Round | None:
        """The present round, also after a restart; None before the first."""
        unit: Unit | None = self._submit(lambda t: t.state.last)
        return None if unit is None else self._round_of(unit)

    # ---- rows ---------------------------------------------------------------------------------

    def observe(
        self, ids: ArrayLike | Actions, losses: Losses, rewards: ArrayLike | None = None
    ) -> int:
        """Store the losses of actions of any round: late, and in any order.

        Either all of them are stored or none. A loss that is stored already may be repeated, and
        changes nothing; another value of it is refused. Where a run has several losses, each may
        arrive on its own.

        Parameters
        ----------
        ids : array-like of int
            The ids of the actions.
        losses : array-like of float, or mapping of str to array-like of float
            One loss per id, in [0, bound]; by name where the run has several losses. NaN where one
            is not known yet.
        rewards : array-like of float, optional
            One reward per id; NaN where there is none.

        Returns
        -------
        int
            How many losses were new; 0 if the store does not answer and they wait in the outbox.
        """
        numbers = checked_ids(ids)
        named = named_losses(losses, self.settings.limits, len(numbers))
        reward = None
        if rewards is not None:
            reward = validate.floats("rewards", rewards)
            validate.same_length("rewards", reward, "ids", len(numbers))
        columns = {f"loss/{name}": values for name, values in named.items()}
        if reward is not None:
            columns["reward"] = reward
        stored = self._submit_or_keep(
            lambda t: self._observe(t, numbers, named, reward),
            "observe",
            lambda: pack({}, id=numbers, **columns),
        )
        return stored or 0

    def _observe(
        self, t: Transaction, ids: Integers, losses: dict[str, Floats], reward: Floats | None
    ) -> int:
        rows = rows_of(t.state, ids)
        gone = ids[t.state.rows["withdrawn"][rows]]
        if len(gone):
            raise ValueError(f"ids {gone[:5].tolist()} were withdrawn: they have no losses")
        return self._store_losses(t, rows, losses, reward=reward)

    def pending(self) -> Actions:
        """The actions of which a loss is still missing, oldest first.

        Returns
        -------
        Actions
            The actions and their ids.
        """
        with self._lock:
            known, _ = self._refresh()
            return self._handed_out(known, np.flatnonzero(~known.observed & ~known.withdrawn))

    def training_rows(self) -> TrainingRows:
        """The rows that an optimizer may learn from: training rows whose losses are known.

        The calibration rows, on which the next calibration rests, cannot be read.

        Returns
        -------
        TrainingRows
            The rows as columns, oldest first.
        """
        with self._lock:
            known, _ = self._refresh()
            where = np.flatnonzero(known.observed & ~known.withdrawn & ~known.calibration)
            taken = self._handed_out(known, where)
            return TrainingRows(
                taken.ids,
                known.unit[where],
                taken.contexts,
                taken.actions,
                {name: losses[where] for name, losses in known.losses.items()},
                known.reward[where],
                self._contents.own_scores("log_prob", where) if len(where) else np.empty(0),
                taken.candidates,
            )

    def withdraw(self, ids: ArrayLike | Actions, reason: str, *, actor: str | None = None) -> None:
        """Exclude actions that were never carried out, such as those of a process that crashed.

        Only for reasons that are unrelated to the loss: excluding rows because of their losses or
        actions would bias every later calibration.

        Parameters
        ----------
        ids : array-like of int
            The ids of the actions, none of which has a loss.
        reason : str
            Why they were not carried out; stored with them.
        actor : str, optional
            Who withdraws them; by default the name of the operating system's user.
        """
        numbers, header = checked_ids(ids), act_header("withdraw", reason, actor)

        def job(t: Transaction) -> None:
            rows = rows_of(t.state, numbers)
            known = [~np.isnan(t.state.loss(name)[rows]) for name in t.state.given.limits]
            if np.any(known):
                raise ValueError("ids of which a loss was observed cannot be withdrawn")
            rows = rows[~t.state.rows["withdrawn"][rows]]
            if len(rows):
                t.append("act", pack({**header, "subject": f"{len(rows)} actions"}))
                t.append("withdrawn", pack({"reason": header["reason"]}, row=rows))

        self._submit(job)

    def record(
        self, contexts: Contexts | None, actions: ArrayLike, rng: np.random.Generator
    ) -> Actions:
        """Store actions that the safe policy took elsewhere, such as an existing log.

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
        Actions
            The actions and their ids.
        """
        validate.generator("rng", rng)
        taken = np.asarray(actions)
        where: Any = as_contexts(contexts, taken)
        present = self.round
        if present is None or present._unit.policy is not None:
            raise ValueError(
                "record needs a round of the safe policy: begin one with `run.begin()`"
            )
        if self._policies.shortlist is not None:
            where, taken = self._policies.shortlist.join(where, taken, rng)
        drawn = self._scored_by_safe(where, taken)
        stored = self._store_rows(present._unit, drawn, rng, stopped=None)
        assert isinstance(stored, np.ndarray)
        return Actions.of(stored, where, taken, SAFE)

    def export_log(self, folder: str | Path, policy: Any) -> Path:
        """Write the log of the next round as Parquet, to calibrate it elsewhere.

        `tether.runs.open_log(folder)` opens it on any machine for `tether.calibrate`, and
        `begin(policy, calibration=found)` accepts what that found. The export counts as a
        calibration on these rows.

        Parameters
        ----------
        folder : str or pathlib.Path
            Where to write: `log.parquet`, and `proposals.parquet` where there are draws without
            contexts.
        policy : Policy
            The optimized policy, as for `begin`.

        Returns
        -------
        pathlib.Path
            The folder.
        """
        from tether.runs.export_log import write_log

        with self._lock:
            optimized = self._policies.optimized("policy", policy)
            known, _ = self._refresh()
            number = len(known.units) + 1
            scorer, log, _ = self._scored(known, number, optimized)
            subject = fingerprint(optimized) or secrets.token_hex(8)
            digest = write_log(Path(folder), known, number, subject, log, scorer.contents)
            header = act_header("export_log", f"for round {number}", None)
            looked = {"looked": subject, "rows": len(log)}
            self._submit(lambda t: t.append("act", pack({**header, "subject": digest, **looked})))
            return Path(folder)

    # ---- how a round begins -------------------------------------------------------------------

    def _refresh(self) -> tuple[Snapshot, int | None]:
        """The rows and rounds of this moment, with what they hold; and the alarm that stands."""

        def look(t: Transaction) -> tuple[Snapshot, int | None, int, bytes]:
            return Snapshot.of(t.state, t.log.seq), t.state.standing, t.log.seq, t.log.head

        known, standing, seq, head = self._submit(look, PATIENCE)
        self._log.read(lambda connection: self._contents.read(connection, seq, head))
        return known, standing

    def _snapshot_at(self, seen: int) -> Snapshot:
        """The rows and rounds up to an event, folded anew."""
        state = State()

        def walk(connection: sql.Connection) -> None:
            query = sql.select(events).where(events.c.seq <= seen).order_by(events.c.seq)
            for row in connection.execution_options(yield_per=1000).execute(query):
                state.fold(Event.from_row(row))

        self._log.read(walk)
        return Snapshot.of(state, seen)

    def _scored(
        self, known: Snapshot, number: int, optimized: Any
    ) -> tuple[Scorer, Any, dict[str, Any]]:
        """The rows in use, scored by all policies; the log of them, and draws."""
        in_use = rows_in_use(known)
        for past in past_rounds(known, in_use):
            self._deployed(known.units[past - 1])
        scorer = Scorer(known, self._contents, self._policies, number, optimized)
        scorer.complete(in_use)
        approximate, error = approximation_of(optimized)
        given = {"approximate": approximate, "ratio_error": error}
        log = make_log(known, scorer.contents, number, in_use, given)
        drawn = scorer.draw(in_use, log)
        if drawn is not None:
            check_support(drawn["log_safe"], drawn["log_optimized"])
            scorer.contents.add_draws(drawn)
        return scorer, log, given

    def _begin_calibrated(
        self,
        known: Snapshot,
        number: int,
        optimized: Any,
        name: str,
        found: Calibration | None,
    ) -> Round:
        subject = fingerprint(optimized) or name
        if not rows_in_use(known).used.any():
            decision = decide_beta(known, self._contents, number, subject, {})
            return self._store_round(known, number, decision, optimized, name)
        if found is not None:
            from tether.runs.export_log import seen_by

            known = self._snapshot_at(seen_by(found))
            if number != len(known.units) + 1:
                raise RoundTakenError(f"the log of calibration was exported before round {number}")
        scorer, log, given = self._scored(known, number, optimized)
        if found is None:
            decision = decide_beta(known, scorer.contents, number, subject, given, log)
        else:
            from tether.runs.export_log import accepted

            decision = accepted(known, number, subject, found, log, scorer.contents)
        deployed, probe = None, None
        if decision.level > -math.inf:
            assert decision.calibration is not None
            policy = self._policies.tethered(optimized, decision.reference, decision.calibration)
            normalizer = find_normalizer(policy, log)
            if normalizer is not None:
                policy.remember(normalizer)
            probe = Probe(*scorer.probe())
            deployed = Deployed(optimized, policy, decision.reference, normalizer, probe)
        more = {"looked": subject, "given": given, "attempt": self._store_scores(number, scorer)}
        return self._store_round(known, number, decision, optimized, name, deployed, more)

    def _store_scores(self, number: int, scorer: Scorer) -> str:
        """Store scores and draws beforehand, in pieces; the round names them by this attempt."""
        attempt = secrets.token_hex(8)
        header = {"unit": number, "attempt": attempt}
        bodies = [
            ("scores", {**header, "name": name, "policy": policy, "first": first + start}, piece)
            for name, policy, first, values in scorer.new
            for start, piece in cut({"values": values})
        ]
        if (drawn := scorer.contents.draws) is not None:
            bodies += [("draws", header, piece) for _, piece in cut(drawn)]
        for kind, held, piece in bodies:
            body = pack(held, **piece)
            self._submit(lambda t, kind=kind, body=body: t.append(kind, body), PATIENCE)
        return attempt

    def _store_round(
        self,
        known: Snapshot,
        number: int,
        decision: Decision,
        optimized: Any,
        name: str,
        deployed: Deployed | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> Round:
        described = describe(decision, deployed) | dict(more or {})
        texts = {}
        if decision.calibration is not None:
            text = json.dumps(records.encode(decision.calibration))
            texts["calibration"] = np.array([text], dtype=object)
        content, problem = (None, "") if deployed is None else saved(optimized)

        def job(t: Transaction) -> Unit:
            _check_not_taken(t, number)
            if optimized is not None:
                self._append_policy(t, name, optimized, deployed, content, problem)
            header = {
                **{"number": number, "level": decision.level, "before": t.state.rows.size},
                **{"cleared": t.state.cleared, "seen": known.seen, "reference": decision.reference},
                **{"policy": None if optimized is None else name, "decision": described},
            }
            t.append("round", pack(header, **texts))
            return t.state.units[-1]

        unit = self._submit(job, PATIENCE)
        if deployed is not None:
            self._policies.add(number, deployed)
        logger.info(
            "round %d of %s begins: beta %.6g; %s",
            number,
            self._log.database.name,
            math.exp(min(unit.level, 700.0)),
            decision.note,
        )
        return Round(self, unit, deployed)

    def _append_policy(
        self,
        t: Transaction,
        name: str,
        optimized: Any,
        deployed: Deployed | None,
        content: bytes | None,
        problem: str,
    ) -> None:
        own = fingerprint(optimized)
        held = t.state.policies.get(name)
        if held is not None:
            if own is None or own != held["fingerprint"]:
                raise ValueError(
                    f"name {name!r} belongs to another policy, or it is not known to be the same: "
                    f"choose another name"
                )
            return
        header = {"name": name, "fingerprint": own, "problem": problem, "formats": None}
        header["blob"] = None if content is None else t.blob(content)
        columns = {}
        if deployed is not None and deployed.probe is not None:
            probe = deployed.probe
            header["formats"] = t.state.formats
            columns = encode_rows(probe.contexts, probe.actions, t.state.formats)
            columns["score"] = probe.scores
        t.append("policy", pack(header, **columns))

    def _begin_ramp(self, number: int, optimized: Any, name: str) -> Round:
        deployed = None if optimized is None else Deployed(optimized, optimized)
        content, problem = (None, "") if optimized is None else saved(optimized)

        def job(t: Transaction) -> Unit:
            _check_not_taken(t, number)
            if optimized is not None:
                self._append_policy(t, name, optimized, deployed, content, problem)
            policy = None if optimized is None else name
            t.append("round", pack(decide_ramp(t.state, policy, begins=True)))
            return t.state.units[-1]

        unit = self._submit(job, PATIENCE)
        if deployed is not None:
            self._policies.add(number, deployed)
        return Round(self, unit, deployed)

    @staticmethod
    def _next_step(t: Transaction) -> Unit:
        t.append("round", pack(decide_ramp(t.state, t.state.last.policy, begins=False)))
        unit: Unit = t.state.units[-1]
        return unit

    # ---- what rounds ask of it ----------------------------------------------------------------

    def _round_of(self, unit: Unit) -> Round:
        serves = unit.policy is not None and (
            self.settings.decides_shares or unit.level > -math.inf
        )
        retired = self._submit(lambda t: unit.number in t.state.retired)
        return Round(self, unit, self._deployed(unit) if serves and not retired else None)

    def _policy_of(self, number: int) -> Any:
        if number == SAFE:
            return self.safe
        unit: Unit = self._submit(lambda t: t.state.units[number - 1])
        return self._deployed(unit).policy

    def _deployed(self, unit: Unit) -> Deployed:
        """What a round deploys, restored from the store if this process has not begun it."""
        with self._lock:
            known = self._policies.known(unit.number)
            if known is not None:
                return known
            if self.settings.decides_shares:  # an earlier step of the same policy
                known = next(
                    (
                        k
                        for n in range(unit.number - 1, 0, -1)
                        if (k := self._same_policy(n, unit)) is not None
                    ),
                    None,
                )
                if known is not None:
                    self._policies.add(unit.number, known)
                    return known
            elif unit.reference != SAFE:
                self._policy_of(unit.reference)
            header, columns = self._stored_policy(str(unit.policy))
            probe = None
            if header["formats"] is not None:
                count = len(columns["score"])
                probe = Probe(*decode_rows(columns, header["formats"], count), columns["score"])
            return self._policies.restore(
                unit, header, probe, self._read_blob, self._calibration_of(unit)
            )

    def _same_policy(self, number: int, unit: Unit) -> Deployed | None:
        other: Unit = self._submit(lambda t: t.state.units[number - 1])
        return self._policies.known(number) if other.policy == unit.policy else None

    def _stored_policy(self, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
        seq = self._submit(lambda t: t.state.policies[name]["event"])
        return unpack(self._read_event(seq).body)

    def _read_event(self, seq: int) -> Event:
        """One event, which was folded before; it must not have been changed since."""
        query = sql.select(events).where(events.c.seq.in_([seq - 1, seq])).order_by(events.c.seq)
        found = self._log.read(lambda connection: connection.execute(query).fetchall())
        event = Event.from_row(found[-1]) if found else None
        if event is None or not event.follows(seq - 1, bytes(found[0][5])):
            raise TamperedError(f"event {seq} is not as it was written")
        return event

    def _read_blob(self, digest: str) -> bytes:
        query = sql.select(blobs.c.content).where(blobs.c.digest == digest)
        content = self._log.read(lambda connection: connection.execute(query).scalar())
        held = None if content is None else bytes(content)
        return check_blob(digest, held, "" if held is None else blob_digest(held))

    def _calibration_of(self, unit: Unit) -> Calibration | None:
        _, columns = unpack(self._read_event(unit.event).body)
        if "calibration" not in columns:
            return None
        found: Calibration = records.decode(
            Calibration, json.loads(str(columns["calibration"][0])), "calibration"
        )
        return found

    def _seems_stopped(self, unit: Unit) -> bool:
        """Whether the safe policy acts, as this process last saw it."""
        state = self._log.state
        return bool(state.is_stopped) if state.settings is not None else False

    def _with_candidates(self, contexts: Any, rng: np.random.Generator) -> Any:
        shortlist = self._policies.shortlist
        return contexts if shortlist is None else shortlist.draw(contexts, rng)

    def _scored_by_safe(self, contexts: Any, actions: Any, failure: str = "") -> Drawn:
        from tether._core import policy_calls

        scores = {}
        if not self.settings.decides_shares:
            log_safe = policy_calls.score("safe", self.safe, contexts, actions, drew=True)
            scores = {"log_safe": log_safe, "log_prob": log_safe}
        return Drawn(contexts, actions, np.zeros(len(actions), np.int64), scores, failure)

    def _store_rows(
        self,
        unit: Unit,
        drawn: Drawn,
        rng: np.random.Generator,
        *,
        keys: list[str] | None = None,
        stopped: bool | None = None,
    ) -> Integers | tuple[Unit, bool]:
        """Store actions; their rows, or the present step and whether it is stopped if that changed.

        `stopped` is what the caller assumed; None if it does not matter.
        """
        columns = self._columns(drawn, rng, keys)
        given = formats_of(drawn.contexts, drawn.actions)

        def job(t: Transaction) -> Integers | tuple[Unit, bool]:
            state, present = t.state, t.state.last
            if state.given.decides_shares and unit.policy is not None and is_ramp_over(state):
                self._next_step(t)
                return state.last, state.is_stopped
            if present.number != unit.number:
                if present.policy is not None and present.policy == unit.policy:
                    return present, state.is_stopped
                raise RoundOverError(
                    f"round {unit.number} is over: round {present.number} has begun; act in "
                    f"`run.round`"
                )
            names = [] if keys is None else [claim_of(key) for key in keys]
            if t.find(names) or stopped not in (None, state.is_stopped):
                return present, state.is_stopped
            first = self._append_rows(t, drawn, columns, given, {}, keys)
            return first + np.arange(len(drawn.actions), dtype=np.int64)

        return self._submit(job)

    def _columns(
        self, drawn: Drawn, rng: np.random.Generator, keys: list[str] | None
    ) -> dict[str, Any]:
        count = len(drawn.actions)
        columns: dict[str, Any] = {
            "arm": drawn.arm.astype(np.int32),
            "calibration": rng.random(count) < self.settings.calibration_share,
            **drawn.scores,
        }
        if keys is not None:
            columns["key"] = np.array(keys, dtype=object)
        if self._context_score is not None:
            plain = getattr(drawn.contexts, "contexts", drawn.contexts)
            scores = validate.floats("context_score's result", self._context_score(plain))
            validate.same_length("context_score's result", scores, "contexts", length(plain))
            if not np.isfinite(scores).all():
                validate.reject("context_score's result", scores, ~np.isfinite(scores), "finite")
            columns["context_score"] = scores
        return columns

    @staticmethod
    def _append_rows(
        t: Transaction,
        drawn: Drawn,
        columns: dict[str, Any],
        given: dict[str, Any],
        header: dict[str, Any],
        keys: list[str] | None,
    ) -> int:
        """Append the rows of one call; the first of them."""
        formats = same_formats(t.state.formats, given)
        columns = columns | encode_rows(drawn.contexts, drawn.actions, formats)
        first: int = t.state.rows.size
        if drawn.failure:
            header = header | {"failure": drawn.failure[:500]}
        for start in range(0, len(drawn.actions), ROWS_PER_EVENT):
            part = {name: each[start : start + ROWS_PER_EVENT] for name, each in columns.items()}
            place = {"unit": len(t.state.units), "first": first + start, "formats": formats}
            claim = {}
            if keys is not None:
                seq = t.log.seq + 1
                claim = {
                    claim_of(key): claimed(seq, first + start + k)
                    for k, key in enumerate(keys[start : start + ROWS_PER_EVENT])
                }
            t.append("rows", pack({**header, **place}, **part), claim)
            header = {key: value for key, value in header.items() if key != "waited"}
        return first

    def _find_keys(self, keys: list[str], contexts: Any) -> dict[int, int]:
        """The rows that were stored under some of the keys, by position."""
        found = self._submit(lambda t: t.find([claim_of(key) for key in keys]))
        known = {
            place: int.from_bytes(found[claim_of(key)][8:], "little")
            for place, key in enumerate(keys)
            if claim_of(key) in found
        }
        if known and not isinstance(contexts, int):
            stored = self._read_actions(np.array(list(known.values())))
            places = np.array(list(known))
            given = labels(contexts)[places]
            wrong = np.flatnonzero(labels(stored.contexts) != given)
            if len(wrong):
                raise ValueError(f"key {keys[places[wrong[0]]]!r} was used for another context")
        return known

    def _read_actions(self, rows: Integers) -> Actions:
        with self._lock:
            known, _ = self._refresh()
            return self._handed_out(known, rows)

    def _handed_out(self, known: Snapshot, rows: Integers) -> Actions:
        if not len(rows):
            return Actions(rows, np.empty(0), 0, rows)
        contexts, actions = self._contents.rows(rows)
        return Actions.of(rows, contexts, actions, known.served[rows])

    # ---- outage -------------------------------------------------------------------------------

    @property
    def _is_available(self) -> bool:
        """Whether it is worth asking the store, or there is nothing else to be done."""
        return self._log.is_available or self._log.outbox is None

    @property
    def _may_fall_back(self) -> bool:
        return self._log.outbox is not None

    def _keep_for_later(
        self, drawn: Drawn, rng: np.random.Generator, keys: list[str] | None
    ) -> Integers:
        """Let rows of the safe policy wait in the outbox; their ids."""
        state = self._log.state
        formats = same_formats(state.formats, formats_of(drawn.contexts, drawn.actions))
        first = WAITED + (secrets.randbits(40) << CALL_BITS)
        columns = self._columns(drawn, rng, keys)
        columns |= encode_rows(drawn.contexts, drawn.actions, formats)
        header = {"formats": formats, "waited": first, "failure": drawn.failure[:500]}
        assert self._log.outbox is not None
        self._log.outbox.add("rows", pack(header, **columns))
        self._log.is_available = False  # until the writer has reached the store again
        return first + np.arange(len(drawn.actions), dtype=np.int64)

    def _deliver(self, t: Transaction, waiting: Waiting) -> None:
        header, columns = unpack(waiting.body)
        if waiting.kind == "observe":
            losses = {name[5:]: each for name, each in columns.items() if name.startswith("loss/")}
            self._observe(t, columns["id"], losses, columns.get("reward"))
            return
        first = t.state.rows.size
        place = {"unit": len(t.state.units), "first": first}
        keys = columns.get("key", ())
        seq = t.log.seq + 1
        claim = {claim_of(str(key)): claimed(seq, first + k) for k, key in enumerate(keys)}
        t.append("rows", pack({**header, **place}, **columns), claim)


def describe(decision: Decision, deployed: Deployed | None) -> dict[str, Any]:
    """A decision as plain values, for the event of its round."""
    described: dict[str, Any] = {"reason": decision.note, "rows": decision.rows}
    found = decision.calibration
    if found is None:
        return described
    normalizer: Normalizer | None = None if deployed is None else deployed.normalizer
    measured = found.measured
    return described | {
        "looks": decision.looks,
        "beta": found.beta,
        "exists": found.exists,
        "useful": found.useful,
        "family": found.family,
        "blend": found.blend,
        "confidence": found.confidence,
        "log_psi": None
        if normalizer is None
        else [float(normalizer.log_psi[0]), float(normalizer.standard_error[0])],
        "promises": {name: each.promise for name, each in found.losses.items()},
        "risks": {name: each.risk for name, each in found.losses.items()},
        "effective_sample_size": measured.effective_sample_size,
        "acceptance": measured.acceptance,
        "changed": measured.changed,
        "max_weight": measured.max_weight,
        "warnings": list(found.warnings),
        "curve": _curve(found.binding),
    }


def _curve(loss: LossResult) -> dict[str, Any]:
    """The risk along beta of the loss that limits it, where it changes; for histories."""
    steps = np.flatnonzero(np.abs(np.diff(loss.risks)) > 1e-3 * np.ptp(loss.risks))
    ends = (steps[0], steps[-1] + 2) if len(steps) else (0, len(loss.risks))
    shown = np.arange(*ends)[:: (ends[1] - ends[0]) // CURVE_POINTS + 1]
    shown = shown[np.isfinite(loss.log_betas[shown])]
    points = {"log_betas": loss.log_betas[shown].tolist(), "risks": loss.risks[shown].tolist()}
    return {"loss": loss.name, "alpha": loss.alpha, **points}


def _find_family(family: str | Family) -> tuple[Family | None, int | None]:
    """The family, None for a ramp; and after how many actions a step of a ramp ends."""
    if isinstance(family, str) and (ramp := re.fullmatch(r"ramp(?:\((\d+)\))?", family)):
        return None, None if ramp[1] is None else validate.integer("family", int(ramp[1]), 1)
    chosen = find_family(family)
    if not isinstance(chosen, (Clip, Mix, BudgetedClip, PathFamily)):
        raise TypeError(
            f"family must be one of the package, so that anybody can verify the run, got {family!r}"
        )
    return chosen, None


def _limits(
    rule: str,
    tolerated: float | Mapping[str, float],
    bound: float | Mapping[str, float],
) -> dict[str, Guardrail]:
    named = tolerated if isinstance(tolerated, Mapping) else {"loss": tolerated}
    if isinstance(bound, Mapping) and set(bound) != set(named):
        raise ValueError(f"bound has the losses {list(bound)} but {rule} has {list(named)}")
    limits = {}
    for name, value in named.items():
        of = f"[{name!r}]" if isinstance(tolerated, Mapping) else ""
        top = validate.number(
            f"bound{of}", bound[name] if isinstance(bound, Mapping) else bound, above=0, below=1e200
        )
        limits[name] = Guardrail(validate.number(f"{rule}{of}", value, above=0, below=top), top)
    return limits


def _checked_name(name: str) -> str:
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_LENGTH:
        raise ValueError(f"name must be text of 1 to {MAX_NAME_LENGTH} characters, got {name!r}")
    return name


def _check_not_taken(t: Transaction, number: int) -> None:
    if len(t.state.units) != number - 1:
        raise RoundTakenError(
            f"round {number} was begun by another process while this one calibrated: use "
            f"`run.round`, or begin the next round"
        )
