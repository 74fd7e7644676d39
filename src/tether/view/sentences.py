"""The state of a run, what is promised of it, and what that assumes, in sentences."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from tether.view.numbers import (
    as_sentence,
    format_beta,
    format_count,
    format_number,
    format_share,
    format_time,
)

if TYPE_CHECKING:
    from tether.runs.history import History, UnitRecord
    from tether.runs.shares import Guardrail


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


RELEASE = Words(
    *("step", "key", "keys", "old system", "new system", "share"),
    "Share of the new system",
    "of the keys now",
)
RAMP = Words(
    *("step", "action", "actions", "safe policy", "optimized policy", "share"),
    "Share of the optimized policy",
    "of the actions now",
)
ROUNDS = Words(
    *("round", "action", "actions", "safe policy", "tethered policy", "beta"),
    "Beta",
    "0 is the safe policy, ∞ the optimized one",
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


# ---- how it is now ------------------------------------------------------------------------------


def state(history: History) -> dict[str, str]:
    """How it is: `kind` (running, safe, alarm or empty), `heading`, `sentence` and `details`."""
    words, alarm = words_of(history), history.alarm
    if alarm is not None:
        halted = alarm.monitor == "halt"
        since = f"since {format_time(alarm.raised)}, in {words.unit} {alarm.unit}"
        said = "A person halted the run" if halted else f"The {alarm.monitor} monitor found"
        return _state(
            "alarm",
            "Halted" if halted else "Stopped by an alarm",
            f"The {words.old} serves alone {since}.",
            f"{said}: “{alarm.message}”. It stays so until a person resumes and gives a reason.",
        )
    if not history.units:
        return _state(
            "empty",
            "Not started",
            f"No {words.unit} has begun yet.",
            f"The {words.old} serves alone.",
        )
    last = history.units[-1]
    note = as_sentence(last.note)
    if not history.settings.decides_shares:
        return _state_of_round(last, note)
    if history.share > 0:
        useless = last.decision.get("useful") is False
        return _state(
            "running",
            "Running without a useful promise" if useless else "Running",
            f"The {words.new} gets {format_share(history.share)} of the {words.rows} in "
            f"{words.unit} {last.number}.",
            note,
        )
    if last.level > 0:
        note = f"The alarm was cleared: with the next {words.row} a new ramp begins."
    return _state(
        "safe",
        f"{words.old.capitalize()} only",
        f"The {words.old} serves alone in {words.unit} {last.number}.",
        note,
    )


def _state_of_round(last: UnitRecord, note: str) -> dict[str, str]:
    name = last.policy or "the optimized policy"
    if last.level == -math.inf:
        sentence = f"Round {last.number} uses the safe policy only."
        return _state("safe", "Safe policy only", sentence, note)
    if last.level == math.inf:
        sentence = f"Round {last.number} uses {name} without restriction."
    else:
        sentence = f"Round {last.number} follows {name} up to beta = {format_beta(last.level)}."
    useless = last.decision.get("useful") is False
    heading = "Running without a useful promise" if useless else "Running"
    return _state("running", heading, sentence, note)


def _state(kind: str, heading: str, sentence: str, details: str) -> dict[str, str]:
    return {"kind": kind, "heading": heading, "sentence": sentence, "details": details}


# ---- what is promised ---------------------------------------------------------------------------


def promise(history: History) -> dict[str, str]:
    """What is promised now, always with its condition, and what it is about."""
    words, settings = words_of(history), history.settings
    last = history.units[-1] if history.units else None
    serves = last is not None and history.alarm is None
    if serves and last is not None:
        serves = history.share > 0 if settings.decides_shares else last.level > -math.inf
    if not serves or last is None:
        return {
            "sentence": f"No promise applies: the {words.old} serves alone, with its own risk.",
            "details": "",
        }
    parts = []
    for name, limit in settings.limits.items():
        stated = last.promises.get(name, limit.tolerated)
        bound = tolerance(limit, words) if stated is None else format_number(stated)
        parts.append(f"the expected {name} is at most {bound}")
    listed = ", ".join(parts[:-1]) + " and " * (len(parts) > 1) + parts[-1]
    about = f"of {words.unit} {last.number}"
    if settings.confidence is not None:
        condition = f"With probability at least {settings.confidence:g}"
        details = (
            f"The probability is over runs like this one: in a share of at most "
            f"{format_number(1 - settings.confidence)} of them what is served exceeds it."
        )
    else:
        condition = "On average over runs like this one"
        details = (
            "It is an average: in a single run what is served may exceed it, and in others it "
            "stays below."
        )
    return {
        "sentence": f"{condition}, {listed}.",
        "details": f"It is about all {words.rows} {about}, whoever serves them. {details} It holds "
        "under the assumptions below.",
    }


# ---- what that assumes --------------------------------------------------------------------------

STATUSES = ("doubtful", "checked", "proven", "partly checked", "assumed")
"""In which order assumptions are listed. Checked: code compared it with something in this run."""


def assumptions(history: History) -> list[dict[str, str]]:
    """What the promise assumes, and how far the library or the data bear it out."""
    settings = history.settings
    listed = [*_about_losses(history)]
    listed += _about_shares(history) if settings.decides_shares else _about_betas(history)
    listed += [
        (
            "assumed",
            "What was decided was carried out, and losses were measured correctly",
            "This cannot be checked from the store.",
        )
    ]
    order = sorted(listed, key=lambda each: STATUSES.index(each[0]))
    return [{"status": a, "title": b, "explanation": c} for a, b, c in order]


def _about_losses(history: History) -> list[tuple[str, str, str]]:
    words, limits = words_of(history), history.settings.limits
    pending = sum(each.pending for each in history.units)
    found = [
        (
            "checked",
            "Losses lie between 0 and their bounds",
            "Others are refused when they are observed.",
        ),
        (
            "partly checked" if pending else "checked",
            "Every loss arrives",
            f"{format_count(pending, 'loss is', 'losses are').capitalize()} pending.",
        ),
    ]
    for name, limit in limits.items():
        means = [each.means["old"][name] for each in history.units]
        known = [each for each in means if each.count]
        if limit.tolerated is None:
            continue
        title = f"The {words.old}'s expected {name} is at most {format_number(limit.tolerated)}"
        if not known:
            found.append(("assumed", title, "None of its losses has been observed in this run."))
            continue
        count = sum(each.count for each in known)
        mean = sum(each.count * each.mean for each in known) / count
        doubtful = any(each.lower > limit.tolerated for each in known)
        explanation = f"Its mean is {format_number(mean)} over {count:,} losses."
        found.append(("doubtful" if doubtful else "partly checked", title, explanation))
    return found


def _about_shares(history: History) -> list[tuple[str, str, str]]:
    words, settings = words_of(history), history.settings
    by_itself = settings.units_per_step is not None or settings.step_seconds is not None
    relative = all(each.is_relative for each in settings.limits.values())
    found = [
        (
            "proven",
            f"Which of them serves does not depend on the losses of the {words.row}",
            "It is decided by a hash of the key with a salt, which verification computes again."
            if history.kind == "release"
            else "It is decided by a random number that is drawn before.",
        ),
        (
            "proven" if by_itself else "assumed",
            "The length of a step does not depend on its losses",
            "A step ends by itself."
            if by_itself
            else "A person or a program ends each step, at times that were fixed before.",
        ),
        (
            "assumed",
            f"The {words.rows} of a step are independent, and like those of the step that decides",
            "If the new one becomes worse, its share follows a step later; until then the stop "
            "protects.",
        ),
    ]
    if not relative:
        found.append(
            (
                "assumed",
                f"The {words.old} keeps its expected losses",
                "Its bound comes from the first step, or from what was known before.",
            )
        )
    return found


def _about_betas(history: History) -> list[tuple[str, str, str]]:
    settings = history.settings
    warned = [text for each in history.units[-1:] for text in each.decision.get("warnings", ())]
    doubtful = any("ratio" in text or "log-prob" in text for text in warned)
    found = [
        (
            "doubtful" if doubtful else "partly checked",
            "Log-probabilities match how the policies sample",
            "The last calibration warns; see its round."
            if doubtful
            else "Each calibration compares mean weights with 1. Another prompt, temperature or "
            "truncation may still go unnoticed.",
        ),
        (
            "partly checked",
            "The safe policy has not changed",
            "Its scores of stored actions are compared with those stored before each calibration.",
        ),
        (
            "assumed",
            "Calibration rows are not used for training",
            "Each row is assigned once, at random, to training or to calibration, and only "
            "training rows are handed out. The probabilities of actions still tell something of "
            "beta.",
        ),
        (
            "assumed",
            "New contexts follow the same distribution as past ones",
            "A shift monitor, if there is one, detects only changes that its score shows."
            if settings.watches_contexts
            else "No monitor watches the contexts.",
        ),
    ]
    if len({each.policy for each in history.units}) > 1:
        found.append(
            (
                "assumed",
                "Past policies may be treated as one mixture",
                "The mixture replaces a sum over all orders in which the rows could have come.",
            )
        )
    if settings.missing == "exclude":
        found.append(
            (
                "assumed",
                "Losses are missing at random",
                "Rows without a loss are left out; if large losses go missing, the risk is "
                "underestimated.",
            )
        )
    return found
