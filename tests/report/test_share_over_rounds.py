"""The report of a run that ramps its policies: shares instead of betas."""

from __future__ import annotations

import functools

import numpy as np

import tether
from tests.report.html_tree import parse
from tests.rounds.ramps.ramp_model import AlwaysTakes
from tether.report.assumptions import assumptions
from tether.report.share_over_rounds import share_chart


@functools.cache
def histories():
    """A ramp that reached all actions, the same with an alarm, and one with a confidence."""
    found = []
    for confidence in (None, 0.9):
        rng = np.random.default_rng(0)
        given = {"alpha": 0.2, "store": "sqlite://", "family": "ramp", "confidence": confidence}
        with tether.Controller(AlwaysTakes(0), **given, against="last") as run:
            taken = run.begin().act(200, rng)
            run.observe(taken.ids, np.zeros(200))
            round_ = run.begin(AlwaysTakes(1), name="model A")
            for _ in range(2):
                taken = round_.act(200, rng)
                run.observe(taken.ids, np.zeros(200))
                run.advance()
            found.append(run.history())
            run.halt("a test")
            found.append(run.history())
    return found


def text_of(history):
    return " ".join(parse(tether.report.render(history)).text.split())


def test_the_chart_and_its_table_have_the_shares():
    history = histories()[0]
    chart = share_chart(history)
    assert chart.tips[0] == "Round 1: share 0.000%"
    assert chart.tips[-1] == "Round 4: share 100.000%"
    assert "100 %" in parse(chart.draw("x-only", 500.0, 300.0, "x")).text
    page = parse(tether.report.render(history))
    figure = next(page.find_all("figure", id="chart-share"))
    rows = next(figure.find_all("table")).rows()
    assert [row[2] for row in rows[:2]] == ["100.000%", "100.000%"]
    assert not list(page.find_all("figure", id="chart-beta"))


def test_the_page_says_what_is_promised_by_the_share():
    running, stopped, confident, _ = map(text_of, histories())
    assert "Round 4 gives model A 100.000% of the actions." in running
    assert "In expectation: loss ≤ 0.2" in running
    assert "Share, round 4" in running
    assert "One round in detail" not in running
    assert "No promise from calibration applies." in stopped
    assert "With probability 0.9, at all steps of this ramp: loss ≤ 0.2." in confident


def test_the_assumptions_are_those_of_a_ramp():
    titles = [each.title for each in assumptions(histories()[0])]
    assert "Which policy answers does not depend on the loss" in titles
    assert "The policy that reached a share of 1 keeps its risk" in titles
    assert not any("weight" in title or "probabilities" in title for title in titles)
    with tether.Controller(AlwaysTakes(0), alpha=0.2, store="sqlite://", family="ramp") as run:
        empty = [each.title for each in assumptions(run.history())]
    assert not any("probabilities" in title for title in empty)
