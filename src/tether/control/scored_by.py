"""Which policies the scores of a log are of, as far as this can be told later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from tether._core.types import Floats

PICKER = "picker"
"""The name of what picks the candidates of a shortlist, beside "safe" and "optimized"."""
CANDIDATES, SCORER = "candidates", "scorer"
"""The names of what draws the candidates of a shortlist, and of what scores them."""


@dataclass(frozen=True, eq=False)
class ScoredBy:
    """What `tether.make_log` notes of the policies, so that others are not served by mistake.

    Parameters
    ----------
    actions : ndarray, optional
        The actions of the columns of tables.
    fingerprints : mapping of str to str, optional
        Digests of the policies "safe" and "optimized"; those that have none are missing. Of a
        shortlist, how its "picker" picks, in words, what draws its "candidates", and its "scorer".
    probe_contexts : array, optional
        A few contexts of the log.
    probe_scores : mapping of str to ndarray, optional
        What each policy gave to all actions in these contexts.
    """

    actions: NDArray[Any] | None = None
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    probe_contexts: Any = None
    probe_scores: Mapping[str, Floats] = field(default_factory=dict)
