"""The state and the promise of a release in sentences."""

import re

import pytest

import tether
from tests.report.releases.example_releases import example, rendered
from tether.report.page_opening import STATE_ICONS
from tether.report.releases.release_sentences import (
    format_share,
    release_promise,
    release_state,
    window_text,
)


@pytest.mark.parametrize(
    ("name", "kind", "sentence", "details"),
    [
        (
            "started",
            "safe",
            "The old system answers all keys in step 1.",
            "This step collects",
        ),
        ("ramp", "running", "The new system answers", "Why this share: 1,000 rows of step 5."),
        ("above_tolerated", "held", "The new system answers", "Why this share: "),
        ("confident", "running", "The new system answers", "Why this share: all rows so far."),
        ("active_alarm", "alarm", "The old system has answered all keys since", "The risk monitor"),
        ("cleared_alarm", "safe", "since an alarm ended step 1", "a new ramp begins"),
        ("cleared_after_a_step", "safe", "answers all keys in step 2", "a new ramp begins"),
    ],
)
def test_states(name, kind, sentence, details):
    state = release_state(example(name))
    assert state.kind == kind
    assert sentence in state.sentence
    assert details in state.details


def test_a_release_that_does_not_run_is_not_held_back_though_it_has_a_warning():
    """The old system alone does not pass: it answers all keys, and the warning says so."""
    old = {"complaint": [1.0] * 30 + [0.0] * 70}
    with tether.Release("sqlite://", {"complaint": 0.1}, old=old) as release:
        state = release_state(release.history())
    assert state.kind == "safe"
    assert state.notes


def test_every_state_but_running_has_a_colour_of_its_own():
    rules = re.findall(r"^(\.state\..*) \{ (.*) \}$", rendered("ramp"), re.MULTILINE)
    styles = {name: style for names, style in rules for name in names.split(", ")}
    assert styles.keys() == {f".state.{kind}" for kind in STATE_ICONS.keys() - {"running"}}
    assert styles[".state.held"] not in (styles[".state.safe"], styles[".state.alarm"])


def test_no_alarm_is_said_to_stand_after_it_was_cleared():
    page = rendered("cleared_after_a_step")
    assert "alarm 1 stood when the step began" in page
    assert "alarm 1 stands" not in page.lower()
    assert not example("ramp").is_resumed
    assert not example("active_alarm").is_resumed


def test_the_terms_of_the_promise_are_explained():
    history = example("ramp")
    stated, explained = release_promise(history)
    terms = history.steps[-1].calibration.guardrails["complaint"]
    assert stated == (
        f"In step 6 the expected loss (complaint) of a key is at most {terms.promise:.3g}."
    )
    assert f"alpha = 0.02, plus {terms.stability:.3g} for choosing the share" in explained
    assert "(existence)" in explained
    stated, explained = release_promise(example("two_guardrails"))
    assert "is at most: complaint 0.05, refund 0.2." in stated
    assert explained.startswith("That of refund, which limits the share, is alpha")


def test_a_promise_with_confidence():
    stated, _ = release_promise(example("confident"))
    assert stated == (
        "With probability at least 0.9, in this and all other steps the expected loss "
        "(complaint) of a key is at most 0.05."
    )


def test_nothing_is_promised_while_the_new_system_answers_no_keys():
    for name in ("started", "active_alarm", "cleared_alarm", "hostile_names"):
        assert release_promise(example(name))[0].startswith("No promise applies")


def test_the_window_of_a_step():
    steps = example("ramp").steps
    assert [window_text(step, None) for step in steps[:3]] == ["–", "step 1", "step 2"]
    assert window_text(steps[0], 0.9) == "all rows before"
    assert format_share(0.12345) == "12.3\N{NO-BREAK SPACE}%"
