"""One round, closely: what was calibrated when it began, and what came of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tether.report import round_charts
from tether.report.chart import Chart, Drawing, table
from tether.report.chart_marks import beta_ticks
from tether.report.markup import Markup, element, join
from tether.report.number_format import NOTHING, count, interval, moment, number, percent
from tether.report.round_charts import Drawn
from tether.report.sentences import promise, round_label, sentence, written_beta
from tether.rounds.history import History, RoundRecord

QUANTILES = (0, 10, 25, 50, 75, 90, 95, 99, 100)
FAINT = 20
"""Up to so many rounds are drawn behind the chosen one."""


def section(history: History) -> Markup:
    """The chosen round, a way to choose another, and its three charts."""
    rounds = history.rounds
    drawn = round_charts.drawn(rounds)
    cards = [_card(each, each is rounds[-1]) for each in rounds]
    charts = [each.figure() for each in _charts(rounds, drawn)] if drawn else []
    kind = "thirds" + (" faint" if len(drawn) <= FAINT else "")
    return join(_chooser(rounds), cards, element("div", charts, class_=kind) if charts else None)


def _chooser(rounds: Sequence[RoundRecord]) -> Markup:
    options = [
        element("option", round_label(each), value=each.number, selected=each is rounds[-1])
        for each in reversed(rounds)
    ]
    return element(
        "div",
        element("label", "Round", for_="round"),
        element("select", options, id="round"),
        element("button", "← Earlier", type="button", id="earlier"),
        element("button", "Later →", type="button", id="later"),
        element("span", "or click on it in a chart above", class_="hint"),
        class_="chooser",
        hidden=True,
    )


def _card(each: RoundRecord, chosen: bool) -> Markup:
    found = each.calibration
    promised, _ = promise(found)
    facts: list[tuple[str, str]] = [("Begun", moment(each.begun)), ("Beta", written_beta(each))]
    if found is not None:
        for constraint in found.constraints:
            named = f" of {constraint.name}" if len(found.constraints) > 1 else ""
            risk = number(found.risks[constraint.name])
            facts.append((f"Calibrated risk{named}", f"{risk}, alpha {number(constraint.alpha)}"))
        size = f"{number(found.effective_sample_size)} of {found.rows:,}"
        facts += [
            ("Stability ε̂", number(found.stability)),
            ("Effective rows", size),
            ("Largest weight", percent(found.max_weight)),
            ("Draws kept", percent(found.acceptance)),
        ]
    facts += [
        (
            "Realized risk",
            f"{number(each.loss.mean)} ({interval(each.loss)})" if each.loss else "–",
        ),
        ("Actions", _actions(each)),
        ("Losses", f"{each.observed:,} arrived, {each.pending:,} awaited"),
    ]
    if each.failure:
        facts.append(("Last failure", each.failure))
    warnings = [element("li", sentence(warning)) for warning in (found.warnings if found else ())]
    return element(
        "div",
        element("h3", round_label(each)),
        element("p", promised),
        element("p", sentence(each.note), class_="note") if each.note else None,
        element("dl", [pair(*fact) for fact in facts], class_="facts"),
        [element("p", element("strong", "Warnings")), element("ul", warnings, class_="warnings")]
        if warnings
        else None,
        class_="card",
        data_round=each.number,
        hidden=not chosen,
    )


def _actions(each: RoundRecord) -> str:
    text = f"{each.rows:,}, {each.safe_rows:,} of them by the safe policy"
    return f"{text}, {each.fallback_rows:,} after a failure" if each.fallback_rows else text


def pair(term: str, *described: Any) -> Markup:
    """A term and what is said of it, for a list of descriptions."""
    return element("div", element("dt", term), [element("dd", each) for each in described])


def _charts(rounds: Sequence[RoundRecord], drawn: Sequence[Drawn]) -> list[Chart]:
    none = {each.number: "Nothing was calibrated." for each in rounds if each.calibration is None}
    near = {e.record.number: _no_place(e) for e in drawn if not math.isfinite(e.found.log_beta)}
    charts = [
        Chart(
            "curve",
            "Calibrated risk along beta",
            "Beta is the largest whose risk, and that of every smaller beta, is at most alpha.",
            "",
            _drawing(
                round_charts.draw_risk, drawn, round_charts.alternative, none, rounds[-1].number
            ),
            _curve_table(drawn),
            "third",
        ),
        Chart(
            "near",
            "In the neighbourhood of beta",
            "The same curve from half of beta to twice beta: the steeper, the firmer beta stands.",
            "",
            _drawing(round_charts.draw_near, drawn, _near_words, none | near, rounds[-1].number),
            _near_table(drawn),
            "third",
        ),
        Chart(
            "weights",
            "How the rows are weighed",
            "The further below the dashed line, the fewer rows the calibration rests on.",
            "",
            _drawing(round_charts.draw_weights, drawn, _weight_words, none, rounds[-1].number),
            _weight_table(drawn),
            "third",
        ),
    ]
    return charts if len(near) < len(drawn) else [charts[0], charts[2]]


def _drawing(
    draw: Callable[[Sequence[Drawn], str, float, float], Markup],
    drawn: Sequence[Drawn],
    says: Callable[[Drawn], str],
    absent: Mapping[int, str],
    last: int,
) -> Drawing:
    """A drawing of all rounds with the text alternative of each; `absent` says why one is not."""

    def both(name: str, width: float, height: float, label: str) -> Markup:
        words = [
            element("p", says(each), data_round=each.record.number, hidden=not each.chosen)
            for each in drawn
        ]
        lacking = [
            element("p", text, class_="absent", data_round=round, hidden=round != last)
            for round, text in absent.items()
        ]
        spoken = element("div", words, class_="unseen", id=f"{name}-words")
        return join(draw(drawn, name, width, height), lacking, spoken)

    return both


def _curve_table(drawn: Sequence[Drawn]) -> Markup:
    ticks = beta_ticks(*round_charts.reached(drawn))
    rows = [
        [
            each.record.number,
            written_beta(each.record),
            number(each.found.risk),
            *_read(each, list(ticks)),
        ]
        for each in reversed(drawn)
    ]
    columns = ["Round", "Beta", "Risk at beta", *(f"at {word}" for word in ticks.values())]
    return table("Calibrated risk along beta, read off the line", columns, rows)


def _near_table(drawn: Sequence[Drawn]) -> Markup:
    steps = {"½ ×": -1.0, "0.71 ×": -0.5, "beta": 0.0, "1.41 ×": 0.5, "2 ×": 1.0}
    rows = [
        [
            each.record.number,
            *(
                _read(
                    each,
                    [each.found.log_beta + step * round_charts.NEAR for step in steps.values()],
                )
                if math.isfinite(each.found.log_beta)
                else [NOTHING] * len(steps)
            ),
        ]
        for each in reversed(drawn)
    ]
    caption = "Calibrated risk near beta, read off the line"
    return table(caption, ["Round", *(f"at {step}" for step in steps)], rows)


def _read(each: Drawn, places: Sequence[float]) -> list[str]:
    """The risk on the line as it is drawn."""
    if not len(each.curve.log_beta):
        return [NOTHING] * len(places)
    return [number(risk) for risk in np.interp(places, each.curve.log_beta, each.curve.risk)]


def _no_place(each: Drawn) -> str:
    return "Beta is infinite: nothing is near it." if each.found.exists else "No beta passes."


def _near_words(each: Drawn) -> str:
    if not math.isfinite(each.found.log_beta):
        return f"{round_label(each.record)}: {_no_place(each)}"
    inside = np.abs(each.curve.log_beta - each.found.log_beta) <= round_charts.NEAR
    low, high = each.curve.risk[inside][[0, -1]]
    return (
        f"{round_label(each.record)}: from half of beta = {written_beta(each.record)} to twice, "
        f"the calibrated risk goes from {number(low)} to {number(high)}."
    )


def _weight_words(each: Drawn) -> str:
    carried = round_charts.spread(each.found.relative_weights)
    if carried is None:
        return f"{round_label(each.record)}: no row has any weight."
    return (
        f"{round_label(each.record)}: the heavier half of {count(each.found.rows, 'row')} carries "
        f"{percent(1 - carried[50])} of the weight, the heaviest tenth {percent(1 - carried[90])}."
    )


def _weight_table(drawn: Sequence[Drawn]) -> Markup:
    rows = [
        [each.record.number, *(number(each.found.relative_weights[at]) for at in QUANTILES)]
        for each in reversed(drawn)
    ]
    caption = "Quantiles of the weights of the rows, relative to their mean"
    return table(caption, ["Round", *(f"{at} %" for at in QUANTILES)], rows)
