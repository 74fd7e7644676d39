"""What the report says: the state, the promise, the assumptions, and numbers."""

import dataclasses
import math

import numpy as np
import pytest

from tests.report import histories
from tests.report.conftest import made, rendered
from tests.report.reading import read
from tether.report import number_format, sentences
from tether.report.assumptions import ASSUMED, CHECKED, DOUBTFUL, PARTLY, assumptions
from tether.report.markup import Markup, element, join
from tether.rounds.history import Estimate

STATES = {
    "empty": ("empty", "No round has begun."),
    "one_safe_round": ("safe", "The safe policy serves round 1 alone."),
    "ten_rounds": ("running", "Round 10 follows biopsy-model-10 as far as beta = 0.765."),
    "alarm_standing": ("alarm", "The safe policy serves since an alarm in round 10."),
    "beta_infinite": ("safe", "The safe policy serves round 3 alone."),
    "infinite_last": ("running", "Round 2 serves biopsy-model-2 whole."),
}


@pytest.mark.parametrize("shape", STATES)
def test_state(shape):
    now = sentences.state(made(shape))
    assert (now.kind, now.sentence) == STATES[shape]
    (title,) = read(rendered(shape)).all("h1")
    icon = {"running": "●", "alarm": "▲", "safe": "■", "empty": "○"}[now.kind]
    assert title.text == f"{icon} {now.word}: {now.sentence}"


def test_a_round_is_not_called_by_its_number_twice():
    history = made("ten_rounds")
    last = dataclasses.replace(history.rounds[-1], policy="round 10")
    now = sentences.state(dataclasses.replace(history, rounds=(*history.rounds[:-1], last)))
    assert now.sentence == "Round 10 follows the optimized policy as far as beta = 0.765."
    assert sentences.round_label(last) == "Round 10"
    assert sentences.round_label(history.rounds[0]) == "Round 1, the safe policy"
    assert sentences.round_label(history.rounds[1]) == "Round 2, biopsy-model-2"


def test_the_chart_of_risk_in_words():
    (figure,) = read(rendered("ten_rounds")).all("figure", id="chart-risk")
    said = {each.attributes["aria-label"] for each in figure.all("svg")}
    losses = [(each.number, each.loss) for each in made("ten_rounds").rounds]
    above = ", ".join(str(n) for n, loss in losses if loss.mean > 0.1)
    assert said == {
        f"Realized risk of 10 rounds against alpha = 0.1. Mean above alpha in rounds {above}, "
        "with the whole interval in round 6."
    }


def test_promise():
    found = made("ten_rounds").rounds[-1].calibration
    said, why = sentences.promise(found)
    assert said.endswith(f"at most {number_format.number(found.promise)}.")
    assert "alpha = 0.1 plus" in why
    assert number_format.number(found.stability) in why
    none = made("beta_infinite").rounds[-1].calibration
    assert sentences.promise(none)[0] == "Nothing is promised: no beta passes."
    assert sentences.promise(None)[0] == "Nothing is promised by calibration."
    opening = next(read(rendered("alarm_standing")).all("div", **{"class": "opening"}))
    assert "Nothing is promised by calibration." in opening.text  # while the safe policy serves
    opening = next(read(rendered("ten_rounds")).all("div", **{"class": "opening"}))
    assert said in opening.text


def test_assumptions_follow_the_run():
    def status(history, part):
        (found,) = [each for each in assumptions(history) if part in each.title]
        return found.status, found.how

    history = made("ten_rounds")
    assert status(history, "Losses lie between 0 and 1")[0] == CHECKED
    assert status(history, "Every loss")[0] == PARTLY
    assert status(made("two_hundred"), "Every loss")[0] == CHECKED
    assert status(history, "safe policy's risk")[0] == PARTLY
    worse = dataclasses.replace(history, safe_loss=Estimate(500, 0.2, 0.15, 0.25))
    assert status(worse, "safe policy's risk") == (DOUBTFUL, "0.2 (0.15 to 0.25) over 500 losses.")
    assert assumptions(worse)[0].status == DOUBTFUL
    assert status(made("empty"), "safe policy's risk")[0] == ASSUMED
    assert "no rows of 1,650" in status(history, "test weight")[1]
    rng = np.random.default_rng(0)
    for how, expected in (("analytic", CHECKED), (50.0, ASSUMED)):
        found = histories.calibrated(histories.SAFE, 300, 0.2, rng, test_weight=how)
        last = dataclasses.replace(history.rounds[-1], calibration=found)
        run = dataclasses.replace(
            history, rounds=(last,), against="last", family="mix", missing="exclude"
        )
        assert status(run, "test weight")[0] == expected
        assert status(run, "last tethered policy")[0] == ASSUMED
        assert status(run, "missing by chance")[0] == ASSUMED
        assert status(run, "Normalizers")[1] == "This family needs none."


@pytest.mark.parametrize(
    ("value", "written"),
    [(-0.0821, "−0.0821"), (-2e-7, "-2e-7"), (3e12, "3e12"), (math.nan, "–"), (-math.inf, "−∞")],
)
def test_numbers(value, written):
    assert number_format.number(value) == written


def test_odds_and_ends():
    assert number_format.moment("yesterday") == "yesterday"
    assert number_format.moment(None) == "–"
    assert number_format.moment("2026-03-01T09:30:00") == "1 March 2026, 09:30 UTC"
    assert number_format.percent(math.nan) == "–"
    assert sentences.sentence("") == ""
    assert sentences.sentence("why not?") == "Why not?"
    assert join("<", Markup("<b>"), None, False, ["&"], 0) == "&lt;<b>&amp;0"
    assert element("meta", content='"') == '<meta content="&quot;">'
