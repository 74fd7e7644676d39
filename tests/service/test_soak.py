"""A service whose workers and database are killed at random, for a short while."""

import pytest
from benchmarks import soak
from benchmarks.soak_checks import find_flips
from benchmarks.soak_load import Answer, Log

from tests.runs import postgres_server
from tether.rounds import Release

pytestmark = pytest.mark.slow


def test_nothing_that_was_answered_is_lost(capsys):
    store = "sqlite" if postgres_server.missing() else "postgresql"
    assert soak.main(minutes=0.12, store=store, workers=2, rate=100.0), capsys.readouterr().out


def test_the_soak_would_notice_a_key_that_goes_back():
    with Release("sqlite://", {"complaint": 0.3}) as release:
        history = release.history()
        log = Log()
        log.answers["a"] = [Answer(1.0, 1.1, "new", True), Answer(2.0, 2.1, "old", False)]
        assert not list(find_flips(history, log))
        log.answers["a"].append(Answer(3.0, 3.1, "old", True))
        assert list(find_flips(history, log))
        release.halt("a test")
        assert list(find_flips(release.history(), log))  # long after these answers
