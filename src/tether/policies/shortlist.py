"""Shortlists: the safe policy draws N candidates, and a score picks one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether._core import policy_calls, validate
from tether._core.arrays import (
    Actions,
    Contexts,
    Floats,
    Integers,
    Losses,
    check_row_indexes,
    plain_column,
    shown,
)
from tether._core.contexts import as_contexts, column_labels, labels, length, take
from tether._core.words import AssumptionWarning, warn_user
from tether.control.calibration import Calibration
from tether.control.families import Family
from tether.control.log import Log
from tether.policies.categorical import Pool
from tether.policies.policy import TablePolicy, as_policy, as_sampler, picked
from tether.policies.probes import check_probes, encode_actions, take_probes
from tether.policies.tethered import Tethered
from tether.sampling.samplers import log_softmax

SHORTLIST_SIZE = 16
"""The default number of candidates."""
PROBED_ROWS = 4
"""In how many rows of candidates probes are taken: a judge may score their candidates again."""
SCORE_ALONE_TOLERANCE = 1e-3
"""How far a score may be from that of the same row scored alone, relative and absolute."""
MIN_ROWS = 20
"""From fewer rows it is not judged whether candidates are copies."""
MAX_RANK_DEVIATION = 5.0
"""Standard deviations of the mean rank of logged actions beyond which a warning is given."""
REPEATED_SHARE = 0.02
"""The share of rows that occur more than once from which on it is no coincidence."""


@dataclass(frozen=True, eq=False, repr=False)
class ShortlistRows:
    """One row per context, each with N candidates: the contexts of a policy that picks one.

    Its action is the position of a candidate.

    Examples
    --------
    >>> rows = ShortlistRows(np.array([1.0, 2.0]), np.array([["a", "b"], ["c", "d"]]))
    >>> rows, rows.picked(np.array([1, 0])).tolist()
    (ShortlistRows(2 rows of 2 candidates), ['b', 'c'])
    """

    contexts: Any
    candidates: NDArray[Any]

    def __post_init__(self) -> None:
        candidates = np.asarray(self.candidates)
        object.__setattr__(self, "candidates", candidates)
        if len(candidates):
            object.__setattr__(self, "contexts", as_contexts(self.contexts))
        if candidates.ndim < 2 or len(candidates) != length(self.contexts):
            raise ValueError(
                f"candidates must have shape (rows, N) or (rows, N, …) with "
                f"{length(self.contexts)} row(s), got shape {candidates.shape}"
            )

    @property
    def shape(self) -> tuple[int]:
        """The number of rows, as contexts have it."""
        return (len(self.candidates),)

    @property
    def size(self) -> int:
        """The number of candidates per row."""
        return int(self.candidates.shape[1])

    def __len__(self) -> int:
        return len(self.candidates)

    def __getitem__(self, index: slice | Integers) -> ShortlistRows:
        rows = np.arange(len(self))[index]
        return ShortlistRows(take(self.contexts, rows), self.candidates[rows])

    def __repr__(self) -> str:
        return f"ShortlistRows({len(self)} rows of {self.size} candidates)"

    def picked(self, index: Integers) -> NDArray[Any]:
        """The candidates at the given positions, one per row: the actions."""
        return np.asarray(self.candidates[np.arange(len(self)), index])

    def pairs(self) -> tuple[Any, NDArray[Any]]:
        """Every candidate with its context, row after row, as `log_prob` of a policy takes them."""
        rows = np.repeat(np.arange(len(self)), self.size)
        return take(self.contexts, rows), self.candidates.reshape(-1, *self.candidates.shape[2:])


def without_candidates(contexts: Any, actions: NDArray[Any]) -> tuple[Any, NDArray[Any]]:
    """Contexts and actions, also where they are candidates and positions among these."""
    if isinstance(contexts, ShortlistRows):
        return contexts.contexts, contexts.picked(actions)
    return contexts, actions


class Picker(TablePolicy):
    """The policy of a `Shortlist` over the positions 0 to N − 1; its contexts are `ShortlistRows`.

    Its parameters are those of `Shortlist`. The score of an optimized policy is log optimized − log
    safe density, so that picking approximates the optimized policy, the better the larger N is.
    Where the safe policy cannot state log-probabilities, it is the optimized policy's alone:
    picking approximates the *product* of the safe density and the optimized one^(1 / temperature).

    A score of −inf excludes a candidate. If all of a row are excluded, they are equally likely.
    """

    def __init__(
        self, optimized: Any, size: int, temperature: float = 1.0, safe: Any = None
    ) -> None:
        self.size = validate.integer("size", size, 2)
        limits: Any = {"above": 0, "below": np.inf, "including": (0,)}
        self.temperature = validate.number("temperature", temperature, **limits)
        self.actions = validate.frozen(np.arange(self.size))
        self._is_policy = hasattr(optimized, "log_prob") or hasattr(optimized, "predict_proba")
        if self._is_policy:
            optimized = as_policy("optimized", optimized)
        elif isinstance(optimized, type) or not callable(optimized):
            raise TypeError(
                f"optimized must be a function of (contexts, candidates) that returns scores, or a "
                f"policy, got {shown(optimized)}"
            )
        self.optimized = optimized
        self._safe = safe if self._is_policy and hasattr(safe, "log_prob") else None

    def __repr__(self) -> str:
        return f"Picker({self.optimized!r}, size={self.size}, temperature={self.temperature:g})"

    def scores(self, rows: ShortlistRows) -> Floats:
        """Score every candidate of each row, before scores are divided by the temperature."""
        if not isinstance(rows, ShortlistRows) or rows.size != self.size:
            raise ValueError(
                f"contexts of a picker must be ShortlistRows with {self.size} candidates, as "
                f"Shortlist.draw makes them, got {shown(rows)}"
            )
        shape = (len(rows), self.size)
        if self._is_policy:
            pairs, log_safe = rows.pairs(), np.zeros(1)
            if self._safe is not None:
                log_safe = policy_calls.score("safe", self._safe, *pairs, drew=True)
            log_optimized = policy_calls.score("optimized", self.optimized, *pairs)
            return np.reshape(log_optimized - log_safe, shape)
        # Copies: a function that sorts in place would move candidates away from their positions.
        contexts = rows.contexts.copy() if isinstance(rows.contexts, np.ndarray) else rows.contexts
        answer = self.optimized(contexts, rows.candidates.copy())
        if hasattr(answer, "detach"):  # a torch tensor
            answer = answer.detach().cpu().numpy()
        if np.shape(answer) != shape:
            raise ValueError(
                f"the score has shape {np.shape(answer)} for candidates of shape "
                f"{rows.candidates.shape}, expected {shape}: one score per candidate"
            )
        return validate.log_probabilities("the score's result", answer, ndim=2, zero=True)

    def log_prob_all(self, contexts: Any) -> Floats:
        """The log-probability of picking each candidate of `ShortlistRows`."""
        return self.to_log_probabilities(self.scores(contexts))

    def to_log_probabilities(self, scores: Floats) -> Floats:
        """Turn scores into the log-probabilities with which candidates are picked."""
        scores = np.where(scores.max(axis=1, keepdims=True) > -np.inf, scores, 0.0)
        if self.temperature > 0:
            return log_softmax(scores, self.temperature)
        best = scores == scores.max(axis=1, keepdims=True)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(best) - np.log(best.sum(axis=1, keepdims=True)))


class Shortlist:
    """The safe policy draws N candidates in each context, and a score picks one of them.

    The context and its candidates z = (x, c₁ … c_N) together are the context, and the position k of
    the picked candidate is the action. Seen this way the safe policy is uniform over N positions.
    So the action set is finite, normalizing constants are exact, no weight exceeds N over the safe
    policy's share of the log, and nothing asks the safe policy for a log-probability.

    *Why this controls the risk of the action that is served.* Candidates are independent draws
    from ``π₀(·|x)``, so z has the same distribution in logged rows and in new ones. In a logged row
    the position is uniform given z (see `join`); in a new one it has the tethered density π_β(k|z).
    Hence the rows (z, k, loss) are a log of the uniform policy with contexts z, `calibrate` bounds
    the expected loss of the next pair (z, k) drawn with π_β, and that *is* the loss of the action
    c_k in context x. Of the score nothing is assumed but that it depends on its own row alone and
    did not learn from the log. Log and serving need the same safe policy and the same N.

    Parameters
    ----------
    safe : object with a method sample, or callable
        The safe policy: `sample(contexts, rng)` returns one action per context; or that function.
    optimized : callable or Policy, optional
        What picks: a function of (contexts, candidates) that returns scores of shape (rows, N), or
        an optimized policy, which picks by its log ratio to the safe policy (see
        `tether.policies.Picker`). May be omitted for a `Controller`, where each round has its own.
    size : int, default 16
        The number N of candidates, at least 2.
    temperature : float, default 1.0
        Candidates are picked with probability proportional to e^(score / temperature); 0 picks the
        best one, at random among equally good ones.

    Examples
    --------
    >>> import tether
    >>> rng = np.random.default_rng(0)
    >>> draw = lambda contexts, rng: rng.normal(contexts)  # any sampler
    >>> score = lambda contexts, candidates: candidates  # any score
    >>> contexts = rng.normal(size=1000)
    >>> actions = draw(contexts, rng)
    >>> shortlist = tether.Shortlist(draw, score, size=4)
    >>> log = shortlist.make_log(contexts, actions, actions > contexts + 1.5, rng)
    >>> policy = shortlist.tethered(tether.calibrate(log, alpha=0.15))
    >>> policy.sample([0.0, 1.0, 2.0], rng).shape
    (3,)
    """

    def __init__(
        self,
        safe: Any,
        optimized: Any = None,
        *,
        size: int = SHORTLIST_SIZE,
        temperature: float = 1.0,
    ) -> None:
        self.safe = as_sampler("safe", safe)
        self.size = validate.integer("size", size, 2)
        limits: Any = {"above": 0, "below": np.inf, "including": (0,)}
        self.temperature = validate.number("temperature", temperature, **limits)
        self.uniform = Pool.uniform(self.size)
        self.picker = None if optimized is None else self.picker_of(optimized)

    def picker_of(self, optimized: Any) -> Picker:
        """The policy over positions that picks by a score, a policy, a picker or a shortlist."""
        if isinstance(optimized, Shortlist):
            optimized = optimized.required_picker
        if isinstance(optimized, Picker):
            if optimized.size != self.size:
                raise ValueError(
                    f"optimized picks from {optimized.size} candidates, but this shortlist has "
                    f"size {self.size}"
                )
            return optimized
        return Picker(optimized, self.size, self.temperature, self.safe)

    @property
    def required_picker(self) -> Picker:
        """The picker, or an error where there is none."""
        if self.picker is None:
            raise ValueError("this shortlist has no optimized policy: Shortlist(safe, optimized)")
        return self.picker

    def draw(self, contexts: Contexts, rng: np.random.Generator) -> ShortlistRows:
        """Draw N candidates in each context, in one call of the safe policy."""
        contexts = as_contexts(contexts)
        return ShortlistRows(contexts, self._draw(contexts, self.size, rng))

    def join(
        self, contexts: Contexts | None, actions: Actions, rng: np.random.Generator
    ) -> tuple[ShortlistRows, Integers]:
        """Draw N − 1 fresh candidates beside each action that the safe policy took.

        The action is put at a uniformly random position. Given that, all N candidates are
        independent draws of the safe policy, as if `draw` and a uniform pick had made the row.
        """
        check_row_indexes({"contexts": contexts, "actions": actions})
        actions = plain_column("actions", actions)
        contexts = as_contexts(contexts, actions)
        fresh = self._draw(contexts, self.size - 1, rng)
        kinds = {each.dtype.kind if each.dtype.kind in "USO" else "" for each in (fresh, actions)}
        if fresh.shape[2:] != actions.shape[1:] or len(kinds) > 1:
            raise ValueError(
                f"actions have shape {actions.shape[1:]} and dtype {actions.dtype} per row, but "
                f"the safe policy draws {fresh.shape[2:]} and {fresh.dtype}"
            )
        candidates = np.concatenate([actions[:, None], fresh], axis=1)
        index = rng.integers(self.size, size=len(actions))
        rows = np.arange(len(actions))
        candidates[:, 0] = candidates[rows, index]
        candidates[rows, index] = actions
        return ShortlistRows(contexts, candidates), index

    def make_log(
        self,
        contexts: Contexts | None,
        actions: Actions,
        losses: Losses,
        rng: np.random.Generator,
        *,
        rewards: ArrayLike | None = None,
    ) -> Log:
        """Draw candidates beside actions of the safe policy, and build a `Log` to calibrate on.

        Contexts, actions, losses and rewards are as for `tether.make_log`. A score that depends on
        other rows, or copies of one answer beside the logged action, are refused. It is a warning,
        which the log keeps, if the logged actions do not look like draws of the safe policy, or
        rows are repeated.
        """
        columns = {"contexts": contexts, "actions": actions, "losses": losses, "rewards": rewards}
        check_row_indexes(columns)
        picker, (rows, index) = self.required_picker, self.join(contexts, actions, rng)
        check_copies(rows, index)
        scores = picker.scores(rows)
        check_scored_alone(picker, rows, scores)
        table = picker.to_log_probabilities(scores)
        uniform = np.broadcast_to(self.uniform.log_prob_all(1), table.shape)
        findings = exchangeable_warning(scores, index), repeated_warning(rows, index, losses)
        told = tuple(filter(None, findings))
        for each in told:
            warn_user(each, AssumptionWarning)
        return Log(
            losses,
            uniform[:, 0],
            picked(table, index),
            log_safe_all=uniform,
            log_optimized_all=table,
            reward=rewards,
            warnings=told,
            probes=take_probes(
                {"candidates": self.safe, "optimized": picker},
                *(rows, picker.actions, {"optimized": table}),
                rows=PROBED_ROWS,
            ),
        )

    def tethered(
        self, beta: float | Calibration, *, family: str | Family | None = None
    ) -> TetheredShortlist:
        """The policy to serve: between the safe policy (beta 0) and the picker (inf)."""
        if isinstance(beta, Calibration) and beta.probes is not None:
            if "candidates" not in beta.probes.fingerprints:
                raise ValueError(
                    "this beta was not calibrated on shortlists: Shortlist.make_log makes the log"
                )
            if beta.probes.actions != encode_actions(self.uniform.actions):
                raise ValueError(
                    f"this beta was calibrated on rows of another number of candidates, and holds "
                    f"for no other size, but the shortlist has size {self.size}"
                )
            check_probes(beta.probes, {"candidates": self.safe})
        pick = Tethered(self.uniform, self.required_picker, beta, family=family)
        return TetheredShortlist(self, pick)

    def __repr__(self) -> str:
        return f"Shortlist(size={self.size}, temperature={self.temperature:g})"

    def _draw(self, contexts: Any, count: int, rng: np.random.Generator) -> NDArray[Any]:
        rows = np.repeat(np.arange(length(contexts)), count)
        drawn = policy_calls.draw("safe", self.safe, take(contexts, rows), rng)  # type: ignore[arg-type]
        return drawn.reshape(length(contexts), count, *drawn.shape[1:])


class TetheredShortlist:
    """Draws candidates with the safe policy and picks one of them by a calibrated rule.

    There is no `log_prob` of an action, which would need that of the safe policy; `pick`, the
    policy over positions, has one. Made by `Shortlist.tethered`.
    """

    def __init__(self, shortlist: Shortlist, pick: Tethered) -> None:
        self.shortlist, self.safe, self.pick = shortlist, shortlist.safe, pick

    @property
    def beta(self) -> float:
        """How far picking may pull away from a uniform pick."""
        return self.pick.beta

    def sample(self, contexts: Contexts, rng: np.random.Generator) -> NDArray[Any]:
        """Draw candidates in each context and pick one."""
        rows = self.shortlist.draw(contexts, rng)
        return rows.picked(self.pick.sample(rows, rng))

    def __repr__(self) -> str:
        return f"TetheredShortlist({self.pick!r}, size={self.shortlist.size})"


def check_scored_alone(picker: Picker, rows: ShortlistRows, scores: Floats) -> None:
    """Refuse a score of a row that depends on the other rows of the call, or on chance."""
    alone, together = picker.scores(rows[:1])[0], scores[0]
    near = np.isclose(alone, together, SCORE_ALONE_TOLERANCE, SCORE_ALONE_TOLERANCE)
    if not near.all():
        where = int(np.argmin(near))
        raise ValueError(
            f"the score of candidate {where} of the first row is {together[where]:.6g} among "
            f"{len(rows):,} rows but {alone[where]:.6g} when the row is scored alone: scores must "
            f"depend on their own row alone and not on chance. Candidates have shape "
            f"{rows.candidates.shape}, so write contexts[:, None] to compare contexts with them, "
            f"and switch a model's dropout and batch normalization off"
        )


def exchangeable_warning(scores: Floats, index: Integers) -> str | None:
    """Say if logged actions rank too high or too low among the fresh candidates beside them.

    If the safe policy drew both, each rank is equally likely; ties only reduce the variance.
    """
    rows, size = scores.shape
    taken = scores[np.arange(rows), index][:, None]
    rank = (scores < taken).sum(axis=1) + ((scores == taken).sum(axis=1) + 1) / 2
    deviation = (rank - (size + 1) / 2).sum() / np.sqrt(rows * (size**2 - 1) / 12)
    if not abs(deviation) > MAX_RANK_DEVIATION:
        return None
    side = "higher" if deviation > 0 else "lower"
    return (
        f"the logged actions score {side} than fresh candidates of the safe policy (mean rank "
        f"{rank.mean():.3g} of {size}, expected {(size + 1) / 2:g}, {abs(deviation):.1f} standard "
        f"deviations off), so they do not come from the sampler that draws candidates"
    )


def check_copies(rows: ShortlistRows, index: Integers) -> None:
    """Refuse candidates that are copies of one draw beside logged actions that differ from it.

    Of independent draws this happens in fewer than a quarter of the rows.
    """
    if rows.size < 3 or len(rows) < MIN_ROWS:
        return
    content, every = labels(rows.pairs()[1]).reshape(-1, rows.size), np.arange(len(rows))
    logged, fresh = content[every, index], content[every, (index + 1) % rows.size]
    alike = (content == fresh[:, None]).sum(axis=1) == rows.size - 1
    share = float((alike & (logged != fresh)).mean())
    if share > 0.5:
        raise ValueError(
            f"in {share:.0%} of the rows all fresh candidates are the same, and the logged action "
            f"is another one: they are not independent draws of what drew it, and a calibration on "
            f"them does not hold. Most likely the server ignores n, caches its answers, or uses "
            f"one seed (then ask for one answer at a time: max_n=1 of a ChatPolicy), or it is "
            f"asked at temperature 0 now"
        )


def repeated_warning(rows: ShortlistRows, index: Integers, losses: Any) -> str | None:
    """Say that rows occur more than once; fresh candidates hide that from other checks."""
    contexts = [] if isinstance(rows.contexts, int) else [labels(rows.contexts)]
    decided = [labels(rows.picked(index)), *contexts]
    named = losses.values() if isinstance(losses, Mapping) else [losses]
    whole = [*decided, *(labels(np.asarray(each, dtype=np.float64)) for each in named)]
    decisions, distinct = (len(np.unique(column_labels(each))) for each in (decided, whole))
    repeats = len(rows) - distinct
    if decisions < 0.5 * len(rows) or repeats <= REPEATED_SHARE * len(rows):
        return None
    return (
        f"{repeats:,} of {len(rows):,} rows are in the log more than once, with the same actions "
        f"and losses: remove the copies, which count as evidence twice"
    )
