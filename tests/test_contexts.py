"""Contexts of every sort are counted, indexed and cut alike."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tether._contexts import length, part, parts, settled, take

SORTS = {
    "array": np.arange(7.0),
    "table": np.arange(14.0).reshape(7, 2),
    "list": list("abcdefg"),
    "pandas": pd.DataFrame({"a": range(7)}, index=range(10, 17)),
    "polars": pl.DataFrame({"a": range(7)}),
    "number": 7,
}


@pytest.mark.parametrize("sort", list(SORTS))
def test_every_sort(sort):
    contexts = settled(SORTS[sort])
    assert length(contexts) == 7
    assert length(take(contexts, np.array([6, 0, 0]))) == 3
    assert length(part(contexts, 5, 100)) == 2
    assert [length(each) for each in parts(contexts, 3)] == [3, 3, 1]


def test_none_is_the_number_of_actions():
    assert settled(None, [1, 2, 3]) == 3
    with pytest.raises(ValueError, match="actions has 3 rows but contexts is 4"):
        settled(4, [1, 2, 3])
