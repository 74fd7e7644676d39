"""A result in words: one description, shown as text and as HTML."""

import numpy as np
import pytest

from tether._core.words import DESCRIPTION_WIDTH, Columns, Described, Description


class Result(Described):
    def _describe(self):
        return Description("a headline", facts=(("risk", "0.1"),))


def test_text_has_every_part_in_order():
    text = Description(
        "headline",
        "caution",
        (("short", "one"), ("a long name", "two " * 40)),
        caption="a caption",
        table=Columns(rows=np.array([1, 2])),
        warnings=("watch out",),
        notes=("a note",),
    ).text()
    lines = text.splitlines()
    assert lines[0] == "headline"
    assert lines[1] == "  short        one"
    assert lines[2].startswith("  a long name  two two")
    assert lines[3].startswith(" " * 15 + "two")
    assert max(map(len, lines)) <= DESCRIPTION_WIDTH
    order = [text.index(part) for part in ("a caption", "rows", "! watch out", "a note")]
    assert order == sorted(order)


def test_control_characters_are_shown_and_do_not_act():
    text = Description("a\x1b[31m", facts=(("b\x07", "c"),), warnings=("\u202e",)).text()
    assert "\x1b" not in text
    assert r"a\x1b[31m" in text
    assert r"\u202e" in text


def test_printing_and_the_notebook_show_the_same():
    result = Result()
    assert str(result) == result.summary() == "a headline\n  risk  0.1"
    shown = result._repr_html_()
    assert "a headline" in shown
    assert "0.1" in shown
    with pytest.raises(NotImplementedError):
        Described().summary()
