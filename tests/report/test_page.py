"""The page as text: whole, safe, self-contained, and with the numbers of the run."""

import base64
import hashlib
import itertools
import re
import subprocess
import sys

import pytest

from tests.report import histories
from tests.report.conftest import made, rendered
from tests.report.reading import read
from tether.report import render, write
from tether.report.number_format import interval, number


def test_every_shape_is_sound(shape):
    page = read(rendered(shape))
    ids = [each.attributes["id"] for each in page.all() if "id" in each.attributes]
    assert len(ids) == len(set(ids))
    for each in page.all():
        for name in ("aria-labelledby", "for"):
            if name in each.attributes:
                assert each.attributes[name] in ids, (name, each.attributes)
        for value in each.attributes.values():
            for used in re.findall(r"url\(#([^)]*)\)", value or ""):
                assert used in ids
        if (each.attributes.get("href") or "").startswith("#"):
            assert each.attributes["href"][1:] in ids
    levels = [int(each.tag[1]) for each in page.all() if re.fullmatch(r"h[1-6]", each.tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))


def test_nothing_comes_from_elsewhere(shape):
    text = rendered(shape)
    assert "http:" not in text
    assert "https:" not in text
    assert "//" not in re.sub(r"sqlite:///biopsies.db|^ *// .*$", "", text, flags=re.M)
    page = read(text)
    assert not list(page.all("img"))
    for each in page.all():
        assert not {"src", "srcset", "style", "action", "formaction"} & set(each.attributes)
        assert not any(name.startswith("on") for name in each.attributes)
        assert (each.attributes.get("href") or "#")[:1] == "#" or each.tag == "link"
    assert [each.attributes["href"] for each in page.all("link")] == ["data:,"]


def test_only_its_own_style_and_script_may_run():
    page = read(rendered("ten_rounds"))
    (policy,) = page.all("meta", **{"http-equiv": "Content-Security-Policy"})
    rules = dict(rule.split(" ", 1) for rule in policy.attributes["content"].split("; "))
    assert rules["default-src"] == "'none'"
    for tag, rule in (("style", "style-src"), ("script", "script-src")):
        (part,) = page.all(tag)
        digest = base64.b64encode(hashlib.sha256(part.text.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"


def test_words_of_others_stay_words():
    page = read(rendered("hostile"))
    assert len(list(page.all("script"))) == 1
    assert "owned" not in next(page.all("script")).text
    words = [
        text.strip()
        for each in page.all()
        for text in each.children
        if isinstance(text, str) and histories.HOSTILE in text
    ]
    assert len(words) > 15  # names, notes, messages, reasons, times: all are there, as text
    assert "<script>document" not in rendered("hostile")


def test_size_and_time_grow_gently():
    assert len(rendered("ten_rounds").encode()) < 200_000
    assert len(rendered("two_hundred").encode()) < 1_000_000


def test_the_same_run_gives_the_same_page():
    assert render(made("one_safe_round")) == rendered("one_safe_round")


def test_the_users_style_neither_shows_nor_changes():
    import matplotlib

    with matplotlib.rc_context({"lines.linewidth": 9, "font.size": 30, "svg.fonttype": "path"}):
        before = dict(matplotlib.rcParams)
        assert render(made("one_safe_round")) == rendered("one_safe_round")
        assert dict(matplotlib.rcParams) == before


def test_numbers_are_the_runs_own(shape):
    history, page = made(shape), read(rendered(shape))
    if not history.rounds:
        assert not list(page.all("figure"))
        return
    figures = {each.attributes["id"]: each for each in page.all("figure")}
    seen = [each for each in reversed(history.rounds) if each.loss]
    shown = next(figures["chart-risk"].all("table")).rows()
    assert [row[:4] for row in shown] == [
        [str(e.number), f"{e.loss.count:,}", number(e.loss.mean), interval(e.loss)] for e in seen
    ]
    for row, each in zip(shown, seen, strict=True):
        clearly, over = each.loss.lower > history.alpha, each.loss.mean > history.alpha
        word = "clearly above" if clearly else "above alpha, within" if over else "at most alpha"
        assert row[4].startswith(word)
    beta = next(figures["chart-beta"].all("table")).rows()
    assert [row[2] for row in beta] == [number(each.beta) for each in reversed(history.rounds)]
    calibrated = [each for each in reversed(history.rounds) if each.calibration]
    if calibrated:
        sizes = next(figures["chart-effective"].all("table")).rows()
        assert [row[1] for row in sizes] == [
            number(each.calibration.effective_sample_size) for each in calibrated
        ]
        weights = next(figures["chart-weights"].all("table")).rows()
        assert [row[-1] for row in weights] == [
            number(each.calibration.relative_weights[100]) for each in calibrated
        ]
        curve = next(figures["chart-curve"].all("table")).rows()
        assert [row[2] for row in curve] == [number(e.calibration.risk) for e in calibrated]
    (section,) = page.all("section", id="rounds")
    table = next(section.all("table")).rows()
    assert [[int(cell.replace(",", "")) for cell in row[8:15]] for row in table] == [
        [
            *(e.rows, e.safe_rows, e.fallback_rows, e.calibration_rows),
            *(e.observed, e.pending, e.withdrawn),
        ]
        for e in reversed(history.rounds)
    ]


def test_one_round_is_shown_and_the_others_wait(shape):
    history, page = made(shape), read(rendered(shape))
    cards = list(page.all("div", **{"class": "card"}))
    assert len(cards) == len(history.rounds)
    assert ["hidden" in card.attributes for card in cards] == [True] * (len(cards) - 1) + [
        False
    ] * (len(cards) > 0)
    chosen = {
        each.attributes["data-round"]
        for each in page.all("g")
        if "chosen" in (each.attributes.get("class") or "")
    }
    last = history.rounds[-1] if history.rounds else None
    assert chosen == ({str(last.number)} if last and last.calibration else set())


def test_warnings_notes_and_alarms_are_there():
    page = read(rendered("beta_infinite"))
    (doubt,) = made("beta_infinite").rounds[-1].calibration.warnings
    shown = [each.text for each in page.all("ul", **{"class": "warnings"})]
    assert any(doubt[1:] in text for text in shown)
    (alarms,) = read(rendered("alarm_standing")).all("section", id="alarms")
    latest, first = next(alarms.all("table")).rows()
    assert latest[2:4] == ["shift", "contexts are no longer what they were"]
    assert latest[5:] == ["▲ stands", "–"]
    assert first[6] == "a faulty scanner"
    (rounds,) = read(rendered("ten_rounds")).all("section", id="rounds")
    assert "86 losses are awaited (round 10) and 4 rows were withdrawn" in rounds.text


def test_write_and_wrong_arguments(tmp_path):
    write(made("one_safe_round"), tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text("utf-8") == rendered("one_safe_round")
    with pytest.raises(TypeError, match="history must be a tether History, got dict"):
        render({})


def test_without_matplotlib_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install 'tether\[plot\]'"):
        render(made("one_safe_round"))
    with pytest.raises(ImportError, match=r"pip install 'tether\[plot\]'"):
        made("ten_rounds").rounds[-1].calibration.plot()


def test_neither_pyplot_nor_more_than_asked_is_imported():
    code = (
        "import sys, tether, tether.report; assert 'matplotlib' not in sys.modules; "
        "from tests.report import histories; tether.report.render(histories.one_safe_round()); "
        "print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
