"""What a run hands out: actions that were taken, and rows to learn from."""

import numpy as np

import tether
from tests.rounds.small_runs import controller
from tests.rounds.worlds import World, one_round
from tether.rounds import Controller


def test_taken_actions_can_be_used_as_an_array():
    run = Controller(tether.Gaussian(0.0), alpha=0.1, store="sqlite://")
    assert run.round is None
    taken = run.begin().act(4, np.random.default_rng(0))
    np.testing.assert_array_equal(np.asarray(taken), taken.actions)
    assert list(taken) == taken.actions.tolist()
    assert taken[1] == taken.actions[1]
    assert len(taken) == 4
    assert taken.ids.tolist() == [1, 2, 3, 4]


def test_the_optimizer_never_sees_a_calibration_row():
    world, rng = World("tables"), np.random.default_rng(4)
    run = controller(world, calibration_share=0.3)
    for number in range(1, 4):
        one_round(run, world, number, 200, rng)
    rows = run.training_rows()
    split = run._rows.calibration
    assert 0.2 < split.mean() < 0.4
    np.testing.assert_array_equal(rows.ids, np.flatnonzero(~split) + 1)
    np.testing.assert_array_equal(rows.actions, run._rows.actions[~split])
    # nothing else that is public hands out losses, or says which rows are set apart
    public = {name for name in dir(run) if not name.startswith("_")}
    assert public == {
        "advance", "begin", "close", "given_safe", "halt", "history", "observe", "pending", "plot",
        "resume", "retire", "round", "safe", "settings", "to_frame", "training_rows", "withdraw",
    }  # fmt: skip
    assert set(vars(rows)) == {
        "ids", "round", "contexts", "actions", "losses", "reward", "log_prob", "candidates"
    }  # fmt: skip
    assert len(run.pending()) == 0
    record = run.history().rounds[0]
    assert record.calibration_rows == split[:200].sum()  # counted, not shown


def test_training_rows_are_the_same_after_a_restart(tmp_path):
    world, rng = World("marginal"), np.random.default_rng(5)
    store = tmp_path / "run.db"
    with controller(world, store) as run:
        one_round(run, world, 1, 200, rng)
        first = run.training_rows().ids
    with controller(world, store) as run:
        run.begin(world.optimized(2)).act(100, rng)
        np.testing.assert_array_equal(run.training_rows().ids, first)


def test_training_rows_carry_the_density_of_what_acted():
    world, rng = World("tables"), np.random.default_rng(6)
    run = controller(world)
    rounds = {number: one_round(run, world, number, 150, rng)[0] for number in (1, 2, 3)}
    rows = run.training_rows()
    for number, each in rounds.items():
        mine = rows.round == number
        expected = each.policy.log_prob(rows.contexts[mine], rows.actions[mine])
        np.testing.assert_allclose(rows.log_prob[mine], expected, atol=1e-9)
    assert rows.reward.tolist() == (rows.ids % 7).tolist()
