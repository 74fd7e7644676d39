"""Torch modules as their weights beside an import path, and torch distributions as parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from tether.policies.functions import recipe_of
from tether.saving.code_kinds import follow_recipe
from tether.saving.errors import CannotSaveError
from tether.saving.kind import Kind, Member
from tether.saving.permissions import Permissions

DISTRIBUTIONS = {
    **dict.fromkeys(("Normal", "Laplace", "Cauchy", "Gumbel", "LogNormal"), ("loc", "scale")),
    **dict.fromkeys(("Exponential", "Poisson"), ("rate",)),
    **dict.fromkeys(("HalfNormal", "HalfCauchy"), ("scale",)),
    **dict.fromkeys(("Bernoulli", "Categorical"), ("probs|logits",)),
    **dict.fromkeys(("Binomial", "NegativeBinomial"), ("total_count", "probs|logits")),
    "Beta": ("concentration1", "concentration0"),
    "Dirichlet": ("concentration",),
    "Gamma": ("concentration", "rate"),
    "Independent": ("base_dist", "reinterpreted_batch_ndims"),
    "MixtureSameFamily": ("mixture_distribution", "component_distribution"),
    "MultivariateNormal": ("loc", "scale_tril"),
    "StudentT": ("df", "loc", "scale"),
    "Uniform": ("low", "high"),
    "VonMises": ("loc", "concentration"),
}
"""The distributions that are saved, with their parameters; of `probs|logits` the one given."""
NESTED_PARAMETERS = ("base_dist", "mixture_distribution", "component_distribution")
"""Parameters that are themselves distributions."""


def _derives_from(value: Any, package: str, name: str) -> bool:
    return any(
        base.__name__ == name and base.__module__.startswith(package)
        for base in type(value).__mro__
    )


def is_module(value: Any) -> bool:
    """Whether an object is a torch module; torch is not imported for this."""
    return _derives_from(value, "torch.nn.", "Module")


def is_distribution(value: Any) -> bool:
    """Whether an object is a torch distribution; torch is not imported for this."""
    return _derives_from(value, "torch.distributions.", "Distribution")


def _module_state(module: Any) -> dict[str, Any]:
    recipe = recipe_of(module)
    if recipe is None:
        raise CannotSaveError(
            f"is a torch module, of which only the weights can be saved. Make it with "
            f"tether.policy_from('package.module:{type(module).__name__}', …), which remembers how "
            f"to make it again, and load weights into it or train it then"
        )
    import torch

    tensors = {**dict(module.named_buffers()), **module.state_dict()}
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise CannotSaveError(f"is a torch module with state that is no tensor: {name!r}")
    copies = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
    modes = {name: each.training for name, each in module.named_modules()}
    return {
        "path": recipe.path,
        "arguments": recipe.arguments,
        "weights": Member(_safetensors().save(copies), "safetensors"),
        "training": [name for name, training in modes.items() if training],
    }


def _load_module(
    permissions: Permissions, path: str, arguments: dict[str, Any], weights: Any, training: Any
) -> Any:
    if not isinstance(weights, bytes):
        raise ValueError(f"weights must be a member of the file, got {repr(weights)[:80]}")
    safetensors = _safetensors()
    tensors = safetensors.load(weights)
    module = follow_recipe(permissions, path, arguments)
    if not is_module(module):
        raise ValueError(f"import path {path!r} made {module!r}, which is not a torch module")
    expected = {**dict(module.named_buffers()), **module.state_dict()}
    if set(tensors) != set(expected):
        raise ValueError(
            f"the weights do not fit {path!r}: {sorted(set(tensors) ^ set(expected))[:5]}"
        )
    for name, tensor in tensors.items():
        if tensor.shape != expected[name].shape:
            raise ValueError(
                f"the weights do not fit {path!r}: {name!r} has shape {tuple(tensor.shape)}, "
                f"expected {tuple(expected[name].shape)}"
            )
    persistent = set(module.state_dict())
    module.load_state_dict({name: tensors[name] for name in persistent}, assign=True)
    for name in set(tensors) - persistent:
        owner, _, leaf = name.rpartition(".")
        module.get_submodule(owner)._buffers[leaf] = tensors[name]
    for name, each in module.named_modules():
        each.training = name in training
    return module


def _safetensors() -> Any:
    try:
        import safetensors.torch
    except ImportError as error:
        raise ImportError(
            f"torch modules are saved and loaded with safetensors: pip install 'tether[torch]' "
            f"({error})"
        ) from error
    return safetensors.torch


def _distribution_state(distribution: Any) -> dict[str, Any]:
    name = type(distribution).__name__
    public = type(distribution).__module__.startswith("torch.distributions.")
    if name not in DISTRIBUTIONS or not public:
        raise CannotSaveError(
            f"is the torch distribution {name}; these are saved: {', '.join(sorted(DISTRIBUTIONS))}"
            f". Make the policy with tether.policy_from('package.module:function', …)"
        )
    parameters: dict[str, Any] = {}
    for parameter in DISTRIBUTIONS[name]:
        if parameter == "probs|logits":
            given = distribution.__dict__.get("probs") is distribution._param
            parameter = "probs" if given else "logits"
        value = getattr(distribution, parameter)
        parameters[parameter] = _array(value) if hasattr(value, "detach") else value
    rebuilt = _distribution(name, parameters)
    if any(
        _array(getattr(rebuilt, each)).tobytes() != value.tobytes()
        for each, value in parameters.items()
        if isinstance(value, np.ndarray)
    ):
        raise CannotSaveError(f"is a torch distribution {name} that is not restored exactly")
    return {"name": name, "parameters": parameters}


def _array(tensor: Any) -> Any:
    return tensor.detach().cpu().numpy()


def _distribution(name: str, parameters: dict[str, Any]) -> Any:
    if name not in DISTRIBUTIONS:
        raise ValueError(f"there is no torch distribution {name!r} among those that are saved")
    import torch

    accepted = {each for entry in DISTRIBUTIONS[name] for each in entry.split("|")}
    if not isinstance(parameters, dict) or not set(parameters) <= accepted:
        raise ValueError(f"a {name} has the parameters {sorted(accepted)}, got {parameters!r:.200}")
    given: dict[str, Any] = {}
    for parameter, value in parameters.items():
        if parameter in NESTED_PARAMETERS and not is_distribution(value):
            raise ValueError(f"{parameter} must be a distribution, got {value!r:.80}")
        is_array = isinstance(value, np.ndarray)
        given[parameter] = torch.from_numpy(np.array(value)) if is_array else value
    renamed = {"base_dist": "base_distribution"}
    made = getattr(torch.distributions, name)(
        **{renamed.get(parameter, parameter): value for parameter, value in given.items()},
        validate_args=True,
    )
    if name == "Categorical":  # it normalizes what it is given: once, not twice
        ((parameter, tensor),) = given.items()
        setattr(made, parameter, tensor)
        made._param = tensor
    return made


TORCH_KINDS = (
    Kind("module", is_module, _module_state, _load_module, asks=True),
    Kind("distribution", is_distribution, _distribution_state, _distribution),
)
