"""Safe policies of every kind, with real parts: what draws, its contexts, and what picks.

A world has `safe`, `contexts` (some of them equal) and `scores` by name, each of them an optimized
policy of a `Shortlist`.
"""

import json
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from tests.llm import tiny_models
from tests.llm.chat_server import ChatServer, asked
from tests.llm.loopback_server import Loopback, remote_policy
from tether.llm import ChatPolicy, ChatScorer, CompletionScorer, ScoreServer, read_answer

TEXTS = np.array(["cat", "a", "cat", "we", "it", "a"])
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


@dataclass
class World:
    safe: object
    contexts: np.ndarray
    scores: dict
    server: object = None
    losses: object = None  # a function of actions, so that they can be computed again


@contextmanager
def causal():
    """A local model with a tuned adapter; the log ratio or a scorer on a server picks."""
    model = tiny_models.with_adapters(tiny_models.llama(scale=0.3), "tuned")
    safe, tuned = tiny_models.policy(model), tiny_models.policy(model, "tuned")
    with ChatServer(lambda body, text: float(len(body["prompt"]) + text.count("e"))) as judge:
        remote = ScoreServer(f"{judge.url}/score")
        scored = CompletionScorer(remote, safe, batched=True, name="judge")
        scores = {"log ratio": tuned, "judge": scored}
        yield World(safe, TEXTS, scores, losses=long_completions)


@contextmanager
def completions():
    """A server with log-probabilities."""
    models = {name: tiny_models.llama(scale=0.3, seed=seed) for seed, name in enumerate("ab")}
    words = tiny_models.shared_tokenizer()
    with Loopback(models) as server:
        options = {"tokenizer": words, "max_new_tokens": 4}
        safe, tuned = (remote_policy(server, name, **options) for name in "ab")
        scores = {"log ratio": tuned, "reward": CompletionScorer(vowels, safe, name="vowels")}
        yield World(safe, TEXTS, scores, server, losses=long_completions)


@contextmanager
def chat():
    """A closed chat server that calls a tool in some answers; a judge is another chat server."""

    def answer(body, rng):
        if rng.random() < 0.5 or body.get("tools") != [TOOL]:
            return "yes" * rng.integers(1, 5)
        where = json.dumps({"at": int(rng.integers(10**6))})
        call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": where}}
        return {"role": "assistant", "content": None, "tool_calls": [call]}

    def prefer_tools(messages, answers):
        return [float(bool(each.get("tool_calls"))) for each in answers]

    with ChatServer(answer) as server, judging() as judge:
        safe = ChatPolicy(server.url, "small", settings={"temperature": 0.7})
        contexts = np.array([asked(each, tools=[TOOL]) for each in TEXTS], dtype=object)
        scores = {"judge": ChatScorer(judge, name="judge")}
        scores["function"] = ChatScorer(prefer_tools, name="tools")
        yield World(safe, contexts, scores, server, losses=long_answers)


WORLDS = {make.__name__: make for make in (causal, completions, chat)}


def long_completions(actions):
    """A completion that was cut off costs 1."""
    return (np.asarray(actions)[:, -1] >= 2).astype(float) * 0.5


def long_answers(actions):
    """What an answer costs, by its length."""
    return np.array([(len(json.dumps(read_answer(each))) % 5) / 8 for each in actions])


def vowels(prompt, texts):
    """How many vowels a text has, less those of the prompt."""
    return [float(sum(letter in "aeiou" for letter in text)) for text in texts]


@contextmanager
def judging():
    """A judge: a chat model that says a number, asked at temperature 0."""
    from openai import OpenAI

    def say(body, rng):
        assert body["temperature"] == 0
        return str(len(body["messages"][-1]["content"]))

    with ChatServer(say) as server, OpenAI(base_url=server.url, api_key="none") as client:

        def score(messages, answers):
            said = [
                client.chat.completions.create(
                    model="judge",
                    temperature=0,
                    messages=[*messages, {"role": "user", "content": f"Rate: {each['content']}"}],
                )
                for each in answers
            ]
            return [float(each.choices[0].message.content) for each in said]

        yield score
