"""When items of claims are copies: the rules for tables in memory and in parts, and their words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Booleans, Floats, Integers
from tether.risk.claims import Claims

MIN_REPEATED_ITEMS = 3
"""How many items must be repeated at least."""
HASH_FACTORS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93))
"""Odd constants that spread bits over 64 of them."""


DISTINCT_CLAIMS = (2, 3, 4)
"""From how many different claims of an item on repeated items are counted, each by itself."""
UNLIKELY_ERRORS = 4.0
"""By how many standard errors more items must be repeated than chance explains."""


@dataclass(frozen=True, eq=False)
class RepeatCounts:
    """How many items are repeated, and how many chance explains, by `DISTINCT_CLAIMS`.

    An item is repeated where the numbers of times that its different claims (score and label) occur
    have a common divisor. Where scores are rounded this comes about by chance: each claim occurs
    an even number of times or an odd one, much like a coin. An item of d different claims and an
    even number of claims then has none that occurs oddly often in 1 of d·(d − 1)/2 cases in which
    it has two, and an item with an odd number of claims has at least one. So each item of which one
    or two claims occur oddly often stands for 2 / (d·(d − 1)) that are repeated by chance, at most.
    """

    repeated: Integers
    by_chance: Floats

    def merge(self, other: RepeatCounts) -> RepeatCounts:
        """Those of both."""
        return RepeatCounts(self.repeated + other.repeated, self.by_chance + other.by_chance)

    @property
    def enough(self) -> bool:
        """Whether so many repeated items are no coincidence."""
        expected = self.by_chance + 1 / 3
        unlikely = self.repeated > expected + UNLIKELY_ERRORS * np.sqrt(expected)
        return bool((unlikely & (self.repeated >= MIN_REPEATED_ITEMS)).any())


def repeated_in_words(repeated: int, n_items: int, rows: int, first: Any) -> str:
    """Say that all claims of some items occur more than once."""
    return (
        f"all claims of {repeated:,} of {n_items:,} items occur more than once, with the same "
        f"score and label ({rows:,} rows; the first is item {first!r}): are rows repeated, or do "
        "files overlap? Remove the copies"
    )


def copied_in_words(sure: int, possible: int, n_items: int, names: Sequence[Any]) -> str:
    """Say that some items have exactly the scores of others, and name one and its copy."""
    rounded = ""
    if possible > sure:
        rounded = (
            f", and {possible:,} with those whose scores are so common that they may be equal by "
            "chance"
        )
    return (
        f"at least {sure:,} of {n_items:,} items have exactly the scores of another "
        f"item{rounded} (the first is {names[1]!r}, with those of {names[0]!r}): are answers in "
        "the table several times, under different names? Items that are copies are not "
        "independent, and the promise then rests on fewer items than are counted. Keep one of each"
    )


def distinct_scores(claims: Claims) -> tuple[Integers, Floats, Integers]:
    """The distinct scores of each item: the item, the score, and how often the item has it."""
    item = np.repeat(np.arange(claims.n_items), np.diff(claims.offsets))
    rows = np.lexsort((claims.scores, item))
    item, scores = item[rows], claims.scores[rows]
    runs = np.flatnonzero(np.r_[True, (item[1:] != item[:-1]) | (scores[1:] != scores[:-1])])
    return item[runs], scores[runs], np.diff(np.r_[runs, len(item)])


def scores_alone(item: Integers, inside: Integers, everywhere: Integers, count: int) -> Booleans:
    """Which of `count` items with the scores of others cannot have them by chance.

    `inside` says how often a score of an item occurs in it and its copies, and `everywhere` how
    often in all claims.

    At least two of an item's scores must occur in it and its copies alone. So scores that are
    rounded, or of which many are 0 or 1, are no copies: among items of two scores that are drawn
    independently, whatever from, fewer than 0.04 pairs are expected to look like this, since
    (Σ x²·exp(−x))² / (2N)² ≤ exp(−2) / 4, where x is how often each value is expected in N scores.
    """
    return np.asarray(np.bincount(item, everywhere == inside, minlength=count) >= 2)


def score_hashes(claims: Claims) -> tuple[Integers, NDArray[np.uint64]]:
    """The items with several claims, and a hash of the scores of each, in any order."""
    sizes = np.diff(claims.offsets)
    own = np.flatnonzero(sizes > 1)
    running = np.r_[np.uint64(0), np.cumsum(_spread(claims.scores))]  # modulo 2^64
    hashes = running[claims.offsets[1:]] - running[claims.offsets[:-1]]
    return own, _mixed(hashes + sizes.astype(np.uint64))[own]


def _spread(scores: Floats) -> NDArray[np.uint64]:
    """A hash of each score."""
    return _mixed((scores + 0.0).view(np.uint64))  # -0.0 becomes 0.0


def _mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Bits spread over 64 of them by multiplications and shifts."""
    for factor in HASH_FACTORS:
        bits = (bits ^ (bits >> np.uint64(31))) * factor
    return bits ^ (bits >> np.uint64(29))


def repeated_items(claims: Claims) -> tuple[Integers, RepeatCounts]:
    """The items whose claims occur by a common factor more often than once, and how many.

    Only items with several distinct scores are looked at: where all claims of an answer share its
    score, equal claims are no copies.
    """
    sizes = np.diff(claims.offsets)
    item = np.repeat(np.arange(claims.n_items), sizes)
    order = np.lexsort((claims.supported, claims.scores, item))
    item, scores, labels = item[order], claims.scores[order], claims.supported[order]
    new_item = np.r_[True, item[1:] != item[:-1]]
    new_score = new_item | np.r_[True, scores[1:] != scores[:-1]]
    starts = np.flatnonzero(new_score | np.r_[True, labels[1:] != labels[:-1]])
    times = np.diff(np.r_[starts, len(item)])
    first_of_item = np.flatnonzero(new_item[starts])
    distinct = np.diff(np.r_[first_of_item, len(starts)])
    odd = np.add.reduceat(times % 2, first_of_item)
    owners = item[starts[first_of_item]]
    several = np.bincount(item[new_score], minlength=claims.n_items)[owners] > 1
    alike = several & (np.gcd.reduceat(times, first_of_item) > 1)
    chance = several * ((odd == 1) | (odd == 2)) * 2 / np.maximum(distinct * (distinct - 1), 1)
    least = np.array(DISTINCT_CLAIMS)[:, None] <= distinct
    return owners[alike], RepeatCounts(np.count_nonzero(least & alike, axis=1), least @ chance)


def no_repeats() -> RepeatCounts:
    """The counts where no two scores are equal."""
    zeros = np.zeros(len(DISTINCT_CLAIMS))
    return RepeatCounts(zeros.astype(np.int64), zeros)
