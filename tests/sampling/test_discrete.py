import numpy as np
import pytest

from tests.fit import chi_square, fits
from tether.sampling import sample_categorical
from tether.sampling.discrete import log_softmax


def test_one_row_and_many_rows_fit_their_probabilities():
    rng = np.random.default_rng(0)
    p_values = []
    for size in (2, 7, 300):
        table = log_softmax(rng.normal(size=(3, size)) * 3)
        from_single_rows = [sample_categorical(row[None], 5000, rng) for row in table]
        from_many_rows = sample_categorical(np.repeat(table, 5000, axis=0), 15_000, rng).reshape(
            3, 5000
        )
        for row, drawn in [
            *zip(table, from_single_rows, strict=True),
            *zip(table, from_many_rows, strict=True),
        ]:
            p_values.append(chi_square(drawn, np.exp(row)))
    fits(p_values)


@pytest.mark.parametrize("count", [1, 4])
def test_impossible_actions_are_never_drawn_and_scale_does_not_matter(count):
    row = np.array([-np.inf, 0.0, -np.inf, 1.0, -np.inf])
    for shift in (0.0, -5000.0, 5000.0):
        drawn = sample_categorical(
            np.tile(row + shift, (count, 1)), count, np.random.default_rng(1)
        )
        assert set(drawn.tolist()) <= {1, 3}


def test_rows_of_very_different_scale_have_the_same_distribution():
    rng = np.random.default_rng(3)
    row = log_softmax(rng.normal(size=6))
    table = np.repeat(row[None] + np.array([[0.0], [-3000.0]]), 4000, axis=0)
    drawn = sample_categorical(table, 8000, rng)
    fits([chi_square(drawn[:4000], np.exp(row)), chi_square(drawn[4000:], np.exp(row))])


def test_a_row_without_actions_is_refused():
    with pytest.raises(ValueError, match="no action is possible in row 1"):
        sample_categorical(np.array([[0.0, 0.0], [-np.inf, -np.inf]]), 2, np.random.default_rng(2))
