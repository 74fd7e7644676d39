import numpy as np
import pandas
import pytest

import tether

RNG = np.random.default_rng(6)
SIZES = RNG.integers(0, 6, 400)
SCORES = RNG.random(SIZES.sum())
CLAIMS = tether.Claims(SCORES, RNG.random(len(SCORES)) < SCORES, np.append(0, np.cumsum(SIZES)))
GROUPS = np.array(["large", "middle", "small", "tiny"])[
    RNG.choice(4, 400, p=[0.7, 0.25, 0.03, 0.02])
]
METHODS = [tether.gcrc, tether.crc, tether.monotonized_crc, tether.ltt]


@pytest.mark.parametrize("method", METHODS)
def test_each_group_on_its_own_and_small_ones_together(method):
    found = method(CLAIMS, alpha=0.2, groups=GROUPS, minimum_group_size=20)
    assert list(found.groups) == ["large", "middle", "(pooled)"]
    assert found.pooled_groups == ("small", "tiny")
    for name in ("large", "middle"):
        alone = method(CLAIMS.take(np.flatnonzero(name == GROUPS)), alpha=0.2)
        assert found.for_group(name).threshold == alone.threshold
        assert found.for_group(name).statement == alone.statement
    pool = method(CLAIMS.take(np.flatnonzero(np.isin(GROUPS, ["small", "tiny"]))), alpha=0.2)
    assert found.for_group("small").threshold == found.for_group("tiny").threshold
    assert found.for_group("tiny").threshold == pool.threshold
    parts = found.groups.values()
    assert found.threshold == max(part.threshold for part in parts)
    assert found.risk == max(part.risk for part in parts)
    assert found.n_items == sum(part.n_items for part in parts) == 400
    assert found.effective_sample_size == sum(part.effective_sample_size for part in parts)
    assert found.n_candidates == sum(part.n_candidates for part in parts)
    assert found.exists == all(part.exists for part in found.groups.values())
    assert "on average over the pooled groups (fewer than 20 items)" in found.statement


def test_by_default_a_group_is_small_when_no_threshold_could_pass_in_it():
    losses = np.zeros((19 + 18 + 5, 2))
    groups = np.repeat([1, 2, 3], [19, 18, 5])
    found = tether.gcrc(losses, alpha=0.05, groups=groups)
    assert list(found.groups) == ["1", "(pooled)"]
    assert found.pooled_groups == ("2", "3")
    assert found.exists


def test_a_pool_too_small_says_so():
    found = tether.gcrc(np.zeros((22, 2)), alpha=0.05, groups=[0] * 20 + [1] * 2)
    assert not found.exists
    assert found.for_group(0).exists
    assert found.warnings[-1].startswith("(pooled): no threshold passes: with 2 items")


def test_groups_of_weighted_and_of_several_losses():
    losses = {"first": RNG.random((60, 4)) * 0.3, "second": RNG.random((60, 4)) * 0.2}
    groups, weights = np.arange(60) % 2, RNG.random(60)
    found = tether.gcrc(losses, alpha={"first": 0.3, "second": 0.2}, groups=groups, weights=weights)
    for group in (0, 1):
        inside = groups == group
        alone = tether.gcrc(
            {name: matrix[inside] for name, matrix in losses.items()},
            alpha=[0.3, 0.2],
            weights=weights[inside],
        )
        assert found.for_group(group).threshold == alone.threshold
        assert [part.loss for part in found.for_group(group).by_loss] == ["first", "second"]


def test_nonmonotone_items_keep_their_index_among_all_items():
    losses = np.tile([0.2, 0.1], (40, 1))  # safest last
    losses[[7, 30]] = [0.1, 0.2]
    found = tether.crc(losses, alpha=0.5, groups=np.arange(40) % 2)
    assert found.for_group(1).nonmonotone_items == (7,)
    assert "(items 7)" in found.for_group(1).warnings[0]
    assert found.for_group(0).nonmonotone_items == (30,)
    assert (found.n_nonmonotone, found.nonmonotone_items) == (2, (7, 30))


def test_a_group_whose_items_have_no_claims():
    empty = np.repeat(["a", "b"], 30)
    offsets = np.append(np.arange(31), np.full(30, 30))
    claims = tether.Claims(np.arange(30) / 30, np.ones(30), offsets)
    for method in METHODS:
        for loss in ("fdr", "miss"):
            found = method(claims, alpha=0.2, loss=loss, groups=empty).for_group("b")
            assert (found.exists, found.threshold, found.n_items) == (True, np.inf, 30)
        assert method(claims, [0.5], alpha=0.2, groups=empty).for_group("b").threshold == 0.5


def test_lists_tables_and_chunks_in_groups():
    losses, groups = RNG.random((60, 3)) * 0.3, np.arange(60) % 2
    whole = str(tether.gcrc(losses, alpha=0.3, groups=groups))
    for same in (losses.tolist(), pandas.DataFrame(losses), [losses[:9], losses[9:]]):
        assert str(tether.gcrc(same, alpha=0.3, groups=groups)) == whole


def test_an_error_names_the_group():
    losses = np.zeros((40, 2))
    losses[5] = 2
    with pytest.raises(
        ValueError, match=r"in group '1', items numbered from 0: losses\[2, 0\] is 2.0"
    ):
        tether.gcrc(losses, alpha=0.2, groups=np.arange(40) % 2)


def test_labels_in_groups():
    data = tether.ScoredLabels(SCORES[:300], SCORES[:300] > 0.5)
    found = tether.crc(data, alpha=0.1, loss="false_negative", groups=np.arange(300) % 2)
    assert found.threshold == min(part.threshold for part in found.groups.values())


@pytest.mark.parametrize(
    ("losses", "arguments", "message"),
    [
        (CLAIMS, {"groups": [1, 2]}, "groups has 2 rows"),
        (CLAIMS, {"groups": np.full(400, 0.5)}, "groups must hold one integer or string"),
        (
            CLAIMS,
            {"groups": GROUPS, "minimum_group_size": 0},
            "minimum_group_size must be an integer",
        ),
        (CLAIMS, {"groups": np.full(400, "(pooled)")}, "reserved for the pool of small groups"),
        (
            {"a": np.zeros((3, 2)), "b": np.zeros((4, 2))},
            {"groups": [1, 1, 2]},
            "groups needs losses of the same items, got lengths",
        ),
        (tether.risk.sweep(CLAIMS), {"groups": GROUPS}, "groups needs losses whose items"),
        (iter([np.zeros((3, 2))]), {"groups": [1, 1, 2]}, "groups needs losses whose items"),
    ],
)
def test_bad_groups(losses, arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        tether.gcrc(losses, alpha=0.2, **arguments)


def test_masked_groups_are_refused():
    groups = np.ma.array([0, 1] * 10, mask=[1, 1] + [0] * 18)
    with pytest.raises(ValueError, match=r"^groups has 2 masked value"):
        tether.gcrc(np.zeros((20, 3)), alpha=0.1, groups=groups)


def test_the_default_minimum_counts_a_tie_as_a_pass():
    """2.1 / 0.3 is 7.000000000000001: six items leave a risk of exactly alpha."""
    found = tether.gcrc(np.zeros((11, 2)), alpha=0.3, bound=2.1, groups=[0] * 6 + [1] * 5)
    assert list(found.groups) == ["0", "(pooled)"]
    assert found.for_group(0).exists
    assert found.pooled_groups == ("1",)


@pytest.mark.parametrize(
    ("alpha", "bound"), [([0.5, 0.05], 1), ([0.05, 0.5], 1), (0.05, [1, 0.5]), (0.05, [0.5, 1])]
)
def test_the_default_minimum_serves_every_loss(alpha, bound):
    losses = {"first": np.zeros((37, 2)), "second": np.zeros((37, 2))}
    found = tether.gcrc(losses, alpha=alpha, bound=bound, groups=[0] * 19 + [1] * 18)
    assert found.pooled_groups == ("1",)
    assert found.for_group(0).exists


def test_a_minimum_of_one_pools_no_group():
    found = tether.gcrc(np.zeros((20, 2)), alpha=0.5, groups=[0] * 19 + [1], minimum_group_size=1)
    assert list(found.groups) == ["0", "1"]
    assert found.pooled_groups == ()


def test_five_of_the_nonmonotone_items_are_named():
    losses = np.tile([0.1, 0.2], (40, 1))
    found = tether.crc(losses, alpha=0.5, groups=np.arange(40) % 2)
    assert (found.n_nonmonotone, found.nonmonotone_items) == (40, (0, 1, 2, 3, 4))
    assert found.for_group(1).nonmonotone_items == (1, 3, 5, 7, 9)
    assert "(items 1, 3, 5, 7, 9, …)" in found.for_group(1).warnings[0]


@pytest.mark.parametrize("method", [tether.gcrc, tether.crc, tether.monotonized_crc, tether.ltt])
def test_groups_of_claims_that_are_not_used_are_told(method):
    rng = np.random.default_rng(0)
    scores, item = rng.random(400), np.repeat(np.arange(100), 4)
    claims = tether.Claims.from_table(scores, rng.random(400) < scores, item, item % 2)
    how = rf"tether\.{method.__name__}\(claims, groups=claims\.groups\)"
    with pytest.warns(tether.AssumptionWarning, match=how):
        found = method(claims, alpha=0.5, loss="any_false")
    assert any("one threshold was chosen for all" in each for each in found.warnings)
    by_group = method(claims, alpha=0.5, loss="any_false", groups=claims.groups)
    assert not any("one threshold was chosen" in each for each in by_group.warnings)


@pytest.mark.parametrize("method", [tether.crc, tether.monotonized_crc])
def test_groups_that_are_small_by_chance_do_not_break_the_promise_of_the_pool(method):
    """Harmful groups of 16 items on average join the pool where they have eight or fewer."""
    rng, grid = np.random.default_rng(0), np.linspace(0, 1, 21)
    share = np.repeat([16.0, 3.0], [100, 40]) / 1720
    harmful = np.arange(140) < 100
    lost = pooled_share = 0.0
    for _ in range(100):
        groups = rng.choice(140, size=1720, p=share)
        losses = (rng.random((1720, 1)) < 1 - grid) & harmful[groups][:, None]
        found = method(losses.astype(float), grid, alpha=0.1, groups=groups)
        pooled = np.array([int(name) for name in found.pooled_groups])
        risk = (1 - found.for_group(pooled[0]).threshold) * harmful[pooled]
        lost += share[pooled] @ risk
        pooled_share += share[pooled].sum()
    assert 0.08 < lost / pooled_share < 0.11  # 0.15 where only the small groups decide


def test_the_pool_is_decided_by_groups_of_up_to_the_minimum():
    losses = np.zeros((40, 3))
    losses[:5, 0] = 1  # of the group with 20 items, which has a threshold of its own
    groups = np.repeat([0, 1], [20, 20])
    groups[39] = 2
    found = tether.crc(losses, alpha=0.2, groups=groups, minimum_group_size=20)
    assert list(found.groups) == ["0", "(pooled)"]
    assert found.pooled_groups == ("1", "2")
    assert found.groups["(pooled)"].n_items == 40
    assert found.for_group(1).threshold == tether.crc(losses, alpha=0.2).threshold
