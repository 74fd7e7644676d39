import pytest

from tests.report.example_histories import EXAMPLES, example, rendered
from tests.report.html_tree import parse
from tether.report.sentences import promise_sentences, run_state


def opening(name):
    return next(parse(rendered(name)).find_all("div", **{"class": "opening"}))


@pytest.mark.parametrize("name", sorted(set(EXAMPLES) - {"hostile_texts"}))
def test_the_heading_is_the_state_with_an_icon(name):
    (heading,) = parse(rendered(name)).find_all("h1")
    state = run_state(example(name))
    icon = {"running": "●", "alarm": "▲", "safe": "■", "empty": "○"}[state.kind]
    assert heading.text == f"{icon} {state.heading}: {state.sentence}"


def test_the_promise_in_force_is_stated():
    promise, _ = promise_sentences(example("ten_rounds").rounds[-1].calibration)
    assert promise in opening("ten_rounds").text


def test_while_an_alarm_is_active_nothing_is_promised():
    assert "No promise from calibration applies." in opening("active_alarm").text
    assert "suspended by the alarm" in opening("active_alarm").text


def test_key_figures_name_their_rounds():
    terms = [node.text for node in opening("ten_rounds").find_all("dt")]
    assert terms == [
        "Tolerated risk, alpha",
        "Realized risk, round 10",
        "Beta, round 10",
        "Mean reward, round 10",
        "Losses pending",
    ]
