"""The likeliest tokens at every position of given completions, as a server states them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tether.llm.prompts import Prompt
from tether.llm.server import responses
from tether.llm.server.http_client import HTTPClient
from tether.llm.token_tables import TABLE_TOKENS, TokenTables


def likely_tokens(
    client: HTTPClient, requests: Sequence[dict[str, Any]], rows: Sequence[tuple[Prompt, Prompt]]
) -> TokenTables:
    """Tables for every token of every completion; one request that scores it for each row.

    `rows` are the prompts and completions that the requests are about.
    """
    asked = [{**request, "prompt_logprobs": TABLE_TOKENS} for request in requests]
    places, tokens, log_probs = [], [], []
    answers = client.post_all("completions", asked, doing="reading likely tokens")
    for row, ((prompt, completion), answer) in enumerate(zip(rows, answers, strict=True)):
        choice = responses.read_choices(answer, 1)[0]
        tables = responses.read_likely_tokens(choice, (*prompt, *completion), TABLE_TOKENS)
        for position, table in enumerate(tables[len(prompt) - 1 :]):
            places.append((row, position))
            tokens.append([token for token, _ in table])
            log_probs.append([log_prob for _, log_prob in table])
    where = np.array(places)
    return TokenTables(where[:, 0], where[:, 1], np.array(tokens), np.array(log_probs))
