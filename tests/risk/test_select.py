import numpy as np
import pytest

import tether

CLAIMS = tether.Claims(np.arange(60) / 60, np.arange(60) % 3 > 0, range(0, 61, 3))
MATRIX = np.zeros((20, 3))
GROUPS = [0, 1] * 10
RNG = np.random.default_rng(7)
COST, HARM = RNG.random((2, 50, 5)) * np.linspace(0.5, 0.05, 5)


def test_names_alphas_and_bounds_go_together():
    found = tether.gcrc(
        {"cost": 10 * COST, "harm": HARM},
        alpha={"harm": 0.1, "cost": 2.0},
        bound={"cost": 10, "harm": 1},
    )
    parts = {part.loss: part for part in found.by_loss}
    assert (parts["cost"].alpha, parts["cost"].bound) == (2.0, 10)
    assert (parts["harm"].alpha, parts["harm"].bound) == (0.1, 1)
    assert found.threshold == max(
        tether.gcrc(10 * COST, alpha=2.0, bound=10).threshold,
        tether.gcrc(HARM, alpha=0.1).threshold,
    )
    assert found.risk / found.alpha == max(part.risk / part.alpha for part in found.by_loss)
    text = str(found)
    assert "cost: " in text
    assert "harm: " in text


def test_a_loss_that_fails_fails_all():
    found = tether.gcrc({"a": COST, "b": np.ones((50, 5))}, alpha=0.2)
    assert not found.exists
    assert found.warnings == ("no threshold passes for: b",)


@pytest.mark.parametrize("harm", [0.1, 0.2])
def test_the_loss_that_is_not_monotone_is_named(harm):
    """Whichever of the two binds."""
    dips = np.tile([0.1, 0.05, 0.12], (60, 1))
    found = tether.gcrc({"cost": dips, "harm": np.full((60, 3), harm)}, alpha=0.3)
    assert [part.monotone for part in found.by_loss] == [False, True]
    assert not found.monotone
    assert (found.n_nonmonotone, found.nonmonotone_items) == (60, (0, 1, 2, 3, 4))
    rows = [line.split()[:2] for line in str(found).splitlines()]
    assert ["cost", "no"] in rows
    assert ["harm", "yes"] in rows


def test_class_rates_with_different_candidates():
    data = tether.ScoredLabels(np.arange(200) / 200, np.arange(200) % 2)
    both = tether.crc(data, alpha=[0.2, 0.3], loss=["false_positive", "false_positive"])
    assert both.threshold == tether.crc(data, alpha=0.2, loss="false_positive").threshold
    mixed = tether.ltt(
        data, alpha=[0.4, 0.9], loss=["false_positive", "false_positive"], pvalue="betting"
    )
    assert mixed.exists


def test_labels_whose_candidates_differ_meet_at_one_threshold():
    scores, labels = RNG.random(300), RNG.random(300) < 0.5
    data = tether.ScoredLabels(scores, labels)
    swept = {
        "positive": tether.risk.sweep(data, loss="false_positive"),
        "claims": tether.risk.sweep(tether.Claims(scores, labels, range(301)), loss="any_false"),
    }
    found = tether.crc(swept, alpha=0.3)
    at = found.threshold
    assert found.by_loss[0].risk == pytest.approx(
        ((scores >= at) & ~labels).sum() / (~labels).sum(), abs=0.01
    )
    assert found.by_loss[1].risk == pytest.approx(((scores >= at) & ~labels).mean(), abs=0.01)


def test_miss_with_miss_takes_the_smaller_threshold():
    claims = tether.Claims(RNG.random(300), RNG.random(300) < 0.7, range(0, 301, 3))

    def alone(alpha):
        return tether.gcrc(claims, alpha=alpha, loss="miss").threshold

    both = tether.gcrc(claims, alpha=[0.1, 0.3], loss=("miss", "miss"))
    assert both.threshold == min(alone(0.1), alone(0.3)) < max(alone(0.1), alone(0.3))


def test_a_callable_among_several_keeps_its_name():
    def wrong(supported, kept):
        return float((kept & ~supported).any())

    claims = tether.Claims(RNG.random(300), RNG.random(300) < 0.9, range(0, 301, 3))
    found = tether.gcrc(claims, alpha=0.2, loss=["fdr", wrong])
    assert [part.loss for part in found.by_loss] == ["fdr", "wrong"]


@pytest.mark.parametrize(
    ("losses", "arguments", "message"),
    [
        ({}, {"alpha": 0.1}, "empty mapping"),
        ({"a": COST}, {"alpha": 0.1, "loss": "fdr"}, "cannot be passed with a mapping"),
        ({"a": COST, "b": HARM}, {"alpha": [0.1]}, "alpha must have one value per loss"),
        ({"a": COST, "b": HARM}, {"alpha": {"a": 0.1}}, "alpha must have the keys"),
        ({"a": COST, "b": HARM}, {"alpha": [0.1, 2]}, r"alpha\[1\] must be above 0 and below 1"),
        (tether.Claims([1], [1], [0, 1]), {"alpha": 0.1, "loss": []}, "loss is an empty list"),
        (
            tether.Claims([1], [1], [0, 1]),
            {"alpha": 0.1, "loss": ["fdr", "miss"]},
            "safest at opposite ends",
        ),
    ],
)
def test_bad_arguments_of_several_losses(losses, arguments, message):
    with pytest.raises(ValueError, match=message):
        tether.gcrc(losses, **arguments)


def test_an_alpha_that_no_threshold_passes_is_described():
    for method in (tether.gcrc, tether.crc, tether.monotonized_crc, tether.ltt):
        found = method(np.full((30, 3), 0.9), alpha=0.1)
        assert not found.exists
        assert found.threshold == 2  # the safest given
        assert "no threshold passes: the safest, 2, already fails" in found.warnings[-1]
        assert found.statement.startswith("none: no threshold passes")
    few = tether.gcrc(np.zeros((5, 3)), alpha=0.1)
    assert "with 5 items the conservative risk is at least 0.1667" in few.warnings[0]


def test_ties_in_floating_point_pass():
    found = tether.gcrc(np.full((10, 1), 0.23), alpha=0.3)  # (10·0.23 + 1)/11 = 0.3000…04
    assert found.exists


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha": 0}, "alpha must be above 0 and below 1, got 0"),
        ({"alpha": 1.0}, "alpha must be above 0 and below 1, got 1.0"),
        ({"alpha": "x"}, "alpha must be a number, got 'x'"),
        ({"alpha": 0.1, "bound": 0}, "bound must be above 0"),
        ({"alpha": 0.1, "loss": "fdr"}, "loss = 'fdr' is for Claims"),
        ({"alpha": 0.1, "bound": 1e308}, "sums of losses overflow"),
        ({"alpha": 0.1, "minimum_group_size": 3}, "minimum_group_size = 3 needs groups"),
        ({"alpha": 0.1, "lipschitz": -1}, "lipschitz must be above 0"),
    ],
)
def test_bad_arguments_of_a_matrix(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        tether.gcrc(np.zeros((4, 3)), **arguments)


def nothing(supported, kept):
    return None


@pytest.mark.parametrize(
    ("losses", "arguments", "message"),
    [
        (MATRIX, {"alpha": []}, r"alpha must be a number, got \[\]"),
        (MATRIX, {"alpha": [], "groups": GROUPS}, r"alpha is empty: .* got \[\]"),
        (MATRIX, {"alpha": {}, "groups": GROUPS}, "alpha is empty"),
        (MATRIX, {"alpha": None, "groups": GROUPS}, "pass exactly one of alpha"),
        (MATRIX, {"alpha": 0.1, "bound": None}, "bound must be a number, got None"),
        (MATRIX, {"alpha": 0.1, "bound": None, "groups": GROUPS}, "bound must be a number"),
        (CLAIMS, {"alpha": 0.1, "loss": np.zeros(3)}, "loss must be one of 'fdr'"),
        (CLAIMS, {"alpha": 0.1, "loss": {"fdr": 1}}, "loss must be one of 'fdr'"),
        (CLAIMS, {"alpha": 0.1, "loss": ["fdr", {}]}, "loss must hold names or callables, got {}"),
        (CLAIMS, {"alpha": 0.1, "loss": nothing}, "loss 'nothing' must return a number, got None"),
        ([], {"alpha": 0.1}, "losses is empty"),
        ({}, {"alpha": 0.1, "groups": []}, "losses is an empty mapping"),
        (
            {"a": MATRIX},
            {"alpha": 0.1, "bound": {"b": 1}, "groups": GROUPS},
            r"^bound must have the keys \['a'\]",
        ),
        ([], {"alpha": 0.1, "groups": []}, "losses must be chunks of the same thresholds"),
        (
            tether.ScoredLabels([0.1, 0.2], [0, 1]),
            {"alpha": 0.1, "loss": {}},
            "loss must be one of 'false_discovery'",
        ),
    ],
)
def test_bad_arguments(losses, arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        tether.gcrc(losses, **arguments)


def test_only_infinity_passes():
    claims = tether.Claims(np.ones(30), np.zeros(30), range(31))
    found = tether.gcrc(claims, alpha=0.1)
    assert found.exists
    assert found.threshold == np.inf
    assert found.warnings == ("only a threshold above all scores passes: nothing is kept",)


def test_where_no_threshold_passes_the_safest_is_returned():
    bad = tether.Claims(np.full(40, 0.5), np.zeros(40), range(41))
    assert tether.gcrc(bad, alpha=0.01).threshold == np.inf
    assert tether.gcrc(bad, [0.1, 0.4], alpha=0.1).threshold == 0.4
    assert tether.gcrc(bad, [0.1, 0.4], alpha=0.01, loss="miss").threshold == 0.1
    assert tether.gcrc(bad, alpha=0.01, loss="miss").threshold == -np.inf
    both = tether.gcrc({"a": np.ones((40, 2)), "b": np.zeros((40, 2))}, [0.2, 0.7], alpha=0.1)
    assert (both.exists, both.threshold) == (False, 0.7)


def test_each_loss_is_described_at_the_common_threshold():
    alone = tether.gcrc(COST, alpha=0.2)
    found = tether.gcrc({"first": COST, "second": COST}, alpha=0.2)
    assert found.threshold == alone.threshold
    assert [part.risk for part in found.by_loss] == [alone.risk, alone.risk]


def test_a_minimum_risk_equal_to_alpha_does_not_rule_out_a_threshold():
    """Nine items without loss have a conservative risk of exactly 0.1."""
    assert tether.gcrc(np.zeros((9, 2)), alpha=0.1).exists
    assert "already fails" in tether.gcrc(np.ones((9, 2)), alpha=0.1).warnings[0]
