"""What the checks of scores need to know of a log in parts, and a digest of its rows.

Rows are hashed one by one, and their hashes added modulo 2^64, so that the digest of a log does not
depend on the order of its rows. The smallest hashes tell how many distinct rows there are, exactly
if they are few. How often the rows with the smallest hashes occur tells of copies: hashes are
spread evenly, so these rows are a sample of the distinct rows, each with all of its copies.

Rows with tables or stored draws are sampled by context, each with all of its rows. Contexts are not
read, but rows of one context have the same tables, and so the hash of these stands for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tether._core.counted_rows import CountedRows
from tether._core.types import Floats
from tether.control.parts.log_sum import LogSums
from tether.control.parts.ratio_bins import union
from tether.control.parts.row_hashes import FIRST_SEED, SECOND_SEED, Hashes, row_hashes
from tether.control.parts.rows import TABLE_NAMES, LogPart, ProposalsPart
from tether.control.score_checks import SAME_SCORE_TOLERANCE

LIKELIEST_SUM = 5
"""The place of the sum of the likeliest action, of tables."""
KEPT_HASHES = 4096
"""How many of the smallest hashes are kept: so many distinct rows are counted exactly."""


@dataclass(frozen=True)
class ScoreSums:
    """Sums over rows, counts of unusual scores, and hashes."""

    rows: int
    sums: LogSums
    positive: tuple[int, int]
    differ: int
    """In how many rows the scores under the two policies differ."""
    total: tuple[int, int]
    """Two sums of the hashes of all rows, modulo 2^64."""
    scores_total: int
    """The same of the two columns of scores alone."""
    smallest: Hashes
    """The smallest distinct hashes of the two columns of scores."""
    counted: CountedRows
    """Distinct rows, by the hashes of all columns, and how often each occurs."""

    def merge(self, other: ScoreSums) -> ScoreSums:
        """Those of both."""
        return ScoreSums(
            self.rows + other.rows,
            self.sums.merge(other.sums),
            (self.positive[0] + other.positive[0], self.positive[1] + other.positive[1]),
            self.differ + other.differ,
            ((self.total[0] + other.total[0]) % 2**64, (self.total[1] + other.total[1]) % 2**64),
            (self.scores_total + other.scores_total) % 2**64,
            union(self.smallest, other.smallest)[:KEPT_HASHES],
            self.counted.merge(other.counted),
        )

    @property
    def distinct(self) -> float:
        """How many distinct pairs of scores there are: exact if few, else an estimate."""
        if len(self.smallest) < KEPT_HASHES:
            return float(len(self.smallest))
        return (KEPT_HASHES - 1) * 2.0**64 / float(self.smallest[-1])


@dataclass(frozen=True)
class SumScores:
    """The sums of a log: ratio and its square, overlap, and both of tables.

    Of tables also the likeliest action, and the last two are ratio to the policy that acted and its
    square, where it is stated.
    """

    def of(self, part: LogPart) -> ScoreSums:
        """Those of a part."""
        mixture = part.log_safe if part.log_mix is None else part.log_mix
        ratio = part.log_optimized - mixture
        terms = [ratio, 2 * ratio, np.minimum(part.log_safe, part.log_optimized) - mixture]
        if part.log_safe_all is not None and part.log_optimized_all is not None:
            safe, optimized = part.log_safe_all, part.log_optimized_all
            listed = safe if part.log_mix_all is None else part.log_mix_all
            terms += [np.minimum(safe, optimized).ravel(), optimized[listed > -np.inf]]
            terms.append(optimized.max(axis=1))
        if part.acting is not None:
            acted = part.log_optimized - part.acting.log_logged
            terms += [acted, 2 * acted]
        columns = [part.log_safe, part.log_optimized, part.log_mix, part.reward]
        columns += list(part.loss.values())
        of_context = [getattr(part, name) for name in TABLE_NAMES]
        of_context += [part.draws[name] for name in sorted(part.draws)]
        columns += of_context
        if part.acting is not None:
            columns += [part.acting.log_logged, part.acting.log_base_limit]
        return _summed(part.log_safe, part.log_optimized, terms, columns, of_context)


@dataclass(frozen=True)
class SumDrawnScores:
    """The sums of proposals: the overlap according to the draws of each policy."""

    def of(self, part: ProposalsPart) -> ScoreSums:
        """Those of a part."""
        lower = np.minimum(part.log_safe, part.log_optimized)
        safe, optimized = part.from_safe, ~part.from_safe
        terms = [
            lower[safe] - part.log_safe[safe],
            lower[optimized] - part.log_optimized[optimized],
        ]
        columns = [part.log_safe, part.log_optimized, part.log_mix, part.from_safe.astype(float)]
        return _summed(part.log_safe, part.log_optimized, terms, columns)


def _summed(
    safe: Floats,
    optimized: Floats,
    terms: list[Floats],
    columns: list[Floats | None],
    of_context: Sequence[Floats | None] = (),
) -> ScoreSums:
    with np.errstate(invalid="ignore"):
        same = (safe == optimized) | (np.abs(safe - optimized) < SAME_SCORE_TOLERANCE)
    scores = row_hashes([safe, optimized], FIRST_SEED)
    whole = [row_hashes(columns, seed) for seed in (FIRST_SEED, SECOND_SEED)]
    listed = [column for column in of_context if column is not None]
    contexts = row_hashes(listed, FIRST_SEED) if listed else None
    return ScoreSums(
        rows=len(safe),
        sums=LogSums.of(terms),
        positive=tuple(  # type: ignore[arg-type]
            int((column > SAME_SCORE_TOLERANCE).sum()) for column in (safe, optimized)
        ),
        differ=int((~same).sum()),
        total=(int(whole[0].sum()), int(whole[1].sum())),
        scores_total=int(scores.sum()),
        smallest=_smallest(scores),
        counted=CountedRows.of(whole[0], contexts),
    )


def _smallest(hashes: Hashes) -> Hashes:
    """The smallest distinct hashes; of hashes that are spread evenly, few have to be sorted."""
    most = KEPT_HASHES * 2
    if len(hashes) > 2 * most:
        near = hashes[hashes < np.uint64(int(most / len(hashes) * 2.0**64))]
        distinct = np.unique(near)
        if len(distinct) >= KEPT_HASHES:
            return distinct[:KEPT_HASHES]
    return np.unique(hashes)[:KEPT_HASHES]
