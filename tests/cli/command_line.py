"""Running a command inside the test process."""

from typer.testing import CliRunner

from tether.cli.app import app


def run(*words):
    """Invoke `tether` with these arguments."""
    return CliRunner().invoke(app, [str(word) for word in words])


def one_line(result):
    """The output with line breaks and repeated spaces removed."""
    return " ".join(result.output.split())
