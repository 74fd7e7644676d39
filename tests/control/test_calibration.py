"""The result: complete, frozen, saved as it is, and said in words with its condition."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.control.worlds import KINDS, make_world
from tether.control.calibrate import calibrate, family_and_beta
from tether.control.calibration import Calibration
from tether.control.log import Log, Proposals

pytestmark = pytest.mark.filterwarnings("ignore::tether.AssumptionWarning")


def gaussian(rows=400, seed=0, alpha=0.15, **more):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=rows), rng.normal(1, 1, size=rows)
    log = Log(x > 1.5, -(x**2) / 2, -((x - 1) ** 2) / 2)
    return calibrate(log, Proposals(-(y**2) / 2, -((y - 1) ** 2) / 2), alpha=alpha, **more)


@pytest.mark.parametrize("kind", KINDS)
def test_everything_is_saved_and_loaded(kind, tmp_path):
    found = make_world(4, kind, rows=30, losses=2).calibrate()
    found.save(tmp_path / "found.json")
    loaded = Calibration.load(tmp_path / "found.json")
    assert json.dumps(loaded.to_dict()) == json.dumps(found.to_dict())
    assert (loaded.useful, str(loaded)) == (found.useful, str(found))


def test_a_term_that_changes_no_decision_is_no_warning():
    found = gaussian(rows=3000, alpha=0.2)
    terms = found.losses["loss"].terms
    assert 0 < terms.stability + terms.unforeseen < 0.05 * terms.total
    assert found.warnings == ()


def test_a_vanishing_share_of_traffic_is_not_useful():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=20_000), rng.normal(3, 1, size=2000)
    log = Log(x > 0.3, -(x**2) / 2, -((x - 3) ** 2) / 2)
    found = calibrate(log, Proposals(-(y**2) / 2, -((y - 3) ** 2) / 2), alpha=0.39, family="mix")
    assert (found.exists, found.useful) == (True, False)
    assert 0 < found.measured.changed < 1e-3


def test_the_curve_has_the_risk_at_every_beta():
    world = make_world(0, "tables", rows=40)
    found = world.calibrate()
    curve = found.losses["harm"]
    assert (np.diff(curve.log_betas) > 0).all()
    for k in range(0, len(curve.log_betas), 97):
        weights, test = (f(curve.log_betas[k]) for f in (world.weights, world.test))
        risk = (weights @ world.losses["harm"] + test) / (weights.sum() + test)
        assert curve.risks[k] == pytest.approx(risk)
    frame = found.to_frame()
    assert set(frame) == {"loss", "log_beta", "beta", "risk"}
    assert len(frame["risk"]) == len(curve.risks)


def test_the_family_and_beta_of_what_is_served():
    found = gaussian()
    assert family_and_beta(found, None)[1] == found.log_beta
    assert family_and_beta(0, None)[1] == -np.inf
    assert family_and_beta(np.exp(4), "mix")[1] == pytest.approx(4)
    for beta, family, named in ((found, "mix", "family"), ("1", None, "beta"), (-1, None, "beta")):
        with pytest.raises((TypeError, ValueError), match=named):
            family_and_beta(beta, family)
