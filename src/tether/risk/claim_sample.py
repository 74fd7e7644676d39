"""A sample of the items of claims in parts, with all of their claims, and how many labels are 1.

Items are chosen by hashes of their names, so that the sample depends neither on the order of the
parts nor on how items are divided into them. Few claims are all in the sample.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Booleans, Floats, Integers
from tether.risk.claim_parts import ClaimPart
from tether.risk.claims import Claims
from tether.risk.item_names import SHARE_FACTOR, name_hashes

MOST_CLAIMS_SAMPLED = 200_000
"""About how many claims are in a sample at most; the first item is, whatever its size."""


@dataclass(frozen=True, eq=False)
class SampledClaims:
    """The items with the smallest hashes, in order, and counts of all claims."""

    n_claims: int
    n_supported: int
    hashes: NDArray[np.uint64]
    sizes: Integers
    scores: Floats
    supported: Booleans

    def merge(self, other: SampledClaims) -> SampledClaims:
        """The sample of both."""
        names = ("hashes", "sizes", "scores", "supported")
        pairs = ((getattr(each, name) for each in (self, other)) for name in names)
        joined = [np.concatenate(tuple(pair)) for pair in pairs]
        counts = self.n_claims + other.n_claims, self.n_supported + other.n_supported
        return SampledClaims(*counts, *joined)._smallest()

    @property
    def claims(self) -> Claims:
        """The claims of the sample, in the order of their items' hashes."""
        return Claims(self.scores, self.supported, np.append(0, np.cumsum(self.sizes)))

    def _smallest(self) -> SampledClaims:
        order = np.argsort(self.hashes, kind="stable")
        within = np.cumsum(self.sizes[order]) <= MOST_CLAIMS_SAMPLED
        kept = order[: max(int(within.sum()), 1)]
        starts = np.append(0, np.cumsum(self.sizes))[kept]
        sizes = self.sizes[kept]
        first = np.repeat(starts - np.append(0, np.cumsum(sizes)[:-1]), sizes)
        rows = first + np.arange(len(first))
        return SampledClaims(
            self.n_claims,
            self.n_supported,
            self.hashes[kept],
            sizes,
            self.scores[rows],
            self.supported[rows],
        )


@dataclass(frozen=True)
class SampleClaims:
    """A job of the first pass."""

    def partial(self, part: ClaimPart) -> SampledClaims:
        """The sample of one part."""
        claims = part.claims
        assert claims.items is not None
        hashes = name_hashes(claims.items) * SHARE_FACTOR
        return SampledClaims(
            len(claims.scores),
            int(claims.supported.sum()),
            hashes ^ (hashes >> np.uint64(32)),
            np.diff(claims.offsets),
            claims.scores,
            claims.supported,
        )._smallest()
