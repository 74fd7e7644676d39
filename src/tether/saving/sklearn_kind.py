"""Fitted scikit-learn models in the format of skops, which loads without running code of the file.

The bytes that skops writes contain memory addresses and the time. They are rewritten in an order
that depends on the model alone, so that the same model gives the same bytes.
"""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

from tether.saving.archive import MAX_MEMBERS, read_json, stored_zip, unzip
from tether.saving.array_members import canonical_array, check_array
from tether.saving.errors import CannotSaveError
from tether.saving.kind import Kind, Member
from tether.saving.permissions import Permissions

SCHEMA = "schema.json"
"""The member of a skops file that describes the model."""


def is_sklearn(value: Any) -> bool:
    """Whether an object is an estimator of scikit-learn, or of a class derived from one."""
    return any(base.__module__.startswith("sklearn.") for base in type(value).__mro__)


def _skops() -> Any:
    try:
        import skops.io
    except ImportError as error:
        raise ImportError(
            f"scikit-learn models are saved and loaded with skops: pip install 'tether[skops]' "
            f"({error})"
        ) from error
    return skops.io


def _model_state(model: Any) -> dict[str, Any]:
    skops = _skops()
    try:
        content = canonical_skops(skops.dumps(model))
        again = skops.loads(content, trusted=skops.get_untrusted_types(data=content))
        if canonical_skops(skops.dumps(again)) != content:
            raise ValueError("what it saves is not what it loads")
    except Exception as error:  # skops raises what the attributes of the model raise
        raise CannotSaveError(
            f"is a {type(model).__name__}, which skops cannot save ({error}). Make the policy with "
            f"tether.policy_from('package.module:function', …), or save the model yourself"
        ) from error
    return {"model": Member(content, "skops")}


def canonical_skops(content: bytes) -> bytes:
    """The same model, with numbers in order instead of memory addresses, and without dates."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    schema = read_json(SCHEMA, members[SCHEMA])
    schema.pop("_skops_version", None)
    files: dict[str, str] = {}
    names: dict[bytes, str] = {}
    renamed: dict[str, bytes] = {}
    waiting, numbers = [schema], 0
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting.extend(reversed(node))
            continue
        if not isinstance(node, dict):
            continue
        if "__id__" in node:
            node["__id__"], numbers = numbers, numbers + 1
        old = node.get("file")
        if "__loader__" in node and isinstance(old, str) and old in members:
            if old not in files:
                data = _canonical_member(old, members[old])
                new = f"{old.rpartition('.')[2]}/{len(renamed)}.{old.rpartition('.')[2]}"
                files[old] = names.setdefault(data, new)
                renamed[files[old]] = data
            node["file"] = files[old]
        waiting.extend(reversed(node.values()))
    text = json.dumps(schema, separators=(",", ":"))  # the order of keys matters to skops
    return stored_zip({SCHEMA: text.encode("ascii"), **renamed})


def _canonical_member(name: str, content: bytes) -> bytes:
    """Arrays as they are; a sparse matrix is itself an archive, and compressed."""
    if name.endswith(".npy"):
        return canonical_array(name, content)
    if not name.endswith(".npz"):
        return content
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return stored_zip({each: archive.read(each) for each in sorted(archive.namelist())})


def _load_model(permissions: Permissions, model: Any) -> Any:
    if not isinstance(model, bytes):
        raise ValueError(f"model must be a member of the file, got {repr(model)[:80]}")
    _check_members(unzip(model, "the saved model"))
    skops = _skops()
    untrusted = [
        name for name in skops.get_untrusted_types(data=model) if name not in permissions.trusted
    ]
    if untrusted:
        raise ValueError(
            f"the saved model has types that are not trusted: {', '.join(untrusted)[:2_000]}. Pass "
            f"trusted={untrusted!r:.2000} if you trust who wrote the file"
        )
    return skops.loads(model, trusted=list(permissions.trusted))


def _check_members(members: dict[str, bytes]) -> None:
    """Refuse arrays that claim to be larger than they are, before skops makes them."""
    if len(members) > MAX_MEMBERS:
        raise ValueError(f"the saved model has {len(members):,} members")
    for name, content in members.items():
        if name.endswith(".npy"):
            check_array(f"{name} of the saved model", content)
        elif name.endswith(".npz"):
            _check_members(unzip(content, f"{name} of the saved model"))


MODEL = Kind("model", is_sklearn, _model_state, _load_model, asks=True)
