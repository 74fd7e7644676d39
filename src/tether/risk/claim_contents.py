"""What a pass over claims in parts has read, so that two passes can be compared."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tether._core.bit_sums import MODULUS, sum_bits
from tether.risk.claim_parts import ClaimPart


@dataclass(frozen=True)
class Contents:
    """Counts and sums of bits that do not depend on the order of items or parts."""

    n_items: int
    n_claims: int
    sums: tuple[int, int, int]
    kinds: frozenset[str]
    """Whether items, and groups, are numbers or strings."""

    def merge(self, other: Contents) -> Contents:
        """The contents of both."""
        first, second, third = (
            (one + two) % MODULUS for one, two in zip(self.sums, other.sums, strict=True)
        )
        return Contents(
            self.n_items + other.n_items,
            self.n_claims + other.n_claims,
            (first, second, third),
            self.kinds | other.kinds,
        )

    def mixed(self) -> str | None:
        """What is a number in one part and a string in another: "items", "groups" or None."""
        for name in ("items", "groups"):
            if {f"{name}: numbers", f"{name}: strings"} <= self.kinds:
                return name
        return None


@dataclass(frozen=True)
class ReadContents:
    """The contents of one part: a job of every pass."""

    def partial(self, part: ClaimPart) -> Contents:
        """Count the part."""
        claims = part.claims
        columns = {"items": claims.items, "groups": part.groups}
        kinds = frozenset(
            f"{name}: {'strings' if column.dtype.kind in 'US' else 'numbers'}"
            for name, column in columns.items()
            if column is not None
        )
        logs = np.zeros(0) if part.log_weights is None else part.log_weights
        sums = (sum_bits(claims.scores), sum_bits(claims.scores[claims.supported]), sum_bits(logs))
        return Contents(claims.n_items, len(claims.scores), sums, kinds)
