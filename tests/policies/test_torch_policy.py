import numpy as np
import pytest
from scipy import stats

import tether
from tests.fit import chi_square

torch = pytest.importorskip("torch", reason="torch is an optional extra")
distributions = torch.distributions


def test_a_torch_distribution_is_a_policy():
    policy = tether.TorchPolicy(distributions.Normal(torch.tensor(1.0, dtype=torch.float64), 2.0))
    actions = policy.sample(3000, np.random.default_rng(0))
    assert stats.kstest(actions, "norm", (1, 2)).pvalue > 1e-3
    assert np.allclose(policy.log_prob(3000, actions), stats.norm(1, 2).logpdf(actions))
    assert policy.actions is None
    with pytest.raises(TypeError, match="does not list"):
        policy.log_prob_all(1)


def test_the_numpy_generator_decides_and_the_torch_state_is_restored():
    policy = tether.TorchPolicy(distributions.Normal(0.0, 1.0))
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    actions = policy.sample(10, np.random.default_rng(1))
    assert torch.equal(before, torch.random.get_rng_state())
    assert np.array_equal(actions, policy.sample(10, np.random.default_rng(1)))
    assert not np.array_equal(actions, policy.sample(10, np.random.default_rng(2)))


def test_tethered_takes_torch_distributions_as_they_are():
    wide = distributions.MultivariateNormal(torch.zeros(2), torch.eye(2))
    narrow = distributions.Independent(distributions.Normal(torch.ones(2), torch.ones(2)), 1)
    policy = tether.Tethered(wide, narrow, 0.7)
    actions = policy.sample(100, np.random.default_rng(3))
    assert actions.shape == (100, 2)
    assert np.isfinite(policy.log_prob(100, actions)).all()


def test_subclasses_of_torch_distributions_are_accepted():
    class Shifted(distributions.Normal):
        """A user's distribution, from a module that is not torch's."""

    policy = tether.Tethered(Shifted(0.0, 1.0), Shifted(1.0, 1.0), 1.0)
    assert policy.sample(5, np.random.default_rng(7)).shape == (5,)


def test_finite_torch_distributions_are_exact():
    safe = distributions.Categorical(logits=torch.zeros(4))
    optimized = distributions.Categorical(probs=torch.tensor([0.1, 0.2, 0.3, 0.4]))
    policy = tether.Tethered(safe, optimized, 1.0)
    expected = np.minimum([0.1, 0.2, 0.3, 0.4], 0.25)
    expected /= expected.sum()
    assert np.allclose(np.exp(policy.log_prob_all(1)[0]), expected, atol=1e-6)
    actions, info = policy.sample_with_info(5000, np.random.default_rng(4))
    assert chi_square(actions, expected) > 1e-3
    assert info.method == "exact"


def test_functions_of_contexts_that_return_distributions():
    def safe(x):
        return distributions.Normal(torch.zeros(len(x), dtype=torch.float64), 1.0)

    def optimized(x):
        return distributions.Normal(torch.as_tensor(x), 1.0)

    policies = tether.TorchPolicy(safe), tether.TorchPolicy(optimized)
    contexts = np.linspace(0, 1, 50)
    policy = tether.Tethered(*policies, 0.8)
    actions = policy.sample(contexts, np.random.default_rng(5))
    assert actions.shape == (50,)
    assert np.allclose(
        policies[1].log_prob(contexts, actions), stats.norm(contexts).logpdf(actions)
    )
    with pytest.raises(ValueError, match="batch_shape"):
        tether.TorchPolicy(lambda x: distributions.Normal(0.0, 1.0)).sample(
            contexts, np.random.default_rng(6)
        )
    with pytest.raises(ValueError, match="Independent"):
        tether.TorchPolicy(distributions.Normal(torch.zeros(2), 1.0))


def test_bounded_supports_score_minus_infinity_outside():
    beta = tether.TorchPolicy(distributions.Beta(2.0, 2.0))
    scores = beta.log_prob(4, [-1.0, 0.5, 0.25, 7.0])
    assert np.isneginf(scores[[0, 3]]).all()
    assert np.allclose(scores[1:3], stats.beta(2, 2).logpdf([0.5, 0.25]), atol=1e-6)
    assert np.isneginf(beta.log_prob(2, [-1.0, 3.0])).all()
    corner = tether.TorchPolicy(distributions.Dirichlet(torch.ones(3)))
    assert np.isneginf(corner.log_prob(2, [[0.5, 0.5, 0.5], [0.2, 0.3, 0.5]])).tolist() == [1, 0]
    pick = tether.TorchPolicy(distributions.Categorical(logits=torch.zeros(4)))
    assert np.isneginf(pick.log_prob(3, [0, 9, -1])).tolist() == [False, True, True]
    high = np.array([1.0, 2.0])
    box = tether.TorchPolicy(lambda x: distributions.Uniform(0.0, torch.as_tensor(x)))
    before = torch.random.get_rng_state()
    assert np.allclose(box.log_prob(high, [1.5, 1.5]), [-np.inf, -np.log(2)])
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("beta", [0.5, 2.0])
def test_bounded_torch_distributions_can_be_tethered(beta):
    safe, optimized = distributions.Uniform(0.0, 2.0), distributions.Uniform(0.0, 1.0)
    actions = tether.Tethered(safe, optimized, beta).sample(2000, np.random.default_rng(8))
    assert stats.kstest(actions, "uniform").pvalue > 1e-3
    with pytest.raises(ValueError, match="that the safe policy never takes"):
        tether.Tethered(optimized, safe, 2.0).sample(50, np.random.default_rng(9))


def test_a_distribution_that_does_not_state_its_support():
    class Silent(distributions.Normal):
        @property
        def support(self):
            raise NotImplementedError

    scores = tether.TorchPolicy(Silent(0.0, 1.0, validate_args=False)).log_prob(2, [0.0, 1.0])
    assert np.allclose(scores, stats.norm.logpdf([0.0, 1.0]))
