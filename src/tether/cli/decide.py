"""`tether decide`: from a table to a decision, in one command."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import tether
from tether._core.files import import_path
from tether.cli.tables import open_columns
from tether.cli.terminal import (
    NOTHING_PASSES,
    TARGET,
    JsonOption,
    Options,
    Output,
    argument,
    command,
    numbers,
    refuse,
    target,
)

DECIDE: Options = TARGET | {
    "action": (str, "action", "The column of actions."),
    "loss": (list[str], ["loss"], "The column of losses; repeat for several."),
    "context": (list[str] | None, None, "A column that either policy looks at; repeat."),
    "actions": (list[str] | None, None, "All actions, in the order of probabilities; repeat."),
    "propensity": (str | None, None, "The column of probabilities of the actions taken."),
    "new": (str, "", "Required: module:name of a function, model or policy."),
    "old": (str | None, None, "The old policy in the same form; else from --propensity."),
    "reward": (str | None, None, "The column of rewards: what each action brought."),
    "cost": (str | None, None, "The column of what each action cost besides the losses."),
    "bound": (list[str], ["1.0"], "The largest possible loss; NAME=VALUE for several."),
    "min_propensity": (float | None, None, "A lower bound on the old policy's probabilities."),
    "family": (str | None, None, "clip or mix; by default clip with --old or of two actions."),
    "out": (Path | None, None, "Save the decision to this file; tether.load reads it."),
    "force": (bool, False, "Replace an existing file."),
    "details": (bool, False, "Print everything that is known."),
}


@command(given=DECIDE)
def decide(
    table: Annotated[str, argument("The table: a CSV, Parquet, Arrow or JSON lines file.")],
    given: Any,
    as_json: JsonOption = False,
) -> int:
    """Decide from a table how far a new policy may be followed.

    --new names a function of the context columns that returns an action or probabilities per row, a
    fitted classifier or a policy, in a module that can be imported. The exit code is 3 for a no.
    """
    out, force, plot, details = map(given.pop, ("out", "force", "plot", "details"))
    saved = Output(out, force, plot=plot)
    problems = saved.problems(table)
    given |= target(given, problems)
    if not given["new"]:
        problems.append("--new module:name is needed: the new policy")
    named = [(each, given[each]) for each in ("action", "propensity", "reward", "cost")]
    named += [(each, name) for each in ("loss", "context") for name in given[each] or ()]
    data = open_columns(table, named, problems)
    refuse(problems)
    sys.path.insert(0, "")  # modules beside the user's work
    for name in ("new", "old"):
        given[name] = import_path(given[name]) if given[name] else None
    given["bound"] = numbers("--bound", given["bound"])
    given["loss"] = given["loss"][0] if len(given["loss"]) == 1 else given["loss"]
    found = tether.decide(data.to_table().to_pandas(), **given)
    text = found.details() if details else None
    saved.show(found, as_json=as_json, text=text, plain=found.calibration)
    return 0 if found.calibration.useful else NOTHING_PASSES
