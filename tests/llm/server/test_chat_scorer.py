"""Scores of chat answers, by functions and by a server."""

import threading

import numpy as np
import pytest

from tests.llm.chat_server import ChatServer, asked
from tether.llm import ChatScorer, ScoreServer, ServerError, answer_scorer
from tether.llm.server.chat_messages import canonical_json
from tether.policies import Picker
from tether.policies.picker import ShortlistRows
from tether.rounds.policy_registry import fingerprint


def answered(text):
    message = {"role": "assistant", "content": text}
    return canonical_json({"finish_reason": "stop", "message": message})


CONTEXTS = np.array([asked("x"), asked("y"), asked("x")])
CANDIDATES = np.array(
    [
        [answered("a"), answered("bb")],
        [answered("ccc"), answered("")],
        [answered("a"), answered("bb")],
    ]
)
LENGTHS = np.array([[1.0, 2.0], [3.0, 0.0], [1.0, 2.0]])


def lengths(messages, answers):
    assert messages[0]["role"] == "user"
    return [len(each["content"]) for each in answers]


def test_a_function_scores_each_row():
    np.testing.assert_array_equal(ChatScorer(lengths)(CONTEXTS, CANDIDATES), LENGTHS)


def test_a_batched_function_gets_distinct_rows():
    calls = []

    def score(messages, answers):
        calls.append(len(messages))
        return [lengths(*each) for each in zip(messages, answers, strict=True)]

    scorer = ChatScorer(score, batched=True)
    np.testing.assert_array_equal(scorer(CONTEXTS, CANDIDATES), LENGTHS)
    assert calls == [2]


def test_a_check_is_due_now_and_then(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(answer_scorer.time, "monotonic", lambda: now[0])
    picker = Picker(ChatScorer(lengths, check_every=60), size=2)
    due = []
    for moment in (0.0, 59.0, 61.0, 62.0, 121.5):
        now[0] = moment
        due.append(picker.check_is_due())
    assert due == [True, False, True, False, True]
    always = Picker(lambda contexts, candidates: candidates, size=2)
    assert always.check_is_due()
    assert always.check_is_due()


@pytest.mark.parametrize("bad", [[1.0], [[1.0, 2.0]], 3.0, "ab"])
def test_other_scores_are_refused(bad):
    with pytest.raises(ValueError, match=r"scorer returned|could not convert"):
        ChatScorer(lambda messages, answers: bad)(CONTEXTS, CANDIDATES)


def test_a_plain_function_of_messages_is_told_to_be_wrapped():
    answers = ['{"finish_reason":"stop","message":{"content":"a","role":"assistant"}}'] * 2
    rows = ShortlistRows(np.array(["{}"]), np.array([answers], dtype=object))
    picker = Picker(lambda messages, answers: [len(each["content"]) for each in answers], size=2)
    with pytest.raises(ValueError, match=r"is wrapped, tether.llm.ChatScorer\(score\)"):
        picker.scores(rows)
    numbers = ShortlistRows(1, np.zeros((1, 2)))
    with pytest.raises(ValueError, match=r"of shape \(1, 2\)$"):
        picker.scores(numbers)


def test_a_scorer_is_told_by_its_name():
    def mark(**options):
        return fingerprint(Picker(ChatScorer(lengths, **options), size=2))

    assert mark(name="v1") == mark(name="v1", check_every=5.0) != mark(name="v2")
    assert mark() is None
    with pytest.raises(TypeError, match="function of"):
        ChatScorer(5)


def test_a_server_that_is_too_slow_is_unavailable():
    may_go_on = threading.Event()
    with ChatServer(lambda body, answer: 0.0) as server:
        server.faults = [may_go_on]
        remote = ScoreServer(f"{server.url}/score", timeout=0.1, retries=0)
        with pytest.raises(ServerError, match="Timeout"):
            remote([[]], [[{}]])
        may_go_on.set()


def test_a_server_scores():
    with ChatServer(lambda body, answer: len(answer["content"])) as server:
        url = server.url.removesuffix("/v1") + "/score"
        remote = ScoreServer(url, retries=1)
        remote.client.first_retry_wait = 0.01
        scorer = ChatScorer(remote, batched=True)
        np.testing.assert_array_equal(scorer(CONTEXTS, CANDIDATES), LENGTHS)
        sent = [each["answers"][0] for each in server.requests]  # in any order
        assert {"content": "a", "role": "assistant"} in sent
        for fault in (503, "garbled", "drop"):
            server.faults = [fault]
            assert scorer(CONTEXTS[:1], CANDIDATES[:1]).shape == (1, 2)  # tried again
        for broken in (
            [503, 503],
            [lambda each: each["scores"].pop()],
            [lambda each: each.clear()],
        ):
            server.faults = list(broken)
            with pytest.raises(ServerError):
                scorer(CONTEXTS[:1], CANDIDATES[:1])
        server.faults = [422]
        with pytest.raises(ValueError, match="refused"):
            scorer(CONTEXTS[:1], CANDIDATES[:1])
    assert "score" in repr(remote)
