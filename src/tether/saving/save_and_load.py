"""Policies as files or bytes, and back: plain arrays and JSON, no pickle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tether._core import files
from tether.policies.policy import as_policy
from tether.policies.probes import warn_not_useful
from tether.saving.archive import pack, unpack
from tether.saving.kinds import KINDS, kind_of
from tether.saving.objects import AllowImports, CannotSaveError, Permissions, decode, encode

MAX_POLICY_BYTES = 1 << 30
"""The largest file that is loaded unless more is allowed."""

ACTING = ("sample", "picker_of", "decide")  # what a policy, a shortlist and a decision have


def save_policy(policy: Any, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a policy to a file that `load` reads, in another process or on another machine.

    The loaded policy draws the same actions from the same generator and has the same
    log-probabilities, bit for bit where numpy computes alike. Nothing is pickled.

    Parameters
    ----------
    policy : Policy, Shortlist or scikit-learn classifier
        The policy. What it is made of must be known: policies and families of the package, arrays,
        fitted scikit-learn models, functions at the top level of a module, objects that
        `policy_from` made, and objects with `tether_save` and `tether_load`.
    path : str or pathlib.Path
        The file to write.
    overwrite : bool, default False
        Whether to replace an existing file.

    Raises
    ------
    CannotSaveError
        If a part of the policy has no such form. The message names the part and says what to do.

    Examples
    --------
    >>> import tempfile, numpy, tether
    >>> policy = tether.Tethered(tether.Gaussian(0.0), tether.Gaussian(1.0), 0.5)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_policy(policy, f"{folder}/served.tether")
    ...     load(f"{folder}/served.tether").sample(2, numpy.random.default_rng(0)).round(2)
    array([ 0.13, -0.13])
    """
    files.write_bytes(path, policy_to_bytes(policy), overwrite=overwrite)


def load(
    path: str | Path,
    *,
    allow_imports: AllowImports = (),
    trusted: Any = (),
    max_bytes: int = MAX_POLICY_BYTES,
) -> Any:
    """Read a policy that `save_policy` wrote, or a decision that `Decision.save` wrote.

    A file cannot run code of its own. Where it names code by an import path, or holds a model with
    types that skops does not know, you say what you trust. The digest inside a file shows that it
    was changed, not that it was forged.

    Parameters
    ----------
    path : str or pathlib.Path
        The file to read, or the folder of a decision.
    allow_imports : bool, list of str, or callable, optional
        Modules and packages whose code the file may name: a list of names, a function of an import
        path, or True for all. By default only public names of `tether.policies` and `tether.bo`.
    trusted : list of str, optional
        Types in scikit-learn models to trust beyond those that skops trusts.
    max_bytes : int, default 1 GiB
        The largest file to read.

    Raises
    ------
    ValueError
        If it is not a complete saved policy, was changed, or names what is not allowed.
    """
    options: dict[str, Any] = {"allow_imports": allow_imports, "trusted": trusted}
    with in_folder(path).open("rb") as file:
        data = file.read(max_bytes + 1)
    try:
        policy = policy_from_bytes(data, max_bytes=max_bytes, **options)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    warn_not_useful(getattr(getattr(policy, "pick", policy), "calibration", None))
    return policy


def in_folder(path: str | Path) -> Path:
    """The file of a decision: the path itself, or `decision.tether` in an existing folder."""
    return Path(path) / "decision.tether" if Path(path).is_dir() else Path(path)


def policy_to_bytes(policy: Any) -> bytes:
    """Convert a policy to the bytes that `save_policy` writes, always the same ones."""
    acts = any(hasattr(policy, each) for each in (*ACTING, "predict_proba"))
    if isinstance(policy, type) or not acts:
        raise CannotSaveError(f"policy must be a policy, got {policy!r:.200}")
    if hasattr(policy, "log_prob") or hasattr(policy, "predict_proba"):
        policy = as_policy("policy", policy)  # a classifier becomes one
    return pack(encode(policy, kind_of))


def policy_from_bytes(
    data: bytes,
    *,
    allow_imports: AllowImports = (),
    trusted: Any = (),
    max_bytes: int = MAX_POLICY_BYTES,
) -> Any:
    """Undo `policy_to_bytes`; the other arguments are those of `load`."""
    members = unpack(bytes(data), max_bytes)
    policy = decode(members, KINDS, Permissions(allow_imports, trusted))
    if not any(hasattr(policy, each) for each in ACTING):
        raise ValueError(f"the file holds a {type(policy).__name__}, which is not a policy")
    return policy
