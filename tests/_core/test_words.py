"""Columns and descriptions of results, and text that is safe to show."""

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tether._core.words import MAX_PRINTED_ROWS, Columns, visible


@pytest.mark.parametrize("count", [0, 1, MAX_PRINTED_ROWS, MAX_PRINTED_ROWS + 1, 1000])
def test_a_long_table_is_printed_without_its_middle(count):
    shown, left_out = str(Columns(row=np.arange(count))), count - MAX_PRINTED_ROWS
    assert len(shown.splitlines()) == 1 + min(count, MAX_PRINTED_ROWS) + (left_out > 0)
    assert (f"… {left_out:,} more rows …" in shown) == (left_out > 0)


BIDIRECTIONAL = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
MARKS = "\u061c\u200e\u200f"


def acts(character):
    """By the Unicode database: a control, a surrogate, a separator or a mark of direction."""
    return (
        unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
        or unicodedata.bidirectional(character) in BIDIRECTIONAL
        or character in MARKS
    )


def test_each_character_is_escaped_if_and_only_if_it_acts():
    for character in map(chr, [*range(0x3000), *range(0xD800, 0xE100), 0xFEFF, 0x1F600, 0xE0001]):
        assert (visible(character) == character) == (not acts(character))
        kept = not acts(character) or character in "\n\t"
        assert (visible(character, kept="\n\t") == character) == kept


@given(st.text(st.characters()))
def test_what_is_shown_can_be_written_and_holds_no_acting_character(text):
    for shown in (visible(text), visible(text, kept="\n\t").replace("\n", "").replace("\t", "")):
        assert not any(map(acts, shown))
        shown.encode("utf-8")
    assert visible(visible(text)) == visible(text)
