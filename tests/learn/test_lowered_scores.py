"""Rounded scores: thresholds that do not sit on the last bits of a score."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tether.learn.lowered_scores import lowered_scores


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_a_score_reaches_a_rounded_score_exactly_if_its_rounded_value_does(scores):
    scores = np.array(scores)
    lowered = lowered_scores(scores)
    assert (lowered <= scores).all()
    for threshold in lowered:
        assert ((scores >= threshold) == (lowered >= threshold)).all()


@pytest.mark.parametrize("score", [0.5, 0.75, 0.125, 1.0, 1 / 3, 0.1, 0.7282480020843659])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_last_bits_do_not_matter(score, dtype):
    near = np.array([score], dtype=dtype)
    for _ in range(8):
        near = np.concatenate([np.nextafter(near[:1], dtype(0)), near])
    assert len(np.unique(lowered_scores(near))) == 1


def test_scores_that_differ_by_more_stay_apart():
    scores = np.linspace(0, 1, 100_001)
    assert len(np.unique(lowered_scores(scores))) == 100_001
    np.testing.assert_allclose(lowered_scores(scores), scores, rtol=1e-10)
