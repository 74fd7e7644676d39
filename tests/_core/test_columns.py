"""Columns of results: a dictionary that prints as a table and that frames accept."""

import numpy as np
import pytest

from tether._core.words import MAX_PRINTED_ROWS, Columns, format_cell, shown_rows


def test_every_value_has_its_own_form():
    values = [0.123456, 12345, np.float64("inf"), np.nan, None, True, np.int64(7), "a\x1bb"]
    texts = ["0.1235", "12,345", "inf", "–", "–", "yes", "7", r"a\x1bb"]
    assert [format_cell(value) for value in values] == texts


def test_numbers_are_right_aligned_and_texts_left():
    table = Columns(name=np.array(["a", "long"]), beta=np.array([1.5, 10.25]))
    assert str(table).splitlines() == [
        "  name   beta",
        "  a       1.5",
        "  long  10.25",
    ]


@pytest.mark.parametrize("count", [0, 1, MAX_PRINTED_ROWS, MAX_PRINTED_ROWS + 1, 1000])
def test_a_long_table_is_printed_without_its_middle(count):
    table = Columns(row=np.arange(count))
    lines = str(table).splitlines()
    assert table.row_count == count
    assert len(lines) == 1 + min(count, MAX_PRINTED_ROWS) + (count > MAX_PRINTED_ROWS)
    if count > MAX_PRINTED_ROWS:
        assert f"… {count - MAX_PRINTED_ROWS:,} more rows …" in str(table)
    shown = shown_rows(count, MAX_PRINTED_ROWS)
    assert shown == sorted(set(shown))
    assert len(shown) == min(count, MAX_PRINTED_ROWS)


def test_no_columns_at_all():
    assert Columns().row_count == 0
    assert str(Columns()) == ""


def test_frames_accept_it():
    table = Columns(alpha=np.array([0.1, 0.2]), name=np.array(["a", "b"]))
    for library in ("pandas", "polars"):
        frame = pytest.importorskip(library).DataFrame(table)
        assert list(frame.columns) == ["alpha", "name"]
        assert list(frame["name"]) == ["a", "b"]
    arrow = pytest.importorskip("pyarrow").table(table)
    assert arrow.column_names == ["alpha", "name"]
