"""Proposals: what they accept, from arrays and from frames."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tether

MAKERS = {"dict": dict, "pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source": "both"}, r"source must be one of 'safe', 'optimized', got 'both'"),
        ({"source": ["safe", "both"]}, r"source\[1\] is both: expected 'safe' or 'optimized'"),
        ({"source": ["safe"]}, r"source has 1 rows"),
        ({"log_optimized": [0.0, -np.inf]}, r"log_optimized\[1\] is -inf.*optimized policy drew"),
        (
            {"log_safe": [0.0, -np.inf], "source": "safe"},
            r"log_safe\[1\] is -inf.*safe policy drew",
        ),
        ({"log_safe": [np.nan, 0.0]}, r"log_safe\[0\] is nan"),
        ({"log_mix": [0.0]}, r"log_mix has 1 rows"),
        ({"log_optimized": [0.0]}, r"log_optimized has 1 rows"),
    ],
)
def test_bad_proposals(changes, message):
    with pytest.raises(ValueError, match=message):
        tether.Proposals(**{"log_safe": [0.0, -1.0], "log_optimized": [-1.0, 0.0], **changes})


@pytest.mark.parametrize("maker", MAKERS)
def test_the_source_of_draws_in_a_frame(maker):
    drawn = MAKERS[maker]({"log_safe": [0.0, 0.0], "log_optimized": [0.0, 0.0]})
    assert not tether.Proposals.from_frame(drawn, context=None).from_safe.any()
    assert tether.Proposals.from_frame(drawn, context=None, source="safe").from_safe.all()
    both = MAKERS[maker](
        {"log_safe": [0.0, 0.0], "log_optimized": [0.0, 0.0], "source": ["safe", "optimized"]}
    )
    assert tether.Proposals.from_frame(both, context=None).from_safe.tolist() == [True, False]
    named = MAKERS[maker]({"p": [0.0, 0.0], "q": [0.0, 0.0], "by": ["safe", "optimized"]})
    made = tether.Proposals.from_frame(
        named, context=None, log_safe="p", log_optimized="q", source="by"
    )
    assert made.from_safe.tolist() == [True, False]


@pytest.mark.parametrize("maker", MAKERS)
def test_contexts_of_a_frame_of_draws_must_be_stated(maker):
    drawn = MAKERS[maker]({"log_safe": [0.0, 0.0], "log_optimized": [0.0, 0.0], "x": [0.5, 1.5]})
    with pytest.raises(TypeError, match=r"context must be stated.*could be contexts are \['x'\]"):
        tether.Proposals.from_frame(drawn)
    assert tether.Proposals.from_frame(drawn, context=None).context is None
    assert len(set(tether.Proposals.from_frame(drawn, context=["x"]).context.tolist())) == 2


def test_proposals_print_what_they_hold():
    shown = repr(tether.Proposals([0.0], [0.0], context=["a"]))
    assert shown == "Proposals(0 safe and 1 optimized draws, with contexts)"
    assert len(tether.Proposals([0.0, 0.0], [0.0, 0.0])) == 2
