"""Losses and promises in plain words."""

import numpy as np
import pytest

import tether
from tether.risk.claim_losses import CLAIM_LOSSES
from tether.risk.label_sweep import LABEL_LOSSES
from tether.risk.loss_words import LOSS_WORDS, named_loss, promise_in_words

RNG = np.random.default_rng(5)
SCORES = RNG.random(1000)
TRUE = RNG.random(1000) < SCORES
CLAIMS = tether.Claims(SCORES, TRUE, np.arange(0, 1001, 5))


def test_every_loss_of_the_package_has_words():
    assert set(LOSS_WORDS) == {*CLAIM_LOSSES, *LABEL_LOSSES}


@pytest.mark.parametrize("method", [tether.gcrc, tether.ltt])
@pytest.mark.parametrize("loss", CLAIM_LOSSES)
def test_the_promise_names_the_loss_once(method, loss):
    found = method(CLAIMS, alpha=0.4, loss=loss)
    text = promise_in_words(found)
    assert text.count(f"expected {LOSS_WORDS[loss]} ≤") == 1
    assert "expected loss" not in text
    assert "risk ≤" not in text
    assert LOSS_WORDS[loss] in " ".join(str(found).split())


def test_several_losses_each_have_theirs():
    both = promise_in_words(tether.monotonized_crc(CLAIMS, alpha=0.4, loss=["fdr", "any_false"]))
    for loss in ("fdr", "any_false"):
        assert f"{loss}: expected {LOSS_WORDS[loss]} ≤" in both


def test_a_loss_of_ones_own_keeps_its_name():
    matrix = np.tile([0.3, 0.1, 0.0], (99, 1))
    found = tether.crc({"fdr": matrix}, alpha=0.2)
    assert promise_in_words(found) == found.statement
    assert named_loss(found) == "fdr"
