"""Settings are checked before they are stored, and a store keeps its own."""

import os

import numpy as np
import pytest

import tether
from tests.rounds.small_runs import controller
from tests.rounds.worlds import World, one_round
from tether.rounds import Controller


def test_a_store_is_refused_by_another_policy_or_other_terms(tmp_path):
    world, rng = World("marginal"), np.random.default_rng(14)
    store = tmp_path / "run.db"
    with controller(world, store) as run:
        one_round(run, world, 1, 50, rng)
    with pytest.raises(ValueError, match="the safe policy is not the one that"):
        Controller(tether.Gaussian(0.1), alpha=0.2, alarm_risk=0.9, store=store)
    hidden = tether.FunctionPolicy(
        lambda contexts, rng: rng.normal(size=contexts),
        lambda contexts, actions: tether.Gaussian(0.1).log_prob(contexts, actions),
    )
    with pytest.raises(ValueError, match=r"not the 'safe' of this store: it scores"):
        Controller(hidden, alpha=0.2, alarm_risk=0.9, store=store)
    with pytest.raises(ValueError, match=r"alpha is 0.3 but .*run.db was created with 0.2"):
        controller(world, store, alpha=0.3)
    with pytest.raises(ValueError, match="missing is 'exclude'"):
        controller(world, store, missing="exclude")
    controller(world, store).close()


def test_a_family_with_other_parameters_is_refused(tmp_path):
    class Half(tether.Family):  # a family of the user's own, with a parameter
        name, smoothness, normalized = "half", 1.0, True

        def __init__(self, share):
            self.share = share

        def log_kernel(self, log_safe, log_optimized, log_beta):
            return tether.Mix().log_kernel(log_safe, log_optimized, log_beta)

        def log_density(self, log_safe, log_optimized, log_beta, log_psi):
            return tether.Mix().log_density(log_safe, log_optimized, log_beta, log_psi)

    Controller(tether.Gaussian(0.0), alpha=0.1, store=tmp_path / "a.db", family=Half(0.2)).close()
    Controller(tether.Gaussian(0.0), alpha=0.1, store=tmp_path / "a.db", family=Half(0.2)).close()
    with pytest.raises(ValueError, match="family_mark is"):
        Controller(tether.Gaussian(0.0), alpha=0.1, store=tmp_path / "a.db", family=Half(0.9))


def test_terms_are_checked_before_they_are_kept(tmp_path):
    for options, words in [
        ({"test_weight": "analitic"}, "test_weight must be one of"),
        ({"test_weight": -1.0}, "test_weight must be above 0"),
        ({"test_weight": "analytic", "family": "mix"}, "does not exist for family 'mix'"),
        ({"seed": -1}, "seed must be an integer"),
        ({"seed": "x"}, "seed must be an integer"),
        ({"name": ""}, "name must be a non-empty string"),
        ({"calibration_share": True}, "calibration_share must be a number"),
        ({"alpha": {"a": "x"}}, r"alpha\['a'\] must be a number"),
        ({"alpha": {}}, "alpha must name 1 to 32 losses"),
        ({"alpha": {"": 0.1}}, "alpha must name losses by printable text"),
        ({"alpha": {1: 0.1}}, "alpha must name losses by printable text"),
        ({"alpha": {"a\n": 0.1}}, "alpha must name losses by printable text"),
        ({"alpha": {"a": 0.1}, "bound": {"b": 1.0}}, r"bound must name the losses \['a'\]"),
        ({"alpha": {"a": 0.1}, "alarm_risk": {"b": 1.0}}, "alarm_risk must name the losses"),
        ({"alpha": {"a": 0.1, "b": 3.0}}, r"alpha\['b'\] must be above 0 and below 1, got 3.0"),
        ({"alpha": {"a": 0.1}, "alarm_risk": 0.05}, r"alarm_risk\['a'\] must be at least"),
        ({"bound": {"loss": 1.0, "b": 2.0}}, "bound must name the losses"),
        ({"context_score": 3}, "context_score must be a function"),
    ]:
        given = {"alpha": 0.1} | options
        with pytest.raises((ValueError, TypeError), match=words):
            Controller(tether.Gaussian(0.0), store=tmp_path / "run.db", **given)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, True) for name in ("min_observed_share", "calibration_share", "ratio_error")),
        *((name, False) for name in ("blend", "deadline", "alarm_risk", "draws", "max_silence")),
        *((name, True) for name in ("test_weight", "confidence", "bound", "normalizer_draws")),
        *((name, True) for name in ("false_alarm_probability", "alpha", "seed")),
        *(("deadline", value) for value in (5e-324, 9e-4, 86_400, float("nan"))),
    ],
)
def test_booleans_and_impossible_deadlines_are_refused(name, value, tmp_path):
    options = {"alpha": 0.1, name: value}
    with pytest.raises((TypeError, ValueError), match=rf"{name} must .*got {value!r}"):
        Controller(tether.Gaussian(0.0), store=tmp_path / "a.db", **options)
    assert list(tmp_path.iterdir()) == []
