"""The command line application, assembled from its commands.

Exit codes: 0 for success, 2 for invalid input, 3 if no beta or threshold passes (serve the safe
policy), if the stated promise is of no use, if no number of rows is enough or if a preflight check
fails, 4 while an alarm stands.
"""

from __future__ import annotations

import typer

from tether.cli.backup import backup
from tether.cli.calibrate import calibrate
from tether.cli.demo import demo
from tether.cli.export import export
from tether.cli.import_run import import_run
from tether.cli.plan import plan
from tether.cli.preflight import preflight
from tether.cli.report import report
from tether.cli.resume import resume
from tether.cli.status import status
from tether.cli.threshold import threshold

app = typer.Typer(
    help="Keep an optimized policy on a tether to a safe one.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(calibrate)
app.command()(plan)
app.command()(threshold)
app.command()(preflight)
app.command()(status)
app.command()(report)
app.command()(resume)
app.command()(export)
app.command("import")(import_run)
app.command()(backup)
app.command()(demo)
