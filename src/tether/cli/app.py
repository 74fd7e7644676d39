"""The command line application, assembled from its commands.

Exit codes: 0 for success, 1 if a verification finds something wrong, 2 for invalid input, 3 if no
beta or threshold passes (serve the safe policy), if the stated promise is of no use, if no number
of rows is enough or if a preflight check fails, 4 while an alarm stands.
"""

from __future__ import annotations

import typer

from tether.cli.calibrate import calibrate
from tether.cli.demo import demo
from tether.cli.export import export
from tether.cli.halt import halt
from tether.cli.import_run import import_run
from tether.cli.keygen import keygen
from tether.cli.plan import plan
from tether.cli.preflight import preflight
from tether.cli.report import report
from tether.cli.resume import resume
from tether.cli.retire import retire
from tether.cli.sign import sign
from tether.cli.status import status
from tether.cli.threshold import threshold
from tether.cli.verify import verify

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
app.command()(halt)
app.command()(resume)
app.command()(retire)
app.command()(export)
app.command("import")(import_run)
app.command()(verify)
app.command()(sign)
app.command()(keygen)
app.command()(demo)
