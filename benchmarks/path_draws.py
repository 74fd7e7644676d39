"""Proposals of a pair of policies along its path, as `tether.llm.TokenTether` makes them."""

from __future__ import annotations

from typing import Any

import numpy as np

import tether
from tether._core.contexts import labels
from tether.control import PolicyPath


def draw_along_path(
    pair: Any, contexts: Any, rng: np.random.Generator, draws: int, logged_by: Any
) -> tether.Proposals:
    """Draws of the policy at every beta, each in another row of the contexts."""
    contexts, levels = np.asarray(contexts), np.append(pair.log_betas, np.inf)
    draws = min(draws, len(contexts))
    drawn_at = np.repeat(levels, draws)
    rows = [rng.choice(len(contexts), size=draws, replace=False) for _ in levels]
    asked = contexts[np.concatenate(rows)]
    actions = np.concatenate(
        [pair.at(level).sample(asked[drawn_at == level], rng) for level in levels]
    )
    table = pair.path_scores(asked, actions)
    path = PolicyPath(pair.family, pair.log_betas, table[:, 2:], drawn_at=drawn_at)
    log_mix = None if logged_by is None else logged_by.log_prob(asked, actions)
    return tether.Proposals(
        table[:, 0], table[:, 1], context=labels(asked), log_mix=log_mix, policy_path=path
    )
