"""Which family a plan is for, its model, and what of its calibration the plan does not model."""

from __future__ import annotations

from typing import NamedTuple

from tether.control.families import BudgetedClip, Clip, Mix, find_family
from tether.control.log import Log
from tether.planning.clip_model import ClipModel
from tether.planning.confidence_model import ConfidenceModel
from tether.planning.context_clip_model import ContextClipModel
from tether.planning.mix_model import MixModel
from tether.planning.plan_model import PlanModel
from tether.planning.population import Population
from tether.planning.representative_log import RepresentativeLog


class Planned(NamedTuple):
    """The family, and what is not modelled, in words."""

    family: str
    not_modelled: str | None


def make_model(
    family: str,
    population: Population,
    max_ratio: float | None,
    confidence: float | None = None,
    rows: RepresentativeLog | None = None,
) -> PlanModel | ConfidenceModel:
    """The model of mix, or that of clip, which budgeted clip has as well.

    `rows` are those of a log with tables of all actions, where they are what is planned from.
    """
    if confidence is not None:
        name = Mix.name if family == Mix.name else Clip.name
        rows = rows or RepresentativeLog.from_population(population)
        return ConfidenceModel(population, rows, name, 1 - confidence)
    if family == Mix.name:
        return MixModel(population, max_ratio)
    if rows is not None:
        return ContextClipModel.from_rows(rows, max_ratio)
    return ClipModel(population.blended(), max_ratio)


def find_planned(family: str | None, log: Log | None, *, from_rows: bool) -> Planned:
    """The family that was named, or the one that a calibration on the log can have.

    Without the rows (`from_rows`), a plan of clip takes contexts to be alike.

    A log with contexts and a largest ratio, but no tables of all actions, is one of propensities:
    without the safe policy there are no draws of it, and mix is what can be calibrated.
    """
    chosen = Clip() if family is None else find_family(family)
    if isinstance(chosen, Mix):
        return Planned(chosen.name, None)
    if not isinstance(chosen, (Clip, BudgetedClip)):
        raise ValueError(f"family must be 'clip' or 'mix' in a plan, got {chosen.name!r}")
    contextual = log is not None and log.contextual
    no_tables = log is not None and contextual and not log.has_tables
    if family is None and no_tables and log is not None and log.max_ratio is not None:
        return Planned(Mix.name, None)
    if isinstance(chosen, BudgetedClip) or no_tables:
        return Planned(
            "budgeted_clip",
            "budgeted clip is planned as clip: with few draws per context its weights are noisier, "
            "its beta is another, and it may need more rows",
        )
    if contextual and not from_rows:
        return Planned(
            chosen.name,
            "the log has contexts: a plan from figures assumes that ratios and losses are spread "
            "alike in all of them. Where they are not, beta and rows can be far from it; plan from "
            "the rows of the log alone",
        )
    return Planned(chosen.name, None)
