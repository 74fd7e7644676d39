"""Pages together are the table, and none is large."""

import sqlalchemy as sql
from hypothesis import given
from hypothesis import strategies as st

from tether.rounds.store import table_pages
from tether.rounds.store.table_pages import read_pages, read_table_pages

TABLE = sql.Table(
    "t",
    sql.MetaData(),
    sql.Column("a", sql.Integer, primary_key=True),
    sql.Column("b", sql.Text, primary_key=True),
    sql.Column("content", sql.LargeBinary),
)
ROWS = st.dictionaries(
    st.tuples(st.integers(0, 3), st.sampled_from("abcd")), st.none() | st.binary(max_size=9)
)


@given(ROWS, st.integers(1, 5), st.integers(1, 20))
def test_pages_hold_every_row_once_and_in_order(rows, most_rows, most_bytes):
    kept = table_pages.ROWS_PER_PAGE, table_pages.BYTES_PER_PAGE
    table_pages.ROWS_PER_PAGE, table_pages.BYTES_PER_PAGE = most_rows, most_bytes
    engine = sql.create_engine("sqlite://")
    try:
        with engine.begin() as connection:
            TABLE.metadata.create_all(connection)
            given_rows = [{"a": a, "b": b, "content": rows[a, b]} for a, b in sorted(rows)]
            if rows:
                connection.execute(TABLE.insert(), given_rows)
            pages = list(read_table_pages(connection, TABLE))
            selected = list(
                read_pages(connection, {"c": TABLE.c.content}, TABLE, [TABLE.c.a, TABLE.c.b])
            )
    finally:
        engine.dispose()
        table_pages.ROWS_PER_PAGE, table_pages.BYTES_PER_PAGE = kept
    assert [row for page in pages for row in page] == given_rows
    assert [row["c"] for page in selected for row in page] == [row["content"] for row in given_rows]
    for page in pages:
        size = sum(len(row["content"] or b"") + len(row["b"]) for row in page)
        assert 1 <= len(page) <= most_rows
        assert size <= most_bytes or len(page) == 1
