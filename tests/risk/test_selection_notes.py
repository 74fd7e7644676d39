"""What a selection says of items that show nothing, and of scores that many claims share."""

import numpy as np
import pytest

import tether


def test_the_share_among_items_that_show_something_by_hand():
    """100 items of two claims; half of them score low, and each shown item has one false claim."""
    scores = np.array([[0.9, 0.8], [0.1, 0.1]] * 50).ravel()
    supported = np.array([[1, 0], [0, 0]] * 50).ravel()
    claims = tether.Claims(scores, supported, np.arange(0, 201, 2))
    found = tether.gcrc(claims, [0.5, 2.0], alpha=0.3)
    assert found.threshold == 0.5
    assert found.risk == pytest.approx((50 * 0.5 + 1) / 101)
    text = " ".join(str(found).split())
    assert "among the 50 items that show something the mean share of false claims is 0.5;" in text
    assert any("nothing is left of 50 of 100 items (50%)" in each for each in found.warnings)
    assert "show something" in " ".join(str(tether.ltt(claims, [0.5, 2.0], alpha=0.4)).split())


@pytest.mark.parametrize("method", [tether.gcrc, tether.ltt])
def test_the_share_among_items_that_show_something_adds_up_over_groups(method):
    """Every shown item has one false claim of two, in groups with different risks."""
    scores = np.concatenate([np.tile([0.9, 0.8, 0.1, 0.1], 100), np.tile([0.9, 0.8] * 3, 50)])
    scores[-50:] = 0.1
    claims = tether.Claims(scores, [1, 0] * 350, np.arange(0, 701, 2))
    groups = np.repeat(["a", "b"], [200, 150])
    found = method(claims, [0.5, 2.0], alpha=0.6, groups=groups)
    assert len({part.risk for part in found.groups.values()}) == 2
    text = " ".join(str(found).split())
    assert "among the 225 items that show something the mean share of false claims is 0.5;" in text


def test_where_every_item_shows_something_nothing_is_said():
    rng = np.random.default_rng(0)
    scores = np.sort(rng.random((200, 4)), axis=1)
    claims = tether.Claims(scores.ravel(), scores.ravel() > 0.1, np.arange(0, 801, 4))
    found = tether.gcrc(claims, alpha=0.2)
    assert "show something" not in str(found)
    assert not any("nothing is left" in each for each in found.warnings)


def test_a_score_that_many_claims_share_is_named_where_it_stops_the_walk():
    rng = np.random.default_rng(1)
    scores = np.where(rng.random(2000) < 0.04, 0.99, 0.9)
    supported = np.where(scores == 0.99, True, rng.random(2000) < 0.8)
    claims = tether.Claims(scores, supported, np.arange(0, 2001, 4))
    found = tether.gcrc(claims, promise=0.05)
    assert found.threshold == 0.99
    assert any(
        "the next lower score, 0.9, is shared by 9" in each
        and "the risk would be 0." in each
        and "a mean over all data, also those on which the threshold falls" in each
        for each in found.warnings
    )
    spread = tether.Claims(scores + 1e-3 * rng.random(2000), supported, claims.offsets)
    assert not any("next lower" in each for each in tether.gcrc(spread, promise=0.1).warnings)


def test_where_nothing_passes_no_alpha_is_said_to_pass():
    claims = tether.Claims([0.5] * 40, [0] * 40, np.arange(0, 41, 4))
    assert "up to alpha" not in str(tether.gcrc(claims, [0.1, 0.2], alpha=0.2))
