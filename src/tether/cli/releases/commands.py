"""The group of commands `tether release`."""

from __future__ import annotations

import typer

from tether.cli.releases.advance import advance
from tether.cli.releases.assign import assign
from tether.cli.releases.halt import release_halt
from tether.cli.releases.observe import observe
from tether.cli.releases.plan import plan
from tether.cli.releases.resume import release_resume
from tether.cli.releases.start import StartCommand, start
from tether.cli.releases.status import release_status

release_commands = typer.Typer(
    help="Ramp a new system up beside an old one; neither tells probabilities.",
    no_args_is_help=True,
)
release_commands.command(cls=StartCommand)(plan)
release_commands.command(cls=StartCommand)(start)
release_commands.command()(assign)
release_commands.command()(observe)
release_commands.command()(advance)
release_commands.command("status")(release_status)
release_commands.command("halt")(release_halt)
release_commands.command("resume")(release_resume)
