"""`tether halt`."""

from tests.cli.command_line import one_line, run
from tether.rounds import read_history


def test_a_run_is_halted_until_someone_resumes_it(store):
    assert run("halt", store, "--reason", " ").exit_code == 2
    assert run("halt", store, "--reason", "a fire drill", "--actor", "Ada").exit_code == 0
    alarm = read_history(store).alarm
    assert (alarm.monitor, alarm.message) == ("halt", "halted by Ada: a fire drill")
    assert run("status", store).exit_code == 4
    assert run("resume", store, "--reason", "it is over", "--actor", "Bob").exit_code == 0
    done = run("status", store)
    assert done.exit_code == 0
    assert "by Bob: it is over" in one_line(done)
    assert "halt by Ada" in one_line(done)
    assert [(each.act, each.actor) for each in read_history(store).audit] == [
        ("halt", "Ada"),
        ("resume", "Bob"),
    ]
