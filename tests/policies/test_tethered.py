"""The tethered policy against enumeration and quadrature; spread betas; serving with a fallback."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import tether
from tests.fit import chi_square, cumulative, fits, score_error
from tether.policies.normalizer import settled_normalizer
from tether.policies.served import is_draw_limit

RNG = np.random.default_rng
SAFE, OPTIMIZED = tether.Gaussian(0.0, 1.0), tether.Gaussian(1.0, 0.8)


def density(family, safe, optimized, beta):
    """The definition, over all actions of one context."""
    if beta in (0, np.inf):
        return safe if beta == 0 else optimized
    if family == "mix":
        return (safe + beta * optimized) / (1 + beta)
    kernel = np.minimum(optimized, beta * safe)
    clip = kernel / kernel.sum()
    if family == "clip":
        return clip
    missed = (1 - kernel.sum() / min(beta, 1)) ** 3
    return (1 - missed) * clip + missed * safe


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 9999),
    st.sampled_from(["clip", "mix", "budgeted_clip(3)"]),
    st.sampled_from([0.0, 1e-300, 1e-4, 0.3, 1.0, 2.5, 1e4, 1e300, np.inf]),
)
def test_tables_are_the_definition(seed, family, beta):
    rng = RNG(seed)
    tables = rng.dirichlet(np.ones(5), size=(2, 3))
    safe, optimized = (tether.Categorical.from_probabilities(table) for table in tables)
    policy = tether.Tethered(safe, optimized, beta, family=family)
    expected = [density(family, *tables[:, x], beta) for x in range(3)]
    assert np.allclose(np.exp(policy.log_prob_all(np.arange(3))), expected)
    contexts, actions = rng.integers(3, size=9), rng.integers(5, size=9)
    found = policy.log_prob(contexts, actions)
    assert np.allclose(np.exp(found), np.array(expected)[contexts, actions])
    decided = policy.decide(contexts, rng)
    assert np.allclose(decided.log_prob, policy.log_prob(contexts, decided.actions))
    assert np.allclose(decided.propensities, np.array(expected)[contexts, decided.actions])


def test_a_decision_is_one_pass_of_either_model(monkeypatch):
    calls = []

    def counted(matrix):
        def logits(contexts):
            calls.append(len(contexts))
            return np.asarray(contexts) @ matrix

        return tether.Categorical.from_logits(logits, list("abc"))

    matrices = RNG(0).normal(size=(2, 2, 3))
    policy = tether.Tethered(*map(counted, matrices), 1.3)
    contexts = RNG(1).normal(size=(50, 2))
    decided = policy.decide(contexts, RNG(2))
    assert calls == [50, 50]
    assert np.array_equal(decided.actions, policy.sample(contexts, RNG(2)))
    whole = policy.normalizer(contexts).log_psi
    monkeypatch.setattr("tether.policies.tethered.MAX_TABLE_SCORES", 3 * 20)
    calls.clear()
    in_parts = policy.decide(contexts, RNG(2))
    assert calls == [20, 20, 20, 20, 10, 10]
    assert np.array_equal(in_parts.actions, decided.actions)
    assert np.array_equal(policy.log_prob(contexts, decided.actions), decided.log_prob)
    assert np.array_equal(policy.normalizer(contexts).log_psi, whole)
    line = tether.Tethered(SAFE, OPTIMIZED, 2.0)
    drawn = line.decide(30, RNG(0))
    assert np.array_equal(drawn.log_prob, line.log_prob(30, drawn.actions))


@pytest.mark.parametrize("family", ["clip", "mix"])
def test_spread_betas_are_served_as_their_mixture(family):
    rng = RNG(3)
    tables = np.array([[[0.5, 0.3, 0.15, 0.05], [0.4, 0.4, 0.1, 0.1]],
                       [[0.05, 0.1, 0.25, 0.6], [0.3, 0.05, 0.05, 0.6]]])  # fmt: skip
    safe, optimized = (tether.Categorical.from_probabilities(table) for table in tables)
    contexts = rng.integers(2, size=400)
    actions = safe.sample(contexts, rng)
    losses = (rng.random(len(actions)) < 0.02 + 0.6 * (actions == 3)).astype(float)
    log = tether.make_log(safe, optimized, contexts, actions, losses)
    found = tether.calibrate(log, promise=0.15, spread=True, family=family)
    shares = found.chain.probabilities
    assert (shares > 0).sum() > 3
    policy = tether.Tethered(safe, optimized, found)
    betas = np.append(0.0, np.exp(found.chain.log_betas))
    each = np.array([[density(family, *tables[:, x], beta) for beta in betas] for x in range(2)])
    expected = np.einsum("k,xka->xa", shares, each)
    assert np.allclose(np.exp(policy.log_prob_all(np.arange(2))), expected)
    hidden = [tether.FunctionPolicy(each.sample, each.log_prob) for each in (safe, optimized)]
    by_draws = tether.Tethered(*hidden, found)  # each action at a beta of its own
    p_values = []
    for each in (policy, by_draws):
        drawn = each.sample(np.repeat([0, 1], 3000), rng)
        p_values += [chi_square(drawn[:3000], expected[0]), chi_square(drawn[3000:], expected[1])]
    fits(p_values)
    asked = np.array([0, 1]), [2, 3]
    off = np.abs(by_draws.log_prob(*asked) - policy.log_prob(*asked))
    each = [tether.Tethered(*hidden, beta, family=family) for beta in betas]
    assert (off <= 5 * np.max([score_error(at, *asked) for at in each], axis=0) + 1e-9).all()
    assert tether.serve(by_draws, np.zeros(20, int), rng).actions.shape == (20,)
    if family == "clip":
        with pytest.raises(TypeError, match="several betas"):
            by_draws.normalizer(contexts)


@pytest.mark.parametrize("beta", [1e-3, 0.3, 1.0, 4.0, 1e3])
def test_estimated_normalizers_are_the_integral_within_their_error(beta):
    grid = np.linspace(-12, 14, 200_001)
    kernel = np.minimum(np.exp(OPTIMIZED.log_prob(len(grid), grid)),
                        beta * np.exp(SAFE.log_prob(len(grid), grid)))  # fmt: skip
    psi = kernel.sum() * (grid[1] - grid[0])
    found = tether.Tethered(SAFE, OPTIMIZED, beta).normalizer(1)
    assert abs(found.log_psi[0] - np.log(psi)) < 5 * found.standard_error[0] + 1e-6
    x = np.zeros(200)
    policy = tether.Tethered(SAFE, OPTIMIZED, beta)
    each = policy.normalizer(np.arange(200.0) * 0)
    assert np.ptp(each.log_psi) == 0  # equal contexts share their draws
    both = SAFE.log_prob(200, x), OPTIMIZED.log_prob(200, x)
    settled = settled_normalizer(policy, x, *both)
    assert settled.standard_error.max() <= max(each.standard_error.max(), 0.1)


def test_a_normalizer_above_one_is_an_error():
    """The scores of another distribution than the one drawn from give it away."""
    narrow = tether.Gaussian(0.0, 0.3)
    lying = tether.FunctionPolicy(narrow.sample, SAFE.log_prob)
    with pytest.raises(ValueError, match="at most 1"):
        tether.Tethered(lying, narrow, 1.0).log_prob(3, [0.0, 1.0, 2.0])


def test_actions_outside_the_safe_policy():
    safe = tether.Categorical.from_probabilities([0.5, 0.5, 0.0])
    optimized = tether.Categorical.from_probabilities([0.1, 0.3, 0.6])
    with pytest.raises(ValueError, match="never takes"):
        tether.Tethered(safe, optimized, 2.0, family="mix").sample(3, RNG(0))
    for beta in (1.0, np.inf):
        policy = tether.Tethered(safe, optimized, beta)
        expected = density("clip", *np.array([[0.5, 0.5], [0.1, 0.3]]), min(beta, 1e9))
        assert np.allclose(np.exp(policy.log_prob_all(1)[0]), [*expected, 0])


ERRORS = {
    "beta": {"beta": -1.0},
    "sampler": {"sampler": "magic"},
    "sampler 'grid' is for clip": {"sampler": "grid", "family": "mix"},
    "max_draws": {"family": "budgeted_clip(20)", "max_draws": 10},
    "TokenTether": {"family": "token_clip"},
    "family": {"family": "clap"},
    "safe": {"safe": None},
}


@pytest.mark.parametrize("named", ERRORS)
def test_errors_name_the_argument(named):
    options = {"safe": SAFE, "optimized": OPTIMIZED, "beta": 1.0, **ERRORS[named]}
    with pytest.raises((TypeError, ValueError), match=named):
        tether.Tethered(**options).sample(2, RNG(0))


def test_a_beta_without_contexts_serves_none():
    actions = SAFE.sample(300, RNG(0))
    log = tether.make_log(SAFE, OPTIMIZED, None, actions, actions > 1.5)
    found = tether.calibrate(log, alpha=0.15)
    policy = tether.Tethered(SAFE, OPTIMIZED, found)
    assert policy.sample(3, RNG(0)).shape == (3,)
    with pytest.raises(ValueError, match="without contexts"):
        policy.sample(np.zeros(3), RNG(0))


def down(contexts, rng):
    raise ConnectionError("no route to host")


def test_serving_falls_back_and_says_so():
    broken = tether.FunctionPolicy(down, OPTIMIZED.log_prob)
    served = tether.serve(tether.Tethered(SAFE, broken, 2.0), 50, RNG(0))
    assert served.source == "safe"
    assert "no route" in served.failure
    with pytest.raises(RuntimeError, match="no route"):
        tether.serve(tether.Tethered(broken, broken, 0.5), 3, RNG(0))

    def refusing(contexts, actions):
        if (np.asarray(contexts) > 8).any():
            raise ValueError("too long")
        return OPTIMIZED.log_prob(len(actions), actions)

    picky = tether.FunctionPolicy(lambda x, rng: OPTIMIZED.sample(len(x), rng), refusing)
    for contexts, failed in ((np.arange(10.0), True), (np.arange(9.0), False)):
        served = tether.serve(tether.Tethered(SAFE, picky, 1.5), contexts, RNG(1))
        assert (served.source == "safe") == failed
    far = tether.Tethered(SAFE, tether.Gaussian(lambda x: x), 1.0, max_draws=300)
    served = tether.serve(far, np.array([0.0, 60.0, 0.0]), RNG(2))
    assert served.source == "safe"
    assert "gave up" in served.failure
    within = tether.Mixture([tether.Tethered(SAFE, far, 0.0), far], [0, 1])
    for policy, limited in (
        (far, True),
        (within, True),
        (tether.Tethered(SAFE, broken, 2.0), False),
    ):
        with pytest.raises(RuntimeError) as caught:
            policy.sample(np.array([60.0]), RNG(0))
        assert is_draw_limit(caught.value) == limited


def test_what_is_served_by_a_coin_does_not_depend_on_which_policy_fails():
    """Mix asks both policies in every context: otherwise the safe coin would succeed more often."""
    calls = []

    def sometimes(contexts, rng):
        calls.append(len(contexts))
        return OPTIMIZED.sample(len(contexts), rng)

    optimized = tether.FunctionPolicy(sometimes, lambda x, a: OPTIMIZED.log_prob(len(a), a))
    policy = tether.Tethered(SAFE, optimized, 0.25, family="mix")
    served = tether.serve(policy, np.zeros(4000), RNG(0))
    assert calls == [4000]
    below, _ = cumulative(lambda x: policy.log_prob(np.zeros(len(x)), x))
    fits([stats.kstest(served.actions, below).pvalue])
