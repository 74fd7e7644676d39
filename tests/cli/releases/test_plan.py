"""`tether release plan`."""

import json

import pytest

from tests.cli.command_line import one_line, run
from tether.release import Guardrail
from tether.release.first_step_plan import plan_first_step
from tether.release.old_rows_needed import old_fails_probability


def test_it_says_how_many_rows_to_begin_with():
    done = run("release", "plan", "--guardrail", "complaint=0.02", "--promise")
    assert done.exit_code == 0
    lines = done.output.splitlines()
    assert lines[0] == (
        "Rows of the old system for a promise of 0.02 for complaint, if its risk is 0.01:"
    )
    assert lines[2].split() == ["157", "0", "79.4%"]
    assert "1,600       23                3.6%" in lines
    assert lines[-1].startswith("Begin with 1,600 or more")


def test_several_guardrails_with_risks_of_their_own_as_json():
    done = run(
        "release", "plan", "--guardrail", "complaint=0.02", "--guardrail", "cost=0.1:5",
        "--old-risk", "cost=0.02", "--json",
    )  # fmt: skip
    plans = json.loads(done.output)
    assert list(plans) == ["complaint", "cost"]
    assert (plans["complaint"]["risk"], plans["cost"]["risk"]) == (0.01, 0.02)
    found = plan_first_step(Guardrail(0.1, bound=5.0), 0.02)
    assert plans["cost"]["enough"] == found.enough
    assert [each["rows"] for each in plans["cost"]["planned"]] == [e.rows for e in found.planned]


def test_a_risk_at_what_is_tolerated_has_no_plan():
    done = run("release", "plan", "--guardrail", "x=0.02", "--old-risk", "x=0.02")
    assert done.exit_code == 0
    assert "No number of rows is enough" in one_line(done)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--old-risk", "y=0.1"], "--old-risk must name guardrails ['x'], got ['y']"),
        (["--old-risk", "x=1.2"], "--old-risk x must be at least 0 and below 1, got 1.2"),
        (["--old-risk", "x=nan"], "--old-risk x must be"),
        (["--promise=0.1"], "--promise takes no value"),
    ],
)
def test_wrong_options(options, message):
    done = run("release", "plan", "--guardrail", "x=0.02", *options)
    assert done.exit_code == 2
    assert message in one_line(done)


def test_the_rows_of_a_plan_have_the_probability_that_is_stated():
    limit = Guardrail(promise=0.05)
    plan = plan_first_step(limit)
    assert plan.risk == 0.025
    assert [each.fails for each in plan.planned] == [
        old_fails_probability(limit, each.rows, 0.025) for each in plan.planned
    ]
    assert plan.least == plan.planned[0].rows
    assert plan.planned[0].most_losses >= 0
