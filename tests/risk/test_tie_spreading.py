import numpy as np
import pytest

import tether


def test_equal_scores_are_separated_and_different_ones_keep_their_order():
    scores = np.random.default_rng(0).integers(0, 5, 300) / 10
    spread = tether.risk.spread_ties(scores, np.random.default_rng(1), width=0.01)
    assert len(np.unique(spread)) == 300
    assert ((spread >= scores) & (spread < scores + 0.01)).all()
    again = tether.risk.spread_ties(scores, np.random.default_rng(1), width=0.01)
    assert (spread == again).all()


def test_a_tie_larger_than_alpha_allows_is_skipped_or_split():
    """Every claim scores the same and a fifth are false: all enter, or none, unless spread."""
    rng = np.random.default_rng(2)
    true, offsets = rng.random(4000) < 0.8, np.arange(0, 4001, 4)
    claims = tether.Claims(np.full(4000, 0.5), true, offsets)
    assert tether.gcrc(claims, alpha=0.1).threshold == np.inf
    spread = tether.risk.spread_ties(claims.scores, rng, width=0.1)
    found = tether.gcrc(tether.Claims(spread, true, offsets), alpha=0.1)
    kept = tether.filter_claims(found, spread).mean()
    assert 0.1 < kept < 0.3


@pytest.mark.parametrize(
    ("width", "message"),
    [
        (0.2, "width must be below the smallest gap between distinct scores, 0.1, got 0.2"),
        (0, "width"),
    ],
)
def test_bad_widths(width, message):
    with pytest.raises(ValueError, match=message):
        tether.risk.spread_ties([0.1, 0.2, 0.5], np.random.default_rng(0), width=width)


def test_a_seed_is_not_a_generator():
    with pytest.raises(TypeError, match=r"^rng must be a numpy.random.Generator"):
        tether.risk.spread_ties([0.1, 0.2], 3, width=0.01)


def test_ties_that_floating_point_cannot_separate():
    with pytest.raises(ValueError, match="width must be at least 4 to separate 2 scores"):
        tether.risk.spread_ties([1e16, 1e16], np.random.default_rng(0), width=0.5)


def test_a_width_equal_to_the_smallest_gap_is_refused():
    with pytest.raises(ValueError, match="width must be below the smallest gap"):
        tether.risk.spread_ties([0.25, 0.5, 1.0], np.random.default_rng(0), width=0.25)
