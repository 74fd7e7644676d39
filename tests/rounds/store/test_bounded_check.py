"""Rows are checked in parts with the same result as at once."""

import pytest
import sqlalchemy as sql
from hypothesis import given
from hypothesis import strategies as st

from tests.rounds.store.exported_runs import make_run
from tests.rounds.worlds import World
from tether.rounds.store import bounded_check, chain
from tether.rounds.store.bounded_check import digest_in_parts
from tether.rounds.store.database import Store
from tether.rounds.store.verify_run import find_tampering

KINDS = {"number": chain.INTEGERS, "score": chain.NUMBERS, "text": chain.CONTENT}
ROW = st.tuples(
    st.integers(-(2**63), 2**63 - 1),
    st.none() | st.floats(allow_nan=False),
    st.none()
    | st.binary(max_size=5)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
)


@given(st.lists(ROW, min_size=1, max_size=20), st.integers(1, 7))
def test_a_digest_in_parts_is_the_digest(rows, size):
    columns = dict(zip(KINDS, zip(*rows, strict=True), strict=True))

    def read(*names):
        for k in range(0, len(rows), size):
            yield {name: columns[name][k : k + size] for name in names}

    assert digest_in_parts(read, KINDS) == chain.digest_rows(columns, KINDS)


CHANGES = [
    "UPDATE tether_observations SET loss = 0.0625 WHERE action = 33",
    "UPDATE tether_observations SET reason = 'x' WHERE reason IS NOT NULL",
    "UPDATE tether_actions SET log_safe = -1 WHERE id = 50",
    "UPDATE tether_actions SET context = x'00' WHERE id = 1",
    "UPDATE tether_actions SET calibration = 1 - calibration WHERE id = 40",
    "DELETE FROM tether_observations WHERE action = 12",
    "DELETE FROM tether_actions WHERE id = 120",
    "UPDATE tether_observations SET number = 500 WHERE action = 12",
]


@pytest.mark.parametrize("limits", [(16_384, 2**24), (7, 2**24), (16_384, 10), (1, 1)])
@pytest.mark.parametrize("change", [None, *CHANGES])
def test_changes_are_found_whatever_is_checked_together(change, limits, tmp_path, monkeypatch):
    make_run(World("marginal"), tmp_path / "run.db", rounds=2, rows=50)
    monkeypatch.setattr(bounded_check, "ROWS_CHECKED_TOGETHER", limits[0])
    monkeypatch.setattr(bounded_check, "BYTES_CHECKED_TOGETHER", limits[1])
    engine = sql.create_engine(f"sqlite:///{tmp_path / 'run.db'}")
    if change is not None:
        with engine.begin() as connection:
            connection.exec_driver_sql(change)
    engine.dispose()
    store = Store(tmp_path / "run.db", check=False)
    with store.reading() as connection:
        found = list(find_tampering(connection))
    store.close()
    assert bool(found) == (change is not None)
