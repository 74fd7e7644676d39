"""Paths of policies: the tethered policy at an increasing sequence of betas, fixed beforehand.

Clip and mix say how dense the tethered policy is from the scores of the two policies. A policy that
is tethered at every token, or in any other way inside of an action, has a density that these two
numbers do not determine. It can still be computed, exactly, for as many betas as one likes. A path
is that table: one row per action, one column per beta. Calibration then chooses among its betas,
and what is served is the policy at one of them. Every density is normalized, so that contexts need
no normalizing constant.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tether._core import validate
from tether._core.types import Booleans, Floats, Integers
from tether.control.family import Family, limit_density

PATH_NAME = re.compile(r"token_(clip|mix)(\((0\.\d+)\))?")
"""The names of the paths of the package; in brackets the share of the safe policy in a blend."""


class PolicyPath:
    """The log-density of the tethered policy at each of several betas, for every row.

    The betas must not depend on the losses. At a beta of 0 the policy is the safe one and at an
    infinite beta the optimized one, whose scores the log has; between two betas of the path the
    policy at the smaller one is served.

    Parameters
    ----------
    family : str
        The name of what beta does: "token_clip" or "token_mix" for `tether.llm.TokenTether`.
    log_beta : array_like
        Log betas, finite and increasing.
    log_density : array_like
        The normalized log-density of each row at each beta (rows × betas); −inf where the policy
        at that beta never takes the action.
    drawn_at : array_like, optional
        For proposals, the log beta of the policy that drew each row: −inf for the safe one, inf for
        the optimized one.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, shape or values.

    Examples
    --------
    >>> PolicyPath("token_mix", [-1.0, 0.0], [[-3.0, -2.5], [-1.0, -1.5]])
    PolicyPath(token_mix, 2 rows, 2 betas)
    """

    def __init__(
        self,
        family: str,
        log_beta: ArrayLike,
        log_density: ArrayLike,
        *,
        drawn_at: ArrayLike | None = None,
    ) -> None:
        self.family = PathFamily(family).name
        self.log_beta = validate.frozen(np.array(log_beta, dtype=np.float64))
        betas = self.log_beta
        if betas.ndim != 1 or not len(betas) or not np.isfinite(betas).all():
            raise ValueError(f"log_beta must be a sequence of finite numbers, got {log_beta!r:.80}")
        if not (np.diff(betas) > 0).all():
            raise ValueError(f"log_beta must increase, got {betas!r:.200}")
        table = np.array(log_density, dtype=np.float64)
        if table.ndim != 2 or table.shape[1] != len(betas) or not len(table):
            raise ValueError(
                f"log_density must have one row per action and {len(betas)} columns, one per beta, "
                f"got shape {table.shape}"
            )
        if np.isnan(table).any() or (table == np.inf).any():
            raise ValueError("log_density must hold log-densities below inf, got NaN or inf")
        self.log_density = validate.frozen(table)
        self.drawn_at: Floats | None = None
        if drawn_at is not None:
            levels = np.array(drawn_at, dtype=np.float64)
            validate.same_length("drawn_at", levels, "log_density", len(table))
            if np.isnan(levels).any():
                raise ValueError("drawn_at must hold log betas, got NaN")
            self.drawn_at = validate.frozen(levels)

    @property
    def every_log_beta(self) -> Floats:
        """The log betas of the path and +inf, the optimized policy, which is its end."""
        return np.append(self.log_beta, np.inf)

    def column(self, log_beta: float) -> int:
        """The column of the policy that is served at a beta: the largest one of the path below it.

        Parameters
        ----------
        log_beta : float
            A finite log beta.

        Returns
        -------
        int
            The index among the betas; −1 below all of them, where the safe policy is served.
        """
        return int(np.searchsorted(self.log_beta, log_beta, side="right")) - 1

    def rows(self, chosen: Booleans) -> PolicyPath:
        """Return the path of some rows of a log.

        Parameters
        ----------
        chosen : ndarray of bool
            Which rows.

        Returns
        -------
        PolicyPath
            The same betas, with the densities of these rows.
        """
        return PolicyPath(self.family, self.log_beta, self.log_density[chosen])

    def __len__(self) -> int:
        return len(self.log_density)

    def __repr__(self) -> str:
        return f"PolicyPath({self.family}, {len(self)} rows, {len(self.log_beta)} betas)"


@dataclass(frozen=True)
class PathFamily(Family):
    """A family that exists at the betas of a path, where its densities were computed.

    Parameters
    ----------
    path_name : str
        "token_clip" or "token_mix", with the share of a blend in brackets if there is one.

    Raises
    ------
    ValueError
        If there is no path of that name.

    Examples
    --------
    >>> PathFamily("token_clip").normalized
    True
    """

    path_name: str
    normalized: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.path_name, str) or not PATH_NAME.fullmatch(self.path_name):
            raise ValueError(
                f"the family of a path must be 'token_clip' or 'token_mix', or one of them with "
                f"the share of a blend ('token_clip(0.01)'), got {self.path_name!r}"
            )

    @property
    def name(self) -> str:
        """What results call it: the name of the path."""
        return self.path_name

    def log_kernel(self, log_safe: Floats, log_optimized: Floats, log_beta: float) -> Floats:
        """Not defined: the scores of the two policies do not determine the density."""
        raise TypeError(
            f"family {self.name!r} is tethered at every token, so that the scores of whole answers "
            f"do not say how likely an answer is: tether.llm.TokenTether makes its log and its "
            f"proposals, and serves it"
        )


class PathDensities:
    """The densities of a path; a cell is a row of the log."""

    def __init__(self, path: PolicyPath) -> None:
        self.path = path
        self.row: Integers = np.arange(len(path))
        self.context = self.worst = self.row[:0]

    def log_density(
        self, log_safe: Floats, log_optimized: Floats, cell: Integers, log_beta: float
    ) -> Floats:
        """The table's column at the largest beta of the path that is not above this one."""
        if np.isinf(log_beta):
            return limit_density(log_safe, log_optimized, log_beta)
        column = self.path.column(log_beta)
        return np.array(log_safe) if column < 0 else self.path.log_density[cell, column]

    def log_ratio_bounds(
        self, log_ratio: Floats, cell: Integers, left: float, right: float
    ) -> tuple[Floats, Floats] | None:
        """None: the betas of the path are examined one by one."""
        return None

    def log_acceptance(self, log_beta: float) -> Floats:
        """Every draw is served."""
        return np.zeros(len(self.path))
