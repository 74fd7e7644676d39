"""Shortlists: the safe policy draws N candidates, and a score picks one of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether._core import policy_calls, validate
from tether._core.contexts import as_contexts, length, take
from tether._core.plain_arrays import plain_column
from tether._core.row_indexes import check_row_indexes
from tether._core.types import Actions, Contexts, Integers, Losses
from tether.control.calibration import Calibration
from tether.control.families import Family
from tether.control.log import Log
from tether.control.log_checks import warn_and_keep
from tether.policies.copied_candidates import copied_warning
from tether.policies.picker import Picker, checked_temperature
from tether.policies.pool import Pool
from tether.policies.repeated_decisions import repeated_decisions_warning
from tether.policies.sampler import as_sampler
from tether.policies.served_picks import check_picks, note_picks
from tether.policies.shortlist_checks import (
    check_scored_alone,
    exchangeable_warning,
    temperature_warning,
)
from tether.policies.shortlist_rows import ShortlistRows
from tether.policies.tethered import Tethered
from tether.policies.tethered_shortlist import TetheredShortlist, check_calibration

SHORTLIST_SIZE = 16
"""The default number of candidates."""


class Shortlist:
    """The safe policy draws N candidates in each context, and a score picks one of them.

    The context and its candidates z = (x, c₁ … c_N) are taken together as the context, and the
    position k of the picked candidate as the action. The safe policy, seen this way, is uniform
    over N positions: to draw N candidates and to take one at random is to draw one action. So the
    action set is finite, every normalizing constant is an exact sum, no weight exceeds N over the
    safe policy's share of the log, and neither calibration nor serving asks the safe policy for a
    log-probability. Candidates may repeat: positions differ even where actions are equal.

    *Why this controls the risk of the action that is served.* Candidates are independent draws
    from ``π₀(·|x)``, for logged rows and for new ones, so the pairs z have the same distribution in
    both. In a logged row the position is uniform given z (see `join` for existing logs); in a new
    one it has the tethered density π_β(k|z). Hence the rows (z, k, loss) are a log of the uniform
    policy with contexts z, `calibrate` bounds the expected loss of the next pair (z, k) drawn with
    π_β, and the loss of the pair (z, k) *is* the loss of the action c_k in context x. Nothing is
    assumed of the score, except that it depends on its own row alone and did not learn from the
    log. In later rounds each row keeps its candidates, so past policies are exact tables too.

    The candidates must come from the safe policy that is logged: it may not change between the
    log and the serving, and the same N is used for both.

    Parameters
    ----------
    safe : object with a method sample, or callable
        The safe policy: `sample(contexts, rng)` returns one action per context; or that function.
    optimized : callable or Policy, optional
        What picks: a function of (contexts, candidates) that returns scores of shape (rows, N), or
        an optimized policy, which picks by its log ratio to the safe policy, or by its own
        log-probability alone if the safe policy has no `log_prob`. May be omitted for a
        `Controller`, where each round has its own.
    size : int, default 16
        The number N of candidates, at least 2.
    temperature : float, default 1.0
        Candidates are picked with probability proportional to e^(score / temperature); 0 picks the
        best one.

    Raises
    ------
    TypeError
        If `safe` cannot draw, or `optimized` is neither a function nor a policy.
    ValueError
        If `size` or `temperature` is out of range.

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
    >>> policy
    TetheredShortlist(beta=1.2567, family='clip', size=4)
    >>> policy.sample([0.0, 1.0, 2.0], rng).round(2)
    array([1.81, 1.56, 2.04])
    """

    def __init__(
        self,
        safe: Any,
        optimized: Any = None,
        *,
        size: int = SHORTLIST_SIZE,
        temperature: float = 1.0,
    ) -> None:
        self.safe = as_sampler(safe)
        self.size = validate.integer_at_least("size", size, 2)
        self.temperature = checked_temperature(temperature)
        self.uniform = Pool.uniform(self.size)
        self.picker = None if optimized is None else self.picker_of(optimized)

    def picker_of(self, optimized: Any) -> Picker:
        """The policy over positions that picks by a score.

        Parameters
        ----------
        optimized : callable, Policy, Picker or Shortlist
            A score or an optimized policy, as for the class, which gets this shortlist's
            temperature; or a picker, or a shortlist of the same size with a picker of its own.

        Returns
        -------
        Picker
            The picker.

        Raises
        ------
        TypeError, ValueError
            If it is none of these, or picks from another number of candidates.
        """
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

    def with_optimized(self, optimized: Any) -> Shortlist:
        """The same candidates with another policy that picks.

        Parameters
        ----------
        optimized : callable, Policy, Picker or Shortlist
            As for `picker_of`.

        Returns
        -------
        Shortlist
            A shortlist of the same safe policy and size.
        """
        other = Shortlist(self.safe, size=self.size, temperature=self.temperature)
        other.picker = self.picker_of(optimized)
        return other

    @property
    def required_picker(self) -> Picker:
        """The picker, or an error where there is none."""
        if self.picker is None:
            raise ValueError("this shortlist has no optimized policy: Shortlist(safe, optimized)")
        return self.picker

    def draw(self, contexts: Contexts, rng: np.random.Generator) -> ShortlistRows:
        """Draw N candidates in each context, in one call of the safe policy.

        Parameters
        ----------
        contexts : array, data frame or int
            One row per context, or the number of rows where there are no contexts.
        rng : numpy.random.Generator
            The source of randomness.

        Returns
        -------
        ShortlistRows
            The contexts with their candidates.
        """
        contexts = as_contexts(contexts)
        return ShortlistRows(contexts, self._draw(contexts, self.size, rng))

    def join(
        self, contexts: Contexts | None, actions: Actions, rng: np.random.Generator
    ) -> tuple[ShortlistRows, Integers]:
        """Draw N − 1 fresh candidates beside each action that the safe policy took.

        The action is put at a uniformly random position, independent of everything else. Given the
        position, all N candidates are independent draws of the safe policy, so candidates and
        position have exactly the distribution that `draw` and a uniform pick would have given.

        Parameters
        ----------
        contexts : array, data frame, int or None
            One row per action, or None or their number where there are no contexts.
        actions : array
            The actions that the safe policy took.
        rng : numpy.random.Generator
            The source of randomness.

        Returns
        -------
        rows : ShortlistRows
            The contexts with their candidates.
        index : ndarray of int
            The position of each action among its candidates.

        Raises
        ------
        ValueError
            If actions and candidates differ in shape or kind.
        """
        check_row_indexes({"contexts": contexts, "actions": actions})
        actions = plain_column("actions", actions)
        contexts = as_contexts(contexts, actions)
        fresh = self._draw(contexts, self.size - 1, rng)
        if fresh.shape[2:] != actions.shape[1:] or _kind(fresh) != _kind(actions):
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

        Parameters
        ----------
        contexts : array, data frame, int or None
            One row per action, or None or their number where there are no contexts.
        actions : array
            The actions that the safe policy took.
        losses : array of float, or mapping
            The loss of each action, or several losses by name.
        rng : numpy.random.Generator
            The source of randomness.
        rewards : array of float, optional
            What each action brought.

        Returns
        -------
        Log
            The log over positions, with exact tables of both policies.

        Raises
        ------
        ValueError
            If there is no optimized policy, lengths do not match, a score depends on other rows, or
            fresh candidates are copies of one answer.

        Warns
        -----
        AssumptionWarning
            If the logged actions do not look like draws of the safe policy, rows are repeated,
            candidates are almost always the same, or the scale of the scores makes the pick uniform
            or an argmax. The log keeps it in `warnings`.
        """
        columns = {"contexts": contexts, "actions": actions, "losses": losses, "rewards": rewards}
        check_row_indexes(columns)
        rows, index = self.join(contexts, actions, rng)
        return self.log_of_rows(rows, index, losses, rewards=rewards)

    def log_of_rows(
        self,
        rows: ShortlistRows,
        index: Actions,
        losses: Losses,
        *,
        rewards: ArrayLike | None = None,
    ) -> Log:
        """Build a log from candidates of which one was taken uniformly at random.

        Parameters
        ----------
        rows : ShortlistRows
            Contexts and candidates, from `draw` or `join`.
        index : array of int
            The position that was taken in each row.
        losses : array of float, or mapping
            The loss of each action, or several losses by name.
        rewards : array of float, optional
            What each action brought.

        Returns
        -------
        Log
            The log over positions, with exact tables of both policies.

        Raises
        ------
        ValueError
            As for `make_log`.

        Warns
        -----
        AssumptionWarning
            As for `make_log`.
        """
        picker, place = self.required_picker, np.asarray(index)
        copied = copied_warning(rows, place)
        scores = picker.scores(rows)
        check_scored_alone(picker, rows, scores)
        looks = (copied, exchangeable_warning(scores, place), temperature_warning(picker, scores))
        table = picker.to_log_probabilities(scores)
        uniform = np.broadcast_to(self.uniform.log_prob_all(1), table.shape)
        log = Log(
            losses,
            uniform[:, 0],
            table[np.arange(len(table)), place],
            log_safe_all=uniform,
            log_optimized_all=table,
            reward=rewards,
            scored_by=note_picks(self.safe, picker, rows, table),
        )
        repeated = repeated_decisions_warning(rows.contexts, rows.picked(place), log.loss)
        return warn_and_keep(log, *looks, repeated)

    def tethered(
        self, beta: float | Calibration, *, family: str | Family | None = None
    ) -> TetheredShortlist:
        """The policy to serve: between the safe policy (beta 0) and the picker (inf).

        Parameters
        ----------
        beta : float or Calibration
            How far picking may pull away from a uniform pick. A calibration brings its family
            along.
        family : str or Family, optional
            How beta turns two policies into one; "clip" by default.

        Returns
        -------
        TetheredShortlist
            The policy.

        Raises
        ------
        ValueError
            If the calibration is not one of shortlists of this size, temperature and score, or of
            candidates of another model.

        Warns
        -----
        AssumptionWarning
            If what draws or scores the candidates only has another digest or name.
        PromiseWarning
            If the calibration is not useful, and its beta is above 0.
        """
        if isinstance(beta, Calibration):
            check_calibration(beta, self.size)
            check_picks(self.safe, self.required_picker, beta)
        pick = Tethered(self.uniform, self.required_picker, beta, family=family)
        return TetheredShortlist(self, pick)

    def __repr__(self) -> str:
        return f"Shortlist(size={self.size}, temperature={self.temperature:g})"

    def _draw(self, contexts: Any, count: int, rng: np.random.Generator) -> NDArray[Any]:
        rows = np.repeat(np.arange(length(contexts)), count)
        drawn = policy_calls.draw("safe", self.safe, take(contexts, rows), rng)  # type: ignore[arg-type]
        return drawn.reshape(length(contexts), count, *drawn.shape[1:])


def _kind(actions: NDArray[Any]) -> str:
    """Text, objects or numbers; text may also be stored as objects."""
    if actions.dtype.kind == "O" and all(isinstance(action, str) for action in actions.flat):
        return "text"
    return {"U": "text", "S": "bytes", "O": "objects"}.get(actions.dtype.kind, "numbers")
