"""The command line application, assembled from its commands.

Exit codes: 0 for success, 1 if a verification finds something wrong, 2 for invalid input, 3 if no
beta, threshold or share passes (serve the safe policy or the old system), if the stated promise is
of no use, if no number of rows is enough or if a preflight check fails, 4 while an alarm stands,
130 after Ctrl-C.
"""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from tether._version import __version__
from tether.cli import calibrate, decide, preflight, release, runs, service, thresholds

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"tether {__version__}")
        raise typer.Exit


@app.callback()
def global_options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", is_eager=True, callback=_print_version
        ),
    ] = False,
    verbose: Annotated[
        int,
        typer.Option("--verbose", "-v", count=True, help="Log progress to stderr; -vv for more."),
    ] = 0,
) -> None:
    """Keep an optimized policy on a tether to a safe one."""
    if verbose:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logger = logging.getLogger("tether")
        logger.handlers = [handler]
        logger.setLevel(logging.INFO if verbose == 1 else logging.DEBUG)


PANELS = {
    "From a table": (decide.decide, calibrate.calibrate, calibrate.plan, preflight.preflight),
    "Scored claims": (thresholds.threshold, thresholds.filter_),
    "Runs and saved results": (
        *(runs.status, runs.report, runs.halt, runs.resume, runs.tighten, runs.retire),
        *(runs.verify, runs.export, runs.import_, runs.keygen),
    ),
    "Service": (service.serve, service.serve_key, service.record),
}
for panel, commands in PANELS.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
app.add_typer(release.app, name="release", rich_help_panel="Runs and saved results")
