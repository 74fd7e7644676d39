"""A run as a live page shows it, in the words and with the numbers of its report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tether._core.files import redact_text
from tether.report.assumptions import assumptions
from tether.report.sentences import as_sentence, policy_name, run_promise, run_state
from tether.rounds.history import History, RoundRecord
from tether.rounds.recent_actions import RecentAction
from tether.rounds.run_watch import RunView
from tether.rounds.served_run import ServedRun
from tether.service.dashboard.beta_heights import BetaHeights
from tether.service.dashboard.document import (
    ACTS_SHOWN,
    ALARMS_SHOWN,
    Document,
    Guardrail,
    Level,
    Point,
    Progress,
    Sentences,
    State,
    StepMeans,
    latest,
    mean_of,
    monitor_part,
    share_level,
)
from tether.service.dashboard.offered_acts import run_acts
from tether.service.dashboard.page_words import RAMP_WORDS, RUN_WORDS
from tether.service.runs.served_by import served_by

ROUNDS_SHOWN = 150
"""How many of the last rounds are shown; `tether report` has all of them."""


class WatchedRun:
    """A run that a dashboard stands in front of."""

    def __init__(self, run: ServedRun, title: str) -> None:
        self._watch, self._run, self._title = run.watch(), run, title

    def look(self) -> Document:
        """Read what is new."""
        return run_document(self._watch.look(), self._run, self._title)


def run_document(view: RunView, run: ServedRun, title: str) -> Document:
    """Everything that is shown of a run, and what this process says of it."""
    history, last = view.history, view.history.rounds[-1]
    is_halted, shown = history.alarm is not None, history.rounds[-ROUNDS_SHOWN:]
    heights = BetaHeights([_log_beta(each) for each in shown])
    state, levels = run_state(history), [_level(each, heights) for each in shown]
    off = share_level(0.0) if history.is_ramp else heights.level(-float("inf"))
    path = [
        Point(each.number, each.begun, level, _why(each))
        for each, level in zip(shown, levels, strict=True)
    ]
    return Document(
        title=title,
        kind="run",
        words=RAMP_WORDS if history.is_ramp else RUN_WORDS,
        offers=run_acts(
            is_halted=is_halted,
            is_ramp=history.is_ramp,
            can_begin=run.can_begin,
            is_beginning=run.is_beginning,
        ),
        target=history.target,
        number=last.number,
        level=levels[-1] if view.serves else off,
        state=State(
            state.kind,
            state.heading,
            state.sentence,
            " ".join(filter(None, (state.details, _began(last, is_halted), _beginning(run, last)))),
            " ".join(_notes(run, view, last)),
        ),
        promise=Sentences(*run_promise(history)),
        progress=_progress(history, last),
        path=path,
        axis=() if history.is_ramp else heights.ticks,
        left_out=len(history.rounds) - len(shown),
        guardrails=[_guardrail(view, name, shown) for name in history.limits],
        alarms=latest(history.alarms, ALARMS_SHOWN),
        acts=latest(history.audit, ACTS_SHOWN),
        recent=[_recent(each) for each in view.recent],
        assumptions=[asdict(each) for each in assumptions(history)],
    )


def _log_beta(record: RoundRecord) -> float:
    return -float("inf") if record.calibration is None else record.calibration.log_beta


def _level(record: RoundRecord, heights: BetaHeights) -> Level:
    if record.ramp_share is not None:
        return share_level(record.share)
    return heights.level(_log_beta(record))


def _why(record: RoundRecord) -> str:
    """The policy of a round, and what is noted of it."""
    policy = "safe policy" if record.policy is None else record.policy
    return ": ".join(
        filter(None, (policy, record.note if record.ramp_share is None else record.why))
    )


def _began(last: RoundRecord, is_halted: bool) -> str:
    """What the present round began with, where its state does not say so."""
    if not is_halted:
        return ""
    name = policy_name(last)
    policy = "the safe policy" if last.policy is None else "its optimized policy"
    began = f"Round {last.number} began with {policy}{f' “{name}”' if name else ''}."
    return f"{began} {as_sentence(last.note)}".strip()


def _beginning(run: ServedRun, last: RoundRecord) -> str:
    if not run.is_beginning:
        return ""
    return f"Round {last.number + 1} is being calibrated; actions go on in round {last.number}."


def _notes(run: ServedRun, view: RunView, last: RoundRecord) -> list[str]:
    """What somebody has to know, in sentences."""
    notes = []
    if view.serves and (missing := run.missing_policy):
        notes.append(f"In this process the safe policy acts: {redact_text(missing)}.")
    if run.begin_failure:
        failure = as_sentence(redact_text(run.begin_failure))
        notes.append(f"The last attempt to begin a round failed. {failure}")
    if last.retired:
        notes.append(f"Round {last.number} is retired: the safe policy acts.")
    if last.failure:
        message = as_sentence(redact_text(last.failure))
        notes.append(
            f"The safe policy took {last.fallback_rows:,} actions of this round because its policy "
            f"failed. {message}"
        )
    return notes


def _progress(history: History, last: RoundRecord) -> Progress:
    length = history.actions_per_step if last.ramp_share is not None else None
    return Progress(
        unit="rows",
        begun=last.begun,
        done=last.rows,
        length=length,
        is_paused=length is not None and history.alarm is not None,
    )


def _guardrail(view: RunView, name: str, shown: Sequence[RoundRecord]) -> Guardrail:
    history, last = view.history, view.history.rounds[-1]
    limit = history.limits[name]
    with_new = [each for each in history.rounds if _is_tried(each) and name in each.losses]
    monitor = monitor_part(view.monitors.get(name, ()))
    return Guardrail(
        name=name,
        alpha=limit.alpha,
        bound=limit.bound,
        alarm_risk=limit.alarm_risk,
        promise=last.promises.get(name) if view.serves and _is_tried(last) else None,
        old=mean_of(history.safe_losses.get(name)),
        new=mean_of(with_new[-1].losses[name]) if with_new else None,
        new_step=with_new[-1].number if with_new else None,
        new_since=None,
        means=[_means(each, name) for each in shown],
        monitor=monitor,
        without_monitor=_without_monitor(last) if monitor is None else "",
    )


def _is_tried(record: RoundRecord) -> bool:
    """Whether a round has an optimized policy that acts."""
    return record.share > 0 or _log_beta(record) > -float("inf")


def _means(record: RoundRecord, name: str) -> StepMeans:
    """The mean of what a round began with: in a ramp of both policies together."""
    mean, is_tried = mean_of(record.losses.get(name)), _is_tried(record)
    return StepMeans(record.number, None if is_tried else mean, mean if is_tried else None)


def _without_monitor(last: RoundRecord) -> str:
    if _is_tried(last):
        return (
            "No monitor: with this share the optimized policy cannot lift the risk of what is "
            "served to the alarm level."
        )
    return "No monitor: the safe policy takes all actions of this round."


def _recent(row: RecentAction) -> dict[str, Any]:
    """Ids are text: those of spooled actions are larger than a JavaScript number can be."""
    return asdict(row) | {"id": str(row.id), "served": served_by(row.served)}
