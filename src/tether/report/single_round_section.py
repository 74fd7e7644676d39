"""One round in detail: what was calibrated when it started, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from tether.report import single_round_charts, single_round_tables
from tether.report.chart_figure import Chart, Drawing
from tether.report.gain_facts import gain_facts
from tether.report.html_elements import Markup, element, join
from tether.report.html_tables import description_list
from tether.report.number_format import (
    NO_VALUE,
    format_interval,
    format_number,
    format_percent,
    format_time,
)
from tether.report.sentences import (
    as_sentence,
    loss_suffix,
    promise_sentences,
    round_beta,
    round_label,
)
from tether.report.single_round_charts import CalibratedRound

if TYPE_CHECKING:
    from tether.rounds.history import History, RoundRecord

MAX_ROUNDS_BEHIND = 20
"""Up to this many rounds, all are drawn faintly behind the selected one."""

DrawRounds: TypeAlias = Callable[[Sequence[CalibratedRound], str, float, float], Markup]


def single_round(history: History) -> Markup:
    """The selected round, controls to select another, and its chart."""
    records = history.rounds
    rounds = single_round_charts.calibrated_rounds(records)
    cards = [_card(history, record, selected=record is records[-1]) for record in records]
    if not rounds:
        return join(_round_picker(records), cards)
    figures = [chart.figure() for chart in _charts(records, rounds)]
    class_ = "halves" + (" faint" if len(rounds) <= MAX_ROUNDS_BEHIND else "")
    return join(_round_picker(records), cards, element("div", figures, class_=class_))


def _round_picker(records: Sequence[RoundRecord]) -> Markup:
    options = [
        element("option", round_label(record), value=record.number, selected=record is records[-1])
        for record in reversed(records)
    ]
    return element(
        "div",
        element("label", "Round", for_="round"),
        element("select", options, id="round"),
        element("button", "← Earlier", type="button", id="earlier"),
        element("button", "Later →", type="button", id="later"),
        element("span", "or click a point in the charts above", class_="hint"),
        class_="round-picker",
        hidden=True,
    )


def _card(history: History, record: RoundRecord, *, selected: bool) -> Markup:
    """All facts about one round."""
    calibration = record.calibration
    promise, _ = promise_sentences(calibration)
    warnings = [
        element("li", as_sentence(warning))
        for warning in (calibration.warnings if calibration else ())
    ]
    return element(
        "div",
        element("h3", round_label(record)),
        element("p", promise),
        element("p", as_sentence(record.note), class_="note") if record.note else None,
        description_list(_facts(history, record), "facts"),
        [element("p", element("strong", "Warnings")), element("ul", warnings, class_="warnings")]
        if warnings
        else None,
        class_="card",
        data_round=record.number,
        hidden=not selected,
    )


def _facts(history: History, record: RoundRecord) -> list[tuple[str, str]]:
    calibration = record.calibration
    facts = [("Started", format_time(record.begun)), ("Beta", round_beta(record))]
    if calibration is not None:
        for loss in calibration.losses.values():
            which = f" of {loss.name}" if len(calibration.losses) > 1 else ""
            risk, asked = format_number(loss.risk), format_number(loss.alpha)
            facts.append((f"Calibrated risk{which}", f"{risk} ({asked} asked for)"))
        measured = calibration.measured
        size = format_number(measured.effective_sample_size)
        facts += [
            ("Effective sample size", f"{size} of {calibration.rows:,} rows"),
            ("Largest weight", format_percent(measured.max_weight)),
            ("Acceptance rate", format_percent(measured.acceptance)),
        ]
    by_safe = f"{record.safe_rows:,} by the safe policy"
    if record.fallback_rows:
        by_safe += f", {record.fallback_rows:,} of them after a failure"
    for name, seen in record.losses.items():
        which = loss_suffix(history, name)
        facts.append(
            (f"Realized risk{which}", f"{format_number(seen.mean)} ({format_interval(seen)})")
        )
    if not record.losses:
        facts.append(("Realized risk", NO_VALUE))
    facts += gain_facts(history, record)
    facts += [
        ("Actions", f"{record.rows:,} ({by_safe})"),
        ("Losses", f"{record.observed:,} arrived, {record.pending:,} pending"),
    ]
    if record.failure:
        facts.append(("Last failure", record.failure))
    return facts


def _charts(records: Sequence[RoundRecord], rounds: Sequence[CalibratedRound]) -> list[Chart]:
    last = records[-1].number
    uncalibrated = {
        record.number: "Nothing was calibrated." for record in records if record.calibration is None
    }
    risk = Chart(
        "curve",
        "Calibrated risk against beta",
        "Without a confidence, beta is the largest value such that the risk at it, and at every "
        "smaller value, is at most alpha. With one, beta is the largest that is certified.",
        "",
        _with_descriptions(
            single_round_charts.draw_risk,
            rounds,
            single_round_tables.risk_in_words,
            uncalibrated,
            last,
        ),
        single_round_tables.risk_table(rounds),
        "half",
    )
    return [risk]


def _with_descriptions(
    draw: DrawRounds,
    rounds: Sequence[CalibratedRound],
    describe: Callable[[CalibratedRound], str],
    not_drawn: Mapping[int, str],
    last: int,
) -> Drawing:
    """A drawing of all rounds with a text alternative for each.

    `not_drawn` says, by the number of the round, why a round is missing from the drawing.
    """

    def drawing(name: str, width: float, height: float, label: str) -> Markup:
        descriptions = [
            element(
                "p",
                describe(shown),
                data_round=shown.record.number,
                hidden=not shown.selected,
            )
            for shown in rounds
        ]
        reasons = [
            element("p", reason, class_="not-drawn", data_round=number, hidden=number != last)
            for number, reason in not_drawn.items()
        ]
        alternative = element(
            "div", descriptions, class_="visually-hidden", id=f"{name}-description"
        )
        return join(draw(rounds, name, width, height), reasons, alternative)

    return drawing
