"""The policy that a shortlist serves: a pick between uniform and by score, as far as beta says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Contexts, Integers
from tether.control.calibration import Calibration
from tether.control.families import Family
from tether.policies.pick_watch import PickWatch
from tether.policies.picker import Picker, scoring_once
from tether.policies.shortlist_rows import ShortlistRows
from tether.policies.tethered import Tethered

if TYPE_CHECKING:
    from tether.policies.shortlist import Shortlist


class TetheredShortlist:
    """Draws candidates with the safe policy and picks one of them by a calibrated rule.

    The pick is exact for every family: positions are a finite action set. There is no `log_prob`
    of an action, which would need that of the safe policy; `pick` is the policy over positions,
    and has one. Made by `Shortlist.tethered`.

    Under a calibration the first rows that are served are compared with those of its log: a score
    on another scale is refused, although a saved calibration does not have the log.

    Parameters
    ----------
    shortlist : Shortlist
        What draws the candidates.
    pick : Tethered
        The policy over positions, between a uniform one and a picker.

    Examples
    --------
    >>> from tether import Gaussian, Shortlist
    >>> policy = Shortlist(Gaussian(0.0), Gaussian(2.0), size=8).tethered(4.0)
    >>> policy.sample(3, np.random.default_rng(0)).round(2)
    array([1.3 , 0.04, 0.35])
    """

    __slots__ = ("__dict__", "__weakref__", "_watch")
    # The watch is not in `vars`: what was served is no part of what the policy is.

    def __init__(self, shortlist: Shortlist, pick: Tethered) -> None:
        self.shortlist, self.safe, self.pick = shortlist, shortlist.safe, pick
        self._watch: PickWatch | None = None

    @property
    def beta(self) -> float:
        """How far picking may pull away from a uniform pick."""
        return self.pick.beta

    @property
    def family(self) -> Family:
        """How beta turns two policies into one."""
        return self.pick.family

    def sample(self, contexts: Contexts, rng: np.random.Generator) -> NDArray[Any]:
        """Draw candidates in each context and pick one.

        Parameters
        ----------
        contexts : array, data frame or int
            One row per context, or the number of actions where there are no contexts.
        rng : numpy.random.Generator
            The source of randomness.

        Returns
        -------
        ndarray
            One action per context.
        """
        return self.sample_with_rows(contexts, rng)[0]

    def sample_with_rows(
        self, contexts: Contexts, rng: np.random.Generator
    ) -> tuple[NDArray[Any], ShortlistRows, Integers]:
        """Draw candidates in each context and pick one, and return the candidates as well.

        Parameters
        ----------
        contexts, rng : array and numpy.random.Generator
            As for `sample`.

        Returns
        -------
        actions : ndarray
            One action per context.
        rows : ShortlistRows
            The contexts with their candidates.
        index : ndarray of int
            The position of each action among its candidates.

        Raises
        ------
        ValueError
            If the first rows that are served contradict those of the calibration's log.
        """
        rows = self.shortlist.draw(contexts, rng)
        with scoring_once(self.pick.optimized, rows):
            self._look(rows)
            index = self.pick.sample(rows, rng)
        return rows.picked(index), rows, index

    def _look(self, rows: ShortlistRows) -> None:
        """Compare the first rows with those that were calibrated on."""
        found, picker = self.pick.calibration, self.pick.optimized
        if found is None or not isinstance(picker, Picker):
            return
        if self._watch is None:
            self._watch = PickWatch(found)
        if self._watch.watches:
            self._watch.look(picker, rows)

    def __repr__(self) -> str:
        return (
            f"TetheredShortlist(beta={self.beta:.6g}, family={self.family.name!r}, "
            f"size={self.shortlist.size})"
        )


def check_calibration(found: Calibration, size: int) -> None:
    """Refuse a beta that was calibrated without candidates, or with another number of them."""
    if found.actions is None:
        raise ValueError(
            "this beta was not calibrated on shortlists: Shortlist.make_log makes the log"
        )
    if found.actions != size:
        raise ValueError(
            f"this beta was calibrated on {found.actions} candidates, but the shortlist has size "
            f"{size}: the promise holds only for the size of the log"
        )
