"""The draws of both policies that the calibration of a round needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tether._core.arrays import shown
from tether._core.contexts import labels, take
from tether.control.families import DEFAULT_BUDGET, Family
from tether.control.proposals import Proposals
from tether.policies.logs import make_proposals
from tether.policies.mixture import Mixture
from tether.policies.policy import Policy
from tether.rounds.path_pairs import PathOptimized
from tether.rounds.policy_registry import PolicyRegistry
from tether.rounds.settings import Settings

MIN_PROPOSALS, MAX_PROPOSALS = 1_000, 100_000
"""Limits of the draws of each policy without contexts; between them, as many as rows."""
MAX_DRAWN_DENSITIES = 500_000
"""Draws times policies in the mixture are at most this, as far as `MIN_PROPOSALS` allows."""
MIN_BLOCKS = 256
"""With fewer contexts than this, each has several times as many draws as a policy's budget."""
PROPOSAL_STREAM = 7919
"""Part of the seed of the draws, so that their stream differs from any of the user's."""


def draw_proposals(
    settings: Settings,
    registry: PolicyRegistry,
    counts: dict[int, int],
    reference: int,
    optimized: Policy,
    contexts: Any,
    family: Family,
    draws: int | None,
    number: int,
    *,
    mixed: bool,
) -> Proposals | None:
    """Draws for round `number` in the contexts of the rows in use, or for a number of rows.

    `counts` says how many of these rows each policy produced, and `mixed` whether the log has a
    mixture. The same round has the same draws in every process.
    """
    logged_by = None
    if mixed:
        policies = [registry.policy(each) for each in counts]
        logged_by = Mixture(policies, list(counts.values()))
    rng = np.random.default_rng([settings.seed, number, PROPOSAL_STREAM])
    if isinstance(optimized, PathOptimized):
        given = {} if draws is None else {"draws": draws}
        drawn = optimized.pair.make_proposals(contexts, rng, logged_by=logged_by, **given)
        if drawn.context is None or not np.isin(drawn.context, labels(contexts)).all():
            raise ValueError(
                f"the proposals of {shown(optimized.pair)} must state the contexts that they were "
                f"drawn in as rounds do, by the labels of their content"
            )
        return drawn
    if isinstance(contexts, int):
        drawn_in, count = 1, marginal_draws(counts, contexts, draws)
    else:
        _, first, repeats = np.unique(labels(contexts), return_index=True, return_counts=True)
        blocks = min(-(-MIN_BLOCKS // len(first)), int(repeats.max()))
        if settings.by_who_acted:  # every row needs draws of its own
            blocks = int(repeats.max())
        drawn_in = take(contexts, np.sort(first))
        count = draws or blocks * (family.max_draws or DEFAULT_BUDGET)
    return make_proposals(
        registry.policy(reference), optimized, drawn_in, count, rng, logged_by=logged_by
    )


def marginal_draws(counts: Mapping[int, int], rows: int, draws: int | None) -> int:
    """How many draws of each policy there are without contexts."""
    most = min(MAX_PROPOSALS, MAX_DRAWN_DENSITIES // len(counts))
    return draws or max(MIN_PROPOSALS, min(rows, most))
