"""`tether retire`."""

from tests.cli.command_line import one_line, run
from tether.rounds import read_history


def test_a_round_is_retired_once_and_with_a_reason(store):
    number = next(each.number for each in read_history(store).rounds if each.beta > 0)
    assert run("retire", store, str(number), "--reason", "").exit_code == 2
    assert run("retire", store, "999", "--reason", "lost").exit_code == 2
    assert run("retire", store, "1", "--reason", "lost").exit_code == 2  # the safe policy's
    assert run("retire", store, str(number), "--reason", "the disk failed").exit_code == 0
    done = run("retire", store, str(number), "--reason", "again")
    assert done.exit_code == 2
    assert "retired already" in one_line(done)
    assert read_history(store).rounds[number - 1].retired
    assert "(retired)" in one_line(run("status", store))
