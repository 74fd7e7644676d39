"""Rows in memory: blocks, kernels and their combination."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tether._core.rows import Rows


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=40), st.integers(1, 50))
def test_a_reduction_is_that_of_the_whole_columns(values, size):
    column = np.array(values)
    rows = Rows({"x": column, "table": np.column_stack((column, -column))})

    def kernel(block):
        x, table = block["x"], block["table"]
        assert table.shape == (len(x), 2)
        return {
            "total": np.array([x.sum(), len(x)]),
            "most": table.max(axis=0),
            "logs": np.logaddexp.reduce(table, axis=0),
            "all": table.T,
        }

    how = {"total": "sum", "most": "max", "logs": "logsum", "all": "concat"}
    found, whole = rows.reduce(kernel, how, size), kernel(rows.columns)
    for name, value in whole.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-12, atol=1e-12)


def test_threads_keep_the_order_and_the_error_state(monkeypatch):
    monkeypatch.setenv("TETHER_THREADS", "3")
    rows, used = Rows({"x": np.arange(1000)}), set()

    def kernel(block):
        used.add(threading.current_thread().name)
        return np.log(block["x"] - block["x"][0])[1:].sum() * 0 + block["x"][0]

    with np.errstate(divide="ignore", invalid="ignore"):
        assert list(rows.map(kernel, 10)) == list(range(0, 1000, 10))
    assert all(name.startswith("tether-blocks") for name in used)
    monkeypatch.setenv("TETHER_THREADS", "some")
    with pytest.raises(ValueError, match="TETHER_THREADS"):
        list(rows.map(kernel, 10))
