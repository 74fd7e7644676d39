"""Logs that are the truth of a plan, and what calibrations of them find."""

import math
import warnings

import numpy as np
from benchmarks.plan_rows import share_passing

import tether
from tether.planning.clip_model import ClipModel
from tether.planning.mix_model import MixModel
from tether.planning.population import Population

ACCURACY = 1.25
"""By what factor in rows a plan may be wrong."""
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


def assert_logs_pass_as_planned(truth, probability, repeats):
    """At a quarter fewer rows logs pass less often than planned, at a quarter more more often."""
    rng = np.random.default_rng(0)
    rows = truth.plan(pass_probability=probability).rows_likely
    assert rows > 30
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fewer = share_passing(truth, int(rows / ACCURACY), repeats, rng)
        more = share_passing(truth, int(rows * ACCURACY), repeats, rng)
    noise = 2.5 * math.sqrt(probability * (1 - probability) / repeats)
    assert fewer < probability + noise
    assert more > probability - noise
