"""Prompts and policies of the tests on a live server."""

import os

import numpy as np

PROGRAM = os.environ.get("TETHER_VLLM")
"""The vLLM to start; the tests skip without it."""
END = 2
LENGTH = 12
PROMPTS = np.random.default_rng(0).integers(3, 300, size=(3, 5))


def live_policy(server, model, **options):
    """A policy of twelve tokens on a server."""
    from tether.llm import OpenAIPolicy

    usual = {"eos_token_id": END, "max_new_tokens": LENGTH}
    return OpenAIPolicy(server.url, model, **{**usual, **options})
