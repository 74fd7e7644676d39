"""The round in which a served run acts, and which one it gives way to."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from tether.rounds.round import Round


class ServedRound(NamedTuple):
    """The round that acts; where it stands in for a round, when to look for that round again."""

    round: Round
    stands_in: bool = False
    look_again_at: float = inf

    def gives_way_to(self, found: ServedRound) -> bool:
        """Whether `found` acts from now on.

        A round never gives way to an earlier one, nor to one that stands in for it: that one was
        made before the round was known to this process.
        """
        if found.round.number != self.round.number:
            return found.round.number > self.round.number
        return self.stands_in or not found.stands_in
