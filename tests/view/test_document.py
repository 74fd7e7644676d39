"""The document of real runs of both kinds: its numbers are those of the history."""

import json
from pathlib import Path

import pytest

from tests.view.example_runs import EXAMPLES, HOSTILE, example
from tether.view import document, page_html
from tether.view.text import describe, summary_card

SNAPSHOTS = Path(__file__).parent / "snapshots"


@pytest.fixture(params=sorted(EXAMPLES))
def name(request):
    return request.param


def chart_of(shown, name):
    return next((chart for chart in shown["charts"] if chart["id"] == name), None)


def points_of(shown, chart, series):
    found = chart_of(shown, chart)
    return next((s["points"] for s in found["series"] if s["name"] == series), [])


def close(value):
    return pytest.approx(value, rel=1e-5)


def test_it_is_plain_json_and_has_the_units_acts_and_numbers_of_the_history(name):
    history = example(name)
    shown = document(history, title=name)
    assert json.loads(json.dumps(shown, allow_nan=False)) == shown
    assert [each["number"] for each in shown["units"]] == [u.number for u in history.units]
    assert [each["message"] for each in shown["alarms"]] == [a.message for a in history.alarms]
    assert [each["reason"] for each in shown["acts"]] == [a.reason for a in history.acts]
    assert (shown["state"]["kind"] == "alarm") == (history.alarm is not None)
    if history.settings.decides_shares and history.units:
        points = [point[:2] for point in points_of(shown, "level", "share")]
        assert points == [[u.number, close(u.level)] for u in history.units]
    for place, loss in enumerate(history.settings.limits, start=1):
        if chart_of(shown, f"loss-{place}") is None:
            assert not any(unit.rows[arm] for unit in history.units for arm in unit.rows)
            continue
        for arm in ("old", "new"):
            means = [(u.number, u.means[arm][loss]) for u in history.units]
            assert points_of(shown, f"loss-{place}", shown["words"][arm]) == [
                [number, close(each.mean), close(each.lower), close(each.upper)]
                for number, each in means
                if each.count
            ]


def test_a_controller_has_beta_reward_acceptance_sample_size_and_what_was_predicted():
    history = example("controller")
    shown = document(history)
    betas = [point[4] for point in points_of(shown, "level", "beta")]
    assert betas[:2] == ["0", "∞"]
    assert float(betas[-1]) == pytest.approx(history.units[-1].decision["beta"], rel=5e-3)
    heights = [point[1] for point in points_of(shown, "level", "beta")]
    assert heights[0] < min(heights[2:]) < max(heights[2:]) < heights[1]
    calibrated = history.units[1:]
    for chart, series, key in (
        ("acceptance", "acceptance rate", "acceptance"),
        ("sample_size", "effective sample size", "effective_sample_size"),
    ):
        points = points_of(shown, chart, series)
        assert points == [[u.number, close(u.decision[key])] for u in calibrated]
    predicted = points_of(shown, "loss-1", "predicted by the calibration")
    assert predicted == [[u.number, close(u.decision["risks"]["loss"])] for u in calibrated]
    rewards = points_of(shown, "reward", "mean reward")
    assert [point[1] for point in rewards] == [close(u.reward.mean) for u in history.units]
    curve = shown["units"][-1]["curve"]
    log_beta, risk = history.units[-1].level, history.units[-1].decision["risks"]["loss"]
    left = [point for point in curve["series"][0]["points"] if point[0] <= log_beta]
    assert left[-1][1] <= risk + 1e-9
    assert curve["mark"] == close(log_beta)
    assert shown["units"][0]["curve"] is None


def test_what_is_promised_beside_the_old_system_and_during_an_alarm():
    beside = points_of(document(example("release")), "loss-2", "tolerated beside it")
    old = {u.number: u.means["old"]["seconds"] for u in example("release").units}
    assert beside == [[n, close(1.2 * mean.mean + 0.3)] for n, mean in old.items() if mean.count]
    for stopped in ("stopped", "resumed", "halted"):
        assert document(example(stopped))["promise"]["sentence"].startswith("No promise applies")


def test_the_last_units_alone():
    shown = document(example("release"), last=3)
    assert [unit["number"] for unit in shown["units"]] == [6, 7, 8]
    assert shown["left_out"] == 5
    drawn = [each["points"] for chart in shown["charts"] for each in chart["series"]]
    assert {point[0] for points in drawn for point in points} == {6, 7, 8}


@pytest.mark.parametrize("name", ["release", "stopped", "controller"])
def test_the_status_in_words(name, request, monkeypatch):
    """`pytest tests/view --update-snapshots` writes what is said now."""
    for module in ("run_document", "sentences", "text"):
        monkeypatch.setattr(f"tether.view.{module}.format_time", lambda time: "(time)")
    text = describe(document(example(name), title="run")).text() + "\n"
    path = SNAPSHOTS / f"{name}.txt"
    if request.config.getoption("--update-snapshots"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_hostile_names_reach_neither_the_terminal_nor_the_markup():
    for name in ("hostile", "halted"):
        shown = document(example(name), title=HOSTILE)
        assert "\x1b" not in describe(shown).text()
        assert "\u202e" not in describe(shown).text()
        assert "<script" not in summary_card(describe(shown))
        page = page_html(shown)
        assert page.count("</script>") == 2
        assert "<img" not in page
