"""The frame of a page."""

from tests.report.html_tree import parse
from tether.report.html_elements import Markup
from tether.report.page_frame import PageParts, page_text
from tether.report.sentences import RunState


def test_the_parts_are_where_they_belong():
    state = RunState("running", "Running", "All is <well>.", "")
    sections = [("first", "One & two", Markup("<p>content</p>"))]
    parts = PageParts("<store>", state, Markup("<h1>x</h1>"), sections, "Settings", [("A", "<b>")])
    text = page_text(parts)
    assert text.startswith("<!doctype html>\n<html lang=")
    page = parse(text.removeprefix("<!doctype html>\n"))
    assert next(page.find_all("title")).text == "Running: All is <well>. · tether report"
    (section,) = page.find_all("section", id="first")
    assert section.text == "One & twocontent"
    assert [link.text for link in next(page.find_all("nav")).find_all("a")] == ["One & two"]
    assert "<store>" in next(page.find_all("header")).text
    assert next(page.find_all("footer")).text == "SettingsA<b>"
