"""The group `tether release`: its commands, and those that it shares with other stores."""

from tests.cli.command_line import one_line, run
from tether.rounds import read_release


def test_the_group_lists_its_commands():
    shown = run("release", "--help").output
    for name in ("plan", "start", "assign", "observe", "advance", "status", "halt", "resume"):
        assert f" {name} " in shown
    assert run("release", "begin").exit_code == 2
    done = run("release", "\x1b[31m")
    assert done.exit_code == 2
    assert "\x1b" not in done.output


def test_halt_resume_and_status(store):
    assert run("release", "status", store).exit_code == 0
    assert run("release", "halt", store).exit_code == 2
    done = run("release", "halt", store, "--reason", "a fire", "--actor", "ann")
    assert done.exit_code == 0
    assert "until `tether resume`, the old system answers all keys." in one_line(done)
    assert read_release(store).share == 0
    shown = run("release", "status", store)
    assert shown.exit_code == 4
    assert "halted by ann: a fire; stands" in one_line(shown)
    assert run("release", "resume", store, "--reason", " ").exit_code == 2
    done = run("release", "resume", store, "--reason", "over", "--actor", "bob")
    assert done.exit_code == 0
    assert "The next key begins a new ramp, at the first share." in one_line(done)
    shown = run("release", "status", store)
    assert shown.exit_code == 0
    assert "resume by bob" in one_line(shown)
    assert ": over" in one_line(shown)
    assert "halt by ann" in one_line(shown)
    assert [each.act for each in read_release(store).audit] == ["halt", "resume"]


def test_the_table_of_steps_fits_into_80_columns(store, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("release", "status", store).output.splitlines()
    assert any("so small that even a new system that always fails" in line for line in lines)
    assert any("step  promise  latency, old  latency, new  95% interval" in line for line in lines)
