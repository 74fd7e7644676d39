import dataclasses

import pytest

from tests.report.example_histories import example
from tether.report.number_format import format_number
from tether.report.sentences import (
    as_sentence,
    list_rounds,
    promise_sentences,
    round_label,
    run_promise,
    run_state,
)

STATES = {
    "empty": ("empty", "No round has started yet."),
    "one_safe_round": ("safe", "Round 1 uses the safe policy only."),
    "ten_rounds": ("running", "Round 10 follows biopsy-model-10 up to beta = 0.765."),
    "active_alarm": ("alarm", "The safe policy has been in use since an alarm in round 10."),
    "infinite_then_no_beta": ("safe", "Round 3 uses the safe policy only."),
    "infinite_beta": ("running", "Round 2 uses biopsy-model-2 without restriction."),
}


@pytest.mark.parametrize("example_name", STATES)
def test_the_state_of_a_run(example_name):
    state = run_state(example(example_name))
    assert (state.kind, state.sentence) == STATES[example_name]


def test_the_state_names_the_monitor_and_the_time_of_an_alarm():
    assert run_state(example("active_alarm")).details == (
        "The shift monitor raised it on 12 January 2026, 09:30 UTC with the message “the "
        "distribution of contexts has changed”. It stays active until a person clears it and gives "
        "a reason."
    )


def test_a_retired_round_uses_the_safe_policy_and_promises_nothing():
    history = example("ten_rounds")
    last = dataclasses.replace(history.rounds[-1], retired=True)
    retired = dataclasses.replace(history, rounds=(*history.rounds[:-1], last))
    assert run_state(retired).kind == "safe"
    assert run_promise(retired) == promise_sentences(None)
    assert run_promise(history) == promise_sentences(history.rounds[-1].calibration)
    assert run_promise(example("active_alarm")) == promise_sentences(None)


def test_a_policy_named_after_its_round_is_not_repeated():
    history = example("ten_rounds")
    last = dataclasses.replace(history.rounds[-1], policy="round 10")
    state = run_state(dataclasses.replace(history, rounds=(*history.rounds[:-1], last)))
    assert state.sentence == "Round 10 follows the optimized policy up to beta = 0.765."
    assert round_label(last) == "Round 10"
    assert round_label(history.rounds[0]) == "Round 1, safe policy"
    assert round_label(history.rounds[1]) == "Round 2, biopsy-model-2"


def test_the_promise_of_a_calibration():
    calibration = example("ten_rounds").rounds[-1].calibration
    promise, explanation = promise_sentences(calibration)
    assert promise == f"The expected loss of the next action is at most {calibration.promise:.4g}."
    assert "alpha = 0.1, plus" in explanation
    assert "excess of the safe policy" in explanation
    assert f"ε̂ = {format_number(calibration.stability)}," in explanation


def test_without_a_passing_beta_nothing_is_promised():
    failing = example("infinite_then_no_beta").rounds[-1].calibration
    assert promise_sentences(failing)[0] == "No promise: no beta passes."
    assert promise_sentences(None)[0] == "No promise from calibration applies."


def test_long_lists_of_rounds_are_cut():
    assert list_rounds(range(1, 15)) == "rounds 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 2 more"


@pytest.mark.parametrize(
    ("text", "sentence"), [("", ""), ("why not?", "Why not?"), (" it is ", "It is.")]
)
def test_a_text_becomes_a_sentence(text, sentence):
    assert as_sentence(text) == sentence
