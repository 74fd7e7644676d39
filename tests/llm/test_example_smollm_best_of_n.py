"""What the worked example says of best of N, in a world where it can be counted."""

import itertools

import numpy as np
import pytest
from examples.smollm import best_of_n, texts

import tether

LOSS, WORDS = np.array([0.0, 1.0, 0.0, 0.0, 1.0]), np.array([1.0, 4.0, 2.0, 3.0, 5.0])
DRAWS = {"subject": np.array([0, 0, 0, 1, 1]), "loss": LOSS, "words": WORDS}


@pytest.mark.parametrize("beta", [0.3, 1.0, np.inf])
def test_a_deployed_shortlist_is_what_counting_says(beta):
    shortlist = tether.Shortlist(
        best_of_n.Pool(DRAWS, np.arange(5)), lambda contexts, drawn: WORDS[drawn], size=2
    )
    rates, words = [], []
    for pool in ([0, 1, 2], [3, 4]):
        for pair in itertools.product(pool, repeat=2):
            picked = np.exp(WORDS[list(pair)])
            picked = np.minimum(picked / picked.sum(), beta / 2)
            picked /= picked.sum()
            rates.append((picked @ LOSS[list(pair)], 1 / len(pool) ** 2))
            words.append((picked @ WORDS[list(pair)], 1 / len(pool) ** 2))
    expected = [sum(value * weight for value, weight in each) / 2 for each in (rates, words)]
    subjects = np.tile([0, 1], 20_000)
    policy = shortlist.tethered(beta)
    found = best_of_n.deployed(DRAWS, policy, subjects, np.random.default_rng(0))
    assert found == pytest.approx(expected, rel=0.02)


def test_sentences_of_a_text_are_its_finished_lines():
    assert texts.sentence_lengths(" bark.\nCats are here.\nHalf a", cut_off=True) == [1, 3]
    assert texts.sentence_lengths(" bark.\n\nCats are here.", cut_off=False) == [1, 3]
    assert texts.sentence_lengths(" never a line", cut_off=True) == [3]
    long = " ".join(["word"] * (texts.MAX_WORDS + 1))
    drawn = {"text": np.array([" bark.", f" bark.\n{long}"]), "cut_off": np.array([False, False])}
    assert texts.judged(drawn)["loss"].tolist() == [0.0, 0.5]
