"""More gain at the same alpha: an optimized policy tilted until its predicted loss is alpha."""

from tether.aiming.aim import Aim as Aim
from tether.aiming.aim import aim as aim
from tether.aiming.choose import Choice as Choice
from tether.aiming.choose import ExpectedReward as ExpectedReward
from tether.aiming.choose import choose as choose
from tether.aiming.fitted_loss import FittedLoss as FittedLoss
from tether.aiming.fitted_loss import fit_loss as fit_loss
from tether.aiming.loss_models import EstimatorLosses as EstimatorLosses
from tether.aiming.rows_and_candidates import Candidate as Candidate
from tether.aiming.rows_and_candidates import aimed_candidates as aimed_candidates
from tether.aiming.tilted_policies import AimedPolicy as AimedPolicy
from tether.aiming.tilted_policies import AimedScore as AimedScore
from tether.aiming.tilted_policies import TemperedPolicy as TemperedPolicy
from tether.policies.decision_rows import LoggedRows as LoggedRows
