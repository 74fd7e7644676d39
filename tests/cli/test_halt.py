"""`tether halt`."""

from tests.cli.command_line import one_line, run
from tether.rounds import read_history


def test_a_run_is_halted_until_someone_resumes_it(store):
    assert run("halt", store, "--reason", " ").exit_code == 2
    assert run("halt", store, "--reason", "a fire drill", "--actor", "Ada").exit_code == 0
    again = run("halt", store, "--reason", "another", "--actor", "Eve")
    assert "the safe policy acts. Alarm 1 stood already: halted by Ada: a fire drill" in one_line(
        again
    )
    alarm = read_history(store).alarm
    assert (alarm.monitor, alarm.message) == ("halt", "halted by Ada: a fire drill")
    assert run("status", store).exit_code == 4
    assert run("resume", store, "--reason", "it is over", "--actor", "Bob").exit_code == 0
    done = run("status", store)
    assert done.exit_code == 0
    assert one_line(done).endswith(": it is over")
    assert "halt by Ada" in one_line(done)
    assert "resume by Bob" in one_line(done)
    assert [(each.act, each.actor) for each in read_history(store).audit] == [
        ("halt", "Ada"),
        ("halt", "Eve"),
        ("resume", "Bob"),
    ]
