import numpy as np
import pandas
import pytest

import tether

METHODS = [tether.gcrc, tether.crc, tether.monotonized_crc, tether.ltt]
RNG = np.random.default_rng(5)
LOSSES = RNG.random((60, 7)) * np.linspace(0.6, 0.05, 7)
GRID = np.linspace(0.2, 0.8, 7)


def same(one, two):
    assert (one.threshold, one.exists) == (two.threshold, two.exists)
    assert one.risk == pytest.approx(two.risk)
    assert one.faulty == two.faulty


@pytest.mark.parametrize("method", METHODS)
def test_streams_lists_and_memory_maps_are_the_same_matrix(method, tmp_path):
    whole = method(LOSSES, GRID, alpha=0.2)
    assert whole.exists
    same(whole, method(LOSSES.tolist(), GRID, alpha=0.2))
    same(whole, method(pandas.DataFrame(LOSSES), GRID, alpha=0.2))
    same(whole, method([LOSSES[:13], LOSSES[13:]], GRID, alpha=0.2))
    same(whole, method((LOSSES[i : i + 9] for i in range(0, 60, 9)), GRID, alpha=0.2))
    np.save(tmp_path / "losses.npy", LOSSES)
    same(whole, method(np.load(tmp_path / "losses.npy", mmap_mode="r"), GRID, alpha=0.2))
    assert (whole.stability is None) == (method is not tether.gcrc)


def test_betting_on_chunks_is_betting_on_the_whole():
    whole = tether.ltt(LOSSES, GRID, alpha=0.3, pvalue="wsr")
    parts = tether.ltt([LOSSES[:1], LOSSES[1:40], LOSSES[40:]], GRID, alpha=0.3, pvalue="wsr")
    assert whole.exists
    same(whole, parts)


def test_a_stream_leaves_no_stability_behind():
    assert tether.gcrc(iter([LOSSES]), GRID, alpha=0.2).stability is None


@pytest.mark.parametrize("method", METHODS)
def test_small_blocks_do_not_matter(method, monkeypatch):
    whole = method(LOSSES, GRID, alpha=0.2)
    monkeypatch.setattr("tether.risk.loss_matrix.CELLS", 20)
    same(whole, method(LOSSES, GRID, alpha=0.2))


def test_weighted_chunks():
    weights = RNG.random(60)
    whole = tether.gcrc(LOSSES, GRID, alpha=0.2, weights=weights)
    same(whole, tether.gcrc(iter([LOSSES[:20], LOSSES[20:]]), GRID, alpha=0.2, weights=weights))


def with_cell(value):
    losses = np.full((4, 3), 0.5)
    losses[2, 1] = value
    return losses


@pytest.mark.parametrize(
    ("losses", "thresholds", "message"),
    [
        (with_cell(1.5), None, r"losses\[2, 1\] is 1.5: expected a loss in \[0, bound = 1\]"),
        (with_cell(-0.1), None, r"losses\[2, 1\] is -0.1"),
        (with_cell(np.nan), None, r"losses\[2, 1\] is nan"),
        (np.zeros(3), None, r"losses must be a matrix of items × thresholds, got shape \(3,\)"),
        (np.zeros((0, 3)), None, "losses are empty"),
        (np.zeros((3, 0)), None, r"got shape \(3, 0\)"),
        (np.array([["a"]]), None, "losses must hold real numbers"),
        (np.ma.masked_equal(with_cell(1.5), 1.5), None, "losses has 1 masked value"),
        ([[0.1, 0.2], [0.3]], None, "losses is no matrix of items × thresholds"),
        ([[[0.1, 0.2], [0.3]]], None, "losses is no matrix of items × thresholds"),
        ([np.zeros((2, 3)), np.zeros((2, 4))], None, "every chunk of losses must have 3"),
        (np.zeros((4, 3)), [0.1, 0.2], "thresholds has 2 values but losses has 3 columns"),
        (np.zeros((4, 3)), [0.1, 0.3, 0.2], r"must rise strictly, got thresholds\[1\] = 0.3"),
        (np.zeros((4, 3)), [0.1, 0.1, 0.2], r"must rise strictly, got thresholds\[0\] = 0.1"),
        (np.zeros((4, 3)), [0.1, np.nan, 0.2], r"thresholds\[1\] is nan"),
    ],
)
def test_bad_matrices(losses, thresholds, message):
    for method in METHODS:
        with pytest.raises((ValueError, TypeError), match=message):
            method(losses, thresholds, alpha=0.1)


def test_a_masked_matrix_without_masked_values_is_a_matrix():
    same(tether.gcrc(LOSSES, alpha=0.2), tether.gcrc(np.ma.array(LOSSES), alpha=0.2))


def test_rounding_is_no_fall():
    assert tether.crc(np.tile([0.3, 0.1 + 0.2], (30, 1)), alpha=0.5).monotone

    def loss(supported, kept):
        return 0.3 if kept.any() else 0.1 + 0.2

    claims = tether.Claims(np.arange(30), np.ones(30), np.arange(31))
    assert tether.crc(claims, alpha=0.5, loss=loss).monotone
    assert not tether.crc(np.tile([0.1, 0.1, 0.1 + 1e-6], (30, 1)), alpha=0.5).monotone


def test_the_second_block_names_its_row():
    with pytest.raises(ValueError, match=r"losses\[6, 1\] is 1.5"):
        tether.gcrc([np.zeros((4, 3)), with_cell(1.5)], alpha=0.1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha": 0}, "alpha must be above 0 and below 1, got 0"),
        ({"alpha": 1.0}, "alpha must be above 0 and below 1, got 1.0"),
        ({"alpha": "x"}, "alpha must be a number, got 'x'"),
        ({"alpha": 0.1, "bound": 0}, "bound must be above 0"),
        ({"alpha": 0.1, "loss": "fdr"}, "loss = 'fdr' is for Claims"),
        ({"alpha": 0.1, "weights": [1, 2]}, "weights has 2 rows"),
        ({"alpha": 0.1, "weights": [1, 2, 3, 4, 5]}, "weights has 5 rows but losses has 4"),
        (
            {"alpha": 0.1, "weights": [1, 2, 3, -1]},
            r"weights\[3\] is -1.0: expected a finite weight of at least 0",
        ),
        ({"alpha": 0.1, "weights": [1, 2, np.nan, 1]}, r"weights\[2\] is nan"),
        ({"alpha": 0.1, "weights": [1] * 4, "log_test_weight": 0.0}, "needs log_weights"),
        ({"alpha": 0.1, "log_weights": [0] * 4, "test_weight": 1.0}, "needs weights"),
        ({"alpha": 0.1, "weights": [5e-324] * 4, "test_weight": 1e308}, "weights vanish"),
        ({"alpha": 0.1, "bound": 1e308}, "sums of losses overflow"),
        ({"alpha": 0.1, "weights": [0, 0, 0, 0]}, "weights are all 0"),
        ({"alpha": 0.1, "log_weights": [-np.inf] * 4}, "log_weights are all -inf"),
        ({"alpha": 0.1, "test_weight": 2.0}, "test_weight = 2.0 needs weights"),
        ({"alpha": 0.1, "weights": [1] * 4, "log_weights": [0] * 4}, "not both"),
        ({"alpha": 0.1, "minimum_group": 3}, "minimum_group = 3 needs groups"),
        ({"alpha": 0.1, "lipschitz": -1}, "lipschitz must be above 0"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        tether.gcrc(np.zeros((4, 3)), **arguments)


def test_an_alpha_that_nothing_satisfies_is_described():
    for method in METHODS:
        found = method(np.full((30, 3), 0.9), alpha=0.1)
        assert not found.exists
        assert found.threshold == 2  # the safest given
        assert "no threshold passes: the safest, 2, already fails" in found.warnings[-1]
        assert found.guarantee == "none: no threshold passes"
    few = tether.gcrc(np.zeros((5, 3)), alpha=0.1)
    assert "5 items leave a conservative risk of at least 0.1667" in few.warnings[0]


def test_ties_in_floating_point_pass():
    found = tether.gcrc(np.full((10, 1), 0.12), alpha=0.2)  # (10·0.12 + 1)/11 = 0.2000…04
    assert found.exists
