"""The numbers of the charts of one round, in tables and in sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tether.report.beta_axis import beta_ticks
from tether.report.html_elements import Content, Markup
from tether.report.html_tables import data_table
from tether.report.number_format import NO_VALUE, format_number
from tether.report.sentences import round_beta, round_label
from tether.report.single_round_charts import CalibratedRound, beta_range


def risk_table(rounds: Sequence[CalibratedRound]) -> Markup:
    """The calibrated risk of every round at round values of beta."""
    ticks = beta_ticks(*beta_range(rounds))
    rows: list[list[Content]] = [
        [
            shown.record.number,
            round_beta(shown.record),
            format_number(shown.loss.risk),
            *_risk_at(shown, list(ticks)),
        ]
        for shown in reversed(rounds)
    ]
    columns = ["Round", "Beta", "Risk at beta", *(f"at {tick}" for tick in ticks.values())]
    return data_table("Calibrated risk against beta, interpolated", columns, rows)


def _risk_at(shown: CalibratedRound, log_betas: Sequence[float]) -> list[str]:
    """The risk on the curve as it is drawn."""
    if not len(shown.loss.log_betas) or not all(map(math.isfinite, log_betas)):
        return [NO_VALUE] * len(log_betas)
    risks = np.interp(log_betas, shown.loss.log_betas, shown.loss.risks)
    return [format_number(risk) for risk in risks]


def risk_in_words(shown: CalibratedRound) -> str:
    """The curve of calibrated risk in a sentence."""
    calibration, risk = shown.calibration, shown.loss.risks
    alpha, beta = format_number(shown.loss.alpha), format_number(calibration.beta)
    if calibration.confidence is not None:
        result = (
            f"beta = {beta} is the largest that is certified"
            if calibration.exists
            else ("no beta is certified")
        )
    elif calibration.rule == "promise":
        result = f"the soft chain serves beta = {beta}"
    elif shown.finite:
        result = f"it meets alpha = {alpha} at beta = {beta}"
    elif calibration.exists:
        result = "every beta passes"
    else:
        result = "no beta passes"
    label = round_label(shown.record)
    if not len(risk):
        return f"{label}: {result}."
    first, last = format_number(risk[0]), format_number(risk[-1])
    return f"{label}: the calibrated risk goes from {first} to {last}; {result}."
