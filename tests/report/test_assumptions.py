import dataclasses

import numpy as np

from tests.report import example_histories
from tests.report.example_histories import Estimate, example
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
