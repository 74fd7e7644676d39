"""What the policies of a run choose from: actions, or positions among the candidates of shortlists.

In a run on shortlists the candidates are stored with the context, and the position of the picked
candidate as the action. So the safe policy is uniform over positions, every policy is a finite
table, and the rest of the run is as for any finite action set. Here actions become positions on
their way in, and positions become actions on their way out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from tether._core.arrays import Integers, shown
from tether._core.contexts import take
from tether.control.families import Family, PathFamily
from tether.policies.categorical import in_order_of
from tether.policies.picker import ShortlistRows
from tether.policies.policy import Policy, PolicyLike, Sampler, as_policy, as_sampler
from tether.policies.shortlist import Shortlist, TetheredShortlist
from tether.policies.tethered import Tethered
from tether.rounds.path_pairs import PathPair, PathTethered, as_path_optimized
from tether.rounds.policy_registry import fingerprint
from tether.rounds.returned_rows import TakenActions
from tether.rounds.store.rows import Rows

OptimizedLike: TypeAlias = "PolicyLike | PathPair | Shortlist | Callable[..., Any]"
"""What is accepted as the optimized policy of a round: a pair only along a path of policies, the
last two only on shortlists."""


class ActionSpace:
    """The safe policy of a run as its rows are stored, and how they are handed out.

    `safe` chooses among what is stored: for a shortlist, it is uniform over positions. `size` is
    the number of candidates, or None. With `draws_only` policies need no log-probabilities. If the
    `family` is that of a path, optimized policies are pairs.
    """

    def __init__(
        self, safe: Any, *, draws_only: bool = False, family: Family | None = None
    ) -> None:
        self._path = family if isinstance(family, PathFamily) else None
        self._shortlist = safe if isinstance(safe, Shortlist) else None
        convert = as_sampler if draws_only else as_policy
        self._as_policy = cast("Callable[[str, Any], Policy]", convert)
        if draws_only and self._shortlist is not None:
            raise TypeError(f"safe must be a policy or a sampler in a ramp, got {shown(safe)}")
        given = safe if self._shortlist is None else self._shortlist.uniform
        self.safe = self._as_policy("safe", given)
        self.size = None if self._shortlist is None else self._shortlist.size

    @property
    def given(self) -> Any:
        """The safe policy, or the shortlist, as a user passes it."""
        return self.safe if self._shortlist is None else self._shortlist

    @property
    def fingerprint(self) -> str | None:
        """That of the safe policy, which draws the candidates in a run on shortlists."""
        return fingerprint(self.safe if self._shortlist is None else self._shortlist.safe)

    def check_served(self, optimized: Any) -> None:
        """Let policies on servers compare the model that is served with the one they began with.

        One whose `probe_seconds` is None never does: its server may not score given texts.
        """
        drawing = self.safe if self._shortlist is None else self._shortlist.safe
        for policy in (drawing, optimized):
            check = getattr(policy, "check_unchanged", None)
            if check is not None and getattr(policy, "probe_seconds", 0) is not None:
                check()

    def optimized(self, name: str, optimized: Any) -> Policy:
        """An optimized policy over what is stored; a score of candidates in a run on shortlists.

        The same actions in another order are matched by name.
        """
        if self._path is not None:
            return as_path_optimized(name, optimized, self._path, self.safe)
        if self._shortlist is None:
            return in_order_of(self.safe, self._as_policy(name, optimized))
        return self._shortlist.picker_of(optimized)

    def stored_contexts(self, contexts: Any, rng: np.random.Generator) -> Any:
        """The contexts to act in, with fresh candidates in a run on shortlists."""
        return contexts if self._shortlist is None else self._shortlist.draw(contexts, rng)

    def stored_actions(
        self, contexts: Any, actions: NDArray[Any], rng: np.random.Generator
    ) -> tuple[Any, NDArray[Any]]:
        """Actions that the safe policy took, beside fresh candidates in a run on shortlists."""
        if self._shortlist is None:
            return contexts, actions
        return self._shortlist.join(contexts, actions, rng)

    def taken(
        self,
        ids: Any,
        actions: Any,
        contexts: Any,
        failure: str = "",
        served: int | Integers = 0,
        *,
        stored: bool = True,
    ) -> TakenActions:
        """Stored rows as they are handed out."""
        candidates = None
        if isinstance(contexts, ShortlistRows):
            actions, candidates = contexts.picked(actions), contexts.candidates
            contexts = contexts.contexts
        return TakenActions(ids, actions, contexts, failure, candidates, served, stored)

    def served(self, deployed: Tethered | PathTethered | None) -> Policy | Sampler:
        """The policy that acts, as a user calls it."""
        if self._shortlist is None:
            return self.safe if deployed is None else deployed
        if deployed is None:
            return self._shortlist.safe
        assert isinstance(deployed, Tethered)  # over positions
        return TetheredShortlist(self._shortlist, deployed)


def taken_rows(space: ActionSpace, rows: Rows, where: Integers) -> TakenActions:
    """Rows of a run as they are handed out."""
    if not len(rows):
        return TakenActions(rows.ids, np.empty(0), 0)
    contexts = take(rows.contexts, where)
    return space.taken(rows.ids[where], rows.actions[where], contexts, "", rows.served[where])
