"""Logs: what they accept, from arrays and from frames of every kind."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tether

GOOD = {
    "loss": [0.0, 1.0, 0.5],
    "log_safe": [-1.0, -2.0, -1.5],
    "log_optimized": [-1.1, -0.3, -2.0],
}


def log(**changes):
    return tether.Log(**{**GOOD, **changes})


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"log_safe": [-1.0, np.nan, -1]}, ValueError, r"log_safe\[1\] is nan: expected a log-pr"),
        ({"log_safe": [-1.0, np.inf, -1]}, ValueError, r"log_safe\[1\] is inf"),
        ({"log_safe": [-1.0, -np.inf, -1]}, ValueError, r"log_safe\[1\] is -inf: expected a fini"),
        (
            {"acting": [-1.0, -2.0, -1.5]},
            TypeError,
            r"acting must be a tether\.control\.Acting, got",
        ),
        ({"log_optimized": [np.nan, 0, 0]}, ValueError, r"log_optimized\[0\] is nan"),
        ({"log_optimized": [0.0, 0.0]}, ValueError, r"log_optimized has 2 rows but log_safe has 3"),
        ({"loss": [0.0, -0.1, 0.0]}, ValueError, r"loss\[1\] is -0.1: expected a finite loss"),
        ({"loss": [0.0, np.nan, 0.0]}, ValueError, r"loss\[1\] is nan"),
        ({"loss": [0.0]}, ValueError, r"loss has 1 rows but log_safe has 3"),
        ({"loss": {}}, ValueError, r"loss is an empty mapping"),
        ({"loss": {"harm": [0.0, np.inf, 0.0]}}, ValueError, r"loss\['harm'\]\[1\] is inf"),
        ({"loss": ["a", "b", "c"]}, TypeError, r"loss must hold real numbers.*'a'"),
        ({"loss": [None, 0, 1]}, ValueError, r"loss\[0\] is missing \(None; 1 such value"),
        ({"log_safe": np.array([1j, 0, 0])}, TypeError, r"log_safe must hold real numbers"),
        ({"log_safe": np.zeros((3, 1))}, ValueError, r"log_safe must have 1 dimension.*\(3, 1\)"),
        ({"log_safe": []}, ValueError, r"log_safe is empty"),
        ({"context": [1.5, 2.5, 3.5]}, TypeError, r"context must hold one integer or string"),
        ({"context": [1, 2]}, ValueError, r"context has 2 rows"),
        ({"context": [[1], [2], [3]]}, ValueError, r"context must have 1 dimension"),
        (
            {"context": np.array([1, "a", None], dtype=object)},
            ValueError,
            r"context\[2\] is missing",
        ),
        ({"context": np.array([1, "a", {}], dtype=object)}, TypeError, r"context must hold"),
        ({"log_mix": [-1.0, -np.inf, 0]}, ValueError, r"log_mix\[1\] is -inf"),
        ({"safe_share": 0.5}, ValueError, r"safe_share is 0.5 but without log_mix"),
        ({"log_mix": [-1, -1, -1], "safe_share": 2.0}, ValueError, r"safe_share must be above 0"),
        ({"log_mix": [-9, -9, -9], "safe_share": 0.5}, ValueError, r"log_mix\[0\] is -9, below"),
        ({"max_ratio": 0.5}, ValueError, r"max_ratio must be at least 1, got 0.5"),
        ({"max_ratio": np.inf}, ValueError, r"max_ratio must be above 0 and below inf"),
        ({"max_ratio": 5.0}, ValueError, r"row 1 has the ratio .* = 5.47395, above max_ratio = 5"),
        ({"log_safe_all": np.zeros((3, 1))}, ValueError, r"log_optimized_all is missing"),
        ({"log_optimized_all": np.zeros((3, 1))}, ValueError, r"log_safe_all is missing"),
        ({"log_mix_all": np.zeros((3, 1))}, ValueError, r"log_mix_all needs log_safe_all"),
    ],
)
def test_bad_logs(changes, error, message):
    with pytest.raises(error, match=message):
        log(**changes)


def tables(**changes):
    safe = np.log([[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]])
    optimized = np.log([[0.3, 0.7], [0.8, 0.2], [0.1, 0.9]])
    made = {
        "loss": [0, 1, 0],
        "log_safe": safe[:, 0],
        "log_optimized": optimized[:, 0],
        "log_safe_all": safe,
        "log_optimized_all": optimized,
    }
    return tether.Log(**{**made, **changes})


def test_tables_must_be_complete():
    assert tables().contextual
    with pytest.raises(ValueError, match=r"log_safe_all\[1\] has probabilities that sum to 0.95"):
        tables(log_safe_all=np.log([[0.5, 0.5], [0.9, 0.05], [0.2, 0.8]]))
    with pytest.raises(ValueError, match=r"row 0 took an action with log_safe -0.1"):
        tables(log_safe=[-0.1, np.log(0.9), np.log(0.2)])
    with pytest.raises(ValueError, match=r"log_optimized_all has shape \(3, 3\)"):
        tables(log_optimized_all=np.log(np.full((3, 3), 1 / 3)))
    with pytest.raises(ValueError, match="log_mix is given but log_mix_all is not"):
        tables(log_mix=[-1, -1, -1])
    with pytest.raises(ValueError, match="log_mix_all is given but log_mix is not"):
        tables(log_mix_all=np.log([[0.5, 0.5]] * 3))
    with pytest.raises(ValueError, match="proposals are not needed with log_safe_all"):
        tether.calibrate(tables(), tether.Proposals([0.0], [0.0]), alpha=0.5)
    never = np.log([[0.3, 0.7], [0.8, 0.2]])
    never = np.vstack((never, [-np.inf, 0.0]))
    logged = tables(log_optimized=never[:, 0], log_optimized_all=never)
    assert tether.calibrate(logged, alpha=0.5).rows == 3


def test_integers_booleans_and_lists_are_numbers():
    same = [
        tether.Log(loss, [-1, -2, -3], [-2, -2, -2])
        for loss in ([0, 1, 0], [False, True, False], np.array([0.0, 1.0, 0.0], dtype=np.float32))
    ]
    betas = {tether.calibrate(made, alpha=0.7).log_beta for made in same}
    assert len(betas) == 1


def test_logs_are_read_only_and_print_what_they_hold():
    with pytest.raises(ValueError, match="read-only"):
        log().log_safe[0] = 1.0
    assert repr(log()) == "Log(3 rows, losses ['loss'])"
    assert "2 actions" in repr(tables())
    assert "contexts" in repr(log(context=[1, 2, 3]))
    assert "mixture" in repr(log(log_mix=[-1, -1, -1]))


COLUMNS = {**GOOD, "context": ["a", "b", "a"], "log_mix": [-1.0, -1.0, -1.0]}


MAKERS = {
    "dict": dict,
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "arrow": pa.table,
    "structured": lambda columns: pd.DataFrame(columns).to_records(index=False),
}


@pytest.mark.parametrize("maker", MAKERS)
def test_frames_of_every_kind(maker):
    frame = MAKERS[maker](COLUMNS)
    made = tether.Log.from_frame(frame, context="context")
    assert made.loss["loss"].tolist() == GOOD["loss"]
    assert made.context.tolist() == ["a", "b", "a"]
    assert made.log_mix.tolist() == [-1, -1, -1]
    renamed = MAKERS[maker]({"cost": [0, 1], "delay": [1, 0], "p": [0.0, 0.0], "q": [0.0, 0.0]})
    several = tether.Log.from_frame(
        renamed, context=None, loss=["cost", "delay"], log_safe="p", log_optimized="q"
    )
    assert list(several.loss) == ["cost", "delay"]
    with pytest.raises(ValueError, match=r"log_safe: there is no column 'log_safe'.*'cost'"):
        tether.Log.from_frame(renamed, loss="cost", context=None)


@pytest.mark.parametrize("maker", MAKERS)
def test_contexts_of_a_frame_must_be_stated(maker):
    features = {"age": [40, 61, 40], "weight": [70.5, 81.0, 70.5]}
    frame = MAKERS[maker]({**GOOD, **features})
    with pytest.raises(
        TypeError, match=r"context must be stated.*could be contexts are \['age', 'weight'\]"
    ):
        tether.Log.from_frame(frame)
    several = tether.Log.from_frame(frame, context=["age", "weight"])
    assert several.contextual
    assert several.context[0] == several.context[2] != several.context[1]
    assert not tether.Log.from_frame(frame, context=None).contextual
    assert tether.Log.from_frame(frame, context=None, max_ratio=6).max_ratio == 6


def test_a_frame_with_features_no_longer_calibrates_as_if_it_had_none():
    rng = np.random.default_rng(0)
    x = rng.integers(2, size=2000)
    safe, optimized = tether.Gaussian(lambda x: 0.0 * x), tether.Gaussian(lambda x: 2.0 * x)
    action = safe.sample(x, rng)
    frame = pd.DataFrame({"loss": action > 1.5, "x": x})
    frame["log_safe"] = safe.log_prob(x, action)
    frame["log_optimized"] = optimized.log_prob(x, action)
    with pytest.raises(TypeError, match=r"could be contexts are \['x'\]"):
        tether.Log.from_frame(frame)
    log = tether.Log.from_frame(frame, context="x")
    with pytest.raises(ValueError, match="the log has contexts, so proposals are needed"):
        tether.calibrate(log, alpha=0.12)


def test_frames_with_tables_and_gaps():
    columns = {
        "loss": [0, 1],
        "log_safe": np.log([0.5, 0.5]),
        "log_optimized": np.log([0.2, 0.8]),
        "log_safe_all_0": np.log([0.5, 0.5]),
        "log_safe_all_1": np.log([0.5, 0.5]),
        "log_optimized_all_0": np.log([0.2, 0.2]),
        "log_optimized_all_1": np.log([0.8, 0.8]),
    }
    assert tether.Log.from_frame(pl.DataFrame(columns)).log_safe_all.shape == (2, 2)
    gap = {**GOOD, "loss": [0.0, None, 1.0]}
    for maker in (pd.DataFrame, pl.DataFrame, pa.table):
        with pytest.raises(ValueError, match=r"loss\[1\] is nan"):
            tether.Log.from_frame(maker(gap), context=None)
    with pytest.raises(TypeError, match="frame must have named columns, got list"):
        tether.Log.from_frame([1, 2, 3])
    with pytest.raises(ValueError, match="context: there is no column 'patient'"):
        tether.Log.from_frame(GOOD, context="patient")


def test_ragged_masked_and_unnamed_losses():
    with pytest.raises(ValueError, match="loss is not a table of numbers"):
        tether.Log([[1.0], [1.0, 2.0]], [0.0], [0.0])
    with pytest.raises(ValueError, match=r"loss has 1 masked value"):
        tether.Log(np.ma.masked_array([0.0, 1.0], [False, True]), [0.0, 0.0], [0.0, 0.0])
    with pytest.raises(TypeError, match="loss must be named by strings, got the name 1"):
        tether.Log({1: [0.0]}, [0.0], [0.0])


def test_rewards_are_any_finite_numbers_and_calibration_does_not_use_them():
    made = log(reward=[-5, 0, 1e6])
    assert made.reward.tolist() == [-5, 0, 1e6]
    assert "rewards" in repr(made)
    assert log().reward is None
    plain, rewarded = (tether.calibrate(each, alpha=0.7) for each in (log(), made))
    assert plain.log_beta == rewarded.log_beta
    assert plain.provenance == rewarded.provenance
    for bad, message in (([1.0, 2.0], "reward has 2 rows"), ([1, np.nan, 2], r"reward\[1\]")):
        with pytest.raises(ValueError, match=message):
            log(reward=bad)
    with pytest.raises(TypeError, match="reward must hold real numbers"):
        log(reward=["a", "b", "c"])


def test_rewards_of_a_frame_are_read_if_their_column_is_named():
    columns = {**GOOD, "reward": [1.0, np.nan, 2.0], "points": [3, 4, 5]}
    assert tether.Log.from_frame(columns, context=None).reward is None
    named = tether.Log.from_frame(columns, context=None, reward="points")
    assert named.reward.tolist() == [3, 4, 5]
    with pytest.raises(ValueError, match="reward: there is no column 'prize'"):
        tether.Log.from_frame(columns, context=None, reward="prize")
