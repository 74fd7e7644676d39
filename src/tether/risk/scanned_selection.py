"""The methods on claims in parts: which sums matter, the sweeps, and the choice as in memory."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tether._core import validate
from tether.risk.claim_losses import claim_loss, require_bound, require_thresholds
from tether.risk.claim_survey import joint_tally
from tether.risk.loss_gap import UncollectedError
from tether.risk.needed_bins import MARGIN_BINS, Reach
from tether.risk.risk_curve import checked_thresholds
from tether.risk.rule import Request, Rule
from tether.risk.scanned_claims import ScannedClaims
from tether.risk.scanned_sweep import ScanTask, scanned_sweeps
from tether.risk.score_table import LossTerms
from tether.risk.select import choose, one_per_loss, tolerated_losses
from tether.risk.selection import Selection

PROMISE_BOUNDS = 8.0
"""How far below the target a promise is looked for at first, in bounds of the sum of losses."""
WIDER = 8
"""By which factor more is collected where this was not enough."""


def select_in_parts(
    rule: Rule, request: Request, members: Mapping[str, Collection[Any] | None]
) -> dict[str, Selection]:
    """One selection per entry of `members`, which names the groups of its items (None: all)."""
    claims = request.losses
    assert isinstance(claims, ScannedClaims)
    tasks = [_selection(rule, request, claims, groups) for groups in members.values()]
    return dict(zip(members, claims.run_together(tasks), strict=True))


def _selection(
    rule: Rule, request: Request, claims: ScannedClaims, groups: Collection[Any] | None
) -> Generator[Any, Any, Selection]:
    """The selection for some of the items; yields jobs for the parts."""
    parts = one_per_loss(request)
    terms = tuple(_terms(part) for part in parts)
    tolerated = tolerated_losses(parts, [each.bound for each in terms])
    safer = [claim_loss(each.loss).safer for each in terms]
    thresholds = None
    if request.thresholds is not None:
        thresholds = checked_thresholds(request.thresholds, "smaller")
    weighted = request.weights.column is not None
    task = ScanTask(
        joint_tally(claims.survey, groups),
        groups,
        terms,
        thresholds,
        envelope=rule.envelope,
        weighted=weighted,
        log_test=request.weights.log_test,
        items=rule.reads_items and not weighted and len(set(safer)) == 1,
        margin=MARGIN_BINS,
    )
    if weighted and task.tally.log_weight == -np.inf:
        raise ValueError(f"{request.weights.column} is 0 for all items: no item counts")
    below = PROMISE_BOUNDS if request.target.name == "promise" else 0.0
    while True:
        sweeps = yield from scanned_sweeps(task, _reaches(rule, task, tolerated, below))
        named = [
            sweep if part.name is None else replace(sweep, loss=part.name)
            for sweep, part in zip(sweeps, parts, strict=True)
        ]
        try:
            found = choose(rule, parts, named)
        except UncollectedError:
            task, below = replace(task, margin=task.margin * WIDER), below * WIDER
            continue
        if task.items and any(sweep.read_losses is None for sweep in sweeps):
            found = replace(found, warnings=(*found.warnings, _NOT_MEASURED))
        return found


_NOT_MEASURED = (
    "the sum of losses stays near the limit over more claims than can be collected: the stability "
    "of the threshold was not measured; use monotonized_crc or ltt, or claims in memory"
)


def _terms(part: Request) -> LossTerms:
    bound: Any = part.bound
    bound = validate.number("bound", bound, above=0, below=np.inf)
    loss: Any = "fdr" if part.loss is None else part.loss
    claim_loss(loss)
    require_bound(loss, bound)
    require_thresholds(loss, part.thresholds)
    return LossTerms(loss, float(bound))


def _reaches(rule: Rule, task: ScanTask, tolerated: Sequence[float], below: float) -> Any:
    """Which sums matter to the rule, once the weights are known."""

    def reaches(total: float, test: float) -> list[Reach]:
        found = []
        for terms, level in zip(task.losses, tolerated, strict=True):
            limit = rule.largest_sum(total, test, terms.bound, level)
            around = terms.bound if task.items else 0.0
            low = limit - around - below * terms.bound
            found.append(Reach(low, limit, limit + around, rule.boldest))
        return found

    return reaches
