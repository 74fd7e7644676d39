"""The controller: a loop that the user runs, round after round, with everything in a store."""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tether._core import signing, validate
from tether._core.arrays import Contexts, Integers
from tether._core.contexts import as_contexts
from tether.control.calibration import Calibration
from tether.control.families import BudgetedClip, Clip, Family, Mix, PathFamily, find_family
from tether.policies.policy import PolicyLike
from tether.policies.probes import fingerprint
from tether.policies.shortlist import Shortlist
from tether.runs.actions import Actions, Losses, TrainingRows, checked_ids, named_losses, rows_of
from tether.runs.body import Columns, pack
from tether.runs.decide_beta import by_safe, decide_beta, rows_in_use
from tether.runs.decide_ramp import decide_ramp
from tether.runs.errors import ChangedPolicyError, RoundTakenError
from tether.runs.event_log import Event, Transaction, read_events
from tether.runs.export_log import accepted, exported, write_log
from tether.runs.log_rows import Contents, encode_rows
from tether.runs.outbox import Outbox
from tether.runs.policies import Deployed, Policies, PolicyLookup, Probe, saved
from tether.runs.round import MAX_NAME_LENGTH, Round
from tether.runs.run import PATIENCE, Run, act_header, append_rows, losses_in
from tether.runs.score import Scorer
from tether.runs.settings import CONTROLLER, RAMP, Settings, rows_or_seconds
from tether.runs.shares import Guardrail
from tether.runs.state import REWARD, State, Unit


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

    An alarm sends all traffic to the safe policy until `resume`; it is raised, in the transaction
    that sees the loss, when the round's policy is shown to lose more than 1.5 times what is
    tolerated (but at most halfway to the bound), when contexts shift, or when losses stop arriving.

    Parameters
    ----------
    safe : Policy, classifier or Shortlist
        The safe policy. With a `Shortlist` its candidates are stored, and every round picks one.
    store : str or pathlib.Path
        Where the run is kept: a path (SQLite) or the URL of an SQLite or PostgreSQL database. A
        new run is created if there is none; one with the same settings and safe policy continues.
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
    fallback : {"safe"}, or a path, optional
        What acts when the store does not answer within the deadline: with "safe" the safe policy,
        and its actions wait in memory until they can be stored; with a path, in that file, one for
        each process. By default an error.
    deadline, key : optional
        As for `Run.open`. The key signs every round, alarm and act, and with them all rows before.
    seed : int, default 0
        The seed of the draws for calibrations and of the shift monitor.

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
        key: signing.PrivateKey | None = None,
        seed: int = 0,
    ) -> None:
        chosen, step = _find_family(family)
        self._policies = Policies(safe, chosen, policies)
        self._context_score = context_score
        rule, tolerated = validate.one_target(alpha, promise)
        if chosen is None and confidence is not None:
            raise ValueError(f"confidence is not available for a ramp, got {confidence!r}")
        if isinstance(chosen, PathFamily) and against != "safe":
            raise ValueError(f"against must be 'safe' for {chosen.name!r}, got {against!r}")
        if confidence is not None:
            confidence = validate.number("confidence", confidence, above=0.5, below=1)
        quiet, seconds = rows_or_seconds("max_silence", max_silence)
        share = validate.number(
            "calibration_share", calibration_share, above=0, below=1, including=(1,)
        )
        given = Settings(
            CONTROLLER,
            _limits(rule, tolerated, bound),
            rule=rule,
            confidence=confidence,
            seed=validate.integer("seed", seed, 0),
            stop=None if stop is None else validate.number("stop", stop, above=0, below=1),
            units_per_step=step,
            safe=self._policies.safe_fingerprint,
            family=RAMP if chosen is None else chosen.name,
            calibration_share=share,
            missing=validate.choice("missing", missing, ("wait", "worst_case", "exclude")),
            against=validate.choice("against", against, ("safe", "last")),
            shortlist=None if self._policies.shortlist is None else self._policies.shortlist.size,
            watches_contexts=context_score is not None,
            max_silence=quiet,
            max_silent_seconds=seconds,
        )
        outbox = Outbox.of(fallback, "safe")
        self._lock, self._contents = RLock(), Contents()
        super().__init__(store, given, deadline=deadline, key=key, outbox=outbox, free=("safe",))
        self._policies.log = self._log
        known, own = self.settings.safe, self._policies.safe_fingerprint
        if known and own and known != own:
            self.close()
            raise ChangedPolicyError(
                f"safe is not the safe policy that {self._log.database.name} was created with: its "
                f"fingerprint is {own}, and {known} is stored"
            )

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
        policy : Policy or classifier, optional
            The optimized policy of the round; on shortlists also a score of candidates, a function
            of (contexts, candidates), and in a run that is tethered at every token a
            `tether.llm.TokenTether` of the run's safe policy and the optimized one.
        name : str, optional
            The name under which the policy is looked up after a restart; "round 3" and so on by
            default.
        calibration : Calibration, optional
            What `calibrate` found elsewhere on the log that `export_log` wrote for this policy.

        Raises
        ------
        LossesMissingError
            If missing="wait" and losses have not arrived.
        RoundTakenError
            If another process has begun this round meanwhile.
        ValueError
            If a policy has changed, is not available, or takes actions that the safe one never
            takes.
        """
        with self._lock:
            optimized = None if policy is None else self._policies.optimized("policy", policy)
            known = self._refresh()
            name = f"round {len(known.units) + 1}" if name is None else name
            if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_LENGTH:
                raise ValueError(
                    f"name must be text of 1 to {MAX_NAME_LENGTH} characters, got {name!r}"
                )
            decided, deployed = by_safe("no policy was given"), None
            if optimized is None:
                pass
            elif self.settings.decides_shares:
                deployed = Deployed(optimized, optimized)
            elif known.standing is not None:
                decided = by_safe(f"alarm {known.standing} stood: the safe policy serves")
            elif not rows_in_use(known)[0].any():
                decided = by_safe("no losses to calibrate on yet: the safe policy serves")
            else:
                decided, deployed = self._calibrate(known, optimized, name, calibration)
            content, problem = (None, "") if optimized is None else saved(optimized)
            policy = {"name": name, "fingerprint": fingerprint(optimized), "problem": problem}

            def job(t: Transaction) -> Unit:
                named = None if optimized is None else name
                if len(t.state.units) != len(known.units):
                    raise RoundTakenError(
                        f"round {len(known.units) + 1} was begun by another process while this one "
                        f"calibrated: use `run.round`, or begin the next round"
                    )
                if named is not None:
                    _append_policy(t, policy, None if deployed is None else deployed.probe, content)
                if t.state.given.decides_shares:
                    header = decide_ramp(t.state, named, begins=True)
                else:
                    header = {"seen": known.seq, **decided, "policy": named}
                t.append("round", pack(header))
                return t.state.units[-1]

            unit = self.submit(job, PATIENCE)
            if deployed is not None:
                self._policies.keep(unit, deployed)
            return Round(self, unit, deployed)

    def _calibrate(
        self, known: State, optimized: Any, name: str, given: Calibration | None
    ) -> tuple[dict[str, Any], Deployed | None]:
        """The header of a round, and what it deploys; scores are stored."""
        number, subject = len(known.units) + 1, fingerprint(optimized) or name
        if given is not None:
            seen = exported(given)[1]
            known = self._log.read(lambda connection: _folded(read_events(connection, until=seen)))
            if number != len(known.units) + 1:
                raise RoundTakenError(
                    f"calibration is of a log that was exported before round {number - 1} began: "
                    f"export the log again"
                )
        scorer = Scorer(known, self._contents, self._policies, optimized, subject)
        decided, found = decide_beta(scorer) if given is None else accepted(scorer, given)
        decided["seen"], decided["decision"]["log_psi"], deployed = known.seq, None, None
        if found.exists:
            policy = self._policies.tethered(optimized, known.reference, found)
            decided["decision"]["log_psi"] = scorer.find_normalizer(policy)
            deployed = Deployed(optimized, policy, scorer.probe())
        decided["decision"]["scored"] = [
            self.submit(partial(Transaction.append, kind=kind, body=body), PATIENCE).seq
            for kind, body in scorer.new  # one by one, so that others can act meanwhile
        ]
        return decided, deployed

    def advance(self) -> Round:
        """Begin the next step of the present policy in a ramp, with a share from its rows so far.

        The moment must not depend on losses. While an alarm stands the share is 0.
        """
        return self._round_of(self.submit(self.next_step))

    @staticmethod
    def next_step(t: Transaction) -> Unit:
        """Begin the next step of a ramp inside a transaction."""
        if not t.state.given.decides_shares or t.state.given.units_per_step is not None:
            raise ValueError(
                "advance is only for family='ramp': the steps of 'ramp(N)' end by themselves, and "
                "other families have none"
            )
        if t.state.last is None or t.state.last.policy is None:
            raise ValueError("advance needs a round with a policy: pass one to `begin` first")
        t.append("round", pack(decide_ramp(t.state, t.state.last.policy, begins=False)))
        return t.state.units[-1]

    @property
    def round(self) -> Round | None:
        """The present round, also after a restart; None before the first."""
        unit = self.submit(lambda t: t.state.last)
        return None if unit is None else self._round_of(unit)

    def _round_of(self, unit: Unit) -> Round:
        retired = self.submit(lambda t: unit.number in t.state.retired)
        is_deployed = unit.policy is not None and unit.level > -math.inf and not retired
        return Round(self, unit, self._policies.of(unit) if is_deployed else None)

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
        columns = named_losses(losses, self.settings.limits, len(numbers))
        if rewards is not None:
            columns[REWARD] = validate.floats("rewards", rewards)
            validate.same_length("rewards", columns[REWARD], "ids", len(numbers))
        return self._call("observe", {}, {"id": numbers, **columns}) or 0

    def pending(self) -> Actions:
        """The actions of which a loss is still missing, oldest first."""
        with self._lock:
            known = self._refresh()
            missing = ~known.observed & (known.rows["answers"] > 0)
            return self._handed_out(known, np.flatnonzero(missing))

    def training_rows(self) -> TrainingRows:
        """The rows that an optimizer may learn from: training rows whose losses are known.

        The calibration rows, on which the next calibration rests, cannot be read.
        """
        with self._lock:
            known = self._refresh()
            used = (known.rows["answers"] > 0) & ~known.rows["calibration"]
            where = np.flatnonzero(known.observed & used)
            taken = self._handed_out(known, where)
            return TrainingRows(
                taken.ids,
                known.rows["unit"][where].astype(np.int64),
                taken.contexts,
                taken.actions,
                {name: known.loss(name)[where] for name in known.given.limits},
                known.rows["reward"][where],
                self._contents.own_scores("log_prob", where),
                taken.candidates,
            )

    def withdraw(self, ids: ArrayLike | Actions, reason: str, *, actor: str | None = None) -> None:
        """Exclude actions that were never carried out, such as those of a process that crashed.

        None of them may have a loss. Only for reasons that are unrelated to the loss: excluding
        rows because of their losses or actions would bias every later calibration.
        """
        numbers, header = checked_ids(ids), act_header("withdraw", reason, actor)

        def job(t: Transaction) -> None:
            rows = rows_of(t.state, numbers)
            known = [~np.isnan(t.state.loss(name)[rows]) for name in t.state.given.limits]
            observed = numbers[np.any(known, axis=0)]
            if len(observed):
                raise ValueError(
                    f"ids {observed[:5].tolist()} cannot be withdrawn: their losses were observed"
                )
            answers = t.state.rows["answers"][rows]
            rows = rows[answers > 0]
            if len(rows):
                t.append("act", pack({**header, "subject": f"{len(rows)} actions"}))
                why = {"reason": header["reason"], "calls": int(answers.max())}
                t.append("withdrawn", pack(why, row=rows))

        self.submit(job)

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
        """
        validate.generator("rng", rng)
        taken = np.asarray(actions)
        where: Any = as_contexts(contexts, taken)
        present = self.round
        if present is None or present._unit.policy is not None:
            raise ValueError(
                "record needs a round of the safe policy: begin one with `run.begin()`"
            )
        return present._record(where, taken, rng)

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
        """
        with self._lock:
            optimized = self._policies.optimized("policy", policy)
            known = self._refresh()
            looked = fingerprint(optimized) or secrets.token_hex(8)
            scorer = Scorer(known, self._contents, self._policies, optimized, looked)
            subject = write_log(Path(folder), scorer)
            more: dict[str, Any] = {"subject": subject, "looked": looked, "rows": len(scorer.log)}
            self.append_act("export_log", f"for round {scorer.number}", **more)
            return Path(folder)

    # ---- what is stored -----------------------------------------------------------------------

    def _refresh(self) -> State:
        """The rows and rounds of this moment, whose contents have been read."""
        known = self.submit(lambda t: t.state.copy(), PATIENCE)
        self._log.read(lambda connection: self._contents.read(connection, known.seq, known.head))
        return known

    def _read_actions(self, rows: Integers) -> Actions:
        with self._lock:
            return self._handed_out(self._refresh(), rows)

    def _handed_out(self, known: State, rows: Integers) -> Actions:
        if not len(rows):
            return Actions(rows, np.empty(0), 0, rows)
        return Actions.of(rows, *self._contents.rows(rows), known.served[rows])

    def _carry_out(
        self, t: Transaction, kind: str, header: dict[str, Any], columns: Columns
    ) -> int:
        if kind == "rows":
            return append_rows(t, header, columns, {})
        ids = columns["id"]
        rows = rows_of(t.state, ids)
        gone = ids[t.state.rows["answers"][rows] == 0]
        if len(gone):
            raise ValueError(f"ids {gone[:5].tolist()} were withdrawn: they have no losses")
        return self._store_losses(t, rows, losses_in(columns))


def _append_policy(
    t: Transaction, policy: dict[str, Any], probe: Probe | None, content: bytes | None
) -> None:
    """Store the policy of a round, unless the same is stored already."""
    name, own = policy["name"], policy["fingerprint"]
    held = t.state.policies.get(name)
    if held is not None and (own is None or own != held["fingerprint"]):
        raise ValueError(
            f"name {name!r} belongs to another policy, or it is not known to be the same: choose "
            f"another name"
        )
    columns, formats = {}, t.state.formats
    if probe is not None and formats is not None:
        columns = {"score": probe.scores, **encode_rows(probe.contexts, probe.actions, formats)}
    if held is None or columns:
        blob = None if content is None else t.blob(content)
        t.append("policy", pack({**policy, "formats": formats, "blob": blob}, **columns))


def _folded(given: Iterable[Event]) -> State:
    state = State()
    for event in given:
        state.fold(event)
    return state


def _find_family(family: str | Family) -> tuple[Family | None, int | None]:
    """The family, None for a ramp; and after how many actions a step of a ramp ends."""
    if isinstance(family, str) and (ramp := re.fullmatch(r"ramp(?:\((\d+)\))?", family)):
        return None, None if ramp[1] is None else validate.integer("family", int(ramp[1]), 1)
    chosen = find_family(family)
    if not isinstance(chosen, (Clip, Mix, BudgetedClip, PathFamily)):
        raise TypeError(
            f"family must be one of tether's own, so that anyone can verify the run, got {family!r}"
        )
    return chosen, None


def _limits(rule: str, tolerated: Any, bound: float | Mapping[str, float]) -> dict[str, Guardrail]:
    named = tolerated if isinstance(tolerated, Mapping) else {"loss": tolerated}
    bounds = bound if isinstance(bound, Mapping) else dict.fromkeys(named, bound)
    if set(bounds) != set(named):
        raise ValueError(f"bound has the losses {list(bounds)} but {rule} has {list(named)}")
    limits = {}
    for name, value in named.items():
        of = f"[{name!r}]" if isinstance(tolerated, Mapping) else ""
        top = validate.number(f"bound{of}", bounds[name], above=0, below=1e200)
        limits[name] = Guardrail(validate.number(f"{rule}{of}", value, above=0, below=top), top)
    return limits
