"""States of a release, one after the other, as events."""

from itertools import pairwise
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from tether.release import ArmCounts
from tether.rounds.history import Alarm
from tether.rounds.releases.served_release import ReleaseState, ServedRelease
from tether.rounds.run_state import RunState
from tether.service.operating.release_events import ReleaseEvents

LOG = {"complaint": ArmCounts(2000, 20.0)}


def test_a_release_from_its_steps_to_its_resumption():
    with ServedRelease("sqlite://", {"complaint": 0.02}, old=LOG) as release:
        one, other = ReleaseEvents("shop"), ReleaseEvents("shop")
        seen = []

        def look():
            state = release.state()
            found = one.noticed(state)
            assert [each.id for each in found] == [each.id for each in other.noticed(state)]
            seen.extend(found)

        look()
        release.advance()
        look()
        release.halt("a rumour", actor="ann")
        look()
        look()
        late = ReleaseEvents("shop")
        assert [each.id for each in late.noticed(release.state())] == ["shop/halt/1"]
        release.resume("it was none", actor="bob")
        release.advance()
        look()
    assert [each.id for each in seen] == [
        "shop/step/2",
        "shop/halt/1",
        "shop/resume/1",
        "shop/step/3",
    ]
    halt = seen[1].to_dict()
    assert (halt["event"], halt["share"], halt["details"]["monitor"]) == ("halt", 0.0, "halt")
    assert "a rumour" in halt["text"]
    assert 0 < seen[-1].share < 0.02


def test_outages_have_ids_of_their_own():
    with ServedRelease("sqlite://", {"complaint": 0.02}, old=LOG) as release:
        state = release.state()
    one, other = ReleaseEvents("shop"), ReleaseEvents("shop")
    assert one.noticed(None) == one.noticed(state) == []  # it was not known before
    found = [event for each in (None, None, state, None, state) for event in one.noticed(each)]
    assert [each.details["available"] for each in found] == [False, True, False, True]
    other.noticed(state)
    ids = {each.id for each in (*found, *other.noticed(None))}
    assert len(ids) == 5


@given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from([None, 1, 2, 3])), min_size=1))
def test_each_change_is_one_event(states):
    """Against the definition, for any order of steps and alarms."""
    events = ReleaseEvents("shop")
    made = [state(step, alarm) for step, alarm in states]
    found = [[each.id for each in events.noticed(each)] for each in made]
    first_alarm = states[0][1]
    assert found[0] == ([] if first_alarm is None else [f"shop/alarm/{first_alarm}"])
    for changes, ids in zip(pairwise(states), found[1:], strict=True):
        (step, alarm), (next_step, next_alarm) = changes
        expected = set()
        if alarm != next_alarm:
            expected |= set() if alarm is None else {f"shop/resume/{alarm}"}
            expected |= set() if next_alarm is None else {f"shop/alarm/{next_alarm}"}
        expected |= set() if step == next_step else {f"shop/step/{next_step}"}
        assert len(ids) == len(expected)
        assert set(ids) == expected


def state(number, alarm):
    step = SimpleNamespace(number=number, share=0.5, begun="now")
    raised = None if alarm is None else Alarm(alarm, number, "risk", "too high", "now")
    return ReleaseState(step, 0.0 if raised else 0.5, raised)


def test_a_run_has_rounds_instead_of_steps():
    raised = Alarm(1, 2, "risk", "the mean loss is too high", "now")
    states = [
        RunState(1, "then", None, "", {"beta": 0.0}),
        RunState(2, "now", "v1", "", {"beta": 1.5}),
        RunState(2, "now", "v1", "", {"beta": 1.5}, alarm=raised),
    ]
    events = ReleaseEvents("gateway")
    found = [each for state in states for each in events.noticed(state)]
    assert [each.id for each in found] == ["gateway/round/2", "gateway/alarm/1"]
    assert found[0].text == "gateway: round 2 has begun; its beta is 1.5"
    assert found[0].share is None
    assert found[1].details["round"] == 2
    assert "the safe policy acts alone" in found[1].text


def test_an_infinite_beta_is_json():
    state = RunState(2, "now", "v1", "", {"beta": float("inf")})
    assert state.begun_details["beta"] == "inf"
    assert state.figures["beta"] == float("inf")
