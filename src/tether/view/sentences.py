"""The state of a run, what is promised of it, and what that assumes, in sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from tether._core.words import counted
from tether.view.numbers import (
    as_sentence,
    format_beta,
    format_number,
    format_share,
    format_time,
)

if TYPE_CHECKING:
    from tether.runs.history import History, UnitRecord
    from tether.runs.shares import Guardrail

OLD_IS_ABOVE = (
    "What would help: more rows of it if its own loss is below that, a larger tolerance, or a "
    "guardrail relative to it."
)


class Words(NamedTuple):
    """What things are called in one kind of run."""

    unit: str
    row: str
    rows: str
    old: str
    new: str
    level: str
    level_title: str
    level_note: str

    @property
    def arms(self) -> tuple[tuple[str, str], ...]:
        """Both arms, with their names."""
        return ("old", self.old), ("new", self.new)


RELEASE = Words(
    *("step", "key", "keys", "old system", "new system", "share"),
    *("Share of the new system", "of the keys now"),
)
RAMP = Words(
    *("step", "action", "actions", "safe policy", "optimized policy", "share"),
    *("Share of the optimized policy", "of the actions now"),
)
ROUNDS = Words(
    *("round", "action", "actions", "safe policy", "tethered policy", "beta"),
    *("Beta", "0 is the safe policy, ∞ the optimized one"),
)


def words_of(history: History) -> Words:
    """The words for a run."""
    if history.kind == "release":
        return RELEASE
    return RAMP if history.settings.decides_shares else ROUNDS


def tolerance(limit: Guardrail, words: Words) -> str:
    """What is tolerated of a loss."""
    if limit.tolerated is not None:
        return format_number(limit.tolerated)
    parts = [format_number(limit.delta)] if limit.delta else []
    parts += [f"{format_share(limit.ratio)} of it"] if limit.ratio else []
    return f"the {words.old}'s plus {' and '.join(parts)}"


def promised(history: History, unit: UnitRecord, name: str) -> str:
    """What is promised of a loss in a unit; relative to the old system where the tolerance is."""
    limit, words = history.settings.limits[name], words_of(history)
    stated = unit.promises.get(name, limit.tolerated)
    if limit.tolerated is not None:
        return format_number(stated)
    more = "" if stated is None or not limit.ratio else f" (about {format_number(stated)} more)"
    return f"{tolerance(limit, words)}{more}"


def pooled(history: History, arm: str, loss: str) -> tuple[int, float | None]:
    """How many losses of an arm are known in all units, and their mean."""
    known = [each.means[arm][loss] for each in history.units if each.means[arm][loss].count]
    count = sum(each.count for each in known)
    return count, sum(each.count * each.mean for each in known) / count if count else None


def is_served(history: History) -> bool:
    """Whether the new system or policy serves anything now."""
    if history.alarm is not None or not history.units:
        return False
    if history.settings.decides_shares:
        return history.share > 0
    return history.units[-1].level > -math.inf


def state(history: History) -> dict[str, str]:
    """The state: `kind` (running, safe, alarm or empty), `heading`, `sentence` and `details`."""
    from tether.runs.decide_share import NOT_SHOWN

    words, alarm = words_of(history), history.alarm
    kind, heading = "safe", f"{words.old.capitalize()} only"
    last = history.units[-1] if history.units else None
    if alarm is not None:
        halted = alarm.monitor == "halt"
        kind, heading = "alarm", "Halted" if halted else "Stopped by an alarm"
        since = f"since {format_time(alarm.raised)}, in {words.unit} {alarm.unit}"
        sentence = f"The {words.old} serves alone {since}."
        found = "A person halted it" if halted else f"The monitor “{alarm.monitor}” found"
        details = f"{found}: “{alarm.message}”. It stays so until a person resumes with a reason."
    elif last is None:
        kind, heading = "empty", "Not started"
        sentence = f"No {words.unit} has begun yet."
        details = f"The {words.old} serves alone."
    elif not is_served(history):
        sentence = f"The {words.old} serves alone in {words.unit} {last.number}."
        details = as_sentence(last.note)
        if last.note == NOT_SHOWN:
            details += f" {OLD_IS_ABOVE}"
        if history.settings.decides_shares and last.level > 0:
            details = f"The alarm was cleared: with the next {words.row} a new ramp begins."
    else:
        useless = last.decision.get("useful") is False
        kind, heading = "running", f"Running{' without a useful promise' if useless else ''}"
        sentence, details = _what_serves(history, words), as_sentence(last.note)
    return {"kind": kind, "heading": heading, "sentence": sentence, "details": details}


def _what_serves(history: History, words: Words) -> str:
    last = history.units[-1]
    where = f"{words.unit.capitalize()} {last.number}"
    name = f"“{last.policy}”" if last.policy else f"the {words.new}"
    if history.settings.decides_shares:
        return f"{where} gives {name} {format_share(history.share)} of the {words.rows}."
    if last.level == math.inf:
        return f"{where} follows {name} without restriction."
    return f"{where} follows {name} up to beta = {format_beta(last.level)}."


def promise(history: History) -> dict[str, str]:
    """What is promised now, always with its condition, and what it is about."""
    words, settings = words_of(history), history.settings
    if not is_served(history):
        alone = f"No promise applies: the {words.old} serves alone, with its own risk."
        return {"sentence": alone, "details": ""}
    last = history.units[-1]
    parts = [
        f"the expected {name} is at most {promised(history, last, name)}"
        for name in settings.limits
    ]
    condition = "On average over runs like this one"
    details = "In a single run what is served may exceed it; in others it stays below."
    if settings.confidence is not None:
        condition = f"With probability at least {settings.confidence:g}"
        details = "The probability is over runs like this one."
    listed = ", ".join(parts[:-1]) + " and " * (len(parts) > 1) + parts[-1]
    about = f"It is about all {words.rows} of {words.unit} {last.number}, whoever serves them."
    return {
        "sentence": f"{condition}, {listed}.",
        "details": f"{about} {details} It holds under the assumptions below.",
    }


STATUSES = ("doubtful", "checked", "proven", "partly checked", "assumed")
"""The order in which assumptions are listed. Checked: compared with something in this run."""


def assumptions(history: History) -> list[dict[str, str]]:
    """What the promise assumes, and how far the library or the data bear it out."""
    about = _about_shares if history.settings.decides_shares else _about_betas
    found = [*_about_losses(history), *about(history)]
    listed = sorted(found, key=lambda each: STATUSES.index(each[0]))
    return [dict(zip(("status", "title", "explanation"), each, strict=True)) for each in listed]


def _about_losses(history: History) -> Iterator[tuple[str, str, str]]:
    words = words_of(history)
    pending = sum(each.pending for each in history.units)
    bounds = "Losses lie between 0 and their bounds"
    yield "checked", bounds, "Others are refused when they are observed."
    arrival = f"{counted(pending, 'loss is', 'losses are')} pending."
    yield "partly checked" if pending else "checked", "Every loss arrives", arrival
    for name, limit in history.settings.limits.items():
        if limit.tolerated is None:
            continue
        title = f"The {words.old}'s expected {name} is at most {format_number(limit.tolerated)}"
        count, mean = pooled(history, "old", name)
        status = "partly checked" if count else "assumed"
        if any(each.means["old"][name].lower > limit.tolerated for each in history.units):
            status = "doubtful"
        yield status, title, f"Its mean is {format_number(mean)} over {count:,} losses of this run."
    measured = "What was decided was carried out, and losses were measured correctly"
    yield "assumed", measured, "This cannot be checked from the store."


def _about_shares(history: History) -> Iterator[tuple[str, str, str]]:
    words, settings = words_of(history), history.settings
    chance = "It is decided by a random number that is drawn beforehand."
    if history.kind == "release":
        chance = "It is decided by a hash of the key with a salt, which verification repeats."
    yield "proven", f"Which of them serves does not depend on the losses of the {words.row}", chance
    length = "The length of a step does not depend on its losses"
    by_itself = settings.units_per_step is not None or settings.step_seconds is not None
    ends = "A step ends by itself." if by_itself else "Somebody ends it, at a time fixed before."
    yield "proven" if by_itself else "assumed", length, ends
    alike = f"The {words.rows} of a step are independent, and like those of the step that decides"
    later = "If the new one becomes worse, its share follows a step later; until then only the stop"
    yield "assumed", alike, f"{later} protects."
    if not all(each.is_relative for each in settings.limits.values()):
        keeps = f"The {words.old} keeps its expected losses"
        yield "assumed", keeps, "Its bound comes from the first step, or was known before."


def _about_betas(history: History) -> Iterator[tuple[str, str, str]]:
    settings = history.settings
    warned = [text for each in history.units[-1:] for text in each.decision.get("warnings", ())]
    doubtful = any("ratio" in text or "log-prob" in text for text in warned)
    weights = "Each calibration compares mean weights with 1. Another prompt, temperature or "
    weights += "truncation may still go unnoticed."
    weights = "The last calibration warns: see its round." if doubtful else weights
    status = "doubtful" if doubtful else "partly checked"
    yield status, "Log-probabilities match how the policies sample", weights
    scores = "Before each calibration, its scores of stored actions are compared with stored ones."
    yield "partly checked", "The safe policy has not changed", scores
    split = "Each row is assigned once, at random, and only training rows are handed out. Their "
    split += "log-probabilities still reveal a few bits about beta."
    yield "assumed", "Calibration rows are not used for training", split
    watched = "A monitor watches them, and detects only changes that its score shows."
    watched = watched if settings.watches_contexts else "No monitor watches them."
    yield "assumed", "New contexts follow the same distribution as past ones", watched
    if len({each.policy for each in history.units}) > 1:
        orders = "The mixture replaces a sum over all orders in which the rows could have come."
        yield "assumed", "Past policies may be treated as one mixture", orders
    if settings.missing == "exclude":
        large = "If large losses are the ones that go missing, the risk is underestimated."
        yield "assumed", "Losses are missing at random", large
