"""What a log shows: its rows as columns, its overlap, its losses by ratio."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether


def make_log(seed=0, rows=200, **more):
    rng = np.random.default_rng(seed)
    actions = np.round(rng.normal(size=rows), 1)
    optimized = np.where(actions < -1, -np.inf, -((actions - 1) ** 2) / 2)
    return tether.Log(actions > 1.5, -(actions**2) / 2, optimized, **more)


def test_the_columns_make_the_same_log():
    rows = 200
    log = make_log(
        context=np.arange(rows) % 3, reward=np.arange(rows) / 7, log_mix=-np.arange(rows) / 50
    )
    table = log.to_frame()
    again = tether.Log.from_frame(table, context="context", reward="reward")
    assert repr(again) == repr(log)
    for name, values in table.items():
        np.testing.assert_array_equal(again.to_frame()[name], values)


def test_tables_have_one_column_per_action():
    safe, optimized = np.log([[0.5, 0.5], [0.25, 0.75]]), np.log([[0.1, 0.9], [0.5, 0.5]])
    log = tether.Log(
        [0, 1], safe[:, 0], optimized[:, 0], log_safe_all=safe, log_optimized_all=optimized
    )
    table = log.to_frame()
    np.testing.assert_array_equal(table["log_safe_all_1"], safe[:, 1])
    assert repr(tether.Log.from_frame(table)) == repr(log)
    assert "2 in every row" in str(log)


def test_a_loss_called_like_a_column_hides_none():
    log = tether.Log({"log_safe": [0, 1]}, [-1, -2], [-2, -1])
    table = log.to_frame()
    np.testing.assert_array_equal(table["log_safe"], [-1, -2])
    np.testing.assert_array_equal(table["loss[log_safe]"], [0, 1])


@settings(max_examples=60, deadline=None)
@given(
    ratios=st.lists(st.sampled_from([-np.inf, -3.0, -1.0, 0.0, 0.5, 2.0]), min_size=1, max_size=40),
    bins=st.integers(1, 12),
)
def test_groups_by_ratio_cover_every_row_once_in_order(ratios, bins):
    rng = np.random.default_rng(len(ratios))
    losses = rng.random(len(ratios))
    log = tether.Log(losses, np.full(len(ratios), -1.0), np.array(ratios) - 1.0)
    table = log.by_ratio(bins)
    assert table["rows"].sum() == len(ratios)
    low, high = table["lowest_log_ratio"], table["highest_log_ratio"]
    assert (low <= high).all()
    assert (high[:-1] < low[1:]).all()  # equal ratios are never apart
    assert len(low) <= bins + (-np.inf in ratios)
    for k in range(len(low)):
        mine = (log.log_ratio >= low[k]) & (log.log_ratio <= high[k])
        assert table["rows"][k] == mine.sum()
        assert table["loss"][k] == pytest.approx(losses[mine].mean())
        if mine.sum() > 1:
            error = losses[mine].std(ddof=1) / np.sqrt(mine.sum())
            assert table["loss_error"][k] == pytest.approx(error)


def test_overlap_is_the_effective_sample_size_of_the_weights():
    log = make_log()
    weights = np.exp(log.log_optimized - log.log_safe)
    assert log.overlap == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    same = tether.Log(np.zeros(30), np.full(30, -800.0), np.full(30, -800.0))
    assert same.overlap == pytest.approx(30)
    never = tether.Log(np.zeros(30), np.zeros(30) - 1, np.full(30, -np.inf))
    assert never.overlap == 0
    mixed = make_log(log_mix=np.full(200, -2.0))
    weights = np.exp(mixed.log_optimized + 2)
    assert mixed.overlap == pytest.approx(weights.sum() ** 2 / (weights**2).sum())


def test_the_summary_says_what_is_in_the_log():
    text = " ".join(str(make_log(context=["a", "b"] * 100, reward=np.ones(200))).split())
    assert text.startswith("log of 200 rows, produced by the safe policy")
    assert "2 different ones" in text
    assert "never takes the action of" in text
    assert "effective sample size" in text
    several = tether.Log({"harm": [0, 1], "delay": [3.0, 1.0]}, [-1, -2], [-2, -1])
    assert "2 ± 1 on average, from 1 to 3" in str(several)
    assert list(several.by_ratio(1))[3:] == [
        "loss[harm]", "loss[harm]_error", "loss[delay]", "loss[delay]_error"
    ]  # fmt: skip
    one = tether.Log([0.5], [-1], [-400.0], approximate="an estimate")
    assert "! an estimate" in str(one)
    assert "exp(-399)" in str(one)


def test_bins_are_checked():
    with pytest.raises(ValueError, match="bins must be an integer of at least 1, got 0"):
        make_log().by_ratio(0)


def test_the_largest_ratio_survives_a_frame():
    log = tether.Log([0, 1], [-1.0, -2.0], [-1.5, -1.0], context=["a", "b"], max_ratio=13.5)
    frame = log.to_frame()
    assert frame["max_ratio"].tolist() == [13.5, 13.5]
    assert tether.Log.from_frame(frame, context="context").max_ratio == 13.5
    assert tether.Log.from_frame(frame, context="context", max_ratio=20.0).max_ratio == 20.0
    named = tether.Log({"max_ratio": [0, 1]}, [-1.0, -2.0], [-1.5, -1.0], max_ratio=3.0)
    assert set(named.to_frame()) == {"loss[max_ratio]", "log_safe", "log_optimized", "max_ratio"}
