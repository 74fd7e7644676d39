import numpy as np
import pytest

import tether

RNG = np.random.default_rng(7)
ONE, TWO = RNG.random((2, 50, 5)) * np.linspace(0.5, 0.05, 5)


def test_names_alphas_and_bounds_go_together():
    found = tether.gcrc(
        {"cost": 10 * ONE, "harm": TWO},
        alpha={"harm": 0.1, "cost": 2.0},
        bound={"cost": 10, "harm": 1},
    )
    parts = {part.loss: part for part in found.parts}
    assert (parts["cost"].alpha, parts["cost"].bound) == (2.0, 10)
    assert (parts["harm"].alpha, parts["harm"].bound) == (0.1, 1)
    assert found.threshold == max(
        tether.gcrc(10 * ONE, alpha=2.0, bound=10).threshold, tether.gcrc(TWO, alpha=0.1).threshold
    )
    assert found.risk / found.alpha == max(part.risk / part.alpha for part in found.parts)
    text = str(found)
    assert "cost: " in text
    assert "harm: " in text


def test_one_that_fails_fails_all():
    found = tether.gcrc({"a": ONE, "b": np.ones((50, 5))}, alpha=0.2)
    assert not found.exists
    assert found.warnings == ("no threshold passes for: b",)


@pytest.mark.parametrize("harm", [0.1, 0.2])
def test_the_loss_that_is_not_monotone_is_named(harm):
    """Whichever of the two binds."""
    dips = np.tile([0.1, 0.05, 0.12], (60, 1))
    found = tether.gcrc({"cost": dips, "harm": np.full((60, 3), harm)}, alpha=0.3)
    assert [part.monotone for part in found.parts] == [False, True]
    assert not found.monotone
    assert (found.faults, found.faulty) == (60, (0, 1, 2, 3, 4))
    lines = [line for line in str(found).splitlines() if "not monotone" in line]
    assert len(lines) == 1
    assert lines[0].startswith("  loss        cost: ")


def test_class_rates_with_different_candidates():
    data = tether.ScoredLabels(np.arange(200) / 200, np.arange(200) % 2)
    both = tether.crc(data, alpha=[0.2, 0.3], loss=["false_positive", "false_positive"])
    assert both.threshold == tether.crc(data, alpha=0.2, loss="false_positive").threshold
    mixed = tether.ltt(
        data, alpha=[0.4, 0.9], loss=["false_positive", "false_positive"], pvalue="wsr"
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
    assert found.parts[0].risk == pytest.approx(
        ((scores >= at) & ~labels).sum() / (~labels).sum(), abs=0.01
    )
    assert found.parts[1].risk == pytest.approx(((scores >= at) & ~labels).mean(), abs=0.01)


def test_miss_with_miss_takes_the_smaller_threshold():
    claims = tether.Claims(RNG.random(300), RNG.random(300) < 0.7, range(0, 301, 3))

    def one(alpha):
        return tether.gcrc(claims, alpha=alpha, loss="miss").threshold

    both = tether.gcrc(claims, alpha=[0.1, 0.3], loss=("miss", "miss"))
    assert both.threshold == min(one(0.1), one(0.3)) < max(one(0.1), one(0.3))


def test_a_callable_among_several_keeps_its_name():
    def wrong(supported, kept):
        return float((kept & ~supported).any())

    claims = tether.Claims(RNG.random(300), RNG.random(300) < 0.9, range(0, 301, 3))
    found = tether.gcrc(claims, alpha=0.2, loss=["fdr", wrong])
    assert [part.loss for part in found.parts] == ["fdr", "wrong"]


@pytest.mark.parametrize(
    ("losses", "arguments", "message"),
    [
        ({}, {"alpha": 0.1}, "empty mapping"),
        ({"a": ONE}, {"alpha": 0.1, "loss": "fdr"}, "a mapping of losses names its own"),
        ({"a": ONE, "b": TWO}, {"alpha": [0.1]}, "alpha must have one value a loss"),
        ({"a": ONE, "b": TWO}, {"alpha": {"a": 0.1}}, "alpha must have the keys"),
        ({"a": ONE, "b": TWO}, {"alpha": [0.1, 2]}, r"alpha\[1\] must be above 0 and below 1"),
        (tether.Claims([1], [1], [0, 1]), {"alpha": 0.1, "loss": []}, "loss is an empty list"),
        (
            tether.Claims([1], [1], [0, 1]),
            {"alpha": 0.1, "loss": ["fdr", "miss"]},
            "safest at opposite ends",
        ),
    ],
)
def test_bad_arguments(losses, arguments, message):
    with pytest.raises(ValueError, match=message):
        tether.gcrc(losses, **arguments)
