"""What looks wrong about a log: mistakes that new users make, as far as sums over rows tell.

The guarantee rests on what the user states. But the stated probabilities can be compared with the
actions that were taken, and some mistakes show: `benchmarks.mistakes` measures which of them, in
which worlds and with how many rows, and how often a right log is suspected.

**Bets.** If actions were taken with the stated probabilities p, then r = q(action)/p(action) has an
expectation of at most 1 for every other policy q, whichever contexts came. So for every stake s
below 1 the product over rows of 1 + s·(r/c − 1) has an expectation of at most 1, with any c of at
least 1 as room for rounding; an average over stakes exceeds 1/f with probability at most f, for any
number of rows and however large single r are. q is the optimized policy, and with tables of all
actions also the policy proportional to √p, which notices actions shuffled among contexts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core.arrays import Floats
from tether._core.rows import ODD, Block, Pass, Rows, hash_rows
from tether.control.columns import SOURCES as POLICIES
from tether.control.engine import LARGEST_BASE, SAME_SCORE

FALSE_ALARM = 1e-6  # the probability with which a bet refutes a log that is what it states
ROOM = 1.01  # the factor by which rounding may move a mean
STAKES = 0.5 ** np.arange(1, 17)
TOGETHER, LARGEST_RATIO = 8, 1e30  # so many such factors have a product that is a float
ERRORS = 6.0  # how many standard errors a mean may be off, where no bet decides
MISSING = 0.05  # how much of what the optimized policy does may be missing without a word
MIN_ROWS, MIN_ROWS_OF_MEAN = 30, 100  # fewer say nothing about logits, and about what is missing
DROP = 12.0  # a loss that falls by such a factor asks whether the log was used for training,
MIN_LOSSES = 5.0  # if so many losing rows were to be expected of the optimized policy
SAMPLED = 1 << 16  # about how many rows are summed, and how many compared with each other
COPIES = 0.02  # the share of rows that may be copies, where no two rows should be equal
OTHERS = 0.05  # contexts that come back by design have another row in this share of cases
REFUTED = "a calibration on this log does not hold"  # how a finding begins that refutes the log

HOW = {
    **dict.fromkeys(("rows", "ratio", "bets", "losses", "possible", "flat bets", "actions"), "sum"),
    **dict.fromkeys(("gap", "most_loss", "largest", "logits"), "max"),
    "hashes": "concat",
}


def is_refuted(warnings: Iterable[str]) -> bool:
    """Whether one of the warnings refutes the probabilities that a log states."""
    return any(each.startswith(REFUTED) for each in warnings)


def with_codes(rows: Rows, context: NDArray[Any] | None) -> Rows:
    """The rows with their contexts as numbers, where these are in memory."""
    if context is None:
        return rows
    codes = np.unique(context, return_inverse=True)[1].astype(np.float64)
    return Rows({**rows.columns, "context": codes})


def checks(rows: Rows, ratio_error: float) -> Pass:
    """What is summed over rows whose ratios of probabilities may be wrong by a factor."""
    sums = partial(_sums, SAMPLED / len(rows), 1 + len(rows) // SAMPLED, ROOM * ratio_error)
    return Pass(sums, HOW)


def findings(
    rows: Rows,
    found: dict[str, Any],
    draws: Rows | None,
    ratio_error: float,
    *,
    contexts_unknown: bool = False,
) -> tuple[str, ...]:
    """What looks wrong about the rows of a log, and about fresh draws, a sentence for each.

    Where contexts are not known, equal rows may be in different ones.
    """
    findings: list[str] = []
    if found["gap"] < SAME_SCORE and len(rows) > 1:
        findings.append(
            "log_safe and log_optimized are equal in every row of the log: unless the two policies "
            "are the same, one column is a copy of the other, and beta means nothing"
        )
    else:
        findings += _ratios(rows, found, ROOM * ratio_error)
        if "actions" in found:
            findings += _tables(found, ROOM * ratio_error)
        findings += _losses(rows, found)
    if not contexts_unknown or "log_safe_all" in rows.names:
        findings += _copies(found["hashes"], len(rows))
    if draws is not None and len(draws) == len(rows) and _digest(draws) == _digest(rows):
        findings.append(
            "the proposals are the rows of the log: they must be fresh draws, of the optimized "
            "policy or of both"
        )
    return tuple(findings)


# ---- one pass ----------------------------------------------------------------------------------


def _sums(share: float, step: int, room: float, block: Block) -> dict[str, Any]:
    """Sums over every `step`-th row, and hashes of a share of the rows."""
    hashes = _hashes(block, share)
    block = {name: column[::step] for name, column in block.items()}
    safe, optimized = (block[f"log_{policy}"] for policy in POLICIES)
    acting = block.get("log_logged", block.get("log_mix", safe))
    ratio, base = (np.exp(np.minimum(each - acting, LARGEST_BASE)) for each in (optimized, safe))
    losses = np.array([block[name] for name in block if name.startswith("loss/")])
    found: dict[str, Any] = {
        "rows": len(safe),
        "ratio": np.array([ratio.sum(), np.square(ratio).sum(), base.sum()]),
        "bets": _log_capitals(ratio / room),
        "gap": np.abs(optimized - safe).max(),
        "losses": np.array([(losses * ratio).sum(axis=1), (losses * base).sum(axis=1)]),
        "most_loss": losses.max(axis=1),
        "largest": ratio.max(),
        "hashes": hashes,
    }
    mixed = "log_logged" in block or "log_mix" in block
    table = block.get("log_logged_all" if mixed else "log_safe_all")
    if table is not None:  # it is known how likely every action was
        tables = [block[f"log_{policy}_all"] for policy in POLICIES]
        own = zip(tables, (safe, optimized), strict=True)
        taken = np.all([np.isclose(t, o[:, None], rtol=1e-4, atol=1e-4) for t, o in own], axis=0)
        flat = np.exp(-acting / 2) / np.exp(table / 2).sum(axis=1)  # its expectation is 1
        found["flat bets"] = _log_capitals(flat / room)
        found["possible"] = np.exp(tables[1]).sum(where=table > -np.inf)
        found["actions"] = np.array([np.exp(table).sum(axis=0), taken.sum(axis=0)])
        found["logits"] = np.array([_as_logits(each) for each in tables])
    return found


def _log_capitals(ratio: Floats) -> Floats:
    """Logs of what each stake has made of a capital of 1, a few factors at a time."""
    gains = np.zeros(-len(ratio) % TOGETHER + len(ratio))
    gains[: len(ratio)] = np.minimum(ratio, LARGEST_RATIO) - 1
    factors = 1 + np.multiply.outer(STAKES, gains.reshape(TOGETHER, -1))
    return np.asarray(np.log(factors.prod(axis=1)).sum(axis=1))


def _exceeds(log_capitals: Floats) -> bool:
    """Whether bets that the mean of ratios is above 1 have won more than chance allows."""
    return bool(np.logaddexp.reduce(log_capitals) > np.log(len(STAKES) / FALSE_ALARM))


def _as_logits(table: Floats) -> Floats:
    """The ends of what rows would be the softmax of, if it sums to 1 in every row."""
    finite = np.maximum(table, -LARGEST_BASE)
    implied = finite - finite.mean(axis=1, keepdims=True) + 1 / table.shape[1]
    most = implied.max(axis=1)
    return np.array([-implied.min(), most.max(), -most.min()])  # the last: of rows' largest values


def _hashes(block: Block, share: float) -> NDArray[np.uint64]:
    """Hashes of rows, of their scores and of their contexts (else scores), for a share of these."""
    scores = ["log_safe", "log_optimized"]
    keys = [name for name in ("context", "log_safe_all") if name in block][:1] or scores
    if share < 1:
        first = np.asarray(block[keys[0]], np.float64).reshape(len(block["log_safe"]), -1)[:, 0]
        place = np.flatnonzero(first.view(np.uint64) * ODD < np.uint64(share * 2.0**64))
        block = {name: column[place] for name, column in block.items()}
    every = [name for name, column in block.items() if column.dtype.kind in "fb"]
    return np.array([hash_rows(block[name] for name in names) for names in (every, scores, keys)])


def _digest(rows: Rows) -> int:
    """A number that the pairs of scores determine, in any order of the rows."""

    def kernel(block: Block) -> dict[str, Any]:
        return {"sum": hash_rows(block[f"log_{policy}"] for policy in POLICIES).sum(keepdims=True)}

    return int(rows.reduce(kernel, {"sum": "sum"})["sum"][0])


# ---- what it tells -----------------------------------------------------------------------------


def _ratios(rows: Rows, found: dict[str, Any], room: float) -> Iterator[str]:
    """The mean of optimized over acting probability, which should be 1."""
    count, (total, squares, _) = found["rows"], found["ratio"]
    mean = total / count
    error = float(np.sqrt(max(squares / count - mean**2, 0.0) / count))
    possible = found.get("possible", count) / count
    # Of a mixture without who acted, single rows may have larger expectations: no bet is fair.
    mixed = "log_mix" in rows.names and "log_logged" not in rows.names
    high = mean > room + ERRORS * error if mixed else _exceeds(found["bets"])
    stated = f"the optimized policy's probabilities, summed over the log, come to {mean:.3g}"
    if high:
        yield (
            f"{'' if mixed else f'{REFUTED}: '}{stated} ± {error:.2g} and should be at most 1. "
            f"Columns are exchanged (log_safe, log_optimized, propensities), a sign is wrong, rows "
            f"are mixed up, another policy acted, or the optimized one was trained on the log"
        )
        return
    # One more row of twice the largest ratio: the largest ones are rare, and may be unseen.
    extra = 2 * found["largest"]
    mean, square = (total + extra) / (count + 1), (squares + extra**2) / (count + 1)
    error = float(np.sqrt(max(square - mean**2, 0.0) / (count + 1)))
    if count >= MIN_ROWS_OF_MEAN and mean < possible - MISSING - ERRORS * error:
        yield (
            f"{stated} ± {error:.2g} instead of {possible:.3g}: the log lacks what the optimized "
            f"policy does, or its scores are not those of the actions taken"
        )


def _tables(found: dict[str, Any], room: float) -> Iterator[str]:
    """Actions that the tables do not explain, and tables that are hardly those of a policy."""
    expected, taken = found["actions"]
    rare = room * taken < expected - np.sqrt(2 * expected * np.log(len(expected) / FALSE_ALARM))
    if rare.any():
        listed = [f"{k} ({taken[k]:,.0f} rows of {expected[k]:,.0f})" for k in np.flatnonzero(rare)]
        yield (
            f"{REFUTED}: actions of the tables were taken far less often than their probabilities "
            f"say: {', '.join(listed[:3])}{' and others' if len(listed) > 3 else ''}. Rows are "
            f"missing, or the tables are not those of the policy that acted"
        )
    elif _exceeds(found["flat bets"]):
        yield (
            f"{REFUTED}: improbable actions were taken far more often than their probabilities "
            f"say. Actions and contexts are from different rows, or another policy acted"
        )
    for policy, (low, high, least) in zip(POLICIES, found["logits"], strict=True):
        sure = 0.9 < high < 1 + 1e-6 and high + least > 0.01
        if found["rows"] >= MIN_ROWS and low < 1e-6 and sure:
            yield (
                f"the {policy} policy's probabilities are in every row the softmax of numbers in "
                f"[0, 1] that sum to 1: were probabilities passed where logits are expected?"
            )


def _losses(rows: Rows, found: dict[str, Any]) -> Iterator[str]:
    """Losses that fall so much that one must ask whether the policy was trained on them."""
    names = [name.removeprefix("loss/") for name in rows.names if name.startswith("loss/")]
    total, squares, base = found["ratio"]
    if not total > 0:
        return
    effective = total**2 / squares
    for name, (better, usual), most in zip(
        names, found["losses"].T, found["most_loss"], strict=True
    ):
        mean, usual_mean = better / total, usual / base
        if mean * DROP < usual_mean and effective * usual_mean >= MIN_LOSSES * most:
            named = "" if name == "loss" else f" {name!r}"
            yield (
                f"on this log the loss{named} falls from {usual_mean:.3g} to {mean:.2g} under the "
                f"optimized policy: was it trained on these rows? Then calibrate on others"
            )


def _copies(hashes: NDArray[np.uint64], rows: int) -> Iterator[str]:
    """Rows that are in the log more than once, where scores hardly ever repeat themselves.

    Where they do, only contexts that never return with anything but a copy tell (a tripled table).
    """
    size = hashes.shape[1]
    new = np.diff(np.sort(hashes)) != 0
    whole, scores, contexts = (1 + np.count_nonzero(new, axis=1)).tolist()
    copies, returned = size - whole, size - contexts
    by_design = returned - copies > OTHERS * returned  # the contexts come back with other rows
    if copies <= COPIES * size or by_design:
        return
    few = contexts <= COPIES * size or np.array_equal(hashes[1], hashes[2])
    if scores <= size / 2 and (few or returned > copies):
        return
    share = 1 - np.count_nonzero(np.unique(hashes[0], return_counts=True)[1] == 1) / size
    yield (
        f"{'' if size == rows else 'about '}{share * rows:,.0f} of {rows:,} rows are in the log "
        f"more than once, with the same values: do files overlap? Remove the copies"
    )
