"""More of the gain at the same alpha: an optimized policy that expects to spend what it may."""

from tether.aiming.aim_at_alpha import Aim, aim
from tether.aiming.aimed_policy import AimedPolicy, AimedScore
from tether.aiming.fitted_loss import FittedLoss, fit_loss
from tether.aiming.loss_model import EstimatorLosses
from tether.aiming.multipliers import Multipliers, solve_multipliers

__all__ = [
    "Aim",
    "AimedPolicy",
    "AimedScore",
    "EstimatorLosses",
    "FittedLoss",
    "Multipliers",
    "aim",
    "fit_loss",
    "solve_multipliers",
]
