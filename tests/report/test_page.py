"""The text of the page: valid, safe, self-contained and reproducible."""

import base64
import dataclasses
import hashlib
import itertools
import re

import numpy as np
import pytest

from tests.report import example_histories
from tests.report.example_histories import HOSTILE_TEXT, example, rendered
from tests.report.html_tree import parse
from tether.report import render, write
from tether.report.number_format import format_number


def test_ids_references_and_headings_are_consistent(name):
    page = parse(rendered(name))
    ids = [node.attributes["id"] for node in page.find_all() if "id" in node.attributes]
    assert len(ids) == len(set(ids))
    for node in page.find_all():
        for attribute in ("aria-labelledby", "for"):
            if attribute in node.attributes:
                assert node.attributes[attribute] in ids, (attribute, node.attributes)
        for value in node.attributes.values():
            for reference in re.findall(r"url\(#([^)]*)\)", value or ""):
                assert reference in ids
        if (node.attributes.get("href") or "").startswith("#"):
            assert node.attributes["href"][1:] in ids
    levels = [int(node.tag[1]) for node in page.find_all() if re.fullmatch(r"h[1-6]", node.tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))


def test_nothing_is_loaded_from_elsewhere(name):
    text = rendered(name)
    assert "http:" not in text
    assert "https:" not in text
    assert "//" not in re.sub(r"sqlite:///biopsies.db|^ *// .*$", "", text, flags=re.M)
    page = parse(text)
    assert not list(page.find_all("img"))
    for node in page.find_all():
        assert not {"src", "srcset", "style", "action", "formaction"} & set(node.attributes)
        assert not any(attribute.startswith("on") for attribute in node.attributes)
        assert (node.attributes.get("href") or "#")[:1] == "#" or node.tag == "link"
    assert [node.attributes["href"] for node in page.find_all("link")] == ["data:,"]


def test_only_its_own_style_and_script_may_run():
    page = parse(rendered("ten_rounds"))
    (policy,) = page.find_all("meta", **{"http-equiv": "Content-Security-Policy"})
    rules = dict(rule.split(" ", 1) for rule in policy.attributes["content"].split("; "))
    assert rules["default-src"] == "'none'"
    for tag, rule in (("style", "style-src"), ("script", "script-src")):
        (part,) = page.find_all(tag)
        digest = base64.b64encode(hashlib.sha256(part.text.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"


def test_texts_of_the_run_are_escaped():
    page = parse(rendered("hostile_texts"))
    assert len(list(page.find_all("script"))) == 1
    assert "owned" not in next(page.find_all("script")).text
    texts = [
        child.strip()
        for node in page.find_all()
        for child in node.children
        if isinstance(child, str) and HOSTILE_TEXT in child
    ]
    assert len(texts) > 15  # names, notes, messages, reasons, times: all are there, as text
    assert "<script>document" not in rendered("hostile_texts")


def test_the_page_stays_small():
    assert len(rendered("ten_rounds").encode()) < 200_000
    assert len(rendered("two_hundred_rounds").encode()) < 1_000_000


def test_the_same_run_gives_the_same_page():
    assert render(example("one_safe_round")) == rendered("one_safe_round")


def test_the_page_of_a_run_without_rounds_has_no_charts():
    assert not list(parse(rendered("empty")).find_all("figure"))


def test_a_round_without_losses_says_so():
    rounds = [example_histories.tethered_round(1, np.random.default_rng(3), reward=None, losses={})]
    page = parse(render(example_histories.make_history(rounds)))
    (section,) = page.find_all("section", id="risk")
    assert "No losses have arrived yet." in section.text


def test_write_writes_the_rendered_page(tmp_path):
    write(example("one_safe_round"), tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text("utf-8") == rendered("one_safe_round")


def test_anything_but_a_history_is_rejected():
    with pytest.raises(TypeError, match="history must be a tether History, got dict"):
        render({})


def test_every_one_of_several_losses_is_shown():
    history = example_histories.two_losses()
    text = render(history)
    page = parse(text)
    assert "<b>delay" not in text
    titles = {next(each.find_all("h3")).text for each in page.find_all("figure")}
    assert {f"Realized risk of {name} per round" for name in history.limits} <= titles
    for number, name in (("risk", "missed"), ("risk-2", "<b>delay</b>")):
        (figure,) = page.find_all("figure", id=f"chart-{number}")
        rows = next(figure.find_all("table")).rows()
        assert len(rows) == sum(name in record.losses for record in history.rounds)
    (table,) = (next(each.find_all("table")) for each in page.find_all("section", id="rounds"))
    last, second, first = table.rows()
    assert first[4] == "none"
    assert second[4] == ", ".join(
        f"{name} ≤ {format_number(value)}" for name, value in history.rounds[1].promises.items()
    )
    assert last[7] == "–"
    assert second[7] != "–"
    figures = next(page.find_all("dl", **{"class": "key-figures"})).text
    for name, limit in history.limits.items():
        assert f"Tolerated risk of {name}, alpha{format_number(limit.alpha)}" in figures
    assert "or the risk of <b>delay</b> is above 3" in page.text


def test_a_run_with_a_promise_is_compared_with_its_promise():
    history = example("ten_rounds")
    named = dataclasses.replace(history, target="promise")
    text, alpha_page = render(named), rendered("ten_rounds")
    for words in (
        "Is the risk within the promise?",
        "Promise to keep",
        "Compared with the promise",
        "clearly above the promise",
        "compared with the promise = ",
        "promise 0.1<",
    ):
        assert words in text, words
    for words in ("within alpha", "Compared with alpha", "clearly above alpha", "risk, alpha"):
        assert words not in text, words
        assert words in alpha_page, words
