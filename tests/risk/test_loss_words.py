"""Losses and promises in plain words."""

import numpy as np
import pytest

import tether
from tether.risk.claim_losses import CLAIM_LOSSES, FALSE_AMONG_SHOWN
from tether.risk.label_sweep import LABEL_LOSSES
from tether.risk.loss_words import LOSS_WORDS, named_loss

RNG = np.random.default_rng(5)
SCORES = RNG.random(1000)
TRUE = RNG.random(1000) < SCORES
CLAIMS = tether.Claims(SCORES, TRUE, np.arange(0, 1001, 5))


def test_every_loss_of_the_package_has_words():
    assert set(LOSS_WORDS) == {*CLAIM_LOSSES, FALSE_AMONG_SHOWN, *LABEL_LOSSES}


@pytest.mark.parametrize("method", [tether.gcrc, tether.ltt])
@pytest.mark.parametrize("loss", CLAIM_LOSSES)
def test_the_promise_names_the_loss_once(method, loss):
    found = method(CLAIMS, alpha=0.4, loss=loss)
    text = found.statement
    assert text.count(f"expected {LOSS_WORDS[loss]} ≤") == 1
    assert "expected loss" not in text
    assert "risk ≤" not in text
    assert LOSS_WORDS[loss] in " ".join(str(found).split())


def test_several_losses_each_have_theirs():
    both = tether.monotonized_crc(CLAIMS, alpha=0.4, loss=["fdr", "any_false"]).statement
    for loss in ("fdr", "any_false"):
        assert f"{loss}: expected {LOSS_WORDS[loss]} ≤" in both


def test_a_loss_of_ones_own_keeps_its_name():
    matrix = np.tile([0.3, 0.1, 0.0], (99, 1))
    found = tether.crc({"fdr": matrix}, alpha=0.2)
    assert found.statement.startswith("expected loss ≤")
    assert named_loss(found) == "fdr"


def test_the_promise_of_fdr_counts_items_that_show_nothing():
    scores, true = np.tile([0.9, 0.1], 100), np.tile([True, False], 100)
    scores[::40], true[::40] = 0.95, False  # of 5 items the best claim is false
    found = tether.gcrc(tether.Claims(scores, true, np.arange(0, 201, 2)), alpha=0.2)
    assert found.statement.startswith(
        "expected mean over all items of the share of an item's shown claims that are false (0 "
        "where nothing is shown) ≤ "
    )
    assert found.statement in " ".join(str(found).split())
    assert tether.Selection.from_dict(found.to_dict()).statement == found.statement


def test_another_loss_under_the_name_of_one_of_the_package_is_refused():
    with pytest.raises(ValueError, match="'miss' is the name of another loss than 'fdr'"):
        tether.gcrc({"miss": CLAIMS, "own": CLAIMS}, alpha=0.4)

    def any_false(supported, kept):
        return 0.1

    with pytest.raises(ValueError, match="a function called 'any_false'"):
        tether.gcrc(CLAIMS, alpha=0.4, loss=any_false)
    assert tether.gcrc({"fdr": CLAIMS}, alpha=0.4).loss == "fdr"
