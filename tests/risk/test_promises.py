"""What each method promises, as a number and in words."""

import numpy as np
import pytest

import tether

RNG = np.random.default_rng(11)
SCORES = RNG.random(3000)
CLAIMS = tether.Claims(SCORES, RNG.random(3000) < SCORES, np.arange(0, 3001, 5))


def test_a_monotone_loss_is_promised_alpha():
    for method in (tether.gcrc, tether.crc):
        found = method(CLAIMS, alpha=0.5, loss="any_false")
        assert found.monotone
        assert found.statement.startswith(
            "expected share of all items that show a false claim ≤ 0.5, for exchangeable items"
        )
    weighted = tether.gcrc(
        CLAIMS, alpha=0.5, loss="any_false", weights=np.ones(600), test_weight=1.0
    )
    assert "exchangeable after weighting" in weighted.statement


def test_crc_names_the_nonmonotone_items():
    claims = tether.Claims([0.9, 0.8, 0.9, 0.8, 0.9, 0.9], [1, 0, 0, 1, 0, 0], [0, 2, 4, 5, 6])
    found = tether.crc(claims, alpha=0.5)
    assert (found.n_nonmonotone, found.nonmonotone_items) == (1, (1,))
    assert "the loss 'fdr' of 1 of 4 items falls" in found.warnings[0]
    assert "(items 1)" in found.warnings[0]
    assert found.statement == "none: the losses are not monotone in the threshold"


def test_an_unused_lipschitz_constant_is_a_warning():
    with pytest.raises(ValueError, match="lipschitz = 2 needs measure_stability=True"):
        tether.gcrc(CLAIMS, alpha=0.2, lipschitz=2, measure_stability=False)
    data = tether.ScoredLabels(SCORES, SCORES > 0.5)
    for reason, found in {
        "weighted": tether.gcrc(CLAIMS, alpha=0.2, lipschitz=2, weights=np.ones(600)),
        "several": tether.gcrc(CLAIMS, alpha=0.5, lipschitz=2, loss=["fdr", "any_false"]),
        "a rate among the selected": tether.gcrc(data, [0.6, 0.7], alpha=0.5, lipschitz=2),
        "a stream": tether.gcrc(iter([np.zeros((30, 2))]), alpha=0.5, lipschitz=2),
    }.items():
        assert f"is not used: no stability is measured for {reason}" in found.warnings[-1]


def test_the_promise_is_a_number():
    for found in (
        tether.gcrc(CLAIMS, alpha=0.5, loss="any_false"),
        tether.crc(CLAIMS, alpha=0.5, loss="any_false"),
        tether.monotonized_crc(CLAIMS, alpha=0.5),
        tether.ltt(CLAIMS, alpha=0.5, confidence=0.8),
    ):
        assert (found.exists, found.promise) == (True, 0.5)
    found = tether.gcrc(CLAIMS, alpha=0.2, lipschitz=1.5)
    assert found.promise == pytest.approx(0.2 + 1.5 * found.stability)
    assert found.stability_term == pytest.approx(1.5 * found.stability)
    assert f"is shown) ≤ {found.promise:g} (alpha 0.2 + 0.0034 for the" in found.statement
    assert "1.5-Lipschitz in the threshold" in found.statement


def test_where_nothing_is_promised_the_promise_is_the_bound():
    losses = np.tile([0.1, 0.2, 0.1], (60, 1))
    data = tether.ScoredLabels(SCORES, SCORES > 0.5)
    for found, bound in (
        (tether.gcrc(losses, alpha=0.3, bound=2, measure_stability=False), 2),
        (tether.gcrc(losses, alpha=0.3, bound=2, weights=np.ones(60), lipschitz=1), 2),
        (tether.crc(losses, alpha=0.3), 1),
        (tether.crc(data, alpha=0.3), 1),
        (tether.gcrc(data, [0.5, 0.6], alpha=0.3), 1),
        (tether.gcrc(CLAIMS, alpha=0.0001), 1),
        (tether.ltt(CLAIMS, alpha=0.0001), 1),
    ):
        assert found.promise == found.bound == bound
        assert not found.useful


def test_the_promise_of_several_losses_is_that_of_the_binding_one():
    losses = {"cost": np.full((60, 2), 2.0), "harm": np.full((60, 2), 0.01)}
    found = tether.crc(losses, alpha=[3, 0.2], bound=[10, 1])
    assert (found.loss, found.alpha, found.promise) == ("cost", 3, pytest.approx(3))
    assert [part.promise for part in found.by_loss] == pytest.approx([3, 0.2])


def test_the_promise_of_groups_is_the_largest():
    losses = np.zeros((60, 3))
    losses[::2] = [0.1, 0.2, 0.1]
    found = tether.crc(losses, alpha=0.3, groups=np.arange(60) % 2)
    assert [part.promise for part in found.groups.values()] == pytest.approx([1, 0.3])
    assert found.promise == 1


def test_an_ellipsis_stands_for_further_items():
    losses = np.tile([0.1, 0.2], (6, 1))
    assert "(items 0, 1, 2, 3, 4, …)" in tether.crc(losses, alpha=0.5).warnings[0]
    assert "(items 0, 1, 2, 3, 4)" in tether.crc(losses[:5], alpha=0.5).warnings[0]


@pytest.mark.parametrize("method", [tether.gcrc, tether.crc, tether.monotonized_crc])
def test_nothing_is_promised_where_future_items_may_weigh_more_than_all_that_were_seen(method):
    """A kind of items of share 0.0025 here and 0.3 later: 0.1 was promised and 0.22 deployed."""
    weights = {"weights": np.linspace(0.5, 1.0, 600), "loss": "any_false"}
    assumed = method(CLAIMS, alpha=0.5, **weights)
    assert assumed.exists
    assert not assumed.useful
    assert assumed.promise == 1
    assert "pass test_weight" in assumed.statement
    assert not method(CLAIMS, promise=0.5, **weights).exists
    stated = method(CLAIMS, alpha=0.5, **weights, test_weight=1.0)
    assert stated.useful
    assert stated.threshold == assumed.threshold


def test_crc_promises_no_share_of_false_claims_though_none_of_these_items_shows_why():
    """A rare answer with a false claim on top is in no set, and costs as much as all the others.

    The promise would be 0.1, and 0.116 is deployed on the sets without such an answer.
    """
    rng = np.random.default_rng(0)
    first, true = rng.random(29), rng.random(29) < 0.5
    scores = np.stack([first, first - 2], axis=1).ravel()
    supported = np.stack([true, np.zeros(29, dtype=bool)], axis=1).ravel()
    claims = tether.Claims(scores, supported, range(0, 59, 2))
    found = tether.crc(claims, alpha=0.1)
    assert found.exists
    assert (found.monotone, found.n_nonmonotone) == (False, 0)
    assert (found.promise, found.useful) == (1.0, False)
    assert "can fall as the threshold gets bolder, although it does for none" in found.warnings[0]
    stable = tether.gcrc(claims, alpha=0.1)
    assert (stable.threshold, stable.promise) == (found.threshold, pytest.approx(0.1))
    assert "any losses in [0, 1]" in stable.statement
    assert not tether.gcrc(claims, alpha=0.1, measure_stability=False).useful


def test_where_each_item_has_one_claim_the_share_is_monotone():
    rng = np.random.default_rng(0)
    claims = tether.Claims(rng.random(50), rng.random(50) < 0.5, range(51))
    for loss in ("fdr", "any_false"):
        found = tether.crc(claims, alpha=0.1, loss=loss)
        assert (found.monotone, found.promise) == (True, 0.1)
    pairs = tether.Claims(rng.random(50), rng.random(50) < 0.5, range(0, 51, 2))
    assert tether.crc(pairs, alpha=0.1, loss="any_false").monotone
    assert tether.crc(pairs, alpha=0.3, loss="miss").monotone
