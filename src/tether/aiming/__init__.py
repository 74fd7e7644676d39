"""More of the gain at the same alpha: an optimized policy that expects to spend what it may."""

from tether.aiming.aim_at_alpha import Aim, aim
from tether.aiming.aimed_policy import AimedPolicy, AimedScore
from tether.aiming.candidate_simulation import ExpectedReward
from tether.aiming.candidates import Candidate, aimed_candidates
from tether.aiming.choose_candidate import Choice, choose
from tether.aiming.fitted_loss import FittedLoss, fit_loss
from tether.aiming.loss_model import EstimatorLosses
from tether.aiming.multipliers import Multipliers, solve_multipliers
from tether.aiming.position_score import PositionScore
from tether.aiming.predicted_loss import predicted_losses
from tether.aiming.tempered_policy import TemperedPolicy
from tether.aiming.training_rows import LoggedRows

__all__ = [
    "Aim",
    "AimedPolicy",
    "AimedScore",
    "Candidate",
    "Choice",
    "EstimatorLosses",
    "ExpectedReward",
    "FittedLoss",
    "LoggedRows",
    "Multipliers",
    "PositionScore",
    "TemperedPolicy",
    "aim",
    "aimed_candidates",
    "choose",
    "fit_loss",
    "predicted_losses",
    "solve_multipliers",
]
