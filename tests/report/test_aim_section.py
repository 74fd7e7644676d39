"""The section on aiming, and the calibration plot of the loss model."""

from __future__ import annotations

import functools

import numpy as np

import tether
from tests.report.example_histories import one_safe_round
from tests.report.html_tree import parse
from tests.rounds.aims.aimed_runs import act, begun, new_run
from tether.report.predicted_losses_chart import predicted_losses_chart


@functools.cache
def history():
    """Two rounds of an aimed policy."""
    with new_run() as run:
        round_ = begun(run, 3, rows=200)
        act(round_, np.random.default_rng(1), 100)
        return run.history()


def test_the_chart_has_predicted_and_realized_losses():
    chart = predicted_losses_chart(history(), "loss")
    assert chart.rounds == [2, 3]
    record = history().rounds[1]
    predicted, realized = record.aim.predicted["loss"], record.losses["loss"]
    text = f"Round 2: predicted {predicted:.3g}, realized {realized.mean:.3g} ± "
    assert chart.tips[0].startswith(text)
    assert "of 2 rounds; in " in chart.alternative
    assert "predicted" in parse(chart.draw("x-only", 500.0, 300.0, "x")).text


def test_the_section_says_what_was_chosen_and_what_plain_would_have_been_allowed():
    page = parse(tether.report.render(history()))
    section = next(page.find_all("section", id="aim"))
    tables = list(section.find_all("table"))
    rows = tables[-1].rows()
    assert [row[0] for row in rows] == ["3", "2"]
    assert rows[0][1] == history().rounds[-1].aim.candidate
    assert rows[0][-1] == f"{history().rounds[-1].aim.plain_beta:.3g}"
    assert "Beta of the plain policy" in section.text


def test_a_run_that_does_not_aim_has_no_such_section():
    assert not list(parse(tether.report.render(one_safe_round())).find_all("section", id="aim"))
