"""What a round shows of itself: its record in the history of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tether._core.words import Columns

if TYPE_CHECKING:
    from tether.rounds.controller import Controller
    from tether.rounds.history import RoundRecord


class RoundOverview:
    """What every round can show; `Round` acts."""

    number: int
    _run: Controller

    @property
    def stored(self) -> RoundRecord:
        """The round as the store has it now: what was promised, and what has come of it so far."""
        return next(each for each in self._run.history().rounds if each.number == self.number)

    def to_frame(self) -> Columns:
        """Return the round as a table with one row: `stored.to_frame()`.

        Returns
        -------
        Columns
            A dictionary of arrays, which data-frame libraries accept.
        """
        return self.stored.to_frame()

    def _repr_html_(self) -> str:
        """What a notebook shows: the record."""
        return self.stored._repr_html_()
