"""Printing results, reporting errors and progress, and Ctrl-C."""

import signal
import subprocess
import sys

import pytest
import typer

from tether.cli import terminal


def test_errors_become_one_line_and_an_exit_code(capsys):
    @terminal.report_errors
    def fail():
        raise ValueError("a [bold] message\n  on two lines")

    with pytest.raises(typer.Exit) as raised:
        fail()
    assert raised.value.exit_code == terminal.INVALID_INPUT == 2
    assert capsys.readouterr().err == "error: a [bold] message on two lines\n"


def test_other_errors_are_not_hidden():
    @terminal.report_errors
    def fail():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()


def test_text_is_shown_literally_and_without_control_characters(capsys):
    terminal.print_line("[red]x[/] [/] \x1b[31m:smile:\nnext \u202e")
    assert capsys.readouterr().out == "[red]x[/] [/] \\x1b[31m:smile:\nnext \\u202e\n"
    terminal.print_error("error:", "[/] \x1b]0;x\x07 \ud800")
    assert capsys.readouterr().err == "error: [/] \\x1b]0;x\\x07 \\ud800\n"


def test_no_error_shows_a_password(capsys):
    @terminal.report_errors
    def fail(store):
        raise ValueError(f"could not open {store}: no route for 'p%40ss' or 'p@ss'")

    with pytest.raises(typer.Exit):
        fail(store="postgresql://ann:p%40ss@host/clinic")
    shown = capsys.readouterr().err
    assert shown == (
        "error: could not open postgresql://ann:***@host/clinic: no route for '***' or '***'\n"
    )


@pytest.mark.parametrize(
    "store", ["postgresql://ann:s3cret@x@host/d", "postgresql://ann:s3cret@host:port/d"]
)
def test_a_url_that_the_driver_would_misread_is_refused(store, capsys):
    @terminal.report_errors
    def command(store):
        raise AssertionError("not reached")

    with pytest.raises(typer.Exit) as raised:
        command(store=store)
    assert raised.value.exit_code == 2
    shown = capsys.readouterr().err
    assert "must be percent-encoded" in shown
    assert "s3cret" not in shown


def test_an_interrupt_is_one_line_and_exit_code_130(capsys):
    @terminal.report_errors
    def command():
        raise KeyboardInterrupt

    with pytest.raises(typer.Exit) as raised:
        command()
    assert raised.value.exit_code == 130
    assert capsys.readouterr().err == "interrupted\n"


INTERRUPTED_WORK = """
import time
from tether.cli.terminal import run_interruptibly

def work():
    print("ready", flush=True)
    time.sleep(600)

run_interruptibly(work)
"""


def test_an_interrupt_ends_a_calculation_that_does_not_see_it():
    command = [sys.executable, "-c", INTERRUPTED_WORK]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, shown = process.communicate(timeout=120)
    assert process.returncode == 130
    assert shown == "interrupted\n"


def test_results_and_errors_of_an_interruptible_calculation_are_its_own():
    assert terminal.run_interruptibly(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        terminal.run_interruptibly(lambda: 1 / 0)


SHOWN_TO_NOBODY = """
import sys
from tether.cli import terminal

class Long:
    def to_dict(self):
        return {"text": "x" * %d}

@terminal.report_errors
def command():
    sys.stdin.read()
    terminal.show(Long(), as_json=True)

import typer
app = typer.Typer()
app.command()(command)
app()
"""


@pytest.mark.parametrize("length", [10, 1_000_000])
def test_a_reader_that_has_seen_enough_is_no_error(length):
    with subprocess.Popen(
        [sys.executable, "-c", SHOWN_TO_NOBODY % length],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdout.close()
        process.stdin.close()
        shown = process.stderr.read()
        assert process.wait(120) == 141
    assert shown == b""
