"""What best of 8 costs beside plain sampling of the same 8 answers from a live server.

    TETHER_VLLM=.venv-vllm/bin/vllm python -m benchmarks.live_llm [--prompts 32] [--turns 5]
    python -m benchmarks.live_llm --url http://127.0.0.1:8000/v1 --model base

Best of 8 draws, scores and picks through `Shortlist.tethered`, over `OpenAIPolicy` (with
log-probabilities) and over `ChatPolicy`; both ask for the answers of a prompt in one request.
Plain sampling is a bare asynchronous client that asks for as many answers of the same prompts,
`n=8` in one request, 256 of them at a time. All are measured in turns within one run, so that other
work on the machine slows down all of them; the figures are medians over the turns. The first turn
warms up.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import numpy as np

import tether
from tether.llm import ChatPolicy, ChatScorer, OpenAIPolicy, chat_context

BEST_OF = 8
MIN_SHARE = 0.6
"""The least share of plain sampling's rate that best of 8 should have."""
PLAIN_REQUESTS = 256


@contextmanager
def server_at(url: str | None) -> Iterator[str]:
    """The address of a server: the one that is named, or one that is started."""
    if url is not None:
        yield url
        return
    from tests.llm.live.vllm_server import VLLM, make_models

    with tempfile.TemporaryDirectory() as made:
        make_models(Path(made))
        with VLLM(Path(made)) as running:
            yield running.url


def sample_plainly(url: str, path: str, bodies: list[dict[str, object]]) -> int:
    """Send requests with a bare client; how many answers came back."""

    async def send_all() -> int:
        limits = httpx2.Limits(max_connections=PLAIN_REQUESTS)
        async with httpx2.AsyncClient(timeout=600.0, limits=limits) as client:
            answers = await asyncio.gather(
                *(client.post(f"{url}/{path}", json=body) for body in bodies)
            )
        return sum(len(answer.raise_for_status().json()["choices"]) for answer in answers)

    return asyncio.run(send_all())


def make_tasks(
    url: str, model: str, prompts: np.ndarray, length: int
) -> dict[str, Callable[[np.random.Generator], None]]:
    """The ways to get 8 answers to each prompt, by name; the plain ones come before their own."""
    drawn = OpenAIPolicy(url, model, eos_token_id=2, max_new_tokens=length)
    chat = ChatPolicy(
        url, model, settings={"max_tokens": length, "temperature": 1.0}, concurrency=64
    )
    texts = [" ".join(f"w{token}" for token in prompt) for prompt in prompts]
    messages = [[{"role": "user", "content": text}] for text in texts]
    contexts = np.array([chat_context({"messages": each}) for each in messages], dtype=object)
    best_of_tokens = tether.Shortlist(
        drawn, lambda _, candidates: candidates.mean(axis=-1), size=BEST_OF
    ).tethered(2.0)
    best_of_chats = tether.Shortlist(
        chat,
        ChatScorer(lambda _, answers: [float(len(each["content"] or "")) for each in answers]),
        size=BEST_OF,
    ).tethered(2.0)
    shared = {"model": model, "max_tokens": length, "n": BEST_OF, "temperature": 1.0}
    token_bodies = [
        {**shared, "prompt": prompt.tolist(), "logprobs": 0, "return_token_ids": True}
        for prompt in prompts
    ]
    chat_bodies = [{**shared, "messages": each} for each in messages]

    def plain(path: str, bodies: list[dict[str, object]]) -> None:
        found = sample_plainly(url, path, bodies)
        assert found == BEST_OF * len(prompts)

    return {
        "plain completions, n=8": lambda rng: plain("completions", token_bodies),
        "best of 8, OpenAIPolicy": lambda rng: _sample(best_of_tokens, prompts, rng),
        "plain chats, n=8": lambda rng: plain("chat/completions", chat_bodies),
        "best of 8, ChatPolicy": lambda rng: _sample(best_of_chats, contexts, rng),
    }


def _sample(policy: tether.Policy, contexts: np.ndarray, rng: np.random.Generator) -> None:
    assert len(policy.sample(contexts, rng)) == len(contexts)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--url")
    parser.add_argument("--model", default="base")
    parser.add_argument("--prompts", type=int, default=32)
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    spent: dict[str, list[float]] = {}
    with server_at(options.url) as url:
        prompts = rng.integers(3, 300, size=(options.prompts, 5))
        tasks = make_tasks(url, options.model, prompts, options.length)
        for turn in range(options.turns + 1):
            for name, task in tasks.items():
                begun = time.perf_counter()
                task(rng)
                if turn:
                    spent.setdefault(name, []).append(time.perf_counter() - begun)
    answers = BEST_OF * options.prompts
    print(f"{answers} answers of at most {options.length} tokens, medians of {options.turns} turns")
    plain = np.nan
    for name, seconds in spent.items():
        median = float(np.median(seconds))
        line = f"{name:<26} {answers / median:>8.0f} answers/s"
        if name.startswith("plain"):
            plain = median
        else:
            share = plain / median
            verdict = "ok" if share >= MIN_SHARE else "BELOW"
            line += f"  {share:>6.0%} of plain (at least {MIN_SHARE:.0%})  {verdict}"
        print(line)


if __name__ == "__main__":
    main()
