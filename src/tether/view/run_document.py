"""The document of a run: everything that is shown of it, once, as plain JSON values.

A chart is data: series of points `[unit, value, lower, upper, text]` over the units of the run,
horizontal levels, and where alarms were. Whatever draws it can also make a table of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tether._core.words import counted
from tether.view.numbers import (
    NO_VALUE,
    as_sentence,
    beta_scale,
    beta_ticks,
    format_beta,
    format_number,
    format_share,
    format_time,
    iso_time,
)
from tether.view.sentences import (
    Words,
    assumptions,
    is_served,
    pooled,
    promise,
    promised,
    state,
    tolerance,
    words_of,
)

if TYPE_CHECKING:
    from tether.runs.history import Estimate, History, UnitRecord

DIGITS = 6
"""How many significant digits numbers have in the document."""
SHIFT = 0.12
"""How far from the middle of a unit its two arms are drawn."""
INTERVALS = "with a 95 % interval that is valid at all times"
ARMS = ("old", "new")


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
        `title`, `store`, `kind`, `words`, `state`, `promise`, `figures`, `losses`, `charts`,
        `units` and how many are `left_out`, `alarms`, `acts`, `assumptions`, `settings`
        and whether steps end by hand (`is_by_hand`). No number in it is infinite or NaN.
    """
    words, store, stated = words_of(history), history.store, history.settings
    shown = history.units if last is None else history.units[-last:]
    found = {
        "title": title or store,
        "store": store,
        "kind": history.kind,
        "words": words._asdict(),
        "state": state(history),
        "promise": promise(history),
        "figures": _figures(history, words),
        "losses": [_loss(history, words, name) for name in stated.limits],
        "charts": list(_charts(history, words, shown)) if shown else [],
        "units": [_unit(history, words, each) for each in shown],
        "left_out": len(history.units) - len(shown),
        "alarms": [_record(each, "raised", "cleared") for each in history.alarms],
        "acts": [_record(each, "done") for each in history.acts],
        "assumptions": assumptions(history),
        "settings": _settings(history),
        "is_by_hand": stated.decides_shares and not (stated.units_per_step or stated.step_seconds),
    }
    plain: dict[str, Any] = _plain(found)
    return plain


def _fact(name: str, value: str, note: str = "") -> dict[str, str]:
    return {"name": name[:1].upper() + name[1:], "value": value, "note": note}


def _figures(history: History, words: Words) -> list[dict[str, str]]:
    """The numbers at the top."""
    last = history.units[-1] if history.units else None
    level = last.level if last is not None and is_served(history) else -math.inf
    rows = {arm: sum(each.rows[arm] for each in history.units) for arm in ARMS}
    present = NO_VALUE if last is None else f"{last.number:,}"
    since = "" if last is None else f"since {format_time(last.begun)}"
    return [
        _fact(words.level_title, _level_text(history, level), words.level_note),
        _fact(words.unit, present, since),
        _fact(words.rows, f"{sum(rows.values()):,}", f"{rows['new']:,} of them by the {words.new}"),
        _fact("losses pending", f"{sum(each.pending for each in history.units):,}"),
    ]


def _level_text(history: History, level: float) -> str:
    return format_share(max(level, 0)) if history.settings.decides_shares else format_beta(level)


# ---- losses and units ---------------------------------------------------------------------------


def _loss(history: History, words: Words, name: str) -> dict[str, Any]:
    """What is tolerated, promised and known of one loss."""
    limit = history.settings.limits[name]
    bound = f"of losses from 0 to {format_number(limit.bound)}"
    facts = [_fact("tolerated", tolerance(limit, words), bound)]
    last = history.units[-1] if history.units else None
    if last is not None and is_served(history) and name in last.promises:
        stated = f"at most {promised(history, last, name)}"
        facts.append(_fact("promised", stated, f"in {words.unit} {last.number}"))
    for arm, title in words.arms:
        count, mean = pooled(history, arm, name)
        note = f"mean of {counted(count, 'loss', 'losses')}"
        for unit in [each for each in history.units if each.means[arm][name].count][-1:]:
            note += f"; {_mean(unit.means[arm][name])} in {words.unit} {unit.number}"
        facts.append(_fact(title, format_number(mean), note))
    return {"name": name, "bound": limit.bound, "facts": facts}


DECISION_FACTS = (
    ("rows", "calibration rows", lambda value: f"{value:,}"),
    ("effective_sample_size", "effective sample size", format_number),
    ("max_weight", "largest weight", format_share),
    ("acceptance", "acceptance rate", format_share),
    ("changed", "decisions that change", format_share),
)
"""What a decision on beta may say of its calibration: key, title and how it is written."""


def _unit(history: History, words: Words, unit: UnitRecord) -> dict[str, Any]:
    """One round or step in detail."""
    decision, several = unit.decision, len(history.settings.limits) > 1
    level = _level_text(history, unit.level)
    facts = [_fact("began", format_time(unit.begun)), _fact(words.level, level)]
    facts += [_fact("policy", unit.policy)] if unit.policy else []
    for arm, title in words.arms:
        facts.append(_fact(f"{words.rows} of the {title}", f"{unit.rows[arm]:,}"))
    facts.append(_fact("losses pending", f"{unit.pending:,}"))
    for name in history.settings.limits:
        of = f", {name}" if several else ""
        for arm, title in words.arms:
            if unit.means[arm][name].count:
                facts.append(_fact(f"mean of the {title}{of}", _mean(unit.means[arm][name])))
        if name in unit.promises:
            facts.append(_fact(f"promised{of}", f"at most {promised(history, unit, name)}"))
    if unit.reward is not None and unit.reward.count:
        facts.append(_fact("mean reward", _mean(unit.reward)))
    for name, share in decision.get("shares", {}).items():
        facts.append(_fact(f"share that {name} allows", format_share(share)))
    for key, title, text in DECISION_FACTS:
        if _is_known(decision.get(key)):
            facts.append(_fact(title, text(decision[key])))
    return {
        "number": unit.number,
        "begun": unit.begun,
        "level": level,
        "policy": unit.policy,
        "rows": unit.rows,
        "pending": unit.pending,
        "means": {arm: {k: vars(v) for k, v in each.items()} for arm, each in unit.means.items()},
        "promises": unit.promises,
        "note": as_sentence(unit.note),
        "facts": facts,
        "warnings": [as_sentence(each) for each in decision.get("warnings", ())],
        "curve": _curve(unit),
    }


def _curve(unit: UnitRecord) -> dict[str, Any] | None:
    """The calibrated risk along beta of the loss that limits it, as a chart."""
    curve = unit.decision.get("curve")
    if not curve or len(curve["risks"]) < 2:
        return None
    points = list(zip(curve["log_betas"], curve["risks"], strict=True))
    return _chart(
        *("curve", f"Calibrated risk along beta: {curve['loss']}"),
        "From the safe policy on the left to the optimized one on the right.",
        [_series("calibrated risk", "line", points)],
        levels=[_line("asked for", curve["alpha"])],
        x_label="beta",
        x_ticks=list(beta_ticks(points[0][0], points[-1][0]).items()),
        mark=unit.level,
    )


# ---- charts over the units ----------------------------------------------------------------------


def _charts(
    history: History, words: Words, units: Sequence[UnitRecord]
) -> Iterator[dict[str, Any]]:
    yield _level_chart(history, words, units)
    for place, name in enumerate(history.settings.limits, start=1):
        if any(each.means[arm][name].count for each in units for arm in ARMS):
            yield _loss_chart(history, words, units, name, place)
    rewards = [(each.number, each.reward) for each in units if each.reward and each.reward.count]
    if rewards:
        text = f"The mean reward of each {words.unit}, with an approximate 95 % interval."
        series = [_estimates("mean reward", "dot", rewards)]
        yield _chart("reward", "Mean reward", text, series, bottom=None)
    decided = [each for each in units if _is_known(each.decision.get("effective_sample_size"))]
    if decided:
        text = "How many equally weighted rows the log is worth; dashed: the rows that it has."
        named = (("effective_sample_size", "line"), ("rows", "dashed"))
        series = [_decided(decided, *each) for each in named]
        yield _chart("sample_size", "Effective sample size", text, series)
    accepted = _decided(units, "acceptance", "line")
    if accepted["points"]:
        text = "The share of draws that a rejection sampler accepts."
        yield _chart("acceptance", "Acceptance rate", text, [accepted], format="percent", top=1.0)


def _chart(
    name: str, title: str, text: str, series: list[dict[str, Any]], **more: Any
) -> dict[str, Any]:
    """A chart; its `bottom` and `top` are None where the points decide."""
    chart = {"id": name, "title": title, "text": text, "series": series, "levels": []}
    return chart | {"bottom": 0.0, "top": None, "format": "number"} | more


def _level_chart(history: History, words: Words, units: Sequence[UnitRecord]) -> dict[str, Any]:
    """The share, or beta, of every unit; it falls where an alarm ended it."""
    falls = sorted({each.unit for each in history.alarms})
    if history.settings.decides_shares:
        points: list[Any] = [(each.number, each.level) for each in units]
        series = _series(words.level, "steps", points, falls=falls)
        top = min(1.0, max(0.01, *(1.15 * each.level for each in units)))
        text = f"What the {words.new} gets of the {words.rows}, decided when a {words.unit} begins."
        return _chart("level", words.level_title, text, [series], format="percent", top=top)
    heights, ticks = beta_scale([each.level for each in units])
    points = [
        (each.number, height, None, None, format_beta(each.level))
        for each, height in zip(units, heights, strict=True)
    ]
    series = _series(words.level, "steps", points, falls=falls)
    text = "0 is the safe policy, ∞ the optimized one; the scale in between is logarithmic."
    shown = [*heights, *ticks]
    ends = {"bottom": min(shown) - 0.2, "top": max(shown) + 0.2}
    y_ticks = list(ticks.items())
    return _chart("level", words.level_title, text, [series], y_ticks=y_ticks, **ends)


def _loss_chart(
    history: History, words: Words, units: Sequence[UnitRecord], name: str, place: int
) -> dict[str, Any]:
    """The mean losses of both arms, what is tolerated or promised, and what was predicted."""
    limit, series = history.settings.limits[name], []
    arms = (("old", words.old, "ring", -SHIFT), ("new", words.new, "dot", SHIFT))
    for arm, title, style, shift in arms:
        means = [(each.number, each.means[arm][name]) for each in units]
        series.append(_estimates(title, style, [each for each in means if each[1].count], shift))
    text = f"Rings are the {words.old}, dots the {words.new}, each {INTERVALS}; an arrow where it "
    text += "goes beyond the chart."
    predicted = [(each.number, each.decision.get("risks", {}).get(name)) for each in units]
    series.append(_series("predicted by the calibration", "cross", predicted))
    if limit.tolerated is None:
        beside = [(each.number, each.means["old"][name].mean) for each in units]
        allowed = [(number, mean * (1 + limit.ratio) + limit.delta) for number, mean in beside]
        series.append(_series("tolerated beside it", "limit", allowed))
    else:
        stated = [(each.number, each.promises.get(name)) for each in units]
        if any(each not in (None, limit.tolerated) for _, each in stated):
            series.append(_series("promised", "limit", stated))
    series = [each for each in series if each["points"]]
    heights = [1.2 * point[1] for each in series for point in each["points"]]
    return _chart(
        *(f"loss-{place}", f"Mean {name} by {words.unit}", text, series),
        levels=[] if limit.tolerated is None else [_line("tolerated", limit.tolerated)],
        top=min(1.02 * limit.bound, max(2.5 * (limit.tolerated or 0.0), *heights, 1e-9)),
        alarms=sorted({each.unit for each in history.alarms}),
    )


def _estimates(
    name: str, style: str, means: Iterable[tuple[int, Estimate]], shift: float = 0.0
) -> dict[str, Any]:
    points = [(number, each.mean, each.lower, each.upper) for number, each in means]
    return _series(name, style, points, shift=shift)


def _series(name: str, style: str, points: Iterable[Any], **more: Any) -> dict[str, Any]:
    """Points in one style; without those that are unknown."""
    return {"name": name, "style": style, "points": [p for p in points if _is_known(p[1])], **more}


def _line(name: str, value: float) -> dict[str, Any]:
    return {"value": value, "label": f"{name} {format_number(value)}"}


def _decided(units: Sequence[UnitRecord], key: str, style: str) -> dict[str, Any]:
    """What the decisions on the units say of one number, where they do."""
    titles = {name: title for name, title, _ in DECISION_FACTS} | {"rows": "rows"}
    return _series(titles[key], style, [(u.number, u.decision.get(key)) for u in units])


SETTINGS = {
    "release": "units_per_step step_seconds growth sticky outcome_deadline stop max_silence signer",
    "controller": "rule confidence family against calibration_share missing units_per_step "
    "shortlist stop max_silence seed signer",
}
"""What is shown of the settings of each kind of run, besides its losses."""


def _settings(history: History) -> list[dict[str, str]]:
    facts = [_fact("created", format_time(history.settings.created))]
    for name in SETTINGS[history.kind].split():
        if (value := getattr(history.settings, name)) is not None:
            text = format_number(value) if isinstance(value, float) else str(value)
            facts.append(_fact(name.replace("_", " "), text))
    return facts


def _record(record: Any, *times: str) -> dict[str, Any]:
    """An alarm or an act, with its times in ISO 8601."""
    found = dict(vars(record))
    return found | {name: iso_time(found[name]) for name in times if found[name] is not None}


def _mean(estimate: Estimate) -> str:
    mean, lower, upper = map(format_number, (estimate.mean, estimate.lower, estimate.upper))
    return f"{mean} ({lower} to {upper})"


def _is_known(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value
