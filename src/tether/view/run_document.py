"""The document of a run: everything that is shown of it, once, as plain JSON values.

A chart is data: series of points `[unit, value, lower, upper]` over the units of the run,
horizontal levels, and where alarms were. Whatever draws it can also make a table of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tether._core.files import redact_url
from tether.view.numbers import (
    NO_VALUE,
    BetaScale,
    as_sentence,
    format_beta,
    format_count,
    format_number,
    format_share,
    format_time,
    iso_time,
)
from tether.view.sentences import Words, assumptions, promise, state, tolerance, words_of

if TYPE_CHECKING:
    from tether.runs.history import Estimate, History, UnitRecord

DIGITS = 6
"""How many significant digits numbers have in the document."""
SHIFT = 0.12
"""How far apart the two arms of a unit are drawn."""
INTERVALS = "with a 95 % interval that is valid at all times"


def document(
    history: History, *, title: str | None = None, last: int | None = None
) -> dict[str, Any]:
    """Say everything about a run as plain JSON values.

    Parameters
    ----------
    history : History
        What `run.history()` returned, of a run of either kind.
    title : str, optional
        What the run is called; its store by default.
    last : int, optional
        How many of the last units are shown; all of them by default.

    Returns
    -------
    dict
        `title`, `store`, `kind`, `words`, `state`, `promise`, `figures`, `warnings`, `losses`,
        `charts`, `units`, `alarms`, `acts`, `assumptions`, `settings` and `offers`. No number in it
        is infinite or NaN.
    """
    words, store = words_of(history), redact_url(history.store)
    shown = history.units if last is None else history.units[-last:]
    found = {
        "title": title or store,
        "store": store,
        "kind": history.kind,
        "words": words._asdict(),
        "state": state(history),
        "promise": promise(history),
        "figures": _figures(history, words),
        "warnings": [as_sentence(each) for each in history.warnings],
        "losses": [_loss(history, words, name) for name in history.settings.limits],
        "charts": list(_charts(history, words, shown)) if shown else [],
        "units": [_unit(history, words, each) for each in shown],
        "left_out": len(history.units) - len(shown),
        "alarms": [_record(each, "raised", "cleared") for each in history.alarms],
        "acts": [_record(each, "done") for each in history.acts],
        "assumptions": assumptions(history),
        "settings": _settings(history),
        "offers": _offers(history, words),
    }
    plain: dict[str, Any] = _plain(found)
    return plain


def level_text(history: History, level: float) -> str:
    """A share or a beta as text."""
    return format_share(level) if history.settings.decides_shares else format_beta(level)


def _figures(history: History, words: Words) -> list[dict[str, str]]:
    """The numbers that stand at the top."""
    rows = sum(sum(each.rows.values()) for each in history.units)
    new = sum(each.rows["new"] for each in history.units)
    pending = sum(each.pending for each in history.units)
    last = history.units[-1] if history.units else None
    figures = [
        {"name": words.level_title, "value": _level_now(history), "note": words.level_note},
        {
            "name": words.unit.capitalize(),
            "value": NO_VALUE if last is None else f"{last.number:,}",
            "note": "" if last is None else f"since {format_time(last.begun)}",
        },
        {
            "name": words.rows.capitalize(),
            "value": f"{rows:,}",
            "note": f"{new:,} of them by the {words.new}",
        },
        {
            "name": "Losses pending",
            "value": f"{pending:,}",
            "note": "they count as the largest loss where the share is decided"
            if history.settings.decides_shares
            else f"missing: {history.settings.missing}",
        },
    ]
    return figures


def _level_now(history: History) -> str:
    if history.settings.decides_shares:
        return format_share(history.share)
    if not history.units or history.alarm is not None:
        return format_beta(-math.inf)
    return format_beta(history.units[-1].level)


# ---- losses and units ---------------------------------------------------------------------------


def _loss(history: History, words: Words, name: str) -> dict[str, Any]:
    """What is tolerated, promised and known of one loss."""
    limit = history.settings.limits[name]
    last = history.units[-1] if history.units else None
    facts = [
        {
            "name": "Tolerated",
            "value": tolerance(limit, words),
            "note": f"of losses from 0 to {format_number(limit.bound)}",
        }
    ]
    stated = None if last is None or history.alarm is not None else last.promises.get(name)
    if stated is not None:
        of = f"in {words.unit} {last.number if last else 0}"
        facts.append({"name": "Promised", "value": f"≤ {format_number(stated)}", "note": of})
    for arm, title in (("old", words.old), ("new", words.new)):
        every = [each.means[arm][name] for each in history.units if each.means[arm][name].count]
        count = sum(each.count for each in every)
        mean = sum(each.count * each.mean for each in every) / count if count else None
        note = f"mean of {format_count(count, 'loss', 'losses')}"
        if every:
            note += f"; {_interval(every[-1])} in the last {words.unit} with any"
        facts.append({"name": title.capitalize(), "value": format_number(mean), "note": note})
    return {"name": name, "bound": limit.bound, "facts": facts}


def _unit(history: History, words: Words, unit: UnitRecord) -> dict[str, Any]:
    """One round or step in detail."""
    facts = [("Began", format_time(unit.begun)), (words.level, level_text(history, unit.level))]
    facts += [("Policy", unit.policy)] if unit.policy else []
    for arm, title in (("old", words.old), ("new", words.new)):
        facts.append((f"{words.rows} of the {title}", f"{unit.rows[arm]:,}"))
    facts.append(("losses pending", f"{unit.pending:,}"))
    several = len(history.settings.limits) > 1
    for name in history.settings.limits:
        of = f", {name}" if several else ""
        for arm, title in (("old", words.old), ("new", words.new)):
            mean = unit.means[arm][name]
            if mean.count:
                text = f"{format_number(mean.mean)} ({_interval(mean)})"
                facts.append((f"mean loss of the {title}{of}", text))
        if name in unit.promises:
            facts.append((f"promised{of}", f"≤ {format_number(unit.promises[name])}"))
    if unit.reward is not None and unit.reward.count:
        text = f"{format_number(unit.reward.mean)} ({_interval(unit.reward)})"
        facts.append(("mean reward", text))
    decision = unit.decision
    for name, share in decision.get("shares", {}).items():
        facts.append((f"share that {name} allows", format_share(share)))
    if decision.get("used"):
        facts.append(("decided by the rows of", f"{words.unit} {decision['used']}"))
    for key, title, text in DECISION_FACTS:
        if _known(decision.get(key)):
            facts.append((title, text(decision[key])))
    return {
        "number": unit.number,
        "begun": unit.begun,
        "level": level_text(history, unit.level),
        "policy": unit.policy,
        "rows": unit.rows,
        "pending": unit.pending,
        "means": {arm: {k: vars(v) for k, v in each.items()} for arm, each in unit.means.items()},
        "promises": unit.promises,
        "note": as_sentence(unit.note),
        "facts": [{"name": _capital(name), "value": text} for name, text in facts],
        "warnings": [as_sentence(each) for each in decision.get("warnings", ())],
        "curve": _curve(decision),
    }


DECISION_FACTS = (
    ("rows", "calibration rows", lambda value: f"{value:,}"),
    ("effective_sample_size", "effective sample size", format_number),
    ("max_weight", "largest weight", format_share),
    ("acceptance", "acceptance rate", format_share),
    ("changed", "decisions that change", format_share),
)
"""What a decision on beta may say of its calibration: key, title and how it is written."""


def _curve(decision: Mapping[str, Any]) -> dict[str, Any] | None:
    """The calibrated risk against beta of the loss that limits beta, as a chart."""
    curve = decision.get("curve")
    if not curve or not len(curve["log_betas"]):
        return None
    points = [
        (x, y) for x, y in zip(curve["log_betas"], curve["risks"], strict=True) if math.isfinite(x)
    ]
    ticks = BetaScale([x for x, _ in points]).ticks
    return {
        "id": "curve",
        "title": f"Calibrated risk against beta: {curve['loss']}",
        "text": "The left end is the safe policy, the right end the optimized one.",
        "columns": ["beta", "risk"],
        "x_ticks": [[place, text] for place, text in ticks.items()],
        "x_label": "beta",
        "series": [{"name": "calibrated risk", "style": "line", "points": points}],
        "levels": [_level_line(curve["alpha"], f"asked for: {format_number(curve['alpha'])}")],
        "mark": decision.get("log_beta") if _known(decision.get("log_beta")) else None,
        "format": "number",
        "top": 1.1 * max(curve["alpha"], *(y for _, y in points)),
    }


# ---- charts over the units ----------------------------------------------------------------------


def _charts(
    history: History, words: Words, units: Sequence[UnitRecord]
) -> Iterable[dict[str, Any]]:
    yield _level_chart(history, words, units)
    for place, name in enumerate(history.settings.limits, start=1):
        if any(each.means[arm][name].count for each in units for arm in ("old", "new")):
            yield _loss_chart(history, words, units, name, place)
    rewards = [(each.number, each.reward) for each in units if each.reward and each.reward.count]
    if rewards:
        yield _chart(
            *("reward", "Mean reward", f"The mean reward of each {words.unit}, {INTERVALS}."),
            [_series("mean reward", "dot", rewards)],
            bottom=None,
        )
    sizes = _decided(units, "effective_sample_size")
    if sizes:
        rows = _decided(units, "rows")
        yield _chart(
            *("sample_size", "Effective sample size"),
            "How many equally weighted rows the weighted log is worth; dashed: the rows it has.",
            [
                *([{"name": "rows", "style": "dashed", "points": rows}] if rows else []),
                {"name": "effective sample size", "style": "line", "points": sizes},
            ],
        )
    accepted = _decided(units, "acceptance")
    if accepted:
        text = "The share of draws that a rejection sampler accepts; its inverse is the mean number"
        yield _chart(
            *("acceptance", "Acceptance rate", f"{text} of draws for an action."),
            [{"name": "acceptance rate", "style": "line", "points": accepted}],
            percent=True,
            top=1.0,
        )


def _chart(
    name: str,
    title: str,
    text: str,
    series: list[dict[str, Any]],
    *,
    percent: bool = False,
    levels: Sequence[Mapping[str, Any]] = (),
    bottom: float | None = 0.0,
    top: float | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A chart over the units; `bottom` and `top` are None where the points decide."""
    ends = {"bottom": bottom, "top": top, "format": "percent" if percent else "number"}
    return {
        **{"id": name, "title": title, "text": text, "series": series, "levels": list(levels)},
        **ends,
        **more,
    }


def _level_chart(history: History, words: Words, units: Sequence[UnitRecord]) -> dict[str, Any]:
    """The share, or beta, of every unit; it falls where an alarm ended it."""
    falls = sorted({each.unit for each in history.alarms})
    levels = [each.level for each in units]
    series = {"name": words.level, "style": "steps", "falls": falls}
    if history.settings.decides_shares:
        points = [(each.number, each.level) for each in units]
        top = min(1.0, max(1.15 * max(levels), 0.01))
        text = (
            f"What the {words.new} gets of the {words.rows}, decided when each {words.unit} begins."
        )
        series["points"] = points
        return _chart("level", words.level_title, text, [series], percent=True, top=top)
    scale = BetaScale(levels)
    series["points"] = [
        (each.number, scale.place(each.level), None, None, format_beta(each.level))
        for each in units
    ]
    text = "0 is the safe policy, ∞ the optimized one; the scale in between is logarithmic."
    return _chart(
        *("level", "Beta over the rounds", text, [series]),
        bottom=scale.bottom - 0.2,
        top=scale.top + 0.2,
        y_ticks=[[place, tick] for place, tick in scale.ticks.items()],
    )


def _loss_chart(
    history: History, words: Words, units: Sequence[UnitRecord], name: str, place: int
) -> dict[str, Any]:
    """The mean losses of both arms against what is tolerated, and what was predicted of them."""
    limit = history.settings.limits[name]
    arms = {
        arm: [(each.number, each.means[arm][name]) for each in units if each.means[arm][name].count]
        for arm in ("old", "new")
    }
    series = []
    for arm, title, style, shift in (
        ("old", words.old, "ring", -SHIFT),
        ("new", words.new, "dot", SHIFT),
    ):
        if arms[arm]:
            series.append(_series(title, style, arms[arm], shift=shift))
    predicted = [
        (each.number, each.decision["risks"][name])
        for each in units
        if _known(each.decision.get("risks", {}).get(name))
    ]
    if predicted:
        series.append({"name": "predicted", "style": "cross", "points": predicted})
    levels, limits = [], []
    if limit.tolerated is not None:
        text = f"tolerated {format_number(limit.tolerated)}"
        levels = [_level_line(limit.tolerated, text)]
        limits = [
            (each.number, each.promises[name])
            for each in units
            if each.promises.get(name) not in (None, limit.tolerated)
        ]
        if limits:
            series.append({"name": "promised", "style": "limit", "points": limits})
    else:
        limits = [
            (number, mean.mean * (1 + limit.ratio) + limit.delta) for number, mean in arms["old"]
        ]
        series.append({"name": "tolerated", "style": "limit", "points": limits})
    heights = [1.2 * mean.mean for each in arms.values() for _, mean in each]
    heights += [1.2 * height for _, height in (*predicted, *limits)]
    said = "Rings are the {}, dots the {}, each {}; an arrow where it goes beyond the chart."
    text = said.format(words.old, words.new, INTERVALS)
    text += " Crosses are the risk that the calibration predicted." if predicted else ""
    text += " Dashes are what is tolerated beside the old system." if limit.is_relative else ""
    return _chart(
        *(f"loss-{place}", f"Mean {name} by {words.unit}", text, series),
        levels=levels,
        top=min(1.02 * limit.bound, max(2.5 * (limit.tolerated or 0.0), *heights, 1e-9)),
        alarms=sorted({each.unit for each in history.alarms}),
    )


def _series(
    name: str, style: str, means: Iterable[tuple[int, Estimate]], shift: float = 0.0
) -> dict[str, Any]:
    points = [(number, each.mean, each.lower, each.upper) for number, each in means]
    return {"name": name, "style": style, "points": points, "shift": shift}


def _level_line(value: float, label: str) -> dict[str, Any]:
    return {"value": value, "label": label}


def _decided(units: Sequence[UnitRecord], key: str) -> list[tuple[int, float]]:
    """What the decisions on the units say of one number, where they do."""
    return [(each.number, each.decision[key]) for each in units if _known(each.decision.get(key))]


# ---- the rest -----------------------------------------------------------------------------------


def _settings(history: History) -> list[dict[str, str]]:
    settings = history.settings
    stated = {"Kind": settings.kind, "Store": redact_url(history.store)}
    stated["Created"] = format_time(settings.created)
    if settings.decides_shares:
        steps = "end by hand"
        if settings.units_per_step is not None:
            steps = f"end after {settings.units_per_step:,} {words_of(history).rows}"
        elif settings.step_seconds is not None:
            steps = f"end after {format_number(settings.step_seconds)} s"
        stated["Steps"] = steps
        stated["Growth"] = f"at most {format_number(settings.growth)} times the last share plus 2 %"
    else:
        stated |= {"Safe policy": settings.safe, "Family": settings.family}
        stated |= {"Rule": settings.rule, "Missing losses": settings.missing}
        stated["Calibration share"] = format_share(settings.calibration_share)
    if settings.confidence is not None:
        stated["Confidence"] = format_number(settings.confidence)
    if settings.stop is not None:
        stated["Stopped by mistake"] = f"with probability at most {format_number(settings.stop)}"
    return [{"name": name, "value": str(value)} for name, value in stated.items()]


def _offers(history: History, words: Words) -> list[dict[str, Any]]:
    """What people may do where the page is live."""
    is_halted, settings = history.alarm is not None, history.settings
    begins = "a new ramp begins with its smallest share"
    texts = {
        "halt": f"The {words.old} serves alone, in every process, until somebody resumes.",
        "resume": "This clears the alarm. The monitors start again, and "
        + (begins if settings.decides_shares else "the policy of the present round serves again")
        + ".",
        "advance": "The next step begins, with a share from the rows so far. The moment must not "
        "depend on losses.",
    }
    offers = [
        _offer("halt", "Halt", texts, "Halt now", not is_halted, "danger"),
        _offer("resume", "Resume", texts, "Resume now", is_halted, "primary"),
    ]
    if settings.decides_shares and not settings.units_per_step and not settings.step_seconds:
        body = {"step": history.units[-1].number if history.units else 0}
        offers.append(_offer("advance", "End this step", texts, "End the step", True, "", body))
    return offers


def _offer(
    name: str,
    title: str,
    texts: Mapping[str, str],
    confirm: str,
    is_open: bool,
    style: str,
    body: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    offer = {"name": name, "title": title, "text": texts[name], "confirm": confirm}
    return {**offer, "is_open": is_open, "style": style, "body": dict(body or {})}


def _record(record: Any, *times: str) -> dict[str, Any]:
    """An alarm or an act, with its times in ISO 8601."""
    found = dict(vars(record))
    return found | {name: iso_time(found[name]) for name in times if found[name] is not None}


def _interval(estimate: Estimate) -> str:
    return f"{format_number(estimate.lower)} to {format_number(estimate.upper)}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _known(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value
