import dataclasses

import numpy as np

from tests.report import example_histories
from tests.report.example_histories import Estimate, example
from tether.report.assumptions import (
    ASSUMED,
    CHECKED,
    DOUBTFUL,
    PARTLY_CHECKED,
    assumptions,
)


def find(history, part_of_title):
    (assumption,) = [item for item in assumptions(history) if part_of_title in item.title]
    return assumption


def test_losses_within_their_bound_are_always_checked():
    assert find(example("ten_rounds"), "Losses lie between 0 and 1").status == CHECKED


def test_pending_losses_leave_their_arrival_partly_checked():
    pending = find(example("ten_rounds"), "Every loss")
    assert (pending.status, pending.explanation) == (PARTLY_CHECKED, "86 losses are pending.")
    assert find(example("two_hundred_rounds"), "Every loss").status == CHECKED


def test_a_safe_policy_with_a_risk_above_alpha_is_doubtful_and_listed_first():
    title = "safe policy's risk"
    history = example("ten_rounds")
    assert find(history, title).status == PARTLY_CHECKED
    assert find(example("empty"), title).status == ASSUMED
    risky = dataclasses.replace(history, safe_loss=Estimate(500, 0.2, 0.15, 0.25))
    doubtful = find(risky, title)
    assert doubtful.status == DOUBTFUL
    assert doubtful.explanation == "Its mean loss is 0.2 (0.15 to 0.25) over 500 losses."
    assert assumptions(risky)[0] == doubtful


def test_the_status_of_the_test_weight_follows_the_latest_calibration():
    history = example("ten_rounds")
    assert "no rows of 1,650 have a larger ratio" in find(history, "test weight").explanation
    rng = np.random.default_rng(0)
    for test_weight, expected in (("analytic", CHECKED), (50.0, ASSUMED)):
        calibration = example_histories.calibrate_on_simulated_log(
            example_histories.SAFE, 300, 0.2, rng, test_weight=test_weight
        )
        last = dataclasses.replace(history.rounds[-1], calibration=calibration)
        changed = dataclasses.replace(history, rounds=(last,))
        assert find(changed, "test weight").status == expected


def test_settings_add_assumptions():
    changed = dataclasses.replace(
        example("ten_rounds"), against="last", family="mix", missing="exclude"
    )
    assert find(changed, "last tethered policy").status == ASSUMED
    assert find(changed, "missing at random").status == ASSUMED
    normalizers = find(changed, "Normalizing constants").explanation
    assert normalizers == "This family needs no normalizing constants."
