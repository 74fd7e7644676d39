"""What people may do, as the page offers it."""

import pytest

from tether.service.dashboard.offered_acts import release_acts, run_acts


@pytest.mark.parametrize("is_halted", [False, True])
def test_halt_and_resume_are_open_by_turns(is_halted):
    for acts in (
        release_acts(is_halted=is_halted, can_advance=True),
        run_acts(is_halted=is_halted, is_ramp=False, can_begin=True, is_beginning=False),
    ):
        found = {each.name: each.is_open for each in acts}
        assert (found.pop("halt"), found.pop("resume")) == (not is_halted, is_halted)
        assert list(found.values()) == [True]


def test_a_round_begins_once_and_where_something_makes_a_policy():
    state = {"is_halted": False, "is_ramp": False}
    *_, begin = run_acts(**state, can_begin=True, is_beginning=True)
    assert (begin.name, begin.is_open, begin.number_name) == ("begin", False, "round")
    names = [each.name for each in run_acts(**state, can_begin=False, is_beginning=False)]
    assert names == ["halt", "resume"]


def test_the_words_say_what_a_resumption_does():
    ramp = run_acts(is_halted=True, is_ramp=True, can_begin=False, is_beginning=False)
    plain = run_acts(is_halted=True, is_ramp=False, can_begin=False, is_beginning=False)
    assert "smallest share" in ramp[1].text
    assert "the present round" in plain[1].text
