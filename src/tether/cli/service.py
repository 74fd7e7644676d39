"""`tether serve`, `serve-key` and `record`: what is served over HTTP, its keys, its first rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from tether.cli.runs import SECONDS_TO_WAIT
from tether.cli.tables import read_columns
from tether.cli.terminal import Options, argument, command, print_line


@command()
def serve(
    file: Annotated[Path, argument("A TOML file with the settings of the service.")],
) -> None:
    """Serve a release, a run or a gateway over HTTP until Ctrl-C; logs go to stderr."""
    from tether.service.application import run_service

    run_service(file)


KEY: Options = {
    "role": (list[str], [], "What it may do: decide, report, operate or read; repeat."),
    "revoke": (bool, False, "Remove the key from the file."),
}


@command(given=KEY)
def serve_key(
    file: Annotated[Path, argument("The file of keys, which access.keys names.")],
    name: Annotated[str, argument("Who has the key; shown in the audit trail.")],
    given: Any,
) -> None:
    """Make an API key: it is shown once, and its hash is added to the file. Or revoke one."""
    from tether.service.access import add_key, remove_key

    if given["revoke"] == bool(given["role"]):
        raise ValueError("name either --role, to make a key, or --revoke")
    if given["revoke"]:
        remove_key(file, name)
        print_line(f"The key of {name} is revoked: running services refuse it within two seconds.")
        return
    print_line(add_key(file, name, given["role"]))
    typer.echo(f"The key of {name} is not shown again; {file} has its hash.", err=True)


RECORD: Options = {
    "prompt": (str, "prompt", "The column of prompts: texts, or lists of messages."),
    "answer": (str, "answer", "The column of answers."),
    "loss": (str, "loss", "The column of losses."),
    "seed": (int, 0, "The seed of what is drawn alongside the recorded answers."),
}


@command(given=RECORD)
def record(
    file: Annotated[Path, argument("The TOML file of a tethered gateway with a scorer.")],
    table: Annotated[str, argument("The labelled table: a CSV, Parquet, Arrow or JSON file.")],
    given: Any,
) -> None:
    """Give a labelled table to a gateway's store: its next round is calibrated on these rows.

    The answers must be the safe upstream's, under the model and settings that the file names; fresh
    ones are asked for alongside each of them.
    """
    columns = read_columns(table, {name: given[name] for name in ("prompt", "answer", "loss")})
    from tether.llm import chat_rows
    from tether.service import read_service_settings
    from tether.service.tethered import open_tethered

    settings = read_service_settings(file)
    if settings.gateway is None:
        raise ValueError(f"{file} has no [gateway]")
    contexts, actions = chat_rows(columns[given["prompt"]], columns[given["answer"]])
    with open_tethered(settings, SECONDS_TO_WAIT).run as run:
        units = run.history().units
        if len(units) > 1 or units[0].rows["old"]:
            raise ValueError(f"the store of {file} already holds rows: record into a new one")
        taken = run.record(contexts, actions, np.random.default_rng(given["seed"]))
        run.observe(taken.ids, columns[given["loss"]].astype(np.float64))
    print_line(f"{len(actions):,} rows recorded; the next round is calibrated on them.")
