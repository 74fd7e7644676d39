"""Models: scikit-learn's by skops, torch modules by safetensors."""

from __future__ import annotations

import io
import re
import zipfile
from functools import partial
from typing import Any

from tether._core.extras import require
from tether.policies.functions import recipe_of, remember
from tether.saving.archive import array_from_bytes, stored_zip
from tether.saving.objects import CannotSaveError, Member, Permissions

_skops = partial(require, "a saved scikit-learn model", "skops.io")
_safetensors = partial(require, "a saved torch module", "safetensors.torch")
MAX_UNPACKED_BYTES = 1 << 30
"""The most bytes that a model, or a sparse matrix inside one, may unpack to."""


def derives_from(value: Any, package: str, name: str) -> bool:
    """Whether an object is of a class of a package, which is not imported for this."""
    bases = type(value).__mro__
    return any(each.__name__ == name and each.__module__.startswith(package) for each in bases)


def sklearn_state(model: Any) -> dict[str, Any]:
    """A fitted scikit-learn model as skops writes it."""
    skops = _skops()
    try:
        content = skops.dumps(model)
    except Exception as error:  # skops raises errors of many types
        raise CannotSaveError(f"is a model that skops cannot save: {error}") from error
    return {"model": Member(_canonical(content), "skops")}


def _canonical(content: bytes) -> bytes:
    """The same model with numbers in order instead of memory addresses, and without dates."""
    members = _members(content)
    schema, numbers = members.pop("schema.json").decode(), dict[str, str]()
    for old in re.findall(r'"(?:__id__": |file": ")(\d+)', schema):
        numbers.setdefault(old, str(len(numbers)))

    def renumbered(match: re.Match[str]) -> str:
        return match[1] + numbers[match[2]]

    schema = re.sub(r'("__id__": |"file": ")(\d+)', renumbered, schema)
    files = {re.sub(r"^()(\d+)", renumbered, name): each for name, each in members.items()}
    return stored_zip({"schema.json": schema.encode(), **dict(sorted(files.items()))})


def load_sklearn(permissions: Permissions, model: bytes) -> Any:
    """A model whose arrays are as large as they say, and whose types are trusted."""
    _check_arrays(_members(model))
    known = _skops().get_untrusted_types(data=model)
    untrusted = [name for name in known if name not in permissions.trusted]
    if untrusted:
        raise ValueError(f"types in the saved model that trusted= must name: {untrusted!r:.2000}")
    return _skops().loads(model, trusted=list(permissions.trusted))


def _members(content: bytes) -> dict[str, bytes]:
    """The members of a zip archive, which must not unpack to more than is allowed."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > MAX_UNPACKED_BYTES:
            raise ValueError(f"the saved model unpacks to more than {MAX_UNPACKED_BYTES:,} bytes")
        return {name: archive.read(name) for name in archive.namelist()}


def _check_arrays(members: dict[str, bytes]) -> None:
    """Refuse arrays that claim to be larger than they are, or to hold objects."""
    for name, content in members.items():
        if name.endswith(".npy"):
            array_from_bytes(f"{name} of the saved model", content)
        elif name.endswith(".npz"):
            _check_arrays(_members(content))


def made_again(permissions: Permissions, path: str, arguments: dict[str, Any]) -> Any:
    """Make an object again as `policy_from` made it, and remember this."""
    made = permissions.find(path)(**arguments)
    remember(made, path, arguments)
    return made


def module_state(module: Any) -> dict[str, Any]:
    """A torch module: how `policy_from` made it, and its weights."""
    recipe = recipe_of(module)
    if recipe is None:
        raise CannotSaveError(
            f"is a torch module: make it with tether.policies.policy_from("
            f"'package.module:{type(module).__name__}', …), and load weights into it or train it"
        )
    tensors = {**dict(module.named_buffers()), **module.state_dict()}
    copies = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
    return {
        **recipe,
        "weights": Member(_safetensors().save(copies), "safetensors"),
        "training": [name for name, each in module.named_modules() if each.training],
    }


def load_module(
    permissions: Permissions, path: str, arguments: dict[str, Any], weights: bytes, training: Any
) -> Any:
    """A torch module, made again, with the weights and the modes that it had."""
    tensors, module = _safetensors().load(weights), made_again(permissions, path, arguments)
    expected = {**dict(module.named_buffers()), **module.state_dict()}
    shapes = {name: tuple(tensor.shape) for name, tensor in expected.items()}
    if shapes != {name: tuple(tensor.shape) for name, tensor in tensors.items()}:
        raise ValueError(f"the weights do not fit what {path!r} makes")
    persistent = set(module.state_dict())
    module.load_state_dict({name: tensors[name] for name in persistent}, assign=True)
    for name in set(tensors) - persistent:
        owner, _, leaf = name.rpartition(".")
        module.get_submodule(owner)._buffers[leaf] = tensors[name]
    for name, each in module.named_modules():
        each.training = name in training
    return module
