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
    assert "! no threshold passes: 600 items leave" in text
    assert "0 of 3,000 calibration claims (0 %); nothing is left of 600 of 600 items" in text
    text = in_one_line(tether.crc(CLAIMS, alpha=0.2, weights=1 + RNG.random(600)))
    assert "effective sample size" in text
    assert "the promise of CRC does not hold" in text
    text = in_one_line(tether.gcrc(CLAIMS, alpha=0.2, groups=[0] * 597 + [1] * 3))
    assert "gCRC: one threshold per group" in text
    assert " group threshold passes items " in text
    assert " (pooled) inf no 3 " in text
    assert "pooled 1: too few items each" in text
    text = in_one_line(tether.ltt(CLAIMS, alpha=0.2))
    assert "confidence 0.9, procedure fixed_sequence" in text
