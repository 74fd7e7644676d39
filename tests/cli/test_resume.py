"""`tether resume`."""

from tests.cli.command_line import one_line, run
from tether.rounds import read_history


def test_an_alarm_is_cleared_with_its_reason(store, raise_alarm):
    done = run("resume", store, "--reason", "a drill")
    assert done.exit_code == 2
    assert "no alarm stands" in one_line(done)
    raise_alarm(store)
    assert run("resume", store, "--reason", " ").exit_code == 2
    assert run("resume", store, "--reason", "a drill").exit_code == 0
    assert read_history(store).alarms[0].reason == "a drill"
    assert run("status", store).exit_code == 0
