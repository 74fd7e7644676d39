"""Only the policies that a calibration is of are served, as far as this can be told."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import tether

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"x": RNG.normal(size=400), "y": RNG.normal(size=400)})
LABELS = np.where(FRAME.x + RNG.normal(size=400) > 0, "act", "wait")


def rule(frame):
    acts = 0.3 + 0.1 * (np.asarray(frame["y"]) > 0)
    return np.column_stack([acts, 1 - acts])


SAFE = tether.Categorical.from_probabilities(rule, ["act", "wait"])
MODEL = LogisticRegression().fit(FRAME, LABELS)
ACTIONS = SAFE.sample(FRAME, RNG)
LOSSES = (RNG.random(400) < 0.1 * (ACTIONS == "act")).astype(float)


@pytest.fixture(scope="module")
def found():
    return tether.calibrate(tether.make_log(SAFE, MODEL, FRAME, ACTIONS, LOSSES), alpha=0.1)


def test_exchanged_policies_are_refused(found):
    with pytest.raises(ValueError, match="safe and optimized are exchanged"):
        tether.Tethered(MODEL, SAFE, found)


def test_another_model_is_refused(found):
    other = LogisticRegression(C=0.01).fit(FRAME, LABELS)
    with pytest.raises(ValueError, match="the optimized policy is not the one that the log was"):
        tether.Tethered(SAFE, other, found)
    another_rule = tether.Categorical.from_probabilities([0.3, 0.7], ["act", "wait"])
    with pytest.raises(ValueError, match="the safe policy is not the one that the log was"):
        tether.Tethered(another_rule, MODEL, found)
    renamed = tether.Categorical.from_probabilities(rule, ["go", "stay"])
    with pytest.raises(ValueError, match="it has other actions"):
        tether.Tethered(renamed, renamed, found)


def test_the_same_policies_built_anew_are_served(found):
    again = pickle.loads(pickle.dumps(MODEL))
    refitted = LogisticRegression().fit(FRAME, LABELS)
    lambdas = tether.Categorical.from_probabilities(lambda frame: rule(frame), ["act", "wait"])
    for safe, optimized in ((SAFE, MODEL), (SAFE, again), (lambdas, refitted)):
        tether.Tethered(safe, optimized, found).sample(FRAME[:3], np.random.default_rng(0))
    tether.Tethered(SAFE, MODEL, tether.Calibration.from_dict(found.to_dict()))
    tether.Tethered(SAFE, MODEL, pickle.loads(pickle.dumps(found)))


def tables():
    safe = tether.Categorical.from_probabilities([[0.7, 0.3], [0.6, 0.4]])
    new = tether.Categorical.from_probabilities([[0.2, 0.8], [0.5, 0.5]])
    return safe, new


def test_a_saved_calibration_recognizes_policies_by_their_digests(tmp_path):
    safe, new = tables()
    contexts = np.arange(300) % 2
    actions = safe.sample(contexts, np.random.default_rng(1))
    found = tether.calibrate(
        tether.make_log(safe, new, contexts, actions, np.zeros(300)), alpha=0.1
    )
    found.save(tmp_path / "found.json")
    loaded = tether.Calibration.load(tmp_path / "found.json")
    assert set(loaded.policies) == {"safe", "optimized"}
    tether.Tethered(*tables(), loaded)
    with pytest.raises(ValueError, match="safe and optimized are exchanged"):
        tether.Tethered(new, safe, loaded)
    other = tether.Categorical.from_probabilities([[0.2, 0.8], [0.4, 0.6]])
    with pytest.warns(tether.AssumptionWarning, match="the optimized policy does not look like"):
        tether.Tethered(safe, other, loaded)
    with pytest.raises(ValueError, match="policies must be digests of safe and optimized"):
        tether.Calibration.from_dict({**found.to_dict(), "policies": {"old": "a"}})


def test_policies_without_digests_and_logs_without_policies_are_served():
    safe, new = tether.Gaussian(0.0), tether.Gaussian(1.0)
    rng = np.random.default_rng(2)
    actions = safe.sample(300, rng)
    made = tether.calibrate(tether.make_log(safe, new, None, actions, actions > 2), alpha=0.2)
    tether.Tethered(tether.Gaussian(0.0), tether.Gaussian(1.0), made)
    with pytest.warns(tether.AssumptionWarning, match="does not look like"):
        tether.Tethered(safe, tether.Gaussian(2.0), made)
    by_hand = tether.calibrate(
        tether.Log(actions > 2, safe.log_prob(None, actions), new.log_prob(None, actions)),
        alpha=0.2,
    )
    assert by_hand.policies is None
    tether.Tethered(safe, tether.Gaussian(2.0), by_hand)


def test_a_policy_that_is_unavailable_is_not_compared(found):
    class Unavailable:
        actions = np.array(["act", "wait"])

        def sample(self, contexts, rng):
            raise ConnectionError("no route")

        log_prob = sample

        def log_prob_all(self, contexts):
            raise ConnectionError("no route")

    tether.Tethered(SAFE, Unavailable(), found)


def test_two_equal_policies_are_not_exchanged():
    safe, _ = tables()
    contexts = np.arange(300) % 2
    actions = safe.sample(contexts, np.random.default_rng(1))
    found = tether.calibrate(
        tether.make_log(safe, safe, contexts, actions, np.zeros(300)), alpha=0.1
    )
    tether.Tethered(safe, safe, found)
    tether.Tethered(safe, safe, tether.Calibration.from_dict(found.to_dict()))


def test_a_calibration_that_is_not_useful_is_told_when_a_policy_is_made_or_loaded(tmp_path):
    rng = np.random.default_rng(1)
    safe, optimized = tether.Gaussian(0.0), tether.Gaussian(1.5)
    actions = safe.sample(8, rng)
    log = tether.make_log(safe, optimized, None, actions, 1.0 * (actions > 1.0))
    found = tether.calibrate(log, alpha=0.2)
    assert found.exists
    assert not found.useful
    with pytest.warns(tether.PromiseWarning, match="not useful; serve the safe policy instead"):
        policy = tether.Tethered(safe, optimized, found)
    tether.save_policy(policy, tmp_path / "served.tether")
    with pytest.warns(tether.PromiseWarning, match="the expected loss is promised to be at most"):
        tether.load_policy(tmp_path / "served.tether")
    none = tether.calibrate(log, alpha=0.01)
    assert not none.exists
    tether.Tethered(safe, optimized, none)  # beta = 0 is the safe policy
    tether.Tethered(safe, optimized, found.beta)  # a number has no promise


def test_without_a_safe_policy_no_share_is_told_of_a_log_that_contradicts_itself():
    """A beta of a refuted log has a share, of which no request should go anywhere."""
    rng = np.random.default_rng(0)
    new = tether.Categorical.from_probabilities([0.1, 0.2, 0.7])
    shown = rng.choice(3, p=[0.6, 0.3, 0.1], size=2000)
    propensity = np.array([0.1, 0.3, 0.6])[shown]  # of actions in another order
    with pytest.warns(tether.AssumptionWarning):
        log = tether.make_log(
            None, new, None, shown, np.zeros(2000), propensities=propensity, min_propensity=0.1
        )
    found = tether.calibrate(log, alpha=0.2, family="mix")
    assert found.exists
    assert found.refuted_by
    assert not found.useful
    with pytest.raises(TypeError, match="leave all requests where they are"):
        tether.Tethered(None, new, found)
