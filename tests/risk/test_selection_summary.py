import numpy as np

import tether

RNG = np.random.default_rng(11)
SCORES = RNG.random(3000)
CLAIMS = tether.Claims(SCORES, RNG.random(3000) < SCORES, np.arange(0, 3001, 5))


def in_one_line(found):
    """The summary, whatever the line breaks."""
    return " ".join(str(found).split())


def test_the_summary_says_what_matters():
    text = in_one_line(tether.gcrc(CLAIMS, alpha=0.2, lipschitz=1.5))
    assert "gCRC: keep what scores at least 0." in text
    assert "600 items, 3,001 candidate thresholds" in text
    assert "not monotone in the threshold" in text
    assert "for the stability of the threshold, estimated from these items)" in text
    assert "replacing one item moves the threshold by" in text
    text = in_one_line(tether.gcrc(CLAIMS, alpha=0.001))
    assert "no threshold passes at alpha 0.001" in text
    assert "! no threshold passes: with 600 items the" in text
    assert "0 of 3,000 calibration claims (0 %); nothing is left of 600 of 600 items" in text
    text = in_one_line(tether.crc(CLAIMS, alpha=0.2, weights=1 + RNG.random(600)))
    assert "effective sample size" in text
    assert "the promise of CRC does not hold" in text
    text = in_one_line(tether.gcrc(CLAIMS, alpha=0.2, groups=[0] * 597 + [1] * 3))
    assert "gCRC: one threshold per group" in text
    assert " group threshold items " in text
    assert " (pooled) inf 3 " in text
    assert "pooled 1: too few items each" in text
    text = in_one_line(tether.ltt(CLAIMS, alpha=0.2))
    assert "confidence 0.9, procedure fixed_sequence" in text


def test_a_threshold_beyond_all_scores_and_single_items_are_said_in_words():
    nothing = tether.gcrc(tether.Claims([0.9, 0.8], [0, 0], [0, 1, 2]), alpha=0.5)
    assert np.isinf(nothing.threshold)
    assert nothing.exists
    text = in_one_line(nothing)
    assert text.startswith("gCRC: keeps nothing")
    assert "at least inf" not in text
    one = in_one_line(tether.gcrc(tether.Claims([0.9], [1], [0, 1]), alpha=0.6))
    assert "of 1 calibration claim (" in one
    assert "on 1 item, 2 candidate thresholds" in one
    assert "from 1 item only" in in_one_line(
        tether.gcrc(tether.Claims([0.9, 0.5], [0, 1], [0, 2]), alpha=0.6)
    )


def test_a_stability_without_a_number_is_said_in_words():
    found = tether.gcrc(CLAIMS.take(range(8)), alpha=0.2)
    assert np.isinf(found.stability)
    text = in_one_line(found)
    assert "moves the threshold by inf" not in text
    assert "replacing one item can move the threshold beyond all scores; what this adds to" in text
    assert f"to the loss is counted, as {found.stability_term:.2g}" in text


def test_a_group_without_a_useful_promise_is_refused_by_name():
    found = tether.gcrc(CLAIMS, alpha=0.2, groups=["a"] * 400 + ["b"] * 197 + ["tiny"] * 3)
    assert not found.useful
    assert found.serves
    assert found.refused_groups == ("tiny",)
    assert "refused tiny: no useful promise" in in_one_line(found)
    assert "promise useful in 2 of 3 groups: within each group" in in_one_line(found)
    none = tether.gcrc(CLAIMS, alpha=0.001, groups=np.arange(600) % 2)
    assert not none.serves
    assert none.refused_groups == ("0", "1")
    assert "promise no useful promise in any group: within" in in_one_line(none)
    many = tether.gcrc(CLAIMS, alpha=0.2, groups=np.r_[[0] * 500, np.arange(1, 101)])
    assert "10, 11, 12 and 88 more: too few items each" in in_one_line(many)
    assert tether.gcrc(CLAIMS, alpha=0.2).refused_groups == ()
    assert tether.gcrc(CLAIMS, alpha=0.2).serves
