"""What a candidate would earn after calibration, on rows that neither of them has seen.

A candidate is calibrated on some rows and its tethered policy is valued on others. With π_β the
tethered policy, π₀ the safe one that took the actions and r̂ a reward model fitted elsewhere, the
doubly robust value of a row is

    Σ_a π_β(a | x)·r̂(x, a)  +  π_β(a_i | x)/π₀(a_i | x)·(r_i − r̂(x, a_i)),

which is unbiased for the expected reward of π_β whatever r̂ is; a good r̂ makes it less noisy. Where
a mixture of policies took the actions, as after several rounds, it takes the place of π₀.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._core import policy_calls
from tether._core.contexts import length
from tether._core.shown import shown
from tether._core.types import Floats, Integers
from tether.aiming.loss_model import LossModel, predict_losses, predict_table
from tether.aiming.training_rows import LoggedRows, each_loss
from tether.control.calibrate import calibrate
from tether.control.calibration import Calibration
from tether.control.families import Family, blend_scores, find_family
from tether.control.log import Log
from tether.policies.categorical import align_actions
from tether.policies.policy import as_policy, is_finite, shared_actions
from tether.policies.shortlist import Shortlist
from tether.policies.tables import picked, positions


@dataclass(frozen=True)
class Tables:
    """A candidate on rows: log-probabilities and predicted rewards of every action or position."""

    family: Family
    losses: Floats | Mapping[str, Floats]
    rewards: Floats
    taken: Integers
    log_safe: Floats
    log_optimized: Floats
    predicted: Floats
    log_mix: Floats | None = None

    def __len__(self) -> int:
        return len(self.taken)

    def calibrate(self, index: Integers, alpha: Any, bound: Any) -> Calibration:
        """Calibrate on some of the rows, of which some may be repeated."""
        safe, optimized, taken = self.log_safe[index], self.log_optimized[index], self.taken[index]
        mix = None if self.log_mix is None else self.log_mix[index]
        log = Log(
            each_loss(self.losses, lambda values: values[index]),
            picked(safe, taken),
            picked(optimized, taken),
            log_mix=None if mix is None else picked(mix, taken),
            log_safe_all=safe,
            log_optimized_all=optimized,
            log_mix_all=mix,
        )
        return calibrate(log, alpha=alpha, bound=bound, family=self.family)

    def values(self, index: Integers, found: Calibration) -> Floats:
        """The doubly robust value of each of some rows under what a calibration allows."""
        safe, taken = self.log_safe[index], self.taken[index]
        density = self._log_density(safe, self.log_optimized[index], found)
        predicted = self.predicted[index]
        logged = safe if self.log_mix is None else self.log_mix[index]
        weight = np.exp(picked(density, taken) - picked(logged, taken))
        surprise = self.rewards[index] - picked(predicted, taken)
        return np.asarray((np.exp(density) * predicted).sum(axis=1) + weight * surprise)

    def _log_density(self, safe: Floats, optimized: Floats, found: Calibration) -> Floats:
        optimized = blend_scores(optimized, safe, found.blend)
        log_psi = np.zeros((len(safe), 1))
        if np.isfinite(found.log_beta) and not self.family.normalized:
            kernel = self.family.log_kernel(safe, optimized, found.log_beta)
            log_psi = np.logaddexp.reduce(kernel, axis=1, keepdims=True)
        return self.family.log_density(safe, optimized, found.log_beta, log_psi)


def join_tables(name: str, pieces: Sequence[Tables], losses: Any) -> Tables:
    """The tables of one candidate, which was built anew for each part of the rows."""
    widths = {piece.log_safe.shape[1] for piece in pieces}
    if len(widths) > 1:
        raise ValueError(
            f"candidate {name!r} must always have the same number of actions, or the same size of "
            f"its shortlist, got {sorted(widths)} from different rows"
        )

    def joined(field: str) -> Any:
        return np.concatenate([getattr(piece, field) for piece in pieces])

    return Tables(
        pieces[0].family,
        losses,
        rewards=joined("rewards"),
        taken=joined("taken"),
        log_safe=joined("log_safe"),
        log_optimized=joined("log_optimized"),
        predicted=joined("predicted"),
        log_mix=None if pieces[0].log_mix is None else joined("log_mix"),
    )


def tables_of(
    name: str,
    policy: Any,
    family: Any,
    safe: Any,
    rows: LoggedRows,
    reward_model: LossModel,
    rng: np.random.Generator,
    logged_by: Any = None,
) -> Tables:
    """The tables of a candidate, over actions or, for a shortlist, over its candidates."""
    mix = None
    chosen = find_family(family)
    if chosen.max_draws is not None:
        raise ValueError(f"candidate {name!r} has family {chosen.name!r}: use clip or mix")
    if isinstance(policy, Shortlist):
        if logged_by is not None:
            raise ValueError(
                f"candidate {name!r} is a shortlist, for which every action must be the safe "
                f"policy's, but logged_by is {logged_by!r}"
            )
        drawn, taken = policy.join(rows.contexts, rows.actions, rng)
        optimized = policy.required_picker.log_prob_all(drawn)
        log_safe = np.full(optimized.shape, -np.log(policy.size))
        predicted = predict_losses("rewards", reward_model, *drawn.pairs()).reshape(log_safe.shape)
    else:
        policy, safe = as_policy(name, policy), as_policy("safe", safe)
        if not (is_finite(policy) and is_finite(safe)):
            raise TypeError(
                f"candidate {name!r} has infinitely many actions: choose among shortlists of it, "
                f"tether.Shortlist(safe, optimized); got {shown(policy)}"
            )
        safe, policy = align_actions(safe, policy)
        actions = shared_actions((safe, policy), ("safe", name))
        assert actions is not None
        taken = positions(actions, rows.actions)
        shape = (length(rows.contexts), len(actions))
        log_safe, optimized = (
            np.broadcast_to(policy_calls.table(each_name, each, rows.contexts), shape)
            for each_name, each in (("safe", safe), (name, policy))
        )
        if logged_by is not None:
            table = policy_calls.table("logged_by", logged_by, rows.contexts)
            mix = np.broadcast_to(table[:, positions(logged_by.actions, actions)], shape)
        contexts = 1 if isinstance(rows.contexts, int) else rows.contexts
        predicted = np.broadcast_to(
            predict_table("rewards", reward_model, contexts, actions), shape
        )
    return Tables(
        chosen, rows.losses, rows.rewards, taken, log_safe, optimized, np.asarray(predicted), mix
    )
