import dataclasses

import numpy as np

import tether
from tests.report import example_histories
from tests.report.example_histories import Estimate, example
from tether.control.score_checks import HIGH_RATIO_WORDS, score_warnings
from tether.report.assumptions import (
    ASSUMED,
    CHECKED,
    DOUBTFUL,
    PARTLY_CHECKED,
    PROVEN,
    assumptions,
)


def find(history, part_of_title):
    (assumption,) = [item for item in assumptions(history) if part_of_title in item.title]
    return assumption


def statuses(history):
    return {item.title: item.status for item in assumptions(history)}


def test_nothing_is_checked_in_an_empty_run():
    assert set(statuses(example("empty")).values()) == {ASSUMED}
    assert not any("Beta meets" in title for title in statuses(example("empty")))


def test_without_losses_the_bound_was_not_checked():
    rng = np.random.default_rng(0)
    waiting = example_histories.safe_round(1, rng, observed=0, losses={})
    history = example_histories.make_history([waiting], safe_losses={})
    assert find(history, "Losses lie between").status == ASSUMED
    assert find(history, "valid numbers").status == CHECKED
    assert find(history, "Every loss").status == PARTLY_CHECKED


def test_without_a_calibration_nothing_is_checked_but_rows():
    found = statuses(example("one_safe_round"))
    checked = {title for title, status in found.items() if status == CHECKED}
    assert checked == {
        "Losses lie between 0 and 1",
        "Log-probabilities are valid numbers",
        "Every loss arrives",
    }
    partly = {title for title, status in found.items() if status == PARTLY_CHECKED}
    assert partly == {"The safe policy's risk is at most 0.1"}


def test_what_is_checked_in_a_run_with_calibrations():
    found = statuses(example("two_hundred_rounds"))
    assert {title for title, status in found.items() if status == CHECKED} == {
        "Losses lie between 0 and 1",
        "Log-probabilities are valid numbers",
        "Every loss arrives",
        "Beta meets its definition",
    }
    assert found["Calibration rows are not used for training"] == ASSUMED
    assert found["The safe policy has not changed"] == PARTLY_CHECKED


def test_no_beta_no_check_of_its_definition():
    last = example("infinite_then_no_beta").rounds[-1]
    history = example_histories.make_history([dataclasses.replace(last, number=1)])
    assert not last.calibration.exists
    assert not any("Beta meets" in title for title in statuses(history))


def test_a_mean_ratio_above_one_makes_log_probabilities_doubtful():
    rng = np.random.default_rng(0)
    actions = rng.normal(1.0, 0.8, size=400)  # of another policy than the safe one
    optimized = tether.Gaussian(1.0, 0.8)
    log = tether.make_log(example_histories.SAFE, optimized, None, actions, actions > 9)
    calibration = tether.calibrate(log, alpha=0.2)
    history = example("ten_rounds")
    title = "Log-probabilities match"
    assert find(history, title).status == PARTLY_CHECKED
    last = dataclasses.replace(history.rounds[-1], calibration=calibration)
    assert find(dataclasses.replace(history, rounds=(last,)), title).status == DOUBTFUL
    # The warning reads the same once it comes from the checks of the scores alone.
    assert any(HIGH_RATIO_WORDS in warning for warning in score_warnings(log))


def test_pending_losses_leave_their_arrival_partly_checked():
    pending = find(example("ten_rounds"), "Every loss")
    assert (pending.status, pending.explanation) == (
        PARTLY_CHECKED,
        "86 losses are pending. 4 actions were withdrawn as never carried out, which cannot be "
        "checked.",
    )
    assert find(example("two_hundred_rounds"), "Every loss").status == CHECKED


def test_a_safe_policy_with_a_risk_above_alpha_is_doubtful_and_listed_first():
    title = "safe policy's risk"
    history = example("ten_rounds")
    assert find(history, title).status == PARTLY_CHECKED
    assert find(example("empty"), title).status == ASSUMED
    risky = dataclasses.replace(history, safe_losses={"loss": Estimate(500, 0.2, 0.15, 0.25)})
    doubtful = find(risky, title)
    assert doubtful.status == DOUBTFUL
    assert doubtful.explanation == "Its mean loss is 0.2 (0.15 to 0.25) over 500 losses."
    assert assumptions(risky)[0] == doubtful


def test_the_status_of_the_test_weight_follows_the_latest_calibration():
    history = example("ten_rounds")
    assert "no rows of 1,650 have a larger ratio" in find(history, "test weight").explanation
    rng = np.random.default_rng(0)
    for test_weight, expected in (("analytic", PROVEN), (50.0, ASSUMED)):
        calibration = example_histories.calibrate_on_simulated_log(
            example_histories.SAFE, 300, 0.2, rng, test_weight=test_weight
        )
        last = dataclasses.replace(history.rounds[-1], calibration=calibration)
        changed = dataclasses.replace(history, rounds=(last,))
        assert find(changed, "test weight").status == expected


def test_a_bound_in_the_contexts_of_the_log_is_not_one_in_new_contexts():
    log = tether.Log([0.0] * 50, [-1.0] * 50, [-1.5] * 50, context=np.arange(50), max_ratio=2)
    source, context = np.repeat(["safe", "optimized"], 50), np.tile(np.arange(50), 2)
    draws = tether.Proposals([-1.0] * 100, [-1.5] * 100, context=context, source=source)
    analytic = tether.calibrate(log, draws, alpha=0.1, test_weight="analytic")
    stated = tether.calibrate(log, alpha=0.1, family="mix")
    for calibration, words in ((analytic, "A new context"), (stated, "that was stated")):
        last = dataclasses.replace(example("ten_rounds").rounds[-1], calibration=calibration)
        found = find(example_histories.make_history([last]), "test weight")
        assert found.status == ASSUMED
        assert words in found.explanation


def test_settings_add_assumptions():
    changed = dataclasses.replace(
        example("ten_rounds"), against="last", family="mix", missing="exclude"
    )
    assert find(changed, "last tethered policy").status == ASSUMED
    assert find(changed, "missing at random").status == ASSUMED
