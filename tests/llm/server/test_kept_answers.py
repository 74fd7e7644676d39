"""Answers that a failed call has got."""

from tether.llm.server import kept_answers
from tether.llm.server.kept_answers import KeptAnswers


def test_answers_are_found_until_their_call_has_succeeded():
    kept = KeptAnswers()
    kept.keep({b"a": {"x": 1}, b"b": {"x": 2}})
    kept.drop([b"c"])
    assert kept.find([b"a", b"b", b"c"]) == {b"a": {"x": 1}, b"b": {"x": 2}}
    kept.drop([b"a"])
    assert kept.find([b"a", b"b"]) == {b"b": {"x": 2}}


def test_old_answers_are_not_used():
    now = [0.0]
    kept = KeptAnswers(clock=lambda: now[0])
    kept.keep({b"a": {}})
    now[0] = kept_answers.MAX_KEPT_SECONDS / 2
    kept.keep({b"a": {}, b"b": {}})  # found, and kept on: it is no younger
    now[0] = kept_answers.MAX_KEPT_SECONDS + 1
    assert list(kept.find([b"a", b"b"])) == [b"b"]


def test_the_oldest_answers_are_forgotten_first(monkeypatch):
    monkeypatch.setattr(kept_answers, "MAX_KEPT_ANSWERS", 2)
    kept = KeptAnswers()
    for name in (b"a", b"b", b"c"):
        kept.keep({name: {}})
    assert list(kept.find([b"a", b"b", b"c"])) == [b"b", b"c"]
    assert len(kept) == 2
