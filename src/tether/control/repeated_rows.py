"""Rows that are in a log more than once, told apart from rows that are equal by coincidence.

Rows that are drawn independently from any distribution can be equal: few values, many rows. But
then values that occur c times come with values that occur c + 1 times. With N_c the number of
values that occur c times, the inequality of Cauchy and Schwarz gives

    E[N_(c+1)] ≥ c / (c + 1) · E[N_c]² / E[N_(c−1)]

(for a Poisson number of rows), whatever the distribution. A table that was joined to itself, or to
one that overlaps it, has values that occur twice and hardly any that occur three times.

A row is compared as a whole: its losses, reward and log-probabilities, its context, and its action
where it is known. Contexts need not be independent: they may come back by design, each of them
twice, and some of their rows are then equal by chance. So where contexts come back more often than
by chance, and with other rows too, this proves nothing; where actions and their probabilities are
known, `equal_choices` still decides. How many of these rows must differ follows from the stated
probabilities: a policy that nearly always takes the same action makes rows equal that are no
copies. A file has more columns: one whose values come back with
nothing but copies of whole rows is a key, such as the id of a user, of rows that are repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tether._core.equal_values import group_equal
from tether._core.types import Floats, Integers
from tether.control.equal_choices import chosen_anew, earlier_actions
from tether.control.refuted_log import refute

if TYPE_CHECKING:
    from tether.control.log import Log

MAX_COPIES = 8
"""Up to how many copies of a row are looked for."""
CHANCE = 3.0
"""How many standard errors counts may be off."""
IMPLAUSIBLE = 1e-6
"""How improbable it must be that so few values occur once more."""
DIFFERENT_SHARE = 0.05
"""Of values that come back by design at least this share comes with other rows."""
FEW_DIFFERENT = 0.01
"""How improbable it must be that so few contexts come back with other rows."""
MIN_KEYS = 0.25
"""A column of a file is a key only if it has this many different values, relative to the rows."""
MOST_COPIES = 0.8
"""The share of rows that are in the log more than once above which no promise is useful."""
MIN_BLOCK = 5
"""Fewer rows in sequence that equal others may do so by coincidence, and are not named."""
SAME_SCORES, SAME_VALUES = "losses and log-probabilities", "values in all columns of the file"
"""What is the same in rows that occur more than once."""
_FACTOR, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)


def repeated_rows_warning(log: Log, taken: Integers | None = None) -> str | None:
    """Say that rows occur more than once where this is no coincidence; None where it may be.

    `taken` numbers the actions, where there are finitely many and they are known.
    """
    context = _codes(log.context)
    hashes = _hash_log(log, context, taken)
    order, starts, times = group_equal(hashes)
    if len(starts) == len(order):
        return None
    different = DIFFERENT_SHARE if context is None else _different_share(log, context, taken)
    implausible, kept = implausible_rows(times, _context_times(context), different), False
    if not implausible and context is not None and taken is not None and log.log_mix is None:
        later = np.ones(len(order), dtype=np.bool_)
        later[order[starts]] = False
        implausible = kept = not chosen_anew(context, taken, np.exp(log.log_safe), later)
    return _copies(hashes, order, times, kept=kept) if implausible else None


def may_have_copies(log: Log) -> bool:
    """Whether so many rows are equal that `repeated_lines_warning` might tell of copies."""
    hashes = _hash_log(log, _codes(log.context))
    return _enough_copies(len(hashes) - len(np.unique(hashes)))


def repeated_lines_warning(columns: Iterable[NDArray[np.uint64]]) -> str | None:
    """Say that rows of a file occur more than once, by a hash of every value of its columns."""
    columns = list(columns)
    hashes = hash_rows([column.view(np.int64) for column in columns])
    order, _, times = group_equal(hashes)
    copies, rows = len(hashes) - len(times), len(hashes)
    if not _enough_copies(copies):
        return None
    keys = (len(np.unique(column)) for column in columns)
    returned = [rows - each for each in keys if each >= MIN_KEYS * rows]
    if not any(_return_as_copies(each, copies, IMPLAUSIBLE) for each in returned):
        return None
    return _copies(hashes, order, times, same=SAME_VALUES)


def repeated_warning(
    columns: Sequence[Floats | Integers], context: Floats | Integers | None, same: str
) -> str | None:
    """Say that rows of columns of numbers do, as of a log; `same` names the columns."""
    hashes = hash_rows(columns)
    order, _, times = group_equal(hashes)
    implausible = implausible_rows(times, _context_times(_codes(context)))
    return _copies(hashes, order, times, same=same) if implausible else None


def _copies(
    hashes: NDArray[np.uint64],
    order: Integers,
    times: Integers,
    *,
    same: str = SAME_SCORES,
    kept: bool = False,
) -> str:
    count = int(times[times > 1].sum())
    return copies_in_words(count, len(hashes), _where(hashes, order), same=same, kept=kept)


def copies_in_words(
    count: float,
    rows: int,
    where: str = "",
    *,
    about: bool = False,
    same: str = SAME_SCORES,
    kept: bool = False,
) -> str:
    """What is said of rows that occur more than once.

    `same` names what is equal, and `kept` says that contexts may keep an action.
    """
    causes = "are rows repeated, or do files overlap?"
    if kept:
        causes = (
            "are rows repeated, do files overlap, does a context that comes back keep its action, "
            "or are propensities wrong?"
        )
    text = (
        f"{'about ' if about else ''}{count:,.0f} of {rows:,} rows are in the log more than once, "
        f"with the same {same}{where}, far more than by chance: {causes} A promise takes "
        f"every row for a new observation: remove the copies"
    )
    return refute(text) if count > MOST_COPIES * rows else text


def implausible_copies(multiplicities: Integers) -> bool:
    """Whether values that occur so often cannot be those of independent rows."""
    from scipy.special import pdtr

    values = np.bincount(np.minimum(multiplicities, MAX_COPIES + 1), minlength=MAX_COPIES + 2)
    for copies in range(2, MAX_COPIES):
        fewer, here, more = values[copies - 1 : copies + 2].tolist()
        at_least = max(here - CHANCE * here**0.5, 0)
        at_most = fewer + CHANCE * (fewer**0.5 + CHANCE)
        if pdtr(more, copies / (copies + 1) * at_least**2 / at_most) < IMPLAUSIBLE:
            return True
    return False


def _where(hashes: NDArray[np.uint64], order: Integers) -> str:
    """The longest block of rows that follows an equal block, in words.

    A single pair of equal rows may be a coincidence among the copies; a block is none.
    """
    same = hashes[order[1:]] == hashes[order[:-1]]
    ahead = np.zeros(len(hashes), dtype=np.int64)  # how far back the row before it that is equal is
    ahead[order[1:][same]] = (order[1:] - order[:-1])[same]
    breaks = np.flatnonzero(np.r_[True, ahead[1:] != ahead[:-1], True])
    lengths = np.where(ahead[breaks[:-1]] > 0, np.diff(breaks), 0)
    longest = int(np.argmax(lengths))
    first, last, back = breaks[longest], breaks[longest + 1] - 1, ahead[breaks[longest]]
    if lengths[longest] < MIN_BLOCK:
        return ""
    return f" (rows {first} to {last} equal rows {first - back} to {last - back})"


def implausible_rows(
    times: Integers, context_times: Integers | None, different: float = DIFFERENT_SHARE
) -> bool:
    """Whether rows that occur so often are copies, and no contexts that come back by design.

    `context_times` says how often each context occurs, where there are any, and `different` which
    share of the rows in contexts that come back differ from all earlier ones, at least.
    """
    if not implausible_copies(times):
        return False
    return context_times is None or not _come_by_design(context_times, len(times), different)


def _context_times(context: Integers | None) -> Integers | None:
    return None if context is None else np.unique(context, return_counts=True)[1]


def _come_by_design(times: Integers, distinct: int, different: float) -> bool:
    """Whether contexts come back more often than by chance, and with other rows too.

    `times` says how often each context occurs, and `distinct` how many different rows there are.
    """
    rows = int(times.sum())
    if _return_as_copies(rows - len(times), rows - distinct, FEW_DIFFERENT, different):
        return False
    return implausible_copies(times)


def _enough_copies(copies: int) -> bool:
    """Whether a key could tell of so many copies, whatever the columns of a file are."""
    return _return_as_copies(copies, copies, IMPLAUSIBLE)


def _different_share(log: Log, context: Integers, taken: Integers | None) -> float:
    """The share of rows in contexts that come back whose action must be new there, on average.

    By the stated probabilities; actions that are not known are told apart by their scores.
    """
    if taken is None:
        taken = hash_rows([log.log_safe, log.log_optimized]).view(np.int64)
    mixture = log.log_safe if log.log_mix is None else log.log_mix
    probability = np.exp(np.minimum(mixture, 0.0))
    _, returned, before = earlier_actions(context, taken, probability)
    return float((1 - np.minimum(before[returned], 1.0)).mean()) if returned.any() else 0.0


def _return_as_copies(
    returned: int, copies: int, chance: float, different: float = DIFFERENT_SHARE
) -> bool:
    """Whether fewer values that come back do so with another row than by design.

    Where none does, a small share that must differ says nothing, and they are copies as ever.
    """
    from scipy.special import bdtr

    others = max(returned - copies, 0)
    share = min(different, DIFFERENT_SHARE) if others else DIFFERENT_SHARE
    return bool(returned > 0 and bdtr(others, returned, share) < chance)


def _hash_log(
    log: Log, context: Integers | None, taken: Integers | None = None
) -> NDArray[np.uint64]:
    """A hash of each row of a log as a whole."""
    columns: list[Floats | Integers | None] = [log.log_safe, log.log_optimized, log.log_mix]
    columns += [*log.loss.values(), log.reward]
    columns += [context, None if taken is None else taken.astype(np.int64)]
    return hash_rows([column for column in columns if column is not None])


def _codes(context: NDArray[Any] | None) -> Integers | None:
    """A number for each context; None where there are none."""
    if context is None:
        return None
    if context.dtype.kind in "iu" and context.dtype.itemsize <= 8:
        return context.astype(np.int64)
    return np.unique(context, return_inverse=True)[1].astype(np.int64)


def hash_rows(columns: Sequence[Floats | Integers]) -> NDArray[np.uint64]:
    """A hash of each row of columns of 64 bits; −0 and 0 are the same."""
    hashes = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        hashes ^= (column + column.dtype.type(0)).view(np.uint64)
        hashes *= _FACTOR
        hashes ^= hashes >> _SHIFT
    return hashes
