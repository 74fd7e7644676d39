"""What a notebook shows: the words of the summary, escaped, with nothing from elsewhere."""

import re
from html import unescape

import numpy as np
import pytest

import tether
from tests.report import example_histories, html_tree
from tests.report.releases import example_releases
from tether._core.words import Columns, Description
from tether.report.summary_card import TONE_COLORS, summary_card

HOSTILE = "<script>alert(1)</script>"
RNG = np.random.default_rng(3)
SCORES = RNG.random(300)
CLAIMS = tether.Claims(SCORES, RNG.random(300) < SCORES, np.arange(0, 301, 3))


def results():
    actions = RNG.normal(size=300)
    log = tether.Log({HOSTILE: actions > 1.5}, -(actions**2) / 2, -((actions - 1) ** 2) / 2)
    found = tether.calibrate(log, alpha={HOSTILE: 0.2})
    yield from (log, found, tether.gain(found, log))
    yield tether.compare({HOSTILE: found, "b": found})
    yield tether.gcrc(CLAIMS, alpha=0.2)
    yield tether.gcrc(CLAIMS, alpha=0.2, groups=[HOSTILE] * 50 + ["b"] * 50)
    yield tether.compare([tether.gcrc(CLAIMS, alpha=a) for a in (0.1, 0.2)])
    yield from (tether.plan(alpha=0.1, safe_risk=0.05), tether.plan(alpha=0.1, safe_risk=0.2))
    for history in (example_histories.example(name) for name in example_histories.EXAMPLES):
        yield from (history, *history.rounds[-1:])
    yield from (example_releases.example(name) for name in example_releases.EXAMPLES)


def words(text):
    return text.split()


def test_it_says_what_printing_says_and_loads_nothing():
    for result in results():
        shown = result._repr_html_()
        html_tree.parse(shown)
        assert "<script" not in shown
        assert not re.search(r"(?:src|href|url\(|http-equiv|@import|on\w+=)", shown)
        visible = words(unescape(re.sub(r"<[^>]+>", " ", shown)))
        assert words(str(result))[0] in visible
        described = getattr(result, "_describe", None)
        for fact, value in described().facts if described else ():
            assert words(fact)[0] in visible
            assert words(value)[-1] in visible


def test_every_part_is_escaped():
    made = Description(
        HOSTILE,
        "caution",
        ((HOSTILE, HOSTILE),),
        HOSTILE,
        Columns({HOSTILE: np.array([HOSTILE])}),
        (HOSTILE,),
        (HOSTILE,),
    )
    shown = summary_card(made)
    assert "<script" not in shown
    assert shown.count("&lt;script&gt;") == 8


def test_colors_come_from_the_notebook_but_for_the_bar():
    for tone, color in TONE_COLORS.items():
        shown = summary_card(Description("x", tone, (("a", "b"),), warnings=("w",)))
        assert re.findall(r"#[0-9a-f]{6}", shown) == [color]
        assert not re.search(r"[;\"](?:color|background)", shown)


@pytest.mark.parametrize("color", TONE_COLORS.values())
def test_the_bar_is_visible_on_light_and_on_dark(color):
    def luminance(channels):
        parts = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    value = luminance([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    assert 1.05 / (value + 0.05) >= 3
    assert (value + 0.05) / 0.05 >= 3


def test_a_long_table_says_how_much_is_left_out():
    shown = summary_card(Description("x", table=Columns(row=np.arange(1000))))
    assert "… 980 more rows …" in shown
    assert shown.count("<tr>") == 1 + 20 + 1
