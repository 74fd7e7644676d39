"""What a run hands out: actions that were taken, and rows to learn from."""

import numpy as np

from tests.rounds.small_runs import controller
from tests.rounds.worlds import World, one_round


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
