"""Torch distributions by their parameters, torch modules by weights and an import path."""

import sys

import numpy as np
import pytest

import tether
from tests.saving.round_trip import HERE, round_trip
from tether.saving import CannotSaveError, policy_from_bytes, policy_to_bytes

torch = pytest.importorskip("torch")
D = torch.distributions
CONTEXTS = np.random.default_rng(0).normal(size=(7, 2))


def tensor(*shape, seed=0, dtype=torch.float64):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype) + 0.1


@pytest.mark.parametrize(
    "distribution",
    [
        D.Normal(0.3, 1.7),
        D.Laplace(0.3, 1.7),
        D.Cauchy(0.3, 1.7),
        D.Gumbel(0.3, 1.7),
        D.LogNormal(0.3, 1.7),
        D.Exponential(2.0),
        D.Poisson(3.0),
        D.HalfNormal(2.0),
        D.HalfCauchy(2.0),
        D.Bernoulli(probs=torch.tensor(0.3)),
        D.Bernoulli(logits=torch.tensor(0.3)),
        D.Binomial(10, logits=torch.tensor(0.2)),
        D.NegativeBinomial(3.0, probs=torch.tensor(0.3)),
        D.Beta(torch.tensor(2.0), torch.tensor(3.0)),
        D.Gamma(2.0, 1.0),
        D.Dirichlet(tensor(3)),
        D.StudentT(3.0),
        D.Uniform(0.0, 2.0),
        D.VonMises(torch.tensor(0.1), torch.tensor(2.0)),
        D.MultivariateNormal(tensor(2), torch.eye(2, dtype=torch.float64) + 0.2),
        D.Independent(D.Normal(tensor(3), tensor(3, seed=1)), 1),
        D.MixtureSameFamily(D.Categorical(tensor(4)), D.Normal(tensor(4), tensor(4))),
    ],
    ids=lambda distribution: type(distribution).__name__,
)
def test_distributions(distribution):
    round_trip(tether.TorchPolicy(distribution))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("given", ["probs", "logits"])
def test_a_categorical_distribution_is_not_normalized_twice(given, seed):
    distribution = D.Categorical(**{given: tensor(50, seed=seed, dtype=torch.float32)})
    _ = distribution.probs, distribution.logits  # torch caches the other one
    round_trip(tether.TorchPolicy(distribution))


def test_a_distribution_is_saved_as_a_policy():
    loaded = policy_from_bytes(policy_to_bytes(D.Normal(0.0, 1.0)))
    assert isinstance(loaded, tether.TorchPolicy)


def test_a_distribution_that_is_not_in_the_table():
    distribution = D.TransformedDistribution(D.Normal(0.0, 1.0), [D.ExpTransform()])
    with pytest.raises(CannotSaveError, match=r"policy\.distribution is the torch distribution Tr"):
        policy_to_bytes(tether.TorchPolicy(distribution))


def trained():
    module = tether.policy_from(f"{HERE}:network", width=5)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += torch.randn(parameter.shape, generator=torch.Generator().manual_seed(2))
        module.shift += 0.3
        module.layers[1].running_mean += 1.0
    return module.eval()


def test_a_module_keeps_its_weights_buffers_and_mode():
    module = trained()
    loaded = round_trip(tether.TorchPolicy(module), CONTEXTS)
    again = loaded._distribution
    assert not any(each.training for each in again.modules())
    assert torch.equal(again.shift, module.shift)


def test_a_module_keeps_its_precision():
    round_trip(tether.TorchPolicy(trained().double()), CONTEXTS)


def test_a_module_within_a_tethered_policy():
    safe = tether.Categorical.from_probabilities([0.2, 0.3, 0.5])
    policy = tether.Tethered(safe, tether.Categorical.from_probabilities([0.5, 0.3, 0.2]), 0.5)
    round_trip(tether.Mixture([policy, tether.TorchPolicy(trained())], [1, 1]), CONTEXTS)


def test_a_module_whose_making_is_not_known():
    module = torch.nn.Linear(2, 3)
    with pytest.raises(CannotSaveError, match=r"package\.module:Linear"):
        policy_to_bytes(tether.TorchPolicy(module))


def test_weights_that_do_not_fit(monkeypatch):
    from tests.saving import parts

    data = policy_to_bytes(tether.TorchPolicy(trained()))
    make = parts.network
    monkeypatch.setattr(parts, "network", lambda width: make(width + 1))
    with pytest.raises(ValueError, match=r"do not fit 'tests\.saving\.parts:network'"):
        policy_from_bytes(data, allow_imports=True)
    monkeypatch.setattr(parts, "network", lambda width: torch.nn.Linear(2, 3))
    with pytest.raises(ValueError, match="do not fit"):
        policy_from_bytes(data, allow_imports=True)
    monkeypatch.setattr(parts, "network", lambda width: tether.Gaussian(0.0))
    with pytest.raises(ValueError, match="not a torch module"):
        policy_from_bytes(data, allow_imports=True)


def test_a_module_needs_permission():
    data = policy_to_bytes(tether.TorchPolicy(trained()))
    with pytest.raises(ValueError, match=r"allow_imports=\['tests\.saving\.parts'\]"):
        policy_from_bytes(data)


def test_state_that_is_no_tensor():
    module = trained()
    module.get_extra_state = lambda: {"a": 1}
    type(module).get_extra_state, kept = lambda self: {"a": 1}, type(module).get_extra_state
    try:
        with pytest.raises(CannotSaveError, match="no tensor: '_extra_state'"):
            policy_to_bytes(tether.TorchPolicy(module))
    finally:
        type(module).get_extra_state = kept


def test_without_safetensors_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    with pytest.raises(ImportError, match=r"tether\[torch\]"):
        policy_to_bytes(tether.TorchPolicy(trained()))
