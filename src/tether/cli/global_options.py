"""Options of `tether` itself, before any command: its version, and what it logs."""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from tether._version import __version__

LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"tether {__version__}")
        raise typer.Exit


def global_options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", is_eager=True, callback=_print_version
        ),
    ] = False,
    verbose: Annotated[
        int,
        typer.Option(
            "--verbose", "-v", count=True, help="Log to stderr what is done; -vv in more detail."
        ),
    ] = 0,
) -> None:
    """Keep an optimized policy on a tether to a safe one."""
    if verbose:
        show_logs(LEVELS[min(verbose, len(LEVELS) - 1)])


def show_logs(level: int) -> None:
    """Show records of the `tether` logger on stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("tether")
    for earlier in [each for each in logger.handlers if type(each) is logging.StreamHandler]:
        logger.removeHandler(earlier)
    logger.addHandler(handler)
    logger.setLevel(level)
