"""More gain at the same alpha: an optimized policy tilted until its predicted loss is alpha."""

from tether.aiming.aim import Aim, aim
from tether.aiming.choose import Choice, ExpectedReward, choose
from tether.aiming.fitted_loss import FittedLoss, fit_loss
from tether.aiming.loss_models import EstimatorLosses
from tether.aiming.rows_and_candidates import Candidate, LoggedRows, aimed_candidates
from tether.aiming.tilted_policies import AimedPolicy, AimedScore, TemperedPolicy

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
    "TemperedPolicy",
    "aim",
    "aimed_candidates",
    "choose",
    "fit_loss",
]
