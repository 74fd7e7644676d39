import numpy as np
import pandas
import pytest

import tether

METHODS = [tether.gcrc, tether.crc, tether.monotonized_crc, tether.ltt]
RNG = np.random.default_rng(5)
LOSSES = RNG.random((60, 7)) * np.linspace(0.6, 0.05, 7)
GRID = np.linspace(0.2, 0.8, 7)


def assert_same(found, expected):
    assert (found.threshold, found.exists) == (expected.threshold, expected.exists)
    assert found.risk == pytest.approx(expected.risk)
    assert found.nonmonotone_items == expected.nonmonotone_items


@pytest.mark.parametrize("method", METHODS)
def test_streams_lists_and_memory_maps_are_the_same_matrix(method, tmp_path):
    whole = method(LOSSES, GRID, alpha=0.2)
    assert whole.exists
    assert_same(whole, method(LOSSES.tolist(), GRID, alpha=0.2))
    assert_same(whole, method(pandas.DataFrame(LOSSES), GRID, alpha=0.2))
    assert_same(whole, method([LOSSES[:13], LOSSES[13:]], GRID, alpha=0.2))
    assert_same(whole, method((LOSSES[i : i + 9] for i in range(0, 60, 9)), GRID, alpha=0.2))
    np.save(tmp_path / "losses.npy", LOSSES)
    assert_same(whole, method(np.load(tmp_path / "losses.npy", mmap_mode="r"), GRID, alpha=0.2))
    assert np.isnan(whole.stability) == (method is not tether.gcrc)


def test_betting_on_chunks_is_betting_on_the_whole():
    whole = tether.ltt(LOSSES, GRID, alpha=0.3, pvalue="betting")
    parts = tether.ltt([LOSSES[:1], LOSSES[1:40], LOSSES[40:]], GRID, alpha=0.3, pvalue="betting")
    assert whole.exists
    assert_same(whole, parts)


def test_the_stability_of_a_stream_is_not_measured():
    assert tether.gcrc(iter([LOSSES]), GRID, alpha=0.2).stability_detail is None


@pytest.mark.parametrize("method", METHODS)
def test_the_block_size_does_not_matter(method, monkeypatch):
    whole = method(LOSSES, GRID, alpha=0.2)
    monkeypatch.setattr("tether.risk.loss_matrix.CELLS_PER_BLOCK", 20)
    assert_same(whole, method(LOSSES, GRID, alpha=0.2))


def test_weighted_chunks():
    weights = RNG.random(60)
    whole = tether.gcrc(LOSSES, GRID, alpha=0.2, weights=weights)
    assert_same(
        whole, tether.gcrc(iter([LOSSES[:20], LOSSES[20:]]), GRID, alpha=0.2, weights=weights)
    )


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
        (np.zeros((0, 3)), None, "losses is empty"),
        (np.zeros((3, 0)), None, r"got shape \(3, 0\)"),
        (np.array([["a"]]), None, "losses must hold real numbers"),
        (np.ma.masked_equal(with_cell(1.5), 1.5), None, "losses has 1 masked value"),
        ([[0.1, 0.2], [0.3]], None, "losses is not a matrix of items × thresholds"),
        ([[[0.1, 0.2], [0.3]]], None, "losses is not a matrix of items × thresholds"),
        ([np.zeros((2, 3)), np.zeros((2, 4))], None, "every chunk of losses must have 3"),
        (np.zeros((4, 3)), [0.1, 0.2], "thresholds has 2 values but losses has 3 columns"),
        (
            np.zeros((4, 3)),
            [0.1, 0.3, 0.2],
            r"must be strictly increasing, got thresholds\[1\] = 0.3",
        ),
        (
            np.zeros((4, 3)),
            [0.1, 0.1, 0.2],
            r"must be strictly increasing, got thresholds\[0\] = 0.1",
        ),
        (np.zeros((4, 3)), [0.1, np.nan, 0.2], r"thresholds\[1\] is nan"),
    ],
)
def test_bad_matrices(losses, thresholds, message):
    for method in METHODS:
        with pytest.raises((ValueError, TypeError), match=message):
            method(losses, thresholds, alpha=0.1)


def test_a_masked_matrix_without_masked_values_is_a_matrix():
    assert_same(tether.gcrc(LOSSES, alpha=0.2), tether.gcrc(np.ma.array(LOSSES), alpha=0.2))


def test_rounding_does_not_make_a_loss_nonmonotone():
    assert tether.crc(np.tile([0.3, 0.1 + 0.2], (30, 1)), alpha=0.5).monotone

    def loss(supported, kept):
        return 0.3 if kept.any() else 0.1 + 0.2

    claims = tether.Claims(np.arange(30), np.ones(30), np.arange(31))
    assert tether.crc(claims, alpha=0.5, loss=loss).monotone
    assert not tether.crc(np.tile([0.1, 0.1, 0.1 + 1e-6], (30, 1)), alpha=0.5).monotone


def test_an_error_in_the_second_chunk_names_its_row():
    with pytest.raises(ValueError, match=r"losses\[6, 1\] is 1.5"):
        tether.gcrc([np.zeros((4, 3)), with_cell(1.5)], alpha=0.1)


def test_a_table_of_claims_is_refused_with_what_to_do():
    table = pandas.DataFrame({"score": [0.1, 0.2], "supported": [0, 1], "item": [1, 1]})
    with pytest.raises(TypeError, match=r"columns .'score', 'supported', 'item'.*from_table"):
        tether.gcrc(table, alpha=0.1)
    losses = pandas.DataFrame(np.tile([0.3, 0.1, 0.0], (99, 1)))
    for named in (losses, losses.add_prefix("column_")):
        assert tether.crc(named, alpha=0.2).threshold == 1.0
