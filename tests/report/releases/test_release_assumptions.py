"""What the promise of a release assumes."""

from dataclasses import replace

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


def test_how_late_a_share_follows_depends_on_wait():
    """Step t uses the rows of step t - 1 - wait, or those of all steps up to it."""

    def explained(name, wait):
        found = release_assumptions(replace(example(name), wait=wait))
        return " ".join(each.explanation for each in found)

    at_once, waits = explained("ramp", 0), explained("ramp", 1)
    assert "its share follows one step later; until then only the monitor" in at_once
    assert "whose rows decide its share: the one before, or an earlier one" in at_once
    assert "its share follows 2 steps later; until then only the monitor" in waits
    assert "whose rows decide its share: the one 2 steps before, or an earlier one" in waits
    assert "one step later" not in waits
    confident = explained("confident", 1)
    assert "like those of all steps before it but the last, whose rows decide" in confident
    assert "follows 2 steps later, and slowly, since all rows before count too" in confident


def test_the_steps_that_decide_are_those_that_the_assumptions_name():
    for name in ("ramp", "two_guardrails"):
        history = example(name)
        used = [step for step in history.steps if step.window]
        assert used
        assert all(step.window <= step.number - 1 - history.wait for step in used)
        assert any(step.window == step.number - 1 - history.wait for step in used)
