"""What is suspicious about the scores of a log in parts, and where its calibration came from."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from tether._core import records
from tether._core.digests import content_digest
from tether._version import __version__
from tether.control.parts.in_parts import LogKernel
from tether.control.parts.problem import ProblemInParts
from tether.control.parts.rows import Range
from tether.control.parts.score_sums import ScoreSums, SumDrawnScores, SumScores
from tether.control.provenance import Provenance, plain_settings
from tether.control.repeated_rows import copies_in_words, implausible_rows
from tether.control.score_checks import (
    SAME_SCORE_TOLERANCE,
    compare_overlaps,
    deviation_of_sums,
    mean_ratio_warnings,
)


class ReadScores(NamedTuple):
    """The sums of the log and of the proposals, and what else was read in the same pass."""

    log: ScoreSums
    drawn: ScoreSums | None
    others: tuple[Any, ...]


def read_scores(problem: ProblemInParts, *others: LogKernel) -> ReadScores:
    """The sums of the log and of the proposals; one pass over each."""
    log, *read = problem.log.reduce(SumScores(), *others, reward=True)
    drawn = None
    if problem.proposals is not None:
        (drawn,) = problem.proposals.reduce(SumDrawnScores())
    return ReadScores(log, drawn, tuple(read))


def score_warnings_in_parts(
    problem: ProblemInParts, log: ScoreSums, drawn: ScoreSums | None
) -> Iterator[str]:
    """Say it in words, as `score_warnings` does in memory."""
    survey = problem.log.survey
    names = ("log_safe", "log_optimized")
    for name, (low, high) in zip(names, survey.scores, strict=True):
        if 0 <= low < high <= 1:
            yield (
                f"all values of {name} lie between 0 and 1, as probabilities do: check that it "
                f"holds log-probabilities"
            )
    repeats = log.distinct <= log.rows / 2
    is_ratio = survey.scores[0] == (0.0, 0.0)
    for name, (_, high), count in zip(names, survey.scores, log.positive, strict=True):
        if count and repeats and not is_ratio:
            yield (
                f"{name} is up to {high:.4g} ({count} value(s) above 0), and the log repeats few "
                f"distinct scores, as finitely many actions do: a log-probability is at most 0, "
                f"only a log-density can be larger"
            )
    constant = _identical_or_constant(log, drawn, survey.scores)
    if constant is not None:
        yield constant
    else:
        yield from _mean_ratio(problem, log)
    same = drawn is not None and (drawn.rows, drawn.scores_total) == (log.rows, log.scores_total)
    if same and not repeats:
        yield (
            "the proposals are the rows of the log: they must be fresh draws, of the optimized "
            "policy or of both"
        )
    yield from _overlaps(problem, log, drawn)


def _identical_or_constant(
    log: ScoreSums, drawn: ScoreSums | None, scores: tuple[Range, Range]
) -> str | None:
    if log.rows < 2:
        return None
    if not log.differ:
        return (
            "log_safe and log_optimized are equal in every row of the log"
            + (", but not in the proposals" if drawn is not None and drawn.differ else "")
            + ": unless the two policies are the same, one column is a copy of the other, and beta "
            "means nothing"
        )
    if all(high - low < SAME_SCORE_TOLERANCE or high == low for low, high in scores):
        return (
            f"every log_safe is {scores[0][0]:.4g} and every log_optimized is {scores[1][0]:.4g}: "
            f"the scores do not tell actions apart; check that they are those of the actions taken"
        )
    return None


def _mean_ratio(problem: ProblemInParts, log: ScoreSums) -> Iterator[str]:
    logs = log.sums.logs - np.log(log.rows)
    with np.errstate(over="ignore"):
        mean, square = np.exp(logs[:2]).tolist()
    error = deviation_of_sums(mean, square) / math.sqrt(log.rows)
    possible = float(np.exp(logs[4])) if problem.log.has_tables else 1.0
    yield from mean_ratio_warnings(mean, error, log.rows, possible)


def copies_in_parts(problem: ProblemInParts, log: ScoreSums) -> str | None:
    """Say that rows occur more than once where this is no coincidence; None where it may be.

    Contexts may come back by design. Where neither tables nor draws tell them apart, rows are not
    compared.
    """
    listed = problem.log.has_tables or problem.log.has_draws
    if problem.log.has_contexts and not listed:
        return None
    times, contexts = log.counted.in_whole_contexts()
    if not implausible_rows(times, contexts if listed else None):
        return None
    share = times[times > 1].sum() / times.sum()
    return copies_in_words(share * log.rows, log.rows, about=log.counted.sampled)


def possible_outside(log: ScoreSums) -> float:
    """The optimized policy's share of actions, in tables, that the log cannot contain."""
    return max(0.0, 1 - float(np.exp(log.sums.logs[4] - np.log(log.rows))))


def _overlaps(problem: ProblemInParts, log: ScoreSums, drawn: ScoreSums | None) -> Iterator[str]:
    share = problem.log.safe_share
    if share is None:
        return
    logs = log.sums.logs - np.log(log.rows)
    spread = 1 / (share**2 * log.rows)
    rows = np.exp(logs[2:3])
    if problem.log.has_tables:
        exact = np.exp(logs[3:4])
        yield from compare_overlaps(rows, exact, spread, "the tables of all actions")
    if drawn is None or problem.proposals is None:
        return
    survey = problem.proposals.survey
    counts = (survey.safe_rows, survey.rows - survey.safe_rows)
    for source, count, total in zip(("safe", "optimized"), counts, drawn.sums.logs, strict=True):
        if count:
            expected = np.exp([total - np.log(count)])
            name = f"the draws of the {source} policy"
            yield from compare_overlaps(rows, expected, spread + 1 / count, name)


def provenance_in_parts(
    problem: ProblemInParts, log: ScoreSums, drawn: ScoreSums | None
) -> Provenance:
    """Which rows, proposals, settings and version a calibration came from.

    The digest of the rows does not depend on their order, or on how they are divided into files.
    """
    columns = problem.log.columns
    stated = {
        "safe_share": problem.log.safe_share,
        "max_ratio": columns.max_ratio,
        "ratio_error": problem.log.ratio_error,
        "approximate": problem.log.approximate,
    }
    return Provenance(
        __version__,
        plain_settings(problem.settings),
        {
            "rows": _digest(log, "rows"),
            **{f"loss[{name}]": _digest(log, name) for name in problem.log.loss_names},
            "stated": content_digest(records.encode(stated)),
        },
        None if drawn is None else {"rows": _digest(drawn, "rows")},
    )


def _digest(sums: ScoreSums, column: str) -> str:
    """The digest of all rows, and of the name under which it is stated."""
    hashes = [f"{each:016x}" for each in sums.total]
    return content_digest({"column": column, "rows": sums.rows, "sums": hashes})
