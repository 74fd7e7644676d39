"""A release as a live page shows it, in the words and with the numbers of its report."""

from __future__ import annotations

import math
from dataclasses import asdict

from tether.report.releases.release_assumptions import release_assumptions
from tether.report.releases.release_sentences import release_promise, release_state
from tether.rounds.history import Estimate
from tether.rounds.releases.release_history import ReleaseHistory
from tether.rounds.releases.release_settings import ReleaseSettings
from tether.rounds.releases.release_watch import ReleaseView
from tether.rounds.releases.served_release import ServedRelease
from tether.service.dashboard.document import (
    Document,
    Guardrail,
    Mean,
    MonitorPart,
    Point,
    Progress,
    Sentences,
    State,
    StepMeans,
)

STEPS_SHOWN, ALARMS_SHOWN, ACTS_SHOWN = 150, 20, 50
"""How many of the last steps, alarms and acts are shown; `tether report` has all of them."""


class WatchedRelease:
    """A release that a dashboard stands in front of."""

    def __init__(self, release: ServedRelease, title: str) -> None:
        self._watch, self._settings, self._title = release.watch(), release.settings, title

    def look(self) -> Document:
        """Read what is new."""
        return release_document(self._watch.look(), self._settings, self._title)


def release_document(view: ReleaseView, settings: ReleaseSettings, title: str) -> Document:
    """Everything that is shown of a release."""
    history, state = view.history, release_state(view.history)
    shown = history.steps[-STEPS_SHOWN:]
    return Document(
        title=title,
        kind="release",
        target=history.target,
        measure="share",
        number=view.step.number,
        value=history.share,
        state=State(state.kind, state.heading, state.sentence, state.details, history.stalled),
        promise=Sentences(*release_promise(history)),
        progress=_progress(view, settings),
        path=[Point(each.number, each.begun, each.share, each.why) for each in shown],
        left_out=len(history.steps) - len(shown),
        guardrails=[_guardrail(view, name) for name in history.limits],
        alarms=[asdict(each) for each in reversed(history.alarms[-ALARMS_SHOWN:])],
        acts=[asdict(each) for each in reversed(history.audit[-ACTS_SHOWN:])],
        recent=[asdict(each) for each in view.recent],
        assumptions=[asdict(each) for each in release_assumptions(history)],
    )


def _progress(view: ReleaseView, settings: ReleaseSettings) -> Progress:
    step, is_halted = view.step, view.history.alarm is not None
    by_hand = settings.keys_per_step is None and settings.step_seconds is None
    is_timed = settings.step_seconds is not None
    return Progress(
        unit="seconds" if is_timed else "keys",
        begun=step.begun,
        done=None if is_timed else view.rows - step.rows_before,
        length=settings.step_seconds if is_timed else settings.keys_per_step,
        is_paused=is_halted and not step.collects_old_rows(settings),
        can_advance=by_hand or settings.confidence is not None,
    )


def _guardrail(view: ReleaseView, name: str) -> Guardrail:
    history = view.history
    limit, last = history.limits[name], history.steps[-1]
    with_new = [step for step in history.steps if name in step.new.losses]
    return Guardrail(
        name=name,
        alpha=limit.alpha,
        bound=limit.bound,
        alarm_risk=limit.alarm_risk,
        promise=last.calibration.promises[name] if history.share > 0 else None,
        old=_mean(history.old_losses.get(name)),
        new=_mean(with_new[-1].new.losses[name]) if with_new else None,
        new_step=with_new[-1].number if with_new else None,
        means=_means(history, name),
        monitor=_monitor(view, name),
    )


def _means(history: ReleaseHistory, name: str) -> list[StepMeans]:
    return [
        StepMeans(step.number, _mean(step.old.losses.get(name)), _mean(step.new.losses.get(name)))
        for step in history.steps[-STEPS_SHOWN:]
    ]


def _mean(found: Estimate | None) -> Mean | None:
    return None if found is None else Mean(found.count, found.mean, found.lower, found.upper)


def _monitor(view: ReleaseView, name: str) -> MonitorPart | None:
    path = view.monitors.get(name)
    if path is None:
        return None
    last = path[-1]
    return MonitorPart(
        level=last.alpha,
        evidence=math.exp(min(last.log_peak, 700.0)),
        needed=1 / last.false_alarm_probability,
        alarm_at=last.alarm_at,
        points=[(each.seen, each.mean, each.lower, each.upper) for each in path if each.seen],
    )
