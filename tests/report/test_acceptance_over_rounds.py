from tests.report.example_histories import example
from tether.report.acceptance_over_rounds import acceptance_chart
from tether.report.number_format import format_percent


def test_calibrated_rounds_are_shown_with_their_acceptance_rates():
    history = example("ten_rounds")
    chart = acceptance_chart(history)
    assert chart.rounds == list(range(2, 11))
    latest = format_percent(history.rounds[-1].calibration.acceptance)
    assert chart.alternative == f"Acceptance rate over 9 rounds, latest {latest}."
    assert chart.tips[-1] == f"Round 10: {latest} of draws accepted"


def test_without_calibrations_there_is_nothing_to_show():
    assert not acceptance_chart(example("one_safe_round")).tips
