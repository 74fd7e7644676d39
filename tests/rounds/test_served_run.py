"""A run behind a service: it follows rounds of other processes, and begins its own beside."""

import threading

import numpy as np
import pytest

import tether
from tether.rounds import verify_store
from tether.rounds.served_run import NoSuchRoundError, ServedRun

ACTIONS = ["wait", "treat"]
SAFE = tether.Categorical.from_probabilities([0.8, 0.2], actions=ACTIONS)
BOLD = tether.Categorical.from_probabilities([0.3, 0.7], actions=ACTIONS)


def opened(store, **options):
    options = {"alpha": 0.3, "missing": "exclude"} | options
    return tether.Controller(SAFE, store=f"sqlite:///{store}", **options)


def collect(served, count=300):
    taken = served.act(count)
    losses = (taken.actions == "treat").astype(float) * 0.5
    served.observe(taken.ids.tolist(), {"loss": losses})
    return taken


@pytest.fixture
def store(tmp_path):
    return tmp_path / "run.db"


def test_the_first_round_is_the_safe_policys_and_the_next_begins_beside(store):
    may_go_on, seen = threading.Event(), []

    def improve(rows):
        seen.append(len(rows))
        assert may_go_on.wait(30)
        return BOLD

    served = ServedRun(opened(store), improve)
    taken = collect(served)
    assert (taken.served, taken.stored) == (0, True)
    state = served.follow()
    assert (state.number, state.level, state.policy) == (1, {"beta": 0.0}, None)
    assert served.begin(1, "enough rows", actor="ann") == 2
    assert served.begin(1, "enough rows", actor="ann") == 2  # repeated: nothing happens
    with pytest.raises(NoSuchRoundError):
        served.begin(2, "enough rows", actor="ann")
    assert served.follow().beginning
    assert served.act(3).served == 0  # no action waits for the calibration
    may_go_on.set()
    served.wait()
    state = served.follow()
    assert (state.number, state.beginning, state.begin_failure) == (2, False, "")
    assert state.level["beta"] > 0
    assert state.figures == {"round": 2, **state.level}
    assert state.promises["loss"] > 0
    assert np.unique(served.act(50).served).tolist() == [2]
    assert 0 < seen[0] < 300
    assert [each.act for each in served.run.history().audit] == ["begin"]
    with pytest.raises(NoSuchRoundError):
        served.begin(1, "again", actor="ann")
    served.close()
    assert verify_store(store).ok


def test_another_process_begins_a_round_while_this_one_calibrates(store):
    may_go_on, other = threading.Event(), opened(store)

    def improve(rows):
        other.begin(BOLD)
        with mine.run._lock:  # as a calibration has it
            may_go_on.wait(30)
        return BOLD

    mine = ServedRun(other, improve)
    collect(mine)
    mine.close()
    other, mine = opened(store), ServedRun(opened(store), improve)
    mine.begin(1, "x", actor="ann")
    for _ in range(1000):
        if other.history().rounds[-1].number == 2:
            break
    assert mine.act(3).served == 0  # does not wait, and the rows are the safe policy's
    may_go_on.set()
    mine.wait()
    state = mine.follow()
    assert state.number in (2, 3)
    assert mine.act(3).served == state.number
    mine.close()
    other.close()
    assert verify_store(store).ok


def test_keys_return_the_same_actions_also_in_later_rounds(store):
    served = ServedRun(opened(store), lambda rows: BOLD)
    collect(served)
    first = served.act(5, key="a")
    served.begin(1, "x", actor="ann")
    served.wait()
    second = served.act(5, key="b")
    for key, taken in (("a", first), ("b", second)):
        again = served.act(5, key=key)
        assert again.ids.tolist() == taken.ids.tolist()
        assert again.actions.tolist() == taken.actions.tolist()
        assert np.broadcast_to(taken.served, 5).tolist() == again.served.tolist()
    served.close()


def test_without_the_store_the_safe_policy_acts_and_its_rows_are_spooled(store):
    served = ServedRun(opened(store, fallback="safe", deadline=0.2), lambda rows: BOLD)
    collect(served)
    served.begin(1, "x", actor="ann")
    served.wait()
    blocker = opened(store, deadline=60)
    with blocker._store.writing(exclusive=True):
        taken = served.act(2, key="k")
        assert (taken.served, taken.stored) == (0, False)
        again = served.act(2, key="k")
        assert (again.ids.tolist(), again.stored) == (taken.ids.tolist(), False)
    blocker.close()
    served.observe(taken.ids.tolist(), {"loss": [0.0, 0.0]})  # delivers first
    again = served.act(2, key="k")
    assert (again.ids.tolist(), again.stored) == (taken.ids.tolist(), True)
    served.close()
    assert verify_store(store).ok


def test_two_services_on_one_store(store_url, tmp_path):
    """Rounds and halts of one are those of the other, on both databases; spools are apart."""
    mine, other = (
        ServedRun(
            tether.Controller(
                SAFE, store=store_url, alpha=0.3, missing="exclude", fallback="safe",
                spool=tmp_path / name,
            ),
            lambda rows: BOLD,
        )
        for name in ("a", "b")
    )  # fmt: skip
    collect(mine)
    other.begin(1, "enough", actor="ann")
    other.wait()
    assert other.follow().number == mine.follow().number == 2
    assert mine.follow().level == other.follow().level
    assert np.unique(mine.act(10, key="k").served).tolist() == [2]
    assert other.act(10, key="k").ids.tolist() == mine.act(10, key="k").ids.tolist()
    other.halt("complaints", actor="ann")
    assert mine.act(3).served == 0
    for each in (mine, other):
        each.close()
    assert verify_store(store_url).ok
