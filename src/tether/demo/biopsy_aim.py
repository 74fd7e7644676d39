"""How the clinic of the demonstration aims: candidates, and the choice among them.

Training patients have had a biopsy, so the outcome of either action is known for each of them. The
loss model is fitted on both actions of every training patient. The choice simulates the safe policy
on these patients `REPLAYS` times. Repetitions of a patient are not independent of each other, so
the choice is less certain than it looks; the guarantee does not depend on it, since calibration
uses the patients of the log alone.

All scores of training patients are by models that have not seen them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._core.types import Floats
from tether.aiming import TemperedPolicy, aim, choose, fit_loss
from tether.demo.biopsy_clinic import LOGGED_PATIENTS, REFER, WATCH, Choices, Clinic

CHOICE_ALPHA = 0.08
"""The tolerated loss at which the clinic chooses; it then aims in the same way at every other."""
REPLAYS = 4
"""How often the safe policy is simulated on each training patient."""
PLAIN_CANDIDATE, AIMED_CANDIDATE = "plain", "aimed"
AIMS = {
    AIMED_CANDIDATE: (1.0, 1.0),
    "aimed at half": (0.5, 1.0),
    "sharper, aimed": (1.0, 0.5),
    "sharper, aimed at half": (0.5, 0.5),
}
"""The share of alpha at which each candidate is aimed, and the temperature before."""


class BiopsyAim:
    """A loss model of the training patients, and what is aimed by it."""

    def __init__(self, clinic: Clinic) -> None:
        self.clinic = clinic
        self.log_odds = clinic.unseen_log_odds
        self.malignant = clinic.malignant[clinic.training]
        actions = np.repeat([WATCH, REFER], len(self.log_odds))
        lost, _ = self._outcomes(actions, np.tile(np.arange(len(self.log_odds)), 2))
        self.loss_model = fit_loss(np.tile(self.log_odds, 2), actions, lost, rng=clinic.rng)

    def candidates(self, alpha: float) -> dict[str, Any]:
        """The optimized policy as it is, and aimed in each of the ways."""
        optimized: Any = self.clinic.optimized
        made: dict[str, Any] = {PLAIN_CANDIDATE: optimized}
        for name, (share, temperature) in AIMS.items():
            sharper = TemperedPolicy(optimized, temperature)
            made[name] = aim(sharper, self.loss_model, self.log_odds, share * alpha).policy
        return made

    def choose(self) -> str:
        """The name of the candidate that avoids most biopsies in simulated calibrations."""
        patients = np.repeat(np.arange(len(self.log_odds)), REPLAYS)
        contexts = self.log_odds[patients]
        actions = self.clinic.safe.sample(contexts, self.clinic.rng)
        losses, rewards = self._outcomes(actions, patients)
        choice = choose(
            self.candidates(CHOICE_ALPHA),
            safe=self.clinic.safe,
            contexts=contexts,
            actions=actions,
            losses=losses,
            rewards=rewards,
            alpha=CHOICE_ALPHA,
            rng=self.clinic.rng,
            calibration_rows=LOGGED_PATIENTS,
        )
        return choice.name

    def _outcomes(self, actions: Choices, patients: np.ndarray) -> tuple[Floats, Floats]:
        """Missed cancers and avoided needless biopsies of actions on training patients."""
        watched, malignant = actions == WATCH, self.malignant[patients]
        return (watched & malignant).astype(float), (watched & ~malignant).astype(float)
