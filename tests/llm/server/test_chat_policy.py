"""A chat model of which only draws are known, over a real connection."""

import numpy as np
import pytest

import tether
from tests.llm.chat_server import ChatServer, asked
from tether.llm import ChatPolicy, ChatScorer, ServerError, chat_context, read_answer
from tether.llm.server.chat_messages import UnreadableAnswerError
from tether.llm.server.chat_usage import counting_usage


def letters(request, rng):
    return "abc"[rng.choice(3, p=[0.5, 0.3, 0.2])]


def policy_of(server, **options):
    policy = ChatPolicy(server.url, "small", **{"retries": 1} | options)
    policy.client.first_retry_wait = 0.01
    return policy


def contents(actions):
    return [read_answer(each)["message"]["content"] for each in np.ravel(actions)]


def test_draws_of_a_context_share_a_request_and_have_the_servers_distribution():
    with ChatServer(letters) as server:
        policy = policy_of(server, settings={"temperature": 0.7, "top_p": 1})
        contexts = np.array([asked("x", temperature=0.2)] * 2000 + [asked("y")] * 3)
        with counting_usage() as usage:
            drawn = policy.sample(contexts, np.random.default_rng(0))
        sent = sorted((each["n"], each["temperature"]) for each in server.requests)
        assert sent == [(3, 0.7), (2000, 0.2)]  # the context's own, where it has one
        assert server.requests[0]["model"] == "small"
        assert "seed" not in server.requests[0]
    assert usage.draws == 2003
    assert usage.tokens["total_tokens"] == 20 + 3 * 2003
    shares = [contents(drawn[:2000]).count(each) / 2000 for each in "abc"]
    np.testing.assert_allclose(shares, [0.5, 0.3, 0.2], atol=4 * 0.5 / np.sqrt(2000))


@pytest.mark.parametrize(("knows_n", "max_n"), [(True, 4), (True, 1), (False, None), (False, 4)])
def test_a_server_that_does_not_know_n_is_asked_more_often(knows_n, max_n):
    drawn_texts = iter(map(str, range(100)))
    with ChatServer(lambda request, rng: next(drawn_texts), knows_n=knows_n) as server:
        policy = policy_of(server, max_n=max_n)
        for _ in range(2):
            drawn = policy.sample(np.array([asked("x")] * 10), np.random.default_rng(0))
            assert len(set(contents(drawn))) == 10  # every draw is used, none twice
        drawn_in_all = 100 - len(list(drawn_texts))
        assert drawn_in_all == 20  # and none is left out
        if knows_n:
            assert all(each.get("n", 1) <= max_n for each in server.requests)
        else:  # asked with n only once
            assert sum("n" in each for each in server.requests[3:]) == 0


def test_prompts_are_completed_and_seeds_are_sent():
    with ChatServer(letters) as server:
        policy = policy_of(server, seeded=True)
        contexts = np.array(
            [chat_context({"prompt": "x"}), asked("x"), chat_context({"prompt": "x"})]
        )
        drawn = policy.sample(contexts, np.random.default_rng(0))
        assert sorted(server.paths) == ["/v1/chat/completions", "/v1/completions"]
        assert len({each["seed"] for each in server.requests}) == 2
    assert ["text" in read_answer(each) for each in drawn] == [True, False, True]


def test_failures_are_errors_and_nothing_is_left_out():
    rng, contexts = np.random.default_rng(0), np.array([asked("x")] * 4)
    with ChatServer(letters) as server:
        policy = policy_of(server)
        server.faults = [503, "garbled"]
        with pytest.raises(ServerError, match=r"failed 2 time\(s\)"):
            policy.sample(contexts, rng)
        server.faults = [400]
        with pytest.raises(ValueError, match="overloaded"):
            policy.sample(contexts, rng)
        server.faults = [lambda answer: answer["choices"].pop()]
        with pytest.raises(UnreadableAnswerError, match="returned 3"):
            policy.sample(contexts, rng)
        server.faults = [lambda answer: answer["choices"][2].update(finish_reason="abort")]
        with pytest.raises(UnreadableAnswerError, match="abort"):
            policy.sample(contexts, rng)
        server.faults = ["drop"]
        assert len(policy.sample(contexts, rng)) == 4  # tried again
        with pytest.raises(ValueError, match="context"):
            policy.sample(np.array(["x"]), rng)
    with pytest.raises(ServerError):
        policy.sample(contexts, rng)  # the server is gone


def test_the_model_may_be_the_contexts():
    with ChatServer(letters) as server:
        policy = ChatPolicy(server.url)
        policy.sample(np.array([asked("x", model="large")]), np.random.default_rng(0))
        assert server.requests[0]["model"] == "large"
        with pytest.raises(ValueError, match="no model"):
            policy.sample(np.array([asked("x")]), np.random.default_rng(0))


def test_what_tells_policies_apart_and_what_is_refused():
    first = ChatPolicy("http://localhost:1/v1", "a", api_key="secret")
    assert first.fingerprint == ChatPolicy("http://localhost:2/v1", "a").fingerprint
    assert first.fingerprint != ChatPolicy("http://localhost:1/v1", "b").fingerprint
    hot = ChatPolicy("http://localhost:1/v1", "a", settings={"temperature": 2})
    assert first.fingerprint != hot.fingerprint
    assert "secret" not in repr(first)
    for bad in ({"settings": {"n": 2}}, {"max_n": 0}, {"retries": -1}, {"timeout": 0}):
        with pytest.raises(ValueError, match=r"settings|max_n|retries|timeout"):
            ChatPolicy("http://localhost:1/v1", "a", **bad)


def test_best_of_n_is_calibrated_on_a_log_without_probabilities():
    """A shortlist of a chat model: an old log joins, and what is served is within alpha."""
    scorer = ChatScorer(
        lambda messages, answers: ["abc".index(each["content"]) for each in answers]
    )
    rng = np.random.default_rng(1)
    with ChatServer(letters) as server:
        shortlist = tether.Shortlist(policy_of(server), scorer, size=4, temperature=0.0)
        contexts = np.array([asked("x")] * 600)
        actions = shortlist.safe.sample(contexts, rng)
        losses = np.array([each == "c" for each in contents(actions)], dtype=float)  # 0.2 of them
        log = shortlist.make_log(contexts, actions, losses, rng)
        found = tether.calibrate(log, alpha=0.4)
        policy = shortlist.tethered(found)
        served = contents(policy.sample(np.array([asked("x")] * 2000), rng))
    assert found.beta > 0
    share = served.count("c") / 2000
    assert 0.25 < share < 0.4 + 3 * 0.5 / np.sqrt(2000)


def test_a_saved_calibration_refuses_another_model_and_a_louder_scorer_of_its_name(tmp_path):
    rng, contexts = np.random.default_rng(1), np.array([asked(f"x{k}") for k in range(300)])

    def shortlist(server, scale=1.0, **options):
        def score(messages, answers):
            return [scale * "abc".index(each["content"]) for each in answers]

        scorer = ChatScorer(score, name="letters-1")
        return tether.Shortlist(policy_of(server, **options), scorer, size=4)

    with ChatServer(letters) as server:
        actions = shortlist(server).safe.sample(contexts, rng)
        losses = np.array([each == "c" for each in contents(actions)], dtype=float)
        log = shortlist(server).make_log(contexts, actions, losses, rng)
        tether.calibrate(log, alpha=0.4).save(tmp_path / "found.json")
        found = tether.Calibration.load(tmp_path / "found.json")
        assert len(shortlist(server).tethered(found).sample(contexts, rng)) == 300
        with pytest.raises(ValueError, match=r'drawn by chat \["small",{}\], .*"temperature":1.5'):
            shortlist(server, settings={"temperature": 1.5}).tethered(found)
        with pytest.raises(ValueError, match="picked otherwise than in the log"):
            shortlist(server, scale=100.0).tethered(found).sample(contexts, rng)


def test_a_server_that_repeats_one_answer_is_refused():
    """It returns as many as were asked for, from a single draw."""
    rng, contexts = np.random.default_rng(1), np.array([asked(f"x{k}") for k in range(100)])
    scorer = ChatScorer(lambda messages, answers: [int(each["content"]) for each in answers])

    def digits(request, rng):
        return str(rng.integers(10**6))

    class Repeating(ChatServer):
        def answer(self, path, body):
            status, made = super().answer(path, {**body, "n": 1})
            return status, {**made, "choices": made["choices"] * body.get("n", 1)}

    with Repeating(digits) as server:
        shortlist = tether.Shortlist(policy_of(server), scorer, size=4, temperature=1e6)
        actions = shortlist.safe.sample(contexts, rng)
        with pytest.raises(ValueError, match="the server ignores n, caches its answers, or uses"):
            shortlist.make_log(contexts, actions, np.zeros(100), rng)


def test_one_answer_to_several_requests_is_an_error(monkeypatch):
    """A client that sends equal requests once would make draws of which none is fresh."""
    policy = ChatPolicy("http://localhost:1/v1", "a", max_n=1)
    message = {"role": "assistant", "content": "a"}
    answer = {"choices": [{"message": message, "finish_reason": "stop"}]}
    monkeypatch.setattr(policy.client, "post_all", lambda path, bodies, **_: [answer] * len(bodies))
    with pytest.raises(RuntimeError, match="must be fresh"):
        policy.sample(np.array([asked("x")] * 2), np.random.default_rng(0))


def test_a_number_of_contexts_is_refused_in_words():
    policy, rng = ChatPolicy("http://localhost:1/v1", "small"), np.random.default_rng(0)
    for draw in (policy.sample, tether.Shortlist(policy, lambda contexts, each: each).draw):
        with pytest.raises((TypeError, ValueError), match="contexts must be what tether"):
            draw(3, rng)
