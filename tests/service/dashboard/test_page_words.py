"""The words of the page: those that it asks for are there, and no others."""

import re
from dataclasses import fields
from importlib import resources

import pytest

from tether.service.dashboard.page_words import RAMP_WORDS, RELEASE_WORDS, RUN_WORDS, PageWords

FOLDER = resources.files("tether.service.dashboard")


def test_the_page_uses_every_word_and_no_other():
    page = FOLDER.joinpath("dashboard.html").read_text()
    script = FOLDER.joinpath("dashboard_view.js").read_text()
    asked = set(re.findall(r'data-word="(\w+)"', page)) | set(re.findall(r"words\.(\w+)", script))
    assert asked == {each.name for each in fields(PageWords)}


@pytest.mark.parametrize("words", [RUN_WORDS, RAMP_WORDS])
def test_a_run_is_not_called_a_release(words):
    assert not re.search("system|step|keys|decision", str(words).replace("unit", ""))


def test_the_words_of_a_release_are_not_in_the_page_itself():
    for name in ("dashboard.html", "dashboard_view.js", "dashboard.js"):
        text = FOLDER.joinpath(name).read_text()
        for word in ("new system", "old system", "optimized policy", "safe policy"):
            assert word not in text
    assert "new system" in str(RELEASE_WORDS)
