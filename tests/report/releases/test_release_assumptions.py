"""What the promise of a release assumes."""

from tests.report.releases.example_releases import example, rendered
from tether.report.assumptions import ASSUMED, PROVEN
from tether.report.releases.release_assumptions import release_assumptions

LENGTH = "The length of a step does not depend on its losses"
OLD_ROWS = "The number of the old system's rows was fixed without looking at their losses"


def _statuses(name):
    return {each.title: each.status for each in release_assumptions(example(name))}


def test_who_ends_the_steps_decides_whether_their_length_is_assumed():
    assert _statuses("ramp")[LENGTH] == ASSUMED
    assert _statuses("two_guardrails")[LENGTH] == PROVEN
    assert LENGTH not in _statuses("confident")


def test_a_confidence_needs_no_fixed_number_of_rows():
    assert OLD_ROWS in _statuses("ramp")
    assert OLD_ROWS not in _statuses("confident")


def test_all_are_on_the_page():
    for title in _statuses("ramp"):
        assert title.replace("'", "&#x27;") in rendered("ramp")
