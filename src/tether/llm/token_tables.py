"""The likeliest tokens at every position of completions, as a policy scores them."""

from __future__ import annotations

from dataclasses import dataclass

from tether._core.types import Floats, Integers

TABLE_TOKENS = 20
"""How many of the likeliest tokens a table has: what servers give by default."""


@dataclass(frozen=True)
class TokenTables:
    """Tables of the likeliest tokens, one for each token of each completion, in order.

    Parameters
    ----------
    row : numpy.ndarray of int, shape (m,)
        The completion that a table belongs to.
    position : numpy.ndarray of int, shape (m,)
        The place of its token in the completion.
    tokens : numpy.ndarray of int, shape (m, k)
        The likeliest tokens there, the likeliest first.
    log_probs : numpy.ndarray of float, shape (m, k)
        Their log-probabilities.
    """

    row: Integers
    position: Integers
    tokens: Integers
    log_probs: Floats
