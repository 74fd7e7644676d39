"""Engines: what their errors show."""

import pytest
import sqlalchemy as sql

from tether.rounds.store.engine import make_engine


def test_errors_of_the_database_show_no_parameters():
    """A parameter may be the key of a user."""
    engine = make_engine("sqlite://", create=True, deadline=1.0)
    with engine.connect() as connection, pytest.raises(sql.exc.OperationalError) as found:
        connection.execute(sql.text("SELECT :key FROM nothing"), {"key": "user 4711"})
    engine.dispose()
    assert "nothing" in str(found.value)
    assert "4711" not in str(found.value)
