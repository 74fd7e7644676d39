"""Logs that are the truth of a plan, and what calibrations of them find."""

import numpy as np

import tether
from tether.control.plan_clip import ClipModel
from tether.control.plan_mix import MixModel
from tether.control.plan_population import Population

MODELS = {"clip": ClipModel, "mix": MixModel}


def own_model(family, loss, log_ratio, top=1.5):
    """The model in which the rows of a log are the truth; the largest draw is e^top."""
    order = np.argsort(log_ratio, kind="stable")
    share = np.full(len(loss), 1 / len(loss))
    truth = Population(share, loss[order], log_ratio[order], float(loss.mean()))
    return MODELS[family](truth, float(np.exp(top)))


def calibrated(family, loss, log_ratio, alpha, top=1.5):
    """The calibration of the same log, with the same largest draw."""
    log = tether.Log(loss, np.full(len(loss), -3.0), log_ratio - 3.0)
    proposals = tether.Proposals([-3.0], [top - 3.0])
    return tether.calibrate(log, proposals, alpha=alpha, family=family)
