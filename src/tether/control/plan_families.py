"""Which family a plan is for, its model, and what of its calibration the plan does not model."""

from __future__ import annotations

from typing import NamedTuple

from tether.control.families import BudgetedClip, Clip, Mix, find_family
from tether.control.log import Log
from tether.control.plan_clip import ClipModel
from tether.control.plan_confidence import ConfidenceModel, RepresentativeLog
from tether.control.plan_mix import MixModel
from tether.control.plan_model import PlanModel
from tether.control.plan_population import Population


class Planned(NamedTuple):
    """The family, and what is not modelled, in words."""

    family: str
    not_modelled: str | None


def make_model(
    family: str, population: Population, max_ratio: float | None, confidence: float | None = None
) -> PlanModel | ConfidenceModel:
    """The model of mix, or that of clip, which budgeted clip has as well."""
    if confidence is not None:
        name = Mix.name if family == Mix.name else Clip.name
        rows = RepresentativeLog.from_population(population)
        return ConfidenceModel(population, rows, name, 1 - confidence)
    if family == Mix.name:
        return MixModel(population, max_ratio)
    return ClipModel(population.blended(), max_ratio)


def find_planned(family: str | None, log: Log | None) -> Planned:
    """The family that was named, or the one that a calibration on the log can have.

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
    if contextual:
        return Planned(
            chosen.name,
            "the log has contexts: the plan assumes that ratios and losses are spread alike in all "
            "of them. Where they are not, the beta of clip can be another; calibrate on the log to "
            "see it",
        )
    return Planned(chosen.name, None)
