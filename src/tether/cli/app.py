"""The command line application, assembled from its commands.

Exit codes: 0 for success, 1 if a verification or `tether doctor` finds something wrong, 2 for
invalid input, 3 if no beta, threshold or share passes (serve the safe policy or the old system), if
the stated promise is of no use, if no number of rows is enough or if a preflight check fails, 4
while an alarm stands, 130 after Ctrl-C.
"""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from tether._core.redact import redact_text
from tether._core.visible_text import visible
from tether.cli.backup import backup
from tether.cli.calibrate import calibrate
from tether.cli.demo import demo
from tether.cli.doctor import doctor
from tether.cli.export import export
from tether.cli.filter import filter_
from tether.cli.global_options import global_options
from tether.cli.halt import halt
from tether.cli.import_run import import_run
from tether.cli.keygen import keygen
from tether.cli.plan import plan
from tether.cli.preflight import preflight
from tether.cli.releases.commands import release_commands
from tether.cli.report import report
from tether.cli.resume import resume
from tether.cli.retire import retire
from tether.cli.serve import serve
from tether.cli.serve_key import serve_key
from tether.cli.sign import sign
from tether.cli.status import status
from tether.cli.threshold import threshold
from tether.cli.verify import verify


class PlainErrors(TyperGroup):
    """A group whose messages about wrong options show no control characters and no passwords."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Parse the arguments of the group."""
        try:
            return super().make_context(*arguments, **options)
        except Exception as error:
            _make_visible(error)
            raise

    def invoke(self, *arguments: Any, **options: Any) -> Any:
        """Parse the arguments of a command and call it."""
        try:
            return super().invoke(*arguments, **options)
        except Exception as error:
            _make_visible(error)
            raise


def _make_visible(error: Exception) -> None:
    """Escape control characters in the message of an error."""
    for name in ("message", "option_name", "param_hint"):
        text = getattr(error, name, None)
        if isinstance(text, str):
            setattr(error, name, visible(redact_text(text)))


app = typer.Typer(
    cls=PlainErrors,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.callback()(global_options)
app.command()(calibrate)
app.command()(plan)
app.command()(threshold)
app.command("filter")(filter_)
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
app.command()(backup)
app.command()(demo)
app.command()(doctor)
app.command()(serve)
app.command()(serve_key)
app.add_typer(release_commands, name="release")
