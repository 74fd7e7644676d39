"""Rounds that aim, in a world whose risks are known: alpha holds whatever the loss model says.

`python -m benchmarks.aim_rounds` drives the real controller through rounds of a clinic with four
doses, in which a higher dose helps more and harms patients at risk. Compared are no aim, the fitted
loss model, and loss models that are wrong on purpose: inverted, constant, and one that remembers
losses by heart. The last arm lets that one learn from calibration rows, which breaks the promise.

    python -m benchmarks.aim_rounds --runs 300
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np

import tether
from tether.aiming import LoggedRows
from tether.rounds import AimSettings
from tether.rounds.aims import training_log

ALPHA, ROWS, ROUNDS = 0.1, 300, 4
"""Half of the rows of a round are set apart for calibration. The safe policy has the first."""
DOSES = np.arange(4)
GRID = np.linspace(0.0025, 0.9975, 200)
"""Patients at equal steps, for exact risks."""


class Clinic:
    """A patient's risk is uniform from 0 to 1; above one half, doses of 2 and 3 harm."""

    safe = tether.Categorical.from_probabilities([0.45, 0.35, 0.15, 0.05])
    optimized = tether.Categorical.from_probabilities([0.05, 0.1, 0.25, 0.6])

    def harm(self, x: Any, doses: Any) -> np.ndarray:
        """The probability of harm."""
        return np.where((np.asarray(x) > 0.5) & (np.asarray(doses) >= 2), 0.35, 0.03)

    def outcome(self, x: Any, doses: Any, rng: np.random.Generator) -> tuple[Any, Any]:
        """Harms, and benefits that grow with the dose."""
        harmed = rng.random(len(x)) < self.harm(x, doses)
        return harmed.astype(float), doses + rng.normal(size=len(x))

    def expected(self, policy: Any) -> tuple[float, float]:
        """The risk and the reward of a policy."""
        chances = np.broadcast_to(np.exp(policy.log_prob_all(GRID)), (len(GRID), len(DOSES)))
        risk = (chances * self.harm(GRID[:, None], DOSES[None])).sum(axis=1)
        return float(risk.mean()), float((chances * DOSES).sum(axis=1).mean())

    def inverted(self, x: Any, doses: Any) -> np.ndarray:
        """Predicts harm where there is none."""
        return 0.38 - self.harm(x, doses)


def constant(x: Any, doses: Any) -> np.ndarray:
    """Predicts the same everywhere."""
    return np.full(len(doses), 0.2)


class ByHeart:
    """Predicts the loss of the nearest row with the same dose: it knows its rows, and no more."""

    def __init__(self, rows: LoggedRows) -> None:
        self.x, self.doses = np.asarray(rows.contexts), rows.actions
        self.losses = rows.losses["loss"]

    def __call__(self, x: Any, doses: Any) -> np.ndarray:
        """One prediction per row."""
        found = np.zeros(len(doses))
        for dose in DOSES:
            mine, theirs = np.flatnonzero(doses == dose), np.flatnonzero(self.doses == dose)
            if len(mine) and len(theirs):
                order = theirs[np.argsort(self.x[theirs])]
                middle = (self.x[order][1:] + self.x[order][:-1]) / 2
                nearest = order[np.searchsorted(middle, np.asarray(x)[mine])]
                found[mine] = self.losses[nearest]
        return found


def by_heart(rows: LoggedRows, rng: np.random.Generator) -> ByHeart:
    """Fit nothing, remember everything."""
    return ByHeart(rows)


@dataclass(frozen=True)
class Arm:
    """How a run aims; `peeks` if loss models learn from calibration rows."""

    name: str
    aim: bool | AimSettings
    peeks: bool = False


def arms(world: Clinic) -> list[Arm]:
    """Without aim, with a fitted loss model, and with wrong ones."""
    return [
        Arm("no aim", False),
        Arm("fitted", AimSettings(temperatures=(1.0,))),
        Arm("fitted, not chosen", AimSettings(choose=False)),
        Arm("true", AimSettings(loss_model=world.harm, choose=False)),
        Arm("inverted", AimSettings(loss_model=world.inverted, choose=False)),
        Arm("inverted, chosen", AimSettings(loss_model=world.inverted, temperatures=(1.0,))),
        Arm("constant", AimSettings(loss_model=constant, choose=False)),
        Arm("by heart", AimSettings(fit=by_heart, choose=False)),
        Arm("by heart, peeking (wrong)", AimSettings(fit=by_heart, choose=False), peeks=True),
    ]


def run_arm(
    world: Clinic, arm: Arm, seed: int, rounds: int = ROUNDS, rows: int = ROWS
) -> np.ndarray:
    """A complete run: the risk and the reward of what each round after the first deploys."""
    rng, found = np.random.default_rng([seed, 5]), []
    seen = (lambda rows: rows.calibration) if arm.peeks else training_log.is_training
    with (
        mock.patch.object(training_log, "is_training", seen),
        tether.Controller(
            world.safe, alpha=ALPHA, store="sqlite://", alarm_risk=0.99, aim=arm.aim, seed=seed
        ) as run,
    ):
        for number in range(rounds):
            begun = run.begin(world.optimized if number else None)
            if number:
                found.append(world.expected(begun.policy))
            x = rng.random(rows)
            taken = begun.act(x, rng)
            begun.observe(taken.ids, *world.outcome(x, taken.actions, rng))
    return np.array(found)


def mean_and_error(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Over runs, for each round."""
    return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))


def main() -> None:
    """Print the table; fail if an arm breaks alpha, or the one that peeks does not."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--arms", nargs="*", help="names of arms, all by default")
    asked = parser.parse_args()
    world, good = Clinic(), True
    print(
        f"{'loss model':<28} risk ± se of rounds 2 to {ROUNDS}, alpha {ALPHA}; reward of the last"
    )
    for arm in arms(world):
        if asked.arms and arm.name not in asked.arms:
            continue
        runs = np.stack([run_arm(world, arm, seed) for seed in range(asked.runs)])
        risk, error = mean_and_error(runs[:, :, 0])
        reward, reward_error = mean_and_error(runs[:, :, 1])
        broken = bool((risk > ALPHA + 3 * error).any())
        good &= broken == arm.peeks
        shown = "  ".join(f"{r:.4f} ± {e:.4f}" for r, e in zip(risk, error, strict=True))
        held = "broken" if broken else "held"
        print(
            f"{arm.name:<28} {shown}  {held}; {reward[-1]:.3f} ± {reward_error[-1]:.3f}", flush=True
        )
    if not good:
        sys.exit(1)


if __name__ == "__main__":
    main()
