"""`tether release plan`: how many rows of the old system a release should begin with."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Annotated

import typer

from tether.cli.releases import option_values
from tether.cli.terminal import JsonOption, print_line, report_errors
from tether.release.first_step_plan import FirstStepPlan, plan_first_step
from tether.release.guardrail import Guardrail


@report_errors
def plan(
    guardrail: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=ALPHA[:BOUND]",
            help="A loss and what is tolerated of it, as of `tether release start`.",
        ),
    ],
    promise: Annotated[
        bool,
        typer.Option("--promise", help="The numbers are for the whole promise, not for alpha."),
    ] = False,
    old_risk: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=RISK",
            help="The old system's mean loss. (default: half of what is tolerated)",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Say how many rows of the old system a release needs, and how likely fewer do not pass.

    They are the rows of --old, or else those of the first step; a release uses no others.
    """
    risks = option_values.named_numbers("--old-risk", old_risk or [])
    limits = option_values.guardrails(guardrail)
    if unknown := set(risks) - set(limits):
        raise ValueError(f"--old-risk must name guardrails {sorted(limits)}, got {sorted(unknown)}")
    plans = {
        name: _planned(name, each, risks.get(name), promise=promise)
        for name, each in limits.items()
    }
    if as_json:
        print(json.dumps({name: asdict(each) for name, each in plans.items()}, indent=2))
        return
    for name, each in plans.items():
        print_line(plan_text(name, each))


def _planned(
    name: str, tolerated: float | tuple[float, float], risk: float | None, *, promise: bool
) -> FirstStepPlan:
    tolerance, bound = tolerated if isinstance(tolerated, tuple) else (tolerated, 1.0)
    with option_values.naming_options({"risk": f"--old-risk {name}"}):
        target = {"promise" if promise else "alpha": tolerance}
        return plan_first_step(Guardrail(bound=bound, **target), risk)


def plan_text(name: str, plan: FirstStepPlan) -> str:
    """A plan as a table with a sentence above and below it."""
    guardrail = plan.guardrail
    asked = "an alpha" if guardrail.promise is None else "a promise"
    whole = guardrail.bound == 1
    lines = [f"{'rows':<10}  {'losses that pass':<16}  does not pass"]
    for each in plan.planned:
        most = f"{math.floor(each.most_losses):,}" if whole else f"{each.most_losses:.4g}"
        lines.append(f"{each.rows:<10,}  {most:<16}  {each.fails:.1%}")
    return "\n".join(
        [
            f"Rows of the old system for {asked} of {guardrail.tolerated:g} for {name}, if its "
            f"risk is {plan.risk:g}:",
            *lines,
            _conclusion(plan),
        ]
    )


def _conclusion(plan: FirstStepPlan) -> str:
    if plan.enough is None:
        return "No number of rows is enough: the risk is too close to what is tolerated."
    return (
        f"Begin with {plan.enough:,} or more: where they do not pass, the release has to begin "
        f"anew in another store."
    )
