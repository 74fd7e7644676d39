"""Counts have the right noun."""

from tether._core.words import counted


def test_one_is_singular_and_all_else_plural():
    assert counted(1, "item") == "1 item"
    assert counted(0, "item") == "0 items"
    assert counted(12345, "item") == "12,345 items"
    assert counted(2, "loss", "losses") == "2 losses"
