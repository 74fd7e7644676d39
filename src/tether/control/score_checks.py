"""Sanity checks of scores: what columns of log-probabilities cannot look like, or should not.

What cannot be right is an error when the log is made. What is suspicious but possible is a warning
in words, from three facts about true scores:

- the ratio optimized/mixture has mean one under the log, or less where the optimized policy takes
  actions that the log cannot contain;
- the overlap ∫ min(optimized, safe) is the mean of min(optimized, safe)/mixture under the log, of
  min(1, safe/optimized) under draws of the optimized policy, of min(optimized/safe, 1) under those
  of the safe one, and a sum over the tables of all actions. All are means of bounded numbers, so by
  Hoeffding's inequality they agree, however far apart the policies are;
- a probability is at most one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from tether._core.ties import SUM_ROUNDING
from tether._core.types import Floats
from tether.control.repeated_rows import hash_rows
from tether.control.scored_by import PICKER

if TYPE_CHECKING:
    from tether.control.log import Log
    from tether.control.proposals import Proposals

MIN_ROWS_OF_PROBABILITIES = 20
"""Fewer rows of log-densities than this may all lie between 0 and 1 by chance."""
MIN_ROWS_OF_MEAN_RATIO = 30
"""From fewer rows than this the mean ratio is not compared with one."""
MEAN_RATIO_ERRORS = 6.0
"""How many standard errors the mean ratio may be away from one."""
MISSING_MASS = 0.05
"""How far, beyond these errors, the mean ratio may be below one."""
OVERLAP_FALSE_ALARM = 1e-6
"""The probability with which true scores fail the comparison of overlaps."""
OVERLAP_MARGIN = 0.01
"""How much noise of the scores may move an overlap."""
HASH_PLACES_PER_ROW = 2
"""How large a table of hashes is, at least, in which distinct pairs of scores are counted."""
HIGH_RATIO_WORDS = "should be at most 1"
"""Words by which a warning that the mean ratio is too high is recognized, also once saved."""
SAME_SCORE_TOLERANCE = 1e-9
"""Scores that differ by less than this are the same."""


def refuse_probabilities(name: str, scores: Floats) -> None:
    """Raise if a column of log-probabilities holds probabilities."""
    if len(scores) >= MIN_ROWS_OF_PROBABILITIES and _looks_like_probabilities(scores):
        raise ValueError(
            f"{name} must hold log-probabilities, but all its {len(scores)} values lie between 0 "
            f"and 1 ({scores.min():.4g} to {scores.max():.4g}), as probabilities do: take their "
            f"logarithm. If these are log-densities, subtract log_safe from all columns of scores: "
            f"only differences count"
        )


def score_warnings(log: Log, proposals: Proposals | None = None) -> tuple[str, ...]:
    """Say in words what is suspicious about the scores of a log and its draws.

    Nothing here is certain to be wrong, so nothing is refused; true scores are named with a
    negligible probability, except where the log hardly shows what the optimized policy does.
    """
    return tuple(_find_warnings(log, proposals))


def _find_warnings(log: Log, proposals: Proposals | None) -> Iterator[str]:
    for name in ("log_safe", "log_optimized"):
        if _looks_like_probabilities(getattr(log, name)):
            yield (
                f"all values of {name} lie between 0 and 1, as probabilities do: check that it "
                f"holds log-probabilities"
            )
    yield from _positive_log_probabilities(log)
    constant = _identical_or_constant(log, proposals)
    if constant is not None:
        yield constant
    else:
        yield from _mean_ratio(log)
    if proposals is not None and _are_rows(log, proposals):
        yield (
            "the proposals are the rows of the log: they must be fresh draws, of the optimized "
            "policy or of both"
        )
    yield from _overlaps(log, proposals)


def _are_rows(log: Log, proposals: Proposals) -> bool:
    """Whether the draws are copies of the rows; equal scores of few actions are not enough."""
    return (
        np.array_equal(log.log_safe, proposals.log_safe)
        and np.array_equal(log.log_optimized, proposals.log_optimized)
        and not _repeats_scores(log)
    )


def _looks_like_probabilities(scores: Floats) -> bool:
    """Whether all values lie in [0, 1] and differ; equal ones may be a uniform density."""
    return bool(0 <= scores.min() < scores.max() <= 1)


def _positive_log_probabilities(log: Log) -> Iterator[str]:
    """Scores above 0 in a log that repeats few distinct scores, as finitely many actions do."""
    for name in ("log_safe", "log_optimized"):
        scores = getattr(log, name)
        positive = scores > SAME_SCORE_TOLERANCE
        if positive.any() and log.log_safe.any() and _repeats_scores(log):
            row = int(np.argmax(positive))
            yield (
                f"{name}[{row}] is {scores[row]:.4g} ({int(positive.sum())} value(s) above 0), and "
                f"the log repeats few distinct scores, as finitely many actions do: a "
                f"log-probability is at most 0, only a log-density can be larger"
            )


def _repeats_scores(log: Log) -> bool:
    """Whether there are at most half as many distinct pairs of scores as rows."""
    rows = len(log)
    # Different places of hashes in a table come from different pairs, and most pairs of a density
    # have a place of their own: one pass instead of a sort.
    bits = (HASH_PLACES_PER_ROW * rows).bit_length()
    places = np.zeros(1 << bits, dtype=np.bool_)
    places[hash_rows((log.log_safe, log.log_optimized)) >> np.uint64(64 - bits)] = True
    if np.count_nonzero(places) > rows / 2:
        return False
    order = np.lexsort((log.log_optimized, log.log_safe))
    safe, optimized = log.log_safe[order], log.log_optimized[order]
    changes = (safe[1:] != safe[:-1]) | (optimized[1:] != optimized[:-1])
    return 1 + int(changes.sum()) <= rows / 2


def _identical_or_constant(log: Log, proposals: Proposals | None) -> str | None:
    """Policies that the scores do not tell apart."""
    if len(log) < 2:
        return None
    if has_equal_scores(log):
        differ = proposals is not None and not _same(proposals.log_safe, proposals.log_optimized)
        if log.scored_by is not None and PICKER in log.scored_by.fingerprints:
            return (
                "in every row all candidates of the shortlist have the same score, so that there "
                "is nothing to pick by, and beta means nothing: is the score a constant?"
            )
        return (
            "log_safe and log_optimized are equal in every row of the log"
            + (", but not in the proposals" if differ else "")
            + ": unless the two policies are the same, one column is a copy of the other, and beta "
            "means nothing"
        )
    safe, optimized = log.log_safe[0], log.log_optimized[0]
    if _same(log.log_safe, safe) and _same(log.log_optimized, optimized):
        return (
            f"every log_safe is {safe:.4g} and every log_optimized is {optimized:.4g}: the scores "
            f"do not tell actions apart; check that they are those of the actions taken"
        )
    return None


def has_equal_scores(log: Log) -> bool:
    """Whether both policies have the same score in every row."""
    return _same(log.log_safe, log.log_optimized)


def _same(first: Floats, second: Floats | float) -> bool:
    with np.errstate(invalid="ignore"):  # −inf equals −inf
        return bool(((first == second) | (np.abs(first - second) < SAME_SCORE_TOLERANCE)).all())


def _mean_ratio(log: Log) -> Iterator[str]:
    """The mean of optimized over mixture density in the log, which should be one."""
    mixture = log.log_safe if log.log_mix is None else log.log_mix
    with np.errstate(over="ignore", invalid="ignore"):
        ratios = np.exp(log.log_optimized - mixture)
        mean, error = float(ratios.mean()), float(ratios.std() / np.sqrt(len(ratios)))
    yield from mean_ratio_warnings(mean, error, len(log), _possible_mass(log))


def deviation_of_sums(mean: float, mean_square: float) -> float:
    """The standard deviation, which is 0 where it is rounding, and inf where it overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        variance = float(np.float64(mean_square) - np.float64(mean) * np.float64(mean))
    if not np.isfinite(variance):
        return float("inf")
    return float(np.sqrt(variance)) if variance > SUM_ROUNDING * mean_square else 0.0


def mean_ratio_warnings(mean: float, error: float, rows: int, possible: float) -> Iterator[str]:
    """Say that a mean of optimized over mixture density is not what it should be."""
    if not np.isfinite(error):
        mean, error = np.inf, 0.0
    slack = MEAN_RATIO_ERRORS * error + SAME_SCORE_TOLERANCE
    if mean > 1 + slack:
        yield (
            f"the optimized policy's probabilities, summed over the log, come to {mean:.3g} ± "
            f"{error:.2g} and {HIGH_RATIO_WORDS}: check that the log was scored under the policy "
            f"that produced it, that log_safe and log_optimized are not exchanged, and their signs"
        )
    elif rows >= MIN_ROWS_OF_MEAN_RATIO and mean < possible - MISSING_MASS - slack:
        yield (
            f"the optimized policy's probabilities, summed over the log, come to only {mean:.3g} ± "
            f"{error:.2g} instead of 1: the log hardly contains what the optimized policy does, or "
            f"its scores are not those of the actions taken"
        )


def _possible_mass(log: Log) -> float:
    """How much of the optimized policy the log can contain: one, unless tables tell otherwise."""
    if log.log_safe_all is None or log.log_optimized_all is None:
        return 1.0
    mixture = log.log_safe_all if log.log_mix_all is None else log.log_mix_all
    return float(np.exp(log.log_optimized_all).sum(axis=1, where=mixture > -np.inf).mean())


def _overlaps(log: Log, proposals: Proposals | None) -> Iterator[str]:
    """Overlaps of the two policies that should agree and do not."""
    if log.safe_share is None:  # the terms of the log have no known bound
        return
    mixture = log.log_safe if log.log_mix is None else log.log_mix
    rows = np.exp(np.minimum(log.log_safe, log.log_optimized) - mixture)
    spread = 1 / (log.safe_share**2 * len(log))
    if log.log_safe_all is not None and log.log_optimized_all is not None:
        exact = np.exp(np.minimum(log.log_safe_all, log.log_optimized_all)).sum(axis=1)
        yield from compare_overlaps(rows, exact, spread, "the tables of all actions")
    if proposals is None or (log.context is None) != (proposals.context is None):
        return
    for source, chosen in (("safe", proposals.from_safe), ("optimized", ~proposals.from_safe)):
        if chosen.any():
            found = _overlap_of_draws(log, proposals, source)
            if found is not None:
                expected, matched, spread_of_draws = found
                spread_of_both = 1 / (log.safe_share**2 * matched.sum()) + spread_of_draws
                drawn = f"the draws of the {source} policy"
                yield from compare_overlaps(rows[matched], expected, spread_of_both, drawn)


def _overlap_of_draws(
    log: Log, proposals: Proposals, source: str
) -> tuple[Floats, np.typing.NDArray[np.bool_], float] | None:
    """The mean over the draws in the context of each row, which rows have some, and their spread.

    The spread is Σ (coefficient · range)² of Hoeffding's inequality.
    """
    chosen = proposals.from_safe if source == "safe" else ~proposals.from_safe
    own = (proposals.log_safe if source == "safe" else proposals.log_optimized)[chosen]
    terms = np.exp(np.minimum(proposals.log_safe, proposals.log_optimized)[chosen] - own)
    if log.context is None or proposals.context is None:
        every = np.ones(len(log), dtype=np.bool_)
        return np.full(len(log), terms.mean()), every, 1 / len(terms)
    known, place = np.unique(proposals.context[chosen], return_inverse=True)
    if (known.dtype.kind in "US") != (log.context.dtype.kind in "US"):
        return None
    row = np.minimum(np.searchsorted(known, log.context), len(known) - 1)
    matched = known[row] == log.context
    if not matched.any():
        return None
    draws = np.bincount(place)
    means = np.bincount(place, terms) / draws
    rows = np.bincount(row[matched], minlength=len(known))
    return means[row[matched]], matched, float((rows**2 / draws).sum() / matched.sum() ** 2)


def compare_overlaps(rows: Floats, expected: Floats, spread: float, source: str) -> Iterator[str]:
    """Say that two overlaps of the same policies differ by more than chance allows."""
    gap = abs(float(np.mean(rows - expected)))
    limit = OVERLAP_MARGIN + float(np.sqrt(np.log(2 / OVERLAP_FALSE_ALARM) / 2 * spread))
    if gap > limit:
        yield (
            f"the two policies overlap by {rows.mean():.3g} according to the log and by "
            f"{expected.mean():.3g} according to {source}, and these should differ by at most "
            f"{limit:.2g}: some rows or draws were made by another policy than the one they are "
            f"scored under"
        )
