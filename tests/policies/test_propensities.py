"""Bandit logs: propensities of the actions shown, with or without the safe policy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tether.policies.propensities import two_action_table


def world(seed, contexts=4, actions=3, rows=300):
    """Two tables of probabilities, and a log of the first: contexts, actions, losses."""
    rng = np.random.default_rng(seed)
    safe, optimized = (
        tether.Categorical.from_probabilities(rng.dirichlet(np.full(actions, 3.0), size=contexts))
        for _ in range(2)
    )
    context = rng.integers(contexts, size=rows)
    action = safe.sample(context, rng)
    loss = rng.random(rows) < 0.1 + 0.5 * action / actions
    return safe, optimized, context, action, loss


def propensities_of(safe, context, action):
    return np.exp(safe.log_prob(context, action))


@given(st.integers(0, 10_000), st.sampled_from(["clip", "mix"]))
@settings(max_examples=30, deadline=None)
def test_with_two_actions_propensities_say_as_much_as_the_safe_policy(seed, family):
    safe, optimized, context, action, loss = world(seed, actions=2)
    known = tether.make_log(safe, optimized, context, action, loss)
    p = propensities_of(safe, context, action)
    found = tether.make_log(None, optimized, context, action, loss, propensities=p)
    assert np.allclose(found.log_safe_all, known.log_safe_all)
    assert np.array_equal(found.context, known.context)
    betas = [tether.calibrate(log, alpha=0.45, family=family).log_beta for log in (found, known)]
    assert betas[0] == pytest.approx(betas[1], rel=1e-6, abs=1e-6)


def test_an_action_that_was_certain_leaves_nothing_for_the_other():
    table = two_action_table(np.array([1.0, 0.25]), np.array([1, 0]))
    assert np.array_equal(np.exp(table), [[0.0, 1.0], [0.25, 0.75]])


def mix_oracle(loss, ratio, max_ratio, alpha, bound=1.0):
    """The largest beta of mix by its definition, on a fine grid: every smaller beta passes too."""
    passed = 0.0
    for beta in np.exp(np.linspace(-8, 8, 4001)):
        weights = (1 + beta * ratio) / (1 + beta)
        test = (1 + beta * max_ratio) / (1 + beta)
        if (loss @ weights + bound * test) > alpha * (weights.sum() + test):
            return passed
        passed = beta
    return np.inf


@given(st.integers(0, 10_000), st.floats(0.25, 0.6), st.floats(0.02, 0.1))
@settings(max_examples=30, deadline=None)
def test_mix_from_propensities_and_a_floor_is_exact(seed, alpha, floor):
    safe, optimized, context, action, loss = world(seed)
    p = propensities_of(safe, context, action)
    floor = min(floor, p.min())
    log = tether.make_log(
        None, optimized, context, action, loss, propensities=p, min_propensity=floor
    )
    assert log.max_ratio == pytest.approx(1 / floor)
    found = tether.calibrate(log, alpha=alpha, family="mix")
    assert found.test_weight == "max_ratio"
    ratio = np.exp(optimized.log_prob(context, action)) / p
    oracle = mix_oracle(loss, ratio, 1 / floor, alpha)
    if 0 < oracle < np.inf and np.exp(-7.9) < found.beta < np.exp(7.9):
        assert found.log_beta == pytest.approx(np.log(oracle), abs=16 / 4000 + 1e-6)
    # The same as a draw with exactly this ratio would give.
    one = np.unique(log.context)
    drawn = tether.Proposals(np.full(len(one), np.log(floor)), np.zeros(len(one)), context=one)
    plain = tether.make_log(None, optimized, context, action, loss, propensities=p)
    same = tether.calibrate(plain, drawn, alpha=alpha, family="mix")
    assert found.log_beta == pytest.approx(same.log_beta, abs=1e-9)
    assert found.stability == pytest.approx(same.stability)
    for point, risk in zip(*vars(found.curve(points=20)).values(), strict=True):
        weights = (1 + np.exp(point) * ratio) / (1 + np.exp(point))
        test = (1 + np.exp(point) / floor) / (1 + np.exp(point))
        assert risk == pytest.approx((loss @ weights + test) / (weights.sum() + test))


def test_without_contexts_clip_needs_only_the_ratios():
    rng = np.random.default_rng(0)
    safe, optimized = tether.Pool([0.0, 1.0, 0.5]), tether.Pool([1.0, 0.0, 2.0])
    action = safe.sample(200, rng)
    loss = action == 2
    p = np.exp(safe.log_prob(200, action))
    known = tether.make_log(safe, optimized, None, action, loss)
    found = tether.make_log(None, optimized, None, action, loss, propensities=p)
    assert not found.contextual
    betas = [tether.calibrate(log, alpha=0.5).log_beta for log in (found, known)]
    assert betas[0] == pytest.approx(betas[1])


def test_densities_of_continuous_actions_may_exceed_one():
    rng = np.random.default_rng(0)
    safe, optimized = tether.Gaussian(0.0, 0.1), tether.Gaussian(0.05, 0.1)
    action = safe.sample(200, rng)
    p = np.exp(safe.log_prob(200, action))
    assert p.max() > 1
    log = tether.make_log(None, optimized, None, action, action > 0.15, propensities=p)
    assert tether.calibrate(log, alpha=0.2).exists
    with pytest.raises(ValueError, match=r"min_propensity is 0.1, but the optimized policy does"):
        tether.make_log(
            None, optimized, None, action, action > 1, propensities=p, min_propensity=0.1
        )


@pytest.mark.filterwarnings("ignore:nothing useful is promised")  # of the floor that is not one
def test_deployed_risk_of_mix_from_propensities_is_at_most_alpha():
    """Over 400 logs of 80 rows; with a floor that is not one, alpha is exceeded."""
    safe = tether.Categorical.from_probabilities([[0.88, 0.1, 0.02], [0.1, 0.88, 0.02]])
    optimized = tether.Categorical.from_probabilities([[0.3, 0.1, 0.6], [0.1, 0.3, 0.6]])
    harm = np.array([0.02, 0.02, 1.0])
    risks = [np.exp(each.log_prob_all(np.arange(2))) @ harm for each in (safe, optimized)]
    rng = np.random.default_rng(5)
    right, wrong = [], []
    for _ in range(400):
        context = rng.integers(2, size=80)
        action = safe.sample(context, rng)
        loss = rng.random(80) < harm[action]
        p = propensities_of(safe, context, action)
        log = tether.make_log(
            None, optimized, context, action, loss, propensities=p, min_propensity=0.02
        )
        for floor, deployed in ((0.02, right), (0.9, wrong)):
            log.max_ratio = 1 / floor  # a floor of 0.9 would be refused
            beta = tether.calibrate(log, alpha=0.12, family="mix").beta
            share = 1.0 if np.isinf(beta) else beta / (1 + beta)
            deployed.append((1 - share) * risks[0].mean() + share * risks[1].mean())
    right, wrong = np.array(right), np.array(wrong)
    assert right.mean() <= 0.12 + 3 * right.std() / 20
    assert right.max() > risks[0].mean()  # it does something
    assert wrong.mean() > 0.12 + 3 * wrong.std() / 20


def test_propensities_are_checked_against_the_safe_policy():
    safe, optimized, context, action, loss = world(3)
    p = propensities_of(safe, context, action)
    log = tether.make_log(safe, optimized, context, action, loss, propensities=p)
    assert log.log_safe_all is not None
    rounded = np.round(p, 3)
    tether.make_log(safe, optimized, context, action, loss, propensities=rounded)
    wrong = p.copy()
    wrong[[4, 9]] = 0.9, 0.01
    with pytest.raises(
        ValueError,
        match=rf"disagree with the safe policy in 2 of 300 row.*row 4: 0.9 in the log, {p[4]:.6g}.*"
        rf"row 9: 0.01 in the log",
    ):
        tether.make_log(safe, optimized, context, action, loss, propensities=wrong)
    with pytest.raises(ValueError, match="disagree with the safe policy in"):
        tether.make_log(optimized, safe, context, action, loss, propensities=p)  # exchanged
    never = tether.Categorical.from_probabilities([[0.0, 0.5, 0.5]] * 4)
    with pytest.raises(ValueError, match="disagree with the safe policy in"):
        tether.make_log(never, optimized, context, action, loss, propensities=p)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (np.log, "none of its 300 values is above 0: they look like log-probabilities"),
        (lambda p: 100 * p, r"propensities\[0\] is .*a probability above 0 and at most 1"),
        (lambda p: p[:-1], "propensities has 299 rows but actions has 300"),
        (lambda p: np.where(np.arange(300) == 7, 0.0, p), r"propensities\[7\] is 0.0: expected"),
        (lambda p: np.where(np.arange(300) == 7, np.nan, p), r"propensities\[7\] is nan"),
        (lambda p: np.where(np.arange(300) == 7, -0.1, p), r"propensities\[7\] is -0.1"),
    ],
)
def test_bad_propensities(change, message):
    safe, optimized, context, action, loss = world(4)
    p = change(propensities_of(safe, context, action))
    for known in (safe, None):
        with pytest.raises(ValueError, match=message):
            tether.make_log(known, optimized, context, action, loss, propensities=p)


def test_a_policy_that_depends_on_more_than_the_contexts_is_noticed():
    safe, optimized, context, action, loss = world(5)
    p = propensities_of(safe, context, action)
    pool = tether.Pool.uniform(3)
    with pytest.raises(ValueError, match=r"rows \d+ and \d+ took the action \d with the propens"):
        tether.make_log(None, pool, None, action, loss, propensities=p)
    with pytest.raises(ValueError, match=r"in equal contexts with the propensities"):
        tether.make_log(None, pool, context // 2, action, loss, propensities=p)
    shares = tether.make_log(None, optimized, context, action, loss, propensities=p)
    assert shares.log_safe_all is None


def test_what_is_missing_is_said():
    safe, optimized, context, action, loss = world(6)
    p = propensities_of(safe, context, action)
    with pytest.raises(TypeError, match="safe is None: pass the safe policy, or the propensities"):
        tether.make_log(None, optimized, context, action, loss)
    with pytest.raises(ValueError, match="cannot be combined with logged_by"):
        tether.make_log(safe, optimized, context, action, loss, propensities=p, logged_by=optimized)
    with pytest.raises(
        ValueError, match=r"min_propensity is 0.5, but the safe policy has an actio"
    ):
        tether.make_log(None, optimized, context, action, loss, propensities=p, min_propensity=0.5)
    with pytest.raises(ValueError, match=r"min_propensity must be above 0 and below 1, got 2"):
        tether.make_log(None, optimized, context, action, loss, propensities=p, min_propensity=2)
    with pytest.raises(
        ValueError, match=r"min_propensity is 0.5, but the safe policy has an actio"
    ):
        tether.make_log(safe, optimized, context, action, loss, min_propensity=0.5)
    log = tether.make_log(None, optimized, context, action, loss, propensities=p)
    with pytest.raises(
        ValueError,
        match=r"needs the largest ratio \(min_propensity in tether.make_log,.*, or proposals",
    ):
        tether.calibrate(log, alpha=0.5, family="mix")
    with pytest.raises(ValueError, match=r"use family=.mix., or pass the safe policy"):
        tether.calibrate(log, alpha=0.5)
