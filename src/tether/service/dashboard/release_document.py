"""A release as a live page shows it, in the words and with the numbers of its report."""

from __future__ import annotations

from dataclasses import asdict

from tether.report.releases.release_assumptions import release_assumptions
from tether.report.releases.release_sentences import new_since, release_promise, release_state
from tether.rounds.releases.release_history import ReleaseHistory, StepRecord
from tether.rounds.releases.release_settings import ReleaseSettings
from tether.rounds.releases.release_watch import ReleaseView
from tether.rounds.releases.served_release import ServedRelease
from tether.service.dashboard.document import (
    ACTS_SHOWN,
    ALARMS_SHOWN,
    Document,
    Guardrail,
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
from tether.service.dashboard.offered_acts import release_acts
from tether.service.dashboard.page_words import RELEASE_WORDS

STEPS_SHOWN = 150
"""How many of the last steps are shown; `tether report` has all of them."""
NO_MONITOR = (
    "No monitor: with this share the new system cannot lift the risk of what is served to the "
    "alarm level."
)


class WatchedRelease:
    """A release that a dashboard stands in front of."""

    def __init__(self, release: ServedRelease, title: str) -> None:
        self._watch, self._settings, self._title = release.watch(), release.settings, title

    def look(self) -> Document:
        """Read what is new."""
        return release_document(self._watch.look(), self._settings, self._title)


def release_document(view: ReleaseView, settings: ReleaseSettings, title: str) -> Document:
    """Everything that is shown of a release."""
    history = view.history
    shown = history.steps[-STEPS_SHOWN:]
    return Document(
        title=title,
        kind="release",
        words=RELEASE_WORDS,
        offers=release_acts(is_halted=history.alarm is not None, can_advance=_by_hand(settings)),
        target=history.target,
        number=view.step.number,
        level=share_level(history.share),
        state=_state(history),
        promise=Sentences(*release_promise(history)),
        progress=_progress(view, settings),
        path=[_point(step) for step in shown],
        axis=(),
        left_out=len(history.steps) - len(shown),
        guardrails=[_guardrail(view, name) for name in history.limits],
        alarms=latest(history.alarms, ALARMS_SHOWN),
        acts=latest(history.audit, ACTS_SHOWN),
        recent=[asdict(each) for each in view.recent],
        assumptions=[asdict(each) for each in release_assumptions(history)],
        unstored=history.unstored,
    )


def _point(step: StepRecord) -> Point:
    falls = step.stopped_by is not None and step.share > 0
    return Point(step.number, step.begun, share_level(step.share), step.why, falls)


def _progress(view: ReleaseView, settings: ReleaseSettings) -> Progress:
    step, is_halted = view.step, view.history.alarm is not None
    is_timed = settings.step_seconds is not None
    return Progress(
        unit="seconds" if is_timed else "rows",
        begun=step.begun,
        done=None if is_timed else view.rows - step.rows_before,
        length=settings.step_seconds if is_timed else settings.keys_per_step,
        is_paused=is_halted and not step.collects_old_rows(settings),
    )


def _by_hand(settings: ReleaseSettings) -> bool:
    """Whether a person may end a step."""
    is_endless = settings.keys_per_step is None and settings.step_seconds is None
    return is_endless or settings.confidence is not None


def _state(history: ReleaseHistory) -> State:
    found = release_state(history)
    return State(found.kind, found.heading, found.sentence, found.details, " ".join(found.notes))


def _guardrail(view: ReleaseView, name: str) -> Guardrail:
    history = view.history
    limit, last = history.limits[name], history.steps[-1]
    with_new = [step for step in history.steps if name in step.new.losses]
    last_known = with_new[-1].new.losses[name] if with_new else None
    return Guardrail(
        name=name,
        alpha=limit.alpha,
        bound=limit.bound,
        alarm_risk=limit.alarm_risk,
        promise=last.calibration.promises[name] if history.share > 0 else None,
        old=mean_of(history.old_losses.get(name)),
        new=mean_of(history.new_losses.get(name, last_known)),
        new_step=with_new[-1].number if with_new else None,
        new_since=new_since(history, name),
        means=_means(history, name),
        monitor=monitor_part(view.monitors.get(name, ())),
        without_monitor=NO_MONITOR,
    )


def _means(history: ReleaseHistory, name: str) -> list[StepMeans]:
    return [
        StepMeans(
            step.number, mean_of(step.old.losses.get(name)), mean_of(step.new.losses.get(name))
        )
        for step in history.steps[-STEPS_SHOWN:]
    ]
