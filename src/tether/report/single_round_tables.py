"""The numbers of the charts of one round, in tables and in sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tether.report.beta_axis import NEAR_BETA, beta_ticks
from tether.report.html_elements import Content, Markup
from tether.report.html_tables import data_table
from tether.report.number_format import NO_VALUE, format_count, format_number, format_percent
from tether.report.sentences import round_beta, round_label
from tether.report.single_round_charts import (
    NEAR_BETA_TICKS,
    CalibratedRound,
    beta_range,
    cumulative_weight,
)

WEIGHT_PERCENTILES = (0, 10, 25, 50, 75, 90, 95, 99, 100)


def risk_table(rounds: Sequence[CalibratedRound]) -> Markup:
    """The calibrated risk of every round at round values of beta."""
    ticks = beta_ticks(*beta_range(rounds))
    rows: list[list[Content]] = [
        [
            shown.record.number,
            round_beta(shown.record),
            format_number(shown.calibration.risk),
            *_risk_at(shown, list(ticks)),
        ]
        for shown in reversed(rounds)
    ]
    columns = ["Round", "Beta", "Risk at beta", *(f"at {tick}" for tick in ticks.values())]
    return data_table("Calibrated risk against beta, interpolated", columns, rows)


def near_table(rounds: Sequence[CalibratedRound]) -> Markup:
    """The calibrated risk of every round at multiples of its beta."""
    rows: list[list[Content]] = [
        [
            shown.record.number,
            *_risk_at(
                shown,
                [
                    shown.calibration.log_beta + step * NEAR_BETA
                    for step in NEAR_BETA_TICKS.values()
                ],
            ),
        ]
        for shown in reversed(rounds)
    ]
    columns = ["Round", *(f"at {step}" for step in NEAR_BETA_TICKS)]
    return data_table("Calibrated risk near beta, interpolated", columns, rows)


def weight_table(rounds: Sequence[CalibratedRound]) -> Markup:
    """Percentiles of the weights of the rows."""
    rows: list[list[Content]] = [
        [
            shown.record.number,
            *(
                format_number(shown.calibration.relative_weights[percent])
                for percent in WEIGHT_PERCENTILES
            ),
        ]
        for shown in reversed(rounds)
    ]
    columns = ["Round", *(f"{percent} %" for percent in WEIGHT_PERCENTILES)]
    return data_table("Percentiles of the rows' weights, relative to their mean", columns, rows)


def _risk_at(shown: CalibratedRound, log_betas: Sequence[float]) -> list[str]:
    """The risk on the curve as it is drawn."""
    if not len(shown.curve.log_beta) or not all(map(math.isfinite, log_betas)):
        return [NO_VALUE] * len(log_betas)
    risks = np.interp(log_betas, shown.curve.log_beta, shown.curve.risk)
    return [format_number(risk) for risk in risks]


def risk_in_words(shown: CalibratedRound) -> str:
    """The curve of calibrated risk in a sentence."""
    calibration, risk = shown.calibration, shown.curve.risk
    alpha, beta = format_number(calibration.alpha), format_number(calibration.beta)
    if calibration.confidence is not None:
        result = (
            f"beta = {beta} is the largest that is certified"
            if calibration.exists
            else ("no beta is certified")
        )
    elif shown.finite:
        result = f"it meets alpha = {alpha} at beta = {beta}"
    elif calibration.exists:
        result = "every beta passes"
    else:
        promised = calibration.asked_promise is not None
        result = "no beta has the promise that was asked for" if promised else "no beta passes"
    label = round_label(shown.record)
    if not len(risk):
        return f"{label}: {result}."
    first, last = format_number(risk[0]), format_number(risk[-1])
    return f"{label}: the calibrated risk goes from {first} to {last}; {result}."


def near_in_words(shown: CalibratedRound) -> str:
    """The curve near beta in a sentence."""
    if not shown.finite:
        return f"{round_label(shown.record)}: {no_neighborhood(shown)}"
    near = np.abs(shown.curve.log_beta - shown.calibration.log_beta) <= NEAR_BETA
    first, last = shown.curve.risk[near][[0, -1]]
    return (
        f"{round_label(shown.record)}: from half of beta = {round_beta(shown.record)} to twice "
        f"beta, the calibrated risk goes from {format_number(first)} to {format_number(last)}."
    )


def no_neighborhood(shown: CalibratedRound) -> str:
    """Why nothing is drawn near the beta of a round."""
    return "Beta is infinite." if shown.calibration.exists else "No beta passes."


def weights_in_words(shown: CalibratedRound) -> str:
    """The distribution of the weight in a sentence."""
    cumulative = cumulative_weight(shown.calibration.relative_weights)
    if cumulative is None:
        return f"{round_label(shown.record)}: no row has any weight."
    half, tenth = format_percent(1 - cumulative[50]), format_percent(1 - cumulative[90])
    return (
        f"{round_label(shown.record)}: the heavier half of "
        f"{format_count(shown.calibration.rows, 'row')} carries {half} of the weight, the heaviest "
        f"tenth {tenth}."
    )
