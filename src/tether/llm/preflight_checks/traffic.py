"""Preflight under traffic: a served model must answer the same while another one is sampled.

A server that mixes requests for several models or adapters in a batch can mix up their weights, and
then what is right while all is quiet is wrong in use. Only policies on a server are checked so.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import numpy as np

from tether._core import progress
from tether._core.contexts import length, take
from tether._core.types import Floats
from tether.llm.completion_policy import CompletionPolicy
from tether.llm.completions import Tokens
from tether.llm.preflight_checks.policy_checks import compare_scores
from tether.llm.preflight_checks.result import Check
from tether.llm.server.background_loop import ending

TRAFFIC_ROUNDS = 4
"""How many times completions are scored and drawn under traffic: requests must meet in a batch."""
MAX_TRAFFIC_ROWS = 32
"""How many completions are scored and drawn each time."""


@contextmanager
def traffic_of(policy: CompletionPolicy, prompts: Any, rng: np.random.Generator) -> Iterator[None]:
    """Keep a policy sampling in a thread; an error there is raised at the end.

    Its draws have a generator of their own, so that those of others do not depend on how many it
    makes. At the end, or when the caller is interrupted, its last call is not waited for.
    """
    end, begun, errors = Event(), Event(), []
    own_rng = np.random.default_rng(rng.integers(2**63, size=4))

    def keep_sampling() -> None:
        try:
            with ending(end):
                while not end.is_set():
                    policy.sample(prompts, own_rng)
                    begun.set()
        except Exception as error:
            if not end.is_set():
                errors.append(error)
        finally:
            begun.set()

    thread = Thread(target=keep_sampling, name="tether-preflight", daemon=True)
    thread.start()
    try:
        begun.wait()
        yield
    finally:
        end.set()
        thread.join()
    if errors:
        raise errors[0]


def check_under_traffic(
    policy: CompletionPolicy,
    other: CompletionPolicy,
    prompts: Any,
    actions: Tokens,
    scored: Floats,
    rng: np.random.Generator,
) -> Check:
    """Scores and draws of a policy while another one is sampled, against its scores without it."""
    chosen = np.linspace(0, len(actions) - 1, min(MAX_TRAFFIC_ROWS, len(actions))).astype(np.int64)
    rows, given, expected = take(prompts, chosen), actions[chosen], scored[chosen]
    quiet, busy, drawn = [], [], []
    traffic = take(prompts, np.arange(min(length(prompts), MAX_TRAFFIC_ROWS)))
    with progress.step("under traffic", total=2 * TRAFFIC_ROUNDS) as step:
        with traffic_of(other, traffic, rng):
            for _ in range(TRAFFIC_ROUNDS):
                quiet.append(expected)
                busy.append(policy.log_prob(rows, given))
                drawn.append(policy.sample_scored(rows, rng))
                step.advance()
        for made, stated in drawn:
            known = ~np.isnan(stated)
            again = policy.log_prob(rows, made)
            quiet.append(again[known])
            busy.append(stated[known])
            step.advance()
    return compare_scores(
        "under traffic",
        np.concatenate(quiet),
        np.concatenate(busy),
        "the server answers with another model's weights while that one is sampled: serve the two "
        "policies by two servers, or merge the adapter into a model of its own",
    )
