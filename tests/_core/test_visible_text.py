"""Text that is safe to show."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from tether._core.words import visible, visible_lines

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
        assert (visible_lines(character) == character) == kept


@given(st.text(st.characters()))
def test_what_is_shown_can_be_written_and_holds_no_acting_character(text):
    for shown in (visible(text), visible_lines(text).replace("\n", "").replace("\t", "")):
        assert not any(map(acts, shown))
        shown.encode("utf-8")
    assert visible(visible(text)) == visible(text)


def test_escapes_are_those_of_python():
    assert visible("\x1b[31m red\x9b\u202e\ud800\n") == "\\x1b[31m red\\x9b\\u202e\\ud800\\n"
    assert visible_lines("a\r\n\tb\x07") == "a\\r\n\tb\\x07"
