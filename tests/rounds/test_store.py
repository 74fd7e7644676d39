"""The store itself, on both databases."""

from __future__ import annotations

from tether.rounds.store import Store, read_terms, write_terms


def test_what_is_written_is_there_when_the_store_is_opened_again(store_url):
    first = Store(store_url)
    with first.writing() as connection:
        write_terms(connection, {"alpha": 0.1})
    first.close()
    again = Store(store_url, create=False)
    with again.reading() as connection:
        assert read_terms(connection) == {"alpha": 0.1}
    again.close()
