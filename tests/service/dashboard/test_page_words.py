"""The words of the page: those that it asks for are there, and no others."""

import re
from dataclasses import fields
from importlib import resources

import numpy as np
import pytest

from tether.monitor import RiskMonitor
from tether.release import ArmCounts
from tether.rounds.releases.served_release import ServedRelease
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


def test_an_alarm_below_the_upper_end_of_the_band_is_explained():
    """18 failures in 225: the interval begins at 0, and the alarm level of 0.03 is exceeded."""
    losses = np.zeros(225)
    losses[np.random.default_rng(0).choice(225, 18, replace=False)] = 1
    found = RiskMonitor(0.03).update(losses)
    assert found.alarm_at is not None
    assert found.lower < 0.03
    for words in (RELEASE_WORDS, RUN_WORDS, RAMP_WORDS):
        assert "may come while the band still reaches below it" in words.monitor_text


def test_recent_decisions_are_not_said_to_be_in_order_within_a_batch():
    """They are stored by system and key, so that writers never wait for each other."""
    log = {"complaint": ArmCounts(10_000, 0.0)}
    with ServedRelease("sqlite://", {"complaint": 0.5}, old=log, salt=b"s") as release:
        keys = [f"{each:03}" for each in range(100)]
        assert set(release.assign(keys)[-20:]) == {"old", "new"}  # as they were decided
        recent = release.watch().look().recent
    assert {each.system for each in recent} == {"new"}
    assert [each.key for each in recent] == sorted((each.key for each in recent), reverse=True)
    assert "the latest batch first" in RELEASE_WORDS.recent_text
    assert "do not show the share" in RELEASE_WORDS.recent_text
