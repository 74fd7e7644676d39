"""Text where numbers are expected."""

import numpy as np
import pandas as pd
import pytest

import tether
from tether._core.validate import loss_hint, number_hint, reward_hint


def test_decimal_commas_and_words_get_a_hint_and_nothing_else_does():
    assert number_hint("-1,25") == ": write decimals with a point, -1.25"
    assert number_hint("1.25") == number_hint("a,b") == number_hint(3.0) == ""
    assert loss_hint([0.0, 1, None]) == ""
    assert loss_hint(["0,5", "1,0"]).endswith("a point, 0.5")
    assert loss_hint(["ok", "bad", "ok"]).endswith("that does not (here: 'ok', 'bad')")
    assert reward_hint(["ok", "bad"]).endswith(
        "means success and 0 for the one that does not (here: 'ok', 'bad')"
    )
    assert number_hint("2.5%") == ": write 2.5% as 0.025"
    assert number_hint("2,5") == ": write decimals with a point, 2.5"
    assert number_hint("much") == number_hint(2.5) == ""


@pytest.mark.parametrize("missing", ["", " ", "NaN", "n/a", None, float("nan"), pd.NA])
def test_values_without_a_word_are_missing_and_not_harmless(missing):
    hint = loss_hint(["no", missing, "yes", "no"])
    assert "(here: 'no', 'yes'); 1 of 4 values is missing, which is not harmless" in hint
    rows = dict(safe=tether.Gaussian(0.0), optimized=tether.Gaussian(1.0), contexts=None)
    with pytest.raises(TypeError, match=r"'yes'\); 10 of 40 values are missing, .* do not write 0"):
        tether.make_log(**rows, actions=np.zeros(40), losses=["no", missing, "yes", "no"] * 10)


@pytest.mark.parametrize("given", [[True, None, False] * 10, [1.0, None, 0.0] * 10])
def test_gaps_among_booleans_and_numbers_get_the_same_advice(given):
    with pytest.raises(ValueError, match="count a missing loss as the largest possible one"):
        tether.Log(given, np.zeros(30), np.zeros(30))


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (["0", "1", "", "1"], "this is text; convert it to numbers"),
        ([1, 2, 2, 1], "all are 1 or 2: if these are codes of two outcomes, write 1 for the harm"),
        ([-1, 1, 1, -1], "all are -1 or 1: if these are codes"),
        ([-1, 0, 1, 0], "if -1 is the code of a missing outcome, count a missing loss as"),
        ([0, 2, 1, 0], "pass a larger bound="),
    ],
)
def test_codes_and_numbers_in_text_are_told(values, told):
    with pytest.raises((TypeError, ValueError), match=told) as error:
        tether.calibrate(tether.Log(values, np.zeros(4), np.zeros(4)), alpha=0.5)
    assert ("larger bound" in str(error.value)) == ("larger bound" in told)


def test_words_of_a_reward_and_a_promise_in_percent_are_told():
    with pytest.raises(TypeError, match=r"reward .* write 1 for the word that means success"):
        tether.Log([0, 1], np.zeros(2), np.zeros(2), reward=["no", "yes"])
    log = tether.Log([0, 1], np.zeros(2), np.zeros(2))
    with pytest.raises(
        TypeError, match=r"promise must be a number, got '2.5%': write 2.5% as 0.025"
    ):
        tether.calibrate(log, promise="2.5%")


def test_columns_of_other_lengths_are_named_as_they_were_passed():
    given = dict(safe=tether.Gaussian(0.0), optimized=tether.Gaussian(1.0), contexts=None)
    given |= dict(actions=np.zeros(3), losses=np.zeros(3))
    for name, value in (("losses", [0] * 4), ("rewards", np.zeros(4)), ("losses", {"a": [0] * 4})):
        with pytest.raises(ValueError, match=rf"{name}.* has 4 rows but actions has 3"):
            tether.make_log(**(given | {name: value}))


@pytest.mark.parametrize("words", [["yes", "no"] * 20, np.array(["ok", "bad"] * 20)])
def test_losses_that_are_words_are_refused_with_what_to_do(words):
    rng = np.random.default_rng(0)
    safe, optimized = tether.Gaussian(0.0), tether.Gaussian(1.0)
    hint = "loss must hold real numbers, .* write 1 for the word that means harm"
    with pytest.raises(TypeError, match=hint):
        tether.make_log(safe, optimized, None, safe.sample(40, rng), words)
    with pytest.raises(TypeError, match=r"old\['harm'\] must hold numbers, .* means harm"):
        tether.Release("sqlite://", {"harm": 0.02}, old={"harm": words})
    with tether.Release("sqlite://", {"harm": 0.02}) as release:
        release.assign([f"k{i}" for i in range(40)])
        with pytest.raises(TypeError, match=r"losses\['harm'\] must hold .* means harm"):
            release.observe([f"k{i}" for i in range(40)], {"harm": words})


def test_old_losses_in_percent_are_told():
    with pytest.raises(ValueError, match="with values up to 99: are these percentages"):
        tether.Release("sqlite://", {"harm": 0.02}, old={"harm": np.arange(100.0)})
    with pytest.raises(ValueError, match=r"per key, got a ndarray .*starting with -1") as told:
        tether.Release("sqlite://", {"harm": 0.02}, old={"harm": np.arange(-1.0, 2.0)})
    assert "percent" not in str(told.value)


def test_a_percentage_as_text_is_told_how_it_is_written():
    with pytest.raises(TypeError, match=r"alpha must be a number, got '3%': write 3% as 0.03"):
        tether.Release("sqlite://", {"failed": "3%"})
