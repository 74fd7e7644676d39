"""Policies go through pickle, and to another process, and do the same there."""

import concurrent.futures
import multiprocessing
import pickle

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import tether
from tether.policies import EstimatedPolicy, Picker, ShortlistRows

FEATURES = np.random.default_rng(0).normal(size=(200, 3))
LABELS = np.where(FEATURES[:, 0] > 0, "act", "wait")


def unit_draws(contexts, rng):
    return rng.random(contexts)


def unit_scores(contexts, actions):
    return np.where((actions >= 0) & (actions < 1), 0.0, -np.inf)


def shift(contexts):
    return np.asarray(contexts, dtype=float)


def first_coordinate(contexts, candidates):
    return np.asarray(candidates, dtype=float)


def _tethered(family):
    safe, new = tether.Gaussian(0.0), tether.Gaussian(1.0)
    rng = np.random.default_rng(0)
    actions = safe.sample(300, rng)
    log = tether.make_log(safe, new, None, actions, actions > 1.5)
    proposals = tether.make_proposals(safe, new, None, 300, rng)
    return tether.Tethered(safe, new, tether.calibrate(log, proposals, alpha=0.2, family=family))


def always_harmful(contexts, actions):
    return np.where(np.asarray(actions) == "act", 0.9, 0.1)


def _aimed():
    return tether.aim(_classifier(), always_harmful, FEATURES, 0.3).policy


def normal_draws(contexts, rng):
    return rng.normal(size=contexts)


def shifted_draws(contexts, rng):
    return rng.normal(0.5, size=contexts)


def draws_by_context(contexts, rng):
    return rng.normal(np.asarray(contexts, dtype=float))


def _tethered_shortlist():
    shortlist = tether.Shortlist(draws_by_context, first_coordinate, size=4)
    contexts, rng = np.zeros(300), np.random.default_rng(0)
    actions = draws_by_context(contexts, rng)
    log = shortlist.make_log(contexts, actions, actions > 1.5, rng)
    return shortlist.tethered(tether.calibrate(log, alpha=0.2))


def _classifier():
    return tether.Categorical.from_classifier(LogisticRegression().fit(FEATURES, LABELS))


MAKERS = {
    "Gaussian": (lambda: tether.Gaussian([0.0, 1.0]), 7),
    "Gaussian of a function": (lambda: tether.Gaussian(shift), np.arange(7.0)),
    "Gaussian with a covariance": (lambda: tether.Gaussian([0, 0], covariance=np.eye(2)), 7),
    "Categorical": (lambda: tether.Categorical.from_probabilities([0.3, 0.7], ["a", "b"]), 7),
    "Categorical of a classifier": (_classifier, FEATURES[:7]),
    "Pool": (lambda: tether.Pool([0.0, 1.0]), 7),
    "FunctionPolicy": (lambda: tether.FunctionPolicy(unit_draws, unit_scores), 7),
    "Mixture": (lambda: tether.Mixture([tether.Gaussian(0.0), tether.Gaussian(1.0)], [1, 2]), 7),
    "Tethered, clip": (lambda: _tethered("clip"), 7),
    "Tethered, mix": (lambda: _tethered("mix"), 7),
    "Tethered, budgeted_clip": (
        lambda: tether.Tethered(
            tether.Gaussian(0.0), tether.Gaussian(1.0), 0.5, family="budgeted_clip(4)"
        ),
        7,
    ),
    "TorchPolicy": (lambda: tether.TorchPolicy(torch.distributions.Normal(0.0, 1.0)), 7),
    "EstimatedPolicy": (lambda: EstimatedPolicy("new", unit_draws, unit_scores), 7),
    "Picker": (
        lambda: Picker(first_coordinate, 3),
        ShortlistRows(4, np.arange(12.0).reshape(4, 3)),
    ),
    "the policies of a DensityRatio": (
        lambda: (
            tether.estimate_ratio(
                normal_draws, shifted_draws, 400, np.random.default_rng(0)
            ).optimized
        ),
        7,
    ),
    "an aimed policy": (_aimed, FEATURES[:7]),
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_policy_is_the_same_after_pickling(name):
    make, contexts = MAKERS[name]
    policy = make()
    again = pickle.loads(pickle.dumps(policy))
    actions = policy.sample(contexts, np.random.default_rng(1))
    np.testing.assert_array_equal(again.sample(contexts, np.random.default_rng(1)), actions)
    np.testing.assert_array_equal(
        again.log_prob(contexts, actions), policy.log_prob(contexts, actions)
    )
    assert repr(again) == repr(policy)


def draw_there(policy, contexts):
    return policy.sample(contexts, np.random.default_rng(1))


def test_policies_draw_the_same_in_a_spawned_process():
    made = [(make(), contexts) for make, contexts in MAKERS.values()]
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        there = list(pool.map(draw_there, *zip(*made, strict=True)))
    for (policy, contexts), actions in zip(made, there, strict=True):
        np.testing.assert_array_equal(draw_there(policy, contexts), actions)


def test_shortlists_are_pickled_too():
    for policy in (
        _tethered_shortlist(),
        tether.Shortlist(draws_by_context, first_coordinate, size=4),
    ):
        again = pickle.loads(pickle.dumps(policy))
        contexts = np.zeros(5)
        draw = "draw" if isinstance(policy, tether.Shortlist) else "sample"
        first, second = (
            getattr(each, draw)(contexts, np.random.default_rng(1)) for each in (policy, again)
        )
        if draw == "draw":
            first, second = first.candidates, second.candidates
        np.testing.assert_array_equal(first, second)


def test_calibrations_and_selections_are_pickled_too():
    found = _tethered("clip").calibration
    again = pickle.loads(pickle.dumps(found))
    assert again.beta == found.beta
    assert str(again) == str(found)
    selected = tether.gcrc([[0.0, 0.1]] * 50, alpha=0.2)
    assert str(pickle.loads(pickle.dumps(selected))) == str(selected)
