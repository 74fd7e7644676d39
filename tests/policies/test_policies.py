"""Policies score what they draw: against definitions and scipy, and by their own draws."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC

import tether
from tests.fit import chi_square, fits
from tether.policies import FinitePolicy, as_policy

RNG = np.random.default_rng
NAMES = np.array(["call", "visit", "wait"])
softmax = partial(special.softmax, axis=-1)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 999), st.integers(2, 6), st.integers(1, 5), st.floats(0.1, 9.0))
def test_categorical_by_table_function_and_logits_is_its_definition(seed, size, rows, temperature):
    logits = RNG(seed).normal(size=(rows, size)) * 3
    expected = softmax(logits / temperature)
    contexts, actions = RNG(seed).integers(rows, size=7), RNG(seed).integers(size, size=7)
    policies = [
        tether.Categorical(np.log(expected)),
        tether.Categorical.from_probabilities(expected),
        tether.Categorical.from_logits(logits, temperature=temperature),
        tether.Categorical.from_logits(
            lambda x: logits[x], np.arange(size), temperature=temperature
        ),
        tether.Categorical.from_probabilities(lambda x: expected[x], np.arange(size)),
    ]
    for policy in policies:
        assert isinstance(policy, FinitePolicy)
        assert np.allclose(np.exp(policy.log_prob_all(contexts)), expected[contexts])
        found = np.exp(policy.log_prob(contexts, actions))
        assert np.allclose(found, expected[contexts, actions])


def test_draws_fit_the_scores():
    rng, found = RNG(0), []
    table = softmax(rng.normal(size=(2, 5)))
    policy = tether.Categorical.from_probabilities(table, actions=list("edcba"))
    pool = tether.Pool([0.0, 1.0, -np.inf, 2.0], temperature=0.5)
    mixture = tether.Mixture([pool, tether.Pool.uniform(4)], [3, 1])
    for row in (0, 1):
        drawn = policy.sample(np.full(4000, row), rng)
        found.append(chi_square(ord("e") - np.array([ord(each) for each in drawn]), table[row]))
    for each in (pool, mixture):
        found.append(chi_square(each.sample(4000, rng), np.exp(each.log_prob_all(1)[0])))
    fits(found)
    drawn = tether.Gaussian([1.0, -1.0], [1.0, 2.0]).sample(40_000, RNG(0))
    assert np.allclose(np.cov(drawn.T), np.diag([1.0, 4.0]), atol=0.1)
    shares = 0.75 * softmax([0, 2, -np.inf, 4]) + 0.25 / 4
    assert np.allclose(np.exp(mixture.log_prob_all(1)), shares)
    assert np.allclose(np.exp(mixture.log_prob(4, np.arange(4))), shares)


@settings(deadline=None, max_examples=30)
@given(st.permutations(list(NAMES)))
def test_frames_are_matched_by_the_names_of_actions(order):
    """Columns in any order are the same policy; other names are refused."""
    table = pd.DataFrame(softmax(RNG(1).normal(size=(4, 3))), columns=NAMES)
    expected = table.to_numpy()
    policies = [
        tether.Categorical.from_probabilities(table[list(order)], actions=NAMES),
        tether.Categorical.from_probabilities(lambda x: table[list(order)].iloc[x], actions=NAMES),
        tether.Categorical.from_logits(np.log(table[list(order)]), actions=NAMES),
    ]
    for policy in policies:
        assert np.allclose(np.exp(policy.log_prob_all(np.arange(4))), expected)
    unnamed = tether.Categorical.from_probabilities(table[list(order)])
    assert unnamed.actions.tolist() == list(order)
    assert np.allclose(np.exp(unnamed.log_prob(np.arange(4), ["call"] * 4)), expected[:, 0])
    with pytest.raises(ValueError, match="columns"):
        tether.Categorical.from_probabilities(table.rename(columns={"call": "mail"}), actions=NAMES)


def test_classifiers_are_policies():
    rng = RNG(2)
    frame = pd.DataFrame(rng.normal(size=(200, 2)), columns=["x", "y"])
    model = LogisticRegression().fit(frame, NAMES[(frame["x"] > 0).astype(int)])
    policy = as_policy("optimized", model)
    wide = frame.assign(z=1.0)[["z", "y", "x"]]  # a rule may need more columns than the model
    assert np.allclose(np.exp(policy.log_prob_all(wide)), model.predict_proba(frame))
    every = tether.Categorical.from_classifier(model, actions=NAMES)
    table = np.exp(every.log_prob_all(frame))
    assert np.allclose(table[:, :2], model.predict_proba(frame))
    assert (table[:, 2] == 0).all()  # an action that no training row had
    rule = tether.Categorical.from_probabilities(lambda x: NAMES[np.asarray(x)], actions=NAMES)
    assert np.array_equal(np.exp(rule.log_prob_all([2, 0])), np.eye(3)[[2, 0]])
    method = tether.Categorical.from_probabilities(model.predict_proba, actions=NAMES[::-1])
    assert np.allclose(method.log_prob_all(frame), every.log_prob_all(frame)[:, ::-1])
    hot = tether.Categorical.from_classifier(model, temperature=2.0)
    assert np.allclose(np.exp(hot.log_prob_all(frame)), softmax(policy.log_prob_all(frame) / 2))
    for made, match in (
        (lambda: as_policy("safe", LinearSVC().fit(frame, [0, 1] * 100)), "CalibratedClassifierCV"),
        (lambda: as_policy("safe", Ridge().fit(frame, frame["x"])), "safe.*number"),
        (lambda: as_policy("safe", tether.Gaussian), "not a class"),
        (lambda: as_policy("safe", model.predict_proba), "the model itself"),
        (lambda: as_policy("safe", tether.Shortlist(tether.Gaussian(0.0))), "Shortlist"),
        (lambda: tether.Categorical.from_classifier(LogisticRegression()), "fitted"),
    ):
        with pytest.raises(TypeError, match=match):
            made()
    with pytest.raises(ValueError, match="lacks 1 of 2, such as 'visit'"):
        tether.Categorical.from_classifier(model, actions=["call", "wait"])


def test_policies_with_the_same_actions_in_another_order_are_aligned():
    table = softmax(RNG(3).normal(size=(4, 3)))
    first = tether.Categorical.from_probabilities(table, actions=NAMES)
    other = tether.Categorical.from_probabilities(lambda x: table[x][:, ::-1], actions=NAMES[::-1])
    contexts = np.arange(4)
    for one, two in ((first, other), (other, first)):
        same = tether.Tethered(one, two, 0.5)
        assert same.actions.tolist() == one.actions.tolist()
        assert np.allclose(same.log_prob_all(contexts), one.log_prob_all(contexts))
        log = tether.make_log(one, two, contexts, NAMES[[0, 1, 2, 0]], np.zeros(4))
        assert np.allclose(log.rows.columns["log_safe_all"], log.rows.columns["log_optimized_all"])
    unlike = tether.Categorical.from_probabilities(table, actions=["call", "visit", "mail"])
    with pytest.raises(ValueError, match="mail"):
        tether.Tethered(first, unlike, 1.0)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 999), st.integers(1, 3))
def test_gaussian_scores_are_scipys(seed, size):
    rng = RNG(seed)
    mean, scale = rng.normal(size=size), rng.uniform(0.2, 3, size=size)
    points = rng.normal(size=(6, size))
    expected = stats.norm(mean, scale).logpdf(points).sum(axis=1)
    assert np.allclose(tether.Gaussian(mean, scale).log_prob(6, points), expected)
    x = rng.normal(size=6)
    moving = tether.Gaussian(lambda x: 2 * x, lambda x: 1 + x**2)
    expected = stats.norm(2 * x, 1 + x**2).logpdf(points[:, 0])
    assert np.allclose(moving.log_prob(x, points[:, 0]), expected)


G = tether.Gaussian(0.0)
ERRORS = {
    "probabilities": lambda: tether.Categorical.from_probabilities([0.5, 0.6]),
    "sum to": lambda: tether.Categorical([0.0, 0.0]),
    "logits": lambda: tether.Categorical.from_logits([np.nan, 0.0]),
    "every action in row 1": lambda: tether.Categorical.from_logits([[0, 0], [-np.inf, -np.inf]]),
    "temperature": lambda: tether.Categorical.from_logits([0.0, 1.0], temperature=0),
    "actions": lambda: tether.Categorical.from_probabilities([0.5, 0.5], actions=["a", "a"]),
    "actions is required": lambda: tether.Categorical(lambda x: x),
    "numbers or all strings": lambda: tether.Categorical(np.log([0.5, 0.5]), actions=["a", 1]),
    "row numbers from 0": lambda: tether.Categorical([[0.0], [0.0]]).log_prob_all([0, 2]),
    "numbers from 0 to 1, those of the table": lambda: tether.Categorical(
        [[0.0], [0.0]]
    ).log_prob_all(2),
    "first in row 1: expected one of 0, 1": lambda: tether.Pool.uniform(2).log_prob(2, [0, 5]),
    "outcome is not a policy": lambda: tether.Pool.uniform(2).log_prob(1, ["call"]),
    "function returned shape": lambda: tether.Categorical.from_logits(
        lambda x: np.zeros((1, 2)), [0, 1]
    ).log_prob_all(3),
    "scores": lambda: tether.Pool([np.inf, 0.0]),
    "size": lambda: tether.Pool.uniform(0),
    "scale": lambda: tether.Gaussian(0.0, -1.0),
    "mean": lambda: tether.Gaussian(["a"]),
    "coordinates": lambda: tether.Gaussian([0.0, 0.0], [1.0, 1.0, 1.0]),
    "mean returned shape": lambda: tether.Gaussian(lambda x: 1.0).sample([1.0, 2.0], RNG(0)),
    "shape": lambda: G.log_prob(2, [[1.0, 2.0], [3.0, 4.0]]),
    "weights": lambda: tether.Mixture([G], [-1.0]),
    "all be 0": lambda: tether.Mixture([G], [0.0]),
    "policies": lambda: tether.Mixture([], []),
    "safe_share": lambda: tether.Mixture.blend(G, G, 1.0),
    "finitely many": lambda: tether.Mixture([G], [1.0]).log_prob_all(1),
    "sample must be": lambda: tether.FunctionPolicy(1, G.log_prob),
    "contexts": lambda: G.sample(0, RNG(0)),
}


@pytest.mark.parametrize("named", ERRORS)
def test_errors_name_the_argument(named):
    with pytest.raises((TypeError, ValueError), match=named):
        ERRORS[named]()
