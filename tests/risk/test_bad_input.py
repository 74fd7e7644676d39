"""What ended in an error of numpy, or in none: each names the argument and what is wrong."""

import numpy as np
import pytest

import tether

CLAIMS = tether.Claims(np.arange(60) / 60, np.arange(60) % 3 > 0, range(0, 61, 3))
MATRIX = np.zeros((20, 3))
GROUPS = [0, 1] * 10


def nothing(supported, kept):
    return None


@pytest.mark.parametrize(
    ("losses", "arguments", "message"),
    [
        (MATRIX, {"alpha": []}, r"alpha must be a number, got \[\]"),
        (MATRIX, {"alpha": [], "groups": GROUPS}, r"alpha is empty: .* got \[\]"),
        (MATRIX, {"alpha": {}, "groups": GROUPS}, "alpha is empty"),
        (MATRIX, {"alpha": None, "groups": GROUPS}, "alpha must be a number, got None"),
        (MATRIX, {"alpha": 0.1, "bound": None}, "bound must be a number, got None"),
        (MATRIX, {"alpha": 0.1, "bound": None, "groups": GROUPS}, "bound must be a number"),
        (CLAIMS, {"alpha": 0.1, "loss": np.zeros(3)}, "loss must be one of 'fdr'"),
        (CLAIMS, {"alpha": 0.1, "loss": {"fdr": 1}}, "loss must be one of 'fdr'"),
        (CLAIMS, {"alpha": 0.1, "loss": ["fdr", {}]}, "loss must hold names or callables, got {}"),
        (CLAIMS, {"alpha": 0.1, "loss": nothing}, "loss 'nothing' must return a number, got None"),
        ([], {"alpha": 0.1}, "losses are empty"),
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
def test_selections(losses, arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        tether.gcrc(losses, **arguments)


@pytest.mark.parametrize("values", [[True, False], [1, 0], [0.0, 1.0]])
def test_nothing_is_read_through_a_mask(values):
    hidden = np.ma.array(values, mask=[0, 1])
    with pytest.raises(ValueError, match=r"supported has 1 masked value\(s\)"):
        tether.Claims([0.1, 0.2], hidden, [0, 1, 2])
    with pytest.raises(ValueError, match=r"labels has 1 masked value\(s\)"):
        tether.ScoredLabels([0.1, 0.2], hidden)
    with pytest.raises(ValueError, match=r"offsets has 1 masked value\(s\)"):
        tether.Claims([0.1], [1], np.ma.array([0, 1], mask=[0, 1]))
    with pytest.raises(ValueError, match=r"groups has 2 masked value\(s\)"):
        tether.gcrc(MATRIX, alpha=0.1, groups=np.ma.array(GROUPS, mask=[1, 1] + [0] * 18))


def test_a_number_is_no_generator():
    with pytest.raises(TypeError, match=r"rng must be a numpy.random.Generator, got 3"):
        tether.ltt(MATRIX, alpha=0.1, rng=3)
    with pytest.raises(TypeError, match=r"rng must be a numpy.random.Generator, got 3"):
        tether.risk.spread_ties([0.1, 0.2], 3, width=0.01)


def test_a_number_is_no_selection():
    with pytest.raises(TypeError, match=r"selection must be a Selection, .* got 0.5"):
        tether.filter_claims(0.5, [0.1])


def test_items_are_taken_by_mask_or_number():
    mask = np.arange(20) % 2 == 0
    assert (CLAIMS.take(mask).scores == CLAIMS.take(np.flatnonzero(mask)).scores).all()
    assert CLAIMS.take([]).items == 0
    for items, message in [
        (mask[:5], "items has 5 rows but claims has 20"),
        ([0, 20], r"items\[1\] is 20: expected a number from 0 to 19"),
        ([-1], r"items\[0\] is -1"),
        ([0.5], "items must be numbers of items"),
    ]:
        with pytest.raises((ValueError, TypeError), match=message):
            CLAIMS.take(items)


def test_too_few_items_for_a_test_are_told_so():
    found = tether.ltt(MATRIX, alpha=0.1)
    assert not found.exists
    assert "20 items are too few" in found.warnings[0]
    assert "(1 − 0.1)^20 = 0.1216 is above delta = 0.1" in found.warnings[0]
    found = tether.ltt(np.zeros((25, 3)), alpha=0.1, procedure="bonferroni")
    assert "is above delta / 3 thresholds = 0.03333" in found.warnings[0]
    assert tether.ltt(np.zeros((25, 3)), alpha=0.1).exists
    enough = tether.ltt(np.ones((25, 3)), alpha=0.1)
    assert "the safest, 2, already fails" in enough.warnings[0]


def test_the_bound_of_a_sweep_is_its_own():
    swept = tether.risk.sweep(MATRIX, bound=2)
    assert tether.gcrc(swept, alpha=0.2).bound == 2
    assert tether.gcrc(swept, alpha=0.2, bound=2.0).bound == 2
    with pytest.raises(ValueError, match="bound cannot be given with a sweep"):
        tether.gcrc(swept, alpha=0.2, bound=1.0)


def test_ties_that_floating_point_cannot_part():
    with pytest.raises(ValueError, match="width must be at least 4 to part 2 scores"):
        tether.risk.spread_ties([1e16, 1e16], np.random.default_rng(0), width=0.5)
