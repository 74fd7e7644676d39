import numpy as np
import pytest
from scipy.sparse import csr_array

from tether.policies.ratio_regions import fit_regions


@pytest.mark.parametrize("convert", [np.asarray, csr_array])
def test_the_region_where_the_ratio_is_off_is_found(convert):
    rng = np.random.default_rng(0)
    matrix = rng.random((8_000, 3))
    off = matrix[:, 1] > 0.8
    is_optimized = rng.random(8_000) < np.where(off, 0.8, 0.4)
    regions = fit_regions(convert(matrix), np.zeros(8_000), is_optimized, rng)
    fresh = rng.random((2_000, 3))
    leaf = regions(convert(fresh), np.zeros(2_000))
    inside = [(fresh[leaf == number, 1] > 0.8).mean() for number in np.unique(leaf)]
    assert all(share < 0.05 or share > 0.95 for share in inside)
    assert len(inside) <= 8


def test_regions_are_not_smaller_than_what_can_be_measured():
    rng = np.random.default_rng(0)
    matrix, is_optimized = rng.random((150, 2)), rng.random(150) < 0.5
    leaf = fit_regions(matrix, np.zeros(150), is_optimized, rng)(matrix, np.zeros(150))
    assert len(np.unique(leaf)) == 1
