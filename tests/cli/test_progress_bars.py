"""Bars on stderr for the steps of long work."""

import os
import pty
import signal
import subprocess
import sys

import pytest

from tether import progress_bars
from tether._core import progress
from tether.cli.terminal import run_interruptibly


def test_bars_are_shown_on_a_terminal_only(capsys, monkeypatch):
    with progress_bars(), progress.step("reading [/] \x1b", total=10) as step:
        step.advance(5)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress_bars(), progress.step("reading [/] \x1b", total=10) as step:
        step.advance(5)
        with progress.step("requests"):
            pass
    out, shown = capsys.readouterr()
    assert out == ""
    assert "reading [/] \\x1b" in shown
    assert "/10" in shown
    assert "requests" in shown


def test_nothing_is_drawn_without_a_step(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress_bars():
        pass
    assert capsys.readouterr() == ("", "")


def test_steps_of_an_interruptible_calculation_are_shown(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")

    def work():
        for name in ("drawing", "scoring"):
            with progress.step(name, total=2) as step:
                step.advance(2)
        return 7

    assert run_interruptibly(work) == 7
    shown = capsys.readouterr().err
    assert "drawing" in shown
    assert "scoring" in shown


INTERRUPTED = """
import sys, time
from tether._core import progress
from tether.cli.terminal import report_errors, run_interruptibly

def work():
    with progress.step("drawing", total=3) as step:
        step.advance()
        print("ready", flush=True)
        time.sleep(600)

@report_errors
def command():
    {how}

try:
    command()
except BaseException as error:
    sys.exit(getattr(error, "exit_code", 9))
"""


@pytest.mark.parametrize("how", ["work()", "run_interruptibly(work)"])
def test_an_interrupt_removes_the_bars_and_shows_the_cursor_again(how):
    terminal, theirs = pty.openpty()
    command = [sys.executable, "-c", INTERRUPTED.format(how=how)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, text=True)
    try:
        os.close(theirs)
        assert process.stdout.readline() == "ready\n"  # and not on the terminal with the bars
        process.send_signal(signal.SIGINT)
        shown = b""
        while True:
            try:
                part = os.read(terminal, 4096)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            shown += part
        assert process.wait(120) == 130
    finally:
        process.kill()
        process.stdout.close()
        os.close(terminal)
    assert b"drawing" in shown
    assert shown.rindex(b"\x1b[?25h") > shown.rindex(b"\x1b[?25l")  # the cursor is shown
    assert shown.rindex(b"\x1b[2K") > shown.rindex(b"drawing")  # the line is erased
    assert b"interrupted" in shown[shown.rindex(b"\x1b[2K") :]
