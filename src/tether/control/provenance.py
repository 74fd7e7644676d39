"""Where a calibration came from: which log, which proposals, which settings, which version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tether._core import records
from tether._core.digests import array_digest, content_digest
from tether._version import __version__
from tether.control.log import Log
from tether.control.policy_path import PolicyPath
from tether.control.proposals import Proposals

if TYPE_CHECKING:
    from tether.control.problem import Problem

LOG_COLUMNS = (
    *("log_safe", "log_optimized", "context", "log_mix"),
    *("log_safe_all", "log_optimized_all", "log_mix_all"),
)
ACTING_COLUMNS = ("log_logged", "log_logged_all", "log_base_limit")
PROPOSAL_COLUMNS = ("log_safe", "log_optimized", "from_safe", "context", "log_mix")
PATH_COLUMNS = ("log_beta", "log_density", "drawn_at")
STATED_WITH_THE_LOG = ("safe_share", "max_ratio", "ratio_error", "approximate")
"""What a log says besides its columns; digested together, under the name "stated"."""


@dataclass(frozen=True)
class Provenance:
    """What a calibration was computed from, so that it can be computed again and compared.

    Calibrating is deterministic: the same log, proposals, settings and version give the same
    result.

    Parameters
    ----------
    version : str
        The version of the package.
    settings : mapping of str to Any
        The arguments of `calibrate` besides log and proposals; a family by its name.
    log : mapping of str to str
        The digest of each column of the log.
    proposals : mapping of str to str, optional
        The same for the proposals; None if there were none.

    Examples
    --------
    >>> import tether
    >>> log = tether.Log([0.0] * 50, [0.0] * 50, [0.0] * 50)
    >>> tether.calibrate(log, alpha=0.1).provenance.log_digest[:15]
    'sha256:9da7e51b'
    """

    version: str
    settings: Mapping[str, Any]
    log: Mapping[str, str]
    proposals: Mapping[str, str] | None

    @property
    def log_digest(self) -> str:
        """The digest of the whole log."""
        return content_digest(dict(self.log))

    @property
    def proposals_digest(self) -> str | None:
        """The digest of all proposals."""
        return None if self.proposals is None else content_digest(dict(self.proposals))

    def differences(self, log: Log, proposals: Proposals | None) -> list[str]:
        """Name the columns in which a log and proposals differ from those of the calibration.

        Parameters
        ----------
        log : Log
            A log.
        proposals : Proposals or None
            Proposals, if there are any.

        Returns
        -------
        list of str
            One entry for each column that differs or is missing; none if all are the same.
        """
        drawn = None if proposals is None else proposal_digests(proposals)
        return [
            *_unlike("log", self.log, log_digests(log)),
            *_unlike("proposals", self.proposals or {}, drawn or {}),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values.

        Returns
        -------
        dict
            All fields, and the digests of the log and of the proposals.
        """
        both = {"log_digest": self.log_digest, "proposals_digest": self.proposals_digest}
        return {**asdict(self), **both}


def make_provenance(problem: Problem) -> Provenance:
    """Where the calibration of a problem comes from.

    The digests are those of the arrays as they are now, which are not copied.
    """
    drawn = problem.given_proposals
    return Provenance(
        __version__,
        plain_settings(problem.settings),
        log_digests(problem.given_log),
        None if drawn is None else proposal_digests(drawn),
    )


def read_provenance(saved: Mapping[str, Any] | None) -> Provenance | None:
    """What `Provenance.to_dict` returned; None for records from before there was any."""
    if saved is None:
        return None
    return Provenance(**{name: saved[name] for name in ("version", "settings", "log", "proposals")})


def log_digests(log: Log) -> dict[str, str]:
    """The digest of each column of a log, and of what it states besides."""
    arrays = {f"loss[{name}]": values for name, values in log.loss.items()}
    arrays |= {name: getattr(log, name) for name in LOG_COLUMNS}
    if log.acting is not None:
        arrays |= {f"acting.{name}": getattr(log.acting, name) for name in ACTING_COLUMNS}
    arrays |= _path_columns(log.policy_path)
    stated = {name: getattr(log, name) for name in STATED_WITH_THE_LOG}
    if log.policy_path is not None:
        stated["path"] = log.policy_path.family
    return {
        **{name: array_digest(values) for name, values in arrays.items() if values is not None},
        "stated": content_digest(records.encode(stated)),
    }


def proposal_digests(proposals: Proposals) -> dict[str, str]:
    """The digest of each column of proposals."""
    columns = {name: getattr(proposals, name) for name in PROPOSAL_COLUMNS}
    columns |= _path_columns(proposals.policy_path)
    return {name: array_digest(values) for name, values in columns.items() if values is not None}


def _path_columns(path: PolicyPath | None) -> dict[str, Any]:
    """The columns of a path of policies, if there is one."""
    if path is None:
        return {}
    return {f"policy_path.{name}": getattr(path, name) for name in PATH_COLUMNS}


def plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as they are once they have been saved and loaded."""
    copied = {
        name: dict(value) if isinstance(value, Mapping) else value
        for name, value in settings.items()
    }
    plain: dict[str, Any] = records.decode(records.encode(copied))
    return plain


def _unlike(name: str, stored: Mapping[str, str], own: Mapping[str, str]) -> list[str]:
    names = sorted({*stored, *own})
    return [f"{name}: {each}" for each in names if stored.get(each) != own.get(each)]
