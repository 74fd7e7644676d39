"""Counting the rows of each policy: the same as one by one."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tether.rounds.ramps.policy_rows import RowGroup, count_policy_rows
from tether.rounds.store.rows import Rows

LOSS = st.sampled_from([0.0, 0.5, 1.0, math.nan])
ROW = st.tuples(st.integers(1, 3), st.integers(0, 3), st.booleans(), st.booleans(), LOSS, LOSS)


def rows_of(listed):
    rows = Rows(2)
    columns = list(zip(*listed, strict=True)) or [()] * 6
    rows.round, rows.served = (np.array(column, np.int32) for column in columns[:2])
    rows.calibration, rows.withdrawn = (np.array(column, np.bool_) for column in columns[2:4])
    rows.losses = np.array(columns[4:], float).T.reshape(-1, 2)
    return rows


@given(st.lists(ROW, max_size=30))
def test_counts_are_those_of_the_rows_one_by_one(listed):
    counts = count_policy_rows(rows_of(listed), ["harm", "delay"])
    for number in range(1, 4):
        for served in range(4):
            for calibration in (False, True):
                group = RowGroup(number, served, calibration)
                assert group.is_own == (number == served)
                mine = [row for row in listed if row[:3] == group and not row[3]]
                for k, name in ((4, "harm"), (5, "delay")):
                    known = [row[k] for row in mine if not math.isnan(row[k])]
                    found = counts.counts([group])[name]
                    assert found.rows == len(mine)
                    assert found.pending == len(mine) - len(known)
                    assert found.total == sum(known)
